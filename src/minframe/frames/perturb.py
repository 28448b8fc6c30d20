"""Weights that separate the principal axes of a cloud: the paper's Algorithm 3, for all samples at once.

If an eigenvalue ``v`` of the scatter matrix ``sum_i w_i x_i x_i^T`` is repeated, let P be the projector on its
eigenspace and raise the weight of one row ``k`` by the factor ``1 + z``. To first order that adds ``z w_k P x_k (P
x_k)^T`` within the eigenspace: one eigenvalue moves to ``v + z w_k |P x_k|^2``, its axis along ``P x_k``, and what is
orthogonal to ``P x_k`` stays, exactly, as it is orthogonal to ``x_k`` too. So a multiplicity ``m`` takes ``m - 1``
steps. With ``z w_k |P x_k|^2 = c v`` the separation does not depend on units.

Everything is a function of invariants: eigenvalues, the lengths ``|P x_k|``, and the order of the rows. Two choices are
made so that rounding cannot flip them. The row is the first whose projection is not much shorter than the longest, as
in ``linalg.qr`` (the paper takes the first that is not zero). And eigenvalues are separate if they differ by more than
MIN_RELATIVE_GAP, not if they differ at all: axes of eigenvalues that nearly coincide are as unstable as if they did.
The factor ``c`` is the first of a few multiples of SEPARATION_STEP that leaves the fewest coincidences; as there are
fewer other eigenvalues than multiples, one of them creates no new coincidence.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.layout import Layout
from minframe.linalg.action import multiply
from minframe.linalg.qr import FRACTION
from minframe.linalg.solvers import eigh

MIN_RELATIVE_GAP = 1e-2  # relative difference up to which eigenvalues coincide
SEPARATION_STEP = 0.137  # unit of ``c``, the relative change of an eigenvalue
MIN_EIGENVALUE_RATIO = 1e-13  # eigenvalues below this part of the largest are zero, within the rounding of float64


def separating_weights(rows: Tensor, layout: Layout, noise: Tensor) -> Tensor:
    """Weights of the rows ``(*rows, d)`` for which the nonzero eigenvalues of the scatter matrix differ, ``(*rows,)``.

    ``noise`` ``(*batch, 1)``: eigenvalues below this part of the largest are zero.
    """
    d = rows.shape[-1]
    weights = torch.ones_like(rows[..., 0])
    if d == 1:
        return weights
    factors = SEPARATION_STEP * torch.arange(1, d + 2, dtype=rows.dtype, device=rows.device)
    for _ in range(d):
        values, axes = eigh(layout.scatter(rows * weights.sqrt().unsqueeze(-1)))
        values, axes = values.flip(-1), axes.flip(-1)
        together = _coincide(values, noise)
        if all_true(~together.any(-1)):
            break
        first = together.long().argmax(-1, keepdim=True)
        members = _run(together, first)
        projected = multiply(rows, layout.for_rows((axes * members.unsqueeze(-2)).mT, rows))
        length = weights * projected.square().sum(-1)
        row = layout.first(length >= FRACTION * layout.spread(layout.amax(length)))
        here = layout.positions(length) == layout.spread(row)
        rise = layout.as_sample(values.gather(-1, first))[0] / layout.take(length, row)
        rise = torch.where(layout.as_sample(together.any(-1, keepdim=True))[0], rise, 0.0)
        trials = [torch.where(here, weights * (1 + c * layout.spread(rise)), weights) for c in factors]
        scatters = torch.stack([layout.scatter(rows * w.sqrt().unsqueeze(-1)) for w in trials], -3)
        left = _coincide(eigh(scatters)[0].flip(-1), noise.unsqueeze(-2)).sum(-1)
        rank = left * len(factors) + torch.arange(len(factors), device=left.device)
        best = rank.argmin(-1, keepdim=True)
        factor = layout.as_sample(factors[best])[0]
        weights = torch.where(here, weights * (1 + layout.spread(factor * rise)), weights)
    return weights


def _coincide(values: Tensor, noise: Tensor) -> Tensor:
    """Whether each eigenvalue and the next, neither of them zero, nearly coincide, ``(*batch, d - 1)``."""
    high, low = values[..., :-1], values[..., 1:]
    return (high - low <= MIN_RELATIVE_GAP * high) & (low > noise * values[..., :1])


def _run(together: Tensor, first: Tensor) -> Tensor:
    """The eigenvalues that coincide with the one at ``first`` ``(*batch, 1)``, which is the largest of them."""
    breaks = torch.nn.functional.pad((~together).long(), (1, 0)).cumsum(-1)
    place = torch.arange(breaks.shape[-1], device=breaks.device)
    return (place >= first) & (breaks == breaks.gather(-1, first))
