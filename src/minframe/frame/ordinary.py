"""Frames where it is promised that no rows are tied, so that no number has to be read (``minframe.unchecked``).

What is done when rows are tied depends on which are, and an order among them is found on the host. Without ties the
steps that tell rows apart are the same for all samples, and known beforehand. A sample that breaks the promise is NaN:
its rows are in some order, and its frame is undefined.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from minframe.frame.linear import LinearFrame
from minframe.frame.point_set import Numbers, PointSet
from minframe.frame.points import alone, coordinates, invariants, separate_fully, sizes
from minframe.frame.record import mapped
from minframe.labelling.refine import is_discrete
from minframe.labelling.separate import MAX_POINTS_IN_PAIRS, separate, separate_with_margin
from minframe.linalg.action import behind_batch


def order_apart(points: PointSet) -> tuple[Tensor, Tensor]:
    """The order of points as by ``order_points``, ``(B, n)``, and whether invariants tell them all apart, ``(B,)``."""
    n = points.rows.shape[1]
    cells = separate_with_margin(invariants(points), points.start(), points.apart, reads=False)[0]
    if n <= MAX_POINTS_IN_PAIRS and points.blocks is not None and points.colours is None and points.mask is None:
        by_size = separate(sizes(points), torch.zeros_like(cells), points.slack)
        cells = torch.where(is_discrete(by_size).unsqueeze(-1), by_size, cells)
    settled = torch.ones_like(cells[:, 0], dtype=torch.bool)
    if points.of_zeros is not None:  # invariants, which differ by ``EQUAL_WHITE``, only tell rows of small clouds apart
        cells, settled = _by_coordinates(points, cells)
    return alone(cells, points.mask).argsort(dim=-1, stable=True), is_discrete(cells, points.mask) & settled


def _by_coordinates(points: PointSet, cells: Tensor) -> tuple[Tensor, Tensor]:
    """Cells refined by coordinates, as by ``order_points``, in two turns, and whether a third would change nothing."""
    before, complete = cells, cells[:, 0] < 0
    numbers: Numbers = ()
    for _ in range(2):
        numbers, complete = coordinates(points, cells)
        values, done = points.weighted(numbers, points.slacks), is_discrete(cells, points.mask).unsqueeze(-1)
        before, cells = cells, torch.where(done, cells, separate(values, cells, points.slack, reads=False))
    settled = (before == cells).all(-1) | is_discrete(cells, points.mask)
    finer = separate_fully(numbers, cells, points, reads=False)
    return torch.where(complete.unsqueeze(-1), finer, cells), settled


def undefined(frame: LinearFrame, samples: Tensor) -> LinearFrame:
    """The frame with NaN in some samples, ``(*batch,)``."""
    nan = torch.zeros_like(samples, dtype=torch.float64).masked_fill_(samples, torch.nan)

    def lost(x: Tensor) -> Tensor:
        return x + behind_batch(nan, x, 0) if x.is_floating_point() or x.is_complex() else x

    made: LinearFrame = object.__new__(type(frame))
    names = "linear", "inverse", "own_inverse", "own_columns", "shift"
    parts = {name: mapped(lost, getattr(frame, name)) for name in names}
    made.__dict__.update(frame.__dict__, tied=None, _in_span=None, **parts)
    found = frame._decomposition
    if found is not None:
        rows = found.layout.for_each_row(nan.unsqueeze(-1))
        made._decomposition = replace(found, coordinates=[y + rows for y in found.coordinates])
    return made
