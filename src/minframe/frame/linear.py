"""Frames of matrices, translations or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from minframe.checks import check_core, data_checks_enabled
from minframe.cloud import Cloud, Reduction
from minframe.dtypes import narrow, wide
from minframe.frame.base import Acts, Frame
from minframe.frame.record import Known, UnlikeError, combined
from minframe.frame.size import Size, counted
from minframe.layout import Layout, Ragged
from minframe.linalg.action import behind_batch, multiply, transform
from minframe.linalg.carry import Pairs, carry
from minframe.linalg.columns import Columns, with_columns
from minframe.linalg.fade import FadingStabiliser
from minframe.linalg.rows import CanonicalRows
from minframe.linalg.stabiliser import InParts, IsometryStabiliser, Stabiliser
from minframe.tracing import has_tangent, is_pushed
from minframe.types import CONSTANT, UNTOUCHED, Type


class ActsLinearly(Acts, Protocol):
    """The interface of a group that acts on coordinates."""

    @property
    def d(self) -> int:
        """Length of the coordinate axis."""

    @property
    def complex(self) -> bool:
        """Whether it acts on complex numbers."""

    @property
    def bounded(self) -> bool:
        """Whether the matrices of elements have a bounded condition number, so that none enlarges rounding."""

    def assemble(self, linear: Tensor | None, shift: Tensor | None, /) -> Tensor:
        """The element with these parts."""

    def determinant(self, linear: Tensor, /) -> Tensor:
        """The determinant of the matrix of an element, ``(*batch,)``."""

    def frame_of(self, cloud: Cloud, /) -> LinearFrame:
        """The minimal frame of a cloud, rows taken in the order they have."""

    def reduction(self, cloud: Cloud, /) -> Sequence[Reduction]:
        """The cloud in a form in which only compact groups still act, term by term; without derivatives."""


class LinearFrame(Frame):
    """A frame of matrices, translations or both.

    Args:
        group: the group it belongs to.
        linear: ``(*batch, d, d)``, the matrix of ``g0``, in float64; ``None`` where the group has none.
        inverse: its inverse.
        own_inverse: the matrix for the rows of the cloud itself, if different from ``inverse``.
        own_columns: gives the coordinates of the rows of the cloud itself where a product is not exact enough.
        stabiliser: of the canonical pose.
        cloud: the inputs that determined the frame; its origin, if it has one, is the translation of ``g0``.
        margin: computes the margin on demand.
        decomposition: the decomposition that gave the frame, if it still holds the canonical pose of the cloud.
        tied: ``(*batch,)``, where the order of the rows decided between equally long ones; ``None``: nowhere.
        ties_loosely: rows also tie within what a boost before may have added to their rounding; see ``Cloud``.
    """

    group: ActsLinearly
    #: attributes with an entry for each sample
    per_sample: tuple[str, ...] = ("linear", "inverse", "own_inverse", "own_columns", "shift", "stabiliser")

    def __init__(
        self,
        group: ActsLinearly,
        linear: Tensor | None,
        inverse: Tensor | None,
        stabiliser: Stabiliser,
        cloud: Cloud,
        margin: Callable[[], Tensor],
        decomposition: CanonicalRows | None = None,
        own_inverse: Tensor | None = None,
        own_columns: Columns | None = None,
        tied: Tensor | None = None,
        ties_loosely: bool = False,
    ) -> None:
        self.group = group
        self.linear = linear
        self.inverse = inverse
        self.own_inverse = inverse if own_inverse is None else own_inverse
        self.own_columns = own_columns
        self.shift = cloud.origin
        self.stabiliser = stabiliser
        self.cloud = cloud
        self.layout = self.shown_layout = cloud.layout
        self.dtype = cloud.inputs[0][0].dtype if cloud.inputs else cloud.dtype
        self.tied = tied
        self.ties_loosely = ties_loosely
        self._margin = margin
        self._decomposition = decomposition
        self._in_span: Tensor | None = None

    def with_samples(self, samples: Tensor, other: LinearFrame, cloud: Cloud) -> LinearFrame | None:
        """The frame of ``cloud`` that is ``other`` in ``samples``, numbered in the flattened batch, and this elsewhere.

        ``None`` if the two frames hold different fields and cannot be combined.
        """
        lead = len(self.layout.batch_shape)
        fields = [(f.linear, f.inverse, f.own_inverse, f.own_columns, f.shift, f.stabiliser) for f in (self, other)]

        def replaced(both: Sequence[Tensor]) -> Tensor:
            mine, theirs = both
            core = mine.shape[lead:]
            return mine.reshape(-1, *core).index_copy(0, samples, theirs.reshape(-1, *core)).view(mine.shape)

        try:
            parts = combined(replaced, fields)
        except UnlikeError:
            return None
        linear, inverse, own_inverse, own_columns, shift, stabiliser = parts
        return LinearFrame(
            self.group,
            linear,
            inverse,
            stabiliser,
            replace(cloud, origin=shift),
            lambda: self.margin,
            own_inverse=own_inverse,
            own_columns=own_columns,
        )

    def for_other_inputs(self) -> LinearFrame:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _decomposition=None)
        return made

    def stored(self) -> dict[str, Any]:
        cloud = replace(self.cloud, inputs=(), relations=None)
        return super().stored() | {"cloud": cloud, "tied": None, "_decomposition": None, "_in_span": None}

    def collated(self, frames: Sequence[Frame], layout: Layout) -> LinearFrame:
        mine = cast(Sequence[LinearFrame], frames)

        def stacked(parts: Sequence[Tensor]) -> Tensor:
            return torch.stack(list(parts)) if not batched else torch.cat(list(parts))

        batched = len(self.layout.batch_shape)
        columns = with_columns([frame.own_columns for frame in mine], self.linear)
        state = {name: [getattr(frame, name) for frame in mine] for name in self.per_sample} | {"own_columns": columns}
        try:
            parts = {name: combined(stacked, values) for name, values in state.items()}
        except UnlikeError:
            raise self.not_combined() from None
        made = object.__new__(type(self))
        margin = Known(torch.stack([frame.margin.view(()) for frame in mine]))
        cloud = replace(self.cloud, inputs=(), layout=layout, origin=parts["shift"], relations=None)
        made.__dict__.update(self.stored() | parts, cloud=cloud, layout=layout, shown_layout=layout, _margin=margin)
        return made

    def canonical_rows(self, dtype: torch.dtype) -> Tensor:
        """The pose of the rows of all inputs together, ``(*rows, d)``."""
        assert self._decomposition is not None
        return self._decomposition.pose(dtype)

    @property
    def element(self) -> Tensor:
        return self.group.assemble(self.linear, self.shift).to(self.dtype)

    @property
    def rank(self) -> Tensor:
        return self.stabiliser.rank

    @property
    def size(self) -> Size:
        return counted(self.stabiliser.size)

    @property
    def margin(self) -> Tensor:
        return self._margin()

    def to_canonical(self, x: Tensor, type: str = "point") -> Tensor:
        kind = self._checked(x, type, "x")
        if self.own_columns is not None and any(x is own for own, _ in self.cloud.inputs):
            return self._inward(x, kind, self.own_inverse, self.own_columns)
        if self.own_columns is not None and kind.core_ndim == 1 and not (kind.dual or kind.parity):
            return self._inward_in_parts(x, kind, self.own_columns)
        return self._inward(x, kind, self.linear.mT if kind.dual and self.linear is not None else self.inverse)

    def pose(self, x: Tensor, type: str = "point", own: bool = False) -> Tensor:
        return self.shown(x, self._checked(x, type, "x"), own)

    def from_canonical(self, y: Tensor, type: str = "point") -> Tensor:
        return self.carried_back(y, self._checked(y, type, "y"))

    def _checked(self, x: Tensor, type: str, name: str) -> Type:
        """The type of that name, after checking that ``x`` is of it."""
        kind = self.group.type(type)
        if kind.core_ndim or kind.parity:
            check_core(x, kind.core_ndim, self.group.d, kind.name, name, self.layout.leading, self.group.complex)
        return kind

    def shown(self, x: Tensor, kind: Type, own: bool) -> Tensor:
        if own and kind.core_ndim and self._decomposition is not None:
            inputs = self.cloud.inputs  # ``x`` may still have its padding, which is zero there
            if len(inputs) == 1 and inputs[0][0].shape == x.shape and not has_tangent(x):
                return self._decomposition.pose(x.dtype).view(x.shape)
        if kind in UNTOUCHED:
            return x
        if own:
            y = self._inward(x, kind, self._own_inverse_in_span(), self.own_columns)
            if self.own_columns is None or kind.core_ndim != 1 or isinstance(self.stabiliser, FadingStabiliser):
                return y
            return y * self.layout.beside(self.stabiliser.determined, y, 1)
        if kind.core_ndim == 1 and (folded := self.inward(kind)) is not None:
            return self._inward(x, kind, folded)
        matrix = self.linear.mT if kind.dual and self.linear is not None else self.inverse
        if not (kind.core_ndim or kind.parity):
            return self._inward(x, kind, matrix)
        return narrow(self._average(self._defined(self._inward(x, kind, matrix), kind, inward=True), kind), x.dtype)

    def inward(self, kind: Type) -> Tensor | None:
        """``A g0^-1``, with ``A`` the average over the stabiliser, of a type with one core axis; ``(*batch, d, d)``.

        It brings inputs into the pose that did not determine it. ``None``, if that is not one matrix for each sample:
        where the average may not exist, or the group has no matrices. ``A`` is symmetric, and ``fold`` has it behind
        the matrix.
        """
        matrix = self.linear.mT if kind.dual and self.linear is not None else self.inverse
        average = self.stabiliser
        exists = isinstance(average, FadingStabiliser) or (
            isinstance(average, IsometryStabiliser) and average.null is None
        )
        return average.fold(matrix.mT, kind).mT if exists and matrix is not None else None

    def carried_back(self, y: Tensor, kind: Type) -> Tensor:
        if not (kind.core_ndim or kind.parity):
            return y
        y = self._defined(y, kind, inward=False)
        dtype = torch.promote_types(y.dtype, self.dtype)
        matrix = self.inverse.mT if kind.dual and self.inverse is not None else self.linear
        if kind.core_ndim != 1 or matrix is None:
            y = self._average(y, kind)
        parts = None
        if matrix is not None:  # the average of vectors, folded into the matrix: the paper's Q_0
            matrix, parts = self.stabiliser.fold(matrix, kind), self.stabiliser.in_parts(kind)
        det = self.group.determinant(self.linear) if kind.parity and self.linear is not None else None
        layout = self.layout
        listed = parts is None and isinstance(layout, Ragged)
        matrix = matrix if matrix is None or listed else layout.for_rows(matrix, y)
        det = None if det is None else layout.for_rows(det, y)
        shift = layout.beside(self.shift, y, 1) if self.shift is not None and kind.affine else None
        if parts is None or matrix is None:
            return (self._transformed if listed else transform)(y, kind, matrix, det, shift, dtype)
        moved = self._carried(y, kind, matrix, parts, det)
        moved = torch.where(layout.beside(parts.here, y, 0), moved, transform(y, kind, matrix, det))
        return narrow(moved if shift is None else moved + shift, dtype)

    def coordinates(self, x: Tensor, type: str) -> Tensor:
        """``pose`` of an input that determined the frame, including rounding outside of the span."""
        found, inputs = self._decomposition, self.cloud.inputs
        if self.own_columns is not None and found is not None and len(inputs) == 1 and inputs[0][0].shape == x.shape:
            return torch.cat(list(found.coordinates), -1).view(x.shape)  # exact relative to each row
        return self._inward(x, self._checked(x, type, "x"), self.own_inverse, self.own_columns)

    def _own_inverse_in_span(self) -> Tensor | None:
        """The matrix that brings rows of the cloud into their pose, zero outside of their span; computed once."""
        if self._in_span is not None:
            return self._in_span
        own = self.own_inverse
        if own is None or isinstance(self.stabiliser, FadingStabiliser):  # short axes fade, and none is outside
            return own
        found = own * self.stabiliser.determined.unsqueeze(-1)
        if torch.is_grad_enabled() or not (own.requires_grad or is_pushed(own)):  # or derivatives would miss it later
            self._in_span = found
        return found

    def _carried(self, y: Tensor, kind: Type, matrix: Tensor, parts: InParts, det: Tensor | None) -> Tensor:
        """``y`` moved by ``g0`` in parts, index by index; ``matrix`` and ``det`` have an entry for each row."""
        parts = InParts(*(self.layout.for_rows(t, y) for t in (parts.here, parts.outward, parts.projector)))
        rounding = 8 * torch.finfo(y.dtype).eps
        moved = wide(y)
        for _ in range(kind.core_ndim):
            moved = parts.carry(moved, matrix, rounding)
            moved = moved.mT if kind.core_ndim == 2 else moved
        return moved if det is None else moved * behind_batch(det, moved, 0)

    def _inward(self, x: Tensor, kind: Type, matrix: Tensor | None, columns: Columns | None = None) -> Tensor:
        """``x`` moved by ``g0^-1``, whose matrix is given; ``columns``, if given, replace the product for vectors."""
        if not (kind.core_ndim or kind.parity):
            return x if kind is CONSTANT else self.layout.clean(x, kind.core_ndim)
        layout, dtype = self.layout, x.dtype
        if self.shift is not None and kind.affine:  # first, so that a far origin costs no precision in the product
            x = x - layout.beside(self.shift, x, 1)
        x = layout.clean(x, kind.core_ndim)
        det = self.group.determinant(self.inverse) if kind.parity and self.inverse is not None else None
        det = None if det is None else layout.for_rows(det, x)
        if columns is None or kind.core_ndim != 1:
            return self._transformed(x, kind, matrix, det, None, dtype)
        y = self._transformed(x, kind, matrix, det)
        return narrow(columns.replace(y, x, lambda sample: layout.for_rows(sample, x)), dtype)

    def _transformed(
        self,
        x: Tensor,
        kind: Type,
        matrix: Tensor | None,
        det: Tensor | None = None,
        shift: Tensor | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """``transform`` by the matrices ``(*batch, d, d)`` of the samples; ``det`` and ``shift`` are those of rows."""
        layout = self.layout
        if matrix is None or kind.core_ndim != 1 or not isinstance(layout, Ragged):
            return transform(x, kind, None if matrix is None else layout.for_rows(matrix, x), det, shift, dtype)
        last = dtype is not None and det is None and shift is None
        x = carry(
            x, matrix, Pairs.at(None, layout.owner(x)), dtype if last else torch.promote_types(x.dtype, torch.float64)
        )
        return x if last else transform(x, kind, None, det, shift, dtype)

    def _inward_in_parts(self, x: Tensor, kind: Type, columns: Columns) -> Tensor:
        """``x`` moved by ``g0^-1``: what lies in the span of the cloud as its rows are, and the rest by the matrix.

        A strong boost has large entries, and the product with a vector that it makes short is their small difference.
        """
        y = self._inward(wide(x), kind, self.own_inverse, columns)
        shift = self.layout.beside(self.shift, x, 1) if self.shift is not None and kind.affine else 0.0
        rest = self.layout.clean(wide(x) - shift, 1)
        rest = columns.outside(rest, self.cloud.tolerance, lambda sample: self.layout.for_rows(sample, x))
        assert self.inverse is not None
        return narrow(y + multiply(rest, self.layout.for_rows(self.inverse, x)), x.dtype)

    def averaged(self, y: Tensor, kind: Type) -> Tensor:
        """The average of ``h . y`` over the stabiliser of the canonical pose, in canonical coordinates."""
        return self._average(self._defined(y, kind, inward=False), kind)

    def _average(self, y: Tensor, kind: Type) -> Tensor:
        return self.stabiliser.spread(lambda sample: self.layout.for_rows(sample, y)).average(y, kind)

    def _defined(self, y: Tensor, kind: Type, inward: bool) -> Tensor:
        """``y``, if it has a value in every sample; an error, or NaN where errors would need to look at the data."""
        undefined = self.stabiliser.undefined(kind, inward)
        if undefined is None:
            return y
        if not data_checks_enabled():
            return y + self.layout.beside(torch.where(undefined, torch.nan, 0.0), y, 0)
        if bool(undefined.any()):
            what = "an input that does not determine the frame" if inward else "an output"
            first = int(undefined.flatten().nonzero()[0])
            raise ValueError(
                f"{what} of type {kind.name!r} has no value under {self.group} in sample {first} of "
                f"{undefined.numel()}: {self.stabiliser.shortfall(kind, inward, first)}; or let more inputs determine "
                "the frame"
            )
        return y
