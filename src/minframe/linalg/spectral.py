"""The split of ``linalg.split`` by the spectrum of all rows, for any p and q and any rank.

``S = sum_i x_i x_i^*`` moves as ``g S g^*``, and ``S eta`` by similarity. It has the eigenvalues of the Gram matrix
``X^* eta X`` and further zeros, so they are invariants, real, and p' of them are positive, q' negative, where (p', q')
is the signature of the span. V+ is the sum of the eigenspaces of positive eigenvalues. It does not depend on the order
of the rows, and it depends on them continuously, as no eigenvalue passes through zero while the span stays regular.
With ``S = V V^*`` the eigenvectors are those of the small Hermitian matrix ``K = V^* eta V = U diag(l) U^*``:

    S eta (V u) = V K u = l (V u)      and      <V u, V u'> = u^* K u' = l delta_uu'.

V is not computed from S, which would square the condition number, but as in ``linalg.whiten``, ``V = A^T L``: harmless
however strong a boost the rows have seen.

Further modules treat the remaining cases: free axes (``linalg.refined``), null spans (``linalg.null``), and the
accuracy of eigenvalues (``linalg.eigen``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.checks import all_true, errors_enabled, readable
from minframe.layout import Layout
from minframe.linalg.action import behind_batch
from minframe.linalg.choice import rank_margin
from minframe.linalg.eigen import Bounds, Eigen, eigenvectors, smallest, time_axis
from minframe.linalg.form import adjoint, boost_to, signs
from minframe.linalg.null import NULL_SCALE, Null, first_axes, null_pairs, pair_boost, span_of, with_pairs
from minframe.linalg.refined import completed_axes, refined
from minframe.linalg.rows import Precision
from minframe.linalg.solvers import may_wait, principal_columns
from minframe.linalg.whiten import Basis, at_most, principal, row_basis, stacked


class Spectral(NamedTuple):
    """The split by the spectrum.

    Attributes:
        matrix: T; but for null vectors at their own scale, so that it is harmless: ``matrix @ null.boost`` is T.
        axes: ``(*batch, d)``, whether the rows determine an axis.
        spanned: ``(*batch, d)``, whether a column of T is one of their eigenvectors, be it too thin to count.
        null: where the form is degenerate; ``None``: nowhere.
        margin: computes how far the nearest decision is from flipping, ``(*batch,)``, given how many axes the rows can
            determine at most, ``(*batch, 1)``.
    """

    matrix: Tensor
    axes: Tensor
    spanned: Tensor
    null: Null | None
    margin: Callable[[Tensor], Tensor]


def spectral(
    rows: Tensor, layout: Layout, precision: Precision, s: Tensor, p: int, q: int, needed: Tensor | None = None
) -> Spectral:
    """Split the space; ``s`` is S. ``needed`` ``(*batch,)``: the samples that are used; ``None``: all."""
    eta = signs(p, q, rows.device)
    bounds = Bounds.of(precision.eps, precision.tolerance)
    # All that may be an axis; which of it is one, eigenvalues say.
    precision = replace(precision, tolerance=bounds.least_noise)
    basis = row_basis(rows, layout, precision, s)
    if basis.white and min(p, q) == 1:
        axis = time_axis(s, 0 if p == 1 else p)
        if axis is not None:
            return Spectral(
                boost_to(axis, p, q), basis.determined, basis.determined, None, lambda _: smallest(basis.factor, eta)
            )
    size = precision.offset * layout.sizes(rows.device).sqrt()  # the rounding of S is relative to S and to this

    def found_in(basis: Basis) -> Eigen:
        return eigenvectors(basis, eta, p, bounds, size)

    # The thinnest direction is left out until all remaining ones are known.
    found, stages = (_in_turn if may_wait(rows) else _at_once)(basis, found_in)

    def margin(at_most: Tensor) -> Tensor:
        nearest, open_ = _rank_margin(precision, basis, at_most), torch.ones_like(stages[0].known)
        for stage in stages:
            nearest = torch.where(open_, torch.minimum(nearest, stage.margin()), nearest)
            open_ = open_ & ~stage.settled
        return nearest

    v, vu, signed, taken = found.v, found.vu, found.signed, found.taken
    thick = taken if basis.white and len(stages) == 1 else taken & (found.thick >= 0)
    d = vu * (taken / torch.where(taken, signed, 1.0).sqrt()).unsqueeze(-2)
    if all_true(taken):
        matrix = d if basis.white else refined(v, completed_axes(d, taken, p, q), taken, p, q)
        return Spectral(_checked(matrix, eta, precision, needed), thick, taken, None, margin)
    rank, c = found.rank, torch.where(taken, signed, 0.0).amax(-1).sqrt()
    here = taken.sum(-1) < rank
    n = vu * (~taken & here.unsqueeze(-1)).unsqueeze(-2)
    alone = here & (c == 0)
    # N at a scale where it is as long as its partner, which has to make up for the parts of D along N.
    length = torch.where(here, torch.linalg.matrix_norm(n), 1.0)[..., None, None]
    length = length / (1 + (d.mH @ n / length).abs().square().sum((-2, -1), keepdim=True)).sqrt()
    pairs = torch.where(here, rank - taken.sum(-1), 0)
    within = (torch.arange(p + q, device=n.device) < pairs.unsqueeze(-1)).unsqueeze(-2)
    n, partner = null_pairs(principal_columns(n / length) * within, d, eta)  # N may be mixed with zero columns
    both, paired, pair = with_pairs(d, n, partner, taken, pairs, p)
    matrix = completed_axes(both, taken | paired, p, q)
    if not all_true(here):
        matrix = torch.where(here[..., None, None], matrix, refined(v, matrix, taken, p, q))
    matrix = _checked(matrix, eta, precision, needed)
    axes = first_axes(thick[..., :p].sum(-1) + pairs, thick[..., p:].sum(-1) + pairs, p, q)
    if all_true(~here):
        return Spectral(matrix, axes, taken, None, margin)
    ratio = torch.where(here, torch.where(alone, NULL_SCALE, c), 1.0)[..., None, None] / length
    boost = pair_boost(adjoint(matrix, eta) @ n, paired, pair, ratio, p)
    # What fixes D and N takes M to ``M + N A`` with ``A^* = -A``: nothing, of one pair and real numbers, but ``i t`` of
    # complex ones; and turns free axes.
    loose = here if n.is_complex() else here & ~((pairs == 1) & axes.all(-1))
    inward = (d @ (eta.unsqueeze(-1) * d.mH) + ratio * n @ partner.mH / 2) * eta
    null = Null(here, loose, inward, boost, rank, *span_of(matrix, d, n, taken, pairs, ratio, p, q))
    return Spectral(matrix, axes, taken, null.where(here), margin)


def _in_turn(basis: Basis, found_in: Callable[[Basis], Eigen]) -> tuple[Eigen, Sequence[Eigen]]:
    """What is settled, in as many stages as it takes, and these."""
    found, directions = found_in(basis), None
    stages = [found]
    for _ in range(basis.determined.shape[-1]):
        if all_true(found.settled):
            break
        fewer = torch.where(found.settled, found.rank, found.rank - 1)
        directions = principal(basis) if directions is None else directions
        stages.append(found_in(at_most(directions, fewer)))
        found = stages[-1].where(~found.settled, found)
    return found, stages


def _at_once(basis: Basis, found_in: Callable[[Basis], Eigen]) -> tuple[Eigen, Sequence[Eigen]]:
    """The same where nothing may be read: all stages that there can be, in the operations of one."""
    rank, count, directions = basis.determined.sum(-1), basis.determined.shape[-1] + 1, principal(basis)
    fewer = (at_most(directions, rank - k) for k in range(1, count))
    every = found_in(stacked([basis, *fewer]))
    first = every.settled.max(0, keepdim=True)[1]  # the last one always is
    found = (x.gather(0, behind_batch(first, x, 0).expand(1, *x.shape[1:])).squeeze(0) for x in every)
    return Eigen(*found), [Eigen(*(x[k] for x in every)) for k in range(count)]


def _rank_margin(precision: Precision, basis: Basis, at_most: Tensor) -> Tensor:
    """The distance of the rank from changing, ``(*batch,)``; ``at_most`` ``(*batch, 1)``: its bound."""
    if basis.peaks is None:
        return torch.full(basis.determined.shape[:-1], torch.inf, dtype=torch.float64, device=basis.determined.device)
    lengths = basis.peaks.sqrt()
    longest = lengths[..., :1]
    assert isinstance(precision.floor, Tensor)
    floors = torch.maximum(precision.tolerance * longest, precision.floor)
    return rank_margin(lengths, floors, torch.maximum(longest, floors).squeeze(-1), at_most)


def _checked(matrix: Tensor, eta: Tensor, precision: Precision, needed: Tensor | None) -> Tensor:
    """An isometry, or an error; NaN where errors would need to look at the data."""
    off = (adjoint(matrix, eta) @ matrix - torch.eye(len(eta), dtype=matrix.dtype, device=matrix.device)).abs()
    size = matrix.abs().square().sum((-2, -1))
    exact = off.amax((-2, -1)) <= precision.eps ** (2 / 3) * size  # what ``contains`` allows
    exact = exact if needed is None else exact | ~needed
    if all_true(exact):
        return matrix
    if errors_enabled() and readable(exact):
        bad = (~exact.flatten()).nonzero().flatten().tolist()
        raise ValueError(
            f"{precision.name} is so nearly null in sample {bad[0]} of {exact.numel()} that rounding decides which "
            "axes it has: no frame of any precision exists for it. Give it in float64, or make it exactly null"
        )
    return torch.where(exact[..., None, None], matrix, torch.nan)
