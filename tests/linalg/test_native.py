"""Small clouds are decomposed by compiled loops, others by PyTorch: with one result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import minframe as mf
from clouds import all_clouds
from minframe.cloud import Input
from minframe.layout import Dense
from minframe.linalg import native
from minframe.linalg.loops import loops_for, pivoted_qr
from minframe.linalg.rows import PivotedQR
from table import DIMENSIONS, DTYPES, GROUPS, clouds_for, relative

pytestmark = pytest.mark.usefixtures("compiled")
T = TypeVar("T")


def both(function: Callable[[], T]) -> tuple[T, T]:
    """What it returns by the compiled loops, and by PyTorch."""
    with native.disabled():
        other = function()
    return function(), other


def is_compiled(x: Tensor) -> bool:
    return loops_for(x, Dense(tuple(x.shape[:-2]), x.shape[-2])) is native


def turned(x: Tensor, dtype: torch.dtype) -> Tensor:
    """In a pose where nothing is zero by accident."""
    return (x @ mf.SO(x.shape[-1]).random(dtype=torch.float64).mT).to(dtype)


def assert_same(one: PivotedQR, other: PivotedQR, dtype: torch.dtype, name: str) -> None:
    assert torch.equal(one.determined, other.determined), name
    assert one.full == bool(one.determined.all())
    known = one.determined
    assert torch.equal(one.positions[known], other.positions[known]), name
    tied = torch.zeros_like(known[..., 0]) if one.tied is None else one.tied
    assert torch.equal(tied, torch.zeros_like(tied) if other.tied is None else other.tied), name
    size = float(other.peaks[..., 0].max().sqrt())
    for left, right, atol in (
        (one.peaks.sqrt() * known, other.peaks.sqrt() * known, 1e-11 * size),
        (one.pose(dtype), other.pose(dtype), max(1e-11, torch.finfo(dtype).eps) * size),
        (one.basis * known.unsqueeze(-2), other.basis * known.unsqueeze(-2), 1e-11),
    ):
        torch.testing.assert_close(left, right, rtol=0, atol=atol, msg=lambda text: f"{name}: {text}")
    eye = torch.eye(known.shape[-1], dtype=torch.float64)
    torch.testing.assert_close(one.basis.mT @ one.basis, eye.expand_as(one.basis), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("longest", [False, True])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_decompositions_agree(d: int, special: bool, longest: bool, dtype: torch.dtype) -> None:
    named = clouds_for(mf.E(d)) | {name: x for name, x in all_clouds().items() if x.shape[-1] == d}
    for name, x in named.items():
        x = turned(x, dtype).expand(2, *x.shape)
        cloud = mf.E(d).cloud([Input("x", x, "point")])
        for origin in (False, True):
            cloud = cloud.centred() if origin else cloud
            cloud.longest = longest
            rows = cloud.as_rows()
            assert loops_for(rows.values, rows.layout) is native
            assert_same(*both(lambda rows=rows: pivoted_qr(rows, special)), dtype, name)


@pytest.mark.parametrize("group", [g for g in GROUPS if not g.complex], ids=str)
def test_poses_agree(group: mf.Group) -> None:
    """Also of groups that choose among rows of different rounding, and of several inputs."""
    for name, x in clouds_for(group).items():
        points = Input("x", x.expand(2, *x.shape), "point")
        vectors = Input("v", x.flip(0).expand(2, *x.shape), "vector")
        for inputs in ([points], [points, vectors]):
            frames = both(lambda inputs=inputs: group.frame_of(group.cloud(inputs)))
            for _, given, type in inputs:
                one, other = (frame.pose(given, type, own=True) for frame in frames)
                assert relative(one, other) < 1e-10, (name, type)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_means_and_masks_agree(dtype: torch.dtype) -> None:
    x = (torch.randn(4, 3, 6, 3, dtype=torch.float64) * 1e-3 + 7).to(dtype)
    mask = torch.rand(4, 3, 6) < 0.6
    mask[..., 2] = True
    x[~mask] = torch.nan
    cloud = mf.E(3).cloud([Input("x", x, "point")], mask)
    one, other = both(lambda: cloud.centred().origin)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
    one, other = both(lambda: mf.canonicalize(x, mf.SE(3), mask=mask)[0])
    torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
    assert torch.equal(one[~mask], torch.zeros_like(one[~mask]))
    coincident = torch.full((5, 7, 3), 0.1, dtype=dtype)
    assert not mf.canonicalize(coincident, mf.E(3))[0].any()


def test_rows_may_be_anywhere_in_memory() -> None:
    x = torch.randn(7, 3, 5, dtype=torch.float64)
    z = torch.complex(torch.randn(7, 5, 3), torch.randn(7, 5, 3))
    for rows in (x.mT, x.mT[::2, 1:], x.mT[0], x.mT.expand(2, 7, 5, 3), z.imag, z.conj().imag):
        one, other = (mf.canonicalize(y, mf.E(3))[0] for y in (rows, rows.clone(memory_format=torch.contiguous_format)))
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14 if one.dtype == torch.float64 else 1e-6)


@pytest.mark.parametrize("frames", [mf.frames.Minimal(), mf.frames.Unordered()], ids=str)
@pytest.mark.parametrize("group", [mf.SO(3), mf.E(3), mf.Lorentz(3)], ids=str)
def test_nan_shows_in_its_sample(group: mf.Group, frames: mf.frames.Method) -> None:
    x = torch.randn(3, 6, 3, dtype=torch.float64)
    x[1, 2, 0] = torch.nan
    with mf.unchecked():
        for pose, frame in both(lambda: mf.canonicalize(x, group, frames=frames)):
            assert pose.isnan().all((-1, -2)).tolist() == [False, True, False]
            assert frame.element.isnan().any((-1, -2)).tolist() == [False, True, False]
            assert pose[::2].isfinite().all()


def test_what_is_watched_is_left_to_pytorch() -> None:
    x = torch.randn(2, 5, 3)
    assert is_compiled(x)
    assert not is_compiled(x.to(torch.bfloat16))
    assert not is_compiled(x.to(torch.complex64))
    assert not is_compiled(x.to("meta"))
    assert not is_compiled(x.expand(1000, 2, 5, 3))
    assert not is_compiled(torch.randn(2, 5, 3, dtype=torch.complex64).conj().imag)
    assert not is_compiled(x.clone().requires_grad_())
    assert is_compiled(x.clone().requires_grad_().detach())
    with FakeTensorMode():
        assert not is_compiled(x)
        assert not is_compiled(torch.empty(2, 5, 3))
    seen = []
    torch.func.vmap(lambda x: seen.append(is_compiled(x)) or x)(x)
    assert seen == [False]
