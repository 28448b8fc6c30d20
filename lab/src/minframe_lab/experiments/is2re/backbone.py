"""A network of FAENet's kind: messages see directions of neighbours as they are, so that it is not invariant."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from minframe_lab.experiments.is2re.data import ELEMENTS

TAG_KINDS = 3


class Interaction(nn.Module):
    """Neighbours, filtered by what lies between, added up; then each atom's own update."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Linear(width, width)
        self.down, self.up = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, h: Tensor, edges: Tensor, ends: tuple[Tensor, Tensor], fade: Tensor) -> Tensor:
        sent = self.down(h)[ends[1]] * self.filter(edges) * fade
        received = torch.zeros_like(h).index_add(0, ends[0], sent)
        return cast(Tensor, h + self.up(nn.functional.silu(self.norm(received))))


class SlabNetwork(nn.Module):
    """An energy ``(B,)`` from atoms and the vectors to their neighbours, as ``data.tensors`` gives them.

    It does not see the order of atoms or of neighbours. What it adds up fades out at the cutoff.
    """

    def __init__(self, width: int = 64, interactions: int = 3, gaussians: int = 32, cutoff: float = 4.5) -> None:
        super().__init__()
        self.cutoff = cutoff
        self.kinds, self.tags = nn.Embedding(ELEMENTS, width), nn.Embedding(TAG_KINDS, width)
        self.register_buffer("centres", torch.linspace(0, cutoff, gaussians), persistent=False)
        self.between = nn.Sequential(nn.Linear(3 + gaussians + 2 * width, width), nn.SiLU(), nn.Linear(width, width))
        self.interactions = nn.ModuleList(Interaction(width) for _ in range(interactions))
        self.end = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, numbers: Tensor, tags: Tensor, vectors: Tensor, index: Tensor) -> Tensor:
        count, n = numbers.shape
        there = (numbers > 0).flatten().nonzero().squeeze(-1)  # only atoms and pairs that are there cost anything
        pair = (index >= 0).flatten().nonzero().squeeze(-1)
        receiver = pair // index.shape[2]
        place = numbers.new_zeros(count * n).index_copy(0, there, torch.arange(len(there), device=there.device))
        ends = place[receiver], place[receiver // n * n + index.flatten()[pair]]
        h = self.kinds(numbers.flatten()[there]) + self.tags(tags.flatten()[there])
        v = vectors.reshape(-1, 3)[pair].to(h.dtype)
        distance = v.norm(dim=-1, keepdim=True)
        centres = cast(Tensor, self.centres)
        gaussians = (-((distance - centres) / (centres[1] - centres[0])).square() / 2).exp()
        edges = nn.functional.silu(self._between(torch.cat([v, gaussians], -1), h, ends))
        fade = (1 - (distance / self.cutoff).square()).clamp_min(0).square()
        for interaction in self.interactions:
            h = interaction(h, edges, ends, fade)
        return h.new_zeros(count).index_add(0, there // n, self.end(h)[..., 0])

    def _between(self, seen: Tensor, h: Tensor, ends: tuple[Tensor, Tensor]) -> Tensor:
        """The network of ``[seen, h_i, h_j]`` of pairs ``(i, j)``; its first map is applied before pairing."""
        first, *rest = self.between
        weight = cast(Tensor, first.weight)
        of_pair, *of_ends = torch.split(weight, [seen.shape[1], h.shape[1], h.shape[1]], 1)
        mixed = nn.functional.linear(seen, of_pair, cast(Tensor, first.bias))
        for end, part in zip(ends, of_ends, strict=True):
            mixed = mixed + nn.functional.linear(h, part)[end]
        for layer in rest:
            mixed = layer(mixed)
        return mixed
