"""Isometries of an indefinite form, reduced to two definite problems.

Let ``eta`` have p signs +1 and q signs -1. Null rows make Gram-Schmidt divide by zero, and pivoting only postpones it.
Instead the space is split, as a function of the cloud that moves with it, into a positive part V+ of dimension p and
its orthogonal complement V-, on which the form is negative. What remains is one O(p) problem for the components of the
rows in V+ and one O(q) problem for those in V-, both definite, both solved by ``linalg.qr``; nothing null is ever met,
and ``T``, whose columns are bases of V+ and V-, is an isometry at every rank.

**Total momentum.** With one time axis V+ needs only one time-like vector. The sum P of the rows is one for any two
non-collinear particles, massless or not. It is taken if it is time-like beyond rounding, and if in its rest frame

    sum_i |y_i|^2  <=  MAX_REST_RATIO <P, P>

with Euclidean lengths, which are invariants there. Particles with positive energies have ``|y_i|^2 <= 2 E_i^2`` and so
a left side of at most ``2 <P, P>``: a factor of two below the bar. The bar keeps P from being chosen when it is
time-like by accident, as in a Gaussian cloud, and its rest frame is a violent boost of the cloud.

**Time-like enough.** There is no invariant to compare ``M^2 = <P, P>`` with: all of a jet's are at most M^2. What
limits it is the rounding of the input, ``|dM^2| <= eps |P|^2`` if P is rounded once, as ``2 P_k dP_k <= eps P_k^2``,
and that depends on the observer. So P counts as time-like as soon as M^2 exceeds this bound, and no earlier bar is set:
a boost that changes the decision has made M^2 as small as its rounding. In float64, where what was moved with a
rapidity of 3 carries errors of e^3 its rounding, some 1e-13 are allowed for (``massless``). However large ``gamma = E /
M`` is then, ``linalg.columns`` brings the rows back, and the boost is an isometry.

**Spectrum.** Otherwise, and where p and q both exceed one, ``linalg.spectral`` finds V+ from all rows alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import all_true, check_finite
from minframe.layout import Dense, Layout
from minframe.linalg import at_need, gpu, loops
from minframe.linalg.eigen import massless
from minframe.linalg.form import adjoint, boost_to, signs, tilt
from minframe.linalg.null import Null
from minframe.linalg.qr import TINY
from minframe.linalg.refined import slope
from minframe.linalg.rows import Precision
from minframe.linalg.spectral import spectral

MAX_REST_RATIO = 4.3


@dataclass(slots=True)
class Split:
    """``T``, and the decisions that it depends on.

    Attributes:
        matrix: ``(*batch, d, d)``, T, an isometry; the first p columns span V+.
        momentum: ``(*batch,)``, whether the total momentum gave the time axis; ``None`` if there is no single one.
        axes: ``(*batch, d)``, whether the rows determine an axis; not for the total momentum. ``None``: not known.
        spanned: ``(*batch, d)``, and whether they have a component along it at all, maybe too thin to count.
        null: what is known where the form may be degenerate on the span; ``None``: it is nowhere.
        margin: computes the relative distance of the nearest decision from flipping, ``(*batch,)``, given how many axes
            the rows can determine at most, ``(*batch, 1)``.
    """

    matrix: Tensor
    momentum: Tensor | None
    axes: Tensor | None
    spanned: Tensor | None
    null: Null | None
    margin: Callable[[Tensor], Tensor]


def split(rows: Tensor, layout: Layout, precision: Precision, p: int, q: int) -> Split:
    """Split the space for the metric with ``p`` signs +1 and then ``q`` signs -1, for these rows."""
    s = loops.scatter(rows, layout)
    if min(p, q) > 1:
        found = spectral(rows, layout, precision, s, p, q)
        return Split(found.matrix, None, found.axes, found.spanned, found.null, found.margin)
    rest = rest_frame(rows, layout, precision, p, q, s)
    momentum = rest.momentum
    assert momentum is not None
    if all_true(momentum):
        return rest
    found = spectral(rows, layout, precision, s, p, q, ~momentum)
    matrix = torch.where(momentum[..., None, None], rest.matrix, found.matrix)
    null = None if found.null is None else found.null.where(~momentum)

    def margin(at_most: Tensor) -> Tensor:
        return torch.minimum(rest.margin(at_most), torch.where(momentum, torch.inf, found.margin(at_most)))

    return Split(matrix, momentum, found.axes, found.spanned, null, margin)


def rest_frame(
    rows: Tensor, layout: Layout, precision: Precision, p: int, q: int, scatter: Tensor | None = None
) -> Split:
    """The boost to the rest frame of the total momentum, and whether it may be taken.

    There, with ``u = P / M``, the row ``y_i`` has the time component ``<u, x_i>``, so that ``|y_i|^2 = 2 |<u, x_i>|^2 -
    <x_i, x_i>``, and no row needs to be moved.
    """
    time = 0 if p == 1 else p
    eta = signs(p, q, rows.device)
    eta = eta * eta[time]
    total = layout.total(rows)

    def margin(_: Tensor) -> Tensor:
        return _rest_margin(rows, layout, total, eta, massless(precision.eps))

    if gpu.serves(rows) and isinstance(layout, Dense):
        least = None if precision.floor is None else precision.floor * layout.sizes(rows.device)
        boost, taken, square = gpu.rest_frame(rows, least, time, massless(precision.eps), MAX_REST_RATIO)
        check_finite(square, precision.name)
        return Split(boost, taken, None, None, None, margin)
    s = loops.scatter(rows, layout) if scatter is None else scatter
    entries = total.abs().square()
    mass2, square = (entries * eta).sum(-1), entries.sum(-1)
    timelike = mass2 > massless(precision.eps) * square
    if precision.floor is not None:  # rows about their mean add up to rounding
        least = precision.floor * layout.sizes(rows.device)
        timelike = timelike & (square > (least**2).squeeze(-1))
    mass = torch.where(timelike, mass2, 1.0).sqrt().unsqueeze(-1)
    axis = torch.where(timelike.unsqueeze(-1), total, torch.eye(p + q, dtype=rows.dtype, device=rows.device)[time])
    axis = axis / mass
    form = axis.conj() * eta
    squares = s.diagonal(dim1=-2, dim2=-1).real
    check_finite(squares.sum(-1), precision.name)
    energies2 = (form.unsqueeze(-2) @ s @ form.conj().unsqueeze(-1))[..., 0, 0].real
    lengths, bar = 2 * energies2 - (squares * eta).sum(-1), MAX_REST_RATIO * mass2
    rounding = 1e-12 * axis.abs().square().sum(-1) * squares.sum(-1)  # of S, where the boost is strong
    if not all_true((lengths - bar).abs() > rounding):
        energies = (rows * layout.for_each_row(form)).sum(-1, keepdim=True)
        lengths = 2 * layout.total(energies.abs().square()).squeeze(-1) - (squares * eta).sum(-1)
    return Split(boost_to(axis, p, q), timelike & (lengths <= bar), None, None, None, margin)


def _rest_margin(rows: Tensor, layout: Layout, total: Tensor, eta: Tensor, massless: float) -> Tensor:
    """The distance of the decision whether to take P from flipping, ``(*batch,)``.

    It is taken if it is time-like enough and if the rows are short in its rest frame. Where it is taken, either
    condition can fail. Where it is not, the failing condition has to change; if both fail, the one that is farther off.
    A mass below rounding is replaced by the smallest mass above it, to compute the rows in that rest frame.
    """
    square = total.abs().square().sum(-1)
    mass2, least = (total.abs().square() * eta).sum(-1), massless * square
    at = torch.maximum(mass2, least)
    there = at > 0
    form = total.conj() * eta / torch.where(there, at, 1.0).sqrt().unsqueeze(-1)
    energies = (rows * layout.for_each_row(form)).sum(-1, keepdim=True)
    products = layout.total((rows.abs().square() * eta).sum(-1, keepdim=True)).squeeze(-1)
    lengths = 2 * layout.total(energies.abs().square()).squeeze(-1) - products
    bar = MAX_REST_RATIO * at
    to_bar = torch.where(there, (lengths - bar).abs() / torch.maximum(lengths, bar).clamp_min(TINY), 1.0)
    to_null = (mass2 - least).abs() / square.clamp_min(TINY)
    timelike, short = mass2 > least, there & (lengths <= bar)
    taken, neither = torch.minimum(to_bar, to_null), torch.maximum(to_bar, to_null)
    return torch.where(timelike, torch.where(short, taken, to_bar), torch.where(short, to_null, neither))


def smooth(rows: Tensor, layout: Layout, found: Split, p: int, q: int) -> Tensor:
    """An isometry that is 1, and by which ``found.matrix`` has to be multiplied to have the derivatives of T.

    In the coordinates ``y = T^-1 x`` the positive part is spanned by the columns of ``(1, Y)`` with Y = 0, but for a
    change of the rows. If it is the direction of the total momentum, Y is the ratio of its components; else see
    ``linalg.spectral``. Eigenvectors are not differentiated.
    """
    back, ratio = adjoint(found.matrix, signs(p, q, rows.device)), None
    if found.momentum is None or not all_true(found.momentum):
        if at_need.serves(rows):
            here = torch.ones_like(back[..., 0, 0], dtype=torch.bool) if found.momentum is None else ~found.momentum
            s = at_need.scatter(rows, back, layout, here)
        else:
            s = layout.scatter(loops.multiply(rows, layout, back))
        mixed = s[..., p:, :p] - s[..., p:, :p].detach()
        if found.null is not None:  # nothing smooth to follow there
            mixed = torch.where(found.null.here[..., None, None], 0.0, mixed)
        ratio = slope(s, mixed, p, q)
    if found.momentum is not None:
        total = (back @ layout.total(rows).unsqueeze(-1)).squeeze(-1)
        time = total[..., :1] if p == 1 else total[..., p:]
        time = torch.where(found.momentum.unsqueeze(-1), time, 1.0)
        at_rest = (total[..., 1:] / time).unsqueeze(-1) if p == 1 else (total[..., :p] / time).conj().unsqueeze(-2)
        change = at_rest - at_rest.detach()
        ratio = change if ratio is None else torch.where(found.momentum[..., None, None], change, ratio)
    assert ratio is not None
    return tilt(ratio)
