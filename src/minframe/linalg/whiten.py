"""Whitening: the part of a general linear frame that does not choose rows.

``S = sum_i x_i x_i^* / n`` moves as ``g S g^*``. With ``S = T T^*`` the rows ``y = T^-1 x`` have ``sum_i y_i y_i^* / n
= 1``, and clouds that differ by any matrix come to differ by an orthogonal (unitary) one: what remains is an O(d)
problem. The squared lengths ``|y_i|^2`` that it chooses rows by are the leverages of the rows, which every matrix
leaves unchanged.

T is found in two steps, as the condition number of S is the square of that of the rows. A pivoted QR decomposition
writes them as ``x = Q D z``, D the lengths of the pivots. Since no row is much longer than the pivot of its step,
``|z| < 1.4``; the pivots themselves are a triangle with a diagonal of ones; so ``Z = sum_i z_i z_i^*`` has a harmless
Cholesky factor L, however thin the cloud is. ``T = Q D L / sqrt(n)``, and ``T^-1 = sqrt(n) L^-1 D^-1 Q^*`` is as exact:
rounding of a thin axis stays on it. Where the rank is short, T is completed by normals of the span, whose
coordinates are zero. They are as long as the longest row, over ``sqrt(n)`` as all columns are, so that T can be
inverted whatever the unit of the rows is, and in the precision of the input.

**Rank.** Every matrix of full rank is an element, so thin and thick clouds are in one orbit, and no invariant says that
a cloud is flat. An element of condition number c changes the ratio of the thickness of a cloud to its rounding, ``eps``
of its size, by at most a factor of c: rounding changes a singular value by at most ``eps |X|_F / 2`` (Weyl). So the
smallest singular value is compared with a few units of that, ``RANK_UNITS``, and not with ``eps^(3/4)``, as under
groups that preserve lengths. Elements carry clouds across any threshold; across this one only clouds that are within
``RANK_UNITS`` roundings of a flat cloud on one side, which the margin reports. A larger threshold is not possible, as T
has to be invertible in the precision of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import all_true, readable
from minframe.layout import Layout
from minframe.linalg import loops
from minframe.linalg.jacobi import orthogonal_columns
from minframe.linalg.loops import MIN_PIVOT_RATIO, pivoted_qr
from minframe.linalg.qr import TINY
from minframe.linalg.rows import PivotedQR, Precision, Rows
from minframe.linalg.solvers import cholesky, inv, svdvals

RANK_UNITS = 16.0  # units of rounding of the whole cloud that a determined axis has to exceed
DECOMPOSITION_EPS = 4 * torch.finfo(torch.float64).eps  # rounding of the decomposition, relative to the longest row
MAX_STRETCH = 50.0  # stretch of a cloud above which its coordinates are found by substitution
EQUAL_WHITE = 4e-3  # difference of white rows, relative to the longest, up to which they are proposed as equal
MIN_FLOORS = 1e3  # length, in units of the floor, from which rows that were far from the origin are used directly


@dataclass(slots=True)
class Basis:
    """The rows ``x = z A``.

    Attributes:
        rows: ``(*batch, d, d)``, A: chosen rows, and normals of the span where the rank is short.
        factor: ``(*batch, d, d)``, L, the Cholesky factor of Z; 1 where the rank is short.
        directions: ``(*batch, d, d)``, orthonormal columns that span the rows, and zeros.
        determined: ``(*batch, d)``.
        white: A is 1, as the rows are near enough to white.
        peaks: ``(*batch, d)``, the largest squared length that was left for each direction; ``None`` if white.
    """

    rows: Tensor
    factor: Tensor
    directions: Tensor
    determined: Tensor
    white: bool = False
    peaks: Tensor | None = None


def row_basis(rows: Tensor, layout: Layout, precision: Precision, scatter: Tensor) -> Basis:
    """Write rows in terms of a few of them; or of none, if they are near enough to white as they are.

    ``scatter``: of the rows.
    """
    if not readable(scatter):
        return _basis(rows, layout, pivoted_qr(Rows(rows, layout, precision), False))
    factor, failed = torch.linalg.cholesky_ex(scatter)
    pivots = factor.diagonal(dim1=-2, dim2=-1).real
    least = pivots.amin(-1, keepdim=True)
    white = (failed == 0).unsqueeze(-1) & (least > MIN_PIVOT_RATIO * pivots.amax(-1, keepdim=True))
    if precision.floor is not None:
        white = white & (least > MIN_FLOORS * precision.floor * layout.sizes(rows.device).sqrt())
    if all_true(white):
        one = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device).expand_as(factor)
        return Basis(one, factor, one, torch.ones_like(pivots, dtype=torch.bool), white=True)
    return _basis(rows, layout, pivoted_qr(Rows(rows, layout, precision), False))


def principal(basis: Basis) -> Basis:
    """The same cloud by its principal directions, the thickest first, on which neither order nor choice of rows has an
    influence. The columns of ``A^T L`` are graded, and rotations leave thin directions as exact as they are.
    """
    v = basis.rows.mT @ basis.factor * basis.determined.unsqueeze(-2)
    columns = orthogonal_columns(v)
    peaks, order = columns.abs().square().sum(-2).sort(-1, descending=True)
    columns = columns.gather(-1, order.unsqueeze(-2).expand(columns.shape))
    determined = torch.arange(v.shape[-1], device=v.device) < basis.determined.sum(-1, keepdim=True)
    directions = columns * (determined / torch.where(peaks > 0, peaks, 1.0).sqrt()).unsqueeze(-2)
    one = torch.eye(v.shape[-1], dtype=v.dtype, device=v.device).expand(v.shape)
    return Basis(columns.mT, one, directions, determined, False, peaks)


def at_most(basis: Basis, rank: Tensor) -> Basis:
    """The first directions of a basis, as many as ``rank`` ``(*batch,)``."""
    within = torch.arange(basis.determined.shape[-1], device=rank.device) < rank.unsqueeze(-1)
    directions = basis.directions * within.unsqueeze(-2)
    return Basis(basis.rows, basis.factor, directions, basis.determined & within, False, basis.peaks)


def _basis(rows: Tensor, layout: Layout, found: PivotedQR) -> Basis:
    one = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
    determined = found.determined
    unit = found.peaks[..., :1].sqrt()
    normals = found.basis.mT * torch.where(unit > 0, unit, 1.0).unsqueeze(-1)
    a = torch.where(determined.unsqueeze(-1), layout.take_rows(rows, found.positions), normals)
    within = (inv(a) * determined.unsqueeze(-2)).mT
    # In the basis of the decomposition A is a triangle, and so is its inverse, of which no entry is multiplied with
    # more than its own pivot: z misses x by rounding, however thin the cloud is, where ``x A^-1`` misses it by rounding
    # times the condition number. What is left of it once more makes all directions as exact as they are in the rows.
    both = determined.unsqueeze(-1) & determined.unsqueeze(-2)
    y = _clean(found)
    triangle = torch.where(both, layout.take_rows(y, found.positions), one).tril()
    z = loops.multiply(y, layout, torch.linalg.solve_triangular(triangle, both * one, upper=False).mT)
    z = z + loops.multiply(rows - loops.multiply(z, layout, a.mT), layout, within)
    factor = cholesky(loops.scatter(z, layout) + one * ~determined.unsqueeze(-1))
    directions = found.basis * determined.unsqueeze(-2)
    return Basis(a, factor, directions, determined, False, found.peaks)


def stacked(bases: Sequence[Basis]) -> Basis:
    """Several bases of the same rows, none of them white, as one of a batch with one more axis in front."""
    parts = zip(*((b.rows, b.factor, b.directions, b.determined, b.peaks) for b in bases), strict=True)
    rows, factor, directions, determined, peaks = (torch.stack(list(part)) for part in parts)
    return Basis(rows, factor, directions, determined, False, peaks)


@dataclass(slots=True)
class Whitening:
    """``x = T y`` with white rows y.

    Attributes:
        matrix: ``(*batch, d, d)``, T.
        inverse: of T.
        determined: ``(*batch, d)``, the axes that the rows span.
        rows: ``(*rows, d)``, y, zero where not determined; rounding of a thin axis, or of a long row, stays there.
        margin: ``(*batch,)``, how far the rank is from changing, relative to the size of the cloud.
        stretch: ``(*batch,)``, how much larger relative changes of the cloud are in y, at most.
    """

    matrix: Tensor
    inverse: Tensor
    determined: Tensor
    rows: Tensor
    margin: Tensor
    stretch: Tensor


def whiten(rows: Tensor, layout: Layout, precision: Precision, centred: bool) -> Whitening:
    """The whitening of rows ``(*rows, d)``, without derivatives; ``centred``: they add up to zero."""
    root = layout.sizes(rows.device).to(rows.real.dtype).sqrt()
    factor, failed = torch.linalg.cholesky_ex(loops.scatter(rows, layout))
    pivots = factor.diagonal(dim1=-2, dim2=-1).real
    if all_true((failed == 0) & (pivots.amin(-1) > MIN_PIVOT_RATIO * pivots.amax(-1))):
        t = factor / root.unsqueeze(-1)
        inverse, determined = inv(t), torch.ones_like(pivots, dtype=torch.bool)
        far = torch.full_like(pivots[..., 0], torch.inf)
        y = loops.multiply(rows, layout, inverse)
        return Whitening(t, inverse, determined, y, far, torch.ones_like(far))
    found = pivoted_qr(Rows(rows, layout, Precision(precision.eps, precision.eps, name=precision.name)), False)
    z = _clean(found)
    lengths = layout.take_rows(z, found.positions).diagonal(dim1=-2, dim2=-1).abs()
    longest = torch.where(lengths[..., :1] > 0, lengths[..., :1], 1.0)
    there = (lengths > DECOMPOSITION_EPS * longest).long().cumprod(-1).bool()
    one = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
    unit = torch.where(there, lengths, longest)
    z = z * layout.for_each_row(there / unit)
    if centred:  # along a thin axis the rows as given add up to zero but for their rounding, which is large there
        z = layout.clean(z - layout.for_each_row(layout.mean(z)), 1)
    factor = cholesky(loops.scatter(z, layout) + one * ~there.unsqueeze(-1))
    # The axes that stand out of rounding: by the singular values, which no order of the rows changes.
    widths = svdvals(unit.unsqueeze(-1) * factor * there.unsqueeze(-1))
    bound = RANK_UNITS * precision.eps * (widths[..., :1] + root * precision.offset)
    number = torch.arange(len(one), device=one.device)
    determined = number < (widths > bound).sum(-1, keepdim=True)
    size = torch.maximum(widths[..., :1], bound).clamp_min(TINY)
    possible = number < layout.sizes(one.device) - int(centred)
    margin = ((widths - bound).abs() / size).masked_fill(~possible, torch.inf).amin(-1)
    thinnest = torch.where(determined, widths, torch.inf).amin(-1)

    both = determined.unsqueeze(-1) & determined.unsqueeze(-2)
    factor = torch.where(both, factor, one)
    unit = torch.where(determined, unit, longest)
    t = found.basis * unit.unsqueeze(-2) @ factor / root.unsqueeze(-2)
    back = inv(factor) * root.unsqueeze(-1)
    y = loops.multiply(z, layout, back) * layout.for_each_row(determined)
    stretch = (widths[..., 0] / thinnest).clamp_min(1.0)
    return Whitening(t, back @ (found.basis.mH / unit.unsqueeze(-1)), determined, y, margin, stretch)


def white_rounding(
    squares: Tensor, white: Whitening, layout: Layout, precision: Precision, centred: bool
) -> tuple[Tensor, Tensor]:
    """What rounding of the rows does to the white ones, over the longest of these, ``(*batch,)``; and to zeros of H.

    Rounding E of the rows is, for row l, ``eps`` times the root of ``squares``, ``(*rows, 1)``, independent of others.
    The inner products of white rows are n times the projector ``H = X X^+`` on the columns of X, which E changes by
    ``dH = P E X^+`` and its adjoint, with ``P = 1 - H``; or, of rows relative to their mean (``centred``), where ``(1 -
    J) E`` is left of E, ``P = 1 - J - H``, J the projector on a column of ones. P has ``p_l = 1 - h_l``, less ``1 / n``
    where centred, on its diagonal, h the leverages. So ``P E`` is ``eps (sum_l p_l |x_l|^2)^1/2`` at most, and a column
    of ``X^+`` is ``|T^-1| (max h / n)^1/2`` at most, relative to ``max h``. The condition number alone says less: of
    rows much longer than all others ``p_l`` is zero, and their rounding, large beside short rows, has no effect. Of
    simplices it is zero for all rows.

    The entries of row l of H, ``(*rows, 1)``, are relative to their size but for ``P E X^+ e_l``: rounding of all
    others along the axis that row l carries alone, ``|X^+ e_l| = |T^-* y_l| / n`` wide. Zero is known up to that.
    """
    n = layout.sizes(squares.device).to(white.margin.dtype)
    count = layout.for_each_row(n)
    leverage = white.rows.abs().square().sum(-1, keepdim=True) / count
    outside = 1 - leverage - 1 / count if centred else 1 - leverage
    length = layout.total(outside.clamp_min(DECOMPOSITION_EPS) * squares).sqrt().squeeze(-1)
    highest = layout.collect([layout.amax(leverage.squeeze(-1))]).squeeze(-1).clamp_min(TINY)
    known = white.inverse * white.determined.unsqueeze(-1)
    rounding = precision.eps * length
    duals = torch.linalg.vector_norm(loops.multiply(white.rows, layout, known.mH), dim=-1, keepdim=True) / count
    of_rows = rounding * svdvals(known)[..., 0] / (n.squeeze(-1) * highest).sqrt()
    return of_rows, layout.for_each_row(rounding.unsqueeze(-1)) * duals


def equal_white(rows: Rows) -> Tensor:
    """The difference of lengths up to which rows, made white, are equally long, ``(*batch, 1)``.

    Rounding of the rows as given is enlarged in the white ones by as much as they are thin, and clouds of one orbit are
    more or less so: whether rows tie must not depend on it, so that this is a constant above it. Simplices, for one, of
    d + 1 points or of d rows, are white with equal lengths, all of them. Relative to the root mean square of the white
    rows, ``sqrt(d)``, it is ``EQUAL_WHITE`` for these, and falls with the number of rows as the distance of the longest
    from the next does: a share of clouds that does not grow with it ties by accident.

    It is the same where rounding is more than that, of clouds thinner than some 1e4 roundings. A threshold that follows
    the rounding there would keep rows of the same length together, but decide for each observer otherwise about all
    differences in between, which are many; and a symmetry is nearly as often lost to rounding in what follows.
    """
    d = rows.values.shape[-1]
    n = rows.layout.sizes(rows.values.device).to(torch.float64)
    return EQUAL_WHITE * d**0.5 * ((d + 1) / n.clamp_min(1)).clamp_max(1.0)


def _clean(found: PivotedQR) -> Tensor:
    """Coordinates ``(*rows, d)``, with zeros where a row that carries an axis has nothing but rounding.

    A row that carries an axis has no coordinate behind it. What is computed there is the rounding of this row, which
    may be long, and would be divided by the length of an axis that is short.
    """
    layout = found.layout
    y = found.coordinates[0].clone()
    position = layout.positions(y[..., 0])
    for axis, chosen in enumerate(layout.as_sample(found.positions)):
        y[..., axis + 1 :].masked_fill_((position == layout.spread(chosen)).unsqueeze(-1), 0.0)
    return y


def smooth(rows: Tensor, layout: Layout, inverse: Tensor, determined: Tensor) -> Tensor:
    """A triangular matrix that is 1, and by which T has to be multiplied to have its derivatives."""
    s = loops.scatter(loops.multiply(rows, layout, inverse), layout)
    s = s / layout.sizes(s.device).unsqueeze(-1)
    s = (s - s.detach()) * determined.unsqueeze(-1) * determined.unsqueeze(-2)
    return cholesky(s + torch.eye(s.shape[-1], dtype=s.dtype, device=s.device))
