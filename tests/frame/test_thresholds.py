"""Thresholds that an observer carries along: clouds far away, thin ones, and rows that are equal up to noise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def on_rows(x: Tensor) -> Tensor:
    """A backbone that knows one row from another."""
    place = torch.arange(1, x.shape[-2] + 1, device=x.device).unsqueeze(-1)
    return ((x * place.sin()).abs() + x.abs().mean(-2, keepdim=True)).to(x.dtype)


def on_sets(x: Tensor) -> Tensor:
    """A backbone that does not."""
    y = (x @ normal(x.shape[-1], x.shape[-1], seed=3).to(x.dtype)).abs().to(x.dtype)
    return y + y.mean(-2, keepdim=True)


def error(found: Tensor, wanted: Tensor) -> Tensor:
    return (found - wanted).flatten(1).norm(dim=-1) / wanted.flatten(1).norm(dim=-1)


@pytest.mark.parametrize("group", [mf.S() * mf.Translation(1), mf.S() * mf.E(1), mf.S() * mf.Translation(2)], ids=str)
def test_a_small_cloud_is_no_point_for_who_is_farther_away(group: mf.Group) -> None:
    """Two points are 20 to 60 units of rounding apart for one observer, and half as many for another."""
    d = group.linear.d  # type: ignore[attr-defined]
    apart = 2.0**-22 * torch.linspace(20, 60, 41).view(-1, 1, 1)
    x = 1 + torch.cat([torch.zeros(41, 1, d), apart * torch.ones(d)], 1)
    model = mf.Invariant(lambda y: on_rows(y).mean((-1, -2)), group, inputs="point")
    assert error(model(x + 1).unsqueeze(-1), model(x).unsqueeze(-1)).max() < 0.2  # two roundings of twenty, no jump


@pytest.mark.parametrize("group", [mf.Aff(4, complex=True), mf.Aff(3), mf.GL(3)], ids=str)
@pytest.mark.parametrize("thickness", [1e-3, 1e-7, 1e-11])
def test_a_thin_simplex_is_as_symmetric_as_any(group: mf.Group, thickness: float) -> None:
    """All simplices are one orbit, so that reordering alone, with nothing rounded, changes nothing."""
    d = group.d  # type: ignore[attr-defined]
    n = d + isinstance(group, mf.Aff)
    dtype = torch.complex128 if group.complex else torch.float64  # type: ignore[attr-defined]
    x = torch.cat([thickness * normal(20, n - 1, d, seed=1, dtype=dtype), normal(20, 1, d, seed=2, dtype=dtype)], 1)
    model = mf.Equivariant(on_sets, group, inputs="point", outputs="vector", frames=mf.frames.Unordered())
    order = torch.rand(20, n, generator=torch.Generator().manual_seed(4)).argsort(-1)[..., None].expand(x.shape)
    assert error(model(x.gather(1, order)), model(x).gather(1, order)).max() < 1e-14 / thickness + 1e-11
    assert model.frame(x).size == [torch.arange(1, n + 1).prod().item()] * 20


@pytest.mark.parametrize("seed", range(4))
def test_rows_far_outside_are_told_apart_by_how_far(seed: int) -> None:
    """Their leverage is one, and any two of them could be exchanged with next to no change of the white cloud."""
    sizes = torch.tensor([1e7, 3e4, 1e2, 1e-2, 3e-3, 2e-2, 5e-3], dtype=torch.float64)
    x = normal(50, 7, 4, seed=seed, dtype=torch.complex128) * sizes.unsqueeze(-1)
    group = mf.S() * mf.Aff(4, complex=True)
    model = mf.Equivariant(on_rows, group, inputs="point", outputs="vector")
    shift = 1e7 * normal(50, 1, 4, seed=seed + 9, dtype=torch.complex128)
    assert model.frame(x).size == model.frame(x + shift).size == [1] * 50
    assert error(model(x + shift), model(x)).max() < 1e-4
    assert error(mf.Equivariant(lambda y: y, group, "point", "point")(x + shift), x + shift).max() < 1e-11


def test_averages_over_an_approximate_symmetry_stay_within_what_is_equal() -> None:
    """Rows twice, up to noise about as large as what counts as equal: matrices of a chain must not drift."""
    x = normal(2000, 5, 1, seed=1, dtype=torch.complex64)
    x = torch.cat([x, x + 1e-5 * normal(2000, 5, 1, seed=2, dtype=torch.complex64)], 1)
    same = mf.Equivariant(lambda y: y, mf.S() * mf.U(1), inputs="vector", outputs="vector")
    assert error(same(x), x).max() < 1e-5


@pytest.mark.parametrize("group", [mf.Scaling(5), mf.Octahedral(reflections=True), mf.Translation(2)], ids=str)
@pytest.mark.parametrize("count", [8, 100])
def test_chains_of_rows_are_not_merged(group: mf.Group, count: int) -> None:
    """Neighbours in a chain are equal, and its ends are not."""
    d = group.d  # type: ignore[attr-defined]
    x = (normal(20, 1, d, seed=1) + 1e-5 * normal(20, count, d, seed=2)).float()
    x = torch.cat([x, normal(20, 1, d, seed=3).float()], 1)
    same = mf.Equivariant(lambda y: y, mf.S() * group, inputs="point", outputs="point")
    assert error(same(x), x).max() < 1e-5


def test_many_short_rows_beside_a_long_one_are_not_merged() -> None:
    """Each is moved by no more than what is equal, and all of them together by more."""
    x = torch.cat([normal(20, 1, 2, seed=1), 4e-6 * normal(20, 40, 2, seed=2)], 1).float()
    for group in (mf.Dihedral(2), mf.Cyclic(3), mf.Signs(2)):
        same = mf.Equivariant(lambda y: y, mf.S() * group, inputs="point", outputs="point")
        assert error(same(x), x).max() < 1e-5


def test_poses_whose_rank_is_in_doubt_are_compared() -> None:
    """A cloud of 8 to 30 units of rounding in space-time: some of its poses are points."""
    x = normal(60, 1, 3, seed=1) + 1e-6 * normal(60, 10, 3, seed=2)
    x[:, 7:] = x[:, 6:7]
    model = mf.Equivariant(lambda y: y, mf.S() * mf.Poincare(3), inputs="point", outputs="point")
    assert error(model(x.float()), x.float()).max() < 1e-5


def test_the_margin_is_rounding_where_white_rows_begin_to_tie() -> None:
    """From one long row to another: the first tie is met long before they are equal."""
    x, long = normal(8, 3, seed=1), 3 * torch.eye(3, dtype=torch.float64)[:2]

    def at(share: Tensor) -> Tensor:
        scale = torch.stack([1.5 - share, 0.5 + share], -1).unsqueeze(-1)
        return torch.cat([x.expand(len(share), -1, -1), scale * long], 1)

    frames = mf.frames.Unordered()
    margin = mf.canonicalize(at(torch.linspace(0, 1, 2001, dtype=torch.float64)), mf.GL(3), frames=frames)[1].margin
    edge = int((margin == 0).long().argmax())
    assert 0 < edge < 1000
    low, high = torch.tensor([(edge - 1) / 2000]).double(), torch.tensor([edge / 2000]).double()
    for _ in range(50):
        middle = (low + high) / 2
        tied = mf.canonicalize(at(middle), mf.GL(3), frames=frames)[1].margin == 0
        low, high = torch.where(tied, low, middle), torch.where(tied, middle, high)
    assert mf.canonicalize(at(low), mf.GL(3), frames=frames)[1].margin < 1e-9


def test_the_margin_is_rounding_where_rows_begin_to_tie_for_the_same_axis() -> None:
    """Samples with a tie take their rows in a canonical order, whichever rows it is of."""
    frames = mf.frames.Unordered()

    def at(step: float) -> Tensor:  # what is left of the last two rows along the second axis differs by the step
        return torch.tensor([[2, 0], [1.7, 0.3], [0.4, 1], [-0.3, 1 - step]], dtype=torch.float64)

    def pose(step: float) -> Tensor:
        return mf.canonicalize(at(step), mf.O(2), frames=frames)[0]

    low, high = 0.0, 0.5
    apart = (pose(low) - pose(high)).abs().max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (pose(middle) - pose(high)).abs().max() > apart / 2 else (low, middle)
    assert (pose(low) - pose(high)).abs().max() > 0.1
    assert mf.canonicalize(at(low), mf.O(2), frames=frames)[1].margin < 1e-9
    assert mf.canonicalize(at(high), mf.O(2), frames=frames)[1].margin < 1e-9


@pytest.mark.parametrize(
    ("group", "thickness", "kept"),
    [
        (mf.Lorentz(4), 1e-12, 0),
        (mf.O(2, 2), 1e-12, 0),
        (mf.O(2, 2), 1e-11, 2),
        (mf.U(1, 3), 1e-11, 1),
        (mf.O(2, 2) + mf.Trivial(1), 1e-11, 2),
        (mf.U(1, 3) + mf.Trivial(1, complex=True), 1e-11, 1),
    ],
    ids=str,
)
def test_rows_tie_for_one_observer_as_for_another(group: mf.Group, thickness: float, kept: int) -> None:
    """Which rows are equally long does not follow the rounding that a boost before may have left: without a symmetry
    a longest row is taken for all observers, and axes that do not count tie nowhere."""
    d, dtype = group.d, torch.complex128 if group.complex else torch.float64  # type: ignore[attr-defined]
    few = normal(100, 6, d, seed=5, dtype=dtype)
    if kept:  # most rows at the origin, all but a few
        x = torch.cat([thickness * few[:, kept:], few[:, :kept]], 1)
    else:  # near a plane
        x = few * torch.tensor([1, 1] + [0] * (d - 2)) + thickness * normal(100, 6, d, seed=6, dtype=dtype)
        x = x @ torch.linalg.qr(normal(d, d, seed=7)).Q
    g = group.random(100, dtype=dtype, generator=torch.Generator().manual_seed(8), max_rapidity=3.0)  # type: ignore[call-arg]
    model = mf.Equivariant(on_sets, group, inputs="point", outputs="vector", frames=mf.frames.Unordered())
    off = error(model(group.act(g, x)), group.act(g, model(x)))
    assert (off > 1e-3).sum() <= 2


def test_rows_of_one_length_and_other_phases_tie_for_the_direction_of_time() -> None:
    """Which of two comes first decides nothing, however near their phases are."""
    phase = torch.polar(torch.ones(300, dtype=torch.float64), torch.logspace(-9, -1, 300, dtype=torch.float64))
    x = normal(300, 6, 3, seed=1, dtype=torch.complex128) * 5
    x[:, 3:, 2] = 0
    x[:, 0, 2], x[:, 1, 2], x[:, 2, 2] = 1, phase, 0.5
    x[:, 2, :2] = -2 * (x[:, 0, :2] + phase.conj().unsqueeze(-1) * x[:, 1, :2])  # time stays the third axis
    order = torch.rand(300, 6, generator=torch.Generator().manual_seed(2)).argsort(-1)[..., None].expand(x.shape)
    model = mf.Equivariant(on_sets, mf.U(2, 1), "point", "vector", frames=mf.frames.Unordered())
    assert error(model(x.gather(1, order)), model(x).gather(1, order)).max() < 1e-11


def test_rows_with_nothing_beside_them_are_equal_for_every_observer() -> None:
    """Of small integers many a row carries an axis alone. Its inner products with others are zero up to rounding."""
    x = torch.randint(-1, 2, (500, 6, 4), generator=torch.Generator().manual_seed(1)).float()
    x = x[torch.linalg.svdvals(x)[:, -1] > 1e-3]
    group = mf.GL(4)
    g = group.random(len(x), dtype=x.dtype, generator=torch.Generator().manual_seed(2))
    model = mf.Equivariant(on_sets, group, "point", "vector", frames=mf.frames.Unordered())
    off = error(model(group.act(g, x)), group.act(g, model(x)))
    assert (off > 1e-4).sum() == 0


def test_elements_of_thin_clouds_with_free_axes_are_in_the_group() -> None:
    """Free axes are no longer than others, or beside them a thin one would be no axis in the precision of the input."""
    x = 1e-6 * normal(2000, 11, 4, seed=1)
    x[:, -1] = normal(2000, 4, seed=2)
    frame = mf.GL(4).frame(x.float())
    assert len(frame.rank.unique()) > 1
    assert mf.GL(4).contains(frame.element).all()
