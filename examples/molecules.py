"""Random graphs like molecules, their eigenvectors as a library returns them, and a small graph network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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


class Network(nn.Module):
    """Two rounds of message passing."""

    def __init__(self, variant: str, width: int = 48) -> None:
        super().__init__()
        self.variant = variant
        self.first = nn.Linear(4 + 2 * K, width)
        self.rounds = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))
        self.last = nn.Linear(width, 1)

    def forward(self, a: Tensor, kinds: Tensor, vectors: Tensor, values: Tensor) -> Tensor:
        vectors = vectors * (self.variant not in ("none", "eigenvalues"))
        if self.variant == "random signs" and self.training:
            vectors = vectors * (2 * torch.randint(2, (len(a), 1, K)) - 1)
        values = values.unsqueeze(1).expand_as(vectors) * (self.variant != "none")
        h = torch.relu(self.first(torch.cat([kinds, 4 * vectors, values], -1)))
        for layer in self.rounds:
            h = h + torch.relu(layer(torch.cat([h, a @ h], -1)))
        return self.last(h).squeeze(-1)
