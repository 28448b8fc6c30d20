"""Frame averaging by principal axes (Puny et al., 2022), and its variants."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from minframe.checks import check_finite
from minframe.cloud import Cloud
from minframe.constants import beside, constant
from minframe.frame import LinearFrame
from minframe.frames.method import Method, check_samples
from minframe.frames.perturb import MIN_EIGENVALUE_RATIO, separating_weights
from minframe.groups.affine import E
from minframe.groups.base import Group
from minframe.groups.orthogonal import SO, O
from minframe.layout import Layout
from minframe.linalg.solvers import eigh
from minframe.linalg.stabiliser import IsometryStabiliser


@dataclass(frozen=True, repr=False)
class PCA(Method):
    """The principal axes of the cloud, with every choice of their signs: 2^d frames for O(d) and E(d).

    For SO(d) and SE(d) there are 2^(d-1), those of determinant one. Each costs a forward pass. The axes are those of
    the scatter matrix ``sum_i x_i x_i^T``, about the mean for E and SE, so they do not depend on the order of the rows.

    Where eigenvalues coincide (symmetric solids, collinear clouds) the axes are arbitrary, and so is the output: this
    is a baseline for comparison. Gradients flow through the axes and diverge where eigenvalues coincide;
    ``detach_frame=True`` of the wrapper avoids that.

    Args:
        samples: draw this many choices of signs at random, independently for each sample, instead of taking all; with
            ``samples=1`` it is the stochastic frame averaging of FAENet (Duval et al., 2023), which is equivariant in
            expectation only.
        perturb: separate eigenvalues that coincide by weights on the rows (the paper's Algorithm 3), which depends on
            the order of the rows; and average over the axes that a cloud of lower rank leaves free in closed form.
        seed: of the random choices.
        generator: of the random choices.
    """

    samples: int | None = None
    perturb: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples is not None:
            check_samples(self.samples, "PCA")

    def __call__(self, group: Group, cloud: Cloud) -> list[LinearFrame]:
        linear = self._orthogonal(group)
        if isinstance(group, E):
            cloud = cloud.centred()
        rows, layout, poison = cloud.tame_rows()
        rows, size = _unit(rows, layout, cloud.name)
        weights = None
        zero = (8 * cloud.eps * cloud.offset() / size).square().clamp_min(max(MIN_EIGENVALUE_RATIO, cloud.tolerance**2))
        if self.perturb:
            with torch.no_grad():
                weights = separating_weights(rows, layout, zero)
        values, axes = principal_axes(rows, layout, weights)
        determined = values > zero * values[..., :1] if self.perturb else torch.ones_like(values, dtype=torch.bool)
        if linear.special:  # the sign of the last axis, which the choices of signs then keep
            last = torch.linalg.det(axes.detach()).sign().unsqueeze(-1)
            axes = torch.cat([axes[..., :-1], axes[..., -1:] * last.unsqueeze(-1)], -1)
        if poison is not None:
            axes = axes + poison[..., None, None]
        gap = _smallest_gap(values.detach(), determined)
        frame = LinearFrame(
            group=group,  # type: ignore[arg-type]
            linear=axes,
            inverse=axes.mT,
            stabiliser=IsometryStabiliser(determined, linear.special, linear.metric),
            cloud=cloud,
            margin=lambda: gap,
        )
        return [_turned(frame, signs) for signs in self._signs(linear, axes)]

    def _orthogonal(self, group: Group) -> O | SO:
        """The group of the axes."""
        linear = group.linear if isinstance(group, E) else group
        if not isinstance(linear, O | SO) or linear.q:
            raise self._unable(group, "O(d), SO(d), E(d) and SE(d)")
        return linear

    def _signs(self, group: O | SO, axes: Tensor) -> list[Tensor]:
        """Factors ``(d,)`` or ``(*batch, d)`` of the axes, of product one if the group requires it."""
        if self.samples is None:
            return list(beside(_choices(group.d, group.special), axes).to(axes.dtype))
        drawn = self._uniform(self.samples, *axes.shape[:-1], device=axes.device)
        signs = torch.where(drawn < 0.5, -1.0, 1.0).to(axes.dtype)
        if group.special:
            signs[..., -1] = signs[..., :-1].prod(-1)
        return list(signs)


@constant(64)
def _choices(d: int, special: bool) -> Tensor:
    """All choices of signs, ``(k, d)``; ``special``: of product one."""
    choices = [s for s in product((1.0, -1.0), repeat=d) if not special or s.count(-1.0) % 2 == 0]
    return torch.tensor(choices, dtype=torch.float64)


def principal_axes(rows: Tensor, layout: Layout, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues of the scatter matrix, the largest first, and its eigenvectors as columns."""
    if weights is not None:
        rows = rows * weights.sqrt().unsqueeze(-1)
    values, axes = eigh(layout.scatter(rows))
    return values.flip(-1), axes.flip(-1)


def _unit(rows: Tensor, layout: Layout, name: str) -> tuple[Tensor, Tensor]:
    """The rows of each sample relative to the longest, and its length ``(*batch, 1)``: units cannot overflow."""
    longest = layout.amax(torch.linalg.vector_norm(rows.detach(), dim=-1))
    size = layout.collect([longest])
    check_finite(size.squeeze(-1), name)
    longest = torch.where(longest > 0, longest, 1.0)
    return rows / layout.spread(longest).unsqueeze(-1), torch.where(size > 0, size, 1.0)


def _turned(frame: LinearFrame, signs: Tensor) -> LinearFrame:
    assert frame.linear is not None
    linear = frame.linear * signs.unsqueeze(-2)
    return LinearFrame(
        group=frame.group,
        linear=linear,
        inverse=linear.mT,
        stabiliser=frame.stabiliser,
        cloud=frame.cloud,
        margin=lambda: frame.margin,
    )


def _smallest_gap(values: Tensor, determined: Tensor) -> Tensor:
    """Between neighbouring eigenvalues, relative to the largest, ``(*batch,)``; those of free axes count as one."""
    if values.shape[-1] == 1:
        return torch.full_like(values[..., 0], torch.inf)
    values = values / values[..., :1].clamp_min(torch.finfo(values.dtype).tiny)
    gaps = torch.where(determined[..., :-1], values[..., :-1] - values[..., 1:], torch.inf)
    return gaps.amin(-1)
