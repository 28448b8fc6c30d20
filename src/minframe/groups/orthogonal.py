"""The orthogonal groups O(d) and SO(d)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.frame import LinearFrame
from minframe.groups.base import Group, check_dimension, default_atol
from minframe.linalg.action import product
from minframe.linalg.qr import differentiable_basis, margin, pivoted_qr
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
        q, r = torch.linalg.qr(gauss)
        q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        if self.special:
            q[..., -1] *= torch.linalg.det(q).sign().unsqueeze(-1)
        return q.to(dtype or torch.get_default_dtype())

    def parts(self, g: Tensor) -> tuple[Tensor, None]:
        return g, None

    def assemble(self, linear: Tensor | None, shift: Tensor | None) -> Tensor:
        assert linear is not None
        return linear

    def inverse(self, g: Tensor) -> Tensor:
        return g.mT

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return product(g, h)

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        atol = default_atol(g) if atol is None else atol
        g = g.double()
        gram = g.mT @ g - torch.eye(self.d, dtype=g.dtype, device=g.device)
        orthogonal = gram.abs().amax((-2, -1)) <= atol
        return orthogonal & (torch.linalg.det(g) > 0) if self.special else orthogonal

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        if cloud.needs_grad or torch.compiler.is_compiling():
            with torch.no_grad():
                found = pivoted_qr(cloud.planes(), self.special)
            q = differentiable_basis(cloud.take(found.positions()), found) if cloud.needs_grad else found.basis
        else:
            # Many small operations: inference mode spares each of them the bookkeeping of autograd, a sixth of the time
            # of a small cloud. What may later take part in somebody's graph is copied out of it.
            with torch.inference_mode():
                found = pivoted_qr(cloud.planes(), self.special)
            found.determined = found.determined.clone()
            q = found.basis.clone(memory_format=torch.contiguous_format)
        return LinearFrame(
            group=self,
            linear=q,
            inverse=q.mT,
            shift=cloud.origin,
            stabiliser=OrthogonalStabiliser(found.determined, self.special),
            cloud=cloud,
            decomposition=found,
            margin=lambda: margin(cloud.planes()),
        )


@dataclass(frozen=True, repr=False)
class SO(O):
    """Rotations of ``d``-space: the matrices of O(d) with determinant one."""

    special: ClassVar[bool] = True
