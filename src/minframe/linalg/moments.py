"""Moments of a cloud, which compete with its rows for the axes of a smooth frame where too many rows do.

In a ball or a shell hundreds of rows are nearly longest, and rows alone would give as many poses (``linalg.soft``).
With shares ``p_i`` of the rows and the number of those that are nearly longest, ``N = 1 / sum_i p_i^2``, *moments* join
them: sums ``v = sum_i f_i y_i`` over what is left of the rows, with invariant ``f_i`` of unit norm, so that v is about
as long as a row if the ``f_i y_i`` are like a random walk. With u the length of v over that of the longest rows and n
the number of all rows, moments have the shares, relative to all rows together, on the third line:

    c = ramp((n - MAX_ROWS_ALONE) / (MIN_ROWS_FULL - MAX_ROWS_ALONE)) (1 - 1 / N)^2,
    c MAX_ADVANTAGE e / (MAX_ADVANTAGE + sum of all e),
    e = ramp(2 u / b - 1) exp(a / (1 + a / MAX_SHARPNESS) (u - b)),   b = BAR / (1 + (N / NEAR_HALF)^2)^(1/2) + MIN_BAR.

A moment wins if u exceeds the bar b. In generic clouds one then wins alone; in symmetric ones all are zero, and rows
carry the frame. A moment turns faster than a row as far as it is shorter, so it has to be nearly as long as a row to
win, and may be shorter only where rows are many. The rest keeps the shares from changing faster than those of rows do.
log N changes up to 2 a times as fast as the logarithm of a length. So b falls slowly with it, and the exponent is
linear in u - b with a slope that stays bounded: with the slope a, shares would change as fast as a^2. For the same
reason c, which keeps moments out where one row is alone, has no foot: in a ramp a moment far above the bar would win
where the ramp has just begun, and log c is steep there. The cap on the advantage over rows keeps that point from N = 1.

A molecule has few rows that are nearly longest, and they are long levers. Moments would halve its poses and more than
double the slope, and forces would be learned worse. So clouds of up to ``MAX_ROWS_ALONE`` rows have rows alone,
exactly: the number of rows is an invariant that no motion changes, and the first ramp is constant along every path.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.linalg.ramp import ramp

MAX_ROWS_ALONE, MIN_ROWS_FULL = 40, 60  # rows of a cloud up to which moments have no share, and from which on all of it
BAR, MIN_BAR, NEAR_HALF = 0.6, 0.05, 5.0  # the bar among few rows, among many, and the N at which it has come down
MAX_SHARPNESS = 26.0  # bound on the sharpness with which moments compete
MAX_ADVANTAGE = 12.0  # bound on the share of all moments over the share of all rows
SMOOTHING_LENGTH = 0.01  # relative length of a moment below which its length is smoothed, to be differentiable at zero
MIN_ANISOTROPY = 0.3  # anisotropy, in units of that of a random cloud, below which the quadrupole fades
MIN_SPREAD = 0.1  # spread of the ``f_i`` below which they fade, as they are nearly constant
WAVE_NUMBER = 7.0  # of the moment along an axis, in radians per length of the longest row


@dataclass(slots=True)
class Context:
    """Properties of the rows that do not change from step to step.

    Attributes:
        real: ``(K, n)``, one for real rows, zero for padding, whose coordinates are zero.
        lengths2: ``(K, n)``, squared lengths over that of the nearly longest row.
        unit: ``(K,)``, the length of the nearly longest row.
    """

    real: Tensor
    lengths2: Tensor
    unit: Tensor

    @classmethod
    def of(cls, r2: Tensor, p: Tensor, real: Tensor) -> Context:
        """For the squared lengths of rows and their shares."""
        unit2 = (p * r2).sum(-1)
        unit2 = torch.where(unit2 > 0, unit2, 1.0)
        return cls(real, r2 / unit2.unsqueeze(-1), unit2.sqrt())

    def take(self, parent: Tensor) -> Context:
        return Context(self.real[parent], self.lengths2[parent], self.unit[parent])


def joined(p: Tensor, u2: Tensor, n: Tensor, sharpness: float) -> Tensor:
    """The shares of rows ``(K, n)`` and of moments, given the squares of ``u`` ``(K, M)``; zero if ``p`` is."""
    s = p.square().sum(-1, keepdim=True)
    near = 1 / torch.where(s > 0, s, 1.0)
    large = ramp((n - MAX_ROWS_ALONE) / (MIN_ROWS_FULL - MAX_ROWS_ALONE))
    gate = large * (1 - s).square()
    u = (u2 + SMOOTHING_LENGTH**2).sqrt() - SMOOTHING_LENGTH
    bar = BAR / (1 + (near / NEAR_HALF).square()).sqrt() + MIN_BAR
    logits = sharpness / (1 + sharpness / MAX_SHARPNESS) * (u - bar)
    top = logits.detach().amax(-1, keepdim=True).clamp_min(-500)  # a common factor, so that nothing overflows
    e = ramp(2 * u / bar - 1) * (logits - top).exp()
    rivals = gate * MAX_ADVANTAGE * e / (MAX_ADVANTAGE * (-top).exp() + e.sum(-1, keepdim=True))
    both = torch.cat([p, rivals * (s > 0)], -1)
    total = both.sum(-1, keepdim=True)
    return both / torch.where(total > 0, total, 1.0)


def moments(y: Tensor, fixed: Tensor | None, context: Context) -> Tensor:
    """Vectors ``(K, M, m)`` that move with the rows ``y`` ``(K, n, m)``, about as long as they in a cloud of any size.

    At the first step: the sum of the rows as they are, which is zero in clouds about their mean; with their squared
    lengths, which is zero in thin shells; and with a quadrupole. That is ``y_i^* S y_i`` with S the traceless part of
    the scatter matrix, over its size, which is about ``n^-1/2`` in a random cloud; if it is far below, the cloud is
    symmetric, and the moment fades. Later steps know the coordinates ``fixed`` ``(K, n)`` that were fixed last, and
    take these, their squares and a wave along them instead.
    """
    n = context.real.sum(-1, keepdim=True)
    factors = [_standardised(context.lengths2, n, context.real)]
    if fixed is None:
        factors.append(context.real / n.sqrt())
        z = y / context.unit[:, None, None]
        scatter = z.mT @ z.conj()
        trace = scatter.diagonal(dim1=-2, dim2=-1).real.sum(-1)[:, None, None]
        scatter = scatter / torch.where(trace > 0, trace, 1.0)
        scatter = scatter - torch.eye(y.shape[-1], dtype=y.dtype, device=y.device) / y.shape[-1]
        size2 = scatter.abs().square().sum((-2, -1)).unsqueeze(-1) + MIN_ANISOTROPY**2 / n
        quadrupole = ((z @ scatter.mT) * z.conj()).sum(-1).real / size2.sqrt()
        factors.append(_standardised(quadrupole, n, context.real))
    else:
        s = fixed / context.unit.unsqueeze(-1)
        square = (s * s.conj()).real
        wave = torch.sin(WAVE_NUMBER * (s.real if s.is_complex() else s))
        factors.append(s / (square.sum(-1, keepdim=True) + MIN_SPREAD**2 * n).sqrt())
        factors.append(_standardised(square, n, context.real))
        factors.append(wave / (wave.square().sum(-1, keepdim=True) + MIN_SPREAD**2 * n).sqrt())
    return torch.stack([f.to(y.dtype) for f in factors], -2) @ y


def _standardised(f: Tensor, n: Tensor, real: Tensor) -> Tensor:
    """``f`` ``(K, n)``, of order one, minus its mean and divided by its norm; fading where it is nearly constant."""
    f = (f - (f * real).sum(-1, keepdim=True) / n) * real
    return f / (f.square().sum(-1, keepdim=True) + MIN_SPREAD**2 * n).sqrt()
