"""Poses of ``linalg.soft_poses`` as smooth functions of the rows, with derivatives of any order.

Each pose is written in its own basis, where the tuple of its rows is triangular already: Gram-Schmidt subtracts nothing
but zeros. So values stay, to rounding, at any rank, and derivatives are those of the decomposition. Axes that no row
carries enter as constants.

Bases follow from the chosen rows alone. A pose that is the only one of its sample has weight one, and keeps it nearby,
so that only the poses of the other samples have weights to differentiate, which depend on all rows.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from minframe.layout import Layout
from minframe.linalg.determinant import unitary_det
from minframe.linalg.ramp import ramp
from minframe.linalg.soft import Rule, choice, mean_length2, sign_weight, squares
from minframe.linalg.soft_poses import Poses


def differentiable_poses(rows: Tensor, layout: Layout, rule: Rule, found: Poses, short: Tensor | None) -> Poses:
    """``found``, the poses of rows ``(*rows, d)``, as smooth functions of the rows.

    ``short`` ``(K,)``: the poses whose ``length2`` is differentiated, too; ``None``: none.
    """
    d, n = rows.shape[-1], found.moments_from
    flat, segments, own = rows.reshape(-1, d), layout.segments(rows.device), found.basis.conj()
    place = found.chosen if n is None else found.chosen.clamp_max(n - 1)
    unit = 1 / found.scale[found.sample]
    tuples = flat[segments.rows(found.sample.unsqueeze(-1), place)] @ (own * unit[:, None, None])
    one = torch.eye(d, dtype=rows.dtype, device=rows.device)
    tuples = torch.where(found.gone[:, : tuples.shape[1], None], one[: tuples.shape[1]], tuples)
    differ = found.weight < 1 if short is None else (found.weight < 1) | short
    fixed = rule.poses is not None
    if n is not None and (fixed or bool((found.chosen >= n).any())):  # axes along moments, which depend on all rows
        differ = torch.ones_like(differ)
    at, mask = torch.arange(len(own), device=rows.device) if fixed else differ.nonzero().squeeze(-1), None
    if n is None and not fixed:
        padded = segments.pad(flat, found.sample[at])
    else:
        padded, mask = layout.pad(rows)[found.sample[at]], layout.padding_mask()
        if mask is not None:
            mask = mask[found.sample[at]]
            padded = padded * mask.unsqueeze(-1)
    counts = None if rule.counts is None else segments.pad(rule.counts.unsqueeze(-1), found.sample[at]).squeeze(-1)
    weighing = None
    if len(at):
        weighing = _Weighing(padded * unit[at, None, None], mask, rule, found.basis[at], n is not None, counts)
    axes: list[Tensor] = []
    for k in range(tuples.shape[1]):
        v, chosen, gone = tuples[:, k], found.chosen[:, k], found.gone[:, k]
        if weighing is not None:
            moments = weighing.choose(chosen[at], gone[at])
            if moments is not None and n is not None and len(at) == len(v):
                which = (chosen - n).clamp_min(0)[:, None, None].expand(-1, 1, d)
                is_row = (gone | (chosen < n)).unsqueeze(-1)
                v = torch.where(is_row, v, moments.gather(-2, which).squeeze(-2))
        axes.append(_completed(v, axes))
        if weighing is not None:
            weighing.fix(axes[-1][at])
    if len(axes) < d:
        axes.append(_completed(one[-1].expand(len(own), d), axes))
        if weighing is not None:
            weighing.last(axes[-1][at], found.gone[at, -1])
    basis = torch.stack(axes, -1)
    if rule.special and rows.is_complex():  # the last phase is what the others leave of the determinant
        last = unitary_det(basis).conj()[:, None, None]
        basis = torch.cat([basis[..., :-1], basis[..., -1:] * last], -1)
    weight, length2 = found.weight, found.length2
    if weighing is not None:
        weight = weighing.weight if len(at) == len(own) else weight.index_copy(0, at, weighing.weight)
        if fixed:  # what repeats another pose has no weight, and a sample with too many has NaN
            weight = torch.where(found.weight > 0, weight, found.weight)
        if short is not None:
            length2 = length2.index_copy(0, at, torch.stack(weighing.length2, -1))
    return replace(found, basis=found.basis @ basis, weight=weight, length2=length2)


class _Weighing:
    """The weights of poses, step by step, for the rows ``(K, n, d)`` and the basis of each."""

    def __init__(
        self, rows: Tensor, mask: Tensor | None, rule: Rule, basis: Tensor, moments: bool, counts: Tensor | None
    ) -> None:
        self.y = y = rows @ basis.conj()
        self.rule, self.counts = rule, counts
        self.context = rule.context(y, mask) if moments else None
        self.fixed: Tensor | None = None
        self.weight = torch.ones(len(y), dtype=torch.float64, device=y.device)
        self.length2: list[Tensor] = []

    def choose(self, chosen: Tensor, gone: Tensor) -> Tensor | None:
        """Weigh the rows ``chosen`` ``(K,)``; the moments that competed."""
        w, length2, moments = choice(self.y, self.fixed, self.context, self.rule, self.counts)
        self.weight = self.weight * torch.where(gone, 1.0, w.gather(-1, chosen.unsqueeze(-1)).squeeze(-1))
        self.length2.append(length2)
        return moments

    def fix(self, axis: Tensor) -> None:
        """Take the components along ``axis`` ``(K, d)`` away."""
        self.fixed = (self.y @ axis.conj().unsqueeze(-1)).squeeze(-1)
        self.y = self.y - self.fixed.unsqueeze(-1) * axis.unsqueeze(-2)

    def last(self, axis: Tensor, gone: Tensor) -> None:
        """Weigh the sign of the last axis."""
        z = (self.y @ axis.conj().unsqueeze(-1)).squeeze(-1)
        self.length2.append(mean_length2(squares(z.unsqueeze(-1)), self.rule.sharpness, self.counts))
        if not self.rule.special:
            w = ramp((1 + sign_weight(z, self.rule.sharpness, self.counts)) / 2)
            self.weight = self.weight * torch.where(gone, 1.0, w)


def _completed(v: Tensor, axes: list[Tensor]) -> Tensor:
    """``v`` ``(K, d)`` less its components along the axes, of length one."""
    for axis in axes:
        v = v - axis * (axis.conj() * v).sum(-1, keepdim=True)
    return v / squares(v).sqrt().unsqueeze(-1)
