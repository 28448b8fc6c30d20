"""What the groups that preserve a form share: O(p, q), SO(p, q), U(p, q), SU(p, q) and the Lorentz groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.cloud import Cloud, Reduction
from minframe.dtypes import wide
from minframe.frame import LinearFrame
from minframe.groups.base import check_dimension, default_atol
from minframe.groups.linear import described
from minframe.groups.matrix import MatrixGroup, haar
from minframe.linalg.action import multiply
from minframe.linalg.choice import choice_margin, margin, rank_margin
from minframe.linalg.columns import STRONG, Columns
from minframe.linalg.loops import pivoted_qr
from minframe.linalg.qr import SHORT, differentiable_basis
from minframe.linalg.rows import CanonicalRows, PivotedQR, Precision, Rows
from minframe.linalg.spectral import adjoint, signs
from minframe.linalg.split import Split, smooth, split
from minframe.linalg.stabiliser import IsometryStabiliser, NullSpan

MOVED = 1e-13  # rounding, in float64, of rows that a boost has made shorter


def _block_diagonal(plus: Tensor, minus: Tensor) -> Tensor:
    p, q = plus.shape[-1], minus.shape[-1]
    return torch.cat([torch.nn.functional.pad(plus, (0, 0, 0, q)), torch.nn.functional.pad(minus, (0, 0, p, 0))], -1)


@dataclass(frozen=True, repr=False)
class Isometry(MatrixGroup):
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
        return described(self, self.p, *([self.q] if self.q else []))

    @property
    def metric(self) -> tuple[int, ...]:
        """The signs of the form."""
        return (1,) * self.p + (-1,) * self.q

    def inner(self, x: Tensor, y: Tensor, negate: bool = False) -> Tensor:
        """``<x, y>``, in float64: what the group leaves unchanged. ``inner(p, p)`` is the squared mass of a momentum.

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
        """Haar where the group is compact.

        Else ``k b k'`` with boosts ``b`` in orthogonal planes, whose rapidities are uniform up to ``max_rapidity``,
        between Haar random ``k`` and ``k'`` that do not mix the signs.
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

        For the Schur complement of A is the inverse of ``D^*``, as ``g^-1 = eta g^* eta``. No singular value of A or D
        is below 1, so that rounding is multiplied by ``|g|``, and not by ``|g|^d`` as in a determinant of the whole.
        """
        first, others = linear[..., : self.p, : self.p], linear[..., self.p :, self.p :]
        phase = torch.linalg.det(first).sgn()
        return phase * torch.linalg.det(others).sgn() if self.q else phase

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        atol = default_atol(g) if atol is None else atol
        g = wide(g)
        eta = self._eta(g)
        off = (g.mH * eta @ g - torch.diag(eta)).abs().amax((-2, -1))
        size = g.abs().square().sum((-2, -1)).clamp_min(1)  # of the products that were rounded
        inside = off <= atol * size
        if self.special:
            inside = inside & ((self.determinant(g) - 1).abs() <= max(atol, 1e-9) * self.d * size.sqrt())
        return inside & (g[..., 0, 0].real > 0) if self.orthochronous else inside

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        return self._split_frame(cloud) if self.q else self._definite_frame(cloud)

    def reduction(self, cloud: Cloud) -> Reduction:
        if not self.q:
            return Reduction(cloud, None, [slice(0, self.d)])
        with torch.no_grad():
            rows, layout, _ = cloud.tame_rows()
            parts = split(rows, layout, cloud.precision, self.p, self.q)
            back = self.inverse(parts.matrix)
            back = back if parts.null is None else back @ parts.null.inward
        return Reduction(cloud, back, [slice(0, self.p), slice(self.p, self.d)])

    def _definite_frame(self, cloud: Cloud) -> LinearFrame:
        found = pivoted_qr(cloud.as_rows(), self.special)
        q = found.basis.contiguous()  # not a view, so that no graph holds on to what else was computed
        if cloud.needs_grad:
            q = differentiable_basis(cloud.take(found.positions), found, self.special)
        return LinearFrame(
            group=self,
            linear=q,
            inverse=q.mH if self.complex else q.mT,
            shift=cloud.origin,
            stabiliser=IsometryStabiliser(
                found.determined, self.special, self.metric, self.complex, trivial=found.full
            ),
            cloud=cloud,
            decomposition=found,
            margin=lambda: margin(cloud.as_rows(), self.special, cloud.is_centred),
            tied=found.tied,
        )

    def _split_frame(self, cloud: Cloud) -> LinearFrame:
        rows, layout, poison = cloud.tame_rows()
        with torch.no_grad():
            parts = split(rows.detach(), layout, cloud.precision, self.p, self.q)
        t = parts.matrix
        if cloud.needs_grad:
            t = t @ smooth(rows, layout, parts, self.p, self.q)
        back = self.inverse(t) if parts.null is None else self.inverse(t) @ parts.null.inward
        y = multiply(rows, layout.for_rows(back, rows))
        if parts.null is not None:
            y = parts.null.columns().replace(y, rows, lambda sample: layout.for_rows(sample, rows))
        short = None
        if parts.momentum is not None and not all_true(~parts.momentum):
            short = layout.as_sample(torch.where(parts.momentum, SHORT, torch.inf).unsqueeze(-1))[0]
        blocks = slice(0, self.p), slice(self.p, self.d)

        floor = None
        if cloud.longest is not False:  # rows are as long as each other within what a boost makes of their rounding
            lengths = layout.collect([layout.amax(torch.linalg.vector_norm(rows.detach(), dim=-1))])
            floor = max(1.5 * cloud.eps, MOVED) * torch.linalg.matrix_norm(t.detach()).unsqueeze(-1) * lengths

        precision = Precision(cloud.eps, cloud.tolerance, floor, cloud.name)

        def along(axes: slice) -> Rows:
            return Rows(y[..., axes].detach(), layout, precision, None, cloud.longest, short)

        bases, determined, ties = [], [], []
        coordinates: list[Tensor] = []

        def decomposed(axes: slice) -> PivotedQR:
            found = pivoted_qr(along(axes), False)
            if cloud.needs_grad:
                found.basis = differentiable_basis(layout.take_rows(y[..., axes], found.positions), found)
            if found.tied is not None:
                ties.append(found.tied)
            return found

        def floors(found: PivotedQR) -> Tensor:
            chosen = torch.linalg.vector_norm(layout.take_rows(rows.detach(), found.positions), dim=-1)
            noise = max(1.5 * cloud.eps, MOVED) * torch.linalg.matrix_norm(t.detach()).unsqueeze(-1)
            return noise * (chosen + cloud.offset())

        def known_axes(found: PivotedQR, axes: slice) -> Tensor:
            if parts.momentum is None:
                assert parts.axes is not None
                return parts.axes[..., axes]
            by_rows = found.determined & (found.peaks > floors(found).square())
            if parts.axes is None:
                return by_rows
            return torch.where(parts.momentum.unsqueeze(-1), by_rows, parts.axes[..., axes])

        time = self._time
        total = None if time is None else layout.total(y[..., time : time + 1])
        for axes in blocks:
            if total is not None and axes.start == time:
                known, basis = self._time_axis(parts, total, decomposed)
                coordinates.append(y[..., axes].detach() * layout.for_each_row(basis[..., 0].detach().conj()))
            else:
                found = decomposed(axes)
                known, basis = known_axes(found, axes), found.basis
                coordinates += found.coordinates
            bases.append(basis)
            determined.append(known)
        axes_determined = torch.cat(determined, -1)
        pose = CanonicalRows(axes_determined, coordinates, layout)
        linear = torch.cat([t[..., axes] @ basis for axes, basis in zip(blocks, bases, strict=True)], -1)
        turned = None if parts.null is None else _block_diagonal(*bases)
        if self.special:
            phases = self._phases(self.determinant(linear), determined[0])
            linear = linear * phases.unsqueeze(-2)
            turned = None if turned is None else turned * phases.unsqueeze(-2)
            factors = torch.split(phases.detach().conj(), [self.p, self.q], -1)
            pose.coordinates = [part * layout.for_each_row(f) for part, f in zip(coordinates, factors, strict=True)]
        if poison is not None:
            linear = linear + poison[..., None, None]
            poison = poison.unsqueeze(-1) + 1
            pose.coordinates = [part * layout.for_each_row(poison) for part in pose.coordinates]
        inverse, own_inverse, null = self.inverse(linear), None, None
        strong = linear.detach().abs().square().sum((-2, -1)) > STRONG
        columns = None
        if turned is not None:
            assert parts.null is not None
            columns = parts.null.columns(turned)
            if not all_true(parts.null.here | ~strong):
                columns = columns.where(parts.null.here, Columns.of(linear, axes_determined, strong))
        elif not all_true(~strong):
            columns = Columns.of(linear, axes_determined, strong)
        if columns is not None:
            with torch.no_grad():
                whole = torch.cat(list(pose.coordinates), -1)
                exact = columns.replace(whole, rows.detach(), lambda sample: layout.for_rows(sample, rows))
            pose.coordinates = [exact]
        if parts.null is not None and turned is not None:
            own_inverse = inverse @ parts.null.inward
            assert turned is not None
            projector = turned.mH @ parts.null.projector @ turned
            null = NullSpan(parts.null.here, parts.null.loose, parts.null.back @ turned, projector, parts.null.rank)
            linear = parts.null.boost @ linear
            inverse = self.inverse(linear)
        fixed, span = axes_determined, None
        if self.orthochronous and not self.special:  # time cannot be reversed, so that all of space determines it
            span = axes_determined.sum(-1)
            fixed = axes_determined | axes_determined[..., 1:].all(-1, keepdim=True)

        def split_margin() -> Tensor:
            unit = layout.collect([layout.amax(torch.linalg.vector_norm(y.detach(), dim=-1))]).squeeze(-1)
            nearest = [parts.margin(layout.sizes() - int(cloud.is_centred))]
            for axes, known in zip(blocks, determined, strict=True):
                distance = choice_margin(along(axes), known, unit)
                if parts.momentum is not None:
                    at_rest = torch.full_like(unit, torch.inf)  # its time axis is the total momentum, whatever the rows
                    if axes.start != time:
                        found = pivoted_qr(along(axes), False)
                        longest = found.peaks[..., :1].sqrt()
                        floor = torch.maximum(floors(found), cloud.tolerance * longest)
                        others = layout.sizes().to(unit.device) - 1  # as the rows add up to nothing here
                        at_rest = torch.minimum(distance, rank_margin(found.peaks.sqrt(), floor, unit, others))
                    distance = torch.where(parts.momentum, at_rest, distance)
                nearest.append(distance)
            return torch.stack(nearest).amin(0)

        return LinearFrame(
            group=self,
            linear=linear,
            inverse=inverse,
            own_inverse=own_inverse,
            own_columns=columns,
            shift=cloud.origin,
            stabiliser=IsometryStabiliser(fixed, self.special, self.metric, self.complex, null, span=span),
            cloud=cloud,
            decomposition=pose,
            margin=split_margin,
            tied=torch.stack(ties).any(0) if ties else None,
        )

    @property
    def _time(self) -> int | None:
        """The axis whose sign no other has."""
        if self.p == 1:
            return 0
        return self.p if self.q == 1 else None

    def _time_axis(
        self, parts: Split, total: Tensor, decomposed: Callable[[slice], PivotedQR]
    ) -> tuple[Tensor, Tensor]:
        """Whether the time axis is determined, ``(*batch, 1)``, and what it is multiplied with to be directed.

        It points into the future if it has to, else along the total momentum if it is that, else by the rows.
        """
        assert parts.momentum is not None
        assert self._time is not None
        momentum = parts.momentum.unsqueeze(-1)
        here = slice(self._time, self._time + 1)
        determined = momentum if parts.axes is None else momentum | parts.axes[..., here]
        if self.orthochronous:
            return determined, torch.where(parts.matrix[..., :1, :1] < 0, -1.0, 1.0).to(total.dtype)
        direction = torch.where(momentum, total, 1.0).sgn().unsqueeze(-1)  # 1, but with the derivative of the phase
        if parts.axes is None:  # it is the total momentum in all samples
            return determined, direction
        return determined, torch.where(momentum.unsqueeze(-1), direction, decomposed(here).basis)

    def _phases(self, determinant: Tensor, plus_determined: Tensor) -> Tensor:
        """What to multiply each axis with for a determinant of one, ``(*batch, d)``.

        One axis is turned: a free one if there is any, as only that leaves the canonical pose in place.
        """
        phase = determinant.sgn().conj().unsqueeze(-1)
        among_plus = ~plus_determined[..., -1:] & (not self.orthochronous)
        one = torch.ones_like(phase)
        phases = [one] * self.d
        phases[self.p - 1] = torch.where(among_plus, phase, one)
        phases[-1] = torch.where(among_plus, one, phase)
        return torch.cat(phases, -1)
