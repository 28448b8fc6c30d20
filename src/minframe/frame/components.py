"""The rows of a cloud by their components in the two parts of a space with an indefinite form (``linalg.split``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.cloud import Cloud
from minframe.frame.linear import ActsLinearly
from minframe.layout import Layout
from minframe.linalg import loops
from minframe.linalg.columns import MAX_PRODUCT_NORM2, Columns
from minframe.linalg.eigen import MIN_THICKNESS
from minframe.linalg.loops import pivoted_qr
from minframe.linalg.qr import MAX_LENGTH2_RATIO, TINY, differentiable_basis
from minframe.linalg.rows import PivotedQR, Precision, Rows
from minframe.linalg.split import Split, smooth
from minframe.linalg.split_operator import split_anywhere

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


def eps_as_given(cloud: Cloud) -> float:
    """The rounding of the rows of a cloud, relative to their lengths; a boost may have made them shorter since."""
    return max(1.5 * cloud.eps, BOOSTED_EPS)


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
        return eps_as_given(self.cloud)

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

    @property
    def given(self) -> float:
        """The rounding of the rows as they are given over ``eps``, which allows for a boost before."""
        return 1.5 * self.cloud.eps / self.eps

    def along(self, axes: slice) -> Rows:
        """The components along some axes, to choose among; by length, equal within the noise if longest are wanted."""
        cloud = self.cloud
        units = self.given if cloud.as_given else 1.0
        floor = None if cloud.longest is False else self.noise * self.longest() * units
        precision = Precision(cloud.eps, cloud.tolerance, floor, cloud.name)
        return Rows(self.values[..., axes].detach(), self.layout, precision, None, cloud.longest, self.short)

    def decomposed(self, axes: slice) -> PivotedQR:
        """The decomposition of ``along``."""
        return pivoted_qr(self.along(axes), False)

    def basis(self, found: PivotedQR, axes: slice, known: Tensor) -> Tensor:
        """The basis of ``decomposed``, with its derivatives if axes are ``known`` ``(*batch, k)``.

        Along other axes rows have nothing but rounding, and derivatives would be divided by it.
        """
        if not self.cloud.needs_grad:
            return found.basis
        chosen = self.layout.take_rows(self.values[..., axes], found.positions)
        return differentiable_basis(chosen, replace(found, determined=found.determined & known))

    def floors(self, found: PivotedQR, axes: slice, time: int) -> tuple[Tensor, Tensor]:
        """The lengths below which what is left of the chosen rows is rounding, at rest, ``(*batch, k)``; or no axis.

        A row is rounded to ``eps`` of its length as it is given, in any direction, and its component ``<e, x>`` along
        a unit vector e to that times the Euclidean length of e: large in the plane of the boost, and not across it.
        (The product with the boost has been rounded too, in all directions alike.)
        What is left of a row also has the rounding of the axes before, whose rows may be much longer, times its
        component along these over their length: of a hard and a soft particle, which are opposite at rest, the soft one
        carries no axis of its own. The first of these axes is that of time, of the total momentum, whose rounding is
        that of all rows: where they all but cancel, as points on both sides of the origin do, it is what counts. An
        axis also has to exceed ``MIN_THICKNESS`` of the mass, which is the same for all observers (``linalg.eigen``):
        the second result.

        With the momentum, to first order, moves the velocity of the rest frame: errors ``dx_l`` are ``dx_i - s_i sum_l
        dx_l`` of row i, its energy being the share ``s_i`` of the mass. So its own error counts ``1 - s_i`` times, and
        those of the others ``s_i`` times: a hard row beside soft ones, minus the sum of theirs, is as exact as they
        are.
        """
        layout, rows, energies = self.layout, self.rows.detach(), self.values[..., time : time + 1].detach()
        total = layout.total(energies)
        mass = total.abs()
        chosen = torch.linalg.vector_norm(layout.take_rows(rows, found.positions), dim=-1)
        energy = layout.take_rows(energies, found.positions).squeeze(-1)
        share = energy.abs() / mass.clamp_min(TINY)
        whole = layout.norm(rows)
        # The momentum is that of the rows as given.
        error, noise = torch.add(chosen + self.cloud.offset(), share * whole, alpha=self.given), self.noise
        least, k = MIN_THICKNESS * mass, chosen.shape[-1]
        most = torch.maximum(2.0 ** (k - 1) * noise * error.amax(-1, keepdim=True), least)
        if all_true(found.peaks > most.square()):  # no sum of errors is larger than this
            most = most.expand_as(chosen)
            return most, most
        own = (1 - energy / torch.where(mass > 0, total, TINY)).abs() + PRODUCT_EPS  # it is computed, too
        squares = torch.linalg.vector_norm(rows, dim=-1, keepdim=True).square()
        others = own * chosen + share * _others(squares, chosen, layout)
        error = torch.minimum(error, others + self.cloud.offset())
        along = torch.linalg.vector_norm(self.matrix[..., axes].detach() @ found.basis.detach(), dim=-2)
        noise = self.eps * along + noise * (PRODUCT_EPS / self.eps)
        triangle = layout.take_rows(found.coordinates[0], found.positions).abs()
        errors = [error[..., :1]]
        for axis in range(1, k):
            length = triangle.diagonal(dim1=-2, dim2=-1)[..., :axis].clamp_min(TINY)
            before = (triangle[..., axis, :axis] / length).clamp_max(1.0) * torch.cat(errors, -1)
            errors.append(error[..., axis : axis + 1] + before.sum(-1, keepdim=True))
        return noise * torch.cat(errors, -1), least.expand_as(chosen)


def _others(squares: Tensor, chosen: Tensor, layout: Layout) -> Tensor:
    """The length of all rows but one together, for rows of the lengths ``chosen`` ``(*batch, k)``; ``squares``: of all.

    Nothing cancels: where the longest row is the one left out, it is left out of the sum.
    """
    longest = layout.amax(squares.squeeze(-1))
    is_longest = squares == layout.spread(longest).unsqueeze(-1)
    several = layout.total(is_longest.to(squares.dtype))
    longest = layout.collect([longest])
    rest = layout.total(squares.masked_fill(is_longest, 0.0))
    one = chosen.square()
    return torch.where(
        one > (1 - 1e-9) * longest, rest + (several - 1) * longest, rest + several * longest - one
    ).sqrt()


def components(group: PreservesForm, cloud: Cloud, rows: Tensor, layout: Layout) -> Components:
    """Split the space for the ``rows`` of a cloud."""
    p, q = group.p, group.q
    with torch.no_grad():
        parts = split_anywhere(rows.detach(), layout, cloud.precision, p, q)
    t = parts.matrix
    if cloud.needs_grad:
        t = t @ smooth(rows, layout, parts, p, q)
    back = group.inverse(t) if parts.null is None else group.inverse(t) @ parts.null.inward
    time = 0 if p == 1 else p
    momentum = None if parts.axes is None else parts.momentum  # of which samples; all have it where axes are not known
    at_rest = None if parts.momentum is None else loops.to_rest(rows, layout, back, time, momentum)
    y = loops.multiply(rows, layout, back) if at_rest is None else at_rest
    if (columns := _span_columns(parts, t)) is not None:  # only where the momentum was not taken
        y = columns.replace(y, rows, lambda sample: layout.for_rows(sample, rows))
    if parts.momentum is not None and at_rest is None:
        y = _at_rest(y, layout, momentum, time)
    short = None
    if parts.momentum is not None and (parts.axes is None or not all_true(~parts.momentum)):
        none = torch.full(parts.momentum.shape, torch.inf, dtype=torch.float64, device=rows.device)
        short = layout.as_sample(torch.where(parts.momentum, MAX_LENGTH2_RATIO, none).unsqueeze(-1))[0]
    return Components(cloud, rows, layout, parts, t, y, short)


def _at_rest(y: Tensor, layout: Layout, momentum: Tensor | None, time: int) -> Tensor:
    """The components ``y`` ``(*rows, d)`` with no total across the time axis, in samples where that is the momentum.

    Rounding leaves a velocity ``v = sum_i y_i / M``, and the boost that takes it away is, to first order, ``y_i ->
    y_i - v y_i0``, with time components ``y_i0`` of at most ``MAX_REST_RATIO^1/2 M``. Of a hard particle beside soft
    ones, the component across is as small as theirs: as given, it is rounded relative to its energy, but minus the sum
    of theirs is as exact as they are.
    """
    space = slice(1, None) if time == 0 else slice(0, time)
    with torch.no_grad():
        total = layout.total(y)
        mass = total[..., time : time + 1]
        mass = mass if momentum is None else torch.where(momentum.unsqueeze(-1), mass, torch.inf)
        velocity = torch.nn.functional.pad(total[..., space] / mass, (1, 0) if time == 0 else (0, 1))
    # not addcmul: its forward derivative in compiled code is a crash where factors are constants (PyTorch 2.13)
    return y - layout.for_each_row(velocity) * y[..., time : time + 1].detach()


def _span_columns(parts: Split, t: Tensor) -> Columns | None:
    """What gives the components of rows within a span that strong boosts leave, or null vectors; ``None``: a product.

    What rows have beside their span is rounding, which a boost would make as large as the rest.
    """
    if parts.spanned is None:
        return None
    thin = is_strong(t) & ~parts.spanned.all(-1)
    thin = thin if parts.momentum is None else thin & ~parts.momentum
    null = parts.null
    if all_true(~thin if null is None else ~thin | null.here):
        return None if null is None else null.columns()
    within = Columns.of(t, parts.spanned, thin)
    return within if null is None else null.columns().where(null.here, within)


def is_strong(matrix: Tensor) -> Tensor:
    """Whether products with its inverse are not exact enough, ``(*batch,)``; see ``linalg.columns``."""
    return matrix.detach().abs().square().sum((-2, -1)) > MAX_PRODUCT_NORM2
