"""Determinants of columns of any length, and of unitary matrices."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.linalg.determinant import det, unitary_det


def test_determinants_of_columns_of_any_length() -> None:
    """Powers of two change no digit of a product, so that the determinant stays what it was."""
    a = torch.randn(50, 3, 3, dtype=torch.float64)
    b = a * 2.0 ** torch.tensor([-27, -27, 54], dtype=torch.float64)
    b[:, 0, 2] *= 2.0**-53  # which elimination in the transpose begins with
    a[:, 0, 2] *= 2.0**-53
    for given in (b, b.mT.contiguous().mT):
        torch.testing.assert_close(det(given), torch.linalg.det(a), rtol=1e-13, atol=1e-13)


def test_elements_of_sl_with_a_long_free_column_are_in_the_group() -> None:
    x = torch.randn(20, 1, 3, dtype=torch.float64) * torch.randn(20, 12, 1, dtype=torch.float64)
    x = 1e-8 * (x + torch.randn(20, 1, 3, dtype=torch.float64))  # a line beside the origin: rank 2
    frame = mf.SL(3).frame(x.float())
    assert (frame.rank == 2).all()
    assert mf.SL(3).contains(frame.element).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_determinants_of_unitary_matrices(d: int, dtype: torch.dtype) -> None:
    torch.manual_seed(d)
    q = torch.linalg.qr(torch.randn(20, d, d, dtype=dtype))[0]
    torch.testing.assert_close(unitary_det(q), torch.linalg.det(q))

    generator = torch.randn(d, d, dtype=dtype)
    generator = generator - generator.mH

    def turned(t: Tensor) -> Tensor:  # det exp(t a) = exp(t trace a)
        return unitary_det(q[0] @ torch.matrix_exp(t * generator)).real

    want = (torch.linalg.det(q[0]) * generator.trace() ** 2).real
    torch.testing.assert_close(torch.func.hessian(turned)(torch.zeros((), dtype=torch.float64)), want)
