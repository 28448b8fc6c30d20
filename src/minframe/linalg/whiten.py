"""Whitening: the part of a general linear frame that does not choose rows.

``S = sum_i x_i x_i^* / n`` moves as ``g S g^*``. With ``S = T T^*`` the rows ``y = T^-1 x`` have ``sum_i y_i y_i^* / n
= 1``, and clouds that differ by any matrix come to differ by an orthogonal (unitary) one: what remains is an O(d)
problem. The squared lengths ``|y_i|^2`` that it chooses rows by are the leverages of the rows, which every matrix
leaves unchanged.

The rows are first written as ``x = z A`` with A the rows that Euclidean pivoting chooses; then
``Z = sum_i z_i z_i^* >= 1`` has a harmless Cholesky factor L even where the matrix that moved the cloud has a condition
number of 1e6, whose square would have been that of S. ``T = A^T L / sqrt(n)``. Where the rank is short, T is completed
by Euclidean normals of the span, whose coordinates are zero. They are as long as the longest row, so that T can be
inverted whatever the unit of the rows is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.layout import Layout
from minframe.linalg.action import multiply
from minframe.linalg.loops import pivoted_qr
from minframe.linalg.rows import Precision, Rows

WELL_ABOVE = 1e3  # times the floor of rows that stood far out: what they have to be to be taken as they are


@dataclass(slots=True)
class Basis:
    """The rows ``x = z A``.

    Attributes:
        rows: ``(*batch, d, d)``, A: chosen rows, and normals of the span where the rank is short.
        inverse: of A.
        factor: ``(*batch, d, d)``, L, the Cholesky factor of Z; 1 where the rank is short.
        directions: ``(*batch, d, d)``, orthonormal columns that span the rows, and zeros.
        determined: ``(*batch, d)``.
        white: A is 1, as the rows are near enough to white.
        peaks: ``(*batch, d)``, the largest squared length that was left for each direction; ``None`` if white.
    """

    rows: Tensor
    inverse: Tensor
    factor: Tensor
    directions: Tensor
    determined: Tensor
    white: bool = False
    peaks: Tensor | None = None


def row_basis(
    rows: Tensor, layout: Layout, precision: Precision, scatter: Tensor | None = None, at_most: Tensor | None = None
) -> Basis:
    """Write rows in terms of a few of them; or of none, if they are near enough to white as they are.

    ``scatter``: of the rows, if it is known. ``at_most`` ``(*batch,)``: so many rows, if more are independent.
    """
    one = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
    factor, failed = torch.linalg.cholesky_ex(layout.scatter(rows) if scatter is None else scatter)
    pivots = factor.diagonal(dim1=-2, dim2=-1).real
    least = pivots.amin(-1, keepdim=True)
    white = (failed == 0).unsqueeze(-1) & (least > 0.05 * pivots.amax(-1, keepdim=True))
    if precision.floor is not None:
        white = white & (least > WELL_ABOVE * precision.floor * layout.sizes().to(rows.device).sqrt())
    if at_most is None and all_true(white):
        one = one.expand_as(factor)
        return Basis(one, one, factor, one, torch.ones_like(pivots, dtype=torch.bool), white=True)
    found = pivoted_qr(Rows(rows, layout, precision), False)
    if at_most is not None:
        found.determined = found.determined & (torch.arange(len(one), device=one.device) < at_most.unsqueeze(-1))
    unit = found.peaks[..., :1].sqrt()
    normals = found.basis.mT * torch.where(unit > 0, unit, 1.0).unsqueeze(-1)
    a = torch.where(found.determined.unsqueeze(-1), layout.take_rows(rows, found.positions), normals)
    inverse = torch.linalg.inv(a)
    within = layout.for_rows((inverse * found.determined.unsqueeze(-2)).mT, rows)
    z = multiply(rows, within)
    # The product with an inverse misses x by rounding times the condition number of A; what is left of it once more
    # leaves rounding, as |z| is of order one: of a thin cloud all directions stay as exact as they are in the rows.
    z = z + multiply(rows - multiply(z, layout.for_rows(a.mT, rows)), within)
    factor = torch.linalg.cholesky(layout.scatter(z) + one * ~found.determined.unsqueeze(-1))
    directions = found.basis * found.determined.unsqueeze(-2)
    return Basis(a, inverse, factor, directions, found.determined, False, found.peaks)


def whitened(basis: Basis, layout: Layout) -> tuple[Tensor, Tensor]:
    """T and its inverse, ``(*batch, d, d)``."""
    n = torch.where(basis.determined, layout.sizes().to(basis.rows.device), 1).to(basis.rows.real.dtype).sqrt()
    t = basis.rows.mT @ basis.factor / n.unsqueeze(-2)
    inverse = torch.linalg.inv(basis.factor) @ basis.inverse.mT * n.unsqueeze(-1)
    return t, inverse


def smooth(rows: Tensor, layout: Layout, inverse: Tensor, determined: Tensor) -> Tensor:
    """A triangular matrix that is 1, and by which T has to be multiplied to have its derivatives."""
    s = layout.scatter(multiply(rows, layout.for_rows(inverse, rows)))
    s = s / layout.sizes().to(s.device).unsqueeze(-1)
    s = (s - s.detach()) * determined.unsqueeze(-1) * determined.unsqueeze(-2)
    return torch.linalg.cholesky(s + torch.eye(s.shape[-1], dtype=s.dtype, device=s.device))
