"""Frames in a canonical order of the rows: of products with permutations, and of linear groups that heed no order."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.errors import all_true
from minframe.frame import Frame, LinearFrame
from minframe.linalg.action import behind_batch, multiply, wide
from minframe.permutation.action import inverse
from minframe.permutation.backend import DEFAULT
from minframe.permutation.compiled import CompiledFrame
from minframe.permutation.pairs import Pairs, Poses, symmetric_pairs
from minframe.permutation.points import Ordering, PointSet, order_margin, order_points
from minframe.permutation.product import ProductFrame, reordered
from minframe.permutation.relations import coloured, is_per_row

if TYPE_CHECKING:
    from minframe.groups.linear import LinearGroup
    from minframe.groups.product import Product

# What inner products of rows of length one may differ by and be the same, in units of rounding. It is a number that
# does not change when a cloud is moved, unless it is moved so far that its rounding, which does change, exceeds it.
SAFE, ROUNDING = 64, 5
SAFE_AT_MOST = 4e-3  # but no more than this, and four times the rounding, in half precision
FINEST = 3e-14  # rounding of the computation itself, also behind a boost
SOFT = 1e-12  # lengths below this part of the longest are not told apart
COINCIDENT = 1 / 64  # a cloud not larger than its rounding times the inverse of this is a point


def point_set(group: LinearGroup, cloud: Cloud, rtol: float = 0.0) -> PointSet:
    """The cloud, reduced, as a batch of sets of points."""
    reduction = group.reduction(cloud)
    matrix, origin, layout = reduction.matrix, reduction.cloud.origin, cloud.layout
    mask = layout.padding_mask()
    rows, fixed, noises, noisy = [], [], [], False
    stretch: Tensor | float = 1.0
    if matrix is not None:
        stretch = torch.linalg.matrix_norm(matrix, 2).reshape(-1)
    for x, type in cloud.inputs:
        raw = x.detach()
        y = wide(raw)
        if origin is not None and type.affine:
            y = y - behind_batch(layout.for_rows(origin.detach(), y), y, 1)
        if matrix is not None:
            y = multiply(y, layout.for_rows(matrix, y))
        per_row = is_per_row(x, layout, type.order)
        if per_row:
            raw, y = layout.pad(raw), layout.pad(y)
            if mask is not None:
                shape = (*mask.shape, *(1,) * (y.ndim - 2))
                raw, y = raw * mask.view(shape), y * mask.view(shape)
        else:
            lead = len(layout.batch_shape)
            shape = math.prod(layout.batch_shape), math.prod(x.shape[lead:-1]), x.shape[-1]
            raw, y = raw.reshape(shape), y.reshape(shape)
        size = torch.linalg.vector_norm(y, dim=-1).flatten(1).amax(-1)
        moved = matrix is not None or (origin is not None and type.affine)
        noisy = noisy or moved
        far = torch.linalg.vector_norm(wide(raw), dim=-1).flatten(1).amax(-1) if moved else size
        rounding = cloud.eps * stretch * far
        there = size * COINCIDENT > rounding
        y = y * torch.where(there, 1 / torch.where(there, size, 1.0), 0.0).view(-1, *(1,) * (y.ndim - 1))
        noises.append(torch.where(there, rounding / torch.where(there, size, 1.0), 0.0))
        if per_row:
            rows.append(y.reshape(*y.shape[:2], math.prod(y.shape[2:-1]), y.shape[-1]))
        else:
            fixed.append(y.reshape(y.shape[0], math.prod(y.shape[1:-1]), y.shape[-1]))
    points = torch.cat(rows, 2)
    if reduction.axes is not None:
        fixed.append(reduction.axes.expand(points.shape[0], -1, -1))
    least = max(min(SAFE * max(cloud.eps, FINEST), SAFE_AT_MOST), 4 * cloud.eps)
    # Coordinates as they were given are exact relative to each row, not only to the longest.
    soft = torch.full((len(points), 1), 1.0 if noisy else SOFT, dtype=torch.float64, device=points.device)
    slack = (ROUNDING * torch.stack(noises).amax(0)).clamp_min(least).unsqueeze(-1)
    none = points.new_zeros((points.shape[0], 0, points.shape[-1]))
    colours = edges = None
    relations = cloud.relations
    if relations is not None and (relations.nodes or relations.edges):
        colours, edges, _ = coloured(relations, layout, rtol, None, cloud.name)
    return PointSet(
        points, torch.cat([none, *fixed], 1), reduction.blocks, soft, slack, colours, edges, mask, cloud.tolerance
    )


def product_frame(group: Product, cloud: Cloud) -> ProductFrame:
    """The frame of permutations together with a linear group."""
    if torch.compiler.is_compiling():
        return CompiledFrame(group, group.linear, cloud, shown=True)
    points = point_set(group.linear, cloud, group.permutations.rtol)
    ordering = order_points(points, group.permutations.backend)
    number = torch.arange(ordering.order.shape[-1], device=ordering.order.device)
    order, linear, pairs = _framed(group.linear, cloud, ordering, points.slack)
    twins = None
    if not all_true(ordering.twins == number):
        position = inverse(order)
        twins = position.gather(-1, ordering.twins.gather(-1, order))
    return ProductFrame(
        group,
        cloud,
        cloud.layout.unpad_order(order),
        linear,
        twins,
        pairs,
        shown=True,
        margin=lambda: order_margin(points),
    )


def invariant_frame(group: LinearGroup, cloud: Cloud) -> Frame:
    """The frame of a linear group that does not depend on the order of the rows.

    Axes are carried by the longest rows instead of the first that are long enough. Where several rows are equally long
    the samples concerned are looked at as in ``product_frame``, and the first in canonical order is taken. If they have
    a symmetry, the other choices would have shown the backbone the same cloud with its rows permuted; one that respects
    permutations would have returned the same with its rows permuted, and that is what is averaged over.
    """
    cloud = replace(cloud, longest=True)
    if torch.compiler.is_compiling():
        return CompiledFrame(group, group, cloud, shown=False)
    frame = group.row_frame(cloud)
    if frame.tied is None or all_true(~frame.tied):
        return frame
    tied = frame.tied.reshape(-1).nonzero().squeeze(-1)
    points = point_set(group, cloud.select(tied))
    found = order_points(points, DEFAULT)
    layout = cloud.layout
    b, n, mask = math.prod(layout.batch_shape), layout.padded_length, layout.padding_mask()
    order = torch.arange(n, device=tied.device).repeat(b, 1)
    if mask is not None:
        order = (~mask).long().argsort(dim=-1, stable=True)
    order[tied] = found.order
    ordering = Ordering(order, order, found.generators, tied.cpu()[found.owner.cpu()])
    slack = points.slack.new_zeros((b, 1)).index_copy(0, tied, points.slack)
    order, linear, pairs = _framed(group, cloud, ordering, slack)
    margin: Callable[[], Tensor] = lambda: torch.full((b,), torch.inf, dtype=torch.float64)  # noqa: E731
    return ProductFrame(group, cloud, cloud.layout.unpad_order(order), linear, None, pairs, shown=False, margin=margin)


def _framed(
    group: LinearGroup, cloud: Cloud, ordering: Ordering, slack: Tensor
) -> tuple[Tensor, LinearFrame, list[Pairs]]:
    """The final order ``(B, n)``, the frame of the rows in it, and what symmetry is left."""
    order = ordering.order
    ordered = reordered(cloud, cloud.layout.unpad_order(order))
    linear = group.row_frame(ordered)
    if not len(ordering.owner):
        return order, linear, []
    owner = ordering.owner.cpu()
    generators, mine = ordering.generators.cpu(), order.cpu()[owner]
    generators = inverse(mine).gather(-1, generators.gather(-1, mine))  # of rows, as of positions
    with torch.no_grad():
        pairs, moved = symmetric_pairs(_poses(group, ordered, linear, slack), generators, owner)
    if moved:
        order = order.clone()
        for sample, permutation in moved.items():
            order[sample] = order[sample][permutation.to(order.device)]
        linear = group.row_frame(reordered(cloud, cloud.layout.unpad_order(order)))
    return order, linear, pairs


def _poses(group: LinearGroup, ordered: Cloud, linear: LinearFrame, slack: Tensor) -> Poses:
    """Canonical poses in double precision, on the CPU, where groups of permutations are."""
    layout = ordered.layout
    inputs, per_row = [], []
    for x, type in ordered.inputs:
        y = linear.pose(wide(x.detach()), type.name, own=True)
        rows = is_per_row(x, layout, type.order)
        inputs.append(layout.pad(y) if rows else y.reshape(-1, *y.shape[len(layout.batch_shape) :]))
        per_row.append(rows)
    mask = layout.padding_mask()
    if mask is not None:
        inputs = [
            x * mask.view(*mask.shape, *(1,) * (x.ndim - 2)) if rows else x
            for x, rows in zip(inputs, per_row, strict=True)
        ]
    mask = None if mask is None else mask.cpu()
    distance = linear.cloud.offset().reshape(-1, 1).cpu()
    return Poses(group, [x.cpu() for x in inputs], per_row, ordered, mask, distance, slack.cpu())
