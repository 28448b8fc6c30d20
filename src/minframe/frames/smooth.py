"""Smooth frames: a few weighted poses, exact and continuous."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minframe.checks import all_true, check_finite, data_checks_enabled
from minframe.cloud import Cloud
from minframe.frame.weighted import WeightedFrame, WeightedMembers
from minframe.frames.method import Method, check_samples
from minframe.frames.side_by_side import combined
from minframe.groups.affine import Affine, Translation
from minframe.groups.base import Group
from minframe.groups.discrete import Discrete
from minframe.groups.finite import Finite
from minframe.groups.general import GL
from minframe.groups.isometry import MOVED, Isometry
from minframe.groups.linear import LinearGroup
from minframe.groups.signs import Signs
from minframe.groups.sum import Sum, side_by_side
from minframe.groups.trivial import Trivial
from minframe.layout import Layout
from minframe.linalg import split, whiten
from minframe.linalg.action import multiply
from minframe.linalg.columns import STRONG, Columns
from minframe.linalg.fade import FadingStabiliser, coefficients
from minframe.linalg.qr import TINY
from minframe.linalg.soft import CUT, Poses, Rule, differentiable_poses, ramp, shares, soft_poses
from minframe.linalg.stabiliser import IsometryStabiliser, SpanStabiliser, Stabiliser

ROUNDING = 16 * torch.finfo(torch.float64).eps  # of lengths in a pose, relative to the longest row

SERVED = (
    "O, SO, E, SE, U, SU, GL, SL, Aff, Translation, the Lorentz groups, Poincare, Trivial, Signs, finite groups, and "
    "sums of these"
)


@dataclass(frozen=True, repr=False)
class Smooth(Method):
    """A few poses with weights that are smooth functions of the input: exact *and* continuous, for energies and forces.

    A frame of one element jumps somewhere, whatever it is (Dym, Lawrence and Siegel, 2024), and a force that is the
    gradient of an energy has no value there. Here rows that are nearly longest share the weight, step by step
    (``linalg.soft``), and the average is as smooth as the backbone, where the rank is full; at lower rank it is
    continuous (``linalg.fade``). It does not depend on the order of the rows, and nothing in it is decided by a
    tolerance, so that near-symmetric inputs are as exact as others. ``docs/smooth.md`` has the theorem and its figures.

    The backbone is called once, on all poses of all samples as one larger batch ``(K, n, d)``, and so has to keep the
    samples of a batch apart, and give one entry per sample (or row). With a batch vector rows, and ``edge_index``, are
    repeated. Every tensor argument needs a type: ``"scalar"`` for an entry per sample, ``"node"`` for one per row,
    ``"constant"`` for what all samples share. ``torch.compile`` breaks its graph at the frame, whose size depends on
    the data.

    | group | continuous |
    |---|---|
    | O, SO, E, SE, U, SU, Translation | everywhere; vectors except where all points coincide |
    | Lorentz groups, Poincare | where the total momentum is time-like; else there is an error that says so |
    | GL, SL, Aff | where the rank is full |
    | sums, Trivial, Signs | where each block is |
    | Finite, Cyclic, Dihedral, Octahedral | except at zero; there too with ``unit`` |

    Args:
        sharpness: the exponent of the lengths that compete. The larger, the fewer poses, and the steeper the changes
            from one to the next.
        samples: in training, draw so many poses of each sample by weight instead of taking all: values and derivatives
            are right in expectation. In evaluation (``model.eval()``) all are taken.
        fade: length of an axis, relative to the longest row, below which outputs along it fade.
        moments: in clouds of more than 40 rows, where several of these are nearly longest, let moments of the cloud
            compete with them (``linalg.soft``). They keep poses few in balls, shells and surfaces, which have hundreds
            without. Smaller clouds, such as molecules, have rows alone anyway: forces are learned better so.
        unit: of finite groups, the size of inputs, in their own units, below which all elements come to share the
            weight equally, so that outputs are continuous at zero too. By default there is none.
        chunk: the largest number of poses that the backbone is shown at once; by default all.
        seed: of the draws.
        generator: of the draws.
    """

    sharpness: float = 40.0
    samples: int | None = None
    fade: float = 0.05
    moments: bool = True
    chunk: int | None = None
    unit: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sharpness >= 6:
            raise ValueError(f"sharpness must be at least 6, for weights to be smooth, got {self.sharpness!r}")
        if not 0 < self.fade <= 1:
            raise ValueError(f"fade must be a part of the longest row, above 0 and at most 1, got {self.fade!r}")
        if not 0 <= self.unit < float("inf"):
            raise ValueError(f"unit must be a size, zero or more, got {self.unit!r}")
        for value in (self.samples, self.chunk):
            if value is not None:
                check_samples(value, "Smooth")

    def __call__(self, group: Group, cloud: Cloud) -> WeightedFrame:
        if isinstance(group, Finite | Discrete):
            return self._finite(group, cloud)
        if not isinstance(group, LinearGroup):
            raise ValueError(
                f"mf.frames.{self!r} serves groups that act on coordinates, not {group}: no small continuous frame "
                "puts rows in order. Leave S() out, and use a backbone on sets (a transformer, a graph network), which "
                "respects permutations by itself: smooth frames do not depend on the order of the rows"
            )
        if isinstance(group, Sum | Signs):
            return self._sum(group, cloud)
        if isinstance(group, Trivial):
            return self._still(group, cloud)
        linear = group.linear if isinstance(group, Affine) else group
        if isinstance(group, Affine | Translation):
            cloud = cloud.centred()
        if isinstance(linear, Translation):
            return self._shifts(group, cloud)
        if isinstance(linear, GL):
            return self._general(group, linear, cloud)
        if not isinstance(linear, Isometry):
            raise self._unable(group, SERVED)
        if linear.q == 0:
            return self._definite(group, linear, cloud)
        if min(linear.p, linear.q) > 1 or linear.complex:
            raise self._unable(group, SERVED)
        return self._lorentz(group, linear, cloud)

    def _finite(self, group: Finite | Discrete, cloud: Cloud) -> WeightedFrame:
        weights = group.shares(cloud, self.sharpness, self.unit)[1].reshape(-1, group.order)
        sample, index = (~(weights.detach() <= 0)).nonzero().unbind(-1)  # NaN is shown, too
        return WeightedMembers(
            group, cloud, sample, weights[sample, index], index, self.chunk, self.samples, self._uniform
        )

    def _sum(self, group: Sum | Signs, cloud: Cloud) -> WeightedFrame:
        blocks = group.as_sum if isinstance(group, Signs) else group
        clouds = blocks.clouds(cloud)
        parts = [self(g, part) for g, part in zip(blocks.groups, clouds, strict=True)]
        found = combined(parts, [g.d for g in blocks.groups])
        if blocks.shifts:
            cloud = replace(cloud, origin=side_by_side([part.cloud.origin for part in parts], blocks.groups))
        poses = Poses(found.sample, found.linear, found.weight, *(found.weight[:, None],) * 3)
        return self._frame(group, cloud, poses, found.linear, found.inverse, found.stabiliser, found.own_inverse)

    def _still(self, group: Trivial, cloud: Cloud) -> WeightedFrame:
        frame = group.frame_of(cloud)
        assert frame.linear is not None
        eye = frame.linear.reshape(-1, group.d, group.d)
        sample, weight = torch.arange(len(eye), device=eye.device), eye[:, 0, 0].real
        poses = Poses(sample, eye, weight, *(weight[:, None],) * 3)
        return self._frame(
            group, cloud, poses, eye, eye, FadingStabiliser(torch.ones_like(eye[..., 0], dtype=torch.bool), None, ())
        )

    def _shifts(self, group: LinearGroup, cloud: Cloud) -> WeightedFrame:
        assert cloud.origin is not None
        origin = cloud.origin.reshape(-1, group.d)
        check_finite(origin.detach().abs().sum(-1), cloud.name)
        weight = torch.ones(len(origin), dtype=torch.float64, device=origin.device)
        nothing = torch.empty(len(origin), 0, device=origin.device)
        sample = torch.arange(len(origin), device=origin.device)
        alone = FadingStabiliser(torch.ones_like(origin, dtype=torch.bool), None, ())
        found = Poses(sample, nothing, weight, nothing, nothing, nothing)
        return self._frame(group, cloud, found, None, None, alone)

    def _definite(self, group: LinearGroup, linear: Isometry, cloud: Cloud) -> WeightedFrame:
        rows, layout, poison = _tamed(*_in_own_units(cloud))
        offset = cloud.offset().reshape(-1) if len(cloud.inputs) == 1 else torch.zeros_like(rows[:0, 0])
        found, scale = self._poses(rows, layout, cloud, linear.special, 2 * cloud.eps, offset)
        size2 = found.length2[:, 0] * scale[found.sample].square()
        if len(offset):  # what centring left of coincident points far out is rounding
            size2 = size2 / (cloud.eps ** (2 / 3) * offset[found.sample]).square().clamp_min(TINY)
        fades = self._fades(found.length2, found.length2[:, 0], linear.special)
        fades[0] = _rise(size2 if len(offset) else size2 / TINY)
        axes = torch.arange(linear.d, device=rows.device)
        levels = [
            IsometryStabiliser(axes < m, linear.special, linear.metric, linear.complex) for m in range(linear.d + 1)
        ]
        basis = _poisoned(found.basis, poison, found.sample)
        # Along axes that no row determines the coordinates of the rows are zero. The average over the isometries of
        # these axes of any derivative is zero too, whatever the backbone says in the one pose that it is shown.
        gone = found.gone
        if linear.special and linear.d > 1:  # the last axis follows from the others, if these are determined
            gone = torch.cat([gone[:, :-1], gone[:, -2:].all(-1, keepdim=True)], -1)
        own = basis.mH * ~gone.unsqueeze(-1)
        return self._frame(group, cloud, found, basis, basis.mH, _fading(fades, levels, found), own)

    def _general(self, group: LinearGroup, linear: GL, cloud: Cloud) -> WeightedFrame:
        rows, layout, poison = cloud.tame_rows()
        with torch.no_grad():
            white = whiten.whiten(rows.detach(), layout, cloud.precision, cloud.is_centred)
        t, inverse, y = white.matrix, white.inverse, white.rows
        if cloud.needs_grad:
            correction = whiten.smooth(rows, layout, inverse, white.determined)
            t, inverse = t @ correction, torch.linalg.inv(correction) @ inverse
            y = multiply(rows, layout.for_rows(inverse, rows)) * layout.for_each_row(white.determined)
        found, _ = self._poses(y, layout, cloud, linear.special, cloud.tolerance)
        d = linear.d
        determined = white.determined.reshape(-1, d)[found.sample]
        matrix = t.reshape(-1, d, d)[found.sample] @ found.basis
        back = found.basis.mH @ inverse.reshape(-1, d, d)[found.sample]
        if linear.special:
            factors = linear.volume_factors(torch.linalg.det(matrix), determined)
            matrix, back = matrix * factors.unsqueeze(-2), back / factors.unsqueeze(-1)
        matrix, back = (_poisoned(m, poison, found.sample) for m in (matrix, back))
        return self._frame(group, cloud, found, matrix, back, SpanStabiliser(determined))

    def _lorentz(self, group: LinearGroup, linear: Isometry, cloud: Cloud) -> WeightedFrame:
        rows, layout, poison = cloud.tame_rows()
        p, q, d = linear.p, linear.q, linear.d
        with torch.no_grad():
            parts = split.rest_frame(rows.detach(), layout, cloud.precision, p, q)
        assert parts.momentum is not None
        self._need_momentum(parts.momentum, group)
        if poison is not None:
            poison = torch.where(parts.momentum, poison, torch.nan)
        t = parts.matrix
        if cloud.needs_grad:
            t = t @ split.smooth(rows, layout, parts, p, q)
        y = multiply(rows, layout.for_rows(linear.inverse(t), rows))
        time = 0 if p == 1 else p
        space = slice(1, d) if p == 1 else slice(0, p)
        with torch.no_grad():  # what rounding left of the momentum at rest, as a boost would take it from the rows
            total = layout.total(y)
            energy = torch.where(parts.momentum.unsqueeze(-1), total[..., time : time + 1], 1.0)
            share = y[..., time : time + 1] * layout.for_each_row(1 / energy)
            left = share * layout.for_each_row(total[..., space])
        at_rest = y[..., space] - left
        reach = torch.linalg.matrix_norm(t.detach()).reshape(-1)
        longest = layout.collect([layout.amax(torch.linalg.vector_norm(rows.detach(), dim=-1))]).reshape(-1)
        noise = reach * (longest + cloud.offset().reshape(-1))
        found, scale = self._poses(at_rest, layout, cloud, linear.special, max(1.5 * cloud.eps, MOVED), noise)
        energy2 = layout.pad(y[..., time : time + 1]).squeeze(-1).square()
        if (mask := layout.padding_mask()) is not None:
            energy2 = energy2 * mask
        energy2 = (shares(energy2, self.sharpness) * energy2).sum(-1) / scale.square()
        fades = self._fades(found.length2, energy2[found.sample], linear.special)
        first = torch.ones(len(reach), dtype=rows.dtype, device=rows.device)
        if linear.orthochronous:
            first = torch.where(t.detach().reshape(-1, d, d)[:, 0, 0] < 0, -1.0, 1.0)
        wide = t.reshape(-1, d, d)[found.sample]
        ahead, aside = wide[..., time : time + 1] * first[found.sample, None, None], wide[..., space] @ found.basis
        matrix = torch.cat([ahead, aside] if p == 1 else [aside, ahead], -1)
        if linear.special:  # the last axis of space has the sign that the determinant asks for
            last = torch.arange(d, device=rows.device) == (d - 1 if p == 1 else p - 1)
            sign = torch.linalg.det(matrix.detach()).sgn().unsqueeze(-1)
            matrix = matrix * torch.where(last, sign, 1.0).unsqueeze(-2)
        matrix = _poisoned(matrix, poison, found.sample)
        back = linear.inverse(matrix)
        is_time = torch.arange(d, device=rows.device) == time
        known = torch.ones_like(found.gone[..., :1])
        known = torch.cat([known, ~found.gone] if p == 1 else [~found.gone, known], -1)  # else nothing but rounding
        careful = (matrix.detach().square().sum((-2, -1)) > STRONG) | ~known.all(-1)  # see linalg.columns
        columns = None if all_true(~careful) else Columns.of(matrix, known, careful)
        number = torch.arange(d, device=rows.device) - int(p == 1)
        levels = [IsometryStabiliser((number < m) | is_time, linear.special, linear.metric) for m in range(d)]
        return self._frame(group, cloud, found, matrix, back, _fading(fades, levels, found), own_columns=columns)

    def _need_momentum(self, momentum: Tensor, group: Group) -> None:
        """Refuse samples whose total momentum gives no rest frame."""
        if data_checks_enabled() and not all_true(momentum):
            bad = int((~momentum).flatten().nonzero()[0])
            raise ValueError(
                f"sample {bad} of {momentum.numel()} has no smooth frame under {group}: its rows do not add up to a "
                "time-like total momentum (or to one that is by accident, as its rest frame would be a violent boost). "
                "Particles with positive energies have one, unless they are massless and collinear; points of "
                "space-time need momenta beside them, as an input of type 'vector'. Else use mf.frames.Minimal()"
            )

    def _poses(
        self,
        rows: Tensor,
        layout: Layout,
        cloud: Cloud,
        special: bool,
        rounding: float,
        reach: Tensor | None = None,
    ) -> tuple[Poses, Tensor]:
        """Poses of rows ``(*rows, d)`` in units of the longest of each sample; its length ``(B,)``.

        ``rounding``: what is shorter than this part of the longest row is noise, or of ``reach`` ``(B,)``.
        """
        x, mask = layout.pad(rows), layout.padding_mask()
        if mask is not None:  # padding of a batch vector repeats a row
            x = x * mask.unsqueeze(-1)
        real = torch.ones_like(x[..., 0].real) if mask is None else mask.to(x.real.dtype)
        scale = torch.linalg.vector_norm(x.detach(), dim=-1).amax(-1)
        check_finite(scale, cloud.name)
        scale = torch.where(scale > 0, scale, 1.0)
        x = x / scale[:, None, None]
        noise = torch.full_like(scale, max(rounding, ROUNDING))
        if reach is not None and len(reach):
            noise = noise + rounding * reach / scale
        rule = Rule(self.sharpness, special, self.moments)
        with torch.no_grad():
            found = soft_poses(x.detach(), real, rule, noise)
        return (differentiable_poses(x, real, rule, found) if cloud.needs_grad else found), scale

    def _fades(self, length2: Tensor, unit2: Tensor, special: bool) -> list[Tensor]:
        """``f_j`` for the squared lengths ``(K, d)`` of axes, relative to ``unit2`` ``(K,)``."""
        unit2 = torch.where(unit2 > 0, unit2, 1.0).unsqueeze(-1)
        fades = list(_rise(length2 / (unit2 * self.fade**2)).unbind(-1))
        if special:  # the last axis follows from the others
            fades[-1] = torch.ones_like(fades[-1])
        return fades

    def _frame(
        self,
        group: LinearGroup,
        cloud: Cloud,
        found: Poses,
        linear: Tensor | None,
        inverse: Tensor | None,
        stabiliser: Stabiliser,
        own_inverse: Tensor | None = None,
        own_columns: Columns | None = None,
    ) -> WeightedFrame:
        return WeightedFrame(
            group,
            cloud,
            found.sample,
            found.weight,
            linear,
            inverse,
            stabiliser,
            own_inverse,
            own_columns,
            self.chunk,
            self.samples,
            self._uniform,
        )


def _rise(square: Tensor) -> Tensor:
    """``ramp`` of the root of what may be zero."""
    return ramp(square.clamp(CUT**2, 1).sqrt())


def _fading(fades: list[Tensor], levels: list[IsometryStabiliser], found: Poses) -> FadingStabiliser:
    c = coefficients(torch.stack(fades, -1))
    full = torch.ones_like(levels[0].determined).expand(len(found.sample), -1)
    return FadingStabiliser(full, None if all_true(c[:, -1] == 1) else c, levels)


def _poisoned(matrix: Tensor, poison: Tensor | None, sample: Tensor) -> Tensor:
    return matrix if poison is None else matrix + poison.reshape(-1)[sample, None, None]


def _in_own_units(cloud: Cloud) -> tuple[Tensor, Layout]:
    """The rows, relative to the origin; of several inputs each over the root of its mean square: each has its unit."""
    if len(cloud.inputs) == 1:
        return cloud.rows()
    parts = []
    for x, type in cloud.inputs:
        rows, layout = replace(cloud, inputs=[(x, type)]).rows()
        square = layout.total(rows.abs().square().sum(-1, keepdim=True)) / layout.sizes().to(rows.device)
        unit = torch.where(square > 0, square, 1.0).sqrt()
        parts.append((rows / layout.for_each_row(unit)).reshape(x.shape))
    return cloud.layout.join(parts)


def _tamed(rows: Tensor, layout: Layout) -> tuple[Tensor, Layout, Tensor | None]:
    """As ``Cloud.tame_rows``."""
    if data_checks_enabled():
        return rows, layout, None
    return torch.where(rows.isfinite(), rows, 0), layout, 0 * layout.total(rows.detach()).real.sum(-1)
