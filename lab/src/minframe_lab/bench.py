"""``minframe bench``: what each method costs over the plain backbone, and how that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.backbones import Backbone
from minframe_lab.cases import EVERY, METHODS, NO_AXES, ORDERS
from minframe_lab.graphs import graphs_by_order
from minframe_lab.timing import ratios
from minframe_lab.verify import generator_for

MOST_PASSES = 64  # frame averaging with more of them is left out: it only takes long


@dataclass(frozen=True)
class Case:
    """One point of a sweep: a group, a batch and a backbone.

    Attributes:
        sweep: what is varied, or what is compared.
        name: of the point.
        variable: the name of what is varied.
        value: its value; ``None`` if points are not numbers.
        group: what the backbone is made equivariant to.
        inputs: makes the batch from a generator.
        backbone: makes the backbone.
        methods: that take part.
        type: of the input and the output.
    """

    sweep: str
    name: str
    variable: str
    value: float | None
    group: mf.Group
    inputs: Callable[[torch.Generator], Tensor]
    backbone: Callable[[], Backbone]
    methods: tuple[str, ...]
    type: str = "point"


@dataclass(frozen=True)
class Row:
    """One measurement: quartiles of the time over that of the plain backbone, and the time of the plain backbone."""

    sweep: str
    case: str
    variable: str
    value: float | None
    group: str
    shape: list[int]
    method: str
    low: float
    ratio: float
    high: float
    plain_seconds: float
    rounds: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class GNN(nn.Module):
    """Four layers of width 60 on all pairs of rows: the size of the paper's backbone for the n-body problem."""

    def __init__(self, d: int, width: int = 60, layers: int = 4) -> None:
        super().__init__()
        self.encode = nn.Linear(d, width)
        self.edge = nn.ModuleList(nn.Sequential(nn.Linear(width + 1, width), nn.SiLU()) for _ in range(layers))
        self.node = nn.ModuleList(nn.Sequential(nn.Linear(2 * width, width), nn.SiLU()) for _ in range(layers))
        self.decode = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, d))

    def forward(self, x: Tensor) -> Tensor:
        distance = (x.unsqueeze(-2) - x.unsqueeze(-3)).square().sum(-1, keepdim=True)
        h = self.encode(x)
        for edge, node in zip(self.edge, self.node, strict=True):
            message = edge(torch.cat([h.unsqueeze(-2) - h.unsqueeze(-3), distance], -1)).sum(-2)
            h = h + node(torch.cat([h, message], -1))
        return x + self.decode(h)


def mlp(d: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Three layers of width 64 on every row."""
    layers = [nn.Linear(a, b, dtype=dtype) for a, b in ((d, 64), (64, 64), (64, d))]
    return nn.Sequential(layers[0], Gate(), layers[1], Gate(), layers[2])


class Gate(nn.Module):
    """SiLU, by the real part where numbers are complex."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x.real.sigmoid() if x.is_complex() else nn.functional.silu(x)


def gaussian(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[torch.Generator], Tensor]:
    """Coordinates N(0, 1)."""
    return lambda generator: torch.randn(*shape, dtype=dtype, generator=generator)


def cases(quick: bool) -> Iterator[Case]:
    """All points of all sweeps."""
    yield from _headline(quick)
    sweep = "growth with the number of points n"
    for n in (10, 100, 1000) if quick else (10, 100, 1000, 10_000):
        yield Case(sweep, f"n = {n}", "n", n, mf.O(3), gaussian(16, n, 3), partial(mlp, 3), EVERY)
    sweep = "growth with the dimension d"
    for d in (2, 3, 5) if quick else (2, 3, 4, 5, 6, 8):
        methods = tuple(m for m in EVERY if 2**d <= MOST_PASSES or m not in ("FA", "perturbed FA"))
        inputs = gaussian(64, 50, d)
        yield Case(sweep, f"d = {d}", "d", d, mf.O(d), inputs, partial(mlp, d), methods)
    sweep = "growth with the batch"
    for b in (1, 32, 1024) if quick else (1, 8, 64, 512, 4096):
        yield Case(sweep, f"batch = {b}", "batch", b, mf.E(3), gaussian(b, 20, 3), partial(mlp, 3), EVERY)
    if mf.S().labelling is None:  # no library for canonical labelling
        return
    sweep = "growth with the symmetry |Aut| of a graph"
    for name, (order, graph) in graphs_by_order(torch.Generator().manual_seed(0)).items():
        inputs = partial(_relabelled, graph, 64)
        yield Case(sweep, f"{name}, {order}", "|Aut|", order, mf.S(), inputs, partial(Mixer, 16), ORDERS, "edge")


class Mixer(nn.Module):
    """Three layers of width 256 on all entries of an adjacency matrix."""

    def __init__(self, n: int, width: int = 256) -> None:
        super().__init__()
        sizes = (n * n, width, width, n * n)
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.layers = nn.Sequential(layers[0], nn.SiLU(), layers[1], nn.SiLU(), layers[2])

    def forward(self, adj: Tensor) -> Tensor:
        return self.layers(adj.flatten(-2)).view(adj.shape)


def _relabelled(graph: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Copies of a graph with their nodes in random order."""
    group = mf.S()
    g = group.random(samples, n=len(graph), generator=generator)
    return group.act(g, graph.expand(samples, *graph.shape), "edge").float()


def _headline(quick: bool) -> Iterator[Case]:
    sweep = "methods on one backbone"
    for group in (mf.O(3), mf.SE(3)):
        name = f"{group}, GNN, 100 x 5 x 3"
        yield Case(sweep, name, "", None, group, gaussian(100, 5, 3), partial(GNN, 3), EVERY)
    big = 256 if quick else 1024
    yield Case(sweep, f"O(3), MLP, {big} x 100 x 3", "", None, mf.O(3), gaussian(big, 100, 3), partial(mlp, 3), EVERY)
    sweep = "other groups, MLP"
    for other in (mf.Lorentz(), mf.GL(3), mf.U(3)):
        d = other.d
        dtype = torch.complex64 if other.complex else torch.float32
        inputs = gaussian(64, 100, d, dtype=dtype)
        make = partial(mlp, d, dtype)
        yield Case(sweep, f"{other}, 64 x 100 x {d}", "", None, other, inputs, make, NO_AXES)


def run_case(case: Case, seed: int, rounds: int, slot: float) -> Iterator[Row]:
    """Measure all methods of a case against the plain backbone, in turns."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = case.backbone()
    x = case.inputs(generator_for(seed, case.sweep, case.name))
    models: dict[str, Backbone] = {}
    for method in case.methods:
        make = METHODS[method]
        kind = case.type
        models[method] = (
            backbone
            if make is None
            else mf.Equivariant(backbone, case.group, kind, kind, frames=make(case.group, seed))
        )
    with torch.no_grad():
        found, plain = ratios({name: _call(model, x) for name, model in models.items()}, "plain", rounds, slot)
    for method, ratio in found.items():
        yield Row(
            sweep=case.sweep,
            case=case.name,
            variable=case.variable,
            value=case.value,
            group=str(case.group),
            shape=list(x.shape),
            method=method,
            low=ratio.low,
            ratio=ratio.middle,
            high=ratio.high,
            plain_seconds=plain,
            rounds=rounds,
        )


def _call(model: Backbone, x: Tensor) -> Callable[[], Tensor]:
    return lambda: model(x)
