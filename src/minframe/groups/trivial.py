"""The group that does nothing, for the coordinates of a direct sum that have no symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import check_finite
from minframe.cloud import Cloud, Reduction
from minframe.frame import LinearFrame
from minframe.groups.base import check_dimension, default_atol
from minframe.groups.linear import described
from minframe.groups.matrix import MatrixGroup
from minframe.linalg.stabiliser import IsometryStabiliser


@dataclass(frozen=True, repr=False)
class Trivial(MatrixGroup):
    """The group whose only element is the identity of ``d``-space: every pose is canonical.

    >>> import minframe as mf
    >>> mf.E(2) + mf.Trivial(1)  # of a slab: any motion in the plane, none along z
    E(2) + Trivial(1)
    """

    d: int
    complex: bool = False

    def __post_init__(self) -> None:
        check_dimension(self.d, "Trivial")

    def __repr__(self) -> str:
        return described(self, self.d, *(["complex=True"] if self.complex else []))

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        return torch.eye(self.d, dtype=dtype or self.default_dtype(), device=device).expand(*batch, -1, -1).clone()

    def inverse(self, g: Tensor) -> Tensor:
        return g

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        eye = torch.eye(self.d, dtype=g.dtype, device=g.device)
        return ((g - eye).abs() <= (default_atol(g) if atol is None else atol)).flatten(-2).all(-1)

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        rows, layout = cloud.layout.join([x.detach() for x, _ in cloud.inputs])
        peak = layout.collect([layout.amax(rows.abs().amax(-1))]).squeeze(-1)
        check_finite(peak, cloud.name)
        one = torch.ones(*peak.shape, self.d, dtype=torch.bool, device=rows.device)
        eye = torch.eye(self.d, dtype=self.number, device=rows.device).expand(*peak.shape, -1, -1)
        return LinearFrame(
            group=self,
            linear=eye,
            inverse=eye,
            stabiliser=IsometryStabiliser(one, special=True, metric=(1,) * self.d, complex=self.complex, trivial=True),
            cloud=cloud,
            margin=lambda: torch.full(peak.shape, torch.inf, dtype=torch.float64, device=rows.device),
        )

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        return [Reduction(cloud, None, None)]
