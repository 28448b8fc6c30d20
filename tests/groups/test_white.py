"""Clouds under general linear groups that are thin, or have rows of every size: one answer for every observer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.cloud import Cloud
from minframe.frame.point_set import point_set
from minframe.frame.points import order_points
from minframe.groups.general import GL
from minframe.labelling.backend import DEFAULT
from minframe.layout import Dense
from minframe.linalg.whiten import white_rounding, whiten


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def numbers(x: Tensor) -> Tensor:
    """Invariants of a set of rows, ``(b, 7)``."""
    weight = normal(x.shape[-1], 7, seed=9).to(x.dtype)
    return (x @ weight).abs().mean(-2)


def linear(group: mf.GL | mf.Aff) -> mf.GL:
    return group.linear if isinstance(group, mf.Aff) else group


def moved(group: mf.GL | mf.Aff, x: Tensor, condition: float = 10.0, seed: int = 1) -> Tensor:
    """Clouds ``(b, n, d)`` moved in double precision, by as much as their size where they are translated."""
    g = linear(group).random(len(x), dtype=torch.float64, generator=generator(seed), max_condition=condition)
    if isinstance(group, mf.Aff):
        g = group.assemble(g, normal(len(x), group.d, seed=2) * x.double().abs().amax((1, 2)).unsqueeze(-1))
    return group.act(g, x.double()).to(x.dtype)


def cloud(group: mf.GL | mf.Aff, x: Tensor) -> Cloud:
    found = Cloud([(x, group.type("point"))], Dense((len(x),), x.shape[1]))
    return found.centred() if isinstance(group, mf.Aff) else found


def thin(b: int, n: int, level: float, seed: int = 3) -> Tensor:
    """Clouds of which two axes are shorter, one of them by ``10^-level``, turned."""
    q = torch.linalg.qr(normal(b, 3, 3, seed=seed)).Q
    return normal(b, n, 3, seed=seed + 1) @ (torch.tensor([1, 10 ** (-level / 2), 10**-level]).double() * q).mT


@pytest.mark.parametrize("group", [mf.SL(4), mf.SL(3), mf.GL(4)], ids=str)
def test_ties_are_those_of_the_cloud_however_thin_it_is_seen(group: mf.GL) -> None:
    """Of SL the last axis follows from the determinant, and rows that tie for it decide nothing."""
    model = mf.Invariant(numbers, group, "vector", frames=mf.frames.Unordered())
    x = normal(600, 14, group.d)
    wanted, found = model(x), model(moved(group, x, condition=600.0))
    assert ((found - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max() < 1e-10
    assert (group.frame(x).margin > 0).all() or not group.special


@pytest.mark.parametrize(("group", "level", "share"), [(mf.GL(3), 4.0, 0.01), (mf.Aff(3), 3.5, 0.01)], ids=str)
def test_rounding_seldom_decides_about_thin_clouds(group: mf.GL | mf.Aff, level: float, share: float) -> None:
    """Whether rows tie does not follow the rounding of one observer, which is not that of another."""
    model = mf.Invariant(numbers, group, "point", frames=mf.frames.Unordered())
    x = thin(300, 8, level).float()
    wanted, found = model(x), model(moved(group, x))
    wrong = (found - wanted).norm(dim=-1) > 0.02 * wanted.norm(dim=-1)
    assert wrong.double().mean() <= share


def test_thin_cubes_keep_their_symmetry() -> None:
    group = mf.GL(3)
    model = mf.Invariant(numbers, group, "vector", frames=mf.frames.Unordered())
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 3)
    q = torch.linalg.qr(normal(2, 40, 3, 3)).Q
    x = (corners @ (q[0] * torch.tensor([1, 1e-2, 1e-4]).double() @ q[1])).float()
    order = torch.rand(40, 8, 1, generator=generator(5)).argsort(1).expand(x.shape)
    wanted, found = model(x), model(moved(group, x).gather(1, order))
    assert ((found - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max() < 1e-3  # 1e-4 is rounding


@pytest.mark.parametrize("level", [4, 8, 11])
def test_thin_simplices_come_back(level: int) -> None:
    """Relative to their mean, along a thin axis too: all orders of the points are one pose."""
    group = mf.Aff(3)
    model = mf.Equivariant(lambda x: x, group, "point", "point", frames=mf.frames.Unordered())
    x = thin(40, 4, level)
    assert model.frame(x).size == [24] * 40
    assert ((model(x) - x).flatten(1).norm(dim=-1) / x.flatten(1).norm(dim=-1)).max() < 1e-14


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("group", [mf.GL(3), mf.Aff(3)], ids=str)
def test_rounding_of_white_rows_is_known(group: mf.GL | mf.Aff, dtype: torch.dtype) -> None:
    """It bounds what one unit does to inner products, and is not far from it where rows are of every size."""
    sizes = 10 ** (6 * torch.rand(200, 9, 1, dtype=torch.float64, generator=generator(4)))
    for x in (normal(200, 9, 3), thin(200, 9, 3.0), normal(200, 9, 3) * sizes):
        x = x.to(dtype)
        given, eps = cloud(group, x), torch.finfo(dtype).eps
        rows, layout = given.rows()
        white = whiten(rows, layout, given.precision, given.is_centred)
        squares = given.rounded_squares(rows)
        bound, _ = white_rounding(squares, white, layout, given.precision, given.is_centred)
        gram, unit = white.rows @ white.rows.mT, white.rows.square().sum(-1).amax(-1)
        worst = torch.zeros_like(bound)
        for seed in range(4):
            noise = torch.rand(x.shape, dtype=torch.float64, generator=generator(seed)) - 0.5
            near = cloud(group, x.double() + eps * noise * x.double().abs())
            near_rows, _ = near.rows()
            other = whiten(near_rows, layout, given.precision, given.is_centred).rows
            worst = torch.maximum(worst, (other @ other.mT - gram).abs().amax((1, 2)) / unit)
        known = white.determined.all(-1) & (bound < 0.1)
        assert known.double().mean() > 0.5
        assert (worst <= 2 * bound + 1e-14)[known].all()
        assert (bound / worst.clamp_min(1e-14))[known].median() < 20


def test_of_two_points_that_nearly_coincide_the_clear_difference_decides() -> None:
    """And not one that is within the rounding of some observers."""
    group = GL(3)
    x = normal(2000, 7, 3)
    step = normal(2000, 1, 3, seed=1)
    x = torch.cat([x, x[:, :1] + 3e-10 * step / step.norm(dim=-1, keepdim=True)], 1)  # along the first axis often less
    points = point_set(group, cloud(group, x))
    orders = [
        order_points(replace(points, equals=torch.full_like(points.equals, e)), DEFAULT) for e in (1e-12, 1.5e-11)
    ]
    assert torch.equal(orders[0].order, orders[1].order)
    assert torch.equal(orders[0].twins, orders[1].twins)
