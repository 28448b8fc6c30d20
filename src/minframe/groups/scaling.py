"""Positive scale: Scaling(d), and Sim(d), which is scale together with E(d)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.cloud import Cloud, Reduction
from minframe.dtypes import wide
from minframe.frame import LinearFrame
from minframe.groups.affine import Affine
from minframe.groups.base import check_dimension, default_atol
from minframe.groups.linear import LinearGroup, described
from minframe.groups.matrix import MatrixGroup
from minframe.groups.orthogonal import O
from minframe.groups.size import cloud_size
from minframe.groups.trivial import Trivial
from minframe.linalg.rows import CanonicalRows
from minframe.linalg.scale import ScaleStabiliser


@dataclass(frozen=True, repr=False)
class Scaled(MatrixGroup):
    """Positive multiples of the matrices of an isometry group; the canonical pose has root mean squared length one."""

    d: int

    def __post_init__(self) -> None:
        check_dimension(self.d, type(self).__name__)

    def __repr__(self) -> str:
        return described(self, self.d)

    @property
    @abstractmethod
    def isometries(self) -> LinearGroup:
        """The group without scale."""

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
        max_scale: float = 10.0,
    ) -> Tensor:
        """A factor that is log-uniform from ``1 / max_scale`` to ``max_scale``: the group is not compact."""
        if not max_scale >= 1:
            raise ValueError(f"max_scale must be at least 1, got {max_scale}")
        g = self.isometries.random(*batch, dtype=torch.float64, device=device, generator=generator)
        power = 2 * torch.rand(*batch, 1, 1, dtype=torch.float64, device=device, generator=generator) - 1
        return (g * (power * math.log(max_scale)).exp()).to(dtype or self.default_dtype())

    def _factor(self, g: Tensor) -> Tensor:
        """The scale of an element, ``(*batch, 1, 1)``, in float64: the common length of all columns."""
        return torch.linalg.vector_norm(wide(g), dim=(-2, -1), keepdim=True) / self.d**0.5

    def inverse(self, g: Tensor) -> Tensor:
        return (wide(g).mT / self._factor(g).square()).to(g.dtype)

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        """Whether a matrix is a positive multiple of an isometry, up to ``atol`` relative to its scale."""
        factor = self._factor(g)
        positive = ((factor > 0) & factor.isfinite()).flatten(-2).all(-1)
        unit = wide(g) / torch.where(positive[..., None, None], factor, 1.0)
        return positive & self.isometries.contains(unit, default_atol(g) if atol is None else atol)

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        frame = self.isometries.frame_of(cloud)
        size, sized = cloud_size(cloud)
        assert frame.linear is not None
        assert frame.inverse is not None
        found = frame._decomposition
        if found is not None:
            factor = (1 / size.detach()).unsqueeze(-1)
            coordinates = [part * found.layout.for_each_row(factor) for part in found.coordinates]
            found = CanonicalRows(found.determined & sized.unsqueeze(-1), coordinates, found.layout)
        scale = size[..., None, None]
        return LinearFrame(
            group=self,
            linear=frame.linear * scale,
            inverse=frame.inverse / scale,
            stabiliser=ScaleStabiliser.of(frame.stabiliser, sized),
            cloud=cloud,
            margin=lambda: frame.margin,
            decomposition=found,
            tied=frame.tied,
        )

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        with torch.no_grad():
            (found,) = self.isometries.reduction(cloud)
            size, _ = cloud_size(cloud)
            eye = torch.eye(self.d, dtype=torch.float64, device=size.device)
        return [Reduction(found.cloud, eye / size[..., None, None], found.blocks)]


@dataclass(frozen=True, repr=False)
class Scaling(Scaled):
    """Multiplication of ``d``-space with a positive factor; an element is that multiple of the identity.

    >>> import torch, minframe as mf
    >>> x = torch.randn(8, 20, 3, dtype=torch.float64)
    >>> torch.allclose(mf.canonicalize(1000 * x, mf.Scaling(3))[0], mf.canonicalize(x, mf.Scaling(3))[0])
    True

    A cloud with all rows at the origin has no scale: its invariants have a value, and other outputs are an error.
    """

    @property
    def isometries(self) -> Trivial:
        return Trivial(self.d)


@dataclass(frozen=True, repr=False)
class ScaledO(Scaled):
    """Rotations, reflections and positive factors: the linear part of Sim(d)."""

    @property
    def isometries(self) -> O:
        return O(self.d)


@dataclass(frozen=True, repr=False)
class Sim(Affine):
    """Similarities of ``d``-space: rotations, reflections, translations and positive factors.

    Points that all coincide have no scale: their invariants have a value, and other outputs are an error.
    """

    d: int

    def __post_init__(self) -> None:
        check_dimension(self.d, "Sim")

    @property
    def linear(self) -> ScaledO:  # type: ignore[override]
        return ScaledO(self.d)
