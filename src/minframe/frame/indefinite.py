"""Frames of groups that preserve an indefinite form: the two definite problems of ``linalg.split``, combined.

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
from minframe.linalg import loops
from minframe.linalg.choice import choice_margin, rank_margin
from minframe.linalg.columns import MAX_PRODUCT_NORM2, Columns
from minframe.linalg.eigen import MIN_THICKNESS
from minframe.linalg.loops import pivoted_qr
from minframe.linalg.qr import MAX_LENGTH2_RATIO, TINY, differentiable_basis, sample_tensor, tie_width
from minframe.linalg.rows import CanonicalRows, PivotedQR, Precision, Rows
from minframe.linalg.split import Split, smooth
from minframe.linalg.split_operator import split_anywhere
from minframe.linalg.stabiliser import IsometryStabiliser, NullSpan

PRODUCT_EPS = 2e-15  # rounding of a product with a boost, over both norms
BOOSTED_EPS = 1e-13  # relative rounding, in float64, of rows that a boost has made shorter


class PreservesForm(ActsLinearly, Protocol):
    """The interface of a group that preserves a form with p signs +1 and then q signs -1."""

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
        cloud: the inputs that determine the frame.
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
    def eps(self) -> float:
        """The rounding of the rows as they are given, relative to their lengths."""
        return max(1.5 * self.cloud.eps, BOOSTED_EPS)

    @property
    def noise(self) -> Tensor:
        """The rounding of the rows after the boost, relative to their lengths, ``(*batch, 1)``."""
        return self.eps * torch.linalg.matrix_norm(self.matrix.detach()).unsqueeze(-1)

    def longest(self) -> Tensor:
        """The length of the longest row, ``(*batch, 1)``; of its components, where null rows set their unit."""
        found = self.layout.collect([self.layout.amax(torch.linalg.vector_norm(self.rows.detach(), dim=-1))])
        null = self.parts.null
        if null is None:
            return found
        own = self.layout.collect([self.layout.amax(torch.linalg.vector_norm(self.values.detach(), dim=-1))])
        return torch.where(null.here.unsqueeze(-1), own, found)

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

    def floors(self, found: PivotedQR, axes: slice, time: int) -> Tensor:
        """The lengths below which what is left of the chosen rows is rounding, at rest, ``(*batch, k)``.

        A row is rounded to ``eps`` of its length as it is given, in any direction, and its component ``<e, x>`` along
        a unit vector e to that times the Euclidean length of e: large in the plane of the boost, and not across it.
        (The product with the boost has been rounded too, in all directions alike.)
        What is left of a row also has the rounding of the axes before, whose rows may be much longer, times its
        component along these over their length: of a hard and a soft particle, which are opposite at rest, the soft one
        carries no axis of its own. An axis also has to exceed ``MIN_THICKNESS`` of the mass, which is the same for all
        observers (``linalg.eigen``).
        """
        chosen = torch.linalg.vector_norm(self.layout.take_rows(self.rows.detach(), found.positions), dim=-1)
        chosen, noise = chosen + self.cloud.offset(), self.noise
        mass = self.layout.total(self.values[..., time : time + 1].detach()).abs()
        least, k = MIN_THICKNESS * mass, chosen.shape[-1]
        most = torch.maximum(2.0 ** (k - 1) * noise * chosen.amax(-1, keepdim=True), least)
        if k == 1 or all_true(found.peaks > most.square()):  # no sum of errors is larger than this
            return most.expand_as(chosen)
        along = torch.linalg.vector_norm(self.matrix[..., axes].detach() @ found.basis.detach(), dim=-2)
        noise = self.eps * along + noise * (PRODUCT_EPS / self.eps)
        triangle = self.layout.take_rows(found.coordinates[0], found.positions).abs()
        errors = [chosen[..., :1]]
        for axis in range(1, k):
            length = triangle.diagonal(dim1=-2, dim2=-1)[..., :axis].clamp_min(TINY)
            before = (triangle[..., axis, :axis] / length).clamp_max(1.0) * torch.cat(errors, -1)
            errors.append(chosen[..., axis : axis + 1] + before.sum(-1, keepdim=True))
        return torch.maximum(noise * torch.cat(errors, -1), least)


class _Axes(NamedTuple):
    """The axes of one part of the space.

    Attributes:
        known: ``(*batch, k)``, whether an axis is determined.
        basis: ``(*batch, k, k)``, the factor of T.
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
        parts = split_anywhere(rows.detach(), layout, cloud.precision, p, q)
    t = parts.matrix
    if cloud.needs_grad:
        t = t @ smooth(rows, layout, parts, p, q)
    back = group.inverse(t) if parts.null is None else group.inverse(t) @ parts.null.inward
    y = loops.multiply(rows, layout, back)
    if (columns := _span_columns(parts, t)) is not None:
        y = columns.replace(y, rows, lambda sample: layout.for_rows(sample, rows))
    short = None
    # Without ``axes`` all samples have the total momentum.
    if parts.momentum is not None and (parts.axes is None or not all_true(~parts.momentum)):
        short = layout.as_sample(torch.where(parts.momentum, MAX_LENGTH2_RATIO, torch.inf).unsqueeze(-1))[0]
    return Components(cloud, rows, layout, parts, t, y, short)


def _span_columns(parts: Split, t: Tensor) -> Columns | None:
    """What gives the components of rows within a span that strong boosts leave, or null vectors; ``None``: a product.

    What rows have beside their span, because it is too thin to count, a boost would make as large as the rest.
    """
    if parts.axes is None:
        return None
    thin = _is_strong(t) & ~parts.axes.all(-1)
    thin = thin if parts.momentum is None else thin & ~parts.momentum
    null = parts.null
    if all_true(~thin if null is None else ~thin | null.here):
        return None if null is None else null.columns()
    within = Columns.of(t, parts.axes, thin)
    return within if null is None else null.columns().where(null.here, within)


def split_frame(group: PreservesForm, cloud: Cloud) -> LinearFrame:
    """The frame of a cloud under a group that preserves an indefinite form."""
    rows, layout, poison = cloud.tame_rows()
    found = components(group, cloud, rows, layout)
    null, blocks, time = found.parts.null, _blocks(group), _time(group)
    both = [_time_axis(group, found, a) if a.start == time else _axes(found, a, time) for a in blocks]
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
        linear = torch.where(null.here[..., None, None], found.matrix @ null.boost @ turned, linear)
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


def _axes(found: Components, axes: slice, time: int | None) -> _Axes:
    """The axes of a part in which rows choose the basis."""
    chosen, parts = found.decomposed(axes), found.parts
    if parts.momentum is None:
        assert parts.axes is not None
        known = parts.axes[..., axes]
    else:
        assert time is not None
        known = chosen.determined & (chosen.peaks > found.floors(chosen, axes, time).square())
        if parts.axes is not None:
            known = torch.where(parts.momentum.unsqueeze(-1), known, parts.axes[..., axes])
    return _Axes(known, chosen.basis, chosen.coordinates[0], chosen.tied)


def _time_axis(group: PreservesForm, found: Components, axes: slice) -> _Axes:
    """The axis of a part with one dimension, multiplied by a sign or phase that directs it.

    It points into the future if time cannot be reversed; else along the total momentum, if that is the axis; else the
    rows decide.
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
            basis = torch.where(momentum.unsqueeze(-1), basis, chosen.basis)
            tied = None if chosen.tied is None else chosen.tied & _disagree(found.along(axes), chosen.basis)
    return _Axes(known, basis, y.detach() * layout.for_each_row(basis[..., 0].detach().conj()), tied)


def _disagree(rows: Rows, basis: Tensor) -> Tensor:
    """Whether some of the longest rows direct an axis ``(*batch, 1, 1)`` in another way, ``(*batch,)``; else no tie."""
    layout, y = rows.layout, rows.values[..., 0]
    length = y.abs()
    peak = layout.amax(length)
    equal = tie_width(peak.square(), sample_tensor(rows.precision.floor, layout), rows.precision.tolerance)
    along = (y * layout.for_each_row(basis.detach()[..., 0].conj())[..., 0]).real
    other = (length >= layout.spread(peak - equal)) & (length > 0) & (along < length - layout.spread(equal))
    return layout.collect([layout.amax(other.to(length.dtype))]).squeeze(-1) > 0


def _block_diagonal(plus: Tensor, minus: Tensor) -> Tensor:
    p, q = plus.shape[-1], minus.shape[-1]
    return torch.cat([torch.nn.functional.pad(plus, (0, 0, 0, q)), torch.nn.functional.pad(minus, (0, 0, p, 0))], -1)


def _phases(group: PreservesForm, determinant: Tensor, plus_known: Tensor) -> Tensor:
    """The factor of each axis that makes the determinant one, ``(*batch, d)``.

    One axis is turned: a free one if there is any, as only that leaves the canonical pose in place.
    """
    phase = determinant.sgn().conj().unsqueeze(-1)
    among_plus = ~plus_known[..., -1:] & (not group.orthochronous)
    one = torch.ones_like(phase)
    phases = [one] * (group.p + group.q)
    phases[group.p - 1] = torch.where(among_plus, phase, one)
    phases[-1] = torch.where(among_plus, one, phase)
    return torch.cat(phases, -1)


def _is_strong(matrix: Tensor) -> Tensor:
    """Whether products with its inverse are not exact enough, ``(*batch,)``; see ``linalg.columns``."""
    return matrix.detach().abs().square().sum((-2, -1)) > MAX_PRODUCT_NORM2


def _exact_columns(found: Components, linear: Tensor, determined: Tensor, turned: Tensor | None) -> Columns | None:
    """The columns for coordinates of the rows where a product is not exact enough; see ``linalg.columns``."""
    strong = _is_strong(linear)
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
            if time is not None and axes.start != time:
                chosen = pivoted_qr(found.along(axes), False)
                floor = torch.maximum(found.floors(chosen, axes, time), cloud.tolerance * chosen.peaks[..., :1].sqrt())
                others = layout.sizes().to(unit.device) - 1  # as the rows add up to nothing here
                at_rest = torch.minimum(distance, rank_margin(chosen.peaks.sqrt(), floor, unit, others))
            distance = torch.where(parts.momentum, at_rest, distance)
        nearest.append(distance)
    return torch.stack(nearest).amin(0)
