"""The decomposition in few operations has the results of that in PyTorch's planes, on every family of clouds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import minframe as mf
from minframe.cloud import Input
from minframe.linalg import few, loops, native, qr
from minframe.linalg.qr import MAX_LENGTH2_RATIO
from minframe.linalg.rows import Rows
from table import DIMENSIONS, DTYPES, clouds_for


def assert_same(rows: Rows, special: bool, dtype: torch.dtype, name: str) -> None:
    assert few.serves(rows)
    one, other = few.pivoted_qr(rows, special), qr.pivoted_qr(rows, special)
    known, size = other.determined, float(other.peaks[..., 0].max().sqrt())
    assert torch.equal(one.determined, known), name
    assert torch.equal(one.positions[known], other.positions[known]), name
    shown = known.unsqueeze(-2)
    for left, right, atol in (
        (one.peaks.sqrt() * known, other.peaks.sqrt() * known, 1e-11 * size),
        (one.pose(dtype), other.pose(dtype), max(1e-11, torch.finfo(dtype).eps) * size),
        (one.basis * shown, other.basis * shown, 1e-11),
    ):
        torch.testing.assert_close(left, right, rtol=0, atol=atol, msg=lambda text: f"{name}: {text}")
    eye = torch.eye(known.shape[-1], dtype=one.basis.dtype)
    torch.testing.assert_close(one.basis.mT @ one.basis, eye.expand_as(one.basis), rtol=0, atol=1e-14)
    if special:
        assert (torch.linalg.det(one.basis) - 1).abs().max() < 1e-13


@pytest.mark.parametrize("masked", [False, True], ids=["all real", "masked"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_results_agree(d: int, special: bool, dtype: torch.dtype, masked: bool) -> None:
    group = mf.E(d)
    for name, given in clouds_for(group).items():
        for size in (1.0, 1e-60):
            x = (size * given @ mf.SO(d).random(dtype=given.dtype).mT).to(dtype)  # nothing is zero by accident
            if dtype == torch.float32 and size < 1:
                continue
            x, mask = x.expand(2, 1, *x.shape), None
            if masked:
                mask = torch.rand(x.shape[:-1]) < 0.7
                mask[..., 0] = True
            cloud = group.cloud([Input("x", x, "point")], mask=mask)
            for origin in (False, True):
                rows = (cloud.centred() if origin else cloud).as_rows()
                assert_same(rows, special, dtype, name)
            assert_same(replace(rows, short=torch.full((2, 1, 1), MAX_LENGTH2_RATIO)), special, dtype, name)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_nothing_and_nan(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloud at the origin has a basis, and a sample with NaN has NaN alone."""
    monkeypatch.setattr(loops, "launches", lambda x: True)
    x = torch.randn(4, 5, d)
    x[0], x[1, 2, 0], x[2, 3, -1] = 0.0, torch.nan, torch.inf
    for group in (mf.O(d), mf.SO(d), mf.E(d)):
        with native.disabled(), mf.unchecked():
            y, frame = mf.canonicalize(x, group)
        assert (y[0] == 0).all()
        assert frame.rank[0] == 0
        assert group.contains(frame.element[[0, 3]]).all()
        assert y[1:3].isnan().all()
        assert frame.linear[1:3].isnan().all()  # type: ignore[attr-defined]
        assert y[3].isfinite().all()


def test_derivatives_of_flat_clouds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Axes that no row carries have no row to follow."""
    x = torch.randn(3, 5, 3, dtype=torch.float64)
    x[0, :, 2] = x[1, :, 1:] = x[2] = 0
    slopes = []
    for few_operations in (False, True):
        monkeypatch.setattr(loops, "launches", lambda x, few=few_operations: few)
        given = x.clone().requires_grad_()
        with native.disabled():
            y, frame = mf.canonicalize(given, mf.O(3))
        (frame.from_canonical(y.sin(), "vector").cos()).sum().backward()
        slopes.append(given.grad)
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)
