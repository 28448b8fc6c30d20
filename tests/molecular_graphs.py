"""Graphs like those of molecules, trees, and strongly regular graphs, as weighted adjacency matrices."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

D = torch.float64
VALENCE = (4, 3, 2, 1)  # of carbon, nitrogen, oxygen and hydrogen or a halogen


def molecule_like(seed: int) -> tuple[Tensor, Tensor]:
    """A random graph with the valences, rings and repeated branches of molecules: weights are bond orders."""
    random = torch.Generator().manual_seed(seed)

    def draw(n: int) -> int:
        return int(torch.randint(n, (1,), generator=random))

    kinds, bonds = [0], {}
    left = [4]

    def add(kind: int, to: int, order: int = 1) -> int:
        kinds.append(kind)
        left.append(VALENCE[kind] - order)
        left[to] -= order
        bonds[to, len(kinds) - 1] = order
        return len(kinds) - 1

    for _ in range(4 + draw(9)):
        open_ = [i for i, free in enumerate(left) if free > 0]
        if not open_:
            break
        to = open_[draw(len(open_))]
        if draw(4) == 0 and left[to] >= 1:  # a ring of five or six
            ring = [add(0, to)]
            for _ in range(4 + draw(2)):
                ring.append(add(0 if draw(6) else 1, ring[-1]))
            if left[ring[-1]] > 0 and left[ring[0]] > 0:
                bonds[ring[0], ring[-1]] = 1
                left[ring[0]] -= 1
                left[ring[-1]] -= 1
        else:
            copies = 1 + (draw(3) == 0)  # twins, as of methyl groups, make automorphisms
            kind = draw(4)
            for _ in range(min(copies, left[to])):
                add(kind, to)
    a = torch.zeros(len(kinds), len(kinds), dtype=D)
    for (i, j), order in bonds.items():
        a[i, j] = a[j, i] = order
    return a, torch.tensor(kinds)


def tree(seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    n = 2 + seed % 24
    a = torch.zeros(n, n, dtype=D)
    for i in range(1, n):
        j = int(torch.randint(i, (1,), generator=random))
        a[i, j] = a[j, i] = 1
    return a


def rook(m: int) -> Tensor:
    cells = list(itertools.product(range(m), repeat=2))
    return torch.tensor([[float(a != b and (a[0] == b[0] or a[1] == b[1])) for b in cells] for a in cells], dtype=D)


def cayley(m: int, steps: set[tuple[int, int]]) -> Tensor:
    """Pairs of numbers modulo ``m``, neighbours if they differ by a step."""
    cells = list(itertools.product(range(m), repeat=2))
    return torch.tensor(
        [[float(((a[0] - b[0]) % m, (a[1] - b[1]) % m) in steps) for b in cells] for a in cells], dtype=D
    )


def paley(q: int) -> Tensor:
    squares = {x * x % q for x in range(1, q)}
    return torch.tensor([[float((a - b) % q in squares) for b in range(q)] for a in range(q)], dtype=D)


SHRIKHANDE = cayley(4, {(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)})
STRONGLY_REGULAR = {"rook 4x4": rook(4), "Shrikhande": SHRIKHANDE, "Paley 13": paley(13), "Paley 17": paley(17), "rook 5x5": rook(5)}  # fmt: skip
