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
from minframe.linalg.solvers import inv, solve

NULL_SCALE = 2.0**-20  # the scale of a null row, or of several on one line, in the canonical pose


@dataclass(slots=True)
class Null:
    """Where the form is degenerate on the span of the rows.

    Attributes:
        here: ``(*batch,)``, whether it is.
        loose: ``(*batch,)``, whether more than one isometry fixes the span.
        inward: ``(*batch, d, d)``, what the rows are multiplied with before ``T^-1``: the projector on the span that
            removes the rounding by which they miss being null, and brings null vectors to the scale ``c``; else 1.
        boost: the isometry, in coordinates T, that brings null vectors back to their scale, and does the opposite to
            their partners; else 1.
        rank: ``(*batch,)``, dimension of the span.
        span: ``(*batch, d, d)``, G, and columns of zeros.
        coordinates: ``(*batch, d, d)``, of G, after ``inward``: ``T^-1 inward G``; and columns of zeros.
        back: ``(*batch, d, d)``, G times the inverse of these: from coordinates in T to the rows.
        projector: ``(*batch, d, d)``, the Euclidean one on the coordinates of the span.
    """

    here: Tensor
    loose: Tensor
    inward: Tensor
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
            torch.where(condition, self.boost, one),
            self.rank,
            self.span,
            self.coordinates,
            self.back,
            self.projector,
        )


def null_pairs(n: Tensor, d: Tensor, eta: Tensor) -> tuple[Tensor, Tensor]:
    """N and M, for ``c = 1``, of orthogonal columns ``n``; zero columns stay zero.

    N is orthogonal to D and null up to rounding. Each step squares the deviation of ``<N, N>``, in units of ``<N, M> =
    2``: it has to be small in these, however long N is, or what follows from them is no isometry.
    """
    for _ in range(8):
        n = n - d @ (eta.unsqueeze(-1) * (d.mH @ (eta.unsqueeze(-1) * n)))  # less its part along D
        partner = eta.unsqueeze(-1) * n - d @ (eta.unsqueeze(-1) * (d.mH @ n))
        length = torch.linalg.vector_norm(n, dim=-2, keepdim=True)
        unit = torch.where(length > 0, 1 / torch.where(length > 0, length, 1.0), 0.0)
        square = (n * unit).mH @ (n * unit) + torch.diag_embed((unit == 0).squeeze(-2).to(n.dtype))
        partner = 2 * (partner * unit) @ inv(square) * unit
        partner = partner - n @ (partner.mH @ (eta.unsqueeze(-1) * partner)) / 4
        form = n.mH @ (eta.unsqueeze(-1) * n)
        n = n - partner @ form / 4
        if all_true(form.abs().amax((-2, -1)) <= 1e-9):
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
    kept = torch.cat([taken, torch.arange(p + q, device=d.device) < pairs.unsqueeze(-1)], -1)
    coordinates_d = adjoint(matrix, eta) @ d * (eta.unsqueeze(-1) == eta)
    both = torch.cat([d, n], -1), torch.cat([coordinates_d, adjoint(matrix, eta) @ n], -1)
    first = torch.argsort(~kept, dim=-1, stable=True)[..., : p + q]
    kept, null = kept.gather(-1, first), first >= p + q
    span, coordinates = (m.gather(-1, first.unsqueeze(-2).expand(d.shape)) * kept.unsqueeze(-2) for m in both)
    square = coordinates.mH @ coordinates + torch.diag_embed((~kept).to(d.dtype))
    scale = torch.where(null.unsqueeze(-2), ratio, 1.0)
    inverse = solve(square, coordinates.mH)
    return span, coordinates * scale, span / scale @ inverse, coordinates @ inverse


def with_pairs(
    d: Tensor, n: Tensor, partner: Tensor, taken: Tensor, pairs: Tensor, p: int
) -> tuple[Tensor, Tensor, Tensor]:
    """D with ``(N + M) / 2`` and ``(N - M) / 2`` as the next axes of their signs; and which axes these are.

    The third is the number of the pair that an axis belongs to, ``(*batch, d)``.
    """
    axis = torch.arange(d.shape[-1], device=d.device)
    before = torch.where(axis < p, taken[..., :p].sum(-1, keepdim=True), taken[..., p:].sum(-1, keepdim=True))
    pair = torch.where(axis < p, axis, axis - p) - before
    paired = (pair >= 0) & (pair < pairs.unsqueeze(-1))
    at = pair.clamp(0, d.shape[-1] - 1).unsqueeze(-2).expand(d.shape)
    both = (n.gather(-1, at) + torch.where(axis < p, 1.0, -1.0) * partner.gather(-1, at)) / 2
    return torch.where(paired.unsqueeze(-2), both, d), paired, pair


def pair_boost(coordinates: Tensor, paired: Tensor, pair: Tensor, ratio: Tensor, p: int) -> Tensor:
    """The isometry that multiplies N by ``1 / ratio`` and M by ``ratio``, in coordinates T, ``(*batch, d, d)``.

    There ``N = a e_i + b e_j`` and ``M = a e_i - b e_j`` with phases a, b, and axes i, j of either sign: so it is a
    boost in that plane, by ``cosh = (1 / ratio + ratio) / 2``. ``coordinates``: of N in T. Made of N and M themselves
    it would have an error of their squares.
    """
    d = coordinates.shape[-1]
    one = torch.eye(d, dtype=coordinates.dtype, device=coordinates.device)
    at = pair.clamp(0, d - 1).unsqueeze(-1)
    phase = coordinates.gather(-1, at).squeeze(-1).sgn()  # of each axis, in the N that it belongs to
    same = paired.unsqueeze(-1) & paired.unsqueeze(-2) & (pair.unsqueeze(-1) == pair.unsqueeze(-2))
    axis = torch.arange(d, device=coordinates.device) < p
    across = same & (axis.unsqueeze(-1) != axis)
    along = torch.where(paired, ((1 / ratio + ratio) / 2).squeeze(-1), 1.0).unsqueeze(-1) * one
    mixed = (1 / ratio - ratio) / 2 * phase.unsqueeze(-1) * phase.conj().unsqueeze(-2)
    return along + torch.where(across, mixed, 0.0)


def outer(columns: Tensor) -> Tensor:
    """``C C^*``."""
    return columns @ columns.mH


def first_axes(plus: Tensor, minus: Tensor, p: int, q: int) -> Tensor:
    """The first ``plus`` axes of positive and ``minus`` axes of negative sign, ``(*batch, d)``."""
    order = torch.arange(p + q, device=plus.device)
    return torch.where(order < p, order < plus.unsqueeze(-1), order - p < minus.unsqueeze(-1))
