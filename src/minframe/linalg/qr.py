"""The QR decomposition of a cloud, with the rows that carry it chosen on the way: ``d`` steps, each over all samples at
once.

**Which rows.** Let ``r_i`` be the length of the residual of row ``i`` once the rows chosen so far are projected out.
Each step takes the first row with

    r_i^2  >=  FRACTION * max_j r_j^2,

and when ``max_j r_j`` is down to rounding the rank is reached. Every number in this is invariant under the group, so
the choice is; both sides scale alike, so units do not matter; and the two ways in which rounding could flip it are kept
apart:

* Index order alone (the paper's rule) can be forced onto a nearly dependent row, whose direction is noise. Here a
  chosen row is never much shorter than the longest.
* The longest row alone flips between exact ties, which every symmetric molecule has. Here tied rows are on the same
  side of the bar, and the first of them is taken. What remains is a row *at* the bar, so FRACTION stands away from the
  ratios of squared lengths that crystals and molecules produce: the nearest number a/b with b <= 12, or (a + b sqrt(k))
  / c with k in {2, 3, 5}, c <= 6, |a| <= 6 and |b| <= 4, is 1 % away. And it is a multiple of pi, so no coordinates
  that are algebraic numbers, integers above all, have a row exactly at the bar.

What is left of a long row is a difference of large numbers, and less exact than as much of a short row. Where rows
differ a lot in their rounding (momenta that were boosted), those above the bar are therefore only taken if their
squared length does not exceed MAX_LENGTH2_RATIO times that of the shortest of them; again the first.

On request the rule takes a longest row instead. This does not depend on the order of the rows unless several are
equally long, which the result reports. Lengths are equal if they differ by at most ``max(TIE_TOLERANCES * tolerance,
MIN_TIE_WIDTH)`` of the longest. Rounding crosses this threshold as rarely as possible: it decides only for the share of
inputs within one rounding of the threshold. Rows that are rounding never tie: what is left of a row that carries an
axis already, or depends on such rows, may or may not come out as exactly zero.

**Rank.** Rounding is what does not exceed ``max(eps^(3/4) s, 4 eps m, 8 eps c)``, with ``s`` the root mean square of
the lengths of the rows, ``m`` the longest of them, ``c`` the length of what centring subtracted, and ``eps`` that of
the dtype the cloud was *given* in. It is the largest of the three and not a sum, so that where a cloud stands moves no
threshold unless it stands far out; the same holds for ties. It is well above what is left of a dependent row (about
``2 eps m``, or ``eps (m + c)`` if the cloud stood far from the origin). And what is dropped is at most ``eps^(3/4)`` of
the whole cloud, rows and axes taken together, below the accuracy promised for outputs (1e-5 in float32, 1e-11 in
float64): of n rows, none with more than ``t s`` left, as much as ``t s sqrt(n)`` may be missing, which is ``t |X|``.
Relative to ``m`` it would be ``t m sqrt(n)``, up to sqrt(n) times as much where one row is longer than all others.
Other decompositions, of rows that are not those given, have the tolerance relative to ``m`` (``Precision.of_rank``).

**How.** Step ``k`` reflects all rows so that the chosen one, ``v`` in the coordinates ``k, ..., d-1`` that are left,
comes to lie on axis ``k`` (Householder): with ``s = sign(v_k) |v|`` and ``w = v + s e_k`` the reflection is ``y -> y -
w <w, y> / (s w_k)``, which sends ``v`` to ``-s e_k``; the sign is put right at the end, so that R has a positive
diagonal. (Complex rows: ``s`` has the phase of ``v_k``, and ``<w, y> = w^* y``.) Coordinate ``k`` of every row is then
canonical, and the coordinates behind it *are* the residual, to full precision: lengths need no downdating. The standard
basis is carried along as ``d`` more rows and comes out as Q, orthogonal to rounding at any rank, its last columns
completing the basis. Where nothing is left (less than MIN_LENGTH), ``v`` is taken to be ``e_k``, so that every step is
a reflection and the determinant is known from the signs; and the sign of a last coordinate that is zero is plus.
Everything happens in place on contiguous coordinate planes, so the cost is linear in the number of rows and about that
of one product ``x @ q``; small clouds pay for the number of calls, which is why there are few. ``native`` has the same
loops, compiled; ``loops`` decides between the two.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.checks import check_finite, errors_enabled
from minframe.layout import Layout
from minframe.linalg.determinant import unitary_det
from minframe.linalg.rows import PivotedQR, Precision, Rows

FRACTION = 80 * math.pi / 481  # the bar: least squared residual of a row, relative to the largest; about 0.5225
MAX_LENGTH2_RATIO = 3.3  # bound on the squared length of a chosen row, relative to the shortest above the bar
TIE_TOLERANCES = 4.0  # times the tolerance: rows whose lengths differ by less are equally long
MIN_TIE_WIDTH = 5e-11  # and so are those that differ by less than this part of the longest row
TINY = torch.finfo(torch.float64).tiny  # the least normal number, so that no division is by zero
MIN_LENGTH = 1e-150  # shorter lengths count as zero; the square of this one does not underflow


class _Step(NamedTuple):
    """The decisions of one step.

    Attributes:
        r2: squared length of what is left of every row.
        peak: the largest of them, per sample.
        chosen: position of the row taken, per sample.
        sign: minus the sign of the diagonal entry of R that the step leaves, per sample.
        above: the rows above the bar.
    """

    r2: Tensor
    peak: Tensor
    chosen: Tensor
    sign: Tensor
    above: Tensor


def squared_norms(columns: Sequence[Tensor]) -> Tensor:
    """Squared lengths of rows whose coordinates are ``columns``."""
    if columns[0].is_complex():
        columns = [part for column in columns for part in (column.real, column.imag)]
    r2 = columns[0] * columns[0]
    for column in columns[1:]:
        r2.addcmul_(column, column)
    return r2


def _reflector(v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``w``, half of its squared length, and ``s``, for ``v`` ``(k, *sample)``; see above."""
    head, *rest = v.unbind()
    if v.is_complex():
        norm = torch.linalg.vector_norm(v, dim=0)
        nothing = norm < MIN_LENGTH
        head = torch.where(nothing, 1.0, head)
        s = phase(head) * torch.where(nothing, 1.0, norm)
        first = head + s
        half = (first * s.conj()).real
    else:
        norm = functools.reduce(torch.hypot, rest, head)
        nothing = norm < MIN_LENGTH
        head = head.masked_fill(nothing, 1.0)
        s = torch.copysign(norm.masked_fill(nothing, 1.0), head)
        first = head + s
        half = first * s
    return torch.stack([first, *rest]), half, s


def _reflect(planes: Tensor, columns: Sequence[Tensor], w: Tensor, half: Tensor) -> None:
    """Reflect all rows, in place; ``w`` and ``half`` have an entry for each row."""
    entries = w.conj().unbind() if w.is_complex() else w.unbind()
    c = columns[0] * entries[0]
    for column, entry in zip(columns[1:], entries[1:], strict=True):
        c.addcmul_(column, entry)
    planes.addcmul_(c.div_(half), w, value=-1)


def phase(x: Tensor) -> Tensor:
    """``x / |x|``, and 1 where ``x`` is zero."""
    if x.is_complex():
        return torch.where(x.abs() < MIN_LENGTH, 1.0, x.sgn())
    return torch.where(x < 0, -1.0, 1.0)


def tie(tolerance: float) -> float:
    """The difference from the longest row, relative to it, up to which a row counts as equally long."""
    return max(TIE_TOLERANCES * tolerance, MIN_TIE_WIDTH)


def tie_width(longest: Tensor, floor: Tensor | float | None, tolerance: float) -> Tensor:
    """Twice the difference up to which a row counts as long as the longest; ``longest``: the squared length of that."""
    rounding = longest.sqrt() * (2 * tie(tolerance))
    return torch.maximum(rounding, 2 * floor) if isinstance(floor, Tensor) else rounding


def floor_of(rows: Rows) -> Tensor | float | None:
    """The length below which rows are rounding, independent of the longest row, ``(*batch, 1)``."""
    if rows.precision.floor is not None or rows.origin is None:
        return rows.precision.floor
    return 8 * rows.precision.eps * torch.linalg.vector_norm(rows.origin, dim=-1, keepdim=True)


def sample_tensor(floor: Tensor | float | None, layout: Layout) -> Tensor | float | None:
    """A floor as a sample tensor."""
    return layout.as_sample(floor)[0] if isinstance(floor, Tensor) else floor


def bar(peak: Tensor, ties: tuple[Tensor, Tensor] | None = None, longest: Tensor | None = None) -> Tensor:
    """The squared length from which on rows are taken.

    ``ties``: if longest rows are requested, ``tie_width`` and ``rank_bound``, below which no row ties; ``longest``: the
    samples concerned, if not all.
    """
    if ties is None:
        return peak * FRACTION
    equal, rounding = ties
    height = torch.maximum(torch.addcmul(peak, equal, peak.sqrt(), value=-1), torch.minimum(rounding, peak))
    return height if longest is None else torch.where(longest, height, peak * FRACTION)


def rank_bound(longest: Tensor, mean2: Tensor, floor: Tensor | float | None, precision: Precision) -> Tensor:
    """The squared length up to which rows are rounding, for the largest and the mean squared length."""
    of_longest, of_mean = precision.of_rank or (precision.tolerance, 0.0)
    bound = longest * of_longest**2
    if of_mean:
        bound = torch.maximum(bound, mean2 * of_mean**2)
    if floor is None:
        return bound
    return torch.maximum(bound, floor.square()) if isinstance(floor, Tensor) else bound.clamp_min(floor**2)


def mean_square(squares: Tensor, rows: Rows) -> Tensor:
    """The mean of the squared lengths of the rows, ``(*batch, 1)``, where the rank depends on it; else any number."""
    return rows.layout.mean(squares.unsqueeze(-1)) if rows.precision.of_rank else squares.new_zeros(())


class Planes(NamedTuple):
    """A private float64 copy of rows, coordinate by coordinate, for ``steps`` to overwrite.

    Attributes:
        values: ``(d, *rows)``, contiguous; the rows relative to their origin, then the ``d`` rows of the identity for
            each sample.
        own: a view of the rows alone.
        extended: the layout of both.
    """

    values: Tensor
    own: Tensor
    extended: Layout


def planes_of(rows: Rows) -> Planes:
    """See ``Planes``."""
    layout = rows.layout
    values = layout.planes(rows.values)
    own = values[..., : layout.length]
    if rows.origin is not None:
        own.sub_(layout.spread(layout.as_sample(rows.origin)))
        if layout.real is not None:
            own.mul_(layout.real)
    return Planes(values, own, layout.with_identity(len(values)))


def steps(rows: Rows, planes: Planes, floor: Tensor | float | None) -> Iterator[_Step]:
    """Choose a row for each axis in turn, and reflect all planes so that it lies on that axis.

    ``floor`` is that of the rows.
    """
    layout, longest, row_floor = rows.layout, rows.longest, rows.row_floor
    left, columns, own, extended = planes.values, planes.values.unbind(), planes.own.unbind(), planes.extended
    lengths, ties, some = own[0], None, None
    for axis in range(len(own)):
        r2 = squared_norms(own[axis:])
        if row_floor is not None:
            r2 = torch.where(r2 > row_floor, r2, 0.0)
        peak = layout.amax(r2)
        if axis == 0:
            check_finite(peak, rows.precision.name)
            lengths = r2
            if longest is not False:
                least, mean2 = sample_tensor(floor, layout), mean_square(r2, rows)
                mean2 = layout.as_sample(mean2)[0] if mean2.ndim else mean2
                ties = (
                    tie_width(peak, least, rows.precision.tolerance),
                    rank_bound(peak, mean2, least, rows.precision),
                )
                some = layout.as_sample(longest.unsqueeze(-1))[0] if isinstance(longest, Tensor) else None
        above = r2 >= layout.spread(peak * FRACTION if ties is None else bar(peak, ties, some))
        if rows.short is not None and axis:  # at first they are what is compared with the bar
            shortest = layout.amin(torch.where(above, lengths, torch.inf))
            above = above & (lengths <= layout.spread(shortest * rows.short))
        chosen = layout.first(above)
        if row_floor is not None:  # the axis is as uncertain as the row, and so is what projecting it out leaves
            uncertain = layout.take(row_floor, chosen) / layout.take(r2, chosen).clamp_min(TINY)
            row_floor = row_floor + layout.spread(uncertain)
        if axis == len(own) - 1:
            last = layout.take(own[-1], chosen)
            # minus the phase, in fewer operations
            sign = -phase(last) if last.is_complex() else torch.full_like(last, -1.0).masked_fill_(last < 0, 1.0)
            yield _Step(r2, peak, chosen, sign, above)
        else:
            left = left[1:] if axis else left
            w, half, sign = _reflector(layout.take(left, chosen))
            _reflect(left, columns[axis:], extended.spread(w), extended.spread(half))
            yield _Step(r2, peak, chosen, sign, above)


def mean(rows: Tensor, layout: Layout) -> Tensor:
    """Mean of the real rows ``(*rows, d)``, in float64, ``(*batch, d)``; differentiable."""
    middle = layout.mean(rows)
    if rows.dtype in (torch.float64, torch.complex128):
        # Sums of narrower numbers are all but exact. Here a second pass makes coincident points come out as zeros.
        middle = middle + layout.mean(rows - layout.for_each_row(middle))
    return middle


@torch.no_grad()
def pivoted_qr(rows: Rows, special: bool) -> PivotedQR:
    """See ``Loops``."""
    layout, floor = rows.layout, floor_of(rows)
    planes = planes_of(rows)
    squares, lengths, chosen, turned, above = zip(*steps(rows, planes, floor), strict=True)
    signs = torch.stack(turned).sgn_().neg_()
    if signs.is_complex():
        signs = signs.conj()
    if special:  # each of the d - 1 reflections has determinant -1
        signs[-1].mul_(signs.prod(0).conj() * (-1) ** (len(turned) - 1))
    if not errors_enabled():  # NaN was not checked for: propagate it to all results of the sample
        signs = torch.sub(signs, lengths[0], alpha=0)
    planes.values.mul_(planes.extended.spread(signs))
    peaks, positions, basis = layout.collect(lengths), layout.collect(chosen), layout.identity(planes.values)
    basis = basis.conj() if basis.is_complex() else basis
    determined = peaks > rank_bound(peaks[..., :1], mean_square(squares[0], rows), floor, rows.precision)
    tied = several = None
    if rows.longest is True:
        several = layout.collect([layout.count_rows(rival) > 1 for rival in above])
        tied = tied_samples(several, determined, special)
    return PivotedQR(
        determined, [planes.own.movedim(0, -1)], layout, basis, positions, peaks, tied=tied, several=several
    )


def tied_samples(several: Tensor, determined: Tensor, special: bool) -> Tensor:
    """Whether rows tie for some axis; not for the last, if it follows from the determinant."""
    ties = several & determined
    return (ties[..., :-1] if special else ties).any(-1)


def differentiable_basis(rows: Tensor, found: PivotedQR, special: bool = False) -> Tensor:
    """``found.basis`` as a smooth function of the chosen ``rows`` ``(*batch, d, d)``.

    The columns that complete the basis enter as constants: the derivative of the decomposition exists only at full
    rank, and nothing that is averaged over the stabiliser depends on them.
    """
    q, _ = torch.linalg.qr(torch.where(found.determined.unsqueeze(-1), rows, found.basis.mT).mT)
    signs = (q.detach().conj() * found.basis).sum(-2, keepdim=True).sgn()
    if not (special and q.is_complex()):
        return q * signs
    # The last phase is what the others leave of the determinant, so it moves with them.
    phases = torch.cat(
        [
            signs[..., :-1],
            (unitary_det(q).unsqueeze(-1) * signs[..., 0, :-1].prod(-1, keepdim=True)).conj().unsqueeze(-1),
        ],
        -1,
    )
    return q * phases
