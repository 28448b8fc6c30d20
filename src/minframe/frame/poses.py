"""The canonical poses of clouds whose symmetry is looked for, and those of their permutations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.frame.linear import ActsLinearly
from minframe.layout import Dense

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
        distance: ``(B, 1)``, distance of the points from the origin when they were rounded, in the unit of poses.
        equal: ``(B, 1)``, difference up to which lengths are equal.
    """

    group: ActsLinearly
    inputs: Sequence[Tensor]
    per_row: Sequence[bool]
    cloud: Cloud
    mask: Tensor | None
    distance: Tensor
    equal: Tensor

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

    def vectors(self, sample: int) -> tuple[list[Tensor], list[Tensor]]:
        """The vectors of one sample, in units of the size of each input: at points ``(n, C, d)``, others ``(m, d)``."""
        rows, fixed = [], []
        for x, per_row in zip(self.inputs, self.per_row, strict=True):
            y = x[sample]
            scale = torch.linalg.vector_norm(y, dim=-1).amax()  # of the longest, which is the same in every pose
            y = y / torch.where(scale > 0, scale, 1.0)
            if per_row:
                rows.append(y.reshape(y.shape[0], -1, y.shape[-1]))
            else:
                fixed.append(y.reshape(-1, y.shape[-1]))
        return rows, fixed

    def size(self, sample: int, numbers: Tensor) -> float:
        """The longest vector of ``numbers`` ``(k, m)`` (``pairs._numbers``): its length times the root of their number.

        Of all poses: where the rank is in doubt, some may be zero.
        """
        d = self.inputs[0].shape[-1] * (2 if self.inputs[0].is_complex() else 1)
        vectors = torch.linalg.vector_norm(numbers.view(len(numbers), -1, d), dim=-1).amax(0)
        padding = 0 if self.mask is None else int((~self.mask[sample]).sum())
        padding *= sum(
            x[0, 0].numel() // x.shape[-1] for x, rows in zip(self.inputs, self.per_row, strict=True) if rows
        )
        return float(vectors.max()) * (len(vectors) - padding) ** 0.5

    def of_numbers(self, numbers: Tensor, sample: int) -> list[Tensor]:
        """The pose of a sample whose ``numbers`` ``(m,)`` these are (``pairs._numbers``)."""
        parts = []
        for x in self.inputs:
            y, scale = x[sample], x[sample].abs().amax()
            length = y.numel() * (2 if y.is_complex() else 1)
            part, numbers = numbers[:length] * torch.where(scale > 0, scale, 1.0), numbers[length:]
            parts.append(torch.view_as_complex(part.view(*y.shape, 2)) if y.is_complex() else part.view(y.shape))
        return parts

    def apart(self, poses: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
        """The distance of poses, ``(k,)``, each input in units of its size."""
        worst = []
        for a, b in zip(poses, others, strict=True):
            scale = b.abs().flatten(1).amax(-1)
            worst.append((a - b).abs().flatten(1).amax(-1) / torch.where(scale > 0, scale, 1.0))
        return torch.stack(worst).amax(0)
