"""Frames of groups that preserve an indefinite form: the two definite problems of ``linalg.split``, combined.

With T from there, the rows have the components ``y = T^-1 x`` in V+ and V-. In each part a basis is chosen by
``linalg.qr``, on which the form is definite; ``T`` times these bases is the frame. Along a time axis, the only one of
its sign, nothing is left to choose but a direction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.checks import PROMISED, all_true, readable
from minframe.cloud import Cloud
from minframe.frame.components import Components, PreservesForm, components, eps_as_given, is_strong
from minframe.frame.linear import LinearFrame
from minframe.layout import Dense
from minframe.linalg import gpu, loops
from minframe.linalg.at_rest import AtRest, at_rest, in_one_call
from minframe.linalg.choice import choice_margin, rank_margin
from minframe.linalg.columns import Columns, with_columns
from minframe.linalg.loops import pivoted_qr
from minframe.linalg.qr import sample_tensor, tie_width
from minframe.linalg.rows import CanonicalRows, Rows
from minframe.linalg.split import Split
from minframe.linalg.stabiliser import IsometryStabiliser, NullSpan
from minframe.tracing import is_plain


class _Axes(NamedTuple):
    """The axes of one part of the space.

    Attributes:
        known: ``(*batch, k)``, whether an axis is determined.
        spanned: ``(*batch, k)``, and whether the rows have more than rounding along it, if too little to count.
        basis: ``(*batch, k, k)``, the factor of T.
        coordinates: ``(*rows, k)``, of the rows in that basis.
        tied: as of ``PivotedQR``.
    """

    known: Tensor
    spanned: Tensor
    basis: Tensor
    coordinates: Tensor
    tied: Tensor | None


def split_frame(group: PreservesForm, cloud: Cloud) -> LinearFrame:
    """The frame of a cloud under a group that preserves an indefinite form."""
    return _frame_at_rest(group, cloud) or _split_frame(group, cloud)


def _frame_at_rest(group: PreservesForm, cloud: Cloud) -> LinearFrame | None:
    """The frame in one call, or few operations, if all samples are ordinary; see ``linalg.at_rest``."""
    found = found_at_rest(group, cloud)
    if found is None:
        return None
    determined = torch.ones(found.linear.shape[:-1], dtype=torch.bool, device=found.linear.device)
    stabiliser = IsometryStabiliser(determined, group.special, group.metric, trivial=found.missing is None)
    if found.missing is not None:
        completed = _completed(group, cloud, found, stabiliser)
        if completed is None:
            return None
        found, stabiliser = completed

    def again() -> Tensor:
        same = found_at_rest(group, cloud)
        assert same is not None
        return same.pose

    return LinearFrame(
        group=group,
        linear=found.linear,
        inverse=found.inverse,
        own_columns=found.columns,
        stabiliser=stabiliser,
        cloud=cloud,
        decomposition=CanonicalRows(
            *(stabiliser.determined, [found.pose], found.layout),
            full=found.missing is None,
            zeroed=found.missing is None,
            renew=again if found.columns is None else None,
        ),
        margin=lambda: _split_frame(group, cloud).margin,
    )


def _completed(
    group: PreservesForm, cloud: Cloud, found: AtRest, stabiliser: IsometryStabiliser
) -> tuple[AtRest, IsometryStabiliser] | None:
    """What was ``found``, in place, and the stabiliser, with samples that are not ordinary found in the general way.

    ``None`` if some of them are null, or rows have a batch vector: then the general way is taken for all.
    """
    columns, missing = found.columns, found.missing
    assert columns is not None
    assert missing is not None
    if not isinstance(found.layout, Dense):
        return None
    other = _split_frame(group, cloud.select(missing))
    mine, decomposition = other.stabiliser, other._decomposition
    assert isinstance(mine, IsometryStabiliser)
    assert decomposition is not None
    if mine.null is not None:
        return None
    theirs = with_columns([columns, other.own_columns], other.linear)[1]
    assert theirs is not None
    place = columns.place.clone()
    assert other.linear is not None
    assert other.inverse is not None
    for whole, part, core in (
        (found.linear, other.linear, 2),
        (found.inverse.mT, other.inverse.mT, 2),
        (columns.here, theirs.here, 0),
        (columns.adjoint, theirs.adjoint, 2),
        (columns.triangle, theirs.triangle, 2),
        (place, theirs.place, 1),
        (stabiliser.determined, mine.determined, 1),
        (found.pose, torch.cat(list(decomposition.coordinates), -1).to(found.pose.dtype), 2),
    ):
        whole.view(-1, *whole.shape[whole.ndim - core :])[missing] = part
    if mine.span is not None:
        span = torch.full_like(place[..., 0], place.shape[-1])
        span.view(-1)[missing] = mine.span
        stabiliser = replace(stabiliser, span=span)
    return found._replace(columns=replace(columns, place=place)), stabiliser


def found_at_rest(group: PreservesForm, cloud: Cloud) -> AtRest | None:
    """What the frame is made of, if all samples are ordinary and nothing else is asked for."""
    rows, layout = cloud.layout.join([x.detach() for x, _ in cloud.inputs])
    compiled = loops.is_native(rows)
    if not (compiled or (isinstance(layout, Dense) and loops.launches(rows))):
        return None
    if (
        group.p > 1
        or rows.is_complex()
        or not (readable(rows) or PROMISED.get())
        or gpu.serves(rows)
        or cloud.needs_grad
        or cloud.longest is not False
        or cloud.origin is not None
        or cloud.distance is not None
    ):
        return None
    eps, direction = eps_as_given(cloud), (group.orthochronous, group.special)
    if compiled:
        return in_one_call(rows, layout, eps, cloud.tolerance, *direction)
    assert isinstance(layout, Dense)
    return at_rest(rows, layout, eps, *direction, not readable(rows))


def _split_frame(group: PreservesForm, cloud: Cloud) -> LinearFrame:
    rows, layout, poison = cloud.tame_rows()
    found = components(group, cloud, rows, layout)
    null, blocks, time = found.parts.null, _blocks(group), _time(group)
    both = [_time_axis(group, found, a) if a.start == time else _axes(found, a, time) for a in blocks]
    determined = torch.cat([axes.known for axes in both], -1)
    coordinates = [axes.coordinates for axes in both]
    linear = torch.cat([_product(found.matrix[..., a], axes.basis) for a, axes in zip(blocks, both, strict=True)], -1)
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
    same = all(axes.spanned is axes.known for axes in both)
    spanned = determined if same else torch.cat([axes.spanned for axes in both], -1)
    columns = _exact_columns(found, linear, spanned, turned)
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
    loosely = found.given < 1 and not cloud.as_given
    here = rows.is_cpu and is_plain(determined)
    return LinearFrame(
        group=group,
        linear=linear,
        inverse=inverse,
        own_inverse=own_inverse,
        own_columns=columns,
        stabiliser=_stabiliser(group, determined, span),
        cloud=cloud,
        # Where nothing is waited for, a look at the axes saves a product with all rows.
        decomposition=CanonicalRows(determined, coordinates, layout, full=here and bool(determined.all())),
        margin=lambda: _margin(found, [(a, axes.known) for a, axes in zip(blocks, both, strict=True)], time),
        tied=torch.stack(ties).any(0) if ties else None,
        ties_loosely=loosely,
    )


def _product(columns: Tensor, basis: Tensor) -> Tensor:
    """``columns @ basis``; of one column a product of numbers, several times as fast."""
    return columns * basis if basis.shape[-1] == 1 else columns @ basis


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
    chosen, parts, cloud = found.decomposed(axes), found.parts, found.cloud
    if parts.momentum is None:
        known, spanned = _of_eigenvectors(parts, axes)
    else:
        assert time is not None
        noise, least = found.floors(chosen, axes, time)
        spanned = chosen.determined & (chosen.peaks > noise.square())
        known = spanned if least is noise else spanned & (chosen.peaks > least.square())
        if parts.axes is not None:
            by_rows = parts.momentum.unsqueeze(-1)
            others = _of_eigenvectors(parts, axes)
            known, spanned = (torch.where(by_rows, a, b) for a, b in zip((known, spanned), others, strict=True))
    tied = chosen.tied_for(known)  # along others the average is taken, whichever row carries them
    if cloud.longest is True and not cloud.as_given and found.given < 1:
        # What may be rounding never ties. Whether it is, if a boost has moved the rows before, is not decided yet.
        floor = found.along(axes).precision.floor
        assert isinstance(floor, Tensor)
        width = tie_width(chosen.peaks[..., :1], floor, cloud.tolerance) + floor
        thin = (known & (chosen.peaks <= width.square())).any(-1)
        tied = thin if tied is None else tied | thin
    return _Axes(known, spanned, found.basis(chosen, axes, known), chosen.coordinates[0], tied)


def _of_eigenvectors(parts: Split, axes: slice) -> tuple[Tensor, Tensor]:
    """Which axes are known, and spanned, by the eigenvectors of this part: in any basis that rows choose, the first."""
    assert parts.axes is not None
    assert parts.spanned is not None
    known, spanned = parts.axes[..., axes], parts.spanned[..., axes].sum(-1, keepdim=True)
    return known, known | (torch.arange(known.shape[-1], device=known.device) < spanned)


def _time_axis(group: PreservesForm, found: Components, axes: slice) -> _Axes:
    """The axis of a part with one dimension, multiplied by a sign or phase that directs it.

    It points into the future if time cannot be reversed; else along the total momentum, if that is the axis; else the
    rows decide.
    """
    parts, y, layout = found.parts, found.values[..., axes], found.layout
    assert parts.momentum is not None
    momentum = parts.momentum.unsqueeze(-1)
    known = spanned = momentum
    if parts.axes is not None:
        known, spanned = (momentum | found for found in _of_eigenvectors(parts, axes))
    tied = None
    if group.orthochronous:
        basis = torch.where(parts.matrix[..., :1, :1] < 0, -1.0, 1.0).to(y.dtype)
    else:
        total = layout.total(y)
        basis = torch.where(momentum, total, 1.0).sgn().unsqueeze(-1)  # 1, but with the derivative of the phase
        if parts.axes is not None:  # it is not the total momentum in all samples
            chosen = found.decomposed(axes)
            basis = torch.where(momentum.unsqueeze(-1), basis, found.basis(chosen, axes, known))
            tied = None if chosen.tied is None else chosen.tied & _disagree(found.along(axes), chosen.basis)
    return _Axes(known, spanned, basis, y.detach() * layout.for_each_row(basis[..., 0].detach().conj()), tied)


def _disagree(rows: Rows, basis: Tensor) -> Tensor:
    """Whether some of the longest rows direct an axis ``(*batch, 1, 1)`` in another way, ``(*batch,)``; else no tie.

    The phases of rows that are as long as each other may differ by anything, and by more than rounding is another way.
    """
    layout, y = rows.layout, rows.values[..., 0]
    length = y.abs()
    peak = layout.amax(length)
    equal = tie_width(peak.square(), sample_tensor(rows.precision.floor, layout), rows.precision.tolerance)
    off = (y * layout.for_each_row(basis.detach()[..., 0].conj())[..., 0] - length).abs()
    other = (length >= layout.spread(peak - equal)) & (off > rows.precision.eps * length)
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


def _exact_columns(found: Components, linear: Tensor, spanned: Tensor, turned: Tensor | None) -> Columns | None:
    """The columns for coordinates of the rows where a product is not exact enough; see ``linalg.columns``.

    Those of axes that are too thin to count are among them. If they were left out, what the rows have along them, up to
    ``MIN_THICKNESS``, would be projected on the others, in a way that depends on the observer, and enlarged by a boost.
    """
    strong = is_strong(linear)
    if turned is None:
        return None if all_true(~strong) else Columns.of(linear, spanned, strong)
    null = found.parts.null
    assert null is not None
    columns = null.columns(turned)
    if all_true(null.here | ~strong):
        return columns
    return columns.where(null.here, Columns.of(linear, spanned, strong))


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
                floor = torch.maximum(*found.floors(chosen, axes, time))
                floor = torch.maximum(floor, cloud.tolerance * chosen.peaks[..., :1].sqrt())
                others = layout.sizes(unit.device) - 1  # as the rows add up to nothing here
                at_rest = torch.minimum(distance, rank_margin(chosen.peaks.sqrt(), floor, unit, others))
            distance = torch.where(parts.momentum, at_rest, distance)
        nearest.append(distance)
    return torch.stack(nearest).amin(0)
