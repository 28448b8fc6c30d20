"""A smooth step from zero to one, the building block of weights and fading averages."""

from __future__ import annotations

import torch
from torch import Tensor

FLATNESS = 0.7  # at 1 the middle is a third steeper; below 0.6 the shoulders bend more than the middle gains
CUT_WIDTH = 1 / 64  # exp(-FLATNESS / CUT_WIDTH) = 3e-20: the jump at either end is below the rounding of float64


def ramp(t: Tensor) -> Tensor:
    """Zero up to 0, one from 1 on: ``h(t) / (h(t) + h(1 - t))`` with ``h(t) = exp(-FLATNESS / t)``.

    Its largest slope is 1.53. Between two rows (``linalg.soft``) the weights then change at most 1.5 times as fast as
    on a straight line of the same width, where FLATNESS = 1, the common choice, has 1.9 and no less curvature.
    """
    inside = t.clamp(CUT_WIDTH, 1 - CUT_WIDTH)  # at the upper end the sigmoid is one, at the lower end 3e-20
    rest = 1 - inside
    return torch.sigmoid((inside - rest) / (inside * rest) * FLATNESS) * (t > CUT_WIDTH)


def ramp_of_root(square: Tensor) -> Tensor:
    """``ramp`` of the root of ``square``, which may be zero."""
    return ramp(square.clamp(CUT_WIDTH**2, 1).sqrt())
