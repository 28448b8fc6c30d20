"""Nodes distinguished by real invariants: cells that are split at gaps.

Sorting n points by one invariant swaps two of them whenever rounding exceeds their difference, and with n^2 pairs some
two are always close. So a cell is not sorted but cut, at a large gap near its middle, and its halves are cut by the
next invariant. The safety of each of about n cuts is the size of a large gap in a small cell, not that of the smallest
gap of all: for 1,000 points this makes a flip by rounding about a hundred times as rare.

Cells are numbered as by ``refine``: by the number of nodes in front. Where every gap is within the tolerance a cell is
left whole.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.labelling import rows

MAX_POINTS_IN_PAIRS = 64  # points up to which pairs are few enough to cut at every gap
GAP_FACTOR = 0.713  # relative to the largest gap; the first gap above it is taken, so that equal gaps do not matter


def _sorted(values: Tensor, cells: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The order by cell, then by value; cells and positions in it; and the gap in front of each, 0 at a start."""
    order = values.argsort(-1)
    order = order.gather(-1, cells.gather(-1, order).argsort(dim=-1, stable=True))
    cell, value = cells.gather(-1, order), values.gather(-1, order)
    index = torch.arange(cells.shape[-1], device=cells.device).expand(cells.shape)
    gap = value.diff(dim=-1, prepend=value[..., :1]).masked_fill(index == cell, 0.0)
    return order, cell, index, gap


def _cut(values: Tensor, cells: Tensor, tolerance: Tensor) -> tuple[Tensor, Tensor]:
    """Cut every cell once, where ``values`` ``(B, n)`` allow it, and how far that is from being decided otherwise.

    ``tolerance`` ``(B, 1)``. The cut of a cell moves if a gap in front of it becomes large enough, or if the gap at the
    cut becomes too small. A cell is cut only if a gap exceeds the tolerance.
    """
    n = cells.shape[-1]
    order, cell, index, gap = _sorted(values, cells)
    within = index - cell
    sizes = torch.zeros_like(cells).scatter_add(-1, cell, torch.ones_like(cell)).gather(-1, cell)
    to_tolerance = (gap - tolerance).abs()
    gap = torch.where(gap > tolerance, gap, 0.0)
    middle = torch.where((3 * within >= sizes) & (3 * within <= 2 * sizes), gap, 0.0)
    best = torch.zeros_like(gap).scatter_reduce(-1, cell, middle, "amax").gather(-1, cell)
    anywhere = torch.zeros_like(gap).scatter_reduce(-1, cell, gap, "amax").gather(-1, cell)
    gap, best = torch.where(best > 0, middle, gap), torch.where(best > 0, best, anywhere)
    candidate = torch.where((gap >= GAP_FACTOR * best) & (best > 0), index, n)
    start = torch.full_like(cell, n).scatter_reduce(-1, cell, candidate, "amin").gather(-1, cell)
    to_bar = torch.where((index <= start) & (gap > 0), (gap - GAP_FACTOR * best).abs(), torch.inf)
    doubt = torch.where(best > 0, to_bar, torch.where(within > 0, to_tolerance, torch.inf)).amin(-1)
    return torch.empty_like(cells).scatter_(-1, order, torch.where(index >= start, start, cell)), doubt


def _cut_everywhere(values: Tensor, cells: Tensor, tolerance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cut every cell at all gaps, how far the nearest gap is from not being one, and which nodes start a cell."""
    order, cell, index, gap = _sorted(values, cells)
    start = torch.where((gap > tolerance) | (index == cell), index, 0).cummax(-1)[0]
    doubt = torch.where(index > cell, (gap - tolerance).abs(), torch.inf).amin(-1)
    return torch.empty_like(cells).scatter_(-1, order, start), doubt, start == index


def separate(values: Tensor, cells: Tensor, tolerance: Tensor, reads: bool = True) -> Tensor:
    """Cells ``(B, n)`` cut at gaps of the invariants ``values`` ``(B, n, k)`` above ``tolerance`` ``(B, 1)``."""
    return separate_with_margin(values, cells, tolerance, reads)[0]


def separate_with_margin(values: Tensor, cells: Tensor, tolerance: Tensor, reads: bool = True) -> tuple[Tensor, Tensor]:
    """``separate``, and the distance ``(B,)`` of the nearest decision from flipping, in the units of the invariants.

    ``reads``: end when no cell can be cut any more. Otherwise after a number of cuts that is enough if one channel has
    no ties: each of its turns leaves at most two thirds of a cell, as there is a gap in the middle.
    """
    channels = values.unbind(-1)
    if cells.shape[-1] <= MAX_POINTS_IN_PAIRS and (found := rows.separated(values, cells, tolerance)) is not None:
        return found
    margin = values.new_full((len(cells),), torch.inf)
    if cells.shape[-1] <= MAX_POINTS_IN_PAIRS:
        for channel in channels:
            cells, doubt, alone = _cut_everywhere(channel, cells, tolerance)
            margin = torch.minimum(margin, doubt)
            if all_true(alone):  # nothing is left to cut, or to doubt
                break
        return cells, margin
    quiet = turn = 0
    cuts = len(channels) * math.ceil(math.log(cells.shape[-1], 1.5))
    while quiet < len(channels) if reads else turn < cuts:
        new, doubt = _cut(channels[turn % len(channels)], cells, tolerance)
        quiet = quiet + 1 if reads and torch.equal(new, cells) else 0
        margin = torch.minimum(margin, doubt)
        cells, turn = new, turn + 1
    return cells, margin
