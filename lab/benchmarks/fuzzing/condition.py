"""How far the rounding of an input is multiplied in the invariants of its group: of the input alone, no frame asked."""

from __future__ import annotations

import torch
from torch import Tensor

from fuzzing.trial import EPS, Trial

#: How many decisions a frame takes, about: pairs of rows that are compared, for each axis.
DECISIONS = 300
FLAT = 0.75  # the power of eps below which a cloud counts as flat
SLENDER = 1e-3
REACH = 100.0  # the square of the condition number of elements of GL


def condition(trial: Trial, x: Tensor) -> Tensor:
    """``(b,)``, at least 1.

    Of translations: the distance from the origin over the size. Of GL: the condition number of the rows. Of an
    indefinite form: the Euclidean squares over the products of the form, ``|X|^2 / |X eta X^*|``.
    """
    case = trial.chosen.case
    y = x.to(torch.promote_types(x.dtype, torch.float64))
    result = torch.ones(len(x), dtype=torch.float64)
    if case.affine:
        size, y = y.abs().amax((1, 2)), y - y.mean(1, keepdim=True)
        result = size / y.abs().amax((1, 2)).clamp_min(1e-300)
    if case.space.q:
        eta = torch.cat([torch.ones(case.space.p), -torch.ones(case.space.q)]).double()
        gram = (y * eta) @ y.mH
        result = result * y.abs().square().sum((1, 2)) / gram.abs().square().sum((1, 2)).sqrt().clamp_min(1e-300)
    elif not case.compact:
        result = result * thinness(trial, y)
    return torch.nan_to_num(result, nan=1.0, posinf=1e300).clamp_min(1.0)


def identity_loss(trial: Trial, x: Tensor) -> Tensor:
    """What the identity may lose, ``(b,)``: there and back through a matrix of this condition.

    Of an indefinite form the condition is ``1 / opening^2``; where rounding leaves less than the opening, the null part
    alone is as good, which is off by the opening. Exactly null rows, of no opening, lose nothing.
    """
    ratio = condition(trial, x)
    loss = EPS[trial.key.dtype] * ratio
    return torch.minimum(loss, ratio.rsqrt()) if trial.chosen.case.space.q else loss


def thinness(trial: Trial, y: Tensor) -> Tensor:
    """The largest singular value over the smallest that is not 0 for want of rows, ``(b,)``."""
    case = trial.chosen.case
    y = y.to(torch.promote_types(y.dtype, torch.float64))
    y = y - y.mean(1, keepdim=True) if case.affine else y
    rank = min(y.shape[1] - case.affine, case.space.d)
    if rank < 1:
        return torch.ones(len(y), dtype=torch.float64)
    values = torch.linalg.svdvals(y)
    return (values[:, 0] / values[:, rank - 1].clamp_min(1e-300)).clamp_max(1e300)


def slender(trial: Trial, x: Tensor) -> Tensor:
    """Whether rounding has more than ``SLENDER`` chances to decide on the rank, ``(b,)``."""
    if trial.graph:
        return torch.zeros(len(x), dtype=torch.bool)
    return DECISIONS * EPS[trial.key.dtype] * thinness(trial, x) >= SLENDER


def crowding(trial: Trial, x: Tensor) -> Tensor:
    """The chance ``(b,)`` that one of the decisions stands within the rounding of the input."""
    chance = DECISIONS * EPS[trial.key.dtype] * condition(trial, x)
    return torch.where(chance < 1e-4, 0.0, chance.clamp_max(1.0))


def thin(trial: Trial, x: Tensor) -> Tensor:
    """Whether some element of GL, of those drawn, may make the cloud flat, ``(b,)``."""
    case = trial.chosen.case
    if case.compact or case.space.q:
        return torch.zeros(len(x), dtype=torch.bool)
    return condition(trial, x) * REACH * EPS[trial.key.dtype] ** FLAT >= 1
