"""Which element of a finite group leads to the canonical pose, decided by scores of the poses.

The orbit of an input is the set of its poses ``g^-1 x``. A few fixed linear functions, with pseudo-random coefficients
``w``, give every pose scores ``<w, g^-1 x>``; poses are compared by the first score, those that it leaves tied by the
second, and so on. At each step the poses stay whose score is within ``tolerance`` of the largest, relative to the size
of the input. Of those that are left at the end the one with the largest first score leads, and the frame is the set C
of the elements whose poses are within ``tolerance`` of the leading one, by the distance of all their coordinates.

Why this is exact. C is a function of the scores alone, which as a family over the group only change places when the
input is moved: ``C(h x) = h C(x)``. The pose shown is the *mean* of ``g^-1 x`` over C, and an output is the mean of
``g . y`` over C. Both are equivariant for any set C; that it is a coset of the stabiliser is not used. So no
tolerance makes an output wrong: it only sets which inputs count as symmetric. The one decision that rounding can flip
is a score within rounding of a threshold, ``largest - tolerance``, which stands far from zero differences (exact
symmetry) and, but for inputs that break a symmetry by just that much, from all others. ``margin`` is the distance from
there.

Why distances, and not scores alone. A score is one number of a pose: poses that differ by four tolerances agree in it
by accident in a third of all cases, and in all of them in one of thirty. Their mean is no pose of the input. With
distances the identity comes back to within the tolerance: it is carried back as the mean over C of ``g m``, m the mean
pose, which is off from the input by at most the mean of ``|m - g^-1 x|``, so at most by the root of the mean of its
square; of all points the mean has the least, and the leading pose has at most the tolerance.

Why pseudo-random functions rather than the coordinates one after the other. Two poses that differ, differ in each score
by about as much as they differ at all, so that the first one decides, and no more than SCORE_COUNT of them are needed
however many coordinates there are; small integer coordinates and other regular inputs produce no accidental ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.constants import constant
from minframe.tracing import is_compiling

SCORE_COUNT = 3  # scores of a pose; an accidental tie of different poses needs as many coincidences


class Scores(NamedTuple):
    """The scores of all poses of an input.

    Attributes:
        values: ``(*batch, SCORE_COUNT, G)``.
        size: ``(*batch,)``, of the input, the same for its whole orbit.
        tolerance: difference, relative to ``size``, up to which scores are equal.
    """

    values: Tensor
    size: Tensor
    tolerance: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The set C of elements that lead to the canonical pose.

    Attributes:
        weights: ``(*batch, G)``, ``1 / |C|`` for the elements of C, else zero, in float64.
        first: ``(*batch,)``, one of them.
        margin: ``(*batch,)``, how far the nearest score is from a threshold, relative to the size of the input.
    """

    weights: Tensor
    first: Tensor
    margin: Tensor

    @property
    def count(self) -> Tensor:
        """``|C|``, in float64."""
        return (self.weights > 0).sum(-1).double()

    @staticmethod
    def of(index: Tensor, group_size: int) -> Choice:
        """One element for each sample, given by its number in a group of size ``group_size``."""
        weights = (index.unsqueeze(-1) == torch.arange(group_size, device=index.device)).double()
        return Choice(weights, index, torch.full_like(weights[..., 0], torch.inf))


def probes(length: int) -> Tensor:
    """Fixed pseudo-random numbers from -1 to 1, ``(SCORE_COUNT, length)``; a longer one begins with a shorter.

    Multiplications of integers that wrap, and shifts, are the same on every machine. While a graph is traced they are
    part of it: the length may be one that it leaves open.
    """
    return _probes(length) if is_compiling() else _known_probes(length)


@constant(maxsize=64)
def _known_probes(length: int) -> Tensor:
    return _probes(length)


def _probes(length: int) -> Tensor:
    state = torch.arange(1, length + 1) * SCORE_COUNT + torch.arange(SCORE_COUNT).unsqueeze(-1)
    for factor, shift in ((0x2545F4914F6CDD1D, 29), (0x369DEA0F31A53F85, 32), (0x1B873593CC9E2D51, 31)):
        state = state * factor
        state = state ^ ((state >> shift) & ((1 << (64 - shift)) - 1))
    return (state >> 13 & ((1 << 50) - 1)).double() / (1 << 49) - 1


#: Of elements that are still in question ``(*batch, G)``, and those that lead ``(*batch,)``: how far the poses of the
#: former are from those of the latter, relative to the size of the input, ``(*batch, G)``; any number for others.
Distances = Callable[[Tensor, Tensor], Tensor]


def choose(scores: Sequence[Scores], allowed: Tensor | None = None, distances: Distances | None = None) -> Choice:
    """The poses with the largest scores, the first input first. ``allowed`` ``(G,)``: elements to choose from.

    Without ``distances`` all poses that the scores leave tied are taken for equal.
    """
    first = scores[0].values
    alive = torch.ones_like(first[..., 0, :], dtype=torch.bool)
    if allowed is not None:
        alive = alive & allowed
    margin = torch.full(alive.shape[:-1], torch.inf, dtype=torch.float64, device=first.device)
    index = torch.arange(alive.shape[-1], device=first.device)
    for values, size, tolerance in scores:
        unit = torch.where(size > 0, size, 1.0).unsqueeze(-1)
        for value in (values.detach() / unit.unsqueeze(-1)).unbind(-2):
            best, leader = torch.where(alive, value, -torch.inf).max(-1, keepdim=True)
            behind = best - value
            open_ = alive & (index != leader) & (size > 0).unsqueeze(-1)
            margin = torch.minimum(margin, torch.where(open_, (behind - tolerance).abs(), torch.inf).amin(-1))
            alive = alive & ~(behind > tolerance)
    if distances is not None and not all_true(alive.sum(-1) == 1):
        values, size, tolerance = scores[0]
        unit = torch.where(size > 0, size, 1.0).unsqueeze(-1)
        value = torch.where(alive, values[..., 0, :].detach() / unit, -torch.inf)
        best, leader = value.max(-1, keepdim=True)
        away = torch.where(alive & (index != leader), distances(alive, leader.squeeze(-1)), 0.0)
        other = away > tolerance
        doubt = torch.minimum(
            torch.where(alive & (index != leader), (away - tolerance).abs(), torch.inf),
            torch.where(other, best - value, torch.inf),  # which of them leads
        )
        margin = torch.minimum(margin, doubt.amin(-1))
        alive = alive & ~other
    weights = alive.double()
    return Choice(weights / weights.sum(-1, keepdim=True), alive.long().argmax(-1), margin)


def softened(scores: Scores, unit: float = 0.0) -> Tensor:
    """The first score of each pose in units of the size of the input, or of ``unit`` if that is more: ``(*batch, G)``.

    More precisely of ``sqrt(size^2 + unit^2)``, which is smooth, and with a unit also where the input is zero.
    """
    square = scores.size.square() + unit**2
    return scores.values[..., 0, :] / torch.where(square > 0, square, 1.0).sqrt().unsqueeze(-1)


def shares(scores: Sequence[Tensor], allowed: Tensor | None = None, sharpness: float = 16.0) -> Tensor:
    """Weights ``(*batch, G)`` of the elements that are continuous in the input: those near the best share the weight.

    ``scores``: of each input, ``(*batch, G)``, smooth functions of it without a unit, which as a family over the group
    only change places when the input is moved. So do the weights, and an average with them is equivariant.

    With ``p`` the softmax of ``sharpness`` times the sum over the inputs, the k-th divided by k, of the scores, and ``s
    = sum_g p_g^2 <= max_g p_g``, the weights are ``p * ramp(2 p / s - 1)``, normalised, with ``ramp`` a C2 step from 0
    at 0 to 1 at 1. The best element has weight; elements far behind have exactly none, so that few poses are evaluated.
    Twice differentiable where the scores are.
    """
    total = torch.stack([s / (i + 1) for i, s in enumerate(scores)]).sum(0)
    if allowed is not None:
        total = torch.where(allowed, total, -torch.inf)
    p = (sharpness * total).softmax(-1)
    t = (2 * p / p.square().sum(-1, keepdim=True) - 1).clamp(0, 1)
    weights = p * (t * t * t * (t * (6 * t - 15) + 10))
    return weights / weights.sum(-1, keepdim=True)
