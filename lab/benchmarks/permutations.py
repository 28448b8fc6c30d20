"""What permutations cost: ratios within one run, on one thread.

    python lab/benchmarks/permutations.py

Every ratio is the median over rounds in which all contestants take turns, with the quartiles behind it. Memory is the
peak of a process of its own, less what it takes to import everything and to make the input.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

import minframe as mf

ROUNDS = 7
S = mf.S()


def seconds(function: Callable[[], object], repeats: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    return (time.perf_counter() - start) / repeats


def ratio(
    contestant: Callable[[], object], reference: Callable[[], object], rounds: int = ROUNDS
) -> tuple[float, float, float]:
    """Quartiles of the time of one over that of the other, round by round."""
    contestant()
    reference()
    repeats = max(1, round(0.03 / seconds(reference)))
    found = [seconds(contestant, repeats) / seconds(reference, repeats) for _ in range(rounds)]
    low, middle, high = statistics.quantiles(found, n=4, method="inclusive")
    return low, middle, high


def line(text: str, value: tuple[float, float, float], at_most: float, unit: str = "") -> None:
    low, middle, high = value
    over = "" if middle <= at_most else "OVER"
    spread = f"[{low:.2f}, {high:.2f}]" if low != high else ""
    print(
        f"  {text:64s} {middle:7.2f}{unit:3s} {spread:16s} at most {at_most:g}{unit}  {over}",
        flush=True,
    )


def connected_graphs(n: int) -> Tensor:
    """All connected graphs with ``n`` nodes up to isomorphism, ``(count, n, n)``, by adding a node in all ways."""
    level = torch.zeros(1, 1, 1, dtype=torch.int64)
    for m in range(1, n):
        subsets = (
            torch.arange(1, 2**m).unsqueeze(-1) >> torch.arange(m) & 1
        )  # every connected graph has a node to spare
        new = level.new_zeros(len(level), len(subsets), m + 1, m + 1)
        new[..., :m, :m] = level.unsqueeze(1)
        new[..., m, :m] = new[..., :m, m] = subsets
        i, j = torch.triu_indices(m + 1, m + 1, 1)
        bits = torch.arange(len(i))
        parts = new.flatten(0, 1).split(20_000)
        keys = torch.cat([(mf.graph.canonical_form(part).edges[:, i, j] << bits).sum(-1) for part in parts]).unique()
        level = keys.new_zeros(len(keys), m + 1, m + 1)
        level[:, i, j] = level[:, j, i] = keys.unsqueeze(-1) >> bits & 1
    return level


def canonical_forms() -> None:
    from igraph import GraphBase

    graphs = connected_graphs(8)
    i, j = torch.triu_indices(8, 8, 1)
    prepared = []
    for a in graphs:
        present = a[i, j] > 0
        prepared.append(GraphBase(8, list(zip(i[present].tolist(), j[present].tolist(), strict=True)), False))
    x = graphs.float()
    value = ratio(
        lambda: S.frame(x, type="edge").to_canonical(x, type="edge"),
        lambda: [g.canonical_permutation() for g in prepared],
    )
    line(f"canonical form of {len(x):,} graphs, over igraph's labelling (aim 1.5)", value, 4)


def products() -> None:
    x = torch.randn(256, 32, 3)
    product, alone = S * mf.O(3), mf.O(3)
    value = ratio(lambda: mf.canonicalize(x, product), lambda: mf.canonicalize(x, alone))
    line("S() * O(3) over O(3), generic (256, 32, 3)", value, 5)
    forth = [mf.Equivariant(lambda x: x.roll(1, -1), group) for group in (product, alone)]
    value = ratio(lambda: forth[0](x), lambda: forth[1](x))
    line("the same with outputs", value, 5)


def large_symmetry() -> None:
    k64 = 1 - torch.eye(64)
    upper = (torch.rand(64, 64) < 0.5).float().triu(1)
    random = upper + upper.mT
    for type in ("node", "edge"):

        def net(a: Tensor, type: str = type) -> Tensor:
            return a.cumsum(-1).sum(-1, keepdim=True) if type == "node" else a.cumsum(-1)

        model = mf.Equivariant(net, S, "edge", type)
        value = ratio(lambda model=model: model(k64), lambda model=model: model(random))
        line(f"K_64 over a random graph of 64 nodes, {type} outputs", value, 3)


def invariant_rows() -> None:
    x = torch.randn(1024, 100, 3)
    group, unordered = mf.O(3), mf.frames.Unordered()
    value = ratio(lambda: mf.canonicalize(x, group, frames=unordered), lambda: mf.canonicalize(x, group))
    line("Unordered() over Minimal(), O(3), (1024, 100, 3) (aim 2)", value, 3)


def sparse() -> None:
    n, e = 100_000, 500_000
    index = torch.unique(torch.randint(0, n, (2, e)), dim=1)
    h = torch.zeros(n, 1)

    def net(edge_index: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return h.index_add(0, edge_index[1], torch.arange(edge_index.shape[1]).float().unsqueeze(-1)), edge_index[
            0
        ].float()

    model = mf.Equivariant(net, S, {"edge_index": "edge_index", "h": "node"}, ("node", "edge_attr"))
    taken = seconds(lambda: model(index, h))
    line(f"{n:,} nodes, {index.shape[1]:,} edges, node and edge outputs", (taken, taken, taken), 60, " s")


MEMORY = {
    "1,000 generic points, S() * O(3)": "g, x = mf.S() * mf.O(3), torch.randn(1000, 3)",
    "10 x 10 x 10 lattice, S() * E(3)": "g, x = mf.S() * mf.E(3), torch.cartesian_prod(*[torch.arange(10.)] * 3)",
    "500 points and their mirror images, S() * O(3)": (
        "y = torch.randn(500, 3); g, x = mf.S() * mf.O(3), torch.cat([y, y * torch.tensor([1., 1, -1])])"
    ),
    "1,000 points, S() on their distances": "g, x = mf.S(), torch.cdist(*[torch.randn(1000, 3)] * 2)",
}
PROGRAM = """
import resource, sys, torch, minframe as mf
def peak():  # in bytes; Linux lets a new program begin with the peak of its parent in getrusage, but not here
    try:
        status = open("/proc/self/status").read()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
torch.set_num_threads(1)
mf.Equivariant(lambda x: x, mf.S(), "edge", "edge")(torch.ones(4, 4))
{setup}
type = "edge" if x.shape[0] == x.shape[1] else "point"
before = peak()
mf.Equivariant(lambda x: x.roll(1, -1), g, type, type)(x)
print(peak() - before)
"""


def memory() -> None:
    for text, setup in MEMORY.items():
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(setup=setup)], capture_output=True, text=True, check=True
        )
        value = int(run.stdout.split()[-1]) / 1e9
        line(f"memory of {text}", (value, value, value), 1, " GB")


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("Permutations, graphs and products (median and quartiles)")
    with torch.no_grad():
        for part in (canonical_forms, products, large_symmetry, invariant_rows, sparse, memory):
            part()


if __name__ == "__main__":
    main()
