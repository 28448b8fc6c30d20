"""Inverses, factors and singular values that nobody waits for.

``torch.linalg`` reads whether a matrix was singular, or whether its iterations converged, and raises an error. On a GPU
the host waits for that. Inside ``unchecked()`` these functions ask for nothing: inverses, solutions and Cholesky
factors come from the same LAPACK calls, singular values and eigenvectors from a fixed number of rotations
(``linalg.jacobi``).
Samples for which there is no result have numbers without meaning, NaN as a rule.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.checks import readable
from minframe.linalg.jacobi import orthogonal_columns
from minframe.linalg.qr import TINY
from minframe.tracing import is_compiling, is_transformed


def may_wait(a: Tensor) -> bool:
    """Whether ``torch.linalg`` is called as it is.

    Its values may be read, or a compiler or transform decides.
    """
    return is_compiling() or is_transformed(a) or readable(a)


def inv(a: Tensor) -> Tensor:
    """``torch.linalg.inv``."""
    return torch.linalg.inv(a) if may_wait(a) else torch.linalg.inv_ex(a)[0]


def solve(a: Tensor, b: Tensor) -> Tensor:
    """``torch.linalg.solve``."""
    return torch.linalg.solve(a, b) if may_wait(a) else torch.linalg.solve_ex(a, b)[0]


def cholesky(a: Tensor) -> Tensor:
    """``torch.linalg.cholesky``."""
    return torch.linalg.cholesky(a) if may_wait(a) else torch.linalg.cholesky_ex(a)[0]


def svdvals(a: Tensor) -> Tensor:
    """``torch.linalg.svdvals``, without derivatives: singular values, the largest first.

    Inside ``unchecked()`` they are the lengths of columns that rotations have made orthogonal. Small singular values
    are as exact, relative to themselves, as large ones, if columns differ in length alone.
    """
    if may_wait(a):
        return torch.linalg.svdvals(a)
    return torch.linalg.vector_norm(orthogonal_columns(a), dim=-2).sort(-1, descending=True).values


def eigh(a: Tensor) -> tuple[Tensor, Tensor]:
    """``torch.linalg.eigh`` of positive semidefinite matrices: eigenvalues, the smallest first, and eigenvectors.

    Inside ``unchecked()``, with t the trace, ``A + t`` has the same eigenvectors V, and rotations of its columns end at
    ``(A + t) V``, columns as long as ``l + t``: none is short, and all are known to rounding of t, as LAPACK's are.
    """
    if may_wait(a):
        values, vectors = torch.linalg.eigh(a)
        return values, vectors
    trace = a.diagonal(dim1=-2, dim2=-1).real.sum(-1)[..., None, None].clamp_min(TINY)
    columns = orthogonal_columns(a / trace + torch.eye(a.shape[-1], dtype=a.dtype, device=a.device))
    lengths, order = torch.linalg.vector_norm(columns, dim=-2).sort(-1)
    vectors = columns.gather(-1, order.unsqueeze(-2).expand(columns.shape)) / lengths.unsqueeze(-2)
    return (lengths - 1) * trace.squeeze(-1), vectors


def principal_columns(a: Tensor) -> Tensor:
    """``U S`` of the singular value decomposition ``a = U S V^*``, orthogonal, the longest first; no derivatives."""
    if may_wait(a):
        u, s, _ = torch.linalg.svd(a, full_matrices=False)
        return u * s.unsqueeze(-2)
    columns = orthogonal_columns(a)
    order = torch.linalg.vector_norm(columns, dim=-2).argsort(-1, descending=True)
    return columns.gather(-1, order.unsqueeze(-2).expand(columns.shape))
