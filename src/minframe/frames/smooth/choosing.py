"""Functions for all families of groups: poses of rows in units of the longest, and averages that fade short axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import all_true, check_finite
from minframe.cloud import Cloud
from minframe.layout import Layout
from minframe.linalg.columns import Columns
from minframe.linalg.fade import FadingStabiliser, coefficients
from minframe.linalg.qr import TINY
from minframe.linalg.ramp import ramp, ramp_of_root
from minframe.linalg.soft import Rule
from minframe.linalg.soft_derivatives import differentiable_poses
from minframe.linalg.soft_poses import Poses, soft_poses
from minframe.linalg.stabiliser import IsometryStabiliser, Stabiliser

POSE_EPS = 16 * torch.finfo(torch.float64).eps  # rounding of lengths in a pose, relative to the longest row
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
    relative_to: Callable[[Tensor], Relative] | None = None,
) -> tuple[Poses, Tensor | None]:
    """Poses of rows ``(*rows, d)``, lengths relative to the longest of each sample; coefficients of ``linalg.fade``.

    Args:
        rows: relative to the origin.
        layout: of the rows.
        cloud: the cloud of the rows.
        rule: how poses are chosen.
        rounding: lengths below this part of the longest row, or of ``reach`` ``(B,)``, are noise.
        reach: lengths that rounding is relative to.
        relative_to: given the lengths ``(B,)`` of the longest rows, returns a function for the squared lengths of the
            axes of poses, ``(K, d)``, over those below which they fade. There are no coefficients without it, nor where
            all axes are longer.
    """
    x, mask = layout.pad(rows), layout.padding_mask()
    if mask is not None:  # padding of a batch vector repeats a row
        x = x * mask.unsqueeze(-1)
    scale = torch.linalg.vector_norm(x.detach(), dim=-1).amax(-1)
    check_finite(scale, cloud.name)
    scale = torch.where(scale > 0, scale, 1.0)
    x = x / scale[:, None, None]
    noise = torch.full_like(scale, max(rounding, POSE_EPS))
    if reach is not None and len(reach):
        noise = noise + rounding * reach / scale
    relative = None if relative_to is None else relative_to(scale)
    with torch.no_grad():
        found = soft_poses(x.detach(), mask, rule, noise)
        squares = None if relative is None else relative(found)
        long = squares is None or all_true((squares >= 1) & (_above(found, noise, rule.special) >= FULL**2))
    if cloud.needs_grad:
        found = differentiable_poses(x, mask, rule, found, lengths=not long)
        squares = None if relative is None or long else relative(found)
    if squares is None or long:
        return found, None
    root = _above(found, noise, rule.special).clamp(1, FULL**2).sqrt()
    return found, coefficients(ramp_of_root(squares) * ramp((root - 1) / (FULL - 1)))


def _above(found: Poses, noise: Tensor, special: bool) -> Tensor:
    """Squared lengths of axes ``(K, d)`` over those of noise ``(B,)``.

    An axis as short as noise is none (``soft_poses``), so that outputs along it have to be gone by then, also where
    noise is longer than what they fade below by themselves: they fade from ``FULL`` times noise on. Noise depends on
    the observer, if a boost makes it so; but from there on, outputs along the axis are unknown by half.
    """
    return _but_last(found.length2 / noise[found.sample, None].square(), special)


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
