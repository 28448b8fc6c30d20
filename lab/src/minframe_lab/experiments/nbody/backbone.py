"""The paper's network for particles: message passing, equivariant to permutations and to nothing else."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

SOFTENING = 0.05


def neighbours(x: Tensor) -> Tensor:
    """For each of ``(B, n, c)`` rows all others, ``(B, n, n - 1, c)``."""
    return torch.stack([x.roll(-shift, 1) for shift in range(1, x.shape[1])], 2)


def fourth(product: Tensor, square: Tensor) -> Tensor:
    """The paper's features of a pair: the product of the charges and the fourth power of the distance."""
    return torch.cat([product, square.square()], -1)


def potential(product: Tensor, square: Tensor) -> Tensor:
    """Features that see small distances too: the energy of the pair, softened, and the logarithm of the distance."""
    softened = square + SOFTENING**2
    return torch.cat([product * softened.rsqrt(), softened.log() / 2], -1)


EDGES = {"fourth": fourth, "potential": potential}


class Layer(nn.Module):
    """Messages from all other particles, added up; then each particle's own update."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.edge = nn.Linear(width + 2, width)
        self.edge_end = nn.Sequential(nn.SiLU(), nn.LayerNorm(width), nn.Dropout(dropout))
        self.node = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.LayerNorm(width), nn.Dropout(dropout))

    def forward(self, h: Tensor, edges: Tensor) -> Tensor:
        # The linear map of h_i - h_j is that of h_i less that of h_j, so it is taken once a particle, not once a pair.
        width = h.shape[-1]
        sent = h @ self.edge.weight[:, :width].mT
        linear = (sent + self.edge.bias).unsqueeze(2) - neighbours(sent) + edges @ self.edge.weight[:, width:].mT
        received = self.edge_end(linear).sum(2)
        return h + cast(Tensor, self.node(torch.cat([h, received], -1)))


class ParticleNetwork(nn.Module):
    """Later positions ``(B, n, 3)`` of charged particles; 49,383 parameters.

    >>> sum(p.numel() for p in ParticleNetwork().parameters())
    49383
    """

    def __init__(self, width: int = 60, layers: int = 4, dropout: float = 0.1, edges: str = "fourth") -> None:
        super().__init__()
        if edges not in EDGES:
            raise ValueError(f"no features of pairs are called {edges!r}: use one of {', '.join(EDGES)}")
        self.edges = EDGES[edges]
        self.embed = nn.Linear(6, width)
        self.layers = nn.ModuleList(Layer(width, dropout) for _ in range(layers))
        self.decode = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 3))

    def forward(self, pos: Tensor, vel: Tensor, charge: Tensor) -> Tensor:
        square = (pos.unsqueeze(2) - neighbours(pos)).square().sum(-1, keepdim=True)
        edges = self.edges(charge.unsqueeze(2) * neighbours(charge), square)
        h = self.embed(torch.cat([pos, vel], -1))
        for layer in self.layers:
            h = layer(h, edges)
        return pos + cast(Tensor, self.decode(h))
