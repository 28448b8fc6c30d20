"""Frames of groups that preserve an indefinite form: the two definite problems of ``linalg.split``, put together.

With T from there, the rows have the components ``y = T^-1 x`` in V+ and V-. In each part a basis is chosen by
``linalg.qr``, on which the form is definite; ``T`` times these bases is the frame. Along a time axis, the only one of
its sign, nothing is left to choose but a direction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.cloud import Cloud
from minframe.frame.linear import ActsLinearly, LinearFrame
from minframe.layout import Layout
from minframe.linalg.action import multiply
from minframe.linalg.choice import choice_margin, rank_margin
from minframe.linalg.columns import MAX_PRODUCT_NORM2, Columns
from minframe.linalg.loops import pivoted_qr
from minframe.linalg.qr import MAX_LENGTH2_RATIO, differentiable_basis
from minframe.linalg.rows import CanonicalRows, PivotedQR, Precision, Rows
from minframe.linalg.split import Split, smooth, split
from minframe.linalg.stabiliser import IsometryStabiliser, NullSpan

BOOSTED_EPS = 1e-13  # relative rounding, in float64, of rows that a boost has made shorter


class PreservesForm(ActsLinearly, Protocol):
    """What a frame needs to know of a group that preserves a form with p signs +1 and then q signs -1."""

    @property
    def p(self) -> int: ...

    @property
    def q(self) -> int: ...

    @property
    def metric(self) -> tuple[int, ...]:
        """The signs of the form."""

    @property
    def special(self) -> bool:
        """Whether determinants are one."""

    @property
    def orthochronous(self) -> bool:
        """Whether time, the first axis, cannot be reversed."""

    def inverse(self, g: Tensor, /) -> Tensor:
        """The element that undoes ``g``."""


@dataclass(slots=True)
class Components:
    """The rows of a cloud by their components in the two parts of the space.

    Attributes:
        cloud: what the frame is taken of.
        rows: ``(*rows, d)``, x.
        layout: of the rows.
        parts: how the space was split.
        matrix: ``(*batch, d, d)``, T, with its derivatives.
        values: ``(*rows, d)``, y.
        short: see ``Rows``.
    """

    cloud: Cloud
    rows: Tensor
    layout: Layout
    parts: Split
    matrix: Tensor
    values: Tensor
    short: Tensor | None

    @property
    def noise(self) -> Tensor:
        """What a boost makes of the rounding of the rows, relative to their lengths, ``(*batch, 1)``."""
        return max(1.5 * self.cloud.eps, BOOSTED_EPS) * torch.linalg.matrix_norm(self.matrix.detach()).unsqueeze(-1)

    def longest(self) -> Tensor:
        """The length of the longest row, ``(*batch, 1)``."""
        return self.layout.collect([self.layout.amax(torch.linalg.vector_norm(self.rows.detach(), dim=-1))])

    def along(self, axes: slice) -> Rows:
        """The components along some axes, to choose among; by length, equal within the noise if longest are wanted."""
        cloud = self.cloud
        floor = None if cloud.longest is False else self.noise * self.longest()
        precision = Precision(cloud.eps, cloud.tolerance, floor, cloud.name)
        return Rows(self.values[..., axes].detach(), self.layout, precision, None, cloud.longest, self.short)

    def decomposed(self, axes: slice) -> PivotedQR:
        """The decomposition of ``along``, with the derivatives of its basis."""
        found = pivoted_qr(self.along(axes), False)
        if self.cloud.needs_grad:
            chosen = self.layout.take_rows(self.values[..., axes], found.positions)
            found.basis = differentiable_basis(chosen, found)
        return found

    def floors(self, found: PivotedQR) -> Tensor:
        """The lengths below which what is left of the chosen rows is rounding, ``(*batch, k)``."""
        chosen = torch.linalg.vector_norm(self.layout.take_rows(self.rows.detach(), found.positions), dim=-1)
        return self.noise * (chosen + self.cloud.offset())


class _Axes(NamedTuple):
    """What one part of the space gives.

    Attributes:
        known: ``(*batch, k)``, whether an axis is determined.
        basis: ``(*batch, k, k)``, what T is multiplied with.
        coordinates: ``(*rows, k)``, of the rows in that basis.
        tied: as of ``PivotedQR``.
    """

    known: Tensor
    basis: Tensor
    coordinates: Tensor
    tied: Tensor | None


def components(group: PreservesForm, cloud: Cloud, rows: Tensor, layout: Layout) -> Components:
    """Split the space for the ``rows`` of a cloud."""
    p, q = group.p, group.q
    with torch.no_grad():
        parts = split(rows.detach(), layout, cloud.precision, p, q)
    t = parts.matrix
    if cloud.needs_grad:
        t = t @ smooth(rows, layout, parts, p, q)
    back = group.inverse(t) if parts.null is None else group.inverse(t) @ parts.null.inward
    y = multiply(rows, layout.for_rows(back, rows))
    if parts.null is not None:
        y = parts.null.columns().replace(y, rows, lambda sample: layout.for_rows(sample, rows))
    short = None
    if parts.momentum is not None and not all_true(~parts.momentum):
        short = layout.as_sample(torch.where(parts.momentum, MAX_LENGTH2_RATIO, torch.inf).unsqueeze(-1))[0]
    return Components(cloud, rows, layout, parts, t, y, short)


def split_frame(group: PreservesForm, cloud: Cloud) -> LinearFrame:
    """The frame of a cloud under a group that preserves an indefinite form."""
    rows, layout, poison = cloud.tame_rows()
    found = components(group, cloud, rows, layout)
    null, blocks, time = found.parts.null, _blocks(group), _time(group)
    both = [_time_axis(group, found, a) if a.start == time else _axes(found, a) for a in blocks]
    determined = torch.cat([axes.known for axes in both], -1)
    coordinates = [axes.coordinates for axes in both]
    linear = torch.cat([found.matrix[..., a] @ axes.basis for a, axes in zip(blocks, both, strict=True)], -1)
    turned = None if null is None else _block_diagonal(both[0].basis, both[1].basis)
    if group.special:
        phases = _phases(group, group.determinant(linear), both[0].known)
        linear = linear * phases.unsqueeze(-2)
        turned = None if turned is None else turned * phases.unsqueeze(-2)
        factors = torch.split(phases.detach().conj(), [group.p, group.q], -1)
        coordinates = [part * layout.for_each_row(f) for part, f in zip(coordinates, factors, strict=True)]
    if poison is not None:
        linear = linear + poison[..., None, None]
        poison = poison.unsqueeze(-1) + 1
        coordinates = [part * layout.for_each_row(poison) for part in coordinates]
    columns = _exact_columns(found, linear, determined, turned)
    if columns is not None:
        with torch.no_grad():
            whole = torch.cat(coordinates, -1)
            coordinates = [columns.replace(whole, rows.detach(), lambda sample: layout.for_rows(sample, rows))]
    inverse, own_inverse, span = group.inverse(linear), None, None
    if null is not None and turned is not None:
        own_inverse = inverse @ null.inward
        projector = turned.mH @ null.projector @ turned
        span = NullSpan(null.here, null.loose, null.back @ turned, projector, null.rank)
        linear = null.boost @ linear
        inverse = group.inverse(linear)
    ties = [axes.tied for axes in both if axes.tied is not None]
    return LinearFrame(
        group=group,
        linear=linear,
        inverse=inverse,
        own_inverse=own_inverse,
        own_columns=columns,
        stabiliser=_stabiliser(group, determined, span),
        cloud=cloud,
        decomposition=CanonicalRows(determined, coordinates, layout),
        margin=lambda: _margin(found, [(a, axes.known) for a, axes in zip(blocks, both, strict=True)], time),
        tied=torch.stack(ties).any(0) if ties else None,
    )


def _blocks(group: PreservesForm) -> tuple[slice, slice]:
    """The axes of V+ and of V-."""
    return slice(0, group.p), slice(group.p, group.p + group.q)


def _time(group: PreservesForm) -> int | None:
    """The axis whose sign no other has."""
    if group.p == 1:
        return 0
    return group.p if group.q == 1 else None


def _axes(found: Components, axes: slice) -> _Axes:
    """Of a part in which rows choose the basis."""
    chosen, parts = found.decomposed(axes), found.parts
    if parts.momentum is None:
        assert parts.axes is not None
        known = parts.axes[..., axes]
    else:
        known = chosen.determined & (chosen.peaks > found.floors(chosen).square())
        if parts.axes is not None:
            known = torch.where(parts.momentum.unsqueeze(-1), known, parts.axes[..., axes])
    return _Axes(known, chosen.basis, chosen.coordinates[0], chosen.tied)


def _time_axis(group: PreservesForm, found: Components, axes: slice) -> _Axes:
    """Of a part with one axis: what it is multiplied with to be directed.

    It points into the future if it has to, else along the total momentum if it is that, else by the rows.
    """
    parts, y, layout = found.parts, found.values[..., axes], found.layout
    assert parts.momentum is not None
    momentum = parts.momentum.unsqueeze(-1)
    known = momentum if parts.axes is None else momentum | parts.axes[..., axes]
    tied = None
    if group.orthochronous:
        basis = torch.where(parts.matrix[..., :1, :1] < 0, -1.0, 1.0).to(y.dtype)
    else:
        total = layout.total(y)
        basis = torch.where(momentum, total, 1.0).sgn().unsqueeze(-1)  # 1, but with the derivative of the phase
        if parts.axes is not None:  # it is not the total momentum in all samples
            chosen = found.decomposed(axes)
            basis, tied = torch.where(momentum.unsqueeze(-1), basis, chosen.basis), chosen.tied
    return _Axes(known, basis, y.detach() * layout.for_each_row(basis[..., 0].detach().conj()), tied)


def _block_diagonal(plus: Tensor, minus: Tensor) -> Tensor:
    p, q = plus.shape[-1], minus.shape[-1]
    return torch.cat([torch.nn.functional.pad(plus, (0, 0, 0, q)), torch.nn.functional.pad(minus, (0, 0, p, 0))], -1)


def _phases(group: PreservesForm, determinant: Tensor, plus_known: Tensor) -> Tensor:
    """What to multiply each axis with for a determinant of one, ``(*batch, d)``.

    One axis is turned: a free one if there is any, as only that leaves the canonical pose in place.
    """
    phase = determinant.sgn().conj().unsqueeze(-1)
    among_plus = ~plus_known[..., -1:] & (not group.orthochronous)
    one = torch.ones_like(phase)
    phases = [one] * (group.p + group.q)
    phases[group.p - 1] = torch.where(among_plus, phase, one)
    phases[-1] = torch.where(among_plus, one, phase)
    return torch.cat(phases, -1)


def _exact_columns(found: Components, linear: Tensor, determined: Tensor, turned: Tensor | None) -> Columns | None:
    """What gives the coordinates of the rows where a product is not exact enough; see ``linalg.columns``."""
    strong = linear.detach().abs().square().sum((-2, -1)) > MAX_PRODUCT_NORM2
    if turned is None:
        return None if all_true(~strong) else Columns.of(linear, determined, strong)
    null = found.parts.null
    assert null is not None
    columns = null.columns(turned)
    if all_true(null.here | ~strong):
        return columns
    return columns.where(null.here, Columns.of(linear, determined, strong))


def _stabiliser(group: PreservesForm, determined: Tensor, null: NullSpan | None) -> IsometryStabiliser:
    found = IsometryStabiliser(determined, group.special, group.metric, group.complex, null)
    if not group.orthochronous or group.special:
        return found
    # Time cannot be reversed, so that all of space determines it.
    fixed = determined | determined[..., 1:].all(-1, keepdim=True)
    return replace(found, determined=fixed, span=determined.sum(-1))


def _margin(found: Components, known: list[tuple[slice, Tensor]], time: int | None) -> Tensor:
    """How far the nearest decision is from flipping, ``(*batch,)``.

    In units of the rows as they are given: a change of these is multiplied by T^-1, which is as large as T.
    """
    layout, cloud, parts = found.layout, found.cloud, found.parts
    unit = found.longest().squeeze(-1) * torch.linalg.matrix_norm(found.matrix.detach())
    nearest = [parts.margin(layout.sizes() - int(cloud.is_centred))]
    for axes, determined in known:
        distance = choice_margin(found.along(axes), determined, unit)
        if parts.momentum is not None:
            at_rest = torch.full_like(unit, torch.inf)  # its time axis is the total momentum, whatever the rows
            if axes.start != time:
                chosen = pivoted_qr(found.along(axes), False)
                floor = torch.maximum(found.floors(chosen), cloud.tolerance * chosen.peaks[..., :1].sqrt())
                others = layout.sizes().to(unit.device) - 1  # as the rows add up to nothing here
                at_rest = torch.minimum(distance, rank_margin(chosen.peaks.sqrt(), floor, unit, others))
            distance = torch.where(parts.momentum, at_rest, distance)
        nearest.append(distance)
    return torch.stack(nearest).amin(0)
