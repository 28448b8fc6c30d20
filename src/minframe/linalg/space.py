"""The decomposition of ``qr`` for small clouds in space, with half the number of calls.

What a small cloud costs is the number of calls, and in three dimensions the cross product does much at once. With ``a``
along the first chosen row, ``a x x_i`` is as long as what is left of row ``i`` once ``a`` is projected out, to full
precision; ``(a x x_i) x a`` is that rest itself, and ``a x b`` the third axis. Rows are chosen by the same rule, so the
result is that of ``qr`` to rounding. Clouds that do not span space are left to it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.errors import all_true, data_checks_enabled
from minframe.layout import Dense, Layout
from minframe.linalg.action import multiply
from minframe.linalg.qr import PivotedQR, bar, rank_bound, tie

ROWS = 4096  # of the batch; the planes of ``qr`` are faster on more


def is_small(cloud: Cloud) -> bool:
    """Whether this is the faster way, and one that can be taken."""
    if not data_checks_enabled():  # whether a cloud is flat is read from it
        return False
    layout, (x, _) = cloud.layout, cloud.inputs[0]
    if len(cloud.inputs) > 1 or not isinstance(layout, Dense) or layout.mask is not None or x.is_complex():
        return False
    return x.ndim == len(layout.batch_shape) + 2 and x.shape[-1] == 3 <= x.shape[-2] and x.numel() <= 3 * ROWS


def space_qr(cloud: Cloud, special: bool, choices: bool = True) -> PivotedQR | None:
    """Choose the rows and decompose, as ``pivoted_qr`` does; ``None`` if some sample does not span space.

    ``choices``: somebody is going to ask which rows were chosen, also for an axis that the others determine.
    """
    rows, layout, tolerance = *cloud.rows(), cloud.tolerance
    floor = None if cloud.origin is None else 8 * cloud.eps * cloud.offset()
    r2 = torch.linalg.vector_norm(rows, dim=-1).square_()  # in half the time of a sum of squares
    peak = r2.amax(-1, keepdim=True)
    equal = tie(peak, floor, tolerance) if cloud.longest else None
    first, above = _choose(r2, peak, equal, layout)
    a = _unit(layout.take_rows(rows, first))
    normal = torch.linalg.cross(a, rows)
    r2 = torch.linalg.vector_norm(normal, dim=-1).square_()
    next_peak, aboves = r2.amax(-1, keepdim=True), [above]
    second, above = _choose(r2, next_peak, equal, layout)
    b = _unit(torch.linalg.cross(layout.take_rows(normal, second), a))
    axes = torch.cat([a, b, torch.linalg.cross(a, b)], -2)
    pose = multiply(rows, axes)
    heights = pose[..., 2]
    r2 = heights * heights
    peaks = torch.cat([peak, next_peak, r2.amax(-1, keepdim=True)], -1)
    determined = peaks > rank_bound(peak, floor, tolerance)
    if not all_true(determined):  # of NaN too
        return None
    aboves.append(above)
    third = second
    if choices or not special or equal is not None:  # else it decides nothing
        third, above = _choose(r2, peaks[..., 2:], equal, layout)
    if not special:
        sign = heights.gather(-1, third).sign()
        heights.mul_(sign)
        axes[..., 2, :].mul_(sign)
    tied = None
    if equal is not None:
        tied = layout.collect([layout.count_rows(x) > 1 for x in (*aboves, above)]).any(-1)
    chosen, coordinates = [first, second, third], [pose.movedim(-1, 0)]
    return PivotedQR(determined, coordinates, layout, axes.mT, chosen, peaks, tied, full=True)


def _choose(r2: Tensor, peak: Tensor, equal: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
    above = r2 >= bar(peak, equal)
    return layout.first(above), above


def _unit(v: Tensor) -> Tensor:
    return v / torch.linalg.vector_norm(v, dim=-1, keepdim=True)
