"""The inputs that determine a frame, seen as one set of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minframe.ragged import Layout
from minframe.types import Type


@dataclass(frozen=True)
class Planes:
    """A private float64 copy of the rows, coordinate by coordinate, for an algorithm to overwrite.

    Attributes:
        values: ``(d, *rows)``, contiguous, relative to the origin.
        layout: of the rows.
        offset: length of the origin per sample, in the units of ``values``: rows so far away have been rounded before.
        eps: relative spacing of the numbers that the rows were given in.
    """

    values: Tensor
    layout: Layout
    offset: Tensor | None
    eps: float


@dataclass(frozen=True)
class Cloud:
    """Typed inputs whose rows are taken together, points before vectors, padding already zero.

    ``origin`` ``(*batch, d)`` is what points are taken relative to; vectors have no origin.
    """

    inputs: Sequence[tuple[Tensor, Type]]
    layout: Layout
    origin: Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        return self.inputs[0][0].dtype

    def _points(self) -> list[Tensor]:
        return [x for x, type in self.inputs if type.affine]

    def centred(self) -> Cloud:
        """The same cloud with the mean of its points, in float64, as origin."""
        rows, layout = self.layout.join(self._points())
        origin = layout.mean(rows)
        if rows.dtype == torch.float64:  # sums of narrower numbers are exact; here a second pass makes coincident points 0
            origin = origin + layout.mean(layout.relative(rows, origin))
        return replace(self, origin=origin)

    def take(self, positions: Tensor) -> Tensor:
        """The rows at ``positions`` ``(*batch, k)``, relative to the origin, in float64; differentiable."""
        rows, layout = self.layout.join([x for x, _ in self.inputs])
        chosen = layout.take_rows(rows, positions).double()
        if self.origin is None:
            return chosen
        points = self._points()
        origin = self.origin.unsqueeze(-2)
        if len(points) < len(self.inputs):
            origin = origin * (positions < self.layout.join(points)[1].length).unsqueeze(-1)
        return chosen - origin

    def planes(self) -> Planes:
        """A copy of the rows. Where there are several inputs, each is first brought to length one: each has its own unit."""
        several = len(self.inputs) > 1
        blocks, offset = [], None
        for x, type in self.inputs:
            rows, layout = self.layout.join([x.detach()])
            block = rows.movedim(-1, 0).to(torch.float64, copy=True, memory_format=torch.contiguous_format)
            origin = layout.as_sample(self.origin.detach()) if type.affine and self.origin is not None else None
            if origin is not None:
                block.sub_(layout.spread(origin))
                offset = torch.linalg.vector_norm(origin, dim=0)
                if layout.real is not None:
                    block.mul_(layout.real)
            if several:
                unit = layout.amax(torch.linalg.vector_norm(block, dim=0))
                unit = torch.where(unit > 0, unit, 1.0)
                block.div_(layout.spread(unit))
                if origin is not None:
                    offset = offset / unit
            blocks.append(block)
        values = torch.cat(blocks, -1) if several else blocks[0]
        _, layout = self.layout.join([x for x, _ in self.inputs])
        return Planes(values, layout, offset, max(torch.finfo(x.dtype).eps for x, _ in self.inputs))
