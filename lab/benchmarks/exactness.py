"""How exact permutations and their products are: the worst relative error over a thousand random elements.

    python lab/benchmarks/exactness.py [clouds|graphs|census|encodings|molecules] [--elements 1000] [--group SE]

Of clouds: a backbone that knows neither permutations nor rotations, wrapped with ``S() * G``. Of graphs: whether the
backbone is always shown the same, bit by bit, and how far its outputs for nodes and edges are off, which is to be
nothing at all. ``census``: the same for each of the 11,117 connected graphs with 8 nodes. ``encodings``: how
many of ten thousand graphs like molecules, a thousand trees and the strongly regular graphs have other positional
encodings (``mf.spectral``) once they are relabelled. ``molecules``: the share of noisy copies of symmetric molecules
whose output is wrong, reordered and turned, at each noise. Clouds, graphs and backbones are those of the tests.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

import minframe as mf

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from backbones import deviation, lopsided, lopsided_graph
from clouds import all_clouds
from frame.test_near_symmetric import MOLECULES, on_rows, on_sets
from graphs import GRAPHS, SHAPES, all_graphs, connected
from molecular_graphs import STRONGLY_REGULAR, molecule_like, tree

DTYPES = {"float64": torch.float64, "float32": torch.float32}
CLOUD_BOUNDS = {torch.float64: 1e-11, torch.float32: 1e-5}
ENTRIES = 1 << 16  # of the rows or edges of what is looked at together
S = mf.S()
OUTPUTS = {"scalar": "scalar", "node": "node", "edge": "edge"}


def portions(elements: int, entries: int) -> Iterator[int]:
    """How many elements to look at together, until all are."""
    most = min(100, max(1, ENTRIES // max(1, entries)))
    for start in range(0, elements, most):
        yield min(most, elements - start)


def report(name: str, dtype: torch.dtype, figures: dict[str, float], bound: float, started: float) -> bool:
    """Print a row; whether all of it is within the bound."""
    row = "  ".join(f"{k} {v:.1e}{'' if v <= bound else ' OVER'}" for k, v in figures.items())
    print(f"  {name:30}{str(dtype)[6:]:9}{row}  ({time.perf_counter() - started:.0f} s)", flush=True)
    return all(v <= bound for v in figures.values())


def cloud_error(group: mf.Group, x: Tensor, elements: int) -> float:
    model = mf.Equivariant(lopsided, group)
    generator = torch.Generator().manual_seed(0)
    errors = [
        mf.testing.equivariance_error(model, group, x.expand(k, *x.shape), elements=1, generator=generator).max()
        for k in portions(elements, len(x) ** 2)
    ]
    return float(torch.stack(errors).max())


def clouds(elements: int, kinds: list[str], dtypes: list[torch.dtype], most: int) -> bool:
    print(f"S() * G, worst relative error over {elements} elements")
    within = True
    for name, cloud in all_clouds().items():
        if cloud.shape[-1] != 3 or len(cloud) > most:
            continue
        for dtype in dtypes:
            started = time.perf_counter()
            row = {k: cloud_error(mf.S() * getattr(mf, k)(3), cloud.to(dtype), elements) for k in kinds}
            within &= report(name, dtype, row, CLOUD_BOUNDS[dtype], started)
    return within


def comparison(a: Tensor, h: Tensor | None = None) -> Callable[[Tensor], dict[str, float]]:
    """For graphs ``(k | 1, n, n)``: how far what comes of them moved by ``g`` ``(k, n)`` is off, in the worst case."""
    inputs = {"a": "edge"} | ({} if h is None else {"h": "node"})
    args = (a,) if h is None else (a, h.unsqueeze(0))
    shown: list[Tensor] = []

    def net(a: Tensor, h: Tensor | None = None) -> dict[str, Tensor]:
        shown.append(a)
        return lopsided_graph(a, h)

    model = mf.Equivariant(net, S, inputs, OUTPUTS)
    plain = model(*args)
    form = shown.pop()

    def compare(g: Tensor) -> dict[str, float]:
        def moved(x: Tensor, type: str) -> Tensor:
            return S.act(g, x.expand(len(g), *x.shape[1:]), type)

        found = model(*(moved(x, type) for x, type in zip(args, inputs.values(), strict=True)))
        same = torch.equal(shown.pop(), form.expand(len(g), *form.shape[1:]))
        same = same and torch.equal(found["scalar"], plain["scalar"].expand(len(g)))
        off = {kind: deviation(found[kind], moved(plain[kind], kind)) for kind in ("node", "edge")}
        return {"shown": 0.0 if same else 1.0} | off

    return compare


def worst(rows: Iterable[dict[str, float]]) -> dict[str, float]:
    rows = list(rows)
    return {k: max(row[k] for row in rows) for k in rows[0]}


def named_graphs(elements: int, dtypes: list[torch.dtype]) -> bool:
    print(f"S() on graphs, over {elements} elements; shown: 0.0 if the backbone sees the same, bit by bit")
    within, generator = True, torch.Generator().manual_seed(0)
    upper = (torch.rand(128, 128, generator=generator) < 0.5).long().triu(1)
    found = GRAPHS | {"random, 128 nodes": (torch.zeros(128, dtype=torch.int64), upper + upper.mT)}
    for name, (colours, edges) in found.items():
        for dtype in dtypes:
            started, n = time.perf_counter(), len(edges)
            h = None if name in SHAPES else torch.stack([colours / 3, colours - 0.5], -1).to(dtype)
            compare = comparison(edges.to(dtype).unsqueeze(0) / 7, h)
            figures = worst(compare(S.random(k, n=n, generator=generator)) for k in portions(elements, n * n))
            within &= report(name, dtype, figures, 0.0, started)
    return within


def census(elements: int, dtypes: list[torch.dtype]) -> bool:
    print(f"S() on every connected graph with 8 nodes, over {elements} elements of each")
    everything = all_graphs(8)[-1]
    everything = everything[connected(everything)]
    within = True
    for dtype in dtypes:
        generator, started = torch.Generator().manual_seed(0), time.perf_counter()
        compare = comparison(everything.to(dtype))
        figures = worst(compare(S.random(len(everything), n=8, generator=generator)) for _ in range(elements))
        within &= report(f"{len(everything)} graphs", dtype, figures, 0.0, started)
    return within


def encodings() -> bool:
    print("positional encodings in float64 of graphs and of the same graphs relabelled: how many differ in any bit")
    families: dict[str, list[tuple[Tensor, Tensor | None]]] = {
        "10,000 molecule-like graphs": [molecule_like(seed) for seed in range(10_000)],
        "1,000 trees": [(tree(seed), None) for seed in range(1_000)],
        "strongly regular": [(a, None) for a in STRONGLY_REGULAR.values()],
    }
    generator, changed = torch.Generator().manual_seed(0), 0
    for name, found in families.items():
        started, differ = time.perf_counter(), 0
        for a, nodes in found:
            p = torch.randperm(len(a), generator=generator)
            plain = mf.spectral.encodings(a, 8, nodes)
            moved = mf.spectral.encodings(a[p][:, p], 8, None if nodes is None else nodes[p])
            differ += not (torch.equal(moved.vectors, plain.vectors[p]) and torch.equal(moved.values, plain.values))
        changed += differ
        print(f"  {name:28} {differ} differ, {time.perf_counter() - started:.0f} s")
    return changed == 0


NOISY_MOLECULES = ("methane", "ethane", "benzene")
NOISES = [a * 10.0**-k for k in range(1, 17) for a in ((1.0, 0.3) if k < 16 else (1.0,))]
TOGETHER = 500  # molecules


def wrong_molecules(
    x: Tensor, group: mf.Group, frames: mf.frames.Minimal, generator: torch.Generator
) -> dict[str, tuple[int, float]]:
    """How many of the molecules come out wrong, and the largest margin of those, in units of rounding."""
    linear = getattr(group, "linear", None) if frames == mf.frames.Minimal() else group
    model = mf.Equivariant(on_sets if linear is group else on_rows, group, frames=frames)
    order = torch.rand(x.shape[:2], generator=generator).argsort(-1)
    g = linear.random(len(x), dtype=torch.float64, generator=generator)
    here = x.gather(1, order[..., None].expand(x.shape))
    y = model(x).double().gather(1, order[..., None].expand(x.shape))
    found = {}
    for case, z, wanted in (
        ("reordered", here, y),
        ("turned", linear.act(g, here.double()).to(x.dtype), linear.act(g, y)),
    ):
        error = (model(z).double() - wanted).norm(dim=(1, 2)) / wanted.norm(dim=(1, 2))
        wrong = error > CLOUD_BOUNDS[x.dtype]
        margin = torch.zeros(1)
        if wrong.any():
            either = [mf.canonicalize(part[wrong], group, frames=frames)[1].margin for part in (x, z)]
            margin = torch.minimum(*either) / torch.finfo(x.dtype).eps
        found[case] = int(wrong.sum()), float(margin.max())
    return found


def molecules(count: int, dtypes: list[torch.dtype], noises: list[float]) -> bool:
    print(
        f"noisy copies of molecules, {count} of each: the share that is wrong, in per cent, and the largest margin of"
    )
    print("those in units of rounding; levels of noise at which none is are left out")
    ways = {"E(3)": (mf.E(3), mf.frames.Unordered()), "S() * E(3)": (mf.S() * mf.E(3), mf.frames.Minimal())}
    found_any = False
    for dtype in dtypes:
        for name in NOISY_MOLECULES:
            base = MOLECULES[name][0]
            for which, (group, frames) in ways.items():
                generator, worst = torch.Generator().manual_seed(0), {"reordered": 0.0, "turned": 0.0}
                for noise in noises:
                    total = {"reordered": [0, 0.0], "turned": [0, 0.0]}
                    for start in range(0, count, TOGETHER):
                        shape = min(TOGETHER, count - start), *base.shape
                        x = base + noise * torch.randn(shape, dtype=torch.float64, generator=generator)
                        for case, (wrong, margin) in wrong_molecules(x.to(dtype), group, frames, generator).items():
                            total[case] = [total[case][0] + wrong, max(total[case][1], margin)]
                    shares = {case: 100 * wrong / count for case, (wrong, _) in total.items()}
                    worst = {case: max(worst[case], share) for case, share in shares.items()}
                    if any(shares.values()):
                        row = "  ".join(f"{case} {shares[case]:.2f} ({total[case][1]:.1f})" for case in shares)
                        print(f"  {name:10}{which:12}{str(dtype)[6:]:9}{noise:<8.0e}{row}", flush=True)
                summary = "  ".join(f"{case} {share:.2f}" for case, share in worst.items())
                print(f"  {name:10}{which:12}{str(dtype)[6:]:9}worst   {summary}", flush=True)
                found_any |= worst["reordered"] > 0
    return not found_any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", nargs="*", default=["clouds", "graphs", "census"], metavar="clouds|graphs|census|encodings|molecules"
    )
    parser.add_argument("--elements", type=int, default=1000)
    parser.add_argument("--group", choices=["O", "SO", "E", "SE"], action="append", help="of clouds; default all")
    parser.add_argument("--dtype", choices=list(DTYPES), action="append")
    parser.add_argument("--points", type=int, default=1000, help="leave larger clouds out")
    parser.add_argument("--noise", type=float, action="append", help="of molecules; default 1e-1 to 1e-16")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dtypes = [DTYPES[name] for name in options.dtype or DTYPES]
    jobs = {
        "clouds": lambda: clouds(options.elements, options.group or ["O", "SO", "E", "SE"], dtypes, options.points),
        "graphs": lambda: named_graphs(options.elements, dtypes),
        "census": lambda: census(options.elements, dtypes),
        "encodings": encodings,
        "molecules": lambda: molecules(options.elements, dtypes, options.noise or NOISES),
    }
    for what in options.what:
        if what not in jobs:
            parser.error(f"no part is called {what!r}: use some of {', '.join(jobs)}")
    results = [jobs[what]() for what in options.what]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
