"""Functions for all families of groups: poses of rows in units of the longest, and averages that fade short axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import all_true, check_finite, readable
from minframe.cloud import Cloud
from minframe.layout import Layout
from minframe.linalg import loops
from minframe.linalg.columns import Columns
from minframe.linalg.fade import FadingStabiliser, coefficients
from minframe.linalg.qr import TINY
from minframe.linalg.ramp import ramp, ramp_of_root
from minframe.linalg.soft import Rule
from minframe.linalg.soft_poses import Poses
from minframe.linalg.stabiliser import IsometryStabiliser, Stabiliser

FULL = 2.0  # times its noise: the length of an axis from which on outputs along it are there in full
LONG = 100.0  # a squared length, over that below which an axis fades


@dataclass(slots=True)
class Elements:
    """``K`` group elements: ``linear`` ``(K, d, d)``, and the other attributes of ``WeightedFrame`` of these names."""

    sample: Tensor
    weight: Tensor
    linear: Tensor | None
    inverse: Tensor | None
    stabiliser: Stabiliser
    own_inverse: Tensor | None = None
    own_columns: Columns | None = None
    rank_margin: Tensor | None = None


Relative = Callable[[Poses], Tensor]


def choose(
    rows: Tensor,
    layout: Layout,
    cloud: Cloud,
    rule: Rule,
    rounding: float,
    reach: Tensor | None = None,
    relative: Relative | None = None,
    fade: Tensor | float = math.inf,
) -> tuple[Poses, Tensor | None]:
    """Poses of rows ``(*rows, d)``, lengths relative to the longest of each sample; coefficients of ``linalg.fade``.

    Args:
        rows: relative to the origin.
        layout: of the rows.
        cloud: the cloud of the rows.
        rule: how poses are chosen.
        rounding: lengths below this part of the longest row, or of ``reach`` ``(B,)``, are noise.
        reach: lengths that rounding is relative to.
        relative: the squared lengths of the axes of poses, ``(K, d)``, over those below which they fade. There are no
            coefficients without it, nor where all axes are longer.
        fade: a length that no axis fades above by ``relative``, which is looked at only if there are shorter ones:
            of each sample, ``(B,)``, or a part of its longest row.
    """
    with torch.no_grad():
        found = loops.soft_poses(rows.detach(), layout, rule, rounding, reach)
        check_finite(found.scale, cloud.name)
        short = None
        if relative is not None and not all_long(found, rule.special, fade):
            short = ((relative(found) < 1) | (_above(found, rule.special) < FULL**2)).any(-1)
            short = None if all_true(~short) else short
    if cloud.needs_grad:
        found = loops.differentiable_poses(rows, layout, rule, found, short)
    if short is None or relative is None:
        return found, None
    root = _above(found, rule.special).clamp(1, FULL**2).sqrt()
    return found, coefficients(ramp_of_root(relative(found)) * ramp((root - 1) / (FULL - 1)))


def all_long(found: Poses, special: bool, fade: Tensor | float) -> bool:
    """Whether all axes that rows determine, of all poses, are longer than ``fade`` and than noise ``FULL`` times."""
    lengths2 = found.length2[:, : found.length2.shape[-1] - special]
    if not readable(lengths2) or not lengths2.numel():
        return False
    longest = float((fade / found.scale).amax()) if isinstance(fade, Tensor) else fade
    return float(lengths2.amin()) >= max(longest, FULL * float(found.noise.amax())) ** 2


def _above(found: Poses, special: bool) -> Tensor:
    """Squared lengths of axes ``(K, d)`` over those of noise.

    An axis as short as noise is none (``soft_poses``), so that outputs along it have to be gone by then, also where
    noise is longer than what they fade below by themselves: they fade from ``FULL`` times noise on. Noise depends on
    the observer, if a boost makes it so; but from there on, outputs along the axis are unknown by half.
    """
    return _but_last(found.length2 / found.noise[found.sample, None].square(), special)


def relative_squares(length2: Tensor, unit2: Tensor, fade: float, special: bool) -> Tensor:
    """Squared lengths of axes ``(K, d)`` over that below which they fade: ``fade`` times the root of ``unit2``."""
    return _but_last(length2 / (unit2.clamp_min(TINY) * fade**2).unsqueeze(-1), special)


def _but_last(squares: Tensor, special: bool) -> Tensor:
    """The last axis is long, if it follows from the others."""
    return torch.cat([squares[:, :-1], torch.full_like(squares[:, -1:], LONG)], -1) if special else squares


def fading(c: Tensor | None, level: Callable[[int], IsometryStabiliser], matrix: Tensor) -> FadingStabiliser:
    """The stabiliser of poses ``(K, d, d)`` with coefficients ``c``; ``level(m)`` is that of the axes from ``m`` on."""
    full = torch.ones(matrix.shape[:-1], dtype=torch.bool, device=matrix.device)
    return FadingStabiliser(full, c, () if c is None else [level(m) for m in range(c.shape[-1])])


def poisoned(matrix: Tensor, poison: Tensor | None, sample: Tensor) -> Tensor:
    """The matrices with NaN for samples whose inputs have NaN, where that is not an error."""
    return matrix if poison is None else matrix + poison.reshape(-1)[sample, None, None]
