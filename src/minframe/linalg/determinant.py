"""Determinants, where PyTorch's are not exact or have wrong derivatives."""

from __future__ import annotations

import torch
from torch import Tensor


def det(a: Tensor) -> Tensor:
    """``torch.linalg.det``, as exact where columns differ in length by any factor.

    Elimination with pivots in one column after the other stands any scale of the columns, and not of the rows;
    PyTorch's may be that of the transpose, where ones and 1e16 in a row cancel what columns of 1e-8 have.
    """
    lengths = torch.linalg.vector_norm(a, dim=-2)
    return torch.linalg.det(a / torch.where(lengths > 0, lengths, 1.0).unsqueeze(-2)) * lengths.prod(-1)


def unitary_det(q: Tensor) -> Tensor:
    """``torch.linalg.det`` of unitary matrices.

    Second derivatives of PyTorch's, behind a QR decomposition, are wrong inside two of the transforms of
    ``torch.func``. Of ``q0^* q``, where q0 is q as a constant, which is 1 up to rounding, elimination needs no pivots.
    """
    fixed = q.detach()
    left = fixed.mH @ q
    found = torch.linalg.det(fixed)
    for _ in range(q.shape[-1]):
        pivot = left[..., 0, 0]
        found = found * pivot
        left = left[..., 1:, 1:] - left[..., 1:, :1] * left[..., :1, 1:] / pivot[..., None, None]
    return found
