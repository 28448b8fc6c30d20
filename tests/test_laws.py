"""The laws in the docstring of ``Group``, for every group of the table and every family of clouds."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minframe as mf
from table import BACKBONES, BOUND, FAMILIES, GROUPS, clouds_for

ELEMENTS = 1000
by_group = pytest.mark.parametrize("group", GROUPS, ids=str)
by_dtype = pytest.mark.parametrize("dtype", BOUND, ids=["float64", "float32"])


def relative(a: Tensor, b: Tensor) -> float:
    """Largest distance of two batches of clouds, per sample, relative to the size of the second."""
    if not a.numel():
        return 0.0
    a, b = a.double().flatten(1), b.double().flatten(1)
    scale = b.norm(dim=1).clamp_min(1e-300)
    return float(((a - b).norm(dim=1) / scale).max())


def moved(group: mf.Group, x: Tensor, count: int = 50) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` in ``count`` copies, random elements whose shifts are of its size, and the copies moved by them."""
    g = group.random(count, dtype=torch.float64)
    linear, shift = group.parts(g)
    if shift is not None:
        lengths = x.double().norm(dim=-1)
        size = float(lengths.median()) or 1.0
        g = group.assemble(linear, shift * size)
    copies = x.expand(count, *x.shape)
    return copies, g, group.act(g, copies.double()).to(x.dtype)


@by_group
def test_action(group: mf.Group) -> None:
    x = torch.randn(20, 7, group.d, dtype=torch.float64)
    g, h = group.random(20, dtype=torch.float64), group.random(20, dtype=torch.float64)
    for type in ("point", "vector", "covector", "pseudovector", "scalar"):
        assert relative(group.act(g, group.act(h, x, type), type), group.act(group.compose(g, h), x, type)) < 1e-12
        assert relative(group.act(group.inverse(g), group.act(g, x, type), type), x) < 1e-12
    t = torch.randn(20, 7, group.d, group.d, dtype=torch.float64)
    assert (
        relative(group.act(g, group.act(h, t, "tensor"), "tensor"), group.act(group.compose(g, h), t, "tensor")) < 1e-12
    )


@by_group
@by_dtype
def test_membership(group: mf.Group, dtype: torch.dtype) -> None:
    g, h = group.random(50, dtype=dtype), group.random(50, dtype=dtype)
    for element in (g, group.inverse(g), group.compose(g, h)):
        assert element.dtype == dtype
        assert group.contains(element).all()
    for name, x in clouds_for(group).items():
        assert group.contains(group.frame(x.to(dtype)).element).all(), name


@by_group
def test_only_elements_are_contained(group: mf.Group) -> None:
    g = group.random(5, dtype=torch.float64)
    if isinstance(group, mf.Translation):
        assert not group.contains(g * torch.nan).any()
    else:
        assert not group.contains(g * 1.01).any()


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_determinant_tells_the_special_groups_apart(d: int) -> None:
    flip = torch.eye(d, dtype=torch.float64)
    flip[0, 0] = -1
    assert mf.O(d).contains(flip)
    assert not mf.SO(d).contains(flip)
    assert torch.linalg.det(mf.SO(d).random(100, dtype=torch.float64)).sub(1).abs().max() < 1e-12
    signs = torch.linalg.det(mf.O(d).random(400, dtype=torch.float64)).sign()
    assert 140 < int((signs > 0).sum()) < 260


def test_random_is_haar() -> None:
    # Moments that the Haar measure of SO(3) fixes: E[g] = 0, E[g_ij^2] = 1/3, E[(tr g)^2] = 1, E[tr g] = 0.
    g = mf.SO(3).random(200_000, dtype=torch.float64)
    trace = g.diagonal(dim1=-2, dim2=-1).sum(-1)
    assert g.mean(0).abs().max() < 0.01
    assert (g.square().mean(0) - 1 / 3).abs().max() < 0.01
    assert abs(float(trace.square().mean()) - 1) < 0.02
    assert abs(float(trace.mean())) < 0.01


@by_group
@by_dtype
def test_canonical_pose_is_one_per_orbit(group: mf.Group, dtype: torch.dtype) -> None:
    for name, x in clouds_for(group).items():
        copies, _, gx = moved(group, x.to(dtype))
        pose, frame = mf.canonicalize(copies, group)
        turned, turned_frame = mf.canonicalize(gx, group)
        assert relative(turned, pose) <= BOUND[dtype], name
        assert torch.equal(frame.rank, turned_frame.rank), name
        assert torch.equal(frame.size, turned_frame.size), name


@by_group
@by_dtype
def test_idempotence(group: mf.Group, dtype: torch.dtype) -> None:
    for name, x in clouds_for(group).items():
        pose, _ = mf.canonicalize(x.to(dtype)[None], group)
        assert relative(mf.canonicalize(pose, group)[0], pose) <= BOUND[dtype], name


@by_group
@by_dtype
def test_there_and_back(group: mf.Group, dtype: torch.dtype) -> None:
    for name, x in clouds_for(group).items():
        frame = group.frame(x.to(dtype)[None])
        assert (
            relative(frame.from_canonical(frame.to_canonical(x.to(dtype)[None])), x[None].to(dtype)) <= BOUND[dtype]
        ), name


@by_group
def test_frame_is_equivariant(group: mf.Group) -> None:
    for name, x in clouds_for(group).items():
        copies, g, gx = moved(group, x)
        y = torch.randn(4, group.d, dtype=torch.float64).expand(50, -1, -1)
        for type in ("point", "vector", "covector", "pseudovector"):
            left = group.frame(gx).from_canonical(y, type)
            right = group.act(g, group.frame(copies).from_canonical(y, type), type)
            assert float((left - right).norm(dim=(-2, -1)).max()) <= 1e-11 * float(
                right.norm(dim=(-2, -1)).max() + 1
            ), (name, type)


@by_group
@by_dtype
def test_wrapped_backbones_are_equivariant(group: mf.Group, dtype: torch.dtype) -> None:
    # The headline: the worst of 1,000 random elements, on every family.
    for name, x in clouds_for(group).items():
        copies = x.to(dtype).expand(ELEMENTS, *x.shape)
        for backbone in BACKBONES:
            for outputs in ("point", "vector"):
                model = mf.Equivariant(backbone, group, outputs=outputs)
                error = mf.testing.equivariance_error(model, group, copies, elements=1)
                assert error.max() <= BOUND[dtype], (name, backbone.__name__, outputs)


@by_group
def test_values_are_finite_on_every_family(group: mf.Group) -> None:
    for name, x in clouds_for(group).items():
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            if not x.to(dtype).isfinite().all():
                continue  # the family does not fit in the dtype
            y = mf.Equivariant(lambda x: x.sin(), group)(x.to(dtype))
            assert y.isfinite().all(), (name, dtype)
            assert y.dtype == dtype


@pytest.mark.parametrize(
    ("group", "rows", "rank", "size"),
    [
        (mf.O(3), [[1, 0, 0], [0, 1, 0], [0, 0, 1]], 3, 1),
        (mf.O(3), [[1, 0, 0], [0, 1, 0]], 2, 2),
        (mf.O(3), [[1, 0, 0]], 1, float("inf")),
        (mf.O(3), [[0, 0, 0]], 0, float("inf")),
        (mf.SO(3), [[1, 0, 0], [0, 1, 0]], 2, 1),
        (mf.SO(3), [[1, 0, 0]], 1, float("inf")),
        (mf.SO(3), [[0, 0, 0]], 0, float("inf")),
        (mf.E(3), [[1, 0, 0], [0, 1, 0], [0, 0, 1]], 2, 2),
        (mf.SE(3), [[1, 0, 0], [0, 1, 0], [0, 0, 1]], 2, 1),
        (mf.E(3), [[5, 5, 5]], 0, float("inf")),
        (mf.O(1), [[0]], 0, 2),
        (mf.SO(1), [[0]], 0, 1),
        (mf.SO(2), [[0, 0]], 0, float("inf")),
        (mf.Translation(3), [[5, 5, 5]], 3, 1),
    ],
)
def test_rank_and_size(group: mf.Group, rows: list[list[float]], rank: int, size: float) -> None:
    frame = group.frame(torch.tensor([rows, rows], dtype=torch.float64))
    assert frame.rank.tolist() == [rank] * 2
    assert frame.size.tolist() == [size] * 2


@pytest.mark.parametrize("make", FAMILIES)
def test_groups_are_values(make: type[mf.Group]) -> None:
    group = make(3)
    assert group == make(3)
    assert hash(group) == hash(make(3))
    assert group != make(2)
    assert pickle.loads(pickle.dumps(group)) == group
    assert eval(repr(group), vars(mf).copy()) == group
    with pytest.raises(AttributeError):
        group.d = 4
    assert len({f(3) for f in FAMILIES}) == len(FAMILIES)


@given(
    d=st.integers(1, 6),
    n=st.integers(1, 9),
    rank=st.integers(0, 6),
    exponent=st.integers(-12, 12),
    offset=st.floats(-3, 3),
    seed=st.integers(0, 2**31),
    which=st.sampled_from(FAMILIES),
)
def test_any_cloud(d: int, n: int, rank: int, exponent: int, offset: float, seed: int, which: type[mf.Group]) -> None:
    generator = torch.Generator().manual_seed(seed)
    rank = min(rank, d, n)
    x = torch.randn(n, rank, dtype=torch.float64, generator=generator) @ torch.randn(
        rank, d, dtype=torch.float64, generator=generator
    )
    x = (x + offset) * 10.0**exponent
    group = which(d)
    model = mf.Equivariant(BACKBONES[seed % 2], group)
    margin = float(group.frame(x).margin)
    error = float(
        mf.testing.equivariance_error(model, group, x.expand(20, n, d), elements=1, generator=generator).max()
    )
    # A thin cloud has axes that are only as exact as the rounding of the moved input allows; the margin knows.
    assert error <= max(1e-11, 1e-14 / max(margin, 1e-300)), (error, margin)
