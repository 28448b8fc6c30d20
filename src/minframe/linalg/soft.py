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
|z_i|^2b)^(1/2)`` they have the weights ``ramp((1 +- TURN m) / 2)``. For U(d) the phase is open: rows carry that too.

**Compact clouds.** In a ball or a shell hundreds of rows are nearly longest. With ``N = 1 / sum_j p_j^2``, which is how
many, and n rows in all, *moments* join the rows: sums ``v = sum_i f_i y_i`` over what is left of the rows, with
invariant ``f_i`` of unit norm, so that v is about as long as a row if the ``f_i y_i`` are like a random walk. With u
the length of v over that of the longest rows, moments have the shares, relative to all rows together,

    ramp((n - SMALL) / (LARGE - SMALL))  ramp(log(N / FEW) / log(SEVERAL / FEW))  CAP e / (CAP + sum of all e),
    e = ramp(2 u / b - 1) exp(a (u - b)),      b = LONG / (1 + (N / MANY)^2)^(1/2) + SHORTEST.

A moment wins if u exceeds b. In generic clouds one then wins alone; in symmetric ones all are zero, and rows carry the
frame. A moment turns faster than a row as far as it is shorter, so it has to be nearly as long as a row to win, and may
be shorter only where rows are many. The rest keeps the shares from changing faster than those of rows do: the exponent
is linear in u; N, whose logarithm changes as a times that of lengths, enters gently; and the advantage over rows is
capped, as else it would be decided at the foot of the first ramp, which is steep there. See ``_moments`` for ``f_i``.

A molecule has few rows that are nearly longest, and they are long levers. Moments would halve its poses and more than
double the slope, and forces would be learned worse. So clouds of up to ``SMALL`` rows have rows alone, exactly: the
number of rows is an invariant that no motion changes, and the first ramp is a constant along every path.

**How.** First, without derivatives, the tree of poses is grown step by step, as flat lists over the batch: the rows of
every pose are reflected (Householder, see ``linalg.qr``), so that coordinates are exact to rounding at any rank. Then,
if derivatives are wanted, each pose is written in its own basis, where the tuple is triangular already and Gram-Schmidt
subtracts nothing but zeros: values stay, and derivatives of any order are those of the decomposition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

TURN = 4.0
SMALL, LARGE = 40, 60  # rows of a cloud up to which moments have no share, and from which on they have all of it
FEW, SEVERAL, MANY = 1.5, 4.0, 5.0
WAVE = 7.0
LONG = 0.75
SHORTEST = 0.05
CAP = 20.0
SOFT = 0.01  # what rounds off the length of a moment at zero
FLAT = 0.7  # of ramps: at 1 the middle is a third steeper, and below 0.6 the shoulders bend more than it is worth
CUT = 1 / 64  # exp(-64 FLAT) = 3e-20: where ramps end early, nothing that float64 could see is lost
LIMIT = 50_000  # poses of a sample
DROPPED = 1e-17  # poses of less weight: their sum is below the rounding of one
ROUND = 0.3  # anisotropies, in units of what is random, below which they stop to count
THIN = 0.1  # spreads of lengths, relative to the longest, below which they stop to count


@dataclass(frozen=True, slots=True)
class Rule:
    """How poses are chosen.

    Attributes:
        sharpness: the exponent a.
        special: the last axis follows from the determinant.
        moments: let moments compete where too many rows do.
    """

    sharpness: float
    special: bool
    moments: bool = True

    def steps(self, d: int, complex: bool) -> int:
        """Number of axes that rows are chosen for."""
        return d if complex and not self.special else d - 1


@dataclass(slots=True)
class Poses:
    """``K`` poses of all samples, those of each sample together.

    Attributes:
        sample: ``(K,)``, ascending.
        basis: ``(K, d, d)``, orthonormal columns.
        weight: ``(K,)``, of each sample adding up to one.
        chosen: ``(K, steps)``, the row of each step; moments follow the rows.
        gone: ``(K, d)``, where nothing was left to choose from.
        length2: ``(K, d)``, mean squared length of what was left of the nearly longest rows at each step.
    """

    sample: Tensor
    basis: Tensor
    weight: Tensor
    chosen: Tensor
    gone: Tensor
    length2: Tensor


def ramp(t: Tensor) -> Tensor:
    """Zero up to 0, one from 1 on, with all derivatives: ``h(t) / (h(t) + h(1 - t))`` with ``h(t) = exp(-FLAT / t)``.

    Its largest slope is 1.53. Between two rows the weights then change at most 1.5 times as fast as on a straight line
    of the same width, where FLAT = 1, the common choice, has 1.9 and no less curvature.
    """
    inside = t.clamp(CUT, 1 - CUT)
    rise = torch.sigmoid(FLAT * (1 / (1 - inside) - 1 / inside))
    return torch.where(t <= CUT, 0.0, torch.where(t >= 1 - CUT, 1.0, rise))


def shares(r2: Tensor, sharpness: float) -> Tensor:
    """``p_i`` for squared lengths ``(K, n)``; zero if all are."""
    peak = r2.detach().amax(-1, keepdim=True)
    powers = (r2 / torch.where(peak > 0, peak, 1.0)) ** (sharpness / 2)
    return powers / torch.where(peak > 0, powers.sum(-1, keepdim=True), 1.0)


def weights(p: Tensor) -> Tensor:
    """``w_i`` for shares ``(K, n)``; zero if all are."""
    s = p.square().sum(-1, keepdim=True)
    s = torch.where(s > 0, s, 1.0)
    w = p * ramp(2 * p / s - 1)
    total = w.sum(-1, keepdim=True)
    return w / torch.where(total > 0, total, 1.0)


def _squares(y: Tensor) -> Tensor:
    """Squared lengths of vectors."""
    return (torch.view_as_real(y).square().sum(-1) if y.is_complex() else y.square()).sum(-1)


@dataclass(slots=True)
class _Context:
    """What the rows are, whatever is left of them.

    Attributes:
        real: ``(K, n)``, one for real rows, zero for padding, whose coordinates are zero.
        lengths2: ``(K, n)``, squared lengths over that of the nearly longest row.
        unit: ``(K,)``, the length of that.
    """

    real: Tensor
    lengths2: Tensor
    unit: Tensor

    @classmethod
    def of(cls, rows: Tensor, real: Tensor, rule: Rule) -> _Context:
        r2 = _squares(rows)
        unit2 = (shares(r2, rule.sharpness) * r2).sum(-1)
        unit2 = torch.where(unit2 > 0, unit2, 1.0)
        return cls(real, r2 / unit2.unsqueeze(-1), unit2.sqrt())

    def take(self, parent: Tensor) -> _Context:
        return _Context(self.real[parent], self.lengths2[parent], self.unit[parent])


def _choice(y: Tensor, fixed: Tensor | None, context: _Context, rule: Rule) -> tuple[Tensor, Tensor, Tensor | None]:
    """The weights of one step, ``(K, n)`` or with the moment behind the rows ``(K, n + 1)``; ``l^2``; the moment.

    ``y`` ``(K, n, m)``: what is left of the rows; ``fixed`` ``(K, n)``: the coordinate that was fixed last.
    """
    r2 = _squares(y)
    p = shares(r2, rule.sharpness)
    length2 = (p * r2).sum(-1)
    if not rule.moments or y.shape[-2] <= SMALL:
        return weights(p), length2, None
    moments = _moments(y, fixed, context)
    u2 = _squares(moments) / torch.where(length2 > 0, length2, 1.0).unsqueeze(-1)
    joined = _joined(p, u2, context.real.sum(-1, keepdim=True), rule.sharpness)
    return weights(joined), length2, moments


def _joined(p: Tensor, u2: Tensor, n: Tensor, sharpness: float) -> Tensor:
    """The shares of rows ``(K, n)`` and of moments, given the squares of ``u`` ``(K, M)``; zero if ``p`` is."""
    s = p.square().sum(-1, keepdim=True)
    number = 1 / torch.where(s > 0, s, 1.0)
    gate = ramp((n - SMALL) / (LARGE - SMALL)) * ramp((number / FEW).log() / math.log(SEVERAL / FEW))
    u = (u2 + SOFT**2).sqrt() - SOFT
    bar = LONG / (1 + (number / MANY).square()).sqrt() + SHORTEST
    logits = sharpness * (u - bar)
    top = logits.detach().amax(-1, keepdim=True).clamp_min(-500)  # a common factor, lest anything overflow
    e = ramp(2 * u / bar - 1) * (logits - top).exp()
    rivals = gate * CAP * e / (CAP * (-top).exp() + e.sum(-1, keepdim=True))
    joined = torch.cat([p, rivals * (s > 0)], -1)
    total = joined.sum(-1, keepdim=True)
    return joined / torch.where(total > 0, total, 1.0)


def _moments(y: Tensor, fixed: Tensor | None, context: _Context) -> Tensor:
    """A vector ``(K, m)`` that moves with the rows, about as long as they are in a generic cloud of any size.

    It is a sum of moments of unit norm: of the rows as they are, which is zero in clouds about their mean; with their
    squared lengths, which is in thin shells; and of a quadrupole. That is ``y_i^* S y_i`` with S the traceless part of
    the scatter matrix, over its size, which is about ``n^-1/2`` in a random cloud; if it is far below, the cloud is
    symmetric, and the moment fades. Later steps know the coordinate ``s_i`` that was fixed last, and take it and its
    square instead.
    """
    n = context.real.sum(-1, keepdim=True)
    parts = [_unit(context.lengths2, n, context.real)]
    if fixed is None:
        parts.append(context.real / n.sqrt())
        z = y / context.unit[:, None, None]
        scatter = z.mT @ z.conj()
        trace = scatter.diagonal(dim1=-2, dim2=-1).real.sum(-1)[:, None, None]
        scatter = scatter / torch.where(trace > 0, trace, 1.0)
        scatter = scatter - torch.eye(y.shape[-1], dtype=y.dtype, device=y.device) / y.shape[-1]
        size2 = scatter.abs().square().sum((-2, -1)).unsqueeze(-1) + ROUND**2 / n
        quadrupole = ((z @ scatter.mT) * z.conj()).sum(-1).real / size2.sqrt()
        parts.append(_unit(quadrupole, n, context.real))
    else:
        s = fixed / context.unit.unsqueeze(-1)
        parts.append(s / (_squares(s.unsqueeze(-1)).sum(-1, keepdim=True) + THIN**2 * n).sqrt())
        parts.append(_unit(_squares(s.unsqueeze(-1)), n, context.real))
        wave = torch.sin(WAVE * (s.real if s.is_complex() else s))
        parts.append(wave / (wave.square().sum(-1, keepdim=True) + THIN**2 * n).sqrt())
    return torch.stack([f.to(y.dtype) for f in parts], -2) @ y


def _unit(f: Tensor, n: Tensor, real: Tensor) -> Tensor:
    """``f`` ``(K, n)``, of order one, less its mean and over its norm; fading where it is all but constant."""
    f = (f - (f * real).sum(-1, keepdim=True) / n) * real
    return f / (f.square().sum(-1, keepdim=True) + THIN**2 * n).sqrt()


def _signs(z: Tensor, sharpness: float) -> Tensor:
    """``(TURN m)`` for the coordinates ``(K, n)`` along the last axis; zero if all are."""
    z2 = z.square()
    peak = z2.detach().amax(-1, keepdim=True)
    nowhere = peak == 0
    z2 = z2 / torch.where(nowhere, 1.0, peak)
    b = max(sharpness / 4, 5.0)
    odd = z.sgn() * z2 ** (b / 2)
    square = (z2**b).sum(-1)
    return TURN * odd.sum(-1) / torch.where(nowhere.squeeze(-1), 1.0, square).sqrt()


def _reflect(y: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Rows ``(K, n, m)`` in coordinates in which ``v`` ``(K, m)`` lies on the first axis; the determinant ``(K,)``."""
    norm = v.abs().square().sum(-1).sqrt()
    head = v[:, 0]
    phase = torch.where(head == 0, 1.0, head.sgn())
    w = torch.cat([(head + phase * norm).unsqueeze(-1), v[:, 1:]], -1)
    half = norm * (head.abs() + norm)
    c = y @ w.conj().unsqueeze(-1) / half[:, None, None]
    y = torch.addcmul(y, c, w.unsqueeze(-2), value=-1)
    y[..., 0] *= -phase.conj().unsqueeze(-1)
    return y, phase.conj()


def soft_poses(rows: Tensor, real: Tensor, rule: Rule, noise: Tensor) -> Poses:
    """The poses of clouds ``(B, n, d)``, whose padding is zero, without derivatives.

    ``real`` ``(B, n)``: one for real rows, zero for padding. ``noise`` ``(B,)``: rows that are shorter are rounding.
    """
    b, n, d = rows.shape
    identity = torch.eye(d, dtype=rows.dtype, device=rows.device).expand(b, d, d)
    left = torch.cat([rows, identity], -2)
    context = _Context.of(rows, real, rule)
    sample = torch.arange(b, device=rows.device)
    weight = torch.ones(b, dtype=torch.float64, device=rows.device)
    det = torch.ones(b, dtype=rows.dtype, device=rows.device)
    columns = rows.new_empty(b, d, 0)
    chosen = torch.empty(b, 0, dtype=torch.int64, device=rows.device)
    gone = torch.empty(b, 0, dtype=torch.bool, device=rows.device)
    lengths = torch.empty(b, 0, dtype=torch.float64, device=rows.device)
    fixed = None
    for _ in range(rule.steps(d, rows.is_complex())):
        y = left[:, :n]
        w, length2, moments = _choice(y, fixed, context, rule)
        nothing = length2 <= noise[sample].square()
        w = torch.where(nothing.unsqueeze(-1), 0.0, w)
        w[:, 0] = torch.where(nothing, 1.0, w[:, 0])
        parent, row = (w * weight.unsqueeze(-1) > DROPPED).nonzero(as_tuple=True)
        _check_number(sample[parent], b)
        v = (y if moments is None else torch.cat([y, moments], -2))[parent, row]
        first = torch.zeros_like(v[:1])
        first[:, 0] = 1
        v = torch.where(nothing[parent].unsqueeze(-1), first, v)
        left, turn = _reflect(left[parent], v)
        fixed, columns = left[:, :n, 0], torch.cat([columns[parent], left[:, n:, :1]], -1)
        sample, weight, det = sample[parent], (weight[parent] * w[parent, row]), det[parent] * turn
        context = context.take(parent)
        chosen = torch.cat([chosen[parent], row.unsqueeze(-1)], -1)
        gone = torch.cat([gone[parent], nothing[parent].unsqueeze(-1)], -1)
        lengths = torch.cat([lengths[parent], length2[parent].unsqueeze(-1)], -1)
        left = left[..., 1:]
    if left.shape[-1]:
        axis, length2 = left[:, n:], (shares(_squares(left[:, :n]), rule.sharpness) * _squares(left[:, :n])).sum(-1)
        lengths, nothing = torch.cat([lengths, length2.unsqueeze(-1)], -1), length2 <= noise[sample].square()
        gone = torch.cat([gone, nothing.unsqueeze(-1)], -1)
        if rule.special:
            columns = torch.cat([columns, axis * det.conj()[:, None, None]], -1)
        else:
            m = _signs(left[:, :n, 0], rule.sharpness)
            m = torch.where(nothing, 1.0, m)
            pairs = torch.stack([m, -m], -1)
            w = ramp((1 + pairs) / 2)
            parent, sign = (w * weight.unsqueeze(-1) > DROPPED).nonzero(as_tuple=True)
            turned = axis[parent] * torch.where(sign == 0, 1.0, -1.0)[:, None, None]
            columns = torch.cat([columns[parent], turned], -1)
            sample, weight, lengths = sample[parent], weight[parent] * w[parent, sign], lengths[parent]
            chosen, gone = chosen[parent], gone[parent]
    return Poses(sample, columns.conj().resolve_conj(), weight, chosen, gone, lengths)


def _check_number(sample: Tensor, count: int) -> None:
    """Refuse samples whose symmetry is beyond all bounds, such as solids in eight dimensions."""
    if len(sample) > LIMIT and int((number := torch.bincount(sample, minlength=count)).max()) > LIMIT:
        raise ValueError(
            f"sample {int(number.argmax())} of {count} has more than {LIMIT} poses, and more than any backbone will go "
            "through: its symmetry is too large for a smooth frame, which has a pose for each element of it. Use "
            "mf.frames.Minimal(), which averages over symmetries in closed form, or a larger sharpness"
        )


def differentiable_poses(rows: Tensor, real: Tensor, rule: Rule, found: Poses) -> Poses:
    """``found``, the poses of clouds ``(B, n, d)``, as smooth functions of the rows.

    In the coordinates of its own basis each chosen vector has no component behind its axis, so that Gram-Schmidt
    subtracts what is there anyway: values stay, to rounding, and derivatives are those of the decomposition. Axes that
    no row carries enter as constants.
    """
    d = rows.shape[-1]
    y = rows[found.sample] @ found.basis.conj()
    real, kept = real[found.sample], found.chosen.unsqueeze(-1)
    context = _Context.of(y, real, rule)
    weight = torch.ones_like(found.weight)
    one = torch.eye(d, dtype=rows.dtype, device=rows.device)
    axes: list[Tensor] = []
    lengths: list[Tensor] = []
    fixed = None
    for k in range(found.chosen.shape[-1]):
        w, length2, moments = _choice(y, fixed, context, rule)
        gone = found.gone[:, k]
        weight = weight * torch.where(gone, 1.0, w.gather(-1, kept[:, k]).squeeze(-1))
        candidates = y if moments is None else torch.cat([y, moments], -2)
        v = candidates.gather(-2, kept[:, k, :, None].expand(-1, -1, d)).squeeze(-2)
        v = torch.where(gone.unsqueeze(-1), one[k], v)
        axes.append(_completed(v, axes))
        fixed = (y @ axes[-1].conj().unsqueeze(-1)).squeeze(-1)
        y = y - fixed.unsqueeze(-1) * axes[-1].unsqueeze(-2)
        lengths.append(length2)
    if len(axes) < d:
        axes.append(_completed(one[-1].expand(len(y), d), axes))
        z = (y @ axes[-1].conj().unsqueeze(-1)).squeeze(-1)
        z2 = _squares(z.unsqueeze(-1))
        lengths.append((shares(z2, rule.sharpness) * z2).sum(-1))
        if not rule.special:
            w = ramp((1 + _signs(z, rule.sharpness)) / 2)
            weight = weight * torch.where(found.gone[:, -1], 1.0, w)
    basis = torch.stack(axes, -1)
    if rule.special and rows.is_complex():  # the last phase is what the others leave of the determinant
        last = torch.linalg.det(basis).conj()[:, None, None]
        basis = torch.cat([basis[..., :-1], basis[..., -1:] * last], -1)
    return Poses(found.sample, found.basis @ basis, weight, found.chosen, found.gone, torch.stack(lengths, -1))


def _completed(v: Tensor, axes: list[Tensor]) -> Tensor:
    """``v`` ``(K, d)`` less its components along the axes, of length one."""
    for axis in axes:
        v = v - axis * (axis.conj() * v).sum(-1, keepdim=True)
    return v / _squares(v).sqrt().unsqueeze(-1)
