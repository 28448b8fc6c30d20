"""Frames in a canonical order of the rows: of products with permutations, and those that ignore the order of rows.

Which rows and poses are equal is decided by one scale for each sample; see ``frame.point_set``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from minframe.checks import PROMISED, all_true, check_not_mapped, readable
from minframe.cloud import Cloud
from minframe.dtypes import wide
from minframe.frame.base import Acts, Frame
from minframe.frame.compiled import FRAME_MAKERS, CompiledFrame, CompiledOrbitFrame
from minframe.frame.linear import ActsLinearly, LinearFrame
from minframe.frame.orbit import OrbitFrame
from minframe.frame.ordinary import order_apart, undefined
from minframe.frame.pairs import Pairs, symmetries, with_matrices
from minframe.frame.permutation import Permutes
from minframe.frame.point_set import PointSet, point_set, real, weights_of
from minframe.frame.points import Ordering, order_margin, order_points, thin_samples
from minframe.frame.poses import Poses
from minframe.frame.product import ProductFrame
from minframe.labelling.action import inverse, take_nodes
from minframe.labelling.backend import DEFAULT
from minframe.labelling.orbits import orbit_mean
from minframe.labelling.symmetry import RowSymmetry
from minframe.linalg.blocks import BlockStabiliser, slices_of
from minframe.linalg.stabiliser import IsometryStabiliser, Stabiliser
from minframe.tracing import is_compiling, is_transformed

OPENING_FACTOR = 100.0  # bound on the error of rows mapped by a symmetry, in units of rounding or of a jet's opening
MAX_SHIFT_RATIO = 0.01  # bound on the shift of a cloud by the average over its symmetry, relative to its size


class ActsOnBoth(Acts, Protocol):
    """The interface of a product of permutations with a group that acts on coordinates."""

    @property
    def permutations(self) -> Permutes: ...

    @property
    def linear(self) -> ActsLinearly: ...


def check_values(group: Acts, cloud: Cloud) -> None:
    """Raise an error where values cannot be read."""
    for x, _ in cloud.inputs:
        if is_transformed(x):
            check_not_mapped(x, group, cloud.name)


def product_frame(group: ActsOnBoth, cloud: Cloud) -> Frame:
    """The frame of permutations together with a linear group."""
    matrices = getattr(group.linear, "matrices", None)
    if matrices is not None and is_compiling():
        return CompiledOrbitFrame(group, matrices, cloud, True)
    if matrices is not None:  # a finite group
        return OrbitFrame(group, matrices, cloud, True, group.permutations.backend, group.permutations.rtol)
    if is_compiling():
        return CompiledFrame(group, group.linear, cloud, "product")
    check_values(group, cloud)
    relations = cloud.relations
    listed = relations is not None and (relations.edges or relations.edge_index is not None)
    if group.linear.bounded or listed or not readable(cloud.inputs[0][0]):
        return _product_frame(group, cloud)
    order = _order_by_value(cloud)
    given = cloud.reordered(order)
    if relations is not None:
        given = replace(given, relations=replace(relations, nodes=[take_nodes(x, order) for x in relations.nodes]))
    frame = _product_frame(group, given)
    return frame.with_rows(cloud, take_nodes(order, frame.order))


def _order_by_value(cloud: Cloud) -> Tensor:
    """An order of the rows that their values alone determine, ``(*batch, n)`` or ``(N,)``.

    Sums over rows are rounded in the order that these have. The matrix of a strong boost or stretch enlarges that, and
    of a cloud that is all but null, or flat, nothing is left that another order would not change. In this order all
    sums are the same, to the last bit, whichever order is given.
    """
    layout = cloud.layout
    rows = [x.detach() for x, kind in cloud.inputs if layout.is_per_row(x, kind.core_ndim)]
    columns = [c for x in rows for c in real(layout.pad(wide(x)).flatten(2)).unbind(-1)]
    key = torch.zeros_like(columns[0])
    for k, column in enumerate(columns, 1):  # one by one, which is rounded alike wherever a row is
        key = key + math.sin(12.9898 * k) * column
    mask, key = layout.padding_mask(), key.nan_to_num()
    return layout.unpad_order((key if mask is None else key.masked_fill(~mask, torch.inf)).argsort(dim=-1, stable=True))


def _product_frame(group: ActsOnBoth, cloud: Cloud) -> ProductFrame:
    points = point_set(group.linear, cloud.tamed(), group.permutations.rtol)
    if PROMISED.get() and not readable(points.rows):
        order, apart = order_apart(points)
        rows, lost = cloud.layout.unpad_order(order), ~apart.view(cloud.layout.batch_shape)
        linear = undefined(group.linear.frame_of(cloud.reordered(rows)), lost)
        return ProductFrame(group, cloud, rows, linear, None, (), shown=True, margin=lambda: order_margin(points))
    ordering = order_points(points, group.permutations.backend)
    order, rows, linear, pairs = _framed(group.linear, cloud, ordering, points)
    twins = None if ordering.twins is None else _coincident(order, ordering)
    frame = ProductFrame(group, cloud, rows, linear, twins, pairs, shown=True, margin=lambda: order_margin(points))
    return frame if twins is None and not pairs else _with_true_symmetry(frame)


def unordered_frame(group: ActsLinearly, cloud: Cloud) -> Frame:
    """The frame of a linear group that does not depend on the order of the rows.

    Axes are carried by the longest rows instead of the first that are long enough. Where several rows are equally long
    these samples are treated as in ``product_frame``, and the first in canonical order is taken. If they have a
    symmetry, the other choices would show the backbone the same cloud with its rows permuted. A backbone that respects
    permutations would return the same output with its rows permuted, and the average is over these outputs.
    """
    matrices = getattr(group, "matrices", None)
    if matrices is not None and not cloud.inputs:  # grids have no rows
        return group.frame_of(cloud)
    if matrices is not None and is_compiling():
        return CompiledOrbitFrame(group, matrices, cloud, False)
    if matrices is not None:  # a finite group
        return OrbitFrame(group, matrices, cloud, False, DEFAULT)
    cloud = replace(cloud, longest=True)
    if is_compiling():
        return CompiledFrame(group, group, cloud, "unordered")
    check_values(group, cloud)
    frame = group.frame_of(cloud)
    if frame.tied is None or all_true(~frame.tied):
        return frame
    if PROMISED.get() and not readable(frame.tied):
        return undefined(frame, frame.tied)
    margin, undecided = frame, frame.tied
    tied, order, linear, pairs = _of_tied(group, cloud, undecided)
    if frame.ties_loosely and len({p.sample for p in pairs}) < len(tied):
        # What is not symmetric has no rows that are equal but for a boost before. Its longest row is one for every
        # observer as soon as it exceeds others by more than the rounding of the rows as they are given, while up to
        # which difference a boost may have made two rows unequal is another length for each.
        cloud = replace(cloud, as_given=True)
        frame = group.frame_of(cloud)
        undecided = torch.zeros_like(undecided) if frame.tied is None else frame.tied & undecided
        symmetric = tied[[p.sample for p in pairs]]
        undecided = undecided.reshape(-1).index_fill(0, symmetric, True).view(undecided.shape)
        frame._margin = lambda: margin.margin
        if all_true(~undecided):
            return frame
        if int(undecided.sum()) < len(tied):
            tied, order, linear, pairs = _of_tied(group, cloud, undecided)
    # Rows of thin clouds, or after strong boosts, have their pose from the decomposition, which is that of one order:
    # what a product with the matrix leaves of them is less exact by their condition number.
    exact = frame.own_columns is None and linear.own_columns is None
    if exact and not pairs:  # rows may stay where they are: matrices do not depend on their order
        whole = frame.with_samples(tied, linear, cloud)
        if whole is not None:
            return whole
    layout = cloud.layout
    b, n, mask = math.prod(layout.batch_shape), layout.padded_length, layout.padding_mask()
    every = torch.arange(n, device=tied.device).repeat(b, 1)
    if mask is not None:
        every = (~mask).long().argsort(dim=-1, stable=True)
    every[tied] = order
    order = layout.unpad_order(every)
    ordered = replace(cloud.reordered(order), longest=~undecided)
    whole = (frame.with_samples(tied, linear, ordered) if exact else None) or group.frame_of(ordered)
    whole._margin = lambda: frame.margin  # not that of the order which was chosen
    pairs = [replace(p, sample=int(tied[p.sample])) for p in pairs]
    # The margin of a tie is that of the rows as given, which does not depend on their order.
    return _with_true_symmetry(
        ProductFrame(group, cloud, order, whole, None, pairs, shown=False, margin=lambda: frame.margin)
    )


def _of_tied(group: ActsLinearly, cloud: Cloud, tied: Tensor) -> tuple[Tensor, Tensor, LinearFrame, list[Pairs]]:
    """The numbers of the ``tied`` samples, their canonical order, their frame in that order, and their symmetry.

    In a canonical order the first row that is long enough is taken, so that almost equal rows give the same choice.
    """
    samples = tied.reshape(-1).nonzero().squeeze(-1)
    few = replace(cloud.select(samples), longest=False)
    points = point_set(group, few.tamed())
    order, _, linear, pairs = _framed(group, few, order_points(points, DEFAULT), points)
    return samples, order, linear, pairs


def _with_true_symmetry(frame: ProductFrame) -> ProductFrame:
    """The frame without proposed symmetries that would move the cloud itself.

    After a strong boost, L, poses are known to ``eps |L|^2`` of their size, the square of what the rows are, and within
    that any cloud may look symmetric. An average over its symmetry leaves a cloud in place; so it is one if the rows
    come back as exactly as an opening of ``1 / |L|`` allows (``linalg.split``). Of thin clouds under a general linear
    group poses are known to ``eps |L| |L^-1|``, and a map that moves them by a hundredth is never a symmetry.

    Poses that are equal differ by the tolerance of the rank, times the root mean square of the rows, in each of d
    coordinates: an average over them may move a cloud by d tolerances, and is no less a symmetry. Where L is not strong
    nothing else is possible.
    """
    linear, cloud = frame.linear, frame.cloud
    if linear.own_columns is None or linear.linear is None:
        return frame
    with torch.no_grad():
        stays = torch.ones_like(linear.own_columns.here).reshape(-1)
        for x, kind in cloud.inputs:
            if kind.core_ndim == 1 and cloud.layout.is_per_row(x, kind.core_ndim):
                back = frame.from_canonical(frame.pose(x, kind.name, own=True), kind.name)
                both = [cloud.layout.pad(wide(v)) for v in (cloud.layout.clean(back - x, 1), x)]
                for term, allowed in _allowed_shifts(linear, cloud):
                    moved, size = (v[..., term].flatten(1).norm(dim=-1) for v in both)
                    stays = stays & (moved <= allowed * size)
        stays = stays | ~linear.own_columns.here.reshape(-1)
    if all_true(stays):
        return frame
    twins = frame.twins
    if twins is not None:
        twins = torch.where(stays.unsqueeze(-1), twins, torch.arange(twins.shape[-1], device=twins.device))
    pairs = [p for p in frame.pairs if bool(stays[p.sample])]
    return frame.with_symmetry(twins, pairs)


def _allowed_shifts(linear: LinearFrame, cloud: Cloud) -> list[tuple[slice, Tensor]]:
    """What an average may shift the rows by, over their size, ``(B,)``, for each term of a direct sum."""
    found = []
    for term, stabiliser in _terms(linear):
        assert linear.linear is not None
        assert linear.inverse is not None
        strength = torch.linalg.matrix_norm(linear.linear[..., term, term]).reshape(-1)
        if isinstance(stabiliser, IsometryStabiliser):
            allowed = OPENING_FACTOR * torch.minimum(1 / strength, cloud.eps * strength.square())
        else:
            strength = strength * torch.linalg.matrix_norm(linear.inverse[..., term, term]).reshape(-1)
            allowed = (OPENING_FACTOR * cloud.eps * strength).clamp_max(MAX_SHIFT_RATIO)
        found.append((term, allowed.clamp_min((term.stop - term.start) * cloud.tolerance)))
    return found


def _terms(linear: LinearFrame) -> list[tuple[slice, Stabiliser]]:
    """The coordinates of each term of a direct sum, and its stabiliser."""
    if isinstance(linear.stabiliser, BlockStabiliser):
        return list(zip(slices_of(linear.stabiliser.sizes), linear.stabiliser.parts, strict=True))
    return [(slice(0, linear.group.d), linear.stabiliser)]


FRAME_MAKERS["product"], FRAME_MAKERS["unordered"] = product_frame, unordered_frame


def _coincident(order: Tensor, ordering: Ordering) -> Tensor | None:
    """The first position whose row coincides with that of each position, ``(B, n)``; ``None``: no two do."""
    twins = ordering.twins
    assert twins is not None
    if all_true(twins == torch.arange(order.shape[-1], device=order.device)):
        return None
    return inverse(order).gather(-1, twins.gather(-1, order))


def _merged(cloud: Cloud, twins: Tensor) -> Cloud:
    """The cloud with rows that coincide at their mean.

    They differ by ``equal``, and which of them comes first is open: neither the rank nor a choice may depend on it.
    After a strong boost or stretch ``equal`` is much of the rows as given. These stay as they are where their mean is
    farther away than a chain of rows can be, each within the tolerance of the rank of the next.
    """
    layout, numbers = cloud.layout, cloud.layout.unpad_numbers(RowSymmetry(twins).orbits())
    inputs = []
    for x, kind in cloud.inputs:
        if layout.is_per_row(x, kind.core_ndim):
            mean = orbit_mean(x, numbers)
            with torch.no_grad():
                away, size = (layout.pad(wide(layout.clean(v, 1))).flatten(1).abs().amax(-1) for v in (mean - x, x))
                close = (away <= cloud.tolerance * layout.padded_length * size).view(layout.batch_shape)
            x = torch.where(layout.beside(close, x, 0), mean, x)
        inputs.append((x, kind))
    return replace(cloud, inputs=inputs)


def _framed(
    group: ActsLinearly, cloud: Cloud, ordering: Ordering, points: PointSet
) -> tuple[Tensor, Tensor, LinearFrame, list[Pairs]]:
    """The final order ``(B, n)``, that of the rows as given, the frame of these, and the remaining symmetry."""
    order = ordering.order
    rows = cloud.layout.unpad_order(order)
    ordered = cloud.reordered(rows)
    if ordering.twins is not None and (twins := _coincident(order, ordering)) is not None:
        ordered = _merged(ordered, twins)
    linear = group.frame_of(ordered)
    if not len(ordering.owner):
        return order, rows, linear, []
    thin = thin_samples(points, ordering.owner)
    owner = ordering.owner.cpu()
    generators, mine = ordering.generators.cpu(), order.cpu()[owner]
    generators = inverse(mine).gather(-1, generators.gather(-1, mine))  # of rows, as of positions
    with torch.no_grad():
        poses = _poses(group, ordered, linear, points)
        chains, moved, means = symmetries(poses, generators, owner, set(thin.tolist()))
        if moved:
            order = order.clone()
            for sample, permutation in moved.items():
                order[sample] = order[sample][permutation.to(order.device)]
    if moved:
        rows = cloud.layout.unpad_order(order)
        ordered = cloud.reordered(rows)
        if ordering.twins is not None and (twins := _coincident(order, ordering)) is not None:
            ordered = _merged(ordered, twins)
        linear = group.frame_of(ordered)
    with torch.no_grad():
        poses = _poses(group, ordered, linear, points) if moved else poses
        return order, rows, linear, with_matrices(poses, chains, means)


def _poses(group: ActsLinearly, ordered: Cloud, linear: LinearFrame, points: PointSet) -> Poses:
    """Canonical poses in double precision, on the CPU, where groups of permutations are."""
    layout = ordered.layout
    inputs, per_row = [], []
    for x, kind in ordered.inputs:
        # Whether a coordinate is rounding is decided anew in each order, so that it does not depend on this one.
        y = linear.coordinates(wide(x.detach()), kind.name)
        rows = layout.is_per_row(x, kind.core_ndim)
        inputs.append(layout.pad(y) if rows else y.reshape(-1, *y.shape[len(layout.batch_shape) :]))
        per_row.append(rows)
    mask = layout.padding_mask()
    if mask is not None:
        inputs = [
            x * mask.view(*mask.shape, *(1,) * (x.ndim - 2)) if rows else x
            for x, rows in zip(inputs, per_row, strict=True)
        ]
    mask = None if mask is None else mask.cpu()
    distance = _distance(linear).cpu()
    equal, weights = points.equal.cpu(), weights_of(points.equals).cpu()
    return Poses(group, [x.cpu() for x in inputs], per_row, ordered, mask, distance, equal, points.terms, weights)


def _distance(linear: LinearFrame) -> Tensor:
    """How far points stood from the origin when they were rounded, along each axis, in the unit of poses, ``(B, d)``.

    Poses may have a unit of their own. In it, rounding is as large as the matrix that leads there makes it.
    """
    shift = linear.stabiliser.determined.new_zeros((), dtype=torch.float64) if linear.shift is None else linear.shift
    d = linear.group.d
    distance = shift.detach().abs().expand(*linear.layout.batch_shape, d).reshape(-1, d)
    own = linear.own_inverse
    if linear.shift is None or own is None:
        return distance
    own = torch.where(own.isfinite(), own, 0).reshape(-1, d, d)  # samples with NaN stay NaN elsewhere
    found = []
    for term, stabiliser in _terms(linear):
        part = distance[:, term]
        if not isinstance(stabiliser, IsometryStabiliser):
            part = part * torch.linalg.matrix_norm(own[:, term, term], 2).unsqueeze(-1)
        found.append(part)
    return torch.cat(found, -1)
