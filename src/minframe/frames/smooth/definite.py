"""Smooth frames of O, SO, U and SU, and of E, SE and the like on centred clouds."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from minframe.checks import all_true, data_checks_enabled
from minframe.cloud import Cloud
from minframe.frames.smooth.choosing import LONG, Elements, choose, fading, poisoned, relative_squares
from minframe.groups.isometry import Isometry
from minframe.layout import Layout
from minframe.linalg.soft import Rule
from minframe.linalg.soft_poses import Poses
from minframe.linalg.stabiliser import IsometryStabiliser


def definite(linear: Isometry, cloud: Cloud, rule: Rule, fade: float) -> Elements:
    """Rows carry the axes. Outputs along axes that are shorter than ``fade`` times the longest row fade."""
    rows, layout, poison = _tamed(*_in_own_units(cloud))
    rule = rule if cloud.counts is None else replace(rule, counts=cloud.counts)
    offset = cloud.offset().reshape(-1) if len(cloud.inputs) == 1 else None

    def relative(found: Poses) -> Tensor:
        # The first axis is as long as the cloud, and fades where that is rounding (``choose``): any larger size to
        # compare with would be a distance from the origin, which translations change.
        others = relative_squares(found.length2, found.length2[:, 0], fade, linear.special)
        return torch.cat([torch.full_like(others[:, :1], LONG), others[:, 1:]], -1)

    def level(m: int) -> IsometryStabiliser:
        axes = torch.arange(linear.d, device=rows.device)
        return IsometryStabiliser(axes < m, linear.special, linear.metric, linear.complex)

    found, c = choose(rows, layout, cloud, rule, 2 * cloud.eps, offset, relative, fade)
    basis = poisoned(found.basis, poison, found.sample)
    # Along axes that no row determines the coordinates of the rows are zero. The average over the isometries of
    # these axes of any derivative is zero too, for every backbone output in the one pose that is shown.
    own = basis.mH
    if (c is not None or linear.d == 1) and not all_true(~found.gone):  # else all axes are longer than noise
        gone = found.gone
        if linear.special and linear.d > 1:  # the last axis follows from the others, if these are determined
            gone = torch.cat([gone[:, :-1], gone[:, -2:].all(-1, keepdim=True)], -1)
        own = own * ~gone.unsqueeze(-1)
    return Elements(found.sample, found.weight, basis, basis.mH, fading(c, level, basis), own)


def _in_own_units(cloud: Cloud) -> tuple[Tensor, Layout]:
    """The rows, relative to the origin; each of several inputs is divided by its root mean square, as its own unit."""
    if len(cloud.inputs) == 1:
        return cloud.rows()
    parts = []
    for x, kind in cloud.inputs:
        rows, layout = replace(cloud, inputs=[(x, kind)]).rows()
        square = layout.total(rows.abs().square().sum(-1, keepdim=True)) / layout.sizes(rows.device)
        unit = torch.where(square > 0, square, 1.0).sqrt()
        parts.append((rows / layout.for_each_row(unit)).reshape(x.shape))
    return cloud.layout.join(parts)


def _tamed(rows: Tensor, layout: Layout) -> tuple[Tensor, Layout, Tensor | None]:
    """The same as ``Cloud.tame_rows``, for these rows."""
    if data_checks_enabled():
        return rows, layout, None
    return torch.where(rows.isfinite(), rows, 0), layout, 0 * layout.total(rows.detach()).real.sum(-1)
