"""Smooth frames of GL and SL, and of Aff on centred clouds: rows carry the axes of the whitened cloud."""

from __future__ import annotations

import torch

from minframe.cloud import Cloud
from minframe.frames.smooth.choosing import Elements, choose, poisoned
from minframe.groups.general import GL
from minframe.linalg import loops, whiten
from minframe.linalg.determinant import det
from minframe.linalg.soft import Rule
from minframe.linalg.solvers import inv
from minframe.linalg.stabiliser import SpanStabiliser


def general(linear: GL, cloud: Cloud, rule: Rule) -> Elements:
    """Whitening is smooth where the rank is full, and leaves a cloud that is determined up to isometries."""
    rows, layout, poison = cloud.tame_rows()
    with torch.no_grad():
        white = whiten.whiten(rows.detach(), layout, cloud.precision, cloud.is_centred)
    t, inverse, y = white.matrix, white.inverse, white.rows
    if cloud.needs_grad:
        correction = whiten.smooth(rows, layout, inverse, white.determined)
        t, inverse = t @ correction, inv(correction) @ inverse
        y = loops.multiply(rows, layout, inverse) * layout.for_each_row(white.determined)
    found, _ = choose(y, layout, cloud, rule, cloud.tolerance)
    d = linear.d
    determined = white.determined.reshape(-1, d)[found.sample]
    matrix = t.reshape(-1, d, d)[found.sample] @ found.basis
    back = found.basis.mH @ inverse.reshape(-1, d, d)[found.sample]
    if linear.special:
        factors = linear.volume_factors(det(matrix), determined)
        matrix, back = matrix * factors.unsqueeze(-2), back / factors.unsqueeze(-1)
    matrix, back = (poisoned(m, poison, found.sample) for m in (matrix, back))
    return Elements(found.sample, found.weight, matrix, back, SpanStabiliser(determined), rank_margin=white.margin)
