"""Random graphs like molecules, and their eigenvectors as a library returns them."""

from __future__ import annotations

import torch
from torch import Tensor

VALENCE = (4, 3, 2, 1)  # of the kinds of atoms
N = 24  # atoms at most
K = 8  # eigenvectors


def molecule(random: torch.Generator) -> tuple[Tensor, Tensor]:
    """An adjacency matrix ``(n, n)`` and kinds ``(n,)``: a tree of atoms and rings that keeps the valences."""

    def draw(n: int) -> int:
        return int(torch.randint(n, (1,), generator=random))

    kinds, free, bonds = [0], [4], []

    def add(kind: int, to: int) -> int:
        bonds.append((to, len(kinds)))
        free[to] -= 1
        kinds.append(kind)
        free.append(VALENCE[kind] - 1)
        return len(kinds) - 1

    while len(kinds) < N - 6 and any(free) and (len(kinds) < 6 or draw(8)):
        to = [i for i, f in enumerate(free) if f][draw(sum(f > 0 for f in free))]
        at = first = add(0 if draw(4) == 0 else draw(4), to)
        if kinds[first] == 0 and draw(2):
            for _ in range(4 + draw(2)):
                at = add(0, at)
            bonds.append((first, at))
            free[first], free[at] = free[first] - 1, free[at] - 1
    a = torch.zeros(len(kinds), len(kinds), dtype=torch.float64)
    i, j = torch.tensor(bonds).mT
    a[i, j] = a[j, i] = 1
    return a, torch.tensor(kinds)


def library_encodings(a: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvectors ``(n, K)`` and eigenvalues ``(K,)`` of the normalized Laplacian as ``eigh`` returns them."""
    scale = a.sum(-1).rsqrt()
    values, vectors = torch.linalg.eigh(torch.eye(len(a), dtype=a.dtype) - scale[:, None] * a * scale)
    return vectors[:, :K], values[:K]
