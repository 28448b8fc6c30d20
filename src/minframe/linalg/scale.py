"""The size of a cloud, for groups that change it by a positive factor.

The size is the root of the mean squared length of the rows, all inputs taken together: it is multiplied with exactly the
factor that the cloud is multiplied with, it does not change when rows are reordered or the cloud is turned, and it is
smooth wherever it is not zero. Nothing discrete is decided but one thing: whether a cloud has a size at all. Points that
differ by no more than the rounding of coordinates that stand far from the origin coincide, and have none.

A cloud without size is fixed by every factor. These do not form a compact group; no average over them exists, and the
only vector that they all fix is zero. So invariants of such a cloud have a value, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.errors import check_finite, data_checks_enabled
from minframe.linalg.action import behind_batch
from minframe.linalg.stabiliser import Stabiliser
from minframe.types import Type


def cloud_size(cloud: Cloud) -> tuple[Tensor, Tensor]:
    """The size ``(*batch,)`` in float64, one where there is none, and whether there is one, ``(*batch,)``."""
    rows, layout = cloud.rows()
    alive = torch.cat([_alive(cloud, k) for k in range(len(cloud.inputs))], -1)
    rows = torch.where(alive.unsqueeze(-1), rows, 0)
    longest = layout.amax(torch.linalg.vector_norm(rows.detach(), dim=-1))
    peak = layout.collect([longest])
    check_finite(peak.squeeze(-1), cloud.name)
    there = peak.squeeze(-1) > 0
    if not data_checks_enabled():  # NaN, where there is any, shows in all of its sample
        there = there | ~peak.squeeze(-1).isfinite()
    unit = torch.where(longest == 0, 1.0, longest)  # a unit in which squares neither overflow nor vanish
    squares = (rows / layout.spread(unit).unsqueeze(-1)).abs().square().sum(-1, keepdim=True)
    mean = layout.mean(squares).squeeze(-1)
    size = layout.collect([unit]).squeeze(-1) * torch.where(there, mean, 1.0).sqrt()
    return size, there


def _alive(cloud: Cloud, k: int) -> Tensor:
    """Which rows of input ``k`` belong to a sample in which they are more than rounding, one entry per row."""
    x, type = cloud.inputs[k]
    x = x.detach()
    affine = cloud.origin is not None and type.affine
    if affine:
        assert cloud.origin is not None
        x = cloud.layout.clean(x - behind_batch(cloud.layout.for_rows(cloud.origin.detach(), x), x, 1), 1)
    rows, layout = cloud.layout.join([x])
    length = torch.linalg.vector_norm(rows, dim=-1)
    if not affine:
        return torch.ones_like(length, dtype=torch.bool)
    floor = layout.as_sample(8 * cloud.eps * cloud.offset())[0]
    return layout.spread(~(layout.amax(length) <= floor)).expand(length.shape)


@dataclass(frozen=True)
class ScaleStabiliser(Stabiliser):
    """What fixes the pose of a cloud that has a size is ``inner``; ``sized`` ``(*batch,)``: whether it has."""

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

    def undefined(self, type: Type, inward: bool) -> Tensor | None:
        return ~self.sized if type.order or type.parity else None

    def shortfall(self, type: Type, inward: bool, sample: int) -> str:
        return "the cloud has no size, as all its points coincide, so that nothing sets the scale. Invariants exist"

    def fold(self, matrix: Tensor, type: Type) -> Tensor:
        return self.inner.fold(matrix, type)

    def average(self, y: Tensor, type: Type) -> Tensor:
        return self.inner.average(y, type)
