"""The inputs that determine a frame, seen as one set of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.checks import all_finite, check_finite, checkable, errors_enabled
from minframe.dtypes import wide
from minframe.labelling.action import take_nodes
from minframe.layout import Dense, Layout
from minframe.linalg import loops
from minframe.linalg.rows import Precision, Rows
from minframe.tracing import has_tangent
from minframe.types import Type

MAX_INPUT_ROUNDING = 1e-3  # rounding of an input relative to its length, above which other inputs are preferred
MIN_RANK_ROUNDINGS = 4.0  # roundings of the longest row that the last axis exceeds; see ``linalg.qr``
MAX_COORDINATE = 1e150  # coordinates above this have squares that overflow
LATER_INPUT_FACTOR = 0.83  # factor on the length of each further input, so that no two inputs tie


class Input(NamedTuple):
    """An input that determines a frame: a tensor, its type, and its name for messages."""

    name: str
    x: Tensor
    type: str


@dataclass(frozen=True, slots=True)
class Relations:
    """Features that distinguish rows and that a linear group does not move.

    Attributes:
        nodes: features of the rows, of any dtype; each begins with the axes of the rows.
        edges: of ordered pairs of rows, ``(*batch, n, n, *channels)``.
        edge_index: ``(2, E)``, the pairs of rows that have an edge, if edges are listed; ``edges`` are then of these
            pairs, ``(E, *channels)``.
    """

    nodes: Sequence[Tensor] = ()
    edges: Sequence[Tensor] = ()
    edge_index: Tensor | None = None

    def dense(self, layout: Layout, samples: Tensor) -> Tensor:
        """The listed edges of some samples, their numbers ``(k,)``, as ``(k, n, n, c)``, in float64.

        The channels are the number of edges from one row to another, the sum of what belongs to them, and that of its
        squares: several edges between two rows are one entry.
        """
        assert self.edge_index is not None
        source, target = self.edge_index
        rows, real = layout.pad(torch.arange(layout.length, device=source.device)), layout.padding_mask()
        b, n = rows.shape
        at = rows.flatten() if real is None else rows[real]
        slot = torch.arange(b * n, device=source.device)
        slot = rows.new_empty(layout.length).index_copy(0, at, slot if real is None else slot[real.flatten()])
        number = slot.new_full((b,), -1).index_copy(0, samples, torch.arange(len(samples), device=slot.device))
        owner = number[slot[source] // n]
        kept = owner >= 0
        parts = [torch.view_as_real(x) if x.is_complex() else x for x in self.edges]
        channels = [torch.ones(len(source), 1, dtype=torch.float64, device=source.device)]
        for x in (part.detach().reshape(len(part), -1).double() for part in parts):
            channels += [x, x.square()]
        values = torch.cat(channels, -1)
        entries = torch.zeros(len(samples), n, n, values.shape[-1], dtype=torch.float64, device=source.device)
        where = owner[kept], slot[source][kept] % n, slot[target][kept] % n
        return entries.index_put(where, values[kept], accumulate=True)


@dataclass(slots=True)
class Cloud:
    """Typed inputs whose rows are taken together, points before vectors, padding already zero.

    Points are relative to ``origin`` ``(*batch, d)``; vectors have no origin. ``name`` is for messages. ``relations``
    are further features that distinguish rows, for groups that reorder them. ``rounding`` is that of the coordinates,
    if it differs from that of their dtype, and ``distance`` ``(*batch, d)`` how far from the origin they were along
    each axis when they were rounded, if it has changed since. ``longest`` requests axes along the longest rows, in all
    samples or in some, ``(*batch,)``; see ``linalg.qr``. ``as_given``: longest rows tie within the rounding with which
    they are given, and no more; of an indefinite form else also within that of a boost before. ``counts`` ``(N,)`` says
    how many coincident rows each stands for in smooth frames; see ``linalg.soft``.
    """

    inputs: Sequence[tuple[Tensor, Type]]
    layout: Layout
    origin: Tensor | None = None
    name: str = "x"
    relations: Relations | None = None
    rounding: float | None = None
    distance: Tensor | None = None
    longest: bool | Tensor = False
    as_given: bool = False
    counts: Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        return self.inputs[0][0].dtype

    @property
    def needs_grad(self) -> bool:
        return any(has_tangent(x) for x, _ in self.inputs)

    def select(self, samples: Tensor) -> Cloud:
        """Some of the samples, their numbers ``(k,)`` those of the flattened batch, as a dense cloud."""
        layout = self.layout

        def chosen(x: Tensor, core_ndim: int) -> Tensor:
            if (
                x.ndim >= len(layout.rows_shape) + core_ndim
                and tuple(x.shape[: len(layout.rows_shape)]) == layout.rows_shape
            ):
                padded = layout.pad(x)[samples]  # with a batch vector, padding repeats a row
                return (
                    padded if mask is None else torch.where(mask.view(*mask.shape, *(1,) * (x.ndim - lead)), padded, 0)
                )
            return x.reshape(-1, *x.shape[len(layout.batch_shape) :])[samples]

        lead = len(layout.rows_shape)
        mask = layout.padding_mask()
        mask = None if mask is None else mask[samples]
        inputs = [(chosen(x, kind.core_ndim), kind) for x, kind in self.inputs]
        dense = Dense((len(samples),), layout.padded_length, mask)
        relations = self.relations
        if relations is not None:
            listed = relations.edge_index is not None
            edges = [relations.dense(layout, samples)] if listed else [chosen(x, 0) for x in relations.edges]
            relations = Relations([chosen(x, 0) for x in relations.nodes], edges)
        origin = None if self.origin is None else self.origin.reshape(-1, self.origin.shape[-1])[samples]
        return replace(self, inputs=inputs, layout=dense, origin=origin, relations=relations)

    def reordered(self, order: Tensor) -> Cloud:
        """The cloud with its rows in another order, ``(*batch, n)`` or ``(N,)``, the row at each position."""
        moves = [self.layout.is_per_row(x, kind.core_ndim) for x, kind in self.inputs]
        layout = self.layout.reordered(order)
        inputs = zip(moves, self.inputs, strict=True)
        moved = [(take_nodes(x, order) if moves else x, kind) for moves, (x, kind) in inputs]
        return replace(self, inputs=moved, layout=layout)

    def tamed(self) -> Cloud:
        """The cloud with zeros in samples that have NaN or infinity, where these are not an error."""
        small = [
            checkable(x) and (not x.numel() or bool(x.detach().abs().amax() < MAX_COORDINATE)) for x, _ in self.inputs
        ]
        if all(small):
            return self
        rows, layout = self.layout.join([x.detach() for x, _ in self.inputs])
        peak = layout.total(wide(rows).abs().square().sum(-1, keepdim=True)).squeeze(-1)
        check_finite(peak, self.name)
        inputs = [(torch.where(self.layout.beside(peak.isfinite(), x, 0), x, 0), kind) for x, kind in self.inputs]
        relations = self.relations
        if relations is not None:
            nodes, edges = (
                [x.nan_to_num(0.0, 0.0, 0.0) if x.is_floating_point() else x for x in part]
                for part in (relations.nodes, relations.edges)
            )
            relations = replace(relations, nodes=nodes, edges=edges)
        return replace(self, inputs=inputs, relations=relations)

    def _points(self) -> list[Tensor]:
        return [x for x, kind in self.inputs if kind.affine]

    def centred(self) -> Cloud:
        """The same cloud with the mean of its points, in float64, as origin."""
        rows, layout = self.layout.join(self._points())
        return replace(self, origin=loops.mean(rows, layout))

    def take(self, positions: Tensor) -> Tensor:
        """The rows at ``positions`` ``(*batch, k)``, relative to the origin, in float64; differentiable."""
        rows, layout = self.layout.join([x for x, _ in self.inputs])
        chosen = wide(layout.take_rows(rows, positions))
        if self.origin is None:
            return chosen
        points = self._points()
        origin = self.origin.unsqueeze(-2)
        if len(points) < len(self.inputs):
            origin = origin * (positions < self.layout.join(points)[1].length).unsqueeze(-1)
        return chosen - origin

    def rows(self) -> tuple[Tensor, Layout]:
        """All rows, relative to the origin, padding zero, in float64, and their layout; differentiable."""
        parts = [self._relative(x) if self.origin is not None and kind.affine else wide(x) for x, kind in self.inputs]
        return self.layout.join(parts)

    def _relative(self, x: Tensor) -> Tensor:
        """Points, relative to the origin.

        If the origin is their mean, it is rounded; far from zero, this subtracts the remaining mean as well.
        """
        assert self.origin is not None
        y = self.layout.clean(x - self.layout.beside(self.origin, x, 1), 1)
        if not self.centred_twice:
            return y
        rows, layout = self.layout.join([y])
        rest = layout.mean(rows)
        return self.layout.clean(y - self.layout.beside(rest, x, 1), 1)

    @property
    def centred_twice(self) -> bool:
        """Whether the mean of points relative to the origin is subtracted as well, as the origin is their mean."""
        return self.origin is not None and self.distance is None and len(self.inputs) == 1

    def tame_rows(self) -> tuple[Tensor, Layout, Tensor | None]:
        """``rows()`` for algorithms that refuse NaN, and a tensor ``(*batch,)`` that is NaN where there was any.

        ``None`` where NaN is an error anyway, or where there is none.
        """
        rows, layout = self.rows()
        if errors_enabled() or all_finite(rows):
            return rows, layout, None
        return torch.where(rows.isfinite(), rows, 0), layout, 0 * layout.total(rows.detach()).sum(-1)

    @property
    def eps(self) -> float:
        """Rounding of the coordinates, as they were given."""
        if self.rounding is not None:
            return self.rounding
        if len(self.inputs) == 1:  # without a loop, which tiny clouds notice
            return torch.finfo(self.inputs[0][0].dtype).eps
        return max(torch.finfo(x.dtype).eps for x, _ in self.inputs)

    @property
    def tolerance(self) -> float:
        """Lengths below this part of the longest row are rounding; see ``linalg.qr``."""
        return _tolerance(self.eps)

    @property
    def precision(self) -> Precision:
        """The precision of the rows, relative to the origin."""
        eps = self.eps
        return Precision(eps, _tolerance(eps), 8 * eps * self.offset(), self.name)

    @property
    def is_centred(self) -> bool:
        """Whether the rows add up to zero."""
        return self.origin is not None and all(kind.affine for _, kind in self.inputs)

    def offset(self) -> Tensor:
        """The distance of the points from the origin, ``(*batch, 1)``, to which their rounding is relative."""
        distance = self.origin if self.distance is None else self.distance
        if distance is None:
            return torch.zeros(*self.layout.batch_shape, 1, dtype=torch.float64, device=self.inputs[0][0].device)
        return torch.linalg.vector_norm(distance.detach(), dim=-1, keepdim=True)

    def rounded_squares(self, rows: Tensor) -> Tensor:
        """The squared lengths that rounding of each of the ``rows()`` is relative to, ``(*rows, 1)``.

        Those of the rows as they were given; and in double precision of what is left after the origin is subtracted.
        """
        squares = rows.abs().square().sum(-1, keepdim=True)
        if self.origin is None:
            return squares
        given, layout = self.layout.join([wide(x.detach()) for x, _ in self.inputs])
        if self.distance is not None:
            return squares + layout.for_each_row(self.offset().square())
        again = torch.finfo(torch.float64).eps / self.eps
        return given.abs().square().sum(-1, keepdim=True) + again**2 * squares

    def rows_as_given(self, precision: Precision) -> Rows:
        """All rows, in the dtype and the unit that they have, without derivatives."""
        rows, layout = self.layout.join([x.detach() for x, _ in self.inputs])
        origin = None if self.origin is None else self.origin.detach()
        if origin is not None and not self.is_centred:  # vectors among them have none
            (rows, layout), origin = self.rows(), None
        return Rows(rows.detach(), layout, precision, origin, self.longest)

    def as_rows(self) -> Rows:
        """The rows among which ``linalg`` chooses, without derivatives.

        Each of several inputs is first scaled to length one, as each has its own unit. Each also has its own rounding,
        below which residuals of its rows count as zero: nearly coincident points far from the origin do not hide the
        vectors given with them, and the position of other points has no effect. Only an input that is mostly rounding
        is made so short that rows of others carry the axes if possible.
        """
        eps = self.eps
        tolerance = _tolerance(eps)
        rows, layout = self.layout.join([x.detach() for x, _ in self.inputs])
        origin = None if self.origin is None else self.origin.detach()
        if len(self.inputs) == 1:
            floor = None if origin is None or self.distance is None else 8 * eps * self.offset()
            precision = Precision(eps, tolerance, floor, self.name, (MIN_RANK_ROUNDINGS * eps, tolerance))
            return Rows(rows, layout, precision, origin, self.longest)
        number = torch.promote_types(rows.dtype, torch.float64)
        planes = rows.movedim(-1, 0).to(number, copy=True, memory_format=torch.contiguous_format)
        start, noise = 0, []
        for k, (x, kind) in enumerate(self.inputs):
            _, part = self.layout.join([x])
            block = planes[..., start : start + part.length]
            start += part.length
            affine = kind.affine and origin is not None
            if affine:
                assert origin is not None
                block.sub_(part.spread(part.as_sample(origin)))
                if part.real is not None:
                    block.mul_(part.real)
            longest = part.amax(torch.linalg.vector_norm(block, dim=0))
            rounding = 8 * eps * (longest + part.as_sample(self.offset())[0] if affine else longest)
            unit = torch.maximum(longest, rounding / MAX_INPUT_ROUNDING)
            unit = torch.where(unit > 0, unit, 1.0)
            unit = unit / LATER_INPUT_FACTOR**k if self.longest is not False and k else unit
            block.div_(part.spread(unit))
            noise.append(part.spread((rounding / unit).square()).expand(block.shape[1:]))
        precision = Precision(eps, tolerance, tolerance, self.name)
        row_floor = torch.cat(noise, -1)
        return Rows(planes.movedim(0, -1), layout, precision, longest=self.longest, row_floor=row_floor)


def _tolerance(eps: float) -> float:
    return max(eps**0.75, 8 * eps)


@dataclass(frozen=True, slots=True)
class Reduction:
    """A cloud brought to a form where only compact groups are left, without regard to the order of its rows.

    Of a direct sum each term has one of its own, of its coordinates.

    Attributes:
        cloud: the cloud, with its origin.
        matrix: ``(*batch, d, d)``, the matrix for the rows; ``None`` is the identity.
        blocks: coordinates whose inner products are invariant; ``None``: the coordinates themselves are.
        rounding: ``(*batch,)``, of the rows after the matrix, over the longest of them, where that matrix is any of
            full rank. ``None``: an isometry's, or the identity.
        rows: ``(*rows, d)``, the rows after the matrix, where they are known more exactly than a product is.
        of_zeros: ``(*rows, 1)``, rounding of inner products with each row that are zero; see ``white_rounding``.
    """

    cloud: Cloud
    matrix: Tensor | None
    blocks: Sequence[slice] | None
    rounding: Tensor | None = None
    rows: Tensor | None = None
    of_zeros: Tensor | None = None
