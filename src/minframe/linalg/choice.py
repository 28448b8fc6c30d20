"""How far the decisions of a split frame are from flipping: which rows carry an axis, and which axes there are.

Distances are in units that the caller gives, those of the longest row in the coordinates that are decomposed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.cloud import Planes
from minframe.linalg.qr import TINY, _bar, _steps, _tie


def choice_margin(planes: Planes, determined: Tensor, unit: Tensor) -> Tensor:
    """Of the rows that ``pivoted_qr`` takes for the axes that are determined, ``(*batch,)``. Overwrites the planes.

    Let ``r_i`` be what is left of a row and ``l_i`` its length. Taken is the first row with ``r_i^2`` above the bar and
    ``l_i^2`` at most ``short`` times the shortest such length. So the choice depends on

    * the distance from the bar of the rows up to the chosen one, and, as they set the shortest length, of rows that are
      shorter than one of these by that factor or more, wherever they are;
    * the distance of ``l_i`` from the longest length allowed, for rows up to the chosen one and above the bar.
    """
    layout, nearest = planes.layout, []
    lengths = equal = None
    for r2, peak, chosen, _, _ in _steps(planes):
        if lengths is None:
            lengths = r2
            floor = layout.as_sample(planes.floor)[0] if isinstance(planes.floor, Tensor) else planes.floor
            equal = _tie(peak, floor, planes.tolerance) if planes.longest else None
            short = None
        else:
            short = planes.short
        relevant = layout.positions(r2) <= layout.spread(chosen)
        to_bar = (r2.sqrt() - layout.spread(_bar(peak, equal).clamp_min(0).sqrt())).abs()
        if short is None:
            distance = to_bar
        else:
            high = r2 >= layout.spread(_bar(peak, equal))
            shortest = layout.amin(torch.where(high, lengths, torch.inf))
            to_short = (lengths.sqrt() - layout.spread((shortest * short).sqrt())).abs()
            distance = torch.where(relevant & high, torch.minimum(to_bar, to_short), to_bar)
            rivals = layout.amax(torch.where(relevant & high, lengths, 0.0))
            relevant = relevant | (lengths * layout.spread(short) < layout.spread(rivals))
        if layout.real is not None:
            relevant = relevant & layout.real
        nearest.append(layout.amin(distance.masked_fill(~relevant, torch.inf)))
    distance = layout.collect(nearest).masked_fill(~determined, torch.inf).amin(-1)
    return distance / unit.clamp_min(TINY)


def rank_margin(lengths: Tensor, floors: Tensor, unit: Tensor, at_most: Tensor) -> Tensor:
    """Of axes ``(*batch, k)`` that are taken in turn, as long as the longest row left is longer than a floor.

    ``at_most`` ``(*batch, 1)``: so many there can be.
    """
    impossible = torch.arange(lengths.shape[-1], device=lengths.device) >= at_most.to(lengths.device)
    return (lengths - floors).abs().masked_fill(impossible, torch.inf).amin(-1) / unit.clamp_min(TINY)
