"""Canonical orders of almost symmetric clouds whose proposed symmetry is too large to enumerate.

Let G be the permutations of positions that the labelling proposed; all orders ``Y[p]``, p in G, are canonical, and G
and this set do not depend on the order in which the points were given. Invariants of points and of pairs of points
under the linear group (lengths, distances) are constant on the orbits of a symmetry. So

* their *spread*, the largest difference within an orbit of G, measures how far G is from a symmetry. It does not depend
  on the order, as it is taken over whole orbits;
* if G is not a symmetry, one order is chosen position by position. The rows that may be at position 0 are the orbit of
  0; of these the one with the lowest score is taken. Given that one, the rows that may be at position 1 are an orbit of
  the stabiliser of 0; and so on along a stabiliser chain with the base ``0, 1, ...``. A score is a fixed function of
  the lengths and of the distances from the rows already placed, all of them linear in the coordinates, so that it
  resolves differences as small as the noise.

The chain has ``n (n + 1) / 2`` elements at most, where G may have n!.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.labelling.chain import Permutation, StabiliserChain, compose


def _weights(count: int, phase: float) -> Tensor:
    """Fixed numbers between 0.5 and 1.5."""
    return 1 + 0.5 * (12.9898 * torch.arange(1, count + 1, dtype=torch.float64) + phase).sin()


def invariants(rows: list[Tensor], fixed: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Invariants of points ``(n, k)`` and of pairs ``(n, n, k)`` under isometries.

    ``rows``: ``(n, C, d)`` each, the largest coordinate about 1; ``fixed``: ``(m, d)``, vectors that belong to no
    point.
    """
    points, pairs = [], []
    for x in rows:
        length = torch.linalg.vector_norm(x, dim=-1)
        odd = (x * length.square().unsqueeze(-1)).sum((0, 1))
        # Not in units of its own length: where that is rounding, so is its direction.
        odd = odd / length.pow(3).sum().clamp_min(1e-100)
        points += [length, torch.linalg.vector_norm(x - odd, dim=-1)]
        for vectors in fixed:
            product = torch.einsum("ncd,md->ncm", x, vectors.conj()).flatten(1)
            points += [product.real, product.imag] if product.is_complex() else [product]
        first = x.flatten(1)
        for second in (first, 1j * first) if x.is_complex() else (first,):
            pairs.append(torch.linalg.vector_norm(first.unsqueeze(1) - second, dim=-1))
    return torch.cat(points, -1), torch.stack(pairs, -1)


def spread(points: Tensor, pairs: Tensor, group: StabiliserChain) -> float:
    """The largest difference of invariants within an orbit of points or pairs."""
    return max(_range(points, group.orbits()), _range(pairs.flatten(0, 1), group.orbitals().flatten()))


def _range(values: Tensor, numbers: Tensor) -> float:
    index = numbers.unsqueeze(-1).expand(values.shape)
    high, low = (
        torch.zeros_like(values).scatter_reduce(0, index, values, k, include_self=False) for k in ("amax", "amin")
    )
    return float((high - low).max())


def chain(generators: Tensor) -> StabiliserChain:
    """The stabiliser chain with the base ``0, 1, ...``."""
    n = generators.shape[-1]
    return StabiliserChain(generators, n, base=range(n))


def lowest(points: Tensor, pairs: Tensor, group: StabiliserChain) -> Permutation:
    """The element of the group, from ``chain``, that gives the order of lowest scores: from position i to its row."""
    scores = points @ _weights(points.shape[-1], 0.3)
    weights, channels = _weights(len(points), 1.1), _weights(pairs.shape[-1], 2.2)
    element = tuple(range(len(points)))
    for position, transversal in enumerate(group.transversals):
        rows = torch.tensor([element[t[position]] for t in transversal])
        element = compose(element, transversal[int(scores[rows].argmin())])
        scores = scores + weights[position] * (pairs[element[position]] @ channels)
    return element
