"""The size of a cloud, for groups that change it by a positive factor.

The size is the root of the mean squared length of the rows, all inputs taken together. It is multiplied with exactly
the factor that the cloud is multiplied with, it does not change when rows are reordered or the cloud is turned, and it
is smooth wherever it is not zero. One thing is decided: whether a cloud has a size at all. Points that differ by no
more than the rounding of coordinates that stand far from the origin coincide, and have none.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.checks import check_finite, data_checks_enabled
from minframe.cloud import Cloud


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
    x, kind = cloud.inputs[k]
    x = x.detach()
    affine = cloud.origin is not None and kind.affine
    if affine:
        assert cloud.origin is not None
        x = cloud.layout.clean(x - cloud.layout.beside(cloud.origin.detach(), x, 1), 1)
    rows, layout = cloud.layout.join([x])
    length = torch.linalg.vector_norm(rows, dim=-1)
    if not affine:
        return torch.ones_like(length, dtype=torch.bool)
    floor = layout.as_sample(8 * cloud.eps * cloud.offset())[0]
    return layout.spread(~(layout.amax(length) <= floor)).expand(length.shape)
