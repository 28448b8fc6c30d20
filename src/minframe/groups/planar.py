"""Finite symmetries of the plane: Cyclic(n) and Dihedral(n)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.constants import constant
from minframe.groups.base import check_dimension
from minframe.groups.discrete import Discrete
from minframe.groups.linear import described


@dataclass(frozen=True, repr=False)
class Planar(Discrete):
    """The base of both: ``n`` rotations about the origin."""

    n: int
    d = 2

    def __post_init__(self) -> None:
        check_dimension(self.n, type(self).__name__)

    def __repr__(self) -> str:
        return described(self, self.n)

    @property
    def maps_grids(self) -> bool:
        return self.n in (1, 2, 4)


@dataclass(frozen=True, repr=False)
class Cyclic(Planar):
    """Rotations of the plane by multiples of ``360 / n`` degrees; with n = 1, 2 or 4 also of an ``"image"``.

    >>> import torch, minframe as mf
    >>> image = torch.randn(8, 3, 28, 28)
    >>> classify = mf.Invariant(torch.nn.Conv2d(3, 5, 28), mf.Cyclic(4), inputs="image")
    >>> torch.allclose(classify(image.rot90(1, (-2, -1))), classify(image), atol=1e-6)
    True
    """

    @property
    def matrices(self) -> Tensor:
        return _rotations(self.n)


@dataclass(frozen=True, repr=False)
class Dihedral(Planar):
    """Rotations of the plane by multiples of ``360 / n`` degrees, and ``n`` reflections, one of which reverses y.

    With n = 1, 2 or 4 they act on an ``"image"`` too.
    """

    @property
    def matrices(self) -> Tensor:
        return _with_reflections(self.n)


@constant(maxsize=64)
def _rotations(n: int) -> Tensor:
    """``(n, 2, 2)``; quarter turns are exact."""

    def turned(k: int) -> list[list[float]]:
        quarters, rest = divmod(4 * k, n)
        angle = 2 * math.pi * rest / (4 * n)
        c, s = math.cos(angle), math.sin(angle)
        for _ in range(quarters):
            c, s = -s, c
        return [[c, -s], [s, c]]

    return torch.tensor([turned(k) for k in range(n)], dtype=torch.float64)


@constant(maxsize=64)
def _with_reflections(n: int) -> Tensor:
    """``(2 n, 2, 2)``, the rotations first."""
    rotations = _rotations(n)
    return torch.cat([rotations, rotations * torch.tensor([1.0, -1.0], dtype=torch.float64)])
