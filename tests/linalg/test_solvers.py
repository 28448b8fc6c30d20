"""Inverses, factors, singular values and eigenvectors inside ``unchecked()``: the same numbers, and no wait."""

from __future__ import annotations

import pytest
import torch

import minframe as mf
from minframe.linalg import solvers
from operations import counted

BY_NAME = {"inv": torch.linalg.inv, "cholesky": torch.linalg.cholesky, "svdvals": torch.linalg.svdvals}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8])
def test_singular_values(d: int, dtype: torch.dtype) -> None:
    torch.manual_seed(d)
    a = torch.randn(50, d, d, dtype=dtype)
    a[0] = 0
    a[1] = torch.eye(d)
    a[2] = 1  # rank one
    a[3, :, 0] *= 1e-9
    a[4:20] *= torch.logspace(0, -12, d)
    a[20:30] = a[20:30] @ torch.randn(10, d, 1, dtype=dtype) @ torch.randn(10, 1, d, dtype=dtype)
    want = torch.linalg.svdvals(a)
    found = torch.empty_like(want)
    with mf.unchecked():
        run = counted(lambda: found.copy_(solvers.svdvals(a)))
    assert not run.waits
    assert ((found - want).abs() <= 1e-14 * d * want[:, :1]).all()


@pytest.mark.parametrize("name", BY_NAME)
def test_nothing_is_waited_for(name: str) -> None:
    a = torch.randn(5, 3, 3, dtype=torch.float64)
    a = a @ a.mT + torch.eye(3)
    found = []
    with mf.unchecked():
        run = counted(lambda: found.append(getattr(solvers, name)(a)))
    assert not run.waits
    torch.testing.assert_close(found[0], BY_NAME[name](a))


def test_solutions() -> None:
    a, b = torch.randn(5, 3, 3, dtype=torch.float64), torch.randn(5, 3, 2, dtype=torch.float64)
    found = []
    with mf.unchecked():
        run = counted(lambda: found.append(solvers.solve(a, b)))
    assert not run.waits
    torch.testing.assert_close(found[0], torch.linalg.solve(a, b))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8])
def test_eigenvectors(d: int, dtype: torch.dtype) -> None:
    torch.manual_seed(d)
    rows = torch.randn(40, d + 2, d, dtype=dtype)
    rows[0] = 0
    rows[1, :, 1:] = 0
    rows[2] = torch.eye(d + 2, d)  # all eigenvalues coincide
    rows[3:10] *= 1e-6
    rows[10:20] *= torch.logspace(0, -5, d)
    a = rows.mT @ rows.conj()
    size = torch.linalg.matrix_norm(a).unsqueeze(-1)
    found: list[torch.Tensor] = []
    with mf.unchecked():
        run = counted(lambda: found.extend(solvers.eigh(a)))
    assert not run.waits
    values, vectors = found
    assert ((values - torch.linalg.eigvalsh(a)).abs() <= 1e-14 * d * size).all()
    torch.testing.assert_close(vectors.mH @ vectors, torch.eye(d, dtype=dtype).expand(a.shape), rtol=0, atol=1e-13 * d)
    assert ((a @ vectors - vectors * values.unsqueeze(-2)).abs() <= 1e-14 * d * size.unsqueeze(-1)).all()


def test_derivatives_of_eigenvectors() -> None:
    torch.manual_seed(0)
    rows, weights = torch.randn(5, 6, 3, dtype=torch.float64), torch.randn(5, 3, 3, dtype=torch.float64)
    gradients = []
    for quiet in (False, True):
        x = rows.clone().requires_grad_()

        def slope(x: torch.Tensor = x) -> None:
            values, vectors = solvers.eigh(x.mT @ x)
            total = (values * weights[..., 0]).sum() + (vectors.square() * weights).sum()
            (first,) = torch.autograd.grad(total, x, create_graph=True)
            gradients.append((first, *torch.autograd.grad(first.square().sum(), x)))

        with mf.unchecked():
            if quiet:
                counted(slope)
            else:
                slope()
    for found, want in zip(*reversed(gradients), strict=True):
        torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9 * float(want.detach().abs().max()))
