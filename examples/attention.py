"""A layer of attention among neighbours that knows no symmetry, and clouds of points with forces of three bodies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

import minframe as mf


class Attention(nn.Module):
    """Attention of points to their neighbours, by what these are, have and where they stand."""

    def __init__(self, width: int, cutoff: float, heads: int = 4) -> None:
        super().__init__()
        self.cutoff, self.heads = cutoff, heads
        self.pair = nn.Sequential(nn.Linear(2 * width + 7, width), nn.SiLU(), nn.Linear(width, width + heads))
        self.out = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width + 3))

    def forward(
        self, vectors: Tensor, own: Tensor, h: Tensor, v: Tensor, index: Tensor, count: int | None = None
    ) -> dict[str, Tensor]:
        length = vectors.norm(dim=-1, keepdim=True)
        pair = self.pair(torch.cat([vectors, length, v, own, h], -1))
        value, score = pair[:, : -self.heads], pair[:, -self.heads :].clamp(-8, 8).exp()
        weight = score * mf.envelope(vectors, self.cutoff).unsqueeze(-1)  # so that neighbours come and go smoothly
        count = int(index.max()) + 1 if count is None else count
        total = weight.new_ones(count, self.heads).index_add(0, index, weight)
        mixed = (weight / total[index]).repeat_interleave(value.shape[1] // self.heads, -1) * value
        y = self.out(value.new_zeros(count, value.shape[1]).index_add(0, index, mixed))
        return {"h": y[:, 3:], "v": y[:, :3]}


@dataclass(frozen=True)
class Cloud:
    """Several clouds as one batch of ``N`` points, with ``M`` edges from neighbours to points."""

    pos: Tensor
    z: Tensor
    edge_index: Tensor
    batch: Tensor
    force: Tensor

    def turned(self, g: Tensor) -> Cloud:
        return replace(self, pos=self.pos @ g.mT, force=self.force @ g.mT)


def clouds(count: int, points: int, cutoff: float, together: int = 4) -> list[Cloud]:
    """``count`` batches of clouds of unit density."""
    found = []
    for _ in range(count):
        pos = torch.rand(together * points, 3) * points ** (1 / 3)
        z, batch = torch.randint(4, (len(pos),)), torch.arange(together).repeat_interleave(points)
        far = torch.cdist(pos, pos) + 100.0 * ((batch[:, None] != batch) | torch.eye(len(pos), dtype=torch.bool))
        receiver, sender = (far < cutoff).nonzero().mT
        found.append(Cloud(pos, z, torch.stack([sender, receiver]), batch, _three_bodies(pos, z, far, cutoff)))
    return found


def _three_bodies(pos: Tensor, z: Tensor, far: Tensor, cutoff: float) -> Tensor:
    """Minus the gradient of ``sum_i sum_jk w_ij w_ik q_j q_k cos^2(angle_jik)``, with ``q`` by kind."""
    x = pos.clone().requires_grad_()
    vectors = x[None] - x[:, None]
    weight = mf.envelope(vectors, cutoff) * (far < cutoff) * (1.0 + z)
    unit = vectors / (vectors.square().sum(-1, keepdim=True) + 1e-2).sqrt()
    cosine = torch.einsum("ijd,ikd->ijk", unit, unit)
    energy = (weight.unsqueeze(-1) * weight.unsqueeze(-2) * cosine.square()).sum()
    return -torch.autograd.grad(energy, x)[0] / 10
