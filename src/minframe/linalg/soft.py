"""The pivoted QR decomposition with its choices made soft: a few poses, with weights that are smooth in the rows.

``linalg.qr`` takes one row at each step, and jumps where another takes its place. Here every row that is nearly longest
is taken, with a weight. Let ``r_i`` be the length of what is left of row ``i`` at a step. With the ``sharpness`` a,

    p_i = r_i^a / sum_j r_j^a,      s = sum_j p_j^2,      w_i = p_i ramp(2 p_i / s - 1),   divided by their sum,

where ``ramp`` rises smoothly from 0 at 0 to 1 at 1. As ``s`` is a mean of the ``p_j``, a longest row has ``p_i >= s``
and so always weight; a row with ``p_i <= s / 2`` has none: of two rows, one that is shorter by a part ``0.88 / a``.
A *pose* is a tuple of rows, one for each step, and its weight is the product of those of its steps: at each step they
add up to one, so the weights of all poses of a sample do.

**Exact.** Lengths are invariant and rows move with the cloud, so weights are invariant and bases ``q`` move as ``g q``.
Nothing refers to the order of rows. Nothing is decided either: where rounding moves a number, results move by as much.

**Smooth.** ``r_i^2`` and ``ramp`` are smooth; so is ``p_i``, as some ``r_j`` is not zero; ``s`` is not zero. So weights
are smooth functions of the rows wherever these do not all vanish at some step (the rank is full), the basis of a tuple
is wherever its weight is not zero, and the average over poses is as smooth as what is averaged.

**The last axis.** For groups of determinant one it follows from the others. For O(d) only its sign is open. There are
two poses for it at most: with ``z_i`` the coordinates along it, ``b = a / 4`` and ``m = sum_i sgn(z_i) |z_i|^b / (sum_i
|z_i|^2b)^(1/2)`` they have the weights ``ramp((1 +- SIGN_SLOPE m) / 2)``. For U(d) the phase is open: rows carry that
too.

**Coincident rows.** A crystal has the same neighbour vectors about many atoms. Poses that differ by which of ``m``
equal rows was taken are equal, so these may be one row that counts ``m`` times in all sums, with the weight of all:

    p_i = r_i^a / sum_j m_j r_j^a,      s = sum_j m_j p_j^2,      w_i = m_i p_i ramp(2 p_i / s - 1),

and likewise along the last axis. Nothing else changes, and a crystal has as many poses as its primitive cell.

**Compact clouds.** In a ball or a shell hundreds of rows are nearly longest; there *moments* of the cloud compete with
them (``linalg.moments``).

``linalg.soft_poses`` finds the poses of a batch, and ``linalg.soft_derivatives`` makes smooth functions of them;
``linalg.soft_native`` and ``linalg.soft_slopes`` do the same in C.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.linalg import gpu
from minframe.linalg.moments import MAX_ROWS_ALONE, Context, joined, moments
from minframe.linalg.qr import TINY
from minframe.linalg.ramp import ramp

SIGN_SLOPE = 4.0  # slope of the weights of the two signs of the last axis, per unit of skewness along it


@dataclass(frozen=True, slots=True)
class Rule:
    """How poses are chosen.

    Attributes:
        sharpness: the exponent a.
        special: the last axis follows from the determinant.
        moments: whether moments compete where too many rows do.
        counts: ``(N,)``, how many coincident rows each of the flat rows stands for, where moments do not compete;
            ``None``: one.
        poses: the number of poses of each sample, where it is not to depend on the data.
    """

    sharpness: float
    special: bool
    moments: bool = True
    counts: Tensor | None = None
    poses: int | None = None

    def steps(self, d: int, complex: bool) -> int:
        """Number of axes that rows are chosen for."""
        return d if complex and not self.special else d - 1

    def with_moments(self, n: int) -> bool:
        """Whether moments may compete in clouds of at most ``n`` rows."""
        return self.moments and n > MAX_ROWS_ALONE

    def context(self, rows: Tensor, mask: Tensor | None) -> Context | None:
        """The context of moments for rows ``(K, n, d)``, of which ``mask`` are real; ``None`` without moments."""
        if not self.with_moments(rows.shape[-2]):
            return None
        r2 = squares(rows)
        return Context.of(r2, shares(r2, self.sharpness), torch.ones_like(r2) if mask is None else mask.to(r2.dtype))


def squares(y: Tensor) -> Tensor:
    """Squared lengths of vectors."""
    return (torch.view_as_real(y).square().sum(-1) if y.is_complex() else y.square()).sum(-1)


def times(counts: Tensor | None, x: Tensor) -> Tensor:
    """``x`` ``(K, n)`` of each row, for all rows that it stands for."""
    return x if counts is None else counts * x


def shares(r2: Tensor, sharpness: float, counts: Tensor | None = None) -> Tensor:
    """``p_i`` for squared lengths ``(K, n)``; zero if all are."""
    powers = (r2 / r2.detach().amax(-1, keepdim=True).clamp_min(TINY)) ** (sharpness / 2)
    return powers / times(counts, powers).sum(-1, keepdim=True).clamp_min(TINY)


def mean_length2(r2: Tensor, sharpness: float, counts: Tensor | None = None) -> Tensor:
    """``sum_i p_i r_i^2``, the squared length of the nearly longest rows."""
    return times(counts, shares(r2, sharpness, counts) * r2).sum(-1)


def weights(p: Tensor, counts: Tensor | None = None) -> Tensor:
    """``w_i`` for shares ``(K, n)``; zero if all are."""
    s = times(counts, p.square()).sum(-1, keepdim=True).clamp_min(TINY)
    w = times(counts, p * ramp(2 * p / s - 1))
    return w / w.sum(-1, keepdim=True).clamp_min(TINY)


def choice(
    y: Tensor, fixed: Tensor | None, context: Context | None, rule: Rule, counts: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The weights of one step, ``(K, n)`` or with moments behind the rows ``(K, n + M)``; ``length2``; the moments.

    ``y`` ``(K, n, m)``: what is left of the rows; ``fixed`` ``(K, n)``: the coordinate that was fixed last;
    ``counts`` ``(K, n)``: how many rows each stands for.
    """
    if context is None and counts is None and gpu.serves(y):
        return *gpu.weigh(y, rule.sharpness), None
    r2 = squares(y)
    p = shares(r2, rule.sharpness, counts)
    length2 = times(counts, p * r2).sum(-1)
    if context is None:
        return weights(p, counts), length2, None
    found = moments(y, fixed, context)
    u2 = squares(found) / torch.where(length2 > 0, length2, 1.0).unsqueeze(-1)
    return weights(joined(p, u2, context.real.sum(-1, keepdim=True), rule.sharpness)), length2, found


def sign_weight(z: Tensor, sharpness: float, counts: Tensor | None = None) -> Tensor:
    """``SIGN_SLOPE m`` for the coordinates ``(K, n)`` along the last axis; zero if all are."""
    z2 = z.square()
    peak = z2.detach().amax(-1, keepdim=True)
    nowhere = peak == 0
    z2 = z2 / torch.where(nowhere, 1.0, peak)
    b = max(sharpness / 4, 5.0)
    odd = times(counts, z.sgn() * z2 ** (b / 2))
    square = times(counts, z2**b).sum(-1)
    return SIGN_SLOPE * odd.sum(-1) / torch.where(nowhere.squeeze(-1), 1.0, square).sqrt()
