"""A network on sets of atoms, all of it smooth, which knows nothing of rotations."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

SHARE = 0.3  # of a sum over the other atoms, about the root of one over their number
FREQUENCY = 1.5  # of the waves that embed relative vectors, per angstrom


class Messages(nn.Module):
    """What each ordered pair of atoms makes of both atoms and of itself, and each atom of its pairs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.pair, self.message = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.update = nn.Linear(width, width)
        self.act = nn.SiLU()

    def forward(self, h: Tensor, e: Tensor, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        known = self.norm(h)
        mixed = self.act(self.first(known)[ends[0]] + self.second(known)[ends[1]] + self.pair(e))
        e = e + self.act(self.message(mixed))
        return h + self.update(gathered(e, ends[0], len(h))), e


class PairNetwork(nn.Module):
    """Energies ``(B,)`` of molecules with positions ``(B, n, 3)``, kinds of atoms ``(B, n, k)`` and a mask ``(B, n)``.

    Pairs of atoms see their relative vector, by waves ``sin(w . v + p)`` with learned ``w``: in every direction anew,
    as no length or angle is given.
    """

    def __init__(self, kinds: int, width: int = 48, layers: int = 2) -> None:
        super().__init__()
        self.wave = nn.Parameter(FREQUENCY * torch.randn(3, width))
        self.phase = nn.Parameter(2 * math.pi * torch.rand(width))
        self.vector, self.embed = nn.Linear(width, width), nn.Linear(width, width)
        self.first, self.second = nn.Linear(kinds, width), nn.Linear(kinds, width, bias=False)
        self.atom = nn.Linear(kinds, width)
        self.layers = nn.ModuleList(Messages(width) for _ in range(layers))
        self.decode = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))
        self.act = nn.SiLU()

    def forward(self, pos: Tensor, species: Tensor, mask: Tensor) -> Tensor:
        count, n, _ = pos.shape
        apart = ~torch.eye(n, dtype=torch.bool, device=pos.device)
        sample, i, j = (mask[:, :, None] & mask[:, None] & apart).nonzero().unbind(-1)
        ends = sample * n + i, sample * n + j
        x, kind = pos.reshape(-1, 3), species.reshape(count * n, -1)
        e = torch.sin((x[ends[1]] - x[ends[0]]) @ self.wave + self.phase)
        e = self.act(self.vector(e) + self.first(kind)[ends[0]] + self.second(kind)[ends[1]])
        e = self.act(self.embed(e))
        h = self.atom(kind) + gathered(e, ends[0], len(kind))
        for layer in self.layers:
            h, e = layer(h, e, ends)
        return cast(Tensor, (self.decode(h).view(count, n) * mask).sum(-1))


def gathered(e: Tensor, atom: Tensor, count: int) -> Tensor:
    """The sum of pairs ``(M, width)`` over the second atom, times ``SHARE``: ``(count, width)``."""
    return SHARE * e.new_zeros(count, e.shape[-1]).index_add(0, atom, e)
