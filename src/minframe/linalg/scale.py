"""The stabiliser of the pose of a cloud under groups with a positive scale.

A cloud without size is fixed by every factor. These do not form a compact group; no average over them exists, and the
only vector that they all fix is zero. So invariants of such a cloud have a value, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.linalg.stabiliser import Stabiliser
from minframe.types import Type


@dataclass(frozen=True)
class ScaleStabiliser(Stabiliser):
    """The stabiliser is ``inner`` for clouds that have a size; ``sized`` ``(*batch,)``: whether they have one."""

    inner: Stabiliser
    sized: Tensor

    @staticmethod
    def of(inner: Stabiliser, sized: Tensor) -> ScaleStabiliser:
        return ScaleStabiliser(inner.determined & sized.unsqueeze(-1), inner, sized)

    @property
    def rank(self) -> Tensor:
        return torch.where(self.sized, self.inner.rank, 0)

    @property
    def size(self) -> Tensor:
        return torch.where(self.sized, self.inner.size, torch.inf)

    def spread(self, to_rows: Callable[[Tensor], Tensor]) -> ScaleStabiliser:
        return ScaleStabiliser.of(self.inner.spread(to_rows), to_rows(self.sized))

    def undefined(self, kind: Type, inward: bool) -> Tensor | None:
        return ~self.sized if kind.core_ndim or kind.parity else None

    def shortfall(self, kind: Type, inward: bool, sample: int) -> str:
        return "the cloud has no size, as all its points coincide, so that nothing sets the scale. Invariants exist"

    def fold(self, matrix: Tensor, kind: Type) -> Tensor:
        return self.inner.fold(matrix, kind)

    def average(self, y: Tensor, kind: Type) -> Tensor:
        return self.inner.average(y, kind)
