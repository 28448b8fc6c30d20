"""What ``minframe verify`` measures: the groups, clouds, backbones and methods of the paper's appendix, and our own.

One ``Panel`` is one figure of the paper's appendix, or one group on all degenerate clouds of our tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import minframe as mf
from minframe.testing import DEGENERATIONS, particles, polytopes
from minframe_lab.backbones import MLP, Backbone, Source, cloud_backbones, graph_backbones, rough, set_backbones
from minframe_lab.graphs import symmetric_graphs

OURS = "minimal frame"
SMOOTH = "smooth frame"
HAAR = 8  # random elements
MARGIN = 1e-5


def _averaging(group: mf.Group, seed: int) -> Any:
    """Frame averaging of Puny et al.: by principal axes; of permutations by sorting, with a few of the orders."""
    return mf.frames.Sorting(samples=HAAR, seed=seed) if isinstance(group, mf.S) else mf.frames.PCA()


#: Each method by the name it has in tables, made anew for every measurement from the seed. ``None``: no frames at all.
METHODS: dict[str, Callable[[mf.Group, int], Any] | None] = {
    "plain": None,
    f"Haar x{HAAR}": lambda group, seed: mf.frames.Haar(samples=HAAR, seed=seed),
    "stochastic FA": lambda group, seed: mf.frames.PCA(samples=1, seed=seed),
    "FA": _averaging,
    "perturbed FA": lambda group, seed: mf.frames.PCA(perturb=True),
    OURS: lambda group, seed: mf.frames.Minimal(),
    SMOOTH: lambda group, seed: mf.frames.Smooth(),
}
EVERY = tuple(METHODS)
NO_AXES = ("plain", f"Haar x{HAAR}", OURS)
AT_REST = (*NO_AXES, SMOOTH)  # without the Lorentz groups, where Gaussian clouds have no smooth frame
ORDERS = ("plain", f"Haar x{HAAR}", "FA", OURS)

Draw = Callable[[int, torch.Generator], dict[str, Tensor]]
Build = Callable[[int, torch.dtype, torch.Generator], dict[str, Backbone]]


@dataclass(frozen=True)
class Panel:
    """A group, the clouds it is tried on and with what.

    Attributes:
        group: what outputs are to be equivariant to.
        data: what the clouds are, in a few words.
        draw: makes clouds ``(samples, n, d)`` in double precision, by name.
        build: makes backbones for clouds of ``n`` rows, by name.
        methods: names of methods that serve the group.
        paper: whether the paper's appendix has it.
        samples: number of clouds.
        input: type of the clouds.
        output: type of what the backbones return.
    """

    group: mf.Group
    data: str
    draw: Draw
    build: Build
    methods: tuple[str, ...] = NO_AXES
    paper: bool = True
    samples: int = 100
    input: str = "point"
    output: str = "point"

    @property
    def name(self) -> str:
        return f"{self.group}, {self.data}"


def complex_numbers(group: Any) -> bool:
    """Whether the group acts on complex tensors."""
    return bool(getattr(group, "complex", False))


def number(group: mf.Group, dtype: torch.dtype) -> torch.dtype:
    """The complex dtype of the same precision, if the group is complex."""
    return torch.promote_types(dtype, torch.complex64) if complex_numbers(group) else dtype


def gaussian(group: mf.Group, n: int, d: int) -> Draw:
    """Coordinates N(0, 1)."""

    def draw(samples: int, generator: torch.Generator) -> dict[str, Tensor]:
        return {"Gaussian": torch.randn(samples, n, d, dtype=number(group, torch.float64), generator=generator)}

    return draw


def orderly(group: mf.Group, n: int, d: int) -> Draw:
    """Coordinates N(0, 1); clouds on which a change by MARGIN could exchange rows are drawn again.

    A frame with one element jumps somewhere, and there the rounding of a float32 input chooses the side.
    """

    def draw(samples: int, generator: torch.Generator) -> dict[str, Tensor]:
        x = torch.randn(samples, n, d, dtype=torch.float64, generator=generator)
        while True:
            close = torch.as_tensor(group.frame(x).margin) < MARGIN
            if not bool(close.any()):
                return {"Gaussian": x}
            x[close] = torch.randn(int(close.sum()), n, d, dtype=torch.float64, generator=generator)

    return draw


def equal_singular_values(n: int, d: int, equal: int) -> Draw:
    """Coordinates N(0, 1), about their mean, with that many singular values made equal."""

    def draw(samples: int, generator: torch.Generator) -> dict[str, Tensor]:
        x = torch.randn(samples, n, d, dtype=torch.float64, generator=generator)
        u, s, v = torch.linalg.svd(x - x.mean(-2, keepdim=True), full_matrices=False)
        s[:, :equal] = s[:, :equal].mean(-1, keepdim=True)
        return {f"{equal} equal singular values": u * s.unsqueeze(-2) @ v}

    return draw


def degenerate(group: Any) -> Draw:
    """The named families of ``minframe.testing`` that the group has a bound for, each as often as asked."""

    def draw(samples: int, generator: torch.Generator) -> dict[str, Tensor]:
        d = group.d
        generic = torch.randn(12, d, dtype=number(group, torch.float64), generator=generator)
        families = {name: change(generic) for name, change in DEGENERATIONS.items()}
        families |= {"one point": generic[:1], "two points": generic[:2]}
        families |= {name: x.to(generic.dtype) for name, x in polytopes(d).items()}
        if not group.compact:
            # Boosts and shears turn the rounding of a far outlier into that of the other points.
            del families["one far outlier"]
            weights = torch.linspace(1.7, 1.0, d, dtype=torch.float64)  # so that no plane is null by accident
            families = {name: x * weights for name, x in families.items()}
        if isinstance(group, mf.O | mf.SO | mf.OrthochronousLorentz) and (group.p, group.q) == (1, 3):
            families |= {name: x for name, x in particles().items() if "massless event" in name or "null" in name}
        return {name: x.expand(samples, *x.shape) for name, x in families.items()}

    return draw


def graphs(n: int, weighted: bool) -> Draw:
    """Each pair joined by the throw of a coin; or weights N(0, 1)."""

    def draw(samples: int, generator: torch.Generator) -> dict[str, Tensor]:
        upper = torch.randn(samples, n, n, dtype=torch.float64, generator=generator)
        upper = (upper if weighted else (upper > 0).double()).triu(1)
        return {"weighted" if weighted else "unweighted": upper + upper.mT}

    return draw


def symmetric(samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Graphs that have many symmetries."""
    return {name: x.expand(samples, *x.shape) for name, x in symmetric_graphs().items()}


def rough_backbones(d: int, quick: bool) -> Build:
    """Such as fit clouds of any scale."""

    def build(n: int, dtype: torch.dtype, generator: torch.Generator) -> dict[str, Backbone]:
        return {"rough": rough} if quick else {"MLP": MLP(Source(generator, dtype), d), "rough": rough}

    return build


def _clouds(
    quick: bool, group: Any, data: str, n: int, methods: tuple[str, ...] = NO_AXES, draw: Draw | None = None
) -> Panel:
    d = group.d

    def build(n: int, dtype: torch.dtype, generator: torch.Generator) -> dict[str, Backbone]:
        return cloud_backbones(d, n, dtype, generator)

    return Panel(group, data, draw or gaussian(group, n, d), build, methods, samples=20 if quick else 100)


def paper_panels(quick: bool) -> Iterator[Panel]:
    """The figures of the paper's appendix."""
    euclidean = (mf.O, mf.SO, mf.E, mf.SE)
    for d, n in ((3, 100), (5, 20)):
        for make in euclidean:
            yield _clouds(quick, make(d), f"Gaussian {n} x {d}", n, EVERY)
    for make in euclidean:
        yield _clouds(quick, make(5), "3 equal s.v. 20 x 5", 20, EVERY, equal_singular_values(20, 5, 3))
    for group in (mf.Lorentz(4), mf.ProperLorentz(4)):
        yield _clouds(quick, group, "Gaussian 100 x 4", 100)
    for linear in (mf.GL(3), mf.SL(3), mf.U(3), mf.SU(3)):
        yield _clouds(quick, linear, "Gaussian 100 x 3", 100, AT_REST)
    samples = 20 if quick else 100
    for product in (mf.S() * mf.O(3), mf.S() * mf.Lorentz(4)):
        d = product.d
        data, draw = f"Gaussian 32 x {d}, margin > {MARGIN:.0e}", orderly(product, 32, d)
        yield Panel(product, data, draw, partial(set_backbones, d), NO_AXES, samples=samples)
    samples = samples // 2 if quick else samples
    for n, weighted in ((128, False), (16, True)):
        data = f"{'weighted' if weighted else 'random'} {n} x {n}"
        draw = graphs(n, weighted)
        yield Panel(mf.S(), data, draw, graph_backbones, ORDERS, samples=samples, input="edge", output="edge")


def degenerate_panels(quick: bool) -> Iterator[Panel]:
    """Every linear group on the degenerate clouds of our tests."""
    euclidean: tuple[Any, ...] = (mf.O(3), mf.SO(3), mf.E(3), mf.SE(3))
    others: tuple[Any, ...] = (
        *(mf.Translation(3), mf.O(2, 1), mf.SO(2, 2), mf.Lorentz(), mf.ProperLorentz(), mf.OrthochronousLorentz()),
        *(mf.Poincare(), mf.U(3), mf.SU(3), mf.U(2, 1), mf.SU(2, 2), mf.GL(3), mf.SL(2), mf.SL(3), mf.Aff(3)),
        *(mf.GL(3, complex=True), mf.SL(3, complex=True), mf.Aff(2, complex=True), mf.S() * mf.O(3), mf.S() * mf.SE(3)),
    )
    smooth = {mf.Translation(3), mf.U(3), mf.SU(3), mf.GL(3), mf.SL(2), mf.SL(3), mf.Aff(3)}
    finite: tuple[Any, ...] = (
        *(mf.Cyclic(3), mf.Dihedral(4), mf.Octahedral(), mf.Octahedral(reflections=True), mf.Signs(3)),
        *(mf.SignedPermutations(3), mf.E(2) + mf.Trivial(1)),
    )
    for groups, some in ((euclidean, EVERY), ((*others, *finite), ("plain", OURS))):
        for group in groups:
            methods = (*some, SMOOTH) if group in smooth else some
            build = rough_backbones(group.d, quick)
            samples = 20 if quick else 100 if "S()" in str(group) else 1000
            yield Panel(group, "degenerate", degenerate(group), build, methods, paper=False, samples=samples)
    yield Panel(
        mf.S(),
        "symmetric",
        symmetric,
        graph_backbones,
        ORDERS,
        paper=False,
        samples=5 if quick else 20,
        input="edge",
        output="edge",
    )


def panels(quick: bool) -> list[Panel]:
    """All of them; ``quick``: with fewer samples. Without a library for canonical labelling, none with permutations."""
    found = [*paper_panels(quick), *degenerate_panels(quick)]
    return found if mf.S().labelling else [panel for panel in found if "S()" not in str(panel.group)]
