"""Smooth frames of the Lorentz groups, and of Poincare: rows carry the axes of space in the rest frame of the total."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from minframe.checks import all_true, checkable
from minframe.cloud import Cloud
from minframe.frames.smooth.choosing import FULL, Elements, choose, fading, poisoned, relative_squares
from minframe.groups.base import Group
from minframe.groups.isometry import Isometry
from minframe.linalg import loops, split
from minframe.linalg.columns import MAX_PRODUCT_NORM2, Columns
from minframe.linalg.soft import Rule, mean_length2
from minframe.linalg.soft_poses import Poses
from minframe.linalg.stabiliser import IsometryStabiliser

MASS_ROUNDINGS = 5.0  # rounding of ``<P, P>`` that it has to exceed so that axes at rest are known
BOOST_PRODUCT_EPS = 4 * torch.finfo(torch.float64).eps  # rounding of a product with a boost, over both norms


def lorentz(group: Group, linear: Isometry, cloud: Cloud, rule: Rule, fade: float) -> Elements:
    """Outputs along axes of space that are shorter than ``fade`` times the largest energy fade.

    Noise is the rounding of the rows as they are given, at most ``eps |T| |x| / 2`` in the rest frame, of the order of
    ``eps gamma^2 M``. An axis is there in full from this length on (``choosing.FULL``), and gone at half of it: to fade
    earlier would lose a jet, whose energies are components along its axes in the rest frame, times gamma. Where noise
    reaches a tenth of M, ``gamma^2 > 1 / (2 MASS_ROUNDINGS eps)``, 900 squared in float32, it is longer than most axes;
    what faded would be the jet, and there is no frame. In float64
    ``gamma^2`` is below 4e12, or the total counts as null (``linalg.split``), for every observer; so what rows have
    been through before they came here, at most that for some observer, is shorter than what fades.
    """
    rows, layout, poison = cloud.tame_rows()
    p, q, d = linear.p, linear.q, linear.d
    carrier = _carrier(cloud)
    momenta, beside, _ = carrier.tame_rows()
    with torch.no_grad():
        precision = replace(carrier.precision, eps=MASS_ROUNDINGS * carrier.precision.eps)
        parts = split.rest_frame(momenta.detach(), beside, precision, p, q)
    assert parts.momentum is not None
    _need_momentum(parts.momentum, group)
    if poison is not None or not checkable(parts.momentum):  # no error was raised
        poison = torch.where(parts.momentum, 0.0 if poison is None else poison, torch.nan)
    t = parts.matrix
    if cloud.needs_grad:
        t = t @ split.smooth(momenta, beside, parts, p, q)
    y = loops.multiply(rows, layout, linear.inverse(t))
    time = 0 if p == 1 else p
    space = slice(1, d) if p == 1 else slice(0, p)
    with torch.no_grad():  # the rounding of the momentum at rest, as a boost would carry it over from the rows
        total = layout.total(y)
        mass = torch.where(parts.momentum.unsqueeze(-1), total[..., time : time + 1], 1.0)
        share = y[..., time : time + 1] * layout.for_each_row(1 / mass)
        left = share * layout.for_each_row(total[..., space])
    reach = torch.linalg.matrix_norm(t.detach()).reshape(-1)
    longest = layout.collect([layout.amax(torch.linalg.vector_norm(rows.detach(), dim=-1))]).reshape(-1)
    energy = y[..., time : time + 1]

    def relative(found: Poses) -> Tensor:
        energy2 = layout.pad(energy).squeeze(-1).square()
        if (mask := layout.padding_mask()) is not None:
            energy2 = energy2 * mask
        unit2 = mean_length2(energy2, rule.sharpness)
        return relative_squares(found.length2, (unit2 / found.scale.square())[found.sample], fade, linear.special)

    def level(m: int) -> IsometryStabiliser:
        axis = torch.arange(d, device=rows.device)
        return IsometryStabiliser((axis - int(p == 1) < m) | (axis == time), linear.special, linear.metric)

    noise = reach * (longest + cloud.offset().reshape(-1))
    rounding = max(cloud.eps / (2 * FULL), BOOST_PRODUCT_EPS)
    largest = layout.collect([layout.amax(energy.detach().squeeze(-1).abs())]).reshape(-1)  # the mean is at most that
    found, c = choose(y[..., space] - left, layout, cloud, rule, rounding, noise, relative, fade * largest)
    matrix = poisoned(_matrices(linear, t.reshape(-1, d, d), time, space, found), poison, found.sample)
    known = torch.ones_like(found.gone[..., :1])
    known = torch.cat([known, ~found.gone] if p == 1 else [~found.gone, known], -1)  # else nothing but rounding
    careful = (matrix.detach().square().sum((-2, -1)) > MAX_PRODUCT_NORM2) | ~known.all(-1)  # see linalg.columns
    columns = None if all_true(~careful) else Columns.of(matrix, known, careful)
    stabiliser = fading(c, level, matrix)
    return Elements(found.sample, found.weight, matrix, linear.inverse(matrix), stabiliser, own_columns=columns)


def _carrier(cloud: Cloud) -> Cloud:
    """The inputs that make up the total momentum: vectors, where points have an origin.

    Points about their mean add up to nothing but rounding, and are measured in other units than momenta: that they are
    large says nothing about the momentum. Where there are no vectors, that nothing is what is found.
    """
    vectors = [(x, kind) for x, kind in cloud.inputs if not kind.affine]
    return replace(cloud, inputs=vectors, origin=None) if vectors and cloud.origin is not None else cloud


def _matrices(linear: Isometry, t: Tensor, time: int, space: slice, found: Poses) -> Tensor:
    """The boosts ``t`` ``(B, d, d)`` with the axes of space of each pose, and the signs that the group requires."""
    first = torch.ones(len(t), dtype=t.dtype, device=t.device)
    if linear.orthochronous:
        first = torch.where(t.detach()[:, 0, 0] < 0, -1.0, 1.0)
    wide = t[found.sample]
    ahead, aside = wide[..., time : time + 1] * first[found.sample, None, None], wide[..., space] @ found.basis
    matrix = torch.cat([ahead, aside] if linear.p == 1 else [aside, ahead], -1)
    if linear.special:  # the determinant sets the sign of the last axis of space
        last = torch.arange(linear.d, device=t.device) == (linear.d - 1 if linear.p == 1 else linear.p - 1)
        sign = torch.linalg.det(matrix.detach()).sgn().unsqueeze(-1)
        matrix = matrix * torch.where(last, sign, 1.0).unsqueeze(-2)
    return matrix


def _need_momentum(momentum: Tensor, group: Group) -> None:
    """Raise an error for samples whose total momentum has no rest frame."""
    if checkable(momentum) and not bool(momentum.all()):
        bad = int((~momentum).flatten().nonzero()[0])
        raise ValueError(
            f"sample {bad} of {momentum.numel()} has no smooth frame under {group}: its rows do not add up to a "
            "time-like total momentum (or to one that is by accident, as its rest frame would be a violent boost). "
            "Particles with positive energies have one, unless they are massless and collinear but for their rounding, "
            "which is smaller in float64; points of space-time need momenta beside them, as an input of type "
            "'vector'. Else use mf.frames.Minimal()"
        )
