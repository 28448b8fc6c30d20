"""The orthogonal groups O(d) and SO(d)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.frame import LinearFrame
from minframe.groups.base import Group, check_dimension, default_atol
from minframe.linalg.pivot import margin, pivot
from minframe.linalg.qr import orthonormal_basis, with_positive_determinant
from minframe.linalg.stabiliser import OrthogonalStabiliser


@dataclass(frozen=True, repr=False)
class O(Group):  # noqa: E742 (the group's name)
    """Rotations and reflections of ``d``-space: matrices with ``g^T g = 1``, acting as ``x @ g.mT``."""

    d: int
    special: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_dimension(self.d, type(self).__name__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.d})"

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        # The QR decomposition of a Gaussian matrix is Haar distributed once the diagonal of R is made positive.
        gauss = torch.randn(*batch, self.d, self.d, dtype=torch.float64, device=device, generator=generator)
        q = orthonormal_basis(gauss, torch.ones(*batch, self.d, dtype=torch.bool, device=device))
        return self._constrained(q).to(dtype or torch.get_default_dtype())

    def _constrained(self, q: Tensor) -> Tensor:
        """The basis as an element of the group."""
        return q

    def parts(self, g: Tensor) -> tuple[Tensor, None]:
        return g, None

    def assemble(self, linear: Tensor | None, shift: Tensor | None) -> Tensor:
        assert linear is not None
        return linear

    def inverse(self, g: Tensor) -> Tensor:
        return g.mT

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return g @ h

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        atol = default_atol(g) if atol is None else atol
        g = g.double()
        gram = g.mT @ g - torch.eye(self.d, dtype=g.dtype, device=g.device)
        orthogonal = gram.abs().amax((-2, -1)) <= atol
        return orthogonal & (torch.linalg.det(g) > 0) if self.special else orthogonal

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        with torch.no_grad():
            pivots = pivot(cloud.planes())
        q = self._constrained(orthonormal_basis(cloud.take(pivots.positions), pivots.determined))
        return LinearFrame(
            group=self,
            linear=q,
            inverse=q.mT,
            shift=cloud.origin,
            stabiliser=OrthogonalStabiliser(pivots.determined, self.special),
            layout=cloud.layout,
            dtype=cloud.dtype,
            margin=lambda: margin(cloud.planes()),
        )


@dataclass(frozen=True, repr=False)
class SO(O):
    """Rotations of ``d``-space: the matrices of O(d) with determinant one."""

    special: ClassVar[bool] = True

    def _constrained(self, q: Tensor) -> Tensor:
        return with_positive_determinant(q)
