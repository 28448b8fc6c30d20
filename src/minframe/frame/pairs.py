"""The symmetry of clouds as pairs of a permutation and a matrix, and averages over all of them.

Let ``Y`` be the canonical pose of a cloud whose points are in canonical order. A permutation ``p`` of its points is
part of its symmetry if some ``O`` of the linear group does the same, ``O Y[i] = Y[p[i]]``. The minimal frame is then
the coset of all such pairs, and an output ``y`` of the backbone for ``Y`` is replaced by the mean of

    ((p, O) . y)[p[i]] = O y[i].

With the transversals ``T_1, ..., T_k`` of a stabiliser chain this is a mean over ``T_1`` of means over ``T_2`` and so
on. The number of terms is the sum of their lengths, not the number of elements, which is unbounded.

``O`` is read off the frame that the linear group itself finds for the rows ``Y[p]``: if their canonical pose is ``Y``
again, then ``Y[p] = Y O^T`` with ``O`` in the group, for any group and any rank of ``Y``. If it is another pose, then
``p`` is no symmetry: the labelling uses inner products only, which reflections preserve although SO(d) does not contain
them. Then several canonical poses compete, one for each coset of the true symmetry in the group that the labelling
proposed. The one with the lowest *score*, a fixed linear function of its coordinates, wins, and permutations that lead
from it to itself generate the symmetry (Schreier).

**Almost symmetric clouds.** Poses that differ by a little more or a little less than ``threshold`` are not divided into
cosets by it, since closeness is not transitive. If any distance is neither far below nor far above the threshold, the
poses of *all* permutations that the labelling proposed are compared. This set does not depend on the order in which the
rows were given, since it contains all canonical orders of a cloud. So neither the winner, the lowest score of all, nor
which poses count as the same depends on it. Where there are too many permutations to enumerate, the winner is chosen
position by position (``frame.large``).

All poses are the same if none is farther than ``equal``, as a root mean square over the rows, from the mean of all.
Their average is off from each by that much at most, and this is what the average does to the cloud. It is one decision
about one number: a symmetry of the mean leaves the mean in place and permutes the poses, so that all are about as far
from it. (A threshold for each distance from the winner is as many decisions as there are poses, and is wrong more than
twice as often.) Otherwise poses are divided at the largest ratio of successive distances, where rounding is least
likely to decide, and the part of the winner is looked at in the same way. Distances well below ``equal`` count as none.

The matrices O of such a cloud are those of the mean of its poses that are the same. Those of one pose are no group:
each is off by what the rows that carry its axes are, and along a chain this adds up. The mean is symmetric, up to
second order, and no farther away than ``equal``. Where rows are no longer than that, there is no second order: poses in
which other rows carry the last axes have a mean that is no pose, and the matrices found for it fit no row. So such an
average has to leave the cloud in place, but for second order; if not, the winner is shown alone.

**How often rounding has to decide.** Around a cloud with a symmetry of order k, noise of size s in all coordinates is
divided into k regions, one for each canonical order, which the symmetry maps to each other: each has the probability
1/k. By the isoperimetric inequality of Gauss measure the boundary of a set of that probability is at least ``I(1/k) =
phi(Phi^-1(1/k))``, per unit of s; so all boundaries together are at least ``k I(1/k) / 2``: 1.07 for k = 24, 1.2 for
k = 48. Rounding of size r in each coordinate crosses them with a probability of at least ``sqrt(2 / pi) r / s`` times
that, about ``r / s``, whatever the rule. ``docs/mathematics/equality.md`` compares this with what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.frame import large
from minframe.frame.poses import Poses
from minframe.labelling.action import inverse
from minframe.labelling.chain import StabiliserChain
from minframe.linalg.qr import TINY

MAX_MOVED = 1.5  # bound on what the average over a symmetry moves a cloud by, in units of what is equal
MAX_COSETS = 1024  # poses of one sample that are compared
MAX_CLEAR_COSETS = 16  # cosets of the symmetry in the proposed group; there are two if only orientation differs
CLEARLY_SAME, CLEARLY_APART = 1 / 8, 1e4  # distances of poses that are clearly the same or different, in that unit
MIN_APART = 0.05  # distance from which poses always differ, relative to the largest coordinate


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a chain: permutations ``(t, n)`` and matrices ``(t, d, d)``."""

    permutations: Tensor
    matrices: Tensor


@dataclass(frozen=True, slots=True)
class Pairs:
    """The symmetry of one sample."""

    sample: int
    order: int
    levels: Sequence[Level]

    def padded(self, n: int, sample: int) -> Pairs:
        """The symmetry as that of another sample of ``n`` rows, the last of which, padding, stay where they are."""

        def whole(permutations: Tensor) -> Tensor:
            t, m = permutations.shape
            rest = torch.arange(m, n, device=permutations.device).expand(t, max(n - m, 0))
            return torch.cat([permutations, rest], -1)

        return Pairs(sample, self.order, [Level(whole(level.permutations), level.matrices) for level in self.levels])

    def average(self, y: Tensor, apply: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        """The mean over the group. ``apply(p, O, y)`` is the mean over some elements ``(t, n)``, ``(t, d, d)``."""
        for level in reversed(self.levels):
            y = apply(level.permutations, level.matrices, y)
        return y


def symmetries(
    poses: Poses, generators: Tensor, owner: Tensor, thin: set[int]
) -> tuple[list[tuple[int, StabiliserChain]], dict[int, Tensor], dict[int, list[Tensor]]]:
    """The symmetry of each sample with ``generators`` ``(k, n)`` of positions, new orders where others win, mean poses.

    A new order is a permutation ``(n,)``: for each new position, the old position of its row. Where the rank of a
    sample is in doubt (``thin``), the poses of all permutations are compared. The mean is of those that are the same,
    where they are not clearly so.
    """
    again, _ = poses.again(generators, owner)
    same = poses.apart(again, owner) <= CLEARLY_SAME * poses.threshold[owner]
    samples, counts = torch.unique_consecutive(owner, return_counts=True)
    parts = dict(zip(samples.tolist(), torch.split(generators, counts.tolist()), strict=True))
    doubtful = set(owner[~same].tolist()) | (thin & set(parts))
    true = _true_symmetry(poses, {sample: parts[sample] for sample in sorted(doubtful)}, thin)
    moved = {sample: order for sample, (_, order, _) in true.items() if order is not None}
    means = {sample: mean for sample, (_, _, mean) in true.items() if mean is not None}
    chains: dict[object, StabiliserChain] = {}
    found: list[tuple[int, StabiliserChain]] = []
    for sample, rows in (parts | {sample: rows for sample, (rows, _, _) in true.items()}).items():
        key = tuple(rows.flatten().tolist())
        if key not in chains:
            chains[key] = StabiliserChain(rows, rows.shape[-1])
        if chains[key].order > 1:
            found.append((sample, chains[key]))
    return found, moved, means


def with_matrices(
    poses: Poses, found: Sequence[tuple[int, StabiliserChain]], means: dict[int, list[Tensor]]
) -> list[Pairs]:
    """Solve for the matrices of all elements of all transversals at once, those of a mean where there is one."""
    if not found:
        return []
    own = poses
    if means:
        inputs = [x.clone() for x in poses.inputs]
        for sample, mean in means.items():
            for x, y in zip(inputs, mean, strict=True):
                x[sample] = y
        poses = replace(poses, inputs=inputs)
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
        pairs = Pairs(sample, chain.order, [Level(p, next(parts)) for _, p in mine])
        if sample not in means or _stays(own, pairs):
            result.append(pairs)
    return result


def _stays(poses: Poses, pairs: Pairs) -> bool:
    """Whether the average over a symmetry of the mean of poses leaves the pose of the sample itself in place."""
    sample = torch.tensor([pairs.sample])
    own = [x[sample] for x in poses.inputs]
    averaged = [
        pairs.average(x[0], _mean_of_rows if rows else _mean_of_vectors).unsqueeze(0)
        for x, rows in zip(own, poses.per_row, strict=True)
    ]
    both = poses.as_numbers(own, sample), poses.as_numbers(averaged, sample)
    moved = float(torch.linalg.vector_norm(both[1] - both[0]))
    return moved <= MAX_MOVED * float(poses.threshold[pairs.sample]) * poses.size(pairs.sample, both[0])


def _mean_of_vectors(permutations: Tensor, matrices: Tensor, y: Tensor) -> Tensor:
    """The mean of ``O y`` for vectors ``(*channels, d)`` that belong to no row."""
    return y @ matrices.mean(0).mT


def _mean_of_rows(permutations: Tensor, matrices: Tensor, y: Tensor) -> Tensor:
    """The mean of ``(p, O) . y`` for rows ``(n, *channels, d)``."""
    moved = torch.einsum("tij,n...j->tn...i", matrices.to(y.dtype), y)
    return torch.zeros_like(y).index_add(0, permutations.flatten(), moved.flatten(0, 1)) / len(matrices)


class Symmetry(NamedTuple):
    """Generators, the permutation to the winning order if that differs, and the mean of the poses that are the same."""

    generators: Tensor
    winner: Tensor | None = None
    mean: list[Tensor] | None = None


class _Cosets:
    """The search for the symmetry of one sample among permutations that preserve inner products.

    Let H be the symmetry. ``Y[h p]`` is ``Y[p]`` moved by the matrix of h, so the poses of ``Y[p]`` are those of the
    right cosets ``H p``. They are found by multiplying with generators ``g`` on the right; whenever ``r g`` gets to a
    known coset ``H s``, ``r g s^-1`` is in H, and all of these generate it (Schreier's lemma).
    """

    def __init__(self, generators: Tensor, threshold: float, scores: Callable[[Tensor], Tensor]) -> None:
        self._generators, self._threshold, self._scores = generators, threshold, scores
        self._doubt = CLEARLY_SAME * threshold, min(CLEARLY_APART * threshold, max(MIN_APART, threshold))
        self.clear = True  # every two poses were clearly the same or clearly different
        self.pending = torch.arange(generators.shape[-1]).unsqueeze(0)  # permutations whose poses are needed next
        self._symmetry = [self.pending]
        self._cosets, self._known = self.pending[:0], torch.empty(0)

    def look(self, poses: Tensor) -> None:
        """Process the poses ``(k, m)`` of the pending permutations, and determine the next pending ones."""
        products, before = self.pending, len(self._cosets)
        if before:
            distances = torch.cdist(poses, self._known, torch.inf)
            self._check(distances)
            distance, nearest = distances.min(-1)
        else:
            self._known = poses[:0]
            distance, nearest = poses.new_full((len(poses),), torch.inf), torch.zeros(len(poses), dtype=torch.int64)
        while True:
            here = distance <= self._threshold
            self._symmetry.append(products[here].gather(-1, inverse(self._cosets[nearest[here]])))
            products, poses, nearest = products[~here], poses[~here], nearest[~here]
            if not len(products) or len(self._cosets) == MAX_COSETS:
                break
            self._cosets = torch.cat([self._cosets, products[:1]])
            self._known = torch.cat([self._known, poses[:1]])
            distance = (poses - poses[:1]).abs().amax(-1)
            self._check(distance)
            nearest = torch.full_like(nearest, len(self._cosets) - 1)
        self.pending = self._cosets[before:, self._generators].flatten(0, 1)
        if len(self._cosets) > MAX_CLEAR_COSETS:  # more than orientation differs: this is far from a symmetry
            self.clear = False
        if not self.clear:  # all permutations will be compared
            self.pending = self.pending[:0]

    def _check(self, distances: Tensor) -> None:
        low, high = self._doubt
        self.clear = self.clear and not bool(((distances > low) & (distances < high)).any())

    def result(self) -> Symmetry:
        elements = torch.unique(torch.cat(self._symmetry), dim=0)
        best = int(self._scores(self._known).argmin())
        if best == 0:
            return Symmetry(elements)
        r = self._cosets[best]
        return Symmetry(inverse(r)[elements[:, r]], r)


def _true_symmetry(poses: Poses, generators: dict[int, Tensor], thin: set[int]) -> dict[int, Symmetry]:
    """The part of the proposed symmetry of each sample that the linear group contains. See ``_Cosets``."""
    found = {
        sample: _Cosets(rows, float(poses.threshold[sample]), partial(poses.scores, sample=sample))
        for sample, rows in generators.items()
    }
    while running := [(sample, search) for sample, search in found.items() if len(search.pending)]:
        counts = [len(search.pending) for _, search in running]
        owner = torch.repeat_interleave(torch.tensor([sample for sample, _ in running]), torch.tensor(counts))
        numbers = poses.numbers(torch.cat([search.pending for _, search in running]), owner)
        for (_, search), part in zip(running, torch.split(numbers, counts), strict=True):
            search.look(part)
    result = {sample: search.result() for sample, search in found.items()}
    for sample, search in found.items():
        if not search.clear or sample in thin:
            chain = large.chain(generators[sample])
            choose = _best_of_all if chain.order <= MAX_COSETS else _best_by_position
            result[sample] = choose(poses, sample, chain)
    return result


def _best_of_all(poses: Poses, sample: int, chain: StabiliserChain) -> Symmetry:
    """The symmetry of a sample among all elements of a group."""
    elements = torch.arange(poses.inputs[poses.per_row.index(True)].shape[1]).unsqueeze(0)
    for level in reversed(chain.transversals):
        elements = torch.tensor(level, dtype=torch.int64)[:, elements].flatten(0, 1)
    numbers = poses.numbers(elements, torch.full((len(elements),), sample))
    best = int(poses.scores(numbers, sample).argmin())
    same = _same(poses, sample, numbers, best)
    winner = elements[best]
    mean = poses.of_numbers(numbers[same].mean(0), sample)
    return Symmetry(torch.unique(inverse(winner)[elements[same]], dim=0), winner, mean)


def _same(poses: Poses, sample: int, numbers: Tensor, best: int) -> Tensor:
    """Which poses ``(k, m)`` of one sample are the same as the best; see "Almost symmetric clouds" above."""
    equal = float(poses.threshold[sample]) * poses.size(sample, numbers)
    to_best = torch.linalg.vector_norm(numbers - numbers[best], dim=-1)
    same = torch.ones_like(to_best, dtype=torch.bool)
    while True:
        part = numbers[same]
        if not float(torch.linalg.vector_norm(part - part.mean(0), dim=-1).max()) > equal:
            return same
        distances = (
            torch.cat([part.new_zeros(1), torch.pdist(part)]).clamp_min(max(CLEARLY_SAME * equal, TINY)).sort()[0]
        )
        last = int((distances[1:] / distances[:-1]).argmax())
        fewer = same & (to_best < (distances[last] * distances[last + 1]).sqrt())
        same = same & (to_best <= CLEARLY_SAME * equal) if torch.equal(fewer, same) else fewer


def _best_by_position(poses: Poses, sample: int, chain: StabiliserChain) -> Symmetry:
    """``_best_of_all`` for a group with many elements; see ``frame.large``."""
    points, pairs = large.invariants(*poses.vectors(sample, weighted=True))
    threshold = float(poses.threshold[sample])
    if large.spread(points, pairs, chain) <= threshold:  # all are symmetries, or preserve inner products only
        return _true_symmetry_of(poses, sample, torch.tensor(chain.generators))
    points, pairs = large.invariants(*poses.vectors(sample, weighted=False))
    winner = torch.tensor(large.lowest(points, pairs, chain))
    elements = torch.tensor([t for level in chain.transversals if len(level) > 1 for t in level])
    near = []
    for part in torch.split(elements, MAX_COSETS):
        numbers = poses.numbers(torch.cat([winner.unsqueeze(0), winner[part]]), torch.full((len(part) + 1,), sample))
        near.append(part[(numbers[1:] - numbers[:1]).abs().amax(-1) <= CLEARLY_SAME * threshold])
    return Symmetry(torch.cat(near), winner)


def _true_symmetry_of(poses: Poses, sample: int, generators: Tensor) -> Symmetry:
    """The symmetry of a sample whose poses are clearly the same or clearly different."""
    search = _Cosets(generators, MIN_APART, partial(poses.scores, sample=sample))
    while len(search.pending):
        search.look(poses.numbers(search.pending, torch.full((len(search.pending),), sample)))
    return search.result()
