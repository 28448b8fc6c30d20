"""The symmetry of clouds as pairs of a permutation and a matrix, and averages over all of them.

Let ``Y`` be the canonical pose of a cloud whose points are in canonical order. A permutation ``p`` of its points is
part of its symmetry if some ``O`` of the linear group does the same, ``O Y[i] = Y[p[i]]``. The minimal frame is then
the coset of all such pairs, and an output ``y`` of the backbone, which saw ``Y``, is to be replaced by the mean of

    ((p, O) . y)[p[i]] = O y[i].

With the transversals ``T_1, ..., T_k`` of a stabiliser chain this is a mean over ``T_1`` of means over ``T_2`` and so
on: the sum of their lengths in terms, never the number of the elements, which may be anything.

``O`` is read off the frame that the linear group itself finds for the rows ``Y[p]``: if their canonical pose is ``Y``
again, then ``Y[p] = Y O^T`` with ``O`` in the group, whatever it is and whatever rank ``Y`` has. If it is another pose,
then ``p`` is no symmetry: the labelling knows inner products only, which reflections preserve and SO(d) does not have.
Then several canonical poses compete, one for each coset of what is a symmetry in what the labelling said. The one that
is first in lexicographic order wins, and permutations that lead from it to itself generate the symmetry (Schreier).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.permutation.action import inverse
from minframe.permutation.chain import StabiliserChain
from minframe.ragged import Dense

if TYPE_CHECKING:
    from minframe.groups.linear import LinearGroup

COSETS = 4096  # that are looked at before permutations are given up that keep only inner products


@dataclass(frozen=True, slots=True)
class Poses:
    """Canonical poses of clouds with ``n`` rows each.

    Attributes:
        group: the linear group.
        inputs: for each of the inputs ``(B, n, *channels, d)``, or ``(B, *channels, d)`` if it has no rows.
        per_row: which of them have rows.
        cloud: that they come from.
        mask: ``(B, n)`` or ``None``.
        distance: ``(B, 1)``, how far from the origin the points stood that have been rounded.
        slack: ``(B, 1)``, what inner products may differ by and be the same.
    """

    group: LinearGroup
    inputs: Sequence[Tensor]
    per_row: Sequence[bool]
    cloud: Cloud
    mask: Tensor | None
    distance: Tensor
    slack: Tensor

    @property
    def threshold(self) -> Tensor:
        """How far poses may be apart and be the same, ``(B,)``."""
        return (4 * self.slack.squeeze(-1)).clamp_min(8 * self.cloud.tolerance)

    def again(self, permutations: Tensor, owner: Tensor) -> tuple[list[Tensor], Tensor]:
        """Poses of ``Y[p]`` for ``permutations`` ``(k, n)`` of the samples ``owner`` ``(k,)``, and their matrices."""
        number = torch.arange(len(owner), device=owner.device).unsqueeze(-1)
        moved = [
            x[owner][number, permutations] if rows else x[owner]
            for x, rows in zip(self.inputs, self.per_row, strict=True)
        ]
        mask = None if self.mask is None else self.mask[owner]
        typed = [(x, type) for x, (_, type) in zip(moved, self.cloud.inputs, strict=True)]
        layout = Dense((len(owner),), permutations.shape[-1], mask)
        cloud = replace(
            self.cloud,
            inputs=typed,
            layout=layout,
            origin=None,
            precision=self.cloud.eps,
            distance=self.distance[owner],
        )
        frame = self.group.row_frame(cloud)
        poses = [frame.pose(x, type.name, own=True) for x, type in typed]
        linear = frame.linear
        if linear is None:
            linear = torch.eye(self.group.d, dtype=moved[0].dtype, device=owner.device).expand(len(owner), -1, -1)
        return poses, linear

    def apart(self, poses: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
        """How far poses are apart, ``(k,)``, each input in units of its size."""
        worst = []
        for a, b in zip(poses, others, strict=True):
            scale = b.abs().flatten(1).amax(-1)
            worst.append((a - b).abs().flatten(1).amax(-1) / torch.where(scale > 0, scale, 1.0))
        return torch.stack(worst).amax(0)


@dataclass(frozen=True, slots=True)
class Level:
    """Of a chain: permutations ``(t, n)`` and matrices ``(t, d, d)``."""

    permutations: Tensor
    matrices: Tensor


@dataclass(frozen=True, slots=True)
class Pairs:
    """The symmetry of one sample."""

    sample: int
    order: int
    levels: Sequence[Level]

    def average(self, y: Tensor, apply: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        """The mean over the group. ``apply(p, O, y)`` is the mean over some elements ``(t, n)``, ``(t, d, d)``."""
        for level in reversed(self.levels):
            y = apply(level.permutations, level.matrices, y)
        return y


def symmetric_pairs(poses: Poses, generators: Tensor, owner: Tensor) -> tuple[list[Pairs], dict[int, Tensor]]:
    """The symmetry of each sample with ``generators`` ``(k, n)`` of positions, and new orders where others win.

    The second are permutations ``(n,)``: the row that is now at each position was at that one.
    """
    again, _ = poses.again(generators, owner)
    same = poses.apart(again, [x[owner] for x in poses.inputs]) <= poses.threshold[owner]
    chains: dict[object, StabiliserChain] = {}
    found: list[tuple[int, StabiliserChain]] = []
    moved: dict[int, Tensor] = {}
    for sample in torch.unique(owner).tolist():
        mine = owner == sample
        rows = generators[mine]
        if not bool(same[mine].all()):
            rows, first = _true_symmetry(poses, sample, rows)
            if first is not None:
                moved[sample] = first
        key = rows.numpy().tobytes() if rows.device.type == "cpu" else object()
        if key not in chains:
            chains[key] = StabiliserChain(rows, rows.shape[-1])
        if chains[key].order > 1:
            found.append((sample, chains[key]))
    if moved:
        poses = _moved(poses, moved)
    return _with_matrices(poses, found), moved


def _moved(poses: Poses, moved: dict[int, Tensor]) -> Poses:
    """The poses of samples that have got a new order."""
    samples = torch.tensor(list(moved))
    again, _ = poses.again(torch.stack(list(moved.values())), samples)
    return replace(poses, inputs=[x.index_copy(0, samples, a) for x, a in zip(poses.inputs, again, strict=True)])


def _with_matrices(poses: Poses, found: Sequence[tuple[int, StabiliserChain]]) -> list[Pairs]:
    """Solve for the matrices of all elements of all transversals at once."""
    if not found:
        return []
    levels = [
        (sample, torch.tensor(level, dtype=torch.int64)) for sample, chain in found for level in chain.transversals
    ]
    counts = [len(level) for _, level in levels]
    owner = torch.repeat_interleave(torch.tensor([sample for sample, _ in levels]), torch.tensor(counts))
    _, matrices = poses.again(torch.cat([level for _, level in levels]), owner)
    parts = iter(torch.split(matrices.detach(), counts))
    result, position = [], 0
    for sample, chain in found:
        mine = levels[position : position + len(chain.transversals)]
        position += len(mine)
        result.append(Pairs(sample, chain.order, [Level(p, next(parts)) for _, p in mine]))
    return result


def _true_symmetry(poses: Poses, sample: int, generators: Tensor) -> tuple[Tensor, Tensor | None]:
    """Generators of what the linear group has too, and the permutation to the winning order if that is another one.

    Let H be the symmetry. ``Y[h p]`` is ``Y[p]`` moved by the matrix of h, so the poses of ``Y[p]`` are those of the
    right cosets ``H p``. They are found by multiplying with generators ``g`` on the right; whenever ``r g`` gets to a
    known coset ``H s``, ``r g s^-1`` is in H, and all of these generate it (Schreier's lemma).
    """
    threshold = float(poses.threshold[sample])

    def pose_of(permutations: Tensor) -> list[Tensor]:
        return poses.again(permutations, torch.full((len(permutations),), sample))[0]

    start = torch.arange(generators.shape[-1])
    cosets, known, symmetry = [start], pose_of(start.unsqueeze(0)), [start]
    for r in cosets:
        products = r[generators]
        new = pose_of(products)
        for k, product in enumerate(products):
            pose = [x[k : k + 1] for x in new]
            distance, nearest = poses.apart(pose, known).min(0)
            if float(distance) <= threshold:
                symmetry.append(product[inverse(cosets[int(nearest)])])
            elif len(cosets) < COSETS:
                cosets.append(product)
                known = [torch.cat([x, y]) for x, y in zip(known, pose, strict=True)]
    best = 0
    for k in range(1, len(cosets)):
        if _before([x[k] for x in known], [x[best] for x in known], threshold):
            best = k
    found = torch.unique(torch.stack(symmetry), dim=0)
    if best == 0:
        return found, None
    r = cosets[best]
    return inverse(r)[found[:, r]], r


def _before(poses: Sequence[Tensor], others: Sequence[Tensor], threshold: float) -> bool:
    """Whether a pose comes before another in lexicographic order, up to rounding."""
    for a, b in zip(poses, others, strict=True):
        difference = a - b
        if difference.is_complex():
            difference = torch.view_as_real(difference)
        difference = difference.flatten()
        decisive = (difference.abs() > threshold * b.abs().max()).nonzero()
        if len(decisive):
            return float(difference[decisive[0]]) < 0
    return False
