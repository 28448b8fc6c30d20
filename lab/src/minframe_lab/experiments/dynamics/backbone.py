"""A network on sets of atoms, all of it smooth, which knows nothing of rotations."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """What each atom learns from all atoms of its molecule, and what it makes of it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.ask = nn.Linear(width, 3 * width)
        self.answer = nn.Linear(width, width)
        self.update = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        b, n, width = h.shape
        q, k, v = self.ask(self.norms[0](h)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = (q @ k.mT) * (width // self.heads) ** -0.5
        score = score.masked_fill(~mask[:, None, None], -torch.inf)
        h = h + self.answer((score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, width))
        return h + cast(Tensor, self.update(self.norms[1](h)))


class SetTransformer(nn.Module):
    """Energies ``(B,)`` of molecules with positions ``(B, n, 3)``, elements ``(B, n, 6)`` and a mask ``(B, n)``."""

    def __init__(self, elements: int, width: int = 48, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3 + elements, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.decode = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, pos: Tensor, species: Tensor, mask: Tensor) -> Tensor:
        h = self.embed(torch.cat([pos, species], -1))
        for layer in self.layers:
            h = layer(h, mask)
        return cast(Tensor, (self.decode(h).squeeze(-1) * mask).sum(-1))
