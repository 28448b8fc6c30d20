"""The QR decomposition of a cloud for a diagonal metric of any signature.

The steps are those of ``linalg.qr``, with ``<y, y> = sum_j eta_j y_j^2`` for the squared length, which now has a sign.
The row taken is one of the largest ``|<y, y>|``, so nothing null is divided by. Its sign decides the axis it is brought
onto: the first axis not yet used whose ``eta`` is that sign. By Sylvester's law of inertia there is one, so the axes
    come out
sorted by their signs, and the basis is an element of O(p, q) at every rank: what is left of the standard basis behind
the chosen rows completes it. (Gram-Schmidt has to sort its columns afterwards, and cannot where the rank is short.)

The reflection is that of Householder: with ``s = sign(v_k) sqrt|<v, v>|`` and ``w = v + s e_k``,

    <w, w> = <v, v> + 2 s eta_k v_k + eta_k s^2 = 2 eta_k s w_k    as  <v, v> = eta_k s^2,

so ``y -> y - 2 w <w, y> / <w, w> = y - eta_k w <w, y> / (s w_k)`` preserves the metric and sends ``v`` to ``-s e_k``.

The rank is reached when ``|<y, y>|`` is rounding for all rows, that is below the tolerance times the largest sum of
squares, which is what the products were rounded at. Null rows that remain then are not brought onto an axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from minframe.cloud import Planes
from minframe.errors import check_finite
from minframe.linalg.qr import FRACTION, PivotedQR


def indefinite_qr(planes: Planes, metric: Sequence[int]) -> PivotedQR:
    """Choose the rows and decompose: ``basis^T eta basis = eta``. Overwrites the planes.

    ``metric`` has ``d`` entries, 1 or -1. The axes determined need not be the first ones. ``chosen`` is in the order of
    the steps.
    """
    layout, values, rows = planes.layout, planes.values, planes.rows
    ones = torch.ones_like(layout.take(values, layout.first(rows[0] == rows[0])))
    eta = ones * values.new_tensor(metric).view(-1, *(1,) * (values.ndim - 1))
    largest = layout.amax(rows.square().sum(0))
    check_finite(largest, planes.name)
    unused, signs, chosen = ones.clone(), ones.clone(), []
    for _ in metric:
        lengths = (rows.square() * layout.spread(eta * unused)).sum(0).abs()
        peak = layout.amax(lengths)
        chosen.append(layout.first(lengths >= layout.spread(peak * FRACTION)))
        v = layout.take(values, chosen[-1]) * unused
        length = (v.square() * eta).sum(0)
        fits = (unused > 0) & (eta == length.sign()) & (peak > planes.tolerance * largest)
        axis = (fits & (fits.cumsum(0) == 1)).double()
        head = (v * axis).sum(0)
        s = torch.copysign(length.abs().sqrt(), head)
        w = v + s * axis
        found = axis.sum(0)
        beta = found * length.sign() / torch.where(found > 0, s * (head + s), 1.0)
        c = (values * planes.extended.spread(w * eta)).sum(0)
        values.sub_(planes.extended.spread(w * beta) * c)
        signs = torch.where(axis > 0, -s.sign(), signs)
        unused = unused - axis
    # The rows of the identity have become those of L^T, L the product of the reflections; the basis is its inverse,
    # L^-1 = eta L^T eta.
    rows.mul_(layout.spread(signs))
    axes = layout.collect(list(eta))
    basis = axes.unsqueeze(-1) * layout.identity(values) * (axes * layout.collect(list(signs))).unsqueeze(-2)
    return PivotedQR(chosen, layout.collect(list(unused)) == 0, basis, rows, layout)
