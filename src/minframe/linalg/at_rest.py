"""Frames of ordinary clouds of momenta: in C in one call, elsewhere in as few operations as possible.

Most clouds of particles are *ordinary*: their total momentum P is time-like and gives the time axis, ``P / M``
(``linalg.split``), and the rows determine all axes, beyond any doubt. Then what is left is one decomposition of the
momenta of space at rest (``linalg.few``). Whether all clouds of a batch are ordinary is read once, at the end. Where
they are not, ``frame.indefinite`` begins anew; where they are, results are the same.

**The boost.** With ``w = P + s M e_t``, s the sign of ``P_t``, and ``h = <w, w> / 2 = M |w_t|``, the reflection
``R = 1 - w <w, .> / h`` exchanges P and ``-s M e_t``. The boost equals R but for the sign of the time axis
(``form.boost_to``). Here ``-R`` is applied, as ``linalg.few`` applies minus a reflection: signs are put right at the
end, together.

**The element.** The standard basis of space-time is carried along with the rows, as short as ``MIN_LENGTH``. What
becomes of it is the inverse of the element, and the element is ``eta`` times its transpose times ``eta``.

**Ordinary.** Let ``gamma = |P_t| / M``, so that ``g = h / M^2 = 1 + gamma``, let Y be the rows at rest, and T the
boost, with ``|T|^2 = 4 gamma^2 + d - 4 < (4 + d / 4) g^2``.

1. ``|Y|^2 <= MAX_REST_RATIO M^2``, and by so much that rounding does not matter.
2. What is left for the last axis exceeds the largest bound that there can be on rounding (``Components.floors``): with
   the lengths of the rows as given at most ``|X| <= |T| |Y|`` and their energies at most ``|Y|``, it is at most
   ``2^(k - 1) eps |T| (|X| + |X| |Y| / M)``, k the number of axes of space. This bounds gamma, too: P is time-like.
   It also exceeds ``MIN_SHARE`` of M: axes of softer rows have the rounding of hard ones here (``_at_rest`` in
   ``frame.components``).
3. M is much longer than the basis that is carried along.

**In C** (``_rest.h``, ``_native.c``) the boost itself is applied, and the basis of space-time competes for no axis, so
that there is no shortest mass. On other devices each operation is a launch.

Where T is strong, the rows have their coordinates by substitution (``linalg.columns``). If it is promised that all
clouds are ordinary (``minframe.unchecked(ordinary=True)``), nothing is read: others are NaN, and substitution is done
in any case.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.layout import Dense, Layout
from minframe.linalg import native
from minframe.linalg.columns import MAX_PRODUCT_NORM2, Columns
from minframe.linalg.few import turned_planes
from minframe.linalg.qr import MAX_LENGTH2_RATIO, MIN_LENGTH
from minframe.linalg.split import MAX_REST_RATIO

REST_SHARE = 0.99  # of the bar for squared lengths at rest, up to which rounding does not matter
MIN_SHARE = 4e-5  # of the mass: rounding of float64, 2e-16, is 1e-11 of what is longer
MAX_MISSING = 0.5  # share of the samples that are not ordinary, from which on none is served
MIN_MASS = 1e20 * MIN_LENGTH
REACH = math.sqrt(MAX_REST_RATIO * REST_SHARE)  # bound on |Y|, over the mass


class AtRest(NamedTuple):
    """The frame of ordinary clouds.

    Attributes:
        linear: ``(*batch, d, d)``, the matrix of the element.
        inverse: of it.
        pose: ``(*batch, n, d)``, the rows in their canonical pose.
        columns: gives the coordinates of the rows where a product is not exact enough; ``None``: it is everywhere.
        layout: of the rows.
        matrices: ``(4, *batch, d, d)``: elements, their inverses, transposed, Q, transposed, and R, in one memory;
            ``None``: they have not been computed so.
        missing: numbers of the samples, in the flattened batch, that are not ordinary, and of which nothing is known;
            ``None``: all are. If there are any, there are columns.
    """

    linear: Tensor
    inverse: Tensor
    pose: Tensor
    columns: Columns | None
    layout: Layout
    matrices: Tensor | None = None
    missing: Tensor | None = None


def in_one_call(
    rows: Tensor, layout: Layout, eps: float, tolerance: float, orthochronous: bool, special: bool
) -> AtRest | None:
    """``at_rest`` by the loops in C, for rows ``(*rows, d)`` of any layout, and for some of the samples if not for all.

    ``tolerance``: lengths below this part of the longest row at rest are rounding.
    """
    share = _least_share(rows.shape[-1], eps)
    rest = True, orthochronous, REACH, share, MAX_LENGTH2_RATIO, MAX_PRODUCT_NORM2
    found = native.at_rest(rows, layout, tolerance, special, rest)
    if found is None:
        return None
    pose, matrices, slow, served = found
    missing = None
    if served is not None:
        missing = (~served).nonzero().squeeze(-1)
        if len(missing) > MAX_MISSING * len(served):
            return None
    linear, columns, adjoint, triangle = matrices.unbind()
    if slow and missing is None:
        return AtRest(linear, columns.mT, pose, None, layout, matrices)
    strong = linear.square().sum((-2, -1)) > MAX_PRODUCT_NORM2
    place = torch.arange(linear.shape[-1], device=linear.device).expand(linear.shape[:-1])
    return AtRest(linear, columns.mT, pose, Columns(strong, adjoint, triangle, place), layout, matrices, missing)


@torch.no_grad()
def at_rest(
    rows: Tensor, layout: Dense, eps: float, orthochronous: bool, special: bool, promised: bool
) -> AtRest | None:
    """The frame of rows ``(*batch, n, d)``, time first, padding zero; ``None`` if some samples are not ordinary.

    ``eps``: the rounding of the rows, relative to their lengths. ``orthochronous``, ``special``: time is not reversed,
    the determinant is one. ``promised``: nothing is read, and samples that are not ordinary are NaN.
    """
    n, d = rows.shape[-2:]
    x = rows.reshape(-1, n, d)
    b = len(x)
    one = torch.eye(d + 2, d, dtype=torch.float64, device=x.device)
    planes = torch.empty((b, d, n + d + 2), dtype=torch.float64, device=x.device)
    planes[:, :, :n].copy_(x.mT)
    torch.mul(one.mT.expand(b, d, d + 2), MIN_LENGTH, out=planes[:, :, n:])
    running = planes.new_empty((d, b, n + d + 1))  # see ``few``; the first axis is that of time
    positions = planes.new_empty((d - 1, b, 1), dtype=torch.int64)

    both = planes.new_empty((b, 2, d + 1))  # P and <P, .>; a plane more, as room for lengths
    w, form = both[:, 0], both[:, 1, :d]
    torch.sum(x, -2, dtype=torch.float64, out=w[:, :d])
    torch.neg(w[:, :d], out=form)
    form[:, 0].neg_()
    mass2 = torch.bmm(w[:, None, :d], form.unsqueeze(-1))[:, 0]
    ahead = running[0, :, -1:]  # has the sign of the time axis
    mass = torch.sqrt(mass2, out=ahead if orthochronous else None)
    signed = torch.copysign(mass, w[:, :1], out=None if orthochronous else ahead)
    both[:, :, 0].add_(signed)
    half = signed * w[:, :1]
    reflection = torch.baddbmm(one[:-1], w.unsqueeze(-1), (form / half).unsqueeze(-2), beta=-1)
    planes = torch.bmm(reflection, planes)

    axes, _ = turned_planes(planes[:, 1:], one[:d, :-1], running[1:], positions, MAX_LENGTH2_RATIO)
    speed = half / mass2  # g
    above = _doubts(planes[:, :d, :n], running[-1, :, -2:-1] / mass, mass, speed, one[:1, :1], eps)
    signs, fastest = running[..., -1:].sgn(), 1.0
    if promised:  # without a mass, or with NaN, everything is NaN already
        signs.masked_fill_(above[:-1].amax(0) >= 0, torch.nan)
    else:
        *doubts, fastest = above.amax((-2, -1)).tolist()
        if not all(doubt < 0 for doubt in doubts):  # NaN is a doubt
            return None
    if special:  # -R has the determinant -1 in an even number of dimensions, too
        odd = (d + 1 + sum(k + 1 if k > 2 else 1 for k in range(2, d))) % 2
        signs[-1].mul_(-signs.prod(0) if odd else signs.prod(0))
    pose = torch.cat([planes[:, :1], *axes], 1).mul_(signs.movedim(0, 1))
    inverse = pose[:, :, n : n + d] * (1 / MIN_LENGTH)
    linear = inverse.mT.contiguous()
    linear[:, 0, 1:].neg_()
    linear[:, 1:, 0].neg_()
    lead = layout.batch_shape
    linear, inverse, pose = linear.view(*lead, d, d), inverse.view(*lead, d, d), pose[:, :, :n].mT.view(*lead, n, d)
    if fastest <= 0:
        return AtRest(linear, inverse, pose, None, layout)
    q, r = torch.linalg.qr(linear)
    place = torch.arange(d, device=x.device).expand(*lead, d)
    columns = Columns((above[-1] > 0).view(lead), q.mT, r, place)
    return AtRest(linear, inverse, columns.replace(pose, rows, lambda sample: sample), columns, layout)


def _doubts(planes: Tensor, last: Tensor, mass: Tensor, speed: Tensor, unit: Tensor, eps: float) -> Tensor:
    """By how much the samples fail to be ordinary, ``(3, b, 1)``, negative where they are; and last, to be slow.

    ``planes`` ``(b, d, n)``: the rows at rest; ``last`` ``(b, 1)``: the longest that is left for the last axis, over
    the mass; ``speed``: g; ``unit``: 1.
    """
    d = planes.shape[1]
    above = planes.new_empty((4, len(planes), 1))
    torch.sub(torch.linalg.vector_norm(planes, dim=(1, 2)).unsqueeze(-1), mass, alpha=REACH, out=above[0])
    torch.sub(speed * speed, last, alpha=1 / _least_share(d, eps), out=above[1])
    torch.sub(unit, mass, alpha=1 / MIN_MASS, out=above[2])
    torch.sub(speed, unit, alpha=1 + math.sqrt(max(MAX_PRODUCT_NORM2 + 4 - d, 0) / 4), out=above[3])
    return above


def _least_share(d: int, eps: float) -> float:
    """The least that must be left for the last axis, over ``g^2 M``; g is at least 2."""
    return max(2.0 ** (d - 2) * eps * (4 + d / 4) * REACH * (1 + REACH), MIN_SHARE / 4)
