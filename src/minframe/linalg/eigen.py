"""Eigenvectors of ``S eta``, and which of them exceed rounding; S, V and K are those of ``linalg.spectral``.

**What is known.** The rows carry errors of ``noise`` times their length, in any direction: S is ``V V^*`` with errors
``noise |V|`` of V, and an eigenvalue has one of ``2 <V u, dV u>``, of up to ``noise |V u| |V|`` (Euclidean lengths). In
a thin cloud far from null, ``l = |V u|^2``, so that directions are known down to a thickness of ``noise``; in a boosted
or nearly null one ``|V u|`` is as large as ``|V|``, and squares are known down to ``noise |V|^2`` only. Where an
eigenvalue is not known, it is no axis: its sign would be that of rounding. The thinnest direction of the rows is then
left out, and the rest looked at again; what is lost is its thickness, the opening of a jet. Beside a null vector N
directions are defined up to multiples of N, and their squares count from ``NULL_ROUNDINGS`` roundings of ``|V|^2`` on:
below that, a jet is a null line.

Two roundings are meant by that. Rows as they are given are rounded to some eps, ``least_noise``; rows that have been
moved to rest from a rapidity of 3 carry ``noise``, hundreds of times as much, and what is null before must be null
after it. So an eigenvector may be null if its square is below ``noise |V u|^2``; but a thin one, known to be longer
than rounding, is compared with ``least_noise |V u| |V|``. Boosts multiply both lengths here by up to their norm, and
leave the square: with the larger bound an axis of 3e-11 that is there at rest was gone at a rapidity of 3.

**What is thin.** Boosts change the ratio of the thickness of a cloud to its length, by up to the square of their norm,
and a threshold for it would decide otherwise for another observer. Eigenvalues are invariant, and so is the ratio of
their roots. An axis has to exceed ``MIN_THICKNESS`` in that, 2,500 times ``least_noise``, so that it is known to all
observers whose boosts have a squared norm below that. What is lost, ``MIN_THICKNESS``, is below what is promised. V+
and V- keep the eigenvectors that are thin, so that they are the same for all observers, but have fewer axes.

**What is null.** The form along a direction of thickness t, relative to the longest row, is known to ``noise / t``. If
it is less than that the direction may be null, or anything else, the more so the thinner it is. From
``MIN_NULL_THICKNESS`` of what is thin downwards nothing is said to be null: to leave the direction out loses its
thickness, and a partner of something that is not null would be of a length of ``1 / t``, in any direction.

Beside a null direction another may be known well enough to be no rounding of its own, but not beside the first. If it
is thin, as across a jet that is a line but for its opening, it is left out. If the form along it is small, it counts as
null, too (``_beside_null``): of a plane that is null but for noise no direction is left out.

**One time axis.** Let S have the blocks a (time), b and C (space). The equation above is ``Y = (C + l)^-1 b`` with
``l = a - b^* Y``, the only eigenvalue whose vector is time-like. If S is near enough to white to be used as it is,
Newton's steps find l, and Y, faster than an eigensolver. It is the largest root of

    f(l) = l - a + b^* (C + l)^-1 b,      f' = 1 - |Y|^2,      0 <= f'' / 2 = Y^* (C + l)^-1 Y <= 1 / l,

convex and with ``f(a) >= 0``: the steps from a descend to it, and one of length h leaves ``(h / l)^2 / (1 - |Y|^2)``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.linalg import native
from minframe.linalg.action import behind_batch
from minframe.linalg.jacobi import orthogonal_columns
from minframe.linalg.loops import is_native
from minframe.linalg.null import first_axes
from minframe.linalg.qr import TINY
from minframe.linalg.solvers import may_wait
from minframe.linalg.whiten import Basis

MIN_EIGENVECTOR = 1e-3  # length relative to the longest, below which the eigensolver's errors dominate an eigenvector
JACOBI_SWEEPS = 3  # sweeps of Jacobi's rotations after the eigensolver; they converge quadratically


MIN_THICKNESS = 1e-11  # in float64, root of an eigenvalue over the largest, above which it is an axis for all observers
MIN_NOISE = 4e-15  # rounding of rows as they are given, relative to their length: some eps of float64
NULL_ROUNDINGS = 64.0  # roundings that a square beside a null vector has to exceed to be known
LINE_ROUNDINGS = 10.0  # least length of a line, in units of the rounding of rows that were far from the origin
MIN_NULL_THICKNESS = 8.0  # times what is thin: thinner directions are not said to be null
MAX_NULL_FORM = 0.1  # the form along a unit vector, up to which it may count as null if it is rounding of what it is in


def negligible(eps: float) -> float:
    """Bound on the rounding of rows, relative to their length: 1e-13 in float64 for those moved by a rapidity of 3."""
    return max(3 * eps, 2e-13)


class Bounds(NamedTuple):
    """What the eigenvalues are compared with.

    Attributes:
        noise: rounding of rows that have been moved, relative to their length.
        least_noise: the same, of rows that are given to all digits.
        thin: root of an eigenvalue over that of the largest, up to which it is no axis.
        null: square beside a null vector, over the sum of squares, up to which it is rounding.
    """

    noise: float
    least_noise: float
    thin: float
    null: float

    @staticmethod
    def of(eps: float, tolerance: float) -> Bounds:
        """For rows of the rounding ``eps``; ``tolerance``: up to which lengths are rounding (``linalg.qr``)."""
        return Bounds(
            negligible(eps),
            max(3 * eps, MIN_NOISE),
            max(tolerance, MIN_THICKNESS),
            NULL_ROUNDINGS * max(3 * eps, 1e-12),
        )


def massless(eps: float) -> float:
    """Bound on ``<P, P>`` for a null P by rounding, relative to ``|P|^2``; see ``linalg.split``."""
    return max(1.05 * eps, 1.2e-13)


class Eigen(NamedTuple):
    """Eigenvectors of S eta, in the order of the axes: positive ones first, the largest of either sign first.

    Attributes:
        known: ``(*batch,)``, whether all eigenvalues that are wanted are more than rounding, and what is null is known.
        settled: ``(*batch,)``, whether no direction is left out: all are known, or a line is not, which may be null.
        v: ``(*batch, d, d)``, V.
        vu: ``(*batch, d, d)``, the eigenvectors V u.
        signed: ``(*batch, d)``, their eigenvalues, times the sign of the axis.
        taken: ``(*batch, d)``, whether the span determines the axis, and the eigenvalue is known.
        rank: ``(*batch,)``, dimension of the span.
        excess: ``(*batch, d)``, by how much each eigenvalue that is wanted exceeds rounding, in units of S.
        forms: ``(*batch, d)``, and by how much the form on the span does, in its own eigenvectors.
        thick: ``(*batch, d)``, by how much each of them exceeds what is thin.
        null: ``(*batch, 1)``, by how much the thinnest direction is too thick to be left out, if some are null.
    """

    known: Tensor
    settled: Tensor
    v: Tensor
    vu: Tensor
    signed: Tensor
    taken: Tensor
    rank: Tensor
    excess: Tensor
    forms: Tensor
    thick: Tensor
    null: Tensor

    def where(self, condition: Tensor, other: Eigen) -> Eigen:
        """These eigenvectors where the condition holds, and ``other`` elsewhere."""
        return Eigen(*(torch.where(behind_batch(condition, a, 0), a, b) for a, b in zip(self, other, strict=True)))

    def margin(self) -> Tensor:
        """The least change of the rows that flips a decision, relative to their size, ``(*batch,)``."""
        least = (
            self.excess.abs().amin(-1),
            self.thick.amin(-1).abs(),
            self.forms.abs().amin(-1),
            self.null.abs().amin(-1),
        )
        return torch.stack(least).amin(0)


def eigenvectors(basis: Basis, eta: Tensor, p: int, bounds: Bounds, size: Tensor) -> Eigen:
    """The eigenvectors of ``S eta``. ``size`` ``(*batch, 1)``: a further scale of the rounding of S."""
    v = basis.rows.mT @ basis.factor * basis.determined.unsqueeze(-2)
    rank = basis.determined.sum(-1)
    if may_wait(v):
        vu, turned = _solved(v, eta, rank), None
    else:
        vu, turned = orthogonal_columns(torch.stack([v, basis.directions]), eta).unbind()
    vu = vu.gather(-1, _squares(vu, eta).argsort(-1).unsqueeze(-2).expand(vu.shape))  # ascending
    vu = torch.cat([vu.flip(-1)[..., :p], vu[..., : len(eta) - p]], -1)  # the largest come first
    scale = v.abs().square().sum((-2, -1)).unsqueeze(-1).clamp_min(TINY)
    signed = _squares(vu, eta) * eta
    wanted, forms = _axes_wanted(basis, turned, eta, p, bounds)
    own, whole = torch.linalg.vector_norm(vu, dim=-2), scale.sqrt() + size
    length = own * whole
    excess = signed / length.clamp_min(TINY) - (bounds.noise * own / whole).clamp_min(bounds.least_noise)
    line = (rank == 1) & (scale.sqrt() > LINE_ROUNDINGS * bounds.noise * size).squeeze(-1)
    if basis.white:  # neither thin nor null
        known, least, far = (excess > 0).all(-1), signed.clamp_min(TINY), torch.full_like(excess, torch.inf)
        return Eigen(known, known, v, vu, least, excess > 0, rank, excess, far, far, far[..., :1])
    excess, null, wanted = _beside_null(excess, signed / scale - bounds.null, wanted, forms, rank.unsqueeze(-1))
    null_by = (forms.thinnest - MIN_NULL_THICKNESS * bounds.thin).masked_fill(~null, torch.inf)
    root = signed.clamp_min(0).sqrt()
    above = root - bounds.thin * torch.where(wanted, root, 0.0).amax(-1, keepdim=True)
    thick = (above * root / length.clamp_min(TINY)).masked_fill(~wanted, torch.inf)
    known = ((excess > 0) | ~wanted).all(-1) & (null_by >= 0).squeeze(-1)
    taken = wanted & (excess > 0)
    least = signed.clamp_min(TINY)
    return Eigen(known, known | line, v, vu, least, taken, rank, excess, forms.exceed, thick, null_by)


def _beside_null(
    excess: Tensor, beside: Tensor, wanted: Tensor, forms: _Forms, rank: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """By how much eigenvalues exceed rounding, ``(*batch, d)``; whether some are null, ``(*batch, 1)``; axes wanted.

    ``beside``: ``excess`` beside a null vector. What is then not known is null as well if the form is small in as many
    directions: the rows would lose their length along an axis that is left out, and lose ``MAX_NULL_FORM`` of it if it
    counts as null. The span of a jet has one such direction, as all of space-time has.
    """
    null = wanted.sum(-1, keepdim=True) < rank
    excess = torch.where(null, beside, excess).masked_fill(~wanted, torch.inf)
    for _ in range(2):  # once one is null, others are compared with what is known beside it
        unknown = rank - (wanted & (excess > 0)).sum(-1, keepdim=True)
        also = (unknown > 0) & (unknown <= forms.small)
        null = null | also
        excess = torch.where(null & wanted, beside, excess)
    unknown = rank - (wanted & (excess > 0)).sum(-1, keepdim=True)
    return excess, null, wanted & ((excess > 0) | (unknown > forms.small))


def _squares(columns: Tensor, eta: Tensor) -> Tensor:
    """``<w, w>`` of columns, ``(*batch, k)``."""
    return (columns.abs().square() * eta.unsqueeze(-1)).sum(-2)


def _solved(v: Tensor, eta: Tensor, rank: Tensor) -> Tensor:
    """V times the eigenvectors of K, in any order; the eigensolver mixes those that are short, if several are."""
    vu = v @ torch.linalg.eigh(v.mH @ (eta.unsqueeze(-1) * v)).eigenvectors
    lengths = torch.linalg.vector_norm(vu, dim=-2).sort(-1, descending=True).values
    shortest = lengths.gather(-1, (rank - 1).clamp_min(0).unsqueeze(-1)).squeeze(-1)
    if all_true(shortest >= MIN_EIGENVECTOR * lengths[..., 0]):
        return vu
    return orthogonal_columns(vu, eta, JACOBI_SWEEPS)


class _Forms(NamedTuple):
    """The form on the span, in its own eigenvectors.

    Attributes:
        exceed: ``(*batch, d)``, by how much it exceeds the negligible part.
        small: ``(*batch, 1)``, in how many directions it is small enough for them to count as null.
        thinnest: ``(*batch, 1)``, thickness of the thinnest direction.
    """

    exceed: Tensor
    small: Tensor
    thinnest: Tensor


def _axes_wanted(basis: Basis, turned: Tensor | None, eta: Tensor, p: int, bounds: Bounds) -> tuple[Tensor, _Forms]:
    """Which axes the span determines, ``(*batch, d)``: of either sign the first, as many as it has of that sign.

    ``turned``: the directions of the basis, made orthogonal in the form, if that is known.
    """
    if all_true(basis.determined):
        far = torch.full_like(basis.determined, torch.inf, dtype=torch.float64)
        return basis.determined, _Forms(
            far, torch.zeros_like(basis.determined[..., :1], dtype=torch.int64), far[..., :1]
        )
    if turned is None:
        values, u = torch.linalg.eigh(basis.directions.mH @ (eta.unsqueeze(-1) * basis.directions))
    else:
        values, u = _squares(turned, eta), basis.directions.mH @ turned
    assert basis.peaks is not None
    # A direction along which rows are shorter than the longest is known less well, by that ratio. A unit vector Du
    # moves by as much of each direction as it has, and its form ``<Du, Du>`` by twice that at most.
    ratio = (basis.peaks[..., :1] / torch.where(basis.determined, basis.peaks, 1.0).clamp_min(TINY)).sqrt()
    least = bounds.noise * (u.abs() * (ratio * basis.determined).unsqueeze(-1)).sum(-2).clamp_min(1.0)
    wanted = first_axes((values > least).sum(-1), (values < -least).sum(-1), p, len(eta) - p)
    sizes, order = values.abs().sort(-1, descending=True)
    outside = torch.arange(len(eta), device=values.device) >= basis.determined.sum(-1, keepdim=True)
    small = ((sizes < MAX_NULL_FORM) & ~outside).sum(-1, keepdim=True)
    outside = outside | basis.determined.all(-1, keepdim=True)
    exceed = (sizes - least.gather(-1, order)).masked_fill(outside, torch.inf)
    thinnest = 1 / torch.where(basis.determined, ratio, 1.0).amax(-1, keepdim=True)
    wanted = wanted | basis.determined.all(-1, keepdim=True)
    return wanted, _Forms(exceed, small, thinnest)


def smallest(v: Tensor, eta: Tensor) -> Tensor:
    """The smallest eigenvalue of either sign relative to the trace of S, for samples with d eigenvalues."""
    eigenvalues = torch.linalg.eigvalsh(v.mH @ (eta.unsqueeze(-1) * v))
    return eigenvalues.abs().amin(-1) / v.abs().square().sum((-2, -1))


def time_axis(s: Tensor, time: int) -> Tensor | None:
    """The time-like unit eigenvector of ``S eta``, ``(*batch, d)``; ``None`` if a few steps do not find it."""
    if s.dtype == torch.float64 and is_native(s):
        return native.time_axis(s, time)
    space = slice(1, None) if time == 0 else slice(0, time)
    a, b, c = s[..., time, time].real, s[..., space, time], s[..., space, space]
    one = torch.eye(b.shape[-1], dtype=s.dtype, device=s.device)

    def slope_at(root: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.linalg.solve(c + root[..., None, None] * one, b)
        return y, 1 - y.abs().square().sum(-1)

    root = a
    for _ in range(6):
        y, rest = slope_at(root)
        step = (root - a + (b.conj() * y).sum(-1).real) / rest
        found = step.square() <= 1e-16 * rest * root.square()
        root = root - step
        if all_true(found):
            y, rest = slope_at(root)
            unit = torch.ones_like(y[..., :1])
            return torch.cat([unit, y] if time == 0 else [y, unit], -1) * rest.rsqrt().unsqueeze(-1)
    return None
