"""How far a reader has to travel: files entered and changes of file in one call of a wrapped model.

``python lab/benchmarks/crossings.py`` prints a table; ``--trace CASE`` lists the calls of one case in their order. A
change of file is counted where a Python function of the package is called after one of another file. The second call of
a model is taken, so that nothing that is found once and kept is in the figures. Functions of the standard library that
dataclasses and enumerations generate have no file and are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import minframe as mf

ROOT = Path(mf.__file__).parent
#: changes of file: half of what they were when the layers were drawn, but for products, where a compiled loop that cuts
#: cells of points costs seven more (49 were aimed at)
AT_MOST = {
    "E(3) dense": 35,
    "E(3) masked": 41,
    "E(3) batch vector": 53,
    "E(3) unordered": 36,
    "S() * O(3)": 63,
    "S() sparse graph": 43,
}


class Call(NamedTuple):
    """A function of the package that was called, and its file."""

    file: str
    function: str
    line: int


def calls(run: Callable[[], object]) -> list[Call]:
    """All calls of functions of the package, in their order."""
    found: list[Call] = []

    def record(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            found.append(Call(str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname, code.co_firstlineno))

    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def changes(found: list[Call]) -> int:
    """How often a call is in another file than the one before; the first comes from a file of the user's."""
    return 1 + sum(a.file != b.file for a, b in pairwise(found))


def cases() -> dict[str, Callable[[], object]]:
    """The calls that are counted: each a wrapped model on a small batch."""
    torch.manual_seed(0)
    net = nn.Linear(3, 3)
    x, mask = torch.randn(4, 5, 3), torch.ones(4, 5, dtype=torch.bool)
    mask[1, 3:] = False
    rows, batch = torch.randn(12, 3), torch.tensor([0] * 5 + [1] * 7)
    ring = torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12])
    features = torch.randint(3, (12, 2)).float()

    def masked(x: Tensor, mask: Tensor) -> Tensor:
        return net(x) * mask.unsqueeze(-1)

    def ragged(x: Tensor, batch: Tensor) -> Tensor:
        return net(x)

    def graph(x: Tensor, edge_index: Tensor) -> Tensor:
        return x.index_add(0, edge_index[1], x[edge_index[0]])

    dense = mf.Equivariant(net, mf.E(3))
    with_mask = mf.Equivariant(masked, mf.E(3), mask="mask")
    with_batch = mf.Equivariant(ragged, mf.E(3), batch="batch")
    unordered = mf.Equivariant(net, mf.E(3), frames=mf.frames.Unordered())
    product = mf.Equivariant(net, mf.S() * mf.O(3))
    types = {"x": "node", "edge_index": "edge_index"}
    sparse = mf.Equivariant(graph, mf.S(), inputs=types, outputs="node")
    return {
        "E(3) dense": lambda: dense(x),
        "E(3) masked": lambda: with_mask(x, mask=mask),
        "E(3) batch vector": lambda: with_batch(rows, batch=batch),
        "E(3) unordered": lambda: unordered(x),
        "S() * O(3)": lambda: product(x),
        "S() sparse graph": lambda: sparse(features, edge_index=ring),
    }


def counted() -> dict[str, list[Call]]:
    """The calls of each case, the second time."""
    found = {}
    with torch.no_grad():
        for name, run in cases().items():
            run()
            found[name] = calls(run)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trace", metavar="CASE", help="list the calls of the cases whose name contains this")
    options = parser.parse_args()
    print(f"{'':20}{'calls':>8}{'files':>8}{'changes':>9}{'at most':>9}")
    for name, found in counted().items():
        files, change = len({call.file for call in found}), changes(found)
        print(
            f"{name:20}{len(found):8}{files:8}{change:9}{AT_MOST[name]:9}{'  OVER' if change > AT_MOST[name] else ''}"
        )
        if options.trace and options.trace in name:
            for before, call in zip([None, *found], found, strict=False):
                change = before is None or before.file != call.file
                print(f"    {call.file if change else '':28}{call.function}:{call.line}")


if __name__ == "__main__":
    main()
