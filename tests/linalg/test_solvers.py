"""Inverses, factors and singular values inside ``unchecked()``: the same numbers, and no wait."""

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


def test_determinants_of_columns_of_any_length() -> None:
    """Powers of two change no digit of a product, so that the determinant stays what it was."""
    a = torch.randn(50, 3, 3, dtype=torch.float64)
    b = a * 2.0 ** torch.tensor([-27, -27, 54], dtype=torch.float64)
    b[:, 0, 2] *= 2.0**-53  # which elimination in the transpose begins with
    a[:, 0, 2] *= 2.0**-53
    for given in (b, b.mT.contiguous().mT):
        torch.testing.assert_close(solvers.det(given), torch.linalg.det(a), rtol=1e-13, atol=1e-13)


def test_elements_of_sl_with_a_long_free_column_are_in_the_group() -> None:
    x = torch.randn(20, 1, 3, dtype=torch.float64) * torch.randn(20, 12, 1, dtype=torch.float64)
    x = 1e-8 * (x + torch.randn(20, 1, 3, dtype=torch.float64))  # a line beside the origin: rank 2
    frame = mf.SL(3).frame(x.float())
    assert (frame.rank == 2).all()
    assert mf.SL(3).contains(frame.element).all()
