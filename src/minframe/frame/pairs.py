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
from minframe.labelling.action import inverse
from minframe.labelling.chain import StabiliserChain
from minframe.layout import Dense

if TYPE_CHECKING:
    from minframe.groups.linear import LinearGroup

COSETS = 1024  # that are looked at before permutations are given up that keep only inner products


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
    samples, counts = torch.unique_consecutive(owner, return_counts=True)
    parts = dict(zip(samples.tolist(), torch.split(generators, counts.tolist()), strict=True))
    doubtful = torch.unique(owner[~same]).tolist()
    true = _true_symmetry(poses, {sample: parts[sample] for sample in doubtful})
    moved = {sample: order for sample, (_, order) in true.items() if order is not None}
    chains: dict[object, StabiliserChain] = {}
    found: list[tuple[int, StabiliserChain]] = []
    for sample, rows in (parts | {sample: rows for sample, (rows, _) in true.items()}).items():
        key = tuple(rows.flatten().tolist())
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


class _Cosets:
    """The search for what is a symmetry of one sample among permutations that only keep inner products.

    Let H be the symmetry. ``Y[h p]`` is ``Y[p]`` moved by the matrix of h, so the poses of ``Y[p]`` are those of the
    right cosets ``H p``. They are found by multiplying with generators ``g`` on the right; whenever ``r g`` gets to a
    known coset ``H s``, ``r g s^-1`` is in H, and all of these generate it (Schreier's lemma).
    """

    def __init__(self, generators: Tensor, threshold: float) -> None:
        self._generators, self._threshold = generators, threshold
        self.pending = torch.arange(generators.shape[-1]).unsqueeze(0)  # whose poses are to be looked at
        self._symmetry = [self.pending]
        self._cosets, self._known = self.pending[:0], torch.empty(0)

    def look(self, poses: Tensor) -> None:
        """Take in the poses ``(k, m)`` of what was pending, and find out what is pending next."""
        products, before = self.pending, len(self._cosets)
        if before:
            distance, nearest = torch.cdist(poses, self._known, torch.inf).min(-1)
        else:
            self._known = poses[:0]
            distance, nearest = poses.new_full((len(poses),), torch.inf), torch.zeros(len(poses), dtype=torch.int64)
        while True:
            here = distance <= self._threshold
            self._symmetry.append(products[here].gather(-1, inverse(self._cosets[nearest[here]])))
            products, poses, nearest = products[~here], poses[~here], nearest[~here]
            if not len(products) or len(self._cosets) == COSETS:
                break
            self._cosets = torch.cat([self._cosets, products[:1]])
            self._known = torch.cat([self._known, poses[:1]])
            distance = (poses - poses[:1]).abs().amax(-1)
            nearest = torch.full_like(nearest, len(self._cosets) - 1)
        self.pending = self._cosets[before:, self._generators].flatten(0, 1)

    def result(self) -> tuple[Tensor, Tensor | None]:
        """Generators of H, and the permutation to the winning order if that is another one."""
        elements = torch.unique(torch.cat(self._symmetry), dim=0)
        best = _first(self._known, self._threshold)
        if best == 0:
            return elements, None
        r = self._cosets[best]
        return inverse(r)[elements[:, r]], r


def _true_symmetry(poses: Poses, generators: dict[int, Tensor]) -> dict[int, tuple[Tensor, Tensor | None]]:
    """For samples with generators of what the labelling said: what the linear group has too. See ``_Cosets``."""
    found = {sample: _Cosets(rows, float(poses.threshold[sample])) for sample, rows in generators.items()}
    while running := [(sample, search) for sample, search in found.items() if len(search.pending)]:
        counts = [len(search.pending) for _, search in running]
        owner = torch.repeat_interleave(torch.tensor([sample for sample, _ in running]), torch.tensor(counts))
        numbers = _numbers(poses, torch.cat([search.pending for _, search in running]), owner)
        for (_, search), part in zip(running, torch.split(numbers, counts), strict=True):
            search.look(part)
    return {sample: search.result() for sample, search in found.items()}


def _numbers(poses: Poses, permutations: Tensor, owner: Tensor) -> Tensor:
    """The poses of ``Y[p]`` as rows of numbers, each input in units of its size."""
    again, _ = poses.again(permutations, owner)
    rows = []
    for x, reference in zip(again, poses.inputs, strict=True):
        scale = reference.abs().flatten(1).amax(-1)[owner].unsqueeze(-1)
        x = (torch.view_as_real(x) if x.is_complex() else x).flatten(1)
        rows.append(x / torch.where(scale > 0, scale, 1.0))
    return torch.cat(rows, -1)


def _first(rows: Tensor, threshold: float) -> int:
    """The first of rows ``(k, m)`` in lexicographic order, up to rounding."""
    left = torch.arange(len(rows))
    for column in rows.unbind(-1):
        if len(left) == 1:
            break
        values = column[left]
        left = left[values <= values.min() + threshold]
    return int(left[0])
