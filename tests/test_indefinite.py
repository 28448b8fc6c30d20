"""The QR decomposition for a metric of any signature."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.cloud import Cloud
from minframe.linalg.indefinite import indefinite_qr
from minframe.linalg.qr import PivotedQR, pivoted_qr
from minframe.ragged import layout_of
from minframe.types import VECTOR

SIGNATURES = [(1, 0), (3, 0), (0, 2), (1, 1), (1, 2), (1, 3), (3, 1), (2, 2), (4, 1)]


def eta_of(p: int, q: int) -> Tensor:
    return torch.diag(torch.tensor([1.0] * p + [-1.0] * q, dtype=torch.float64))


def elements(p: int, q: int, count: int, rapidity: float = 1.0) -> Tensor:
    """Rotations times boosts: exponentials of matrices with ``eta A`` antisymmetric; rapidities up to the given one."""
    d, eta = p + q, eta_of(p, q)
    a = torch.randn(count, d, d, dtype=torch.float64)
    a = a - a.mT
    return torch.linalg.matrix_exp(eta @ a * rapidity / d**0.5)


def decompose(x: Tensor, p: int, q: int) -> PivotedQR:
    return indefinite_qr(Cloud([(x, VECTOR)], layout_of(x, None, None)).planes(), [1] * p + [-1] * q)


def pose(found: PivotedQR) -> Tensor:
    return found.coordinates.movedim(0, -1)


@pytest.mark.parametrize(("p", "q"), SIGNATURES)
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_decomposition(p: int, q: int, missing: int) -> None:
    d, eta = p + q, eta_of(p, q)
    rank = max(1, d - missing)
    span = torch.randn(40, rank, d, dtype=torch.float64)
    x = torch.randn(40, 9, rank, dtype=torch.float64) @ span
    found = decompose(x, p, q)
    scale = found.basis.abs().amax((-2, -1))
    error = (found.basis.mT @ eta @ found.basis - eta).abs().amax((-2, -1))
    assert (error <= 1e-13 * scale.square()).all()  # an element of O(p, q), at every rank
    back = pose(found) @ found.basis.mT
    assert ((back - x).abs().amax((-2, -1)) <= 1e-13 * scale.square() * x.abs().amax((-2, -1))).all()
    assert (found.determined.sum(-1) == rank).all()
    free = pose(found).abs().amax(-2)[~found.determined]
    assert not free.numel() or free.max() < 1e-8
    # The determined axes have the signs of the metric on the span.
    inertia = torch.linalg.eigvalsh(span @ eta @ span.mT).sign().sum(-1)
    assert torch.equal((found.determined * eta.diagonal()).sum(-1), inertia)


@pytest.mark.parametrize(("p", "q"), SIGNATURES)
@pytest.mark.parametrize("missing", [0, 1])
def test_pose_is_invariant(p: int, q: int, missing: int) -> None:
    d = p + q
    rank = max(1, d - missing)
    x = (torch.randn(9, rank, dtype=torch.float64) @ torch.randn(rank, d, dtype=torch.float64)).expand(200, 9, d)
    g = elements(p, q, 200)
    one, other = decompose(x, p, q), decompose(x @ g.mT, p, q)
    assert torch.equal(one.determined, other.determined)
    torch.testing.assert_close(
        pose(other) * other.determined.unsqueeze(-2), pose(one) * one.determined.unsqueeze(-2), atol=1e-9, rtol=0
    )


def test_definite_metrics_agree_with_the_fast_path() -> None:
    x = torch.randn(30, 9, 4, dtype=torch.float64)
    cloud = Cloud([(x, VECTOR)], layout_of(x, None, None))
    fast = pivoted_qr(cloud.planes(), special=False)
    slow = decompose(x, 4, 0)
    torch.testing.assert_close(slow.basis, fast.basis)
    torch.testing.assert_close(pose(slow), fast.pose(torch.float64))
    assert torch.equal(slow.positions(), fast.positions())
    torch.testing.assert_close(decompose(x, 0, 4).basis.abs(), fast.basis.abs())


def test_rows_that_are_null_are_passed_over() -> None:
    x = torch.tensor([[1.0, 1, 0, 0], [1, 0, 1, 0], [3, 1, 0, 1], [0, 1, 2, 0]], dtype=torch.float64)
    found = decompose(x[None], 1, 3)
    assert found.determined.all()
    assert found.positions()[0, 0] == 2
    assert found.basis.isfinite().all()
    only_null = decompose(x[None, :1], 1, 3)
    assert not only_null.determined.any()
    assert torch.equal(only_null.basis[0], torch.eye(4, dtype=torch.float64))


def test_batch_vectors() -> None:
    x = torch.randn(3, 6, 4, dtype=torch.float64)
    batch = torch.arange(3).repeat_interleave(6)
    rows = x.flatten(0, 1)
    ragged = indefinite_qr(Cloud([(rows, VECTOR)], layout_of(rows, None, batch)).planes(), (1, -1, -1, -1))
    torch.testing.assert_close(ragged.basis, decompose(x, 1, 3).basis)
    assert mf.O(4).frame(rows, batch=batch).rank.tolist() == [4, 4, 4]
