"""Rows are decomposed by compiled loops or by PyTorch, with one result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import minframe as mf
from clouds import all_clouds
from minframe.cloud import Input
from minframe.frame.components import _at_rest
from minframe.layout import Dense, Ragged
from minframe.linalg import native
from minframe.linalg.eigen import time_axis
from minframe.linalg.loops import loops_for, multiply, pivoted_qr, scatter, to_rest
from minframe.linalg.qr import floor_of, tie_width
from minframe.linalg.rows import Rows
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
    group = (mf.SU if dtype.is_complex else mf.SO)(x.shape[-1])
    return (x @ group.random(dtype=x.dtype).mT).to(dtype)


def assert_same(rows: Rows, special: bool, dtype: torch.dtype, name: str) -> None:
    """One result both ways; where all that is left of any row ties with nothing, only that rows tie."""
    one, other = both(lambda: pivoted_qr(rows, special))
    assert torch.equal(one.determined, other.determined), name
    assert one.full == bool(one.determined.all())
    tied, other_tied = (torch.zeros_like(f.determined[..., 0]) if f.tied is None else f.tied for f in (one, other))
    assert torch.equal(tied, other_tied), name
    known, size = one.determined, float(other.peaks[..., 0].max().sqrt())
    if rows.longest:
        width = tie_width(other.peaks[..., :1], floor_of(rows), rows.precision.tolerance)
        blurred = known & (other.peaks.sqrt() <= 1.01 * width)
        assert (tied | ~blurred[..., : known.shape[-1] - special].any(-1)).all(), name
        known = known & ~blurred.any(-1, keepdim=True)
    shown = rows.layout.for_each_row(known)
    assert torch.equal(one.positions[known], other.positions[known]), name
    for left, right, atol in (
        (one.peaks.sqrt() * known, other.peaks.sqrt() * known, 1e-11 * size),
        (one.pose(dtype) * shown, other.pose(dtype) * shown, max(1e-11, torch.finfo(dtype).eps) * size),
        (one.basis * known.unsqueeze(-2), other.basis * known.unsqueeze(-2), 1e-11),
    ):
        torch.testing.assert_close(left, right, rtol=0, atol=atol, msg=lambda text: f"{name}: {text}")
    eye = torch.eye(known.shape[-1], dtype=one.basis.dtype)
    torch.testing.assert_close(one.basis.mH @ one.basis, eye.expand_as(one.basis), rtol=0, atol=1e-14)
    if special:
        det = torch.linalg.det(one.basis)
        torch.testing.assert_close(det, torch.ones_like(det), rtol=0, atol=1e-13)


def padded(x: Tensor) -> dict[str, Tensor]:
    """Two samples, with NaN for padding in front and behind."""
    nothing = torch.full_like(x[:1], torch.nan)
    mask = torch.ones(2, len(x) + 1, dtype=torch.bool)
    mask[0, 0] = mask[1, -1] = False
    return {"x": torch.stack([torch.cat([nothing, x]), torch.cat([x, nothing])]), "mask": mask}


def listed(x: Tensor) -> dict[str, Tensor]:
    """Three samples in turns, each with its rows in order; one of them has a single row."""
    rows, batch = torch.cat([x, x[:1], x]), torch.tensor([0] * len(x) + [1] + [2] * len(x))
    batch = batch[torch.randperm(len(rows))] if len(x) > 1 else batch  # samples of one row have to be in order
    return {"x": rows[batch.argsort(stable=True).argsort()], "batch": batch}


LAYOUTS = {"dense": lambda x: {"x": x.expand(2, *x.shape)}, "masked": padded, "batch vector": listed}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("longest", [False, True])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_decompositions_agree(d: int, special: bool, longest: bool, dtype: torch.dtype, layout: str) -> None:
    group: mf.Group = mf.Aff(d, complex=True) if dtype.is_complex else mf.E(d)
    named = clouds_for(mf.U(d) if dtype.is_complex else group)
    named |= {name: x for name, x in all_clouds().items() if x.shape[-1] == d}
    for name, x in named.items():
        x = x.to(torch.complex128) if dtype.is_complex else x
        x, *layouts = LAYOUTS[layout](turned(x, dtype)).items()
        cloud = group.cloud([Input(*x, "point")], **dict(layouts))
        for origin in (False, True):
            cloud = cloud.centred() if origin else cloud
            cloud.longest = longest
            rows = cloud.as_rows()
            assert loops_for(rows.values, rows.layout) is native
            assert_same(rows, special, dtype, name)


@pytest.mark.parametrize("group", GROUPS, ids=str)
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
    for rows in (x.mT, x.mT[::2, 1:], x.mT[0], x.mT.expand(2, 7, 5, 3), z.imag, z.conj().imag, z.conj()[:, ::2]):
        group = mf.U(3) if rows.is_complex() else mf.E(3)
        one, other = (mf.canonicalize(y, group)[0] for y in (rows, rows.clone(memory_format=torch.contiguous_format)))
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14 if one.dtype == torch.float64 else 1e-6)


def test_poses_belong_to_whoever_asked() -> None:
    x = torch.randn(4, 6, 3)
    for group in (mf.SE(3), mf.GL(3), mf.SL(3), mf.E(2) + mf.Trivial(1)):
        first, frame = mf.canonicalize(x, group)
        kept = first.clone()
        first.zero_()
        for _ in range(2):
            again = frame.pose(x, own=True)
            assert torch.equal(again, kept)
            again.fill_(7)


@pytest.mark.parametrize("frames", [mf.frames.Minimal(), mf.frames.Unordered()], ids=str)
@pytest.mark.parametrize("group", [mf.SO(3), mf.E(3), mf.Lorentz(3), mf.SL(3)], ids=str)
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
    assert not is_compiled(x.to("meta"))
    assert not is_compiled(torch.randn(2, 5, 3, dtype=torch.complex64).conj().imag)
    assert not is_compiled(x.clone().requires_grad_())
    assert is_compiled(x.clone().requires_grad_().detach())
    with FakeTensorMode():
        assert not is_compiled(x)
        assert not is_compiled(torch.empty(2, 5, 3))
    seen = []
    torch.func.vmap(lambda x: seen.append(is_compiled(x)) or x)(x)
    assert seen == [False]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_products_agree(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MIN_NUMEL_PER_THREAD", 1)
    ragged = Ragged(torch.randint(0, 7, (500,)), 7)
    for layout, d in ((Dense((2, 3), 7), 3), (Dense((5,), 130), 4), (Dense((1,), 17_000), 5), (ragged, 3)):
        x = torch.randn(*layout.rows_shape, d, dtype=dtype)
        matrix = torch.randn(*layout.batch_shape, d, d, dtype=dtype).mH
        for rows in (x, x.conj().mT.contiguous().mT):
            for function in (partial(scatter, rows, layout), partial(multiply, rows, layout, matrix)):
                one, other = both(function)
                torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-11)
                torch.set_num_threads(3)
                try:
                    assert torch.equal(function(), one)
                finally:
                    torch.set_num_threads(1)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_white_rows_agree(layout: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call makes rows white and decomposes them, with any number of threads; thin rows are left to PyTorch."""
    monkeypatch.setattr(native, "MIN_NUMEL_PER_THREAD", 1)
    called = []
    monkeypatch.setattr(
        native, "white_qr", lambda *args, whole=native.white_qr: called.append(whole(*args)) or called[-1]
    )
    atol = 1e-11 if dtype in (torch.float64, torch.complex128) else 1e-5
    for d in (1, 3, 4, 6):
        n, given = 4 * d, {}
        x = torch.cat([length * torch.eye(d, dtype=dtype) for length in (1, -2, 1.5, -1)])
        x = x + 0.2 * torch.randn(3, n, d, dtype=dtype)
        if layout == "masked":
            given = {"mask": torch.arange(n) < torch.tensor([n, n - 1, 3 * d]).unsqueeze(-1)}
        if layout == "batch vector":
            x, given = x.reshape(3 * n, d), {"batch": torch.arange(3).repeat(n)}
        thin = x * torch.tensor([*[1] * (d - 1), 1e-3], dtype=dtype)
        for group in (group(d, complex=dtype.is_complex) for group in (mf.GL, mf.SL, mf.Aff)):
            for rows, direct in ((x, True), *[(thin, False)] * (d > 1)):
                found = partial(mf.canonicalize, rows, group, **given)
                called.clear()
                one, other = both(found)
                assert [found is not None for found in called] == [direct]
                for a, b in zip((one[0], one[1].element), (other[0], other[1].element), strict=True):
                    torch.testing.assert_close(a, b, rtol=atol, atol=atol)
                torch.set_num_threads(3)
                try:
                    assert torch.equal(found()[0], one[0])
                finally:
                    torch.set_num_threads(1)


def decomposed(x: Tensor, threads: int, monkeypatch: pytest.MonkeyPatch, **layout: Tensor) -> list[Tensor]:
    monkeypatch.setattr(native, "MIN_NUMEL_PER_THREAD", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        group = mf.Aff(x.shape[-1], complex=True) if x.is_complex() else mf.E(x.shape[-1])
        cloud = group.cloud([Input("x", x, "point")], **layout).centred()
        found = pivoted_qr(cloud.as_rows(), False)
    finally:
        torch.set_num_threads(before)
    assert cloud.origin is not None
    return [cloud.origin, found.coordinates[0], found.basis, found.positions, found.peaks, found.determined]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64], ids=str)
def test_the_number_of_threads_changes_no_bit(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many samples, of large ones, and of both in one batch."""
    batch = torch.cat([torch.zeros(17_001), torch.arange(1, 3).repeat(16_500), torch.arange(3, 40).repeat(9)]).long()
    for shape, layout in (
        ((50, 30, 3), {}),
        ((3, 16_390, 3), {"mask": torch.rand(3, 16_390) < 0.9}),
        ((2, 16_384, 4), {}),
        ((len(batch), 3), {"batch": batch[torch.randperm(len(batch))]}),
        ((0, 5, 3), {}),
    ):
        x = torch.randn(shape, dtype=dtype) + 3
        one, *others = (decomposed(x, threads, monkeypatch, **layout) for threads in (1, 2, 5))
        for other in others:
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True)), shape
        if len(x):
            with native.disabled():
                want = decomposed(x, 1, monkeypatch, **layout)
            assert torch.equal(one[3], want[3])
            for a, b in zip(one, want, strict=True):
                tolerance = 1e-5 if a.dtype in (torch.float32, torch.complex64) else 1e-11
                torch.testing.assert_close(a, b.to(a.dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("time", [0, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_products_are_brought_to_rest(time: int, masked: bool) -> None:
    """With what they had left of a total across the axis of time taken away, in the same call."""
    x = torch.randn(2, 5, 70, 4, dtype=torch.float64)
    mask = torch.rand(2, 5, 70) > 0.3 if masked else None
    x = x if mask is None else torch.where(mask.unsqueeze(-1), x, 0)
    x[..., time] = x.norm(dim=-1)
    layout, matrix = Dense((2, 5), 70, mask), torch.randn(2, 5, 4, 4, dtype=torch.float64)
    found = to_rest(x, layout, matrix, time)
    assert found is not None
    torch.testing.assert_close(found, _at_rest(multiply(x, layout, matrix), layout, None, time), rtol=1e-12, atol=1e-11)
    alone = to_rest(x[1:], Dense((1, 5), 70, None if mask is None else mask[1:]), matrix[1:], time)
    assert alone is not None
    assert torch.equal(alone, found[1:])
    momentum = torch.rand(2, 5) > 0.5
    some = to_rest(x, layout, matrix, time, momentum)
    assert some is not None
    assert torch.equal(some[momentum], found[momentum])
    assert torch.equal(some[~momentum], multiply(x, layout, matrix)[~momentum])
    with native.disabled():
        assert to_rest(x, layout, matrix, time) is None
    assert to_rest(x.cfloat(), layout, matrix.cfloat(), time) is None


@pytest.mark.parametrize("time", [0, -1])
@pytest.mark.parametrize("d", [2, 3, 4, 7])
def test_time_axes_agree(d: int, time: int) -> None:
    """Found one by one: none depends on other samples."""
    x = torch.randn(3, 50, 40, d, dtype=torch.float64) * torch.linspace(0.3, 2, d, dtype=torch.float64)
    x[..., time] += 1
    s = x.mT @ x
    found, other = both(lambda: time_axis(s, time % d))
    assert found is not None
    assert other is not None
    torch.testing.assert_close(found, other, rtol=1e-13, atol=1e-14)
    eta = torch.full((d,), -1.0, dtype=torch.float64)
    eta[time] = 1
    torch.testing.assert_close((found.square() * eta).sum(-1), torch.ones(3, 50, dtype=torch.float64))
    alone = time_axis(s[1, 7:8], time % d)
    assert alone is not None
    assert torch.equal(alone, found[1, 7:8])
    s[2, 3] = torch.nan
    assert time_axis(s, time % d) is None


def test_the_norm_of_all_rows() -> None:
    x = torch.randn(3, 7, 4, dtype=torch.float64)
    batch = torch.arange(3).repeat_interleave(7)
    want = x.square().sum((-2, -1)).sqrt().unsqueeze(-1)
    torch.testing.assert_close(Dense((3,), 7).norm(x), want)
    torch.testing.assert_close(Ragged(batch, 3).norm(x.flatten(0, 1)), want)
