"""The distance of the decisions of ``linalg.qr`` from flipping: which rows carry an axis, and which axes exist.

Let ``r_i`` be the residual of a row and ``l_i`` its length. The rule takes the first row with ``r_i^2`` above the bar
and, if rows differ in their rounding, ``l_i^2`` at most ``short`` times the shortest such length. So the choice depends
on

* the distance from the bar of the rows up to the chosen one, and, as they set the shortest length, of rows that are
  shorter than one of these by that factor or more, wherever they are;
* the distance of ``l_i`` from the longest length allowed, for rows up to the chosen one and above the bar.

If longest rows are requested, it depends on how far the others are from a tie with the longest, as samples with a tie
follow another rule, whichever rows it is of. Tied rows have distance zero, whichever of them is taken, unless they give
the same axis; later steps depend on that choice and are not examined. Otherwise a row that gives the same axis as the
chosen one decides nothing. A change of the cloud by half a distance can be enough for a flip, as the
row and the bar both move.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from minframe.layout import Layout
from minframe.linalg.qr import (
    TINY,
    bar,
    floor_of,
    mean_square,
    phase,
    planes_of,
    rank_bound,
    sample_tensor,
    squared_norms,
    steps,
    tie_width,
)
from minframe.linalg.rows import Rows

SAME_AXIS_ANGLE = 1e-6  # radians below which two rows give the same axis: so small a change of axes is no jump


class _Choices(NamedTuple):
    """``(*batch, d)`` each: distance of the choice from flipping, longest row left, and whether what follows counts.

    ``mean2``: the mean squared length of the rows; see ``qr.mean_square``.
    """

    distance: Tensor
    lengths: Tensor
    seen: Tensor
    mean2: Tensor


def _choices(rows: Rows) -> _Choices:
    """The choices of all axes."""
    layout, floor, planes = rows.layout, floor_of(rows), planes_of(rows)
    distances, peaks, ties = [], [], []
    first = equal = None
    white = isinstance(rows.precision.floor, Tensor) and rows.origin is None  # ``whiten.equal_white``
    for axis, (r2, peak, chosen, _, _) in enumerate(steps(rows, planes, floor)):
        if first is None:
            first = r2
            if rows.longest is True:
                equal = tie_width(peak, sample_tensor(floor, layout), rows.precision.tolerance)
        here = layout.positions(r2) == layout.spread(chosen)
        other_axis = here | ~_same_axis(planes.own[axis:], r2, layout, chosen)
        if white:  # samples with a tie follow another rule, whichever rows it is of
            other_axis = torch.ones_like(here)
        if layout.real is not None:
            other_axis = other_axis & layout.real
        if equal is not None:
            gap = (layout.spread(peak.sqrt()) - r2.sqrt()).masked_fill(here, torch.inf)
            gap = gap if layout.real is None else gap.masked_fill(~layout.real, torch.inf)
            width = peak.sqrt() - (peak - equal * peak.sqrt()).clamp_min(0.0).sqrt()  # ``bar``, of lengths
            tied = layout.amin(gap.masked_fill(~other_axis, torch.inf)) <= width
            ties.append(tied)
            distance = torch.where(tied, 0.0, (layout.amin(gap) - width).abs())
        else:
            distance = _to_bar(r2, peak, chosen, other_axis, first, rows.short if axis else None, layout)
        distances.append(distance)
        peaks.append(peak.sqrt())
    distance = layout.collect(distances)
    seen = torch.ones_like(distance, dtype=torch.bool)
    if ties:
        tied = layout.collect(ties).long()
        seen = tied.cumsum(-1) == tied
    assert first is not None
    return _Choices(distance, layout.collect(peaks), seen, mean_square(first, rows))


def _to_bar(
    r2: Tensor,
    peak: Tensor,
    chosen: Tensor,
    other_axis: Tensor,
    lengths: Tensor,
    short: Tensor | None,
    layout: Layout,
) -> Tensor:
    """The distance of the nearest row from changing sides; ``lengths``: of the rows, squared."""
    height = layout.spread(bar(peak))
    distance = (r2.sqrt() - height.sqrt()).abs()
    relevant = layout.positions(r2) <= layout.spread(chosen)
    if short is not None:
        high = r2 >= height
        shortest = layout.amin(torch.where(high, lengths, torch.inf))
        to_short = (lengths.sqrt() - layout.spread((shortest * short).sqrt())).abs()
        distance = torch.where(relevant & high, torch.minimum(distance, to_short), distance)
        rivals = layout.amax(torch.where(relevant & high, lengths, 0.0))
        relevant = relevant | (lengths * layout.spread(short) < layout.spread(rivals))
    return layout.amin(distance.masked_fill(~(relevant & other_axis), torch.inf))


def _same_axis(rows: Tensor, r2: Tensor, layout: Layout, chosen: Tensor) -> Tensor:
    """Which rows point along the chosen one; ``rows`` ``(k, *rows)`` begin with the coordinate along its axis."""
    along = rows[0]
    reference = layout.spread(phase(layout.take(along, chosen)))
    off = (along - reference * along.abs()).abs().square()
    if len(rows) > 1:
        off = off + squared_norms(rows[1:].unbind())
    return off <= SAME_AXIS_ANGLE**2 * r2


def margin(rows: Rows, special: bool = False, centred: bool = False) -> Tensor:
    """How far the nearest decision of ``pivoted_qr`` is from flipping, ``(*batch,)``, in units of the longest row.

    With ``special`` the last axis does not depend on rows. ``centred``: the rows add up to zero.
    """
    distance, length, seen, mean2 = _choices(rows)
    if special:
        distance[..., -1] = torch.inf
    longest = length[..., :1]
    rounding = rank_bound(longest.square(), mean2, floor_of(rows), rows.precision).sqrt()
    to_rank = (length - rounding).abs()
    nearest = torch.where(length > rounding, torch.minimum(distance, to_rank), to_rank)
    most = rows.layout.sizes(length.device) - int(centred)  # the number of axes that can be determined
    possible = torch.arange(length.shape[-1], device=length.device) < most
    nearest = nearest.masked_fill(~(seen & possible), torch.inf).amin(-1, keepdim=True)
    return (nearest / torch.maximum(longest, rounding).clamp_min(TINY)).squeeze(-1)


def choice_margin(rows: Rows, determined: Tensor, unit: Tensor) -> Tensor:
    """The margin of the choice of rows for the determined axes, in units of ``unit`` ``(*batch,)``."""
    distance, _, seen, _ = _choices(rows)
    return distance.masked_fill(~(determined & seen), torch.inf).amin(-1) / unit.clamp_min(TINY)


def rank_margin(lengths: Tensor, floors: Tensor, unit: Tensor, at_most: Tensor) -> Tensor:
    """The margin of the rank, for axes ``(*batch, k)`` taken in turn while the longest residual exceeds a floor.

    ``at_most`` ``(*batch, 1)``: bound on the number of axes.
    """
    impossible = torch.arange(lengths.shape[-1], device=lengths.device) >= at_most.to(lengths.device)
    return (lengths - floors).abs().masked_fill(impossible, torch.inf).amin(-1) / unit.clamp_min(TINY)
