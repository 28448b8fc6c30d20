"""The inputs and results of the algorithms of this package: rows, their precision, and their canonical pose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from minframe.layout import Layout
from minframe.tracing import is_compiling, is_transformed


@dataclass(slots=True)
class Precision:
    """The precision of rows.

    Attributes:
        eps: relative rounding of the coordinates, as they were given.
        tolerance: lengths below this part of the longest row are rounding; see ``linalg.qr``.
        floor: ``(*batch, 1)`` or one number for all; lengths below it are rounding as well.
        name: of the inputs, for messages.
        of_rank: lengths up to these parts of the longest row, and of the root mean square of all, are rounding for the
            rank. ``None``: up to ``tolerance`` of the longest row.
    """

    eps: float
    tolerance: float
    floor: Tensor | float | None = None
    name: str = "x"
    of_rank: tuple[float, float] | None = None

    @property
    def offset(self) -> Tensor | float:
        """The distance from the origin at which the rounding of rows is the floor."""
        return 0.0 if self.floor is None else self.floor / (8 * self.eps)


@dataclass(slots=True)
class Rows:
    """Rows among which to choose, without derivatives.

    Attributes:
        values: ``(*rows, d)``, as they are; padding is read as zero.
        layout: of the rows.
        precision: of the values. Without a floor, rows that have an origin are rounded to ``8 eps`` of its length.
        origin: ``(*batch, d)``, in float64, what the rows are relative to; ``None``: zero.
        longest: take a longest row, not the first that is long enough; a tensor ``(*batch,)`` if samples differ in it.
        short: a sample tensor: how much longer than others a row may be and still be chosen, squared. ``None``: any.
        row_floor: ``(*rows)``, the squared length below which what is left of a row is rounding, if rows differ in it.
        spare: whether the pose may be written over ``values``, which nothing else needs.
    """

    values: Tensor
    layout: Layout
    precision: Precision
    origin: Tensor | None = None
    longest: bool | Tensor = False
    short: Tensor | None = None
    row_floor: Tensor | None = None
    spare: bool = False


@dataclass(slots=True)
class CanonicalRows:
    """Rows in their canonical pose.

    Attributes:
        determined: ``(*batch, d)``, the axes that the rows span.
        coordinates: ``(*rows, k)`` for successive groups of axes; where not determined, rounding.
        layout: of the rows.
        full: whether all axes are known to be determined in all samples.
        zeroed: whether the coordinates are zero where not determined.
        renew: computes ``coordinates``, one tensor, again. With it ``pose`` gives away what is there and makes no copy.
    """

    determined: Tensor
    coordinates: Sequence[Tensor]
    layout: Layout
    full: bool = field(default=False, kw_only=True)
    zeroed: bool = field(default=False, kw_only=True)
    renew: Callable[[], Tensor] | None = field(default=None, kw_only=True)

    def pose(self, dtype: torch.dtype) -> Tensor:
        """``(*rows, d)``, zero where not determined; nothing else refers to it."""
        if self.renew is not None and self.zeroed:
            given, self.coordinates = self.coordinates or [self.renew()], ()
            return given[0].to(dtype)
        if len(self.coordinates) == 1:
            whole = self.coordinates[0].to(dtype, copy=True, memory_format=torch.contiguous_format)
        else:
            widths = [part.shape[-1] for part in self.coordinates]
            whole = self.coordinates[0].new_empty((*self.coordinates[0].shape[:-1], sum(widths)), dtype=dtype)
            for here, part in zip(torch.split(whole, widths, -1), self.coordinates, strict=True):
                here.copy_(part)
        return whole if self.full or self.zeroed else whole.mul_(self.layout.for_each_row(self.determined))


@dataclass(slots=True)
class Oriented(CanonicalRows):
    """The decomposition ``rows = pose @ basis^T``; determined are the first ``rank`` axes.

    Attributes:
        basis: ``(*batch, d, d)``, orthonormal columns; unique where determined, arbitrary behind.
        tied: ``(*batch,)``, whether several rows were the longest at some step; ``None``: not asked for, or nowhere.
    """

    basis: Tensor
    tied: Tensor | None = field(default=None, kw_only=True)

    def pose(self, dtype: torch.dtype) -> Tensor:
        own = self.coordinates[0] if len(self.coordinates) == 1 else None
        if own is None or self.full or self.zeroed or is_compiling() or is_transformed(own):
            return CanonicalRows.pose(self, dtype)
        whole = torch.empty(own.shape, dtype=dtype, device=own.device)
        return torch.mul(own, self.layout.for_each_row(self.determined), out=whole)  # in one operation


@dataclass(slots=True)
class PivotedQR(Oriented):
    """``Oriented`` with the rows that were chosen, which derivatives follow.

    Attributes:
        positions: ``(*batch, d)``, of the row that carries each axis; maybe behind all rows where not determined.
        peaks: ``(*batch, d)``, the largest squared length that was left at each step.
        several: ``(*batch, d)``, whether several rows were the longest at each step; ``None``: only ``tied`` is known.
    """

    positions: Tensor
    peaks: Tensor
    several: Tensor | None = field(default=None, kw_only=True)

    def tied_for(self, known: Tensor) -> Tensor | None:
        """``tied``, for axes that are ``known`` ``(*batch, d)`` alone, as far as it is known for which rows tie."""
        if self.tied is None or self.several is None:
            return self.tied
        return (self.several & self.determined & known).any(-1)


@dataclass(slots=True)
class WhiteQR:
    """The decomposition ``y = pose @ basis^T`` of white rows ``y = T^-1 x``; see ``linalg.whiten``.

    Attributes:
        found: the decomposition. Under a special group its basis has determinant one, and its pose the volume of the
            rows.
        matrix: ``(*batch, d, d)``, T.
        inverse: of T.
    """

    found: PivotedQR
    matrix: Tensor
    inverse: Tensor
