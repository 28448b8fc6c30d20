"""The laws in the docstring of ``Group``, for every group of the table and every family of clouds."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minframe as mf
from minframe.dtypes import wide
from table import (
    BACKBONES,
    DTYPES,
    EUCLIDEAN,
    FAMILIES,
    FINITE,
    GROUPS,
    bound,
    clouds_for,
    has_size,
    is_steady,
    number,
    options,
    randn,
    relative,
    wild,
)

ELEMENTS = 1000
by_group = pytest.mark.parametrize("group", GROUPS, ids=str)
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])


def moved(
    group: mf.Group, x: Tensor, dtype: torch.dtype = torch.float64, count: int = 50
) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` in ``count`` copies, random elements whose shifts are of its size, and the copies moved by them."""
    g = group.random(count, dtype=number(group), **options(group, dtype))
    linear, shift = group.parts(g)
    if shift is not None:
        lengths = wide(x).norm(dim=-1)
        size = float(lengths.median()) or 1.0
        g = group.assemble(linear, shift * size)
    copies = x.expand(count, *x.shape)
    return copies, g, group.act(g, wide(copies)).to(x.dtype)


@by_group
def test_action(group: mf.Group) -> None:
    g, h = group.random(20, dtype=number(group)), group.random(20, dtype=number(group))
    for type in ("point", "vector", "covector", "pseudovector", "scalar", "pseudoscalar", "tensor", "cotensor"):
        x = randn(group, 20, 7, *(group.d,) * group.type(type).core_ndim)
        assert relative(group.act(g, group.act(h, x, type), type), group.act(group.compose(g, h), x, type)) < 1e-12
        assert relative(group.act(group.inverse(g), group.act(g, x, type), type), x) < 1e-12


@by_group
def test_vectors_and_covectors_pair_to_scalars(group: mf.Group) -> None:
    g, v, w, t = (group.random(20, dtype=number(group)), *(randn(group, 20, group.d) for _ in range(2)), None)
    t, u = (randn(group, 20, group.d, group.d) for _ in range(2))
    v, w, t, u = (
        torch.stack([x, group.act(g, x, type)])
        for x, type in ((v, "vector"), (w, "covector"), (t, "tensor"), (u, "cotensor"))
    )
    pairing, trace = (v * w).sum(-1), (t.mT @ u).diagonal(dim1=-2, dim2=-1).sum(-1)
    torch.testing.assert_close(pairing[1], pairing[0], atol=1e-11, rtol=1e-11)
    torch.testing.assert_close(trace[1], trace[0], atol=1e-10, rtol=1e-10)


@by_group
@by_dtype
def test_membership(group: mf.Group, dtype: torch.dtype) -> None:
    dtype = number(group, dtype)
    g, h = group.random(50, dtype=dtype), group.random(50, dtype=dtype)
    for element in (g, group.inverse(g), group.compose(g, h)):
        assert element.dtype == dtype
        assert group.contains(element).all()
    for name, x in clouds_for(group).items():
        assert group.contains(group.frame(x.to(dtype)).element).all(), name


@by_group
def test_only_elements_are_contained(group: mf.Group) -> None:
    g = group.random(5, dtype=number(group))
    assert not group.contains(g * torch.nan).any()
    if type(group) is mf.GL:
        assert not group.contains(g * 0).any()
    elif not isinstance(group, mf.Translation | mf.Scaling):
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


@pytest.mark.usefixtures("loops")
@by_group
@by_dtype
def test_canonical_pose_is_one_per_orbit(group: mf.Group, dtype: torch.dtype) -> None:
    for name, x in clouds_for(group).items():
        copies, _, gx = moved(group, x.to(number(group, dtype)), dtype)
        pose, frame = mf.canonicalize(copies, group)
        turned, turned_frame = mf.canonicalize(gx, group)
        assert relative(turned, pose) <= bound(group, dtype), name
        assert torch.equal(frame.rank, turned_frame.rank), name
        assert frame.size == turned_frame.size, name


@by_group
@by_dtype
def test_idempotence(group: mf.Group, dtype: torch.dtype) -> None:
    for name, x in clouds_for(group).items():
        pose, _ = mf.canonicalize(x.to(number(group, dtype))[None], group)
        assert relative(mf.canonicalize(pose, group)[0], pose) <= bound(group, dtype), name


@by_group
@by_dtype
def test_there_and_back(group: mf.Group, dtype: torch.dtype) -> None:
    for name, x in clouds_for(group).items():
        x = x.to(number(group, dtype))[None]
        frame = group.frame(x)
        assert relative(frame.from_canonical(frame.to_canonical(x)), x) <= bound(group, dtype), name
        assert relative(frame.from_canonical(mf.canonicalize(x, group)[0]), x) <= bound(group, dtype), name


@pytest.mark.usefixtures("loops")
@by_group
def test_frame_is_equivariant(group: mf.Group) -> None:
    for name, x in clouds_for(group).items():
        copies, g, gx = moved(group, x)
        frame, moved_frame = group.frame(copies), group.frame(gx)
        for type in ("point", "vector", "covector", "pseudovector", "pseudoscalar", "tensor", "cotensor"):
            kind = group.type(type)
            undefined = frame.stabiliser.undefined(kind, inward=False)
            if undefined is not None and undefined.any():
                continue
            y = randn(group, 4, *(group.d,) * kind.core_ndim).expand(50, 4, *(group.d,) * kind.core_ndim)
            left = moved_frame.from_canonical(y, type)
            right = group.act(g, frame.from_canonical(y, type), type)
            size = right.flatten(1).norm(dim=1).max() + 1
            assert (left - right).flatten(1).norm(dim=1).max() <= bound(group, torch.float64) * size, (name, type)


@pytest.mark.usefixtures("loops")
@by_group
@by_dtype
def test_wrapped_backbones_are_equivariant(group: mf.Group, dtype: torch.dtype) -> None:
    # The headline: the worst of 1,000 random elements, on every family.
    backbones, types = (BACKBONES, ("point", "vector")) if group in EUCLIDEAN else ((wild,), ("point",))
    for name, x in clouds_for(group).items():
        copies = x.to(number(group, dtype)).expand(ELEMENTS, *x.shape)
        for backbone in backbones:
            for outputs in types:
                model = mf.Equivariant(backbone, group, outputs=outputs)
                error = mf.testing.equivariance_error(
                    model, group, copies, elements=1, element_options=options(group, dtype)
                )
                assert error.max() <= bound(group, dtype), (name, backbone.__name__, outputs)


@by_group
def test_values_are_finite_on_every_family(group: mf.Group) -> None:
    for name, x in clouds_for(group).items():
        real = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
        for dtype in (torch.complex128, torch.complex64) if group.complex else real:
            if not x.to(dtype).isfinite().all() or not has_size(group, x.to(dtype).to(x.dtype)):
                continue  # the family does not fit in the dtype
            y = mf.Equivariant(lambda x: x / (1 + x.abs()), group)(x.to(dtype))
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
        (mf.Lorentz(), [[2, 0, 0, 0]], 1, float("inf")),
        (mf.Lorentz(), [[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], 3, 2),
        (mf.ProperLorentz(), [[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], 3, 1),
        (mf.OrthochronousLorentz(), [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], 3, 1),
        (mf.Lorentz(2), [[1, 1]], 1, 1),  # nothing but 1 keeps a null vector of the plane
        (mf.O(2, 2), [[1, 0, 1, 0], [0, 1, 0, 1]], 2, float("inf")),  # a totally null plane
        (mf.Poincare(), [[5, 5, 5, 5]], 0, float("inf")),
        (mf.GL(2), [[1, 0], [0, 1]], 2, 1),
        (mf.SL(2), [[1, 0]], 1, float("inf")),
        (mf.Aff(2), [[1, 0], [0, 1], [0, 0]], 2, 1),
    ],
)
def test_rank_and_size(group: mf.Group, rows: list[list[float]], rank: int, size: float) -> None:
    frame = group.frame(torch.tensor([rows, rows], dtype=torch.float64))
    assert frame.rank.tolist() == [rank] * 2
    assert frame.size == [size] * 2


@pytest.mark.parametrize(
    ("rows", "rank", "size"), [([[1, 0, 0], [1j, 2, 0]], 2, {mf.U: float("inf"), mf.SU: 1}), ([[1j, 0, 0]], 1, {})]
)
def test_rank_and_size_of_unitary_frames(rows: list[list[complex]], rank: int, size: dict[type, float]) -> None:
    for make in (mf.U, mf.SU):
        frame = make(3).frame(torch.tensor(rows, dtype=torch.complex128))
        assert int(frame.rank) == rank
        assert float(frame.size) == size.get(make, float("inf"))


@by_group
def test_groups_are_values(group: mf.Group) -> None:
    copy = pickle.loads(pickle.dumps(group))
    assert copy == group
    assert hash(copy) == hash(group)
    assert eval(repr(group), vars(mf).copy()) == group
    assert [other for other in GROUPS if other == group] == [group]
    with pytest.raises(AttributeError):
        group.d = 4


def test_groups_that_mean_the_same_are_equal() -> None:
    assert mf.Lorentz() == mf.O(1, 3)
    assert mf.ProperLorentz(3) == mf.SO(1, 2)
    assert mf.O(3, 0) == mf.O(3) == mf.O(0, 3)
    assert mf.U(2) == mf.U(2, 0) != mf.SU(2)
    assert mf.GL(2) != mf.GL(2, complex=True)
    assert len({mf.Lorentz(), mf.ProperLorentz(), mf.OrthochronousLorentz(), mf.O(3, 1), mf.Poincare()}) == 5


def test_random_elements_reach_as_far_as_asked() -> None:
    boost = mf.OrthochronousLorentz().random(2000, dtype=torch.float64, max_rapidity=2.0)
    rapidity = boost[:, 0, 0].acosh()
    assert 1.9 < float(rapidity.max()) <= 2.0
    assert float(rapidity.min()) < 0.1
    for group in (mf.GL(4), mf.SL(4), mf.GL(3, complex=True)):
        singular = torch.linalg.svdvals(group.random(2000, dtype=number(group), max_condition=100.0))
        condition = singular[:, 0] / singular[:, -1]
        assert 50 < float(condition.max()) <= 100 * (1 + 1e-9)
    with pytest.raises(ValueError, match="max_rapidity"):
        mf.Lorentz().random(2, max_rapidity=-1.0)
    with pytest.raises(ValueError, match="max_condition"):
        mf.GL(2).random(2, max_condition=0.5)


def test_random_reaches_every_component() -> None:
    g = mf.Lorentz().random(400, dtype=torch.float64)
    kinds = torch.stack([torch.linalg.det(g).sign(), g[:, 0, 0].sign()], -1)
    _, counts = kinds.unique(dim=0, return_counts=True)
    assert counts.tolist() == pytest.approx([100] * 4, abs=40)
    g = mf.ProperLorentz().random(400, dtype=torch.float64)
    assert torch.linalg.det(g).sub(1).abs().max() < 1e-11
    assert 140 < int((g[:, 0, 0] > 0).sum()) < 260
    assert (mf.OrthochronousLorentz().random(100)[:, 0, 0] > 0).all()
    assert 140 < int((torch.linalg.det(mf.GL(3).random(400)) > 0).sum()) < 260


PATHS, STEPS, HALVINGS = 6, 12, 46
PRODUCTS = [mf.S() * g for g in (mf.O(3), mf.E(3), mf.SE(2), mf.U(2), mf.GL(2), mf.Aff(2), mf.Lorentz())]
MINIMAL, UNORDERED = mf.frames.Minimal(), mf.frames.Unordered()


def pose_numbers(group: mf.Group, frames: mf.frames.Minimal, x: Tensor) -> Tensor:
    """``(b, 5)``, functions of the canonical pose that do not jump, and do not depend on the order of rows if it may not."""
    pose = wide(mf.canonicalize(x, group, frames=frames)[0])
    pose = torch.view_as_real(pose).flatten(-2) if pose.is_complex() else pose
    weight = torch.arange(1.0, 5 * pose.shape[-1] + 1, dtype=torch.float64).mul(2.4).sin().view(-1, 5)
    rows = (pose @ weight).abs()
    if frames == MINIMAL:
        rows = rows * torch.linspace(1.0, 2.0, rows.shape[-2], dtype=torch.float64).unsqueeze(-1)
    return rows.mean(-2)


def jumps(group: mf.Group, frames: mf.frames.Minimal, start: Tensor, end: Tensor) -> Tensor:
    """Where the pose jumps on lines between clouds ``(b, n, d)``: the two sides ``(2, k, n, d)`` of each jump found."""

    def at(t: Tensor) -> Tensor:
        return pose_numbers(group, frames, torch.lerp(start, end, t[:, None, None].to(start.dtype)))

    def gap(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).norm(dim=-1) / b.norm(dim=-1)

    grid = torch.linspace(0, 1, STEPS + 1, dtype=torch.float64)
    values = torch.stack([at(t.expand(len(start))) for t in grid])
    k, sample = gap(values[1:], values[:-1]).argmax(0), torch.arange(len(start))
    low, high, before, after = grid[k], grid[k + 1], values[k, sample], values[k + 1, sample]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        here = at(middle)
        upper = gap(after, here) > gap(here, before)
        low, high = torch.where(upper, middle, low), torch.where(upper, high, middle)
        before = torch.where(upper.unsqueeze(-1), here, before)
        after = torch.where(upper.unsqueeze(-1), after, here)
    jumped = gap(after, before) > 1e-6
    t = torch.stack([low, high])[:, jumped, None, None].to(start.dtype)
    return torch.lerp(start[jumped], end[jumped], t)


@pytest.mark.parametrize("frames", [MINIMAL, UNORDERED], ids=["minimal", "unordered"])
@pytest.mark.parametrize("group", GROUPS + PRODUCTS, ids=str)
def test_margins_are_rounding_at_jumps(group: mf.Group, frames: mf.frames.Minimal) -> None:
    linear = group.linear if group in PRODUCTS else group
    generator = torch.Generator().manual_seed(1)
    start, end = (randn(linear, PATHS, 6, linear.d, generator=generator) for _ in range(2))
    if frames == UNORDERED and any(isinstance(g, mf.SignedPermutations) for g in getattr(group, "groups", (group,))):
        with pytest.raises(ValueError, match="has no frames that ignore the order of rows"):
            mf.canonicalize(start, group, frames=frames)
        return
    if frames == UNORDERED and group in FINITE and hasattr(group, "groups"):
        with pytest.raises(ValueError, match="has no frames that ignore the order of rows inside a direct sum"):
            mf.canonicalize(start, group, frames=frames)
        return
    sides = jumps(group, frames, start, end)
    assert sides.shape[1] or is_steady(linear)
    for x in sides if sides.shape[1] else ():
        assert (mf.canonicalize(x, group, frames=frames)[1].margin <= 1e-9).all()
    if frames == UNORDERED or group in PRODUCTS:
        order = torch.randperm(6, generator=generator)
        margins = [mf.canonicalize(x, group, frames=frames)[1].margin for x in (start, start[:, order])]
        torch.testing.assert_close(*margins, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("make", [mf.U, mf.SU])
def test_random_unitary_is_haar(make: type[mf.U]) -> None:
    # E[g] = 0, E[|g_ij|^2] = 1/d, E[|tr g|^2] = 1 for d >= 2.
    g = make(3).random(100_000, dtype=torch.complex128)
    assert g.mean(0).abs().max() < 0.01
    assert (g.abs().square().mean(0) - 1 / 3).abs().max() < 0.01
    assert abs(float(g.diagonal(dim1=-2, dim2=-1).sum(-1).abs().square().mean()) - 1) < 0.02


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
