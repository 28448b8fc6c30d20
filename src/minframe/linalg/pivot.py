"""Which rows of a cloud carry the frame: threshold pivoting in ``d`` steps, each vectorised over all samples.

The rule. Let ``r_i`` be the length of what is left of row ``i`` after the rows chosen so far are projected out. Row
``i`` is *admissible* while ``r_i`` exceeds its rounding threshold ``t_i``; each step takes the first row with

    r_i^2 - t_i^2  >=  FRACTION * max_j (r_j^2 - t_j^2),

and when no row is admissible the rank is reached. Every number in it is invariant under the group, so the choice is;
both sides scale alike, so units do not matter; and the two ways in which rounding could flip it are kept apart:

* Index order alone (the paper's rule) can be forced onto a nearly dependent row, whose direction is noise. Here a
  chosen row is never much shorter than the longest.
* The longest row alone flips between exact ties, which every symmetric molecule has. Here tied rows are on the same
  side of the bar, and the first of them is taken. What remains is a row *at* the bar, so FRACTION stands away from the
  ratios of squared lengths that crystals and molecules produce: the nearest number a/b with b <= 12, or
  (a + b sqrt(k)) / c with k in {2, 3, 5}, c <= 6, |a| <= 6 and |b| <= 4, is 1 % away.

The threshold ``t_i = max(eps^(3/4) |x_i|, 8 eps max_j |x_j|)``, with ``eps`` that of the dtype the cloud was *given* in,
is above what rounding leaves of a dependent row (about ``2 eps |x_i|``, or ``eps`` of the largest coordinate if the cloud
was centred before) and below the accuracy promised for outputs (1e-5 in float32, 1e-11 in float64), so that dropping a
coordinate this small is not seen.

Cost: the planes are contiguous, and each step reads them three times and allocates one number per row, so the whole
is linear in the number of rows and little more than applying the frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.cloud import Planes
from minframe.errors import check_finite
from minframe.ragged import Layout

FRACTION = 0.5225
TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class Pivots:
    """``positions`` ``(*batch, d)``: the chosen rows; ``determined`` ``(*batch, d)``: True for the first ``rank`` of them."""

    positions: Tensor
    determined: Tensor


class Step(NamedTuple):
    """One step: ``score`` ``r_i^2 - t_i^2`` of every row, its ``peak`` and the ``chosen`` position per sample."""

    score: Tensor
    peak: Tensor
    chosen: Tensor


def _squared_norms(planes: tuple[Tensor, ...], start: Tensor | None = None) -> Tensor:
    r = planes[0] * planes[0] if start is None else torch.addcmul(start, planes[0], planes[0])
    for plane in planes[1:]:
        r.addcmul_(plane, plane)
    return r


def _project_out(planes: tuple[Tensor, ...], row: Tensor, layout: Layout) -> None:
    """Subtract from every row, in place, its component along ``row`` ``(d, *sample)``."""
    # A row of rounding noise (rank reached) only removes more noise; a zero row removes nothing.
    inverse = row.square().sum(0).clamp_min_(TINY).reciprocal_()
    entries = [layout.spread(entry) for entry in row.unbind()]
    c = planes[0] * entries[0]
    for plane, entry in zip(planes[1:], entries[1:], strict=True):
        c.addcmul_(plane, entry)
    c.mul_(layout.spread(inverse))
    for plane, entry in zip(planes, entries, strict=True):
        plane.addcmul_(c, entry, value=-1)


def _threshold(r: Tensor, planes: Planes) -> Tensor:
    """``-t_i^2`` for every row, minus infinity for padding."""
    layout = planes.layout
    peak = layout.amax(r)
    check_finite(peak, "the cloud")
    if planes.offset is not None:
        peak = (peak.sqrt() + planes.offset).square()
    t = torch.maximum(r * planes.eps**1.5, layout.spread(peak * (8 * planes.eps) ** 2)).neg_()
    return t if layout.real is None else t.masked_fill_(~layout.real, -torch.inf)


def _steps(planes: Planes) -> Iterator[Step]:
    layout, columns = planes.layout, planes.values.unbind()
    r = _squared_norms(columns)
    below = _threshold(r, planes)
    r.add_(below)
    for remaining in reversed(range(len(columns))):
        peak = layout.amax(r)
        chosen = layout.first(r >= layout.spread(peak * FRACTION))
        yield Step(r, peak, chosen)
        if remaining:
            _project_out(columns, layout.take(planes.values, chosen), layout)
            r = _squared_norms(columns, below)


def pivot(planes: Planes) -> Pivots:
    """Choose the rows. Overwrites the planes."""
    steps = list(_steps(planes))
    collect = planes.layout.collect
    return Pivots(collect([s.chosen for s in steps]), collect([s.peak for s in steps]) > 0)


def margin(planes: Planes) -> Tensor:
    """How far the nearest decision of ``pivot`` is from flipping, ``(*batch,)``, in units of the longest row.

    Looked at are the rows up to the chosen one, whose distance from the bar decides the choice, and the longest
    admissible row, whose distance from its threshold decides the rank. Overwrites the planes.
    """
    layout = planes.layout
    distances, scale = [], None
    for score, peak, chosen in _steps(planes):
        left, bar, to_rank = score.clamp_min(0).sqrt(), (peak.clamp_min(0) * FRACTION).sqrt(), peak.abs().sqrt()
        scale = to_rank if scale is None else scale
        irrelevant = layout.positions(left) > layout.spread(chosen)
        if layout.real is not None:
            irrelevant = irrelevant | ~layout.real
        to_bar = layout.amin((left - layout.spread(bar)).abs().masked_fill(irrelevant, torch.inf))
        distances.append(torch.where(peak > 0, torch.minimum(to_bar, to_rank), to_rank))
    assert scale is not None
    return layout.collect(distances).amin(-1) / layout.collect([scale.clamp_min(TINY)]).squeeze(-1)
