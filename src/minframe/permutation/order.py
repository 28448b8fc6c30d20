"""The order of a group of permutations, exact, without building a chain for what is recognised at sight."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from minframe.permutation.arcs import components
from minframe.permutation.chain import StabiliserChain


def group_order(generators: Tensor) -> int:
    """Exact order of the group that ``(k, n)`` generate, also for symmetric groups too large for a chain.

    Generators that move different points generate a direct product, so points are grouped first; and a cycle of all
    points of a group, together with the exchange of two neighbours in it, generates everything.
    """
    n = generators.shape[-1]
    moved = generators != torch.arange(n, device=generators.device)
    # Join the points that one generator moves: each with the first of them.
    row, point = moved.nonzero(as_tuple=True)
    first = moved.long().argmax(-1)[row]
    part = components(first, point, n)
    result = 1
    for number in torch.unique(part[point]).tolist():
        points = (part == number).nonzero().squeeze(-1)
        rows = generators[moved[:, points].any(-1)][:, points]
        rows = torch.searchsorted(points, rows)
        result *= math.factorial(len(points)) if _is_symmetric(rows) else StabiliserChain(rows, len(points)).order
    return result


def _is_symmetric(generators: Tensor) -> bool:
    """Whether a cycle of all points and an exchange of neighbours in it are among the generators."""
    rows = generators.tolist()
    moved = [[i for i, image in enumerate(g) if image != i] for g in rows]
    exchanges = {frozenset(points) for points in moved if len(points) == 2}
    cycles = [g for g, points in zip(rows, moved, strict=True) if len(points) == len(g) == _cycle_length(g)]
    return any(frozenset((i, image)) in exchanges for g in cycles for i, image in enumerate(g))


def _cycle_length(g: Sequence[int]) -> int:
    """Of the cycle that contains 0."""
    point, length = g[0], 1
    while point != 0:
        point, length = g[point], length + 1
    return length
