"""The split of ``linalg.split`` by the spectrum of all rows, for any p and q and any rank.

``S = sum_i x_i x_i^*`` moves as ``g S g^*``, and ``S eta`` by similarity. It has the eigenvalues of the Gram matrix
``X^* eta X`` and further zeros, so they are invariants, real, and p' of them are positive, q' negative, where (p', q')
is the signature of the span. V+ is the sum of the eigenspaces of positive eigenvalues. It does not depend on the order
of the rows, and it depends on them continuously, as no eigenvalue passes through zero while the span stays regular.
With ``S = V V^*`` the eigenvectors are those of the small Hermitian matrix ``K = V^* eta V = U diag(l) U^*``:

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
partner. Nothing invariant sets the scale of a single null row: ``c`` is a constant, ``LONE``; beside other rows it is
the root of the largest eigenvalue. The pose of a single massive row, ``(m, 0, ..., 0)``, tends to 0 with its mass, so
that of a null row should be as near to 0 as it can be: then it hardly matters to an invariant output which of the two a
row counts as. Vectors that do not tend to 0 with the pose are enlarged by ``|N| / c`` on the way back, as they are by
``E / m`` if there is a mass. ``LONE`` is about the smallest ``m / E`` that counts in float64, the root of ``massless``:
such vectors are not enlarged further by the null row than by the lightest massive ones. A boost from the scale of N to
``c`` would swamp M, or the rounding by which rows miss being null. So T is made at the scale of N, and the rows are
projected on the span and brought to the scale ``c`` by ``D eta D^* eta + (c / |N|) N M^* eta / 2``, which takes no
large numbers unless D does: the eigenvectors of a thin cloud are multiples of N but for a small part. So rows are
written as ``x = G z`` with ``G = (D, N)``, by substitution (``linalg.columns``), and their coordinates are those of G,
which are harmless, times z. The way back is G times the inverse of these.

**What is known.** The rows carry errors of ``noise`` times their length, in any direction: S is ``V V^*`` with errors
``noise |V|`` of V, and an eigenvalue has one of ``2 <V u, dV u>``, of up to ``noise |V u| |V|`` (Euclidean lengths). In
a thin cloud far from null, ``l = |V u|^2``, so that directions are known down to a thickness of ``noise``; in a boosted
or nearly null one ``|V u|`` is as large as ``|V|``, and squares are known down to ``noise |V|^2`` only. Where an
eigenvalue is not known, it is no axis: its sign would be that of rounding. The thinnest direction of the rows is then
left out, and the rest looked at again; what is lost is its thickness, the opening of a jet. Beside a null vector N
directions are defined up to multiples of N, and their squares count from ``COARSE noise |V|^2`` on: below that, a jet
is a null line.

**Derivatives and refinement.** Let ``y = T^-1 x`` and S, in these coordinates, have the blocks ``S++``, ``S+-``,
``S-+`` and ``S--``. The columns of ``(1, Y)`` span an invariant subspace of ``S eta`` if

    S-+ - S-- Y = Y (S++ - S+- Y),

a linear equation for Y but for the last term, which is of third order where ``S-+`` is zero: two steps of iteration
give derivatives of every order in use. It is regular as S++ and S-- are positive. With what rounding left of ``S-+``,
one step of it also makes T exact in units of each pair of axes; the eigensolver is, in units of the largest eigenvalue.

**One time axis.** Let S have the blocks a (time), b and C (space). The equation above is ``Y = (C + l)^-1 b`` with
``l = a - b^* Y``, the only eigenvalue whose vector is time-like. If S is near enough to white to be used as it is,
Newton's steps find l, and Y, faster than an eigensolver. It is the largest root of

    f(l) = l - a + b^* (C + l)^-1 b,      f' = 1 - |Y|^2,      0 <= f'' / 2 = Y^* (C + l)^-1 Y <= 1 / l,

convex and with ``f(a) >= 0``: the steps from a descend to it, and one of length h leaves ``(h / l)^2 / (1 - |Y|^2)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.checks import all_true, readable
from minframe.layout import Layout
from minframe.linalg.action import behind_batch
from minframe.linalg.choice import rank_margin
from minframe.linalg.columns import Columns
from minframe.linalg.qr import TINY
from minframe.linalg.rows import Precision
from minframe.linalg.whiten import Basis, row_basis

LONE = 2.0**-20  # the scale of a null row, or of several on one line, in the canonical pose
EVEN = 1e-3  # of the longest eigenvector: the shortest for which the eigensolver's own errors are small enough
SWEEPS = 3  # of Jacobi's rotations after the eigensolver; they converge quadratically
CLEAR = 0.1  # of its square: the form of a line that is not known is that of rounding, so the line is too, not null
COARSE = 64.0  # times rounding: what squares have to be to be known beside a null vector


@dataclass(slots=True)
class Null:
    """Where the form is degenerate on the span of the rows.

    Attributes:
        here: ``(*batch,)``, whether it is.
        loose: ``(*batch,)``, whether more than one isometry fixes the span.
        inward: ``(*batch, d, d)``, what the rows are multiplied with before ``T^-1``: the projector on the span that
            removes the rounding by which they miss being null, and brings null vectors to the scale ``c``; else 1.
        outward: its inverse on the span; 1 elsewhere.
        boost: the isometry that does the same as ``outward`` for null vectors, and undoes it for their partners.
        rank: ``(*batch,)``, dimension of the span.
        span: ``(*batch, d, d)``, G, and columns of zeros.
        coordinates: ``(*batch, d, d)``, of G, after ``inward``: ``T^-1 inward G``; and columns of zeros.
        back: ``(*batch, d, d)``, G times the inverse of these: from coordinates in T to the rows.
        projector: ``(*batch, d, d)``, the Euclidean one on the coordinates of the span.
    """

    here: Tensor
    loose: Tensor
    inward: Tensor
    outward: Tensor
    boost: Tensor
    rank: Tensor
    span: Tensor
    coordinates: Tensor
    back: Tensor
    projector: Tensor

    def columns(self, bases: Tensor | None = None) -> Columns:
        """What gives the coordinates of rows, in T times ``bases`` ``(*batch, d, d)``, a unitary matrix."""
        after = self.coordinates if bases is None else bases.mH @ self.coordinates
        return Columns.of(self.span, (self.span != 0).any(-2), self.here, after)

    def where(self, condition: Tensor) -> Null:
        """The same, but regular where the condition does not hold."""
        one = torch.eye(self.inward.shape[-1], dtype=self.inward.dtype, device=self.inward.device)
        condition = condition[..., None, None]
        return Null(
            self.here & condition[..., 0, 0],
            self.loose & condition[..., 0, 0],
            torch.where(condition, self.inward, one),
            torch.where(condition, self.outward, one),
            torch.where(condition, self.boost, one),
            self.rank,
            self.span,
            self.coordinates,
            self.back,
            self.projector,
        )


def signs(p: int, q: int, device: torch.device) -> Tensor:
    """``eta``, as ``(d,)``."""
    return torch.tensor([1.0] * p + [-1.0] * q, dtype=torch.float64, device=device)


def adjoint(matrix: Tensor, eta: Tensor) -> Tensor:
    """``eta matrix^* eta``: of an isometry, its inverse."""
    return eta.unsqueeze(-1) * matrix.mH * eta


def negligible(eps: float) -> float:
    """The part of a sum of squares that a form may have by rounding: moved rows carry some 1e-12 of it in float64."""
    return max(3 * eps, 1e-12)


def massless(eps: float) -> float:
    """The part of ``|P|^2`` that ``<P, P>`` may be by rounding, if P is null; see ``linalg.split``."""
    return max(1.05 * eps, 1.2e-13)


class Spectral(NamedTuple):
    """The split by the spectrum.

    Attributes:
        matrix: T; but for null vectors at their own scale, so that it is harmless: ``null.boost @ matrix`` is T.
        axes: ``(*batch, d)``, whether the rows determine an axis.
        null: where the form is degenerate; ``None``: nowhere.
        margin: computes how far the nearest decision is from flipping, ``(*batch,)``, given how many axes the rows can
            determine at most, ``(*batch, 1)``.
    """

    matrix: Tensor
    axes: Tensor
    null: Null | None
    margin: Callable[[Tensor], Tensor]


def spectral(
    rows: Tensor, layout: Layout, precision: Precision, s: Tensor, p: int, q: int, needed: Tensor | None = None
) -> Spectral:
    """Split the space; ``s`` is S. ``needed`` ``(*batch,)``: the samples that somebody asks for; ``None``: all."""
    eta = signs(p, q, rows.device)
    basis = row_basis(rows, layout, precision, s)
    if basis.white and min(p, q) == 1:
        axis = _time_axis(s, 0 if p == 1 else p)
        if axis is not None:
            return Spectral(boost_to(axis, p, q), basis.determined, None, lambda _: _smallest(basis.factor, eta))
    noise = negligible(precision.eps)
    size = precision.offset * layout.sizes().to(rows.device).sqrt()  # the rounding of S is relative to S and to this
    found = _eigen(basis, eta, p, noise, size)
    stages = [found]
    for _ in range(p + q):  # leave out the thinnest direction, until what is left is known
        if all_true(found.known):
            break
        fewer = torch.where(found.known, found.rank, found.rank - 1)
        fewer = torch.where((found.rank == 1) & (found.forms.amin(-1) < CLEAR), 1, fewer)  # a null line
        stages.append(_eigen(row_basis(rows, layout, precision, s, fewer), eta, p, noise, size))
        found = stages[-1].where(~found.known, found)

    def margin(at_most: Tensor) -> Tensor:
        nearest, open_ = _rank_margin(precision, basis, at_most), torch.ones_like(stages[0].known)
        for stage in stages:
            nearest = torch.where(open_, torch.minimum(nearest, stage.margin()), nearest)
            open_ = open_ & ~stage.known
        return nearest

    v, vu, signed, taken = found.v, found.vu, found.signed, found.taken
    d = vu * (taken / torch.where(taken, signed, 1.0).sqrt()).unsqueeze(-2)
    if all_true(taken):
        matrix = d if basis.white else _refined(v, _regular(d, taken, p, q), p, q)
        return Spectral(_checked(matrix, eta, precision, needed), taken, None, margin)
    rank, c = found.rank, torch.where(taken, signed, 0.0).amax(-1).sqrt()
    here = taken.sum(-1) < rank
    n = vu * (~taken & here.unsqueeze(-1)).unsqueeze(-2)
    alone = here & (c == 0)
    length = torch.where(alone, torch.linalg.matrix_norm(n), torch.where(c > 0, c, 1.0))[..., None, None]
    n, partner = _null_pairs(n / length, d, eta)
    pairs = torch.where(here, rank - taken.sum(-1), 0)
    matrix = _completed(d, n, partner, taken, pairs, p, q)
    regular = _aligned(v, _regular(d, taken, p, q), p, q)
    matrix = torch.where(here[..., None, None], matrix, _refined(v, regular, p, q))
    matrix = _checked(matrix, eta, precision, needed)
    axes = _first(taken[..., :p].sum(-1) + pairs, taken[..., p:].sum(-1) + pairs, p, q)
    if all_true(~here):
        return Spectral(matrix, axes, None, margin)
    ratio = torch.where(alone[..., None, None], LONE / length, 1.0)
    regular, forth, back = (d @ (eta.unsqueeze(-1) * d.mH) * eta, n @ partner.mH / 2 * eta, partner @ n.mH / 2 * eta)
    boost = torch.eye(p + q, dtype=n.dtype, device=n.device) + (1 / ratio - 1) * forth + (ratio - 1) * back
    # What fixes D and N takes M to ``M + N A`` with ``A^* = -A``: nothing, of one pair and real numbers, but ``i t`` of
    # complex ones; and turns free axes.
    loose = here if n.is_complex() else here & ~((pairs == 1) & axes.all(-1))
    inward, outward = regular + ratio * forth, regular + forth / ratio
    null = Null(here, loose, inward, outward, boost, rank, *_span(matrix, d, n, taken, pairs, ratio, p, q))
    return Spectral(matrix, axes, null.where(here), margin)


class _Eigen(NamedTuple):
    """Eigenvectors of S eta, in the order of the axes: positive ones first, the largest of either sign first.

    Attributes:
        known: ``(*batch,)``, whether all eigenvalues that are taken are more than rounding.
        v: ``(*batch, d, d)``, V.
        vu: ``(*batch, d, d)``, the eigenvectors V u.
        signed: ``(*batch, d)``, their eigenvalues, times the sign of the axis.
        taken: ``(*batch, d)``, whether the span determines the axis, and the eigenvalue is known.
        rank: ``(*batch,)``, dimension of the span.
        excess: ``(*batch, d)``, by how much each eigenvalue that is wanted exceeds rounding, in units of S.
        forms: ``(*batch, d)``, and by how much the form on the span does, in its own eigenvectors.
    """

    known: Tensor
    v: Tensor
    vu: Tensor
    signed: Tensor
    taken: Tensor
    rank: Tensor
    excess: Tensor
    forms: Tensor

    def where(self, condition: Tensor, other: _Eigen) -> _Eigen:
        """These where the condition holds, else those."""
        return _Eigen(*(torch.where(behind_batch(condition, a, 0), a, b) for a, b in zip(self, other, strict=True)))

    def margin(self) -> Tensor:
        """How little the rows have to change for another decision, relative to their size, ``(*batch,)``."""
        least = self.excess.amin(-1)
        return torch.minimum(torch.where(self.known, least, -least), self.forms.abs().amin(-1))


def _eigen(basis: Basis, eta: Tensor, p: int, noise: float, size: Tensor) -> _Eigen:
    """``size`` ``(*batch, 1)``: of what else than S its rounding is relative to."""
    d = len(eta)
    v = basis.rows.mT @ basis.factor * basis.determined.unsqueeze(-2)
    vu = v @ torch.linalg.eigh(v.mH @ (eta.unsqueeze(-1) * v)).eigenvectors  # ascending
    lengths = torch.linalg.vector_norm(vu, dim=-2)
    if not all_true(lengths.amin(-1) > EVEN * lengths.amax(-1)):
        vu = _rotated(vu, eta)
    slots = torch.cat([torch.arange(d - 1, d - p - 1, -1), torch.arange(d - p)]).to(v.device)  # the largest come first
    scale = v.abs().square().sum((-2, -1)).unsqueeze(-1).clamp_min(TINY)
    vu = vu[..., slots]
    signed = _squares(vu, eta) * eta
    wanted, forms = _axes_wanted(basis, eta, p, noise)
    rank = basis.determined.sum(-1)
    null = (wanted.sum(-1) < rank).unsqueeze(-1)
    unit = torch.where(null, COARSE * scale, torch.linalg.vector_norm(vu, dim=-2) * (scale.sqrt() + size))
    excess = (signed / unit.clamp_min(TINY) - noise).masked_fill(~wanted, torch.inf)
    taken = wanted & (excess > 0)
    known = (taken == wanted).all(-1)
    return _Eigen(known, v, vu, signed.clamp_min(TINY), taken, rank, excess, forms)


def _squares(columns: Tensor, eta: Tensor) -> Tensor:
    """``<w, w>`` of columns, ``(*batch, k)``."""
    return (columns.abs().square() * eta.unsqueeze(-1)).sum(-2)


def _rotated(w: Tensor, eta: Tensor) -> Tensor:
    """Columns ``w``, orthogonal in the form but for errors of ``eps |w|^2``, such that errors are ``eps |w_i| |w_j|``.

    The eigensolver mixes all eigenvectors whose eigenvalues are rounding of the largest: those of both signs, if a
    cloud is thin in two directions. Jacobi's rotations, applied to the columns and not to their products (Veselic, *A
    Jacobi eigenreduction algorithm for definite matrix pairs*), do not: a short column is changed by a multiple of a
    long one that is as small as their product demands, and short ones are rotated by products of their own. Of the
    order of the eigenvalues.
    """
    columns = list(w.unbind(-1))
    for _ in range(SWEEPS):
        for i in range(len(columns)):
            for j in range(i + 1, len(columns)):
                a, b = columns[i], columns[j]
                product = (a.conj() * eta * b).sum(-1, keepdim=True)
                size = product.abs()
                here = size > 0
                b = b * torch.where(here, product.sgn().conj(), 1.0)
                gap = ((b.abs().square() - a.abs().square()) * eta).sum(-1, keepdim=True)
                ratio = gap / torch.where(here, 2 * size, 1.0)
                tangent = torch.where(ratio < 0, -1.0, 1.0) / (ratio.abs() + torch.hypot(ratio, torch.ones_like(ratio)))
                tangent = torch.where(here, tangent, 0.0)
                cosine = (1 + tangent.square()).rsqrt()
                columns[i], columns[j] = cosine * (a - tangent * b), cosine * (tangent * a + b)
    w = torch.stack(columns, -1)
    order = _squares(w, eta).argsort(-1)
    return w.gather(-1, order.unsqueeze(-2).expand(w.shape))


def _rank_margin(precision: Precision, basis: Basis, at_most: Tensor) -> Tensor:
    """How far the dimension of the span is from another, ``(*batch,)``; ``at_most`` ``(*batch, 1)`` it can be."""
    if basis.peaks is None:
        return torch.full(basis.determined.shape[:-1], torch.inf, dtype=torch.float64, device=basis.determined.device)
    lengths = basis.peaks.sqrt()
    longest = lengths[..., :1]
    assert isinstance(precision.floor, Tensor)
    floors = torch.hypot(precision.tolerance * longest, precision.floor)
    return rank_margin(lengths, floors, torch.maximum(longest, floors).squeeze(-1), at_most)


def _checked(matrix: Tensor, eta: Tensor, precision: Precision, needed: Tensor | None) -> Tensor:
    """An isometry, or an error; NaN where errors would need to look at the data."""
    off = (adjoint(matrix, eta) @ matrix - torch.eye(len(eta), dtype=matrix.dtype, device=matrix.device)).abs()
    size = matrix.abs().square().sum((-2, -1))
    exact = off.amax((-2, -1)) <= precision.eps ** (2 / 3) * size  # what ``contains`` allows
    exact = exact if needed is None else exact | ~needed
    if all_true(exact):
        return matrix
    if readable(exact):
        bad = (~exact.flatten()).nonzero().flatten().tolist()
        raise ValueError(
            f"{precision.name} is so nearly null in sample {bad[0]} of {exact.numel()} that rounding decides which "
            "axes it has: no frame of any precision exists for it. Give it in float64, or make it exactly null"
        )
    return torch.where(exact[..., None, None], matrix, torch.nan)


def _time_axis(s: Tensor, time: int) -> Tensor | None:
    """The time-like unit eigenvector of ``S eta``, ``(*batch, d)``; ``None`` if a few steps do not find it."""
    space = slice(1, None) if time == 0 else slice(0, time)
    a, b, c = s[..., time, time].real, s[..., space, time], s[..., space, space]
    one = torch.eye(b.shape[-1], dtype=s.dtype, device=s.device)

    def slope_at(root: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.linalg.solve(c + root[..., None, None] * one, b)
        return y, 1 - y.abs().square().sum(-1)

    root = a
    for _ in range(6):
        y, rest = slope_at(root)
        step = (root - a + (b.conj() * y).sum(-1).real) / rest
        found = step.square() <= 1e-16 * rest * root.square()
        root = root - step
        if all_true(found):
            y, rest = slope_at(root)
            unit = torch.ones_like(y[..., :1])
            return torch.cat([unit, y] if time == 0 else [y, unit], -1) * rest.rsqrt().unsqueeze(-1)
    return None


def boost_to(axis: Tensor, p: int, q: int) -> Tensor:
    """An isometry, ``(*batch, d, d)``, whose time axis is the unit vector u given.

    With ``s = u_t / |u_t|`` and ``w = u + s e_t`` the reflection ``y -> y - 2 w <w, y> / <w, w>``, in which ``<w, w> =
    2 s^* w_t``, exchanges u and ``-s e_t`` (compare ``linalg.qr``). The boost is that but for the time axis.
    """
    time = 0 if p == 1 else p
    eta = signs(p, q, axis.device)
    one = torch.eye(p + q, dtype=axis.dtype, device=axis.device)
    at = axis[..., time : time + 1]
    w = axis + at.sgn() * one[time]
    matrix = one - (w / (at.abs() + 1)).unsqueeze(-1) * (w.conj() * (eta * eta[time])).unsqueeze(-2)
    return torch.where(one[time] != 0, axis.unsqueeze(-1), matrix)


def _regular(d: Tensor, taken: Tensor, p: int, q: int) -> Tensor:
    """An isometry whose columns are those of D that are taken, but for phases, and free axes: by reflections.

    ``eta - D eta D^*`` would give the free axes as well, but its entries are the squares of those of D, and so are its
    errors: of a space-like row that is all but null nothing would be left. Let T be the isometry so far, the identity
    at first, ``d = T^-1 D_k``, zero in the axes that T has already, and ``a`` its part in those of the sign of axis k,
    brought to length one. As in ``boost_to``, ``w = d + a`` has ``<w, w> = 2 (<a, a> + <d, a>)``, a sum of equal signs,
    and the reflection in w exchanges d and -a; another, among axes of the same sign, exchanges a and axis k. Entries
    are as large as those of D, and every reflection is an isometry, whatever the errors of D are.
    """
    eta = signs(p, q, d.device)
    matrix = torch.eye(p + q, dtype=d.dtype, device=d.device).expand_as(d)
    time = 0 if p == 1 else p
    order = [time, *(k for k in range(p + q) if k != time)] if min(p, q) == 1 else list(range(p + q))
    left = torch.ones(p + q, dtype=torch.float64, device=d.device)
    for k in order:
        same = left * (eta == eta[k])
        axis = left * (adjoint(matrix, eta) @ d[..., k : k + 1]).squeeze(-1)
        square = (axis.abs().square() * eta).sum(-1, keepdim=True) * eta[k]
        there = taken[..., k : k + 1] & (square > 0)
        axis = torch.where(there, axis / torch.where(there, square, 1.0).sqrt(), torch.eye(p + q, device=d.device)[k])
        part = axis * same
        length = torch.linalg.vector_norm(part, dim=-1, keepdim=True)
        part = part / length
        matrix = matrix @ _reflection(axis + part, eta * eta[k], 2 * (1 + length))
        at = part[..., k : k + 1]
        onto = part + torch.where(at == 0, 1.0, at.sgn()) * torch.eye(p + q, dtype=d.dtype, device=d.device)[k]
        matrix = matrix @ _reflection(onto, same, 2 * (1 + at.abs()))
        left = left * ((torch.arange(p + q, device=d.device) != k) | ~there)  # what is free is still at hand
    return matrix


def _reflection(w: Tensor, eta: Tensor, square: Tensor) -> Tensor:
    """``y -> y - 2 w <w, y> / <w, w>``, for ``square = <w, w>`` ``(*batch, 1)``."""
    one = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
    return one - (2 * w / square).unsqueeze(-1) * (w.conj() * eta).unsqueeze(-2)


def _smallest(v: Tensor, eta: Tensor) -> Tensor:
    """The smallest eigenvalue of either sign, as a part of the trace of S, where there are d."""
    eigenvalues = torch.linalg.eigvalsh(v.mH @ (eta.unsqueeze(-1) * v))
    return eigenvalues.abs().amin(-1) / v.abs().square().sum((-2, -1))


def _axes_wanted(basis: Basis, eta: Tensor, p: int, negligible: float) -> tuple[Tensor, Tensor]:
    """Which axes the span determines, ``(*batch, d)``: of either sign the first, as many as it has of that sign.

    And by how much the form exceeds what is negligible.
    """
    if all_true(basis.determined):
        return basis.determined, torch.full_like(basis.determined, torch.inf, dtype=torch.float64)
    values = torch.linalg.eigvalsh(basis.directions.mH @ (eta.unsqueeze(-1) * basis.directions))
    wanted = _first((values > negligible).sum(-1), (values < -negligible).sum(-1), p, len(eta) - p)
    sizes = values.abs().sort(-1, descending=True).values
    outside = torch.arange(len(eta), device=values.device) >= basis.determined.sum(-1, keepdim=True)
    return wanted, (sizes - negligible).masked_fill(outside | basis.determined.all(-1, keepdim=True), torch.inf)


def _first(plus: Tensor, minus: Tensor, p: int, q: int) -> Tensor:
    """The first so many axes of either sign, ``(*batch, d)``."""
    order = torch.arange(p + q, device=plus.device)
    return torch.where(order < p, order < plus.unsqueeze(-1), order - p < minus.unsqueeze(-1))


def _null_pairs(n: Tensor, d: Tensor, eta: Tensor) -> tuple[Tensor, Tensor]:
    """N and M, for ``c = 1``; zero columns stay zero."""
    n = n - d @ (eta.unsqueeze(-1) * (d.mH @ (eta.unsqueeze(-1) * n)))  # what the eigensolver left of D in it
    for _ in range(4):  # N is null but for rounding; each step squares by how much it is not
        partner = eta.unsqueeze(-1) * n - d @ (eta.unsqueeze(-1) * (d.mH @ n))
        partner = 2 * partner @ torch.linalg.pinv(n.mH @ n, rtol=1e-10, hermitian=True)
        partner = partner - n @ (partner.mH @ (eta.unsqueeze(-1) * partner)) / 4
        form = n.mH @ (eta.unsqueeze(-1) * n)
        n = n - partner @ form / 4
        if all_true(form.abs().amax((-2, -1)) <= 1e-9 * n.abs().square().sum((-2, -1))):
            break
    return n, partner


def _span(
    matrix: Tensor, d: Tensor, n: Tensor, taken: Tensor, pairs: Tensor, ratio: Tensor, p: int, q: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``span``, ``coordinates``, ``back`` and ``projector`` of ``Null``; ``ratio``: what null vectors are scaled by.

    D has coordinates among axes of its own sign only. All columns of the coordinates are orthogonal, of length 1 (D)
    and, with a part of either sign, 2^1/2 (N): well conditioned.
    """
    eta = signs(p, q, d.device)
    independent, lengths, _ = torch.linalg.svd(n)  # the eigensolver mixes N with what is zero
    kept = torch.cat([taken, torch.arange(p + q, device=d.device) < pairs.unsqueeze(-1)], -1)
    coordinates_d = adjoint(matrix, eta) @ d * (eta.unsqueeze(-1) == eta)
    independent = independent * lengths.unsqueeze(-2)
    both = torch.cat([d, independent], -1), torch.cat([coordinates_d, adjoint(matrix, eta) @ independent], -1)
    first = torch.argsort(~kept, dim=-1, stable=True)[..., : p + q]
    kept, null = kept.gather(-1, first), first >= p + q
    span, coordinates = (m.gather(-1, first.unsqueeze(-2).expand(d.shape)) * kept.unsqueeze(-2) for m in both)
    square = coordinates.mH @ coordinates + torch.diag_embed((~kept).to(d.dtype))
    scale = torch.where(null.unsqueeze(-2), ratio, 1.0)
    inverse = torch.linalg.solve(square, coordinates.mH)
    return span, coordinates * scale, span / scale @ inverse, coordinates @ inverse


def _completed(d: Tensor, n: Tensor, partner: Tensor, taken: Tensor, pairs: Tensor, p: int, q: int) -> Tensor:
    """An isometry whose first p columns span the positive columns of D, those of ``N + M``, and free axes."""
    eta = signs(p, q, d.device)
    positive = _outer(d[..., :p]) + _outer((n + partner) / 2)
    negative = _outer(d[..., p:]) + _outer((n - partner) / 2)
    missing, free = torch.linalg.eigh(torch.diag(eta).to(d.dtype) - positive + negative)
    free = free * missing.abs().sqrt().unsqueeze(-2)
    order = torch.arange(p + q, device=d.device)
    free_plus = p - taken[..., :p].sum(-1) - pairs
    free_minus = q - taken[..., p:].sum(-1) - pairs
    positive = positive + _outer(free * (order >= p + q - free_plus[..., None, None]))
    negative = negative + _outer(free * (order < free_minus[..., None, None]))
    return torch.cat([_factor(positive, p), _factor(negative, q)], -1)


def _outer(columns: Tensor) -> Tensor:
    return columns @ columns.mH


def _factor(square: Tensor, rank: int) -> Tensor:
    """Columns ``f`` ``(*batch, d, rank)`` with ``f f^* = square``."""
    values, vectors = torch.linalg.eigh(square)
    last = slice(square.shape[-1] - rank, None)
    return vectors[..., last] * values[..., last].clamp_min(0).sqrt().unsqueeze(-2)


def _aligned(v: Tensor, matrix: Tensor, p: int, q: int) -> Tensor:
    """The same split with bases in which S++ and S-- are diagonal, so that free axes are told from others."""
    s = _outer(adjoint(matrix, signs(p, q, v.device)) @ v)
    _, plus = torch.linalg.eigh(s[..., :p, :p])
    _, minus = torch.linalg.eigh(s[..., p:, p:])
    return torch.cat([matrix[..., :p] @ plus, matrix[..., p:] @ minus], -1)


def _refined(v: Tensor, matrix: Tensor, p: int, q: int) -> Tensor:
    """T after one step, and Newton's step towards the nearest isometry."""
    eta = signs(p, q, v.device)
    s = _outer(adjoint(matrix, eta) @ v)
    matrix = matrix @ tilt(slope(s, s[..., p:, :p], p, q))
    excess = adjoint(matrix, eta) @ matrix - torch.eye(p + q, dtype=v.dtype, device=v.device)
    return matrix - matrix @ excess / 2


def slope(s: Tensor, mixed: Tensor, p: int, q: int) -> Tensor:
    """Y, ``(*batch, q, p)``, with ``mixed`` in the place of ``S-+``."""
    one_p, one_q = torch.eye(p, dtype=s.dtype, device=s.device), torch.eye(q, dtype=s.dtype, device=s.device)
    system = torch.einsum("...ij,ab->...iajb", s[..., p:, p:], one_p)
    system = system + torch.einsum("ij,...ba->...iajb", one_q, s[..., :p, :p])
    system = system.flatten(-2).flatten(-3, -2)
    size = s.detach().diagonal(dim1=-2, dim2=-1).real.sum(-1)[..., None, None]
    small = 1e-22 * torch.where(size > 0, size, 1.0)  # for pairs of axes that are both free
    system = system + small * torch.eye(p * q, dtype=s.dtype, device=s.device)
    unit = system.detach().diagonal(dim1=-2, dim2=-1).real.rsqrt().unsqueeze(-1)  # rows may differ a lot in length
    system = unit * system * unit.mT + 1e-13 * torch.eye(p * q, dtype=s.dtype, device=s.device)
    y = torch.zeros_like(mixed)
    for _ in range(2):
        right = (mixed + y @ mixed.mH @ y).flatten(-2).unsqueeze(-1)
        y = (unit * torch.linalg.solve(system, unit * right)).reshape(mixed.shape)
    return y


def tilt(y: Tensor) -> Tensor:
    """The isometry whose first columns span those of ``(1, Y)``."""
    q, p = y.shape[-2:]
    one_p, one_q = (torch.eye(k, dtype=y.dtype, device=y.device) for k in (p, q))
    up = torch.cat([one_p.expand(*y.shape[:-2], p, p), y], -2)
    down = torch.cat([y.mH, one_q.expand(*y.shape[:-2], q, q)], -2)
    up = up @ torch.linalg.inv(torch.linalg.cholesky(one_p - y.mH @ y)).mH
    return torch.cat([up, down @ torch.linalg.inv(torch.linalg.cholesky(one_q - y @ y.mH)).mH], -1)
