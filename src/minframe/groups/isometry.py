"""What the groups that preserve a form share: O(p, q), SO(p, q), U(p, q), SU(p, q) and the Lorentz groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from minframe.cloud import Cloud, Planes
from minframe.frame import LinearFrame
from minframe.groups.base import Group, check_dimension, default_atol
from minframe.linalg.action import multiply, product, wide
from minframe.linalg.qr import differentiable_basis, margin, pivoted_qr
from minframe.linalg.split import Split, smooth, split
from minframe.linalg.stabiliser import IsometryStabiliser, NullSpan
from minframe.ragged import Layout

MOVED = 1e-13  # rounding, in float64, of rows that a boost has made shorter


@dataclass(frozen=True, repr=False)
class Isometry(Group):
    """Matrices with ``g^* eta g = eta``, acting as ``x @ g.mT``, for ``eta`` with p signs +1 and then q signs -1.

    Without ``q`` the form is the usual inner product of ``p`` dimensions.
    """

    p: int
    q: int = 0
    d: int = field(init=False, repr=False, compare=False)
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.p}, {self.q})" if self.q else f"{type(self).__name__}({self.p})"

    @property
    def metric(self) -> tuple[int, ...]:
        """The signs of the form."""
        return (1,) * self.p + (-1,) * self.q

    def inner(self, x: Tensor, y: Tensor) -> Tensor:
        """``<x, y>``, in float64: what the group leaves unchanged. ``inner(p, p)`` is the squared mass of a momentum.

        >>> import torch, minframe as mf
        >>> mf.Lorentz().inner(torch.tensor([5.0, 0, 0, 3.0]), torch.tensor([5.0, 0, 0, 3.0]))
        tensor(16., dtype=torch.float64)
        """
        return (wide(x).conj() * wide(y) * self._eta(x)).sum(-1)

    def _eta(self, like: Tensor) -> Tensor:
        return torch.tensor(self.metric, dtype=torch.float64, device=like.device)

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
        max_rapidity: float = 1.0,
    ) -> Tensor:
        """Haar where the group is compact.

        Else ``k b k'`` with boosts ``b`` in orthogonal planes, whose rapidities are uniform up to ``max_rapidity``,
        between Haar random ``k`` and ``k'`` that do not mix the signs.
        """
        number = torch.complex128 if self.complex else torch.float64

        def haar(size: int, rotation: bool) -> Tensor:
            # The QR decomposition of a Gaussian matrix is Haar distributed once the diagonal of R is made positive.
            gauss = torch.randn(*batch, size, size, dtype=number, device=device, generator=generator)
            q, r = torch.linalg.qr(gauss)
            q = q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
            if rotation:
                q[..., -1] *= torch.linalg.det(q).conj().unsqueeze(-1)
            return q

        def compact() -> Tensor:
            if not self.q:
                return haar(self.p, self.special)
            g = torch.zeros(*batch, self.d, self.d, dtype=number, device=device)
            if self.orthochronous:
                g[..., 0, 0] = 1
                g[..., 1:, 1:] = haar(self.q, True)
                return g
            g[..., : self.p, : self.p] = haar(self.p, False)
            g[..., self.p :, self.p :] = haar(self.q, False)
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
        return g.to(dtype or self._default_dtype())

    def _default_dtype(self) -> torch.dtype:
        real = torch.get_default_dtype()
        return torch.promote_types(real, torch.complex64) if self.complex else real

    def parts(self, g: Tensor) -> tuple[Tensor, None]:
        return g, None

    def assemble(self, linear: Tensor | None, shift: Tensor | None) -> Tensor:
        assert linear is not None
        return linear

    def inverse(self, g: Tensor) -> Tensor:
        if not self.q:
            return g.mH if self.complex else g.mT
        eta = self._eta(g).to(g.real.dtype)
        return eta.unsqueeze(-1) * g.mH * eta

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return product(g, h)

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        atol = default_atol(g) if atol is None else atol
        g = wide(g)
        eta = self._eta(g)
        off = (g.mH * eta @ g - torch.diag(eta)).abs().amax((-2, -1))
        size = g.abs().square().sum((-2, -1)).clamp_min(1)  # of the products that were rounded
        inside = off <= atol * size
        if self.special:
            inside = inside & ((torch.linalg.det(g) - 1).abs() <= max(atol, 1e-9) * self.d * size)
        return inside & (g[..., 0, 0].real > 0) if self.orthochronous else inside

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        return self._split_frame(cloud) if self.q else self._definite_frame(cloud)

    def _definite_frame(self, cloud: Cloud) -> LinearFrame:
        if cloud.needs_grad or torch.compiler.is_compiling():
            with torch.no_grad():
                found = pivoted_qr(cloud.planes(), self.special)
            basis = found.basis.resolve_conj()
            q = differentiable_basis(cloud.take(found.positions()), found, self.special) if cloud.needs_grad else basis
        else:
            # Many small operations: inference mode spares each of them the bookkeeping of autograd, a sixth of the time
            # of a small cloud. What may later take part in somebody's graph is copied out of it.
            with torch.inference_mode():
                found = pivoted_qr(cloud.planes(), self.special)
            found.determined = found.determined.clone()
            q = found.basis.clone(memory_format=torch.contiguous_format).resolve_conj()
        return LinearFrame(
            group=self,
            linear=q,
            inverse=q.mH if self.complex else q.mT,
            shift=cloud.origin,
            stabiliser=IsometryStabiliser(found.determined, self.special, self.metric, self.complex),
            cloud=cloud,
            decomposition=found,
            margin=lambda: margin(cloud.planes()),
        )

    def _split_frame(self, cloud: Cloud) -> LinearFrame:
        with torch.no_grad():
            parts = split(cloud, self.p, self.q)
            if self.orthochronous:
                parts.matrix = parts.matrix * self._future(parts.matrix)
        t = parts.matrix @ smooth(cloud, parts, self.p, self.q) if cloud.needs_grad else parts.matrix
        back = self.inverse(t) if parts.null is None else self.inverse(t) @ parts.null.within
        rows, layout = cloud.rows()
        y = multiply(rows, layout.for_rows(back, rows))
        noise = max(cloud.eps, MOVED) * (_longest(rows.detach(), layout) + cloud.offset()) * _norm(t.detach())

        def planes(axes: slice) -> Planes:
            return Planes.of(y[..., axes], layout, cloud.tolerance, noise, cloud.name)

        bases, determined = [], []
        for axes, keep in self._blocks(parts):
            with torch.no_grad():
                found = pivoted_qr(planes(axes), False)
            basis = found.basis
            if cloud.needs_grad:
                basis = differentiable_basis(layout.take_rows(y[..., axes], found.positions()), found)
            if keep is not None:
                basis = torch.where(keep[..., None, None], torch.ones_like(basis), basis)
            bases.append(basis)
            determined.append(found.determined)
        linear = torch.cat([t[..., : self.p] @ bases[0], t[..., self.p :] @ bases[1]], -1)
        if self.special:
            linear = self._with_determinant_one(linear, determined[0])
        inverse = self.inverse(linear)
        null = None
        if parts.null is not None:
            within = inverse @ parts.null.within @ linear
            null = NullSpan(parts.null.here, parts.null.loose, within, parts.null.rank)
        return LinearFrame(
            group=self,
            linear=linear,
            inverse=inverse,
            own_inverse=inverse if parts.null is None else inverse @ parts.null.within,
            shift=cloud.origin,
            stabiliser=IsometryStabiliser(torch.cat(determined, -1), self.special, self.metric, self.complex, null),
            cloud=cloud,
            margin=lambda: torch.stack([parts.margin, *(margin(planes(a)) for a, _ in self._blocks(parts))]).amin(0),
        )

    def _blocks(self, parts: Split) -> list[tuple[slice, Tensor | None]]:
        """The axes of either sign, and for which samples the split has already settled the basis.

        That is so for a time axis if it is the direction of the total momentum, or has to be future-directed.
        """
        plus, minus = slice(0, self.p), slice(self.p, self.d)
        if self.orthochronous:
            return [(plus, torch.ones_like(parts.margin, dtype=torch.bool)), (minus, None)]
        return [(plus, parts.momentum if self.p == 1 else None), (minus, parts.momentum if self.p > 1 else None)]

    def _future(self, matrix: Tensor) -> Tensor:
        """Signs of the columns, ``(*batch, 1, d)``, that turn the time axis into the future."""
        signs = torch.ones_like(matrix[..., :1, :])
        signs[..., 0] = torch.where(matrix[..., :1, 0] < 0, -1.0, 1.0)
        return signs

    def _with_determinant_one(self, linear: Tensor, determined: Tensor) -> Tensor:
        """Turn one axis: a free one if there is any, as only that leaves the canonical pose in place."""
        phase = torch.linalg.det(linear).sgn().conj().unsqueeze(-1)
        among_plus = ~determined[..., -1:] & (not self.orthochronous)
        one = torch.ones_like(phase)
        phases = [one] * self.d
        phases[self.p - 1] = torch.where(among_plus, phase, one)
        phases[-1] = torch.where(among_plus, one, phase)
        return linear * torch.cat(phases, -1).unsqueeze(-2)


def _norm(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrix).unsqueeze(-1)


def _longest(rows: Tensor, layout: Layout) -> Tensor:
    return layout.collect([layout.amax(torch.linalg.vector_norm(rows, dim=-1))])
