"""Spans on which the form is degenerate; part of the split by the spectrum, ``linalg.spectral``.

**Null spans.** Zero eigenvalues of K within W belong to ``R``, the part of W orthogonal to W. With the columns of N a
basis of it (``N = V U`` again), each needs a partner outside W: ``M = 2 c^2 (1 - D eta D^* eta) eta N (N^* N)^-1`` has
``<N, M> = 2 c^2`` and is orthogonal to D; subtracting ``N <M, M> / 4 c^2`` makes it null, and ``(N + M) / 2 c``, ``(N -
M) / 2 c`` are unit vectors of either sign. The rows see only their sum, ``N / c``, so the pose does not depend on the
partner. Nothing invariant sets the scale of a single null row: ``c`` is a constant, ``NULL_SCALE``; beside other rows
it is the root of the largest eigenvalue. The pose of a single massive row, ``(m, 0, ..., 0)``, tends to 0 with its
mass, so that of a null row should be as near to 0 as it can be: then it hardly matters to an invariant output which of
the two a row counts as. Vectors that do not tend to 0 with the pose are enlarged by ``|N| / c`` on the way back, as
they are by ``E / m`` if there is a mass. ``NULL_SCALE`` is about the smallest ``m / E`` that counts in float64, the
root of ``massless``: such vectors are not enlarged further by the null row than by the lightest massive ones. A boost
from the scale of N to ``c`` would swamp M, or the rounding by which rows miss being null. So T is made at the scale of
N, and the rows are projected on the span and brought to the scale ``c`` by ``D eta D^* eta + (c / |N|) N M^* eta / 2``,
which takes no large numbers unless D does: the eigenvectors of a thin cloud are multiples of N but for a small part. So
rows are written as ``x = G z`` with ``G = (D, N)``, by substitution (``linalg.columns``), and their coordinates are
those of G, which are harmless, times z. The way back is G times the inverse of these.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.linalg.columns import Columns
from minframe.linalg.form import adjoint, signs
from minframe.linalg.solvers import solve

NULL_SCALE = 2.0**-20  # the scale of a null row, or of several on one line, in the canonical pose


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


def null_pairs(n: Tensor, d: Tensor, eta: Tensor) -> tuple[Tensor, Tensor]:
    """N and M, for ``c = 1``; zero columns stay zero."""
    n = n - d @ (eta.unsqueeze(-1) * (d.mH @ (eta.unsqueeze(-1) * n)))  # less its part along D
    for _ in range(4):  # N is null up to rounding; each step squares the deviation
        partner = eta.unsqueeze(-1) * n - d @ (eta.unsqueeze(-1) * (d.mH @ n))
        partner = 2 * partner @ torch.linalg.pinv(n.mH @ n, rtol=1e-10, hermitian=True)
        partner = partner - n @ (partner.mH @ (eta.unsqueeze(-1) * partner)) / 4
        form = n.mH @ (eta.unsqueeze(-1) * n)
        n = n - partner @ form / 4
        if all_true(form.abs().amax((-2, -1)) <= 1e-9 * n.abs().square().sum((-2, -1))):
            break
    return n, partner


def span_of(
    matrix: Tensor, d: Tensor, n: Tensor, taken: Tensor, pairs: Tensor, ratio: Tensor, p: int, q: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``span``, ``coordinates``, ``back`` and ``projector`` of ``Null``; ``ratio``: what null vectors are scaled by.

    D has coordinates among axes of its own sign only. All columns of the coordinates are orthogonal, of length 1 (D)
    and, with a part of either sign, 2^1/2 (N): well conditioned.
    """
    eta = signs(p, q, d.device)
    independent, lengths, _ = torch.linalg.svd(n)  # the eigensolver mixes N with zero columns
    kept = torch.cat([taken, torch.arange(p + q, device=d.device) < pairs.unsqueeze(-1)], -1)
    coordinates_d = adjoint(matrix, eta) @ d * (eta.unsqueeze(-1) == eta)
    independent = independent * lengths.unsqueeze(-2)
    both = torch.cat([d, independent], -1), torch.cat([coordinates_d, adjoint(matrix, eta) @ independent], -1)
    first = torch.argsort(~kept, dim=-1, stable=True)[..., : p + q]
    kept, null = kept.gather(-1, first), first >= p + q
    span, coordinates = (m.gather(-1, first.unsqueeze(-2).expand(d.shape)) * kept.unsqueeze(-2) for m in both)
    square = coordinates.mH @ coordinates + torch.diag_embed((~kept).to(d.dtype))
    scale = torch.where(null.unsqueeze(-2), ratio, 1.0)
    inverse = solve(square, coordinates.mH)
    return span, coordinates * scale, span / scale @ inverse, coordinates @ inverse


def completed(d: Tensor, n: Tensor, partner: Tensor, taken: Tensor, pairs: Tensor, p: int, q: int) -> Tensor:
    """An isometry whose first p columns span the positive columns of D, those of ``N + M``, and free axes."""
    eta = signs(p, q, d.device)
    positive = outer(d[..., :p]) + outer((n + partner) / 2)
    negative = outer(d[..., p:]) + outer((n - partner) / 2)
    missing, free = torch.linalg.eigh(torch.diag(eta).to(d.dtype) - positive + negative)
    free = free * missing.abs().sqrt().unsqueeze(-2)
    order = torch.arange(p + q, device=d.device)
    free_plus = p - taken[..., :p].sum(-1) - pairs
    free_minus = q - taken[..., p:].sum(-1) - pairs
    positive = positive + outer(free * (order >= p + q - free_plus[..., None, None]))
    negative = negative + outer(free * (order < free_minus[..., None, None]))
    return torch.cat([_factor(positive, p), _factor(negative, q)], -1)


def outer(columns: Tensor) -> Tensor:
    """``C C^*``."""
    return columns @ columns.mH


def _factor(square: Tensor, rank: int) -> Tensor:
    """Columns ``f`` ``(*batch, d, rank)`` with ``f f^* = square``."""
    values, vectors = torch.linalg.eigh(square)
    last = slice(square.shape[-1] - rank, None)
    return vectors[..., last] * values[..., last].clamp_min(0).sqrt().unsqueeze(-2)


def first_axes(plus: Tensor, minus: Tensor, p: int, q: int) -> Tensor:
    """The first ``plus`` axes of positive and ``minus`` axes of negative sign, ``(*batch, d)``."""
    order = torch.arange(p + q, device=plus.device)
    return torch.where(order < p, order < plus.unsqueeze(-1), order - p < minus.unsqueeze(-1))
