"""Smooth frames of every group are continuous: steps an eighth as long change outputs an eighth as much.

The test is taken at its word, on whole grids: a path in steps of one length, and again in steps of an eighth of it. The
largest change over a step has to be divided by at least seven. ``test_smooth.py`` has more paths of E(3) and SE(3), and
finer steps where outputs change most.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import clouds
import minframe as mf
from minframe.testing import polytopes
from table import number

SMOOTH = mf.frames.Smooth()
STEPS = 384
Path = Callable[[Tensor], tuple[Tensor, ...]]
Model = Callable[..., tuple[Tensor, ...]]

EUCLIDEAN = [make(d) for make in (mf.O, mf.SO, mf.E, mf.SE) for d in (2, 3, 4)] + [mf.O(1), mf.E(1), mf.Translation(3)]
UNITARY = [mf.U(1), mf.U(2), mf.U(3), mf.SU(2), mf.SU(3)]
LORENTZ = [mf.Lorentz(), mf.ProperLorentz(), mf.OrthochronousLorentz(), mf.O(3, 1), mf.Poincare()]
GENERAL = [mf.GL(2), mf.GL(3), mf.SL(3), mf.Aff(3), mf.GL(2, complex=True), mf.SL(2, complex=True)]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def backbone(d: int, dtype: torch.dtype) -> Model:
    """A number for each sample and a vector for each row, smooth, of which no group knows."""
    a, b = normal(d, 8, seed=1, dtype=dtype) / 2, normal(8, d, seed=2, dtype=dtype)

    def bent(z: Tensor) -> Tensor:
        return torch.complex(torch.tanh(z.real), torch.sin(z.imag)) if z.is_complex() else torch.tanh(z + 0.2)

    def run(x: Tensor, p: Tensor | None = None) -> tuple[Tensor, ...]:
        h = bent((x if p is None else x + 0.3 * p) @ a)
        h = h + h.mean(-2, keepdim=True)
        numbers = h.real if h.is_complex() else h
        return torch.sin(numbers).sum((-1, -2)), bent(h) @ b

    return run


def straight(x: Tensor, v: Tensor) -> Path:
    return lambda t: (x + t.view(-1, 1, 1) * v,)


def of_momenta(group: mf.Group, path: Path, shift: Tensor) -> Path:
    """Particles whose momenta go along a path, moving as a whole; under Poincare their places go along another."""

    def run(t: Tensor) -> tuple[Tensor, ...]:
        p = clouds.momenta(path(t)[0] + shift, mass=0.3)
        p = p.roll(-1, -1) if group == mf.O(3, 1) else p
        return (normal(*p.shape[1:], seed=9) * (1 + t.view(-1, 1, 1)), p) if group == mf.Poincare() else (p,)

    return run


def paths(group: mf.Group) -> dict[str, Path]:
    """At random; through a symmetric cloud, and through clouds of each lower rank, at t = 0."""
    lorentz = group in LORENTZ
    d, dtype = (3, torch.float64) if lorentz else (group.d, number(group))
    v = normal(d + 4, d, seed=3, dtype=dtype)
    x = normal(d + 4, d, seed=4, dtype=dtype)
    found = {"random": straight(x, v)}
    shape = "cross-polytope" if group in GENERAL else "simplex"  # simplices are one orbit of Aff
    solid = (polytopes(d)[shape] if d > 1 else torch.tensor([[-1.0], [1.0]])).to(dtype)
    found["symmetric"] = straight(solid, v[: len(solid)])
    for rank in range(d):
        found[f"rank {rank}"] = straight(x * (torch.arange(d) < rank), v)
    if group in GENERAL:  # which jump where the rank drops: see below
        found = {name: path for name, path in found.items() if not name.startswith("rank")}
    if lorentz:
        return {name: of_momenta(group, path, 0.5 * normal(3, seed=5)) for name, path in found.items()}
    return found


def model_of(group: mf.Group) -> Model:
    dtype, d = number(group), group.d
    if group == mf.Poincare():
        run = backbone(d, dtype)
        return mf.Equivariant(
            lambda x, p: run(x, p), group, {"x": "point", "p": "vector"}, ("scalar", "vector"), frames=SMOOTH
        ).eval()
    return mf.Equivariant(backbone(d, dtype), group, outputs=("scalar", "vector"), frames=SMOOTH).eval()


def divided(model: Model, path: Path, start: float, stop: float, steps: int = STEPS) -> list[float]:
    """What the largest change over a step is divided by when steps are divided by eight, for each output."""
    largest = []
    for count in (steps, 8 * steps):
        t = torch.linspace(start, stop, count + 1, dtype=torch.float64)
        outputs = model(*path(t))
        largest.append([float((y[1:] - y[:-1]).reshape(count, -1).norm(dim=-1).max()) for y in outputs])
    return [a / b if b > 1e-14 else float("inf") for a, b in zip(*largest, strict=True)]  # constant, as under O(1)


def cases(groups: list[mf.Group]) -> list[object]:
    slow = [pytest.mark.slow]  # 120 poses and more
    return [
        pytest.param(g, name, id=f"{g}-{name}", marks=slow if g.d == 4 and name == "symmetric" else [])
        for g in groups
        for name in paths(g)
    ]


@pytest.mark.parametrize(("group", "name"), cases([*EUCLIDEAN, *UNITARY, *LORENTZ, *GENERAL]))
def test_outputs_are_continuous(group: mf.Group, name: str) -> None:
    """On grids that meet t = 0, and that step over it. Vectors of points that coincide have no direction left."""
    model, path = model_of(group), paths(group)[name]
    pointlike = name == "rank 0" and group in [*EUCLIDEAN[:-1], *UNITARY]
    with torch.no_grad():
        for start, stop in ((-0.03, 0.03), (-2.3e-4, 2e-4)):
            numbers, vectors = divided(model, path, start, stop, STEPS if stop > 0.01 else 16)
            assert numbers >= 7, start
            assert pointlike or vectors >= 7, start


@pytest.mark.parametrize(
    ("group", "name"),
    [p for p in cases([*EUCLIDEAN, *UNITARY, *LORENTZ, *GENERAL]) if not p.values[1].startswith("rank")],  # type: ignore[attr-defined]
)
def test_forces_are_continuous_where_the_rank_is_full(group: mf.Group, name: str) -> None:
    model, path = model_of(group), paths(group)[name]

    def forces(*inputs: Tensor) -> tuple[Tensor, ...]:
        inputs = tuple(x.requires_grad_() for x in inputs)
        found = torch.autograd.grad(model(*inputs)[0].sum(), inputs, allow_unused=True)
        return tuple(torch.view_as_real(g) if g.is_complex() else g for g in found if g is not None)

    assert min(divided(forces, path, -0.02, 0.02, 2 * STEPS)) >= 7


def test_vectors_of_points_that_coincide_jump() -> None:
    """Where all points are one, under every group of rotations: so ``docs/smooth.md`` says."""
    for group in (mf.O(3), mf.SE(3)):
        path = paths(group)["rank 0"]
        with torch.no_grad():
            assert divided(model_of(group), path, -0.03, 0.03)[1] < 2
            assert model_of(group)(*path(torch.zeros(1).double()))[1].eq(0).all()


def test_frames_of_one_element_are_not_continuous() -> None:
    """The same test fails where it has to."""
    for group in (mf.SE(3), mf.U(2), mf.Lorentz()):
        model = mf.Equivariant(backbone(group.d, number(group)), group, outputs=("scalar", "vector")).eval()
        x = normal(7, group.d, seed=4, dtype=number(group))
        path = straight(x, normal(7, group.d, seed=3, dtype=number(group)))
        if group == mf.Lorentz():
            path = of_momenta(group, straight(x[:, 1:], normal(7, 3, seed=3)), torch.zeros(3).double())
        with torch.no_grad():
            assert min(divided(model, path, -1.01, 1)) < 2, group


@pytest.mark.parametrize("group", [mf.GL(3), mf.SL(3), mf.Aff(3)], ids=str)
def test_general_groups_jump_where_the_rank_drops(group: mf.Group) -> None:
    """As every exact and invariant function does there that is not blind to the axis that vanishes.

    Under GL(3) the clouds ``plane + t v`` with v along the last axis are one orbit for all t but zero: the function is
    constant on it, and continuous only if it does not depend on v at all.
    """
    plane = normal(7, 3, seed=4) * torch.tensor([1.0, 1.0, 0.0])
    v = normal(7, 3, seed=3) * torch.tensor([0.0, 0.0, 1.0])
    run = backbone(3, torch.float64)
    model = mf.Invariant(lambda x: run(x)[0], group, frames=SMOOTH).eval()
    (on,), (near, behind) = (model(*straight(plane, v)(torch.tensor(t).double())) for t in ([0.0], [1e-6, -1e-6]))
    if group != mf.SL(3):  # whose last axis is as long as t there
        far = model(plane + v)
        torch.testing.assert_close(near, far, rtol=0, atol=1e-8)
        torch.testing.assert_close(behind, far, rtol=0, atol=1e-8)
        assert (on - near).abs() > 1e-3
    assert float(model.frame(plane + 1e-12 * v).margin) < 1e-9


# Layouts


def energies_and_vectors(x: Tensor, batch: Tensor, edge_index: Tensor) -> tuple[Tensor, ...]:
    """Messages along edges."""
    a, b = normal(3, 8, seed=1) / 2, normal(8, 3, seed=2)
    h = torch.tanh(x @ a + 0.2)
    h = h + torch.zeros_like(h).index_add(0, edge_index[1], torch.tanh(h[edge_index[0]] - h[edge_index[1]]))
    count = int(batch.max()) + 1
    return torch.zeros(count, dtype=x.dtype).index_add(0, batch, torch.sin(h).sum(-1)), torch.tanh(h) @ b


@pytest.mark.parametrize("name", ["random", "symmetric", "rank 1", "rank 2"])
def test_batch_vectors_and_edges_are_continuous(name: str) -> None:
    """All points of a path in one ragged batch with a ring of edges in each, rows in no order."""
    path = paths(mf.SE(3))[name]
    types = {"x": "point", "edge_index": "edge_index"}
    wrapped = mf.Equivariant(
        energies_and_vectors, mf.SE(3), types, ("scalar", "vector"), batch="batch", frames=SMOOTH
    ).eval()

    def model(x: Tensor) -> tuple[Tensor, ...]:
        count, n, _ = x.shape
        order = torch.randperm(count * n, generator=torch.Generator().manual_seed(0))
        place = torch.empty_like(order)
        place[order] = torch.arange(count * n)
        ring = torch.arange(count * n).view(count, n)
        edges = place[torch.stack([ring, ring.roll(1, -1)]).view(2, -1)]
        batch = torch.arange(count).repeat_interleave(n)[order]
        energy, vectors = wrapped(x=x.flatten(0, 1)[order], batch=batch, edge_index=edges)
        return energy, vectors[place].view(x.shape)

    with torch.no_grad():
        assert min(divided(model, path, -0.03, 0.03)) >= 7


@pytest.mark.parametrize("name", ["random", "symmetric", "rank 1", "rank 2"])
def test_masks_are_continuous(name: str) -> None:
    """Padding holds NaN, before and behind the rows."""
    path = paths(mf.E(3))[name]
    a, b = normal(3, 8, seed=1) / 2, normal(8, 3, seed=2)

    def run(x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        h = torch.tanh(x @ a + 0.2)
        total = torch.where(mask.unsqueeze(-1), torch.sin(h), 0).sum((-1, -2))
        return total, torch.tanh(h + torch.where(mask.unsqueeze(-1), h, 0).mean(-2, keepdim=True)) @ b

    wrapped = mf.Equivariant(run, mf.E(3), "point", ("scalar", "vector"), mask="mask", frames=SMOOTH).eval()

    def model(x: Tensor) -> tuple[Tensor, ...]:
        nothing = torch.full_like(x[:, :2], torch.nan)
        mask = torch.tensor([False, False] + [True] * x.shape[1] + [False, False]).expand(len(x), -1)
        energy, vectors = wrapped(torch.cat([nothing, x, nothing], 1), mask=mask)
        return energy, vectors[:, 2:-2]

    with torch.no_grad():
        assert min(divided(model, path, -0.03, 0.03)) >= 7
