"""Averages over finite sets of matrices, and scores of orbits under them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.constants import beside
from minframe.dtypes import wide
from minframe.layout import Layout, Ragged
from minframe.linalg.action import behind_batch, multiply
from minframe.linalg.orbit import SCORE_COUNT, probes
from minframe.linalg.stabiliser import Stabiliser
from minframe.tracing import is_compiling
from minframe.types import Type


def orbit_scores(x: Tensor, layout: Layout, inverses: Tensor) -> tuple[Tensor, Tensor]:
    """Scores ``(*batch, SCORE_COUNT, G)`` of the poses of ``x`` ``(*batch, *any, k)``, and the squared size as a form.

    ``inverses`` ``(G, k, k)``: the matrices of ``g^-1``. With ``M = sum_i w_i x_i^T`` the scores are ``sum_ab (g^-1)_ab
    M_ab``: the orbit itself is never formed. Rows are counted within their sample, real ones only, so that neither
    padding nor other samples of the batch affect the result.

    The second result is ``sum_i x_i x_i^T`` ``(*batch, k, k)``.
    """
    rows, layout = layout.join([wide(x)])
    k = rows.shape[-1]
    place = _places(layout, rows)
    length = layout.length if is_compiling() else int(layout.length)  # traced graphs may leave it open
    w = beside(probes(length * k), rows).view(SCORE_COUNT, -1, k)[:, place].movedim(0, -2)
    if layout.real is not None:
        w = w * layout.real.view(*layout.real.shape, 1, 1)
    if isinstance(layout, Ragged):
        m = layout.total(w.unsqueeze(-1) * rows[..., None, None, :])
    else:
        m = w.flatten(-2).mT @ rows
        m = m.reshape(*m.shape[:-2], SCORE_COUNT, k, k)
    return m.flatten(-2) @ inverses.flatten(1).to(m).mT, layout.scatter(rows)


def distances(
    x: Tensor, layout: Layout, inverses: Tensor, alive: Tensor, leader: Tensor, form: Tensor | None = None
) -> Tensor:
    """How far the poses of ``x`` by elements ``alive`` ``(*batch, G)`` are from that by ``leader`` ``(*batch,)``.

    Shape ``(*batch, G)``, relative to the size of ``x``; zero for elements that are alive nowhere. ``inverses`` ``(G,
    k, k)`` are as in ``orbit_scores``, and ``form`` ``(k, k)`` is the invariant square. Differences of matrices come
    before products: no digits cancel.
    """
    rows, layout = layout.join([wide(x.detach())])
    inverses = inverses.to(rows)

    def size(y: Tensor) -> Tensor:
        squares = (y * (y if form is None else y @ form.to(y))).sum(-1, keepdim=True)
        return layout.total(squares).squeeze(-1).clamp_min(0.0).sqrt()

    unit = size(rows)
    unit, none = torch.where(unit > 0, unit, 1.0), torch.zeros_like(unit)
    found = []
    for g, inverse in enumerate(inverses):
        if all_true(~alive[..., g]):
            found.append(none)
        else:
            found.append(size(multiply(rows, layout.for_rows(inverse - inverses[leader], rows))) / unit)
    return torch.stack(found, -1)


WAVE_COUNT = 4  # waves in the sum that scores a point


def set_scores(x: Tensor, layout: Layout, inverses: Tensor, form: Tensor, unit: float = 0.0) -> Tensor:
    """Scores ``(*batch, G)`` of the poses of rows ``x`` ``(*batch, n, *any, k)`` that do not depend on their order.

    The score is ``sum_i phi(g^-1 x_i / u) / sqrt(n)``, with ``u`` the root mean square of the rows by the invariant
    ``form`` ``(k, k)``, and ``phi(z) = sum_m sin(2 <w_m, z> + m)``, which has no symmetry of its own. It is smooth, and
    equal for poses that are permutations of each other.
    """
    rows, layout = layout.join([wide(x)])
    k = rows.shape[-1]
    count = layout.sizes(rows.device).clamp_min(1)
    square = layout.total(((rows @ form) * rows).sum(-1, keepdim=True)) / count + unit**2
    rows = rows / layout.for_each_row(torch.where(square > 0, square, 1.0).sqrt())
    w = beside(probes(WAVE_COUNT * k), rows)[0].view(WAVE_COUNT, k)
    directions = (w @ inverses).transpose(0, 1)  # (WAVE_COUNT, G, k)
    phase = torch.arange(WAVE_COUNT, device=rows.device).unsqueeze(-1)
    values = torch.stack([torch.sin(2 * (rows @ d.mT) + b) for d, b in zip(directions, phase, strict=True)]).sum(0)
    if layout.real is not None:
        values = values * layout.real.unsqueeze(-1)
    return layout.total(values) / count.sqrt()


def _places(layout: Layout, rows: Tensor) -> Tensor:
    """The number of each row within its sample, ``(*rows,)``; of padding any."""
    if isinstance(layout, Ragged):
        order = layout.index.argsort(stable=True)
        start = layout.sizes().flatten().cumsum(0) - layout.sizes().flatten()
        place = torch.arange(layout.length, device=rows.device) - start[layout.index[order]]
        return torch.empty_like(place).index_copy(0, order, place)
    if layout.mask is None:
        return torch.arange(rows.shape[-2], device=rows.device)
    return (layout.mask.cumsum(-1) - 1).clamp_min(0)


@dataclass(frozen=True)
class FiniteStabiliser(Stabiliser):
    """``weights`` ``(*batch, G)`` of the elements, which have orthogonal ``matrices`` ``(G, d, d)``; all axes count."""

    weights: Tensor
    matrices: Tensor = field(metadata={"shared": True})

    @staticmethod
    def of(weights: Tensor, matrices: Tensor) -> FiniteStabiliser:
        determined = torch.ones(*weights.shape[:-1], matrices.shape[-1], dtype=torch.bool, device=weights.device)
        return FiniteStabiliser(determined, weights, matrices)

    @property
    def size(self) -> Tensor:
        return (self.weights > 0).sum(-1).double()

    def spread(self, to_rows: Callable[[Tensor], Tensor]) -> FiniteStabiliser:
        return FiniteStabiliser.of(to_rows(self.weights), self.matrices)

    def fold(self, matrix: Tensor, kind: Type) -> Tensor:
        return matrix @ self._mean(self.matrices, kind) if kind.core_ndim == 1 else matrix

    def average(self, y: Tensor, kind: Type) -> Tensor:
        if kind.core_ndim == 0:
            if not kind.parity:
                return y
            return y * behind_batch(self.weights @ torch.linalg.det(self.matrices), y, 0)
        if kind.core_ndim == 1:
            return multiply(wide(y), self._mean(self.matrices, kind))
        g = self.matrices
        squares = torch.einsum("gij,gkl->gikjl", g, g).flatten(3).flatten(1, 2)
        return multiply(wide(y).flatten(-2), self._mean(squares, kind)).view(y.shape)

    def _mean(self, matrices: Tensor, kind: Type) -> Tensor:
        """``(*batch, k, k)``. Orthogonal matrices are their own inverse transposes: dual types are nothing special."""
        if kind.parity:
            matrices = matrices * torch.linalg.det(self.matrices)[:, None, None]
        return (self.weights @ matrices.flatten(1)).view(*self.weights.shape[:-1], *matrices.shape[1:])
