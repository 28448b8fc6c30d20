"""The table of groups that every law is checked for, and the clouds and backbones to check it on. Add a group: add a row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import minframe as mf
from minframe.testing import DEGENERATIONS, polytopes

DIMENSIONS = (1, 2, 3, 5, 8)
FAMILIES: tuple[Callable[[int], mf.Group], ...] = (mf.Translation, mf.O, mf.SO, mf.E, mf.SE)
GROUPS = [make(d) for make in FAMILIES for d in DIMENSIONS]
BOUND = {torch.float64: 1e-11, torch.float32: 1e-5}
ROWS = 12


def clouds(d: int) -> dict[str, Tensor]:
    """Every named family, as float64 clouds ``(n, d)``."""
    generic = torch.randn(ROWS, d, dtype=torch.float64, generator=torch.Generator().manual_seed(d))
    families = {name: change(generic) for name, change in DEGENERATIONS.items()}
    families["one point"] = generic[:1]
    families["fewer points than dimensions"] = generic[: max(1, d - 1)]
    return families | polytopes(d)


def clouds_for(group: mf.Group) -> dict[str, Tensor]:
    return clouds(group.d)


def wild(x: Tensor) -> Tensor:
    """A backbone with no symmetry at all; homogeneous, so that no scale hides anything."""
    d = x.shape[-1]
    weight = 2 * torch.linspace(-1.3, 1.1, d * d, dtype=x.dtype).view(d, d).sin()
    y = torch.nn.functional.leaky_relu(x @ weight, 0.1)
    return y + 0.5 * y.roll(1, -2) - 0.3 * x.abs().roll(1, -1)


def gentle(x: Tensor) -> Tensor:
    """A backbone with no symmetry that saturates."""
    return torch.tanh(x) + 0.5 * x.roll(1, -1) + 0.1


BACKBONES = (wild, gentle)
