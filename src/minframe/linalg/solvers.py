"""Inverses, factors and singular values that nobody waits for, and determinants of columns of any length.

``torch.linalg`` reads whether a matrix was singular, or whether its iterations converged, and raises an error. On a GPU
the host waits for that. Inside ``unchecked()`` these functions ask for nothing: inverses, solutions and Cholesky
factors come from the same LAPACK calls, and singular values from a fixed number of Jacobi's rotations. Samples for
which there is no result have numbers without meaning, NaN as a rule.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.checks import data_checks_enabled
from minframe.tracing import is_compiling, is_plain, is_transformed

SWEEPS = 6  # sweeps of rotations over all pairs of columns; they converge quadratically, small matrices in four or five


def _may_wait(a: Tensor) -> bool:
    """Whether ``torch.linalg`` is called as it is.

    Checks may read data, or a compiler or transform decides, or there is no device to wait for, and nobody who counts.
    """
    return data_checks_enabled() or is_compiling() or is_transformed(a) or (a.is_cpu and is_plain(a.detach()))


def inv(a: Tensor) -> Tensor:
    """``torch.linalg.inv``."""
    return torch.linalg.inv(a) if _may_wait(a) else torch.linalg.inv_ex(a)[0]


def solve(a: Tensor, b: Tensor) -> Tensor:
    """``torch.linalg.solve``."""
    return torch.linalg.solve(a, b) if _may_wait(a) else torch.linalg.solve_ex(a, b)[0]


def det(a: Tensor) -> Tensor:
    """``torch.linalg.det``, as exact where columns differ in length by any factor.

    Elimination with pivots in one column after the other stands any scale of the columns, and not of the rows;
    PyTorch's may be that of the transpose, where ones and 1e16 in a row cancel what columns of 1e-8 have.
    """
    lengths = torch.linalg.vector_norm(a, dim=-2)
    return torch.linalg.det(a / torch.where(lengths > 0, lengths, 1.0).unsqueeze(-2)) * lengths.prod(-1)


def cholesky(a: Tensor) -> Tensor:
    """``torch.linalg.cholesky``."""
    return torch.linalg.cholesky(a) if _may_wait(a) else torch.linalg.cholesky_ex(a)[0]


def svdvals(a: Tensor) -> Tensor:
    """``torch.linalg.svdvals``, without derivatives: singular values, the largest first.

    Inside ``unchecked()`` they are the lengths of the columns once rotations have made these orthogonal (Hestenes). For
    columns x and y the tangent of the angle is the smaller root of ``t^2 + 2 r t = 1``, ``r = (|y|^2 - |x|^2) / 2 |<x,
    y>|``. Small singular values are as exact, relative to themselves, as large ones, if columns differ in length alone.
    """
    if _may_wait(a):
        return torch.linalg.svdvals(a)
    columns = list(a.unbind(-1))
    for _ in range(SWEEPS):
        for i in range(len(columns)):
            for j in range(i + 1, len(columns)):
                columns[i], columns[j] = _rotated(columns[i], columns[j])
    lengths = torch.linalg.vector_norm(torch.stack(columns, -1), dim=-2)
    return lengths.sort(-1, descending=True).values


def _rotated(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Two vectors ``(*batch, d)``, rotated in their plane so that they become orthogonal."""
    product = torch.linalg.vecdot(x, y).unsqueeze(-1)
    size = product.abs()
    here = size > 0
    gap = torch.linalg.vecdot(y, y).real - torch.linalg.vecdot(x, x).real
    ratio = gap.unsqueeze(-1) / (2 * size).masked_fill(~here, 1.0)
    tangent = torch.copysign(1 / (ratio.abs() + (ratio.square() + 1).sqrt()), ratio) * here
    y = y * torch.where(here, product.sgn().conj(), 1.0)
    cosine = (tangent.square() + 1).rsqrt()
    return cosine * (x - tangent * y), cosine * (tangent * x + y)
