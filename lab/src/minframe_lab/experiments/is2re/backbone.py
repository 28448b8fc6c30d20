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

    def forward(self, h: Tensor, edges: Tensor, neighbour: Tensor, fade: Tensor) -> Tensor:
        batch = torch.arange(len(h), device=h.device)[:, None, None]
        sent = self.down(h)[batch, neighbour]
        received = (sent * self.filter(edges) * fade.unsqueeze(-1)).sum(2)
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
        there, neighbour = numbers > 0, index.clamp_min(0)
        vectors = vectors.to(next(self.parameters()).dtype)
        h = self.kinds(numbers) + self.tags(tags)
        distance = vectors.norm(dim=-1, keepdim=True)
        centres = cast(Tensor, self.centres)
        gaussians = (-((distance - centres) / (centres[1] - centres[0])).square() / 2).exp()
        batch = torch.arange(len(h), device=h.device)[:, None, None]
        ends = [h.unsqueeze(2).expand(-1, -1, index.shape[2], -1), h[batch, neighbour]]
        edges = nn.functional.silu(self.between(torch.cat([vectors, gaussians, *ends], -1)))
        fade = (1 - (distance[..., 0] / self.cutoff).square()).clamp_min(0).square() * (index >= 0)
        for interaction in self.interactions:
            h = interaction(h, edges, neighbour, fade)
        return cast(Tensor, (self.end(h)[..., 0] * there).sum(1))
