"""The canonical poses of clouds whose symmetry is looked for, and those of their permutations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.frame.linear import ActsLinearly
from minframe.layout import Dense
from minframe.linalg.action import behind_batch

SAME_POSE_UNITS = 1  # distance up to which poses are the same, in units of ``equal``


@dataclass(frozen=True, slots=True)
class Poses:
    """Canonical poses of clouds with ``n`` rows each.

    Attributes:
        group: the linear group.
        inputs: one tensor for each input, ``(B, n, *channels, d)``, or ``(B, *channels, d)`` if it has no rows.
        per_row: which of them have rows.
        cloud: the cloud of the poses.
        mask: ``(B, n)`` or ``None``.
        distance: ``(B, d)``, distance of the points from the origin when they were rounded, in the unit of poses.
        equal: ``(B, 1)``, difference up to which lengths are equal.
        terms: the coordinates of each term of a direct sum.
        weights: ``(B, T)``, by which terms are compared; see ``frame.point_set``.
    """

    group: ActsLinearly
    inputs: Sequence[Tensor]
    per_row: Sequence[bool]
    cloud: Cloud
    mask: Tensor | None
    distance: Tensor
    equal: Tensor
    terms: Sequence[slice]
    weights: Tensor

    @property
    def units(self) -> list[Tensor]:
        """The unit that coordinates of each input are compared in, ``(B, d)``.

        It is the largest coordinate of their term, over its weight.
        """
        found = []
        for x in self.inputs:
            largest = x.abs().reshape(len(x), -1, x.shape[-1]).amax(1)
            parts = []
            for term, weight in zip(self.terms, self.weights.unbind(-1), strict=True):
                size = largest[:, term].amax(-1, keepdim=True)
                unit = torch.where(size > 0, size, 1.0) / weight.unsqueeze(-1)
                parts.append(unit.expand(-1, term.stop - term.start))
            found.append(torch.cat(parts, -1))
        return found

    @property
    def threshold(self) -> Tensor:
        """The distance up to which poses are the same, ``(B,)``."""
        return SAME_POSE_UNITS * self.equal.squeeze(-1)

    def again(self, permutations: Tensor, owner: Tensor) -> tuple[list[Tensor], Tensor]:
        """Poses of ``Y[p]`` for ``permutations`` ``(k, n)`` of the samples ``owner`` ``(k,)``, and their matrices."""
        number = torch.arange(len(owner), device=owner.device).unsqueeze(-1)
        moved = [
            x[owner][number, permutations] if rows else x[owner]
            for x, rows in zip(self.inputs, self.per_row, strict=True)
        ]
        mask = None if self.mask is None else self.mask[owner]
        typed = [(x, kind) for x, (_, kind) in zip(moved, self.cloud.inputs, strict=True)]
        layout = Dense((len(owner),), permutations.shape[-1], mask)
        cloud = replace(
            self.cloud,
            inputs=typed,
            layout=layout,
            origin=None,
            rounding=self.cloud.eps,
            longest=False,
            distance=self.distance[owner],
        )
        frame = self.group.frame_of(cloud)
        poses = [frame.pose(x, kind.name, own=True) for x, kind in typed]
        linear = frame.linear
        if linear is None:
            linear = torch.eye(self.group.d, dtype=moved[0].dtype, device=owner.device).expand(len(owner), -1, -1)
        return poses, linear

    def vectors(self, sample: int, weighted: bool) -> tuple[list[Tensor], list[Tensor]]:
        """The vectors of one sample, in units of the size of each input: at points ``(n, C, d)``, others ``(m, d)``.

        ``weighted``: to compare them; otherwise to put them in an order.
        """
        rows, fixed = [], []
        for x, per_row in zip(self.inputs, self.per_row, strict=True):
            y = torch.empty_like(x[sample])
            for term, weight in zip(self.terms, self.weights[sample], strict=True):
                part = x[sample, ..., term]
                size = torch.linalg.vector_norm(part, dim=-1).amax()  # of the longest, which is the same in every pose
                y[..., term] = part * (weight if weighted else 1.0) / torch.where(size > 0, size, 1.0)
            if per_row:
                rows.append(y.reshape(y.shape[0], -1, y.shape[-1]))
            else:
                fixed.append(y.reshape(-1, y.shape[-1]))
        return rows, fixed

    def numbers(self, permutations: Tensor, owner: Tensor) -> Tensor:
        """The poses of ``Y[p]`` as rows of real numbers ``(k, m)``, in the units of each input."""
        return self.as_numbers(self.again(permutations, owner)[0], owner)

    def as_numbers(self, poses: Sequence[Tensor], owner: Tensor) -> Tensor:
        """The same of given poses."""
        rows = []
        for x, unit in zip(poses, self.units, strict=True):
            x = x / behind_batch(unit[owner], x, 1)
            rows.append((torch.view_as_real(x) if x.is_complex() else x).flatten(1))
        return torch.cat(rows, -1)

    def scores(self, numbers: Tensor, sample: int) -> Tensor:
        """A fixed linear function of ``numbers`` ``(k, m)`` of one sample, that no symmetry has: the lowest wins.

        It is one of coordinates without the weights, on which no order may depend.
        """
        wave = (12.9898 * torch.arange(1, numbers.shape[-1] + 1, dtype=numbers.dtype)).sin()
        parts = 2 if self.inputs[0].is_complex() else 1
        sizes = torch.tensor([term.stop - term.start for term in self.terms])
        weights = self.weights[sample].repeat_interleave(sizes).repeat_interleave(parts)
        return numbers @ (wave / weights.repeat(len(wave) // len(weights)))

    def size(self, sample: int, numbers: Tensor) -> float:
        """The longest vector of ``numbers`` ``(k, m)``, in one term: its length times the root of their number.

        Of all poses: where the rank is in doubt, some may be zero.
        """
        parts = 2 if self.inputs[0].is_complex() else 1
        vectors = numbers.view(len(numbers), -1, self.inputs[0].shape[-1], parts)
        longest = max(float(torch.linalg.vector_norm(vectors[:, :, term], dim=(-2, -1)).max()) for term in self.terms)
        padding = 0 if self.mask is None else int((~self.mask[sample]).sum())
        padding *= sum(
            x[0, 0].numel() // x.shape[-1] for x, rows in zip(self.inputs, self.per_row, strict=True) if rows
        )
        return longest * (vectors.shape[1] - padding) ** 0.5

    def of_numbers(self, numbers: Tensor, sample: int) -> list[Tensor]:
        """The pose of a sample whose ``numbers`` ``(m,)`` these are."""
        parts = []
        for x, unit in zip(self.inputs, self.units, strict=True):
            y = x[sample]
            length = y.numel() * (2 if y.is_complex() else 1)
            part, numbers = numbers[:length], numbers[length:]
            part = torch.view_as_complex(part.view(*y.shape, 2)) if y.is_complex() else part.view(y.shape)
            parts.append(part * unit[sample])
        return parts

    def apart(self, poses: Sequence[Tensor], owner: Tensor) -> Tensor:
        """How far ``poses`` are from those of the samples ``owner`` ``(k,)``, in the units of each input, ``(k,)``."""
        worst = []
        for a, b, unit in zip(poses, self.inputs, self.units, strict=True):
            worst.append(((a - b[owner]).abs() / behind_batch(unit[owner], a, 1)).flatten(1).amax(-1))
        return torch.stack(worst).amax(0)
