"""The base of groups that preserve a form: O(p, q), SO(p, q), U(p, q), SU(p, q) and the Lorentz groups."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from minframe.cloud import Cloud, Reduction
from minframe.dtypes import wide
from minframe.frame import LinearFrame
from minframe.frame.indefinite import split_frame
from minframe.frame.linear_operator import linear_frame, serves
from minframe.groups.base import check_dimension, default_atol
from minframe.groups.linear import described
from minframe.groups.matrix import MatrixGroup, haar
from minframe.linalg.choice import margin
from minframe.linalg.form import adjoint, signs
from minframe.linalg.loops import oriented, pivoted_qr
from minframe.linalg.qr import differentiable_basis
from minframe.linalg.rows import Oriented
from minframe.linalg.split import split
from minframe.linalg.stabiliser import IsometryStabiliser


@dataclass(frozen=True, repr=False)
class Isometry(MatrixGroup):
    """Matrices with ``g^* eta g = eta``, acting as ``x @ g.mT``, for ``eta`` with p signs +1 and then q signs -1.

    Without ``q`` the form is the usual inner product of ``p`` dimensions.
    """

    p: int
    q: int = 0
    d: int = field(init=False, repr=False, compare=False)
    #: the signs of the form; no cached property, as those of Python 3.11 have a lock, which torch.compile cannot trace
    metric: tuple[int, ...] = field(init=False, repr=False, compare=False)
    special: ClassVar[bool] = False
    orthochronous: ClassVar[bool] = False

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.q == 0:
            check_dimension(self.p, name)
        else:
            for count in (self.p, self.q):
                if not isinstance(count, int) or isinstance(count, bool):
                    raise TypeError(f"{name} needs integer numbers of signs, got {self.p!r} and {self.q!r}")
            if min(self.p, self.q) < 0:
                raise ValueError(f"{name} needs numbers of signs of at least 0, got {self.p} and {self.q}")
            if self.p == 0:  # the negative of a form has the same isometries
                object.__setattr__(self, "p", self.q)
                object.__setattr__(self, "q", 0)
        object.__setattr__(self, "d", self.p + self.q)
        object.__setattr__(self, "bounded", not self.q)
        object.__setattr__(self, "metric", (1,) * self.p + (-1,) * self.q)

    def __repr__(self) -> str:
        return described(self, self.p, *([self.q] if self.q else []))

    def inner(self, x: Tensor, y: Tensor, negate: bool = False) -> Tensor:
        """``<x, y>``, in float64, which the group leaves unchanged. ``inner(p, p)`` is the squared mass of a momentum.

        ``negate``: use the form with the opposite signs, such as (-, +, +, +) for space-time.

        >>> import torch, minframe as mf
        >>> p = torch.tensor([5.0, 0, 0, 3.0])
        >>> mf.Lorentz().inner(p, p)
        tensor(16., dtype=torch.float64)
        """
        return (wide(x).conj() * wide(y) * (-self._eta(x) if negate else self._eta(x))).sum(-1)

    def _eta(self, like: Tensor) -> Tensor:
        return signs(self.p, self.q, like.device)

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
        max_rapidity: float = 1.0,
    ) -> Tensor:
        """Haar random elements where the group is compact.

        Otherwise ``k b k'`` with boosts ``b`` in orthogonal planes, whose rapidities are uniform up to
        ``max_rapidity``, between Haar random ``k`` and ``k'`` that do not mix the signs.
        """
        if not max_rapidity >= 0:
            raise ValueError(f"max_rapidity must be at least 0, got {max_rapidity}")
        number = self.number

        def compact() -> Tensor:
            g = torch.zeros(*batch, self.d, self.d, dtype=number, device=device)
            for axes in (slice(0, self.p), slice(self.p, self.d)):
                k = len(range(self.d)[axes])
                g[..., axes, axes] = haar(*batch, k, k, dtype=number, device=device, generator=generator)
            if self.orthochronous:
                g[..., 0, 0] = 1
            if self.special:
                g[..., -1] *= torch.linalg.det(g).conj().unsqueeze(-1)
            return g

        g = compact()
        if self.q:
            planes = min(self.p, self.q)
            rapidity = torch.rand(*batch, planes, dtype=torch.float64, device=device, generator=generator)
            rapidity = rapidity * max_rapidity
            boost = torch.eye(self.d, dtype=number, device=device).expand(*batch, -1, -1).clone()
            index = torch.arange(planes, device=device)
            boost[..., index, index] = boost[..., self.p + index, self.p + index] = rapidity.cosh().to(number)
            boost[..., index, self.p + index] = boost[..., self.p + index, index] = rapidity.sinh().to(number)
            g = g @ boost @ compact()
        return g.to(dtype or self.default_dtype())

    def random_options(self, dtype: torch.dtype) -> dict[str, float]:
        """Rapidities up to 3 in double precision, 0.995 of the speed of light; up to 1 in single precision."""
        double = torch.finfo(dtype).eps < torch.finfo(torch.float32).eps
        return {"max_rapidity": 3.0 if double else 1.0} if self.q else {}

    def inverse(self, g: Tensor) -> Tensor:
        if not self.q:
            return g.mH if self.complex else g.mT
        return adjoint(g, self._eta(g).to(g.real.dtype))

    def determinant(self, linear: Tensor) -> Tensor:
        """A phase. With the blocks A of the first p axes and D of the others, ``det g = det A / conj(det D)``.

        This holds because the Schur complement of A is the inverse of ``D^*``, as ``g^-1 = eta g^* eta``. No singular
        value of A or D is below 1, so that rounding is multiplied by ``|g|``, and not by ``|g|^d`` as in a determinant
        of the whole matrix.
        """
        first, others = linear[..., : self.p, : self.p], linear[..., self.p :, self.p :]
        phase = torch.linalg.det(first).sgn()
        return phase * torch.linalg.det(others).sgn() if self.q else phase

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        atol = default_atol(g) if atol is None else atol
        g = wide(g)
        eta = self._eta(g)
        off = (g.mH * eta @ g - torch.diag(eta)).abs().amax((-2, -1))
        size = g.abs().square().sum((-2, -1)).clamp_min(1)  # the size of the products that were rounded
        inside = off <= atol * size
        if self.special:
            inside = inside & ((self.determinant(g) - 1).abs() <= max(atol, 1e-9) * self.d * size.sqrt())
        return inside & (g[..., 0, 0].real > 0) if self.orthochronous else inside

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        if not self.q:
            return self._definite_frame(cloud)
        if serves(cloud):
            traced = functools.partial(split_frame, self, cloud)
            return linear_frame(self, cloud, traced, self.special, self.metric, self.orthochronous)
        return split_frame(self, cloud)

    def frame_about_mean(self, cloud: Cloud) -> LinearFrame:
        """The frame of a cloud relative to the mean of its points."""
        return self.frame_of(cloud.centred()) if self.q else self._definite_frame(cloud, about_mean=True)

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        if not self.q:
            return [Reduction(cloud, None, [slice(0, self.d)])]
        with torch.no_grad():
            rows, layout, _ = cloud.tame_rows()
            parts = split(rows, layout, cloud.precision, self.p, self.q)
            back = self.inverse(parts.matrix)
            back = back if parts.null is None else back @ parts.null.inward
        return [Reduction(cloud, back, [slice(0, self.p), slice(self.p, self.d)])]

    def _definite_frame(self, cloud: Cloud, about_mean: bool = False) -> LinearFrame:
        found: Oriented
        if about_mean and (cloud.needs_grad or len(cloud.inputs) > 1 or cloud.distance is not None):
            cloud, about_mean = cloud.centred(), False
        if cloud.needs_grad:
            found = chosen = pivoted_qr(cloud.as_rows(), self.special)
            q = differentiable_basis(cloud.take(chosen.positions), chosen, self.special)
        else:
            found, mean = oriented(cloud.as_rows(), self.special, about_mean)
            cloud = replace(cloud, origin=mean) if about_mean else cloud
            q = found.basis.contiguous()  # not a view, so that no autograd graph keeps the other results alive
        return LinearFrame(
            group=self,
            linear=q,
            inverse=q.mH if self.complex else q.mT,
            stabiliser=IsometryStabiliser(
                found.determined, self.special, self.metric, self.complex, trivial=found.full
            ),
            cloud=cloud,
            decomposition=found,
            margin=lambda: margin(cloud.as_rows(), self.special, cloud.is_centred),
            tied=found.tied,
        )
