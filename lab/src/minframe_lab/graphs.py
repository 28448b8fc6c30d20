"""Graphs with and without symmetry, as adjacency matrices."""

from __future__ import annotations

import math
from itertools import combinations

import torch
from torch import Tensor


def from_edges(n: int, edges: list[tuple[int, int]]) -> Tensor:
    """The adjacency matrix ``(n, n)`` of an undirected graph."""
    adjacency = torch.zeros(n, n, dtype=torch.float64)
    for i, j in edges:
        adjacency[i, j] = adjacency[j, i] = 1
    return adjacency


def cycle(n: int) -> Tensor:
    """``n`` nodes in a ring: 2n symmetries."""
    return from_edges(n, [(i, (i + 1) % n) for i in range(n)])


def path(n: int) -> Tensor:
    """``n`` nodes in a row: 2 symmetries."""
    return from_edges(n, [(i, i + 1) for i in range(n - 1)])


def complete(n: int) -> Tensor:
    """All pairs: n! symmetries."""
    return from_edges(n, list(combinations(range(n), 2)))


def bipartite(a: int, b: int) -> Tensor:
    """All pairs between ``a`` and ``b`` nodes: a! b! symmetries, twice as many if ``a = b``."""
    return from_edges(a + b, [(i, a + j) for i in range(a) for j in range(b)])


def hypercube(d: int) -> Tensor:
    """The corners of a cube: 2^d d! symmetries."""
    return from_edges(2**d, [(i, i ^ (1 << k)) for i in range(2**d) for k in range(d)])


def petersen() -> Tensor:
    """Pairs from five, joined if disjoint: 120 symmetries."""
    pairs = list(combinations(range(5), 2))
    return from_edges(10, [(i, j) for i in range(10) for j in range(i) if not set(pairs[i]) & set(pairs[j])])


def rook(k: int) -> Tensor:
    """The squares of a board, joined along rows and columns: 2 (k!)^2 symmetries."""
    squares = [(i, j) for i in range(k) for j in range(k)]
    joined = [(a, b) for a in range(k * k) for b in range(a) if (squares[a][0] == squares[b][0]) != (squares[a][1] == squares[b][1])]  # fmt: skip # noqa: E501
    return from_edges(k * k, joined)


def shrikhande() -> Tensor:
    """With the same spectrum as the rook's graph of the 4 x 4 board, and not the same graph: 192 symmetries."""
    steps = ((0, 1), (1, 0), (1, 1))
    return from_edges(
        16, [(4 * i + j, 4 * ((i + a) % 4) + (j + b) % 4) for i in range(4) for j in range(4) for a, b in steps]
    )


def triangles() -> Tensor:
    """Two triangles, which refinement cannot tell from a ring of six: 72 symmetries."""
    return from_edges(6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])


def symmetric_graphs() -> dict[str, Tensor]:
    """By name."""
    return {
        "path": path(8),
        "ring": cycle(12),
        "two triangles": triangles(),
        "Petersen": petersen(),
        "hypercube": hypercube(4),
        "Shrikhande": shrikhande(),
        "rook's graph": rook(4),
        "complete": complete(8),
        "no edges": torch.zeros(8, 8, dtype=torch.float64),
    }


def graphs_by_order(generator: torch.Generator) -> dict[str, tuple[int, Tensor]]:
    """Graphs of 16 nodes by name, each with the number of its symmetries, growing."""
    upper = torch.rand(16, 16, dtype=torch.float64, generator=generator).triu(1)
    return {
        "random weights": (1, upper + upper.mT),
        "path": (2, path(16)),
        "ring": (32, cycle(16)),
        "hypercube": (384, hypercube(4)),
        "rook's graph": (1152, rook(4)),
        "bipartite": (2 * math.factorial(8) ** 2, bipartite(8, 8)),
        "complete": (math.factorial(16), complete(16)),
    }
