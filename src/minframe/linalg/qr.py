"""The orthogonal factor of the generalised QR decomposition of the chosen rows."""

from __future__ import annotations

import torch
from torch import Tensor


def orthonormal_basis(rows: Tensor, determined: Tensor) -> Tensor:
    """Orthonormal columns ``Q`` ``(*batch, d, d)`` with ``rows = R^T Q^T``, R upper triangular with positive diagonal.

    The columns behind the first ``rank`` complete the basis, in no particular way. Q is unique in the others (the
    paper's Theorem on the uniqueness of the QR decomposition), and a smooth function of the rows.

    Householder's QR on columns that are set to zero leaves them out: the reflection of a zero column is the identity,
    and the product of all reflections is orthogonal all the same. That is the completion. Its derivative does not exist
    (R is singular), so under autograd the completing columns enter a second, regular decomposition as constants.
    """
    chosen = torch.where(determined.unsqueeze(-1), rows, torch.zeros((), dtype=rows.dtype, device=rows.device))
    if torch.is_grad_enabled() and rows.requires_grad:
        with torch.no_grad():
            completion = torch.linalg.qr(chosen.mT)[0].mT
        chosen = torch.where(determined.unsqueeze(-1), rows, completion)
    q, r = torch.linalg.qr(chosen.mT)
    sign = torch.copysign(torch.ones((), dtype=r.dtype, device=r.device), r.diagonal(dim1=-2, dim2=-1).detach())
    return q * sign.unsqueeze(-2)


def with_positive_determinant(q: Tensor) -> Tensor:
    """The last column turned round where ``det q < 0``: the paper's determinant constraint."""
    sign = torch.linalg.det(q.detach()).sign()
    return torch.cat([q[..., :-1], q[..., -1:] * sign[..., None, None]], -1)
