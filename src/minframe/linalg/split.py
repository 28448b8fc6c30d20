"""Isometries of an indefinite form, reduced to two definite problems.

Let ``eta`` have p signs +1 and q signs -1. Null rows make Gram-Schmidt divide by zero, and pivoting only postpones it.
Instead the space is split, as a function of the cloud that moves with it, into a positive part V+ of dimension p and
its orthogonal complement V-, on which the form is negative. What remains is one O(p) problem for the components of the
rows in V+ and one O(q) problem for those in V-, both definite, both solved by ``linalg.qr``; nothing null is ever met,
and ``T``, whose columns are bases of V+ and V-, is an isometry at every rank.

**Total momentum.** With one time axis V+ needs only one time-like vector. The sum P of the rows is one for any two
non-collinear particles, massless or not. It is taken if it is time-like beyond rounding, and if in its rest frame

    sum_i |y_i|^2  <=  REST <P, P>

with Euclidean lengths, which are invariants there. Particles with positive energies have ``|y_i|^2 <= 2 E_i^2`` and so
a left side of at most ``2 <P, P>``: a factor of two below the bar. The bar keeps P from being chosen when it is
time-like by accident, as in a Gaussian cloud, and its rest frame is a violent boost of the cloud.

**Spectrum.** Otherwise, and for any p and q: ``S = sum_i x_i x_i^*`` moves as ``g S g^*``, and ``S eta`` by similarity.
It has the eigenvalues of the Gram matrix ``X^* eta X`` and further zeros, so they are invariants, real, and p' of them
are positive, q' negative, where (p', q') is the signature of the span. V+ is the sum of the eigenspaces of positive
eigenvalues. It does not depend on the order of the rows, and it depends on them continuously, as no eigenvalue passes
through zero while the span stays regular. With ``S = V V^*`` the eigenvectors are those of the small Hermitian matrix
``K = V^* eta V = U diag(l) U^*``:

    S eta (V u) = V K u = l (V u)      and      <V u, V u'> = u^* K u' = l delta_uu'.

V is not computed from S, which would square the condition number, but as in ``linalg.whiten``, ``V = A^T L``: harmless
however strong a boost the rows have seen.

**Free axes.** Where the span W is all of space, ``D = V U |l|^-1/2`` is T. Else ``eta - D eta D^*`` (eta restricted to
the axes taken) is what the columns of any completion C have to make up, ``C eta C^* = eta - D eta D^*``, and its
eigenvectors times the root of ``|eigenvalue|`` do.

**Null spans.** Zero eigenvalues of K within W belong to ``R``, the part of W orthogonal to W. With the columns of N a
basis of it (``N = V U`` again), each needs a partner outside W: ``M = 2 c^2 (1 - D eta D^* eta) eta N (N^* N)^-1`` has
``<N, M> = 2 c^2`` and is orthogonal to D; subtracting ``N <M, M> / 4 c^2`` makes it null, and ``(N + M) / 2 c``, ``(N -
M) / 2 c`` are unit vectors of either sign. The rows see only their sum, ``N / c``, so the pose does not depend on the
partner. (Rows that are null but for rounding would also see a little of M, amplified by the boost that brings them to
the scale ``c``. They are projected on the span first, by ``D eta D^* eta + N M^* eta / 2 c^2``.) Nothing invariant sets
the scale of a single null row, and ``c`` is 1; beside other rows it is the root of the largest eigenvalue.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.errors import check_finite, data_checks_enabled
from minframe.linalg.action import multiply
from minframe.linalg.qr import TINY
from minframe.linalg.whiten import row_basis
from minframe.ragged import Layout

REST = 4.3


@dataclass(slots=True)
class Null:
    """Where the form is degenerate on the span of the rows.

    Attributes:
        here: ``(*batch,)``, whether it is.
        loose: ``(*batch,)``, whether more than one isometry fixes the span.
        within: ``(*batch, d, d)``, the projector on the span that removes the rounding by which rows miss being null;
            1 elsewhere.
        rank: ``(*batch,)``, dimension of the span.
    """

    here: Tensor
    loose: Tensor
    within: Tensor
    rank: Tensor


@dataclass(slots=True)
class Split:
    """``T`` and what it was decided on.

    Attributes:
        matrix: ``(*batch, d, d)``, T, an isometry; the first p columns span V+.
        momentum: ``(*batch,)``, whether V+ is the direction of the total momentum; ``None`` if there is no time axis.
        null: what is known where the form may be degenerate on the span; ``None``: it is nowhere.
        margin: ``(*batch,)``, relative distance of the nearest decision from flipping.
    """

    matrix: Tensor
    momentum: Tensor | None
    null: Null | None
    margin: Tensor


def all_true(condition: Tensor) -> bool:
    """Whether it holds for all samples, if one may look; else no."""
    return data_checks_enabled() and bool(condition.all())


def negligible(cloud: Cloud) -> float:
    """The part of a sum of squares that a form may have by rounding: moved rows carry some 1e-12 of it in float64."""
    return max(16 * cloud.eps, 1e-12)


def split(cloud: Cloud, p: int, q: int) -> Split:
    """Split the space for the metric with ``p`` signs +1 and then ``q`` signs -1; no derivatives."""
    rows, layout = cloud.rows()
    size = layout.total(rows.abs().square().sum(-1, keepdim=True)).squeeze(-1)
    check_finite(size, cloud.name)
    if not data_checks_enabled():  # eigensolvers refuse NaN: let it through, and back in at the end
        rows = torch.where(rows.isfinite(), rows, 0)
    found = _split(cloud, rows, layout, p, q)
    if not data_checks_enabled():
        found.matrix = found.matrix + 0 * size[..., None, None]
    return found


def _split(cloud: Cloud, rows: Tensor, layout: Layout, p: int, q: int) -> Split:
    if min(p, q) > 1:
        return _spectral(cloud, rows, layout, p, q)
    time = 0 if p == 1 else p
    eta = _metric(p, q, rows.device)
    matrix, momentum, margin = _rest_frame(rows, layout, eta * eta[time], time, negligible(cloud))
    if all_true(momentum):
        return Split(matrix, momentum, None, margin)
    other = _spectral(cloud, rows, layout, p, q)
    matrix = torch.where(momentum[..., None, None], matrix, other.matrix)
    margin = torch.minimum(margin, torch.where(momentum, torch.inf, other.margin))
    null = other.null
    if null is not None:
        one = torch.eye(p + q, dtype=matrix.dtype, device=matrix.device)
        within = torch.where(momentum[..., None, None], one, null.within)
        null = Null(null.here & ~momentum, null.loose & ~momentum, within, null.rank)
    return Split(matrix, momentum, null, margin)


def _metric(p: int, q: int, device: torch.device) -> Tensor:
    return torch.tensor([1.0] * p + [-1.0] * q, dtype=torch.float64, device=device)


def _rest_frame(
    rows: Tensor, layout: Layout, eta: Tensor, time: int, negligible: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The boost to the rest frame of the total momentum, whether it may be taken, and the margin of that decision."""
    total = layout.total(rows)
    mass2 = (total.abs().square() * eta).sum(-1)
    timelike = mass2 > negligible * total.abs().square().sum(-1)
    mass = torch.where(timelike, mass2, 1.0).sqrt()
    axis = torch.zeros_like(total)
    axis[..., time] = 1
    safe = torch.where(timelike.unsqueeze(-1), total, axis)
    # The reflection of linalg.indefinite that exchanges the momentum and -s e_time.
    s = safe[..., time].sgn() * mass
    w = safe + s.unsqueeze(-1) * axis
    beta = 1 / (s.conj() * w[..., time]).real
    matrix = torch.diag_embed(torch.ones_like(total)) - (beta.unsqueeze(-1) * w).unsqueeze(-1) * (
        w.conj() * eta
    ).unsqueeze(-2)
    column = safe / mass.unsqueeze(-1)
    matrix = torch.where(axis.unsqueeze(-2) != 0, column.unsqueeze(-1), matrix)
    inverse = eta.unsqueeze(-1) * matrix.mH * eta
    lengths = layout.scatter(multiply(rows, layout.for_rows(inverse, rows))).diagonal(dim1=-2, dim2=-1).real.sum(-1)
    bar = REST * mass2
    margin = (lengths - bar).abs() / torch.maximum(lengths, bar.abs()).clamp_min(TINY)
    return matrix, timelike & (lengths <= bar), torch.where(timelike, margin, torch.inf)


def _spectral(cloud: Cloud, rows: Tensor, layout: Layout, p: int, q: int) -> Split:
    """The split by the signs of the eigenvalues of ``S eta``."""
    eta = _metric(p, q, rows.device)
    basis = row_basis(cloud, rows, layout)
    rank = basis.determined.sum(-1)
    v = basis.rows.mT @ basis.factor * basis.determined.unsqueeze(-2)
    signature = _signature(basis.directions, eta, negligible(cloud))
    eigenvalues, u = torch.linalg.eigh(v.mH @ (eta.unsqueeze(-1) * v))  # ascending
    slots = torch.cat([torch.arange(p + q - 1, q - 1, -1), torch.arange(q)]).to(rows.device)  # the largest come first
    order = torch.arange(p + q, device=rows.device)
    taken = torch.where(order < p, order < signature[..., :1], order - p < signature[..., 1:])
    scale = v.abs().square().sum((-2, -1)).unsqueeze(-1).clamp_min(TINY)
    signed, vu = (eigenvalues[..., slots] * eta).clamp_min(1e-16 * scale), (v @ u)[..., slots]
    nearest = (signed / scale).masked_fill(~taken, torch.inf).amin(-1)
    d = vu * (taken / torch.where(taken, signed, 1.0).sqrt()).unsqueeze(-2)
    if all_true(taken):
        return Split(refined(rows, layout, d, p, q), None, None, nearest)

    null = taken.sum(-1) < rank
    n = vu * (~taken & null.unsqueeze(-1)).unsqueeze(-2)
    c = torch.where(taken, signed, 0.0).amax(-1)[..., None, None].sqrt()
    c = torch.where(c > 0, c, 1.0)
    partner = eta.unsqueeze(-1) * n
    partner = partner - d @ (eta.unsqueeze(-1) * (d.mH @ n))
    partner = 2 * c.square() * partner @ torch.linalg.pinv(n.mH @ n, rtol=1e-10, hermitian=True)
    partner = partner - n @ (partner.mH @ (eta.unsqueeze(-1) * partner)) / (4 * c.square())
    n = n - partner @ (n.mH @ (eta.unsqueeze(-1) * n)) / (4 * c.square())  # null to the last digit
    within = (d @ (eta.unsqueeze(-1) * d.mH) + n @ partner.mH / (2 * c.square())) * eta
    within = torch.where(null[..., None, None], within, torch.eye(p + q, dtype=within.dtype, device=within.device))
    plus, minus = (n + partner) / (2 * c), (n - partner) / (2 * c)
    positive = _outer(d[..., :p]) + _outer(plus)
    negative = _outer(d[..., p:]) + _outer(minus)
    missing, completion = torch.linalg.eigh(torch.diag(eta).to(rows.dtype) - positive + negative)
    pairs = torch.where(null, rank - taken.sum(-1), 0)
    free_plus = p - taken[..., :p].sum(-1) - pairs
    free_minus = q - taken[..., p:].sum(-1) - pairs
    completion = completion * missing.abs().sqrt().unsqueeze(-2)
    positive = positive + _outer(completion * (order >= p + q - free_plus[..., None, None]))
    negative = negative + _outer(completion * (order < free_minus[..., None, None]))
    matrix = _aligned(rows, layout, torch.cat([_factor(positive, p), _factor(negative, q)], -1), p, q)
    matrix = torch.where(null[..., None, None], matrix, refined(rows, layout, matrix, p, q))
    loose = null & ~((pairs == 1) & (free_plus == 0) & (free_minus == 0))
    return Split(matrix, None, None if all_true(~null) else Null(null, loose, within, rank), nearest)


def _signature(span: Tensor, eta: Tensor, negligible: float) -> Tensor:
    """Number of positive and of negative signs of the form on the span of orthonormal columns, ``(*batch, 2)``."""
    values = torch.linalg.eigvalsh(span.mH @ (eta.unsqueeze(-1) * span))
    return torch.stack([(values > negligible).sum(-1), (values < -negligible).sum(-1)], -1)


def refined(rows: Tensor, layout: Layout, matrix: Tensor, p: int, q: int) -> Tensor:
    """One step of ``smooth`` with what rounding left of ``S-+``, and the isometry restored.

    The eigensolver is exact in units of the largest eigenvalue; this is, in those of each pair.
    """
    eta = _metric(p, q, rows.device)
    s = _scatter(rows, layout, matrix, eta)
    matrix = matrix @ _tilt(_slope(s, s[..., p:, :p], p, q))
    # Newton's step towards the nearest isometry.
    gram = matrix.mH @ (eta.unsqueeze(-1) * matrix)
    return matrix @ (1.5 * torch.eye(p + q, dtype=matrix.dtype, device=matrix.device) - 0.5 * eta.unsqueeze(-1) * gram)


def _aligned(rows: Tensor, layout: Layout, matrix: Tensor, p: int, q: int) -> Tensor:
    """The same split with bases in which S++ and S-- are diagonal, so that free axes are told from others."""
    s = _scatter(rows, layout, matrix, _metric(p, q, rows.device))
    _, plus = torch.linalg.eigh(s[..., :p, :p])
    _, minus = torch.linalg.eigh(s[..., p:, p:])
    return torch.cat([matrix[..., :p] @ plus, matrix[..., p:] @ minus], -1)


def _scatter(rows: Tensor, layout: Layout, matrix: Tensor, eta: Tensor) -> Tensor:
    """S in the coordinates ``T^-1 x``."""
    return layout.scatter(multiply(rows, layout.for_rows(eta.unsqueeze(-1) * matrix.mH * eta, rows)))


def _outer(columns: Tensor) -> Tensor:
    return columns @ columns.mH


def _factor(square: Tensor, rank: int) -> Tensor:
    """Columns ``f`` ``(*batch, d, rank)`` with ``f f^* = square``."""
    values, vectors = torch.linalg.eigh(square)
    last = slice(square.shape[-1] - rank, None)
    return vectors[..., last] * values[..., last].clamp_min(0).sqrt().unsqueeze(-2)


def smooth(cloud: Cloud, found: Split, p: int, q: int) -> Tensor:
    """An isometry that is 1, and by which ``found.matrix`` has to be multiplied to have the derivatives of T.

    In the coordinates ``y = T^-1 x`` the positive part is spanned by the columns of ``(1, Y)`` with Y = 0, but for a
    change of the rows. If it is the direction of the total momentum, Y is the ratio of its components. Else ``(1, Y)``
    has to stay invariant under ``S eta``, with S in the blocks ``S++``, ``S+-``, ``S-+`` and ``S--``:

        S-+ - S-- Y = Y (S++ - S+- Y),

    a linear equation but for the last term, which is of third order, so that two steps of iteration give derivatives of
    every order in use. It is regular as S++ and S-- are positive; eigenvectors are not differentiated.
    """
    rows, layout = cloud.rows()
    eta = _metric(p, q, rows.device)
    y = multiply(rows, layout.for_rows(eta.unsqueeze(-1) * found.matrix.mH * eta, rows))
    s = layout.scatter(y)
    mixed = s[..., p:, :p] - s[..., p:, :p].detach()
    if found.null is not None:  # nothing smooth to follow there
        mixed = torch.where(found.null.here[..., None, None], 0.0, mixed)
    slope = _slope(s, mixed, p, q)
    if found.momentum is not None:
        total = layout.total(y)
        time = total[..., :1] if p == 1 else total[..., p:]
        time = torch.where(found.momentum.unsqueeze(-1), time, 1.0)
        ratio = (total[..., 1:] / time).unsqueeze(-1) if p == 1 else (total[..., :p] / time).conj().unsqueeze(-2)
        slope = torch.where(found.momentum[..., None, None], ratio - ratio.detach(), slope)
    return _tilt(slope)


def _slope(s: Tensor, mixed: Tensor, p: int, q: int) -> Tensor:
    """Y, ``(*batch, q, p)``, with ``mixed`` in the place of ``S-+``."""
    one_p, one_q = torch.eye(p, dtype=s.dtype, device=s.device), torch.eye(q, dtype=s.dtype, device=s.device)
    system = torch.einsum("...ij,ab->...iajb", s[..., p:, p:], one_p)
    system = system + torch.einsum("ij,...ba->...iajb", one_q, s[..., :p, :p])
    system = system.flatten(-2).flatten(-3, -2)
    size = s.detach().diagonal(dim1=-2, dim2=-1).real.sum(-1)[..., None, None]
    small = 1e-22 * torch.where(size > 0, size, 1.0)  # for pairs of axes that are both free
    system = system + small * torch.eye(p * q, dtype=s.dtype, device=s.device)
    unit = system.detach().diagonal(dim1=-2, dim2=-1).real.rsqrt().unsqueeze(-1)  # rows may differ a lot in length
    system = unit * system * unit.mT
    slope = torch.zeros_like(mixed)
    for _ in range(2):
        right = (mixed + slope @ mixed.mH @ slope).flatten(-2).unsqueeze(-1)
        slope = (unit * torch.linalg.solve(system, unit * right)).reshape(mixed.shape)
    return slope


def _tilt(slope: Tensor) -> Tensor:
    """The isometry whose first columns span those of ``(1, Y)``."""
    q, p = slope.shape[-2:]
    one_p, one_q = (torch.eye(k, dtype=slope.dtype, device=slope.device) for k in (p, q))
    up = torch.cat([one_p.expand(*slope.shape[:-2], p, p), slope], -2)
    down = torch.cat([slope.mH, one_q.expand(*slope.shape[:-2], q, q)], -2)
    up = up @ torch.linalg.inv(torch.linalg.cholesky(one_p - slope.mH @ slope)).mH
    return torch.cat([up, down @ torch.linalg.inv(torch.linalg.cholesky(one_q - slope @ slope.mH)).mH], -1)
