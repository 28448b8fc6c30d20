"""Upright shapes made of boxes, tubes and discs, as point clouds, and a network of point clouds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

Parts = list[tuple[Tensor, Tensor]]  # centres and half widths, both (B, 3); of tubes and discs, too
KINDS = ("table", "chair", "lamp", "bottle", "tree", "arch", "stairs", "plane", "cup", "bench")


def parts(kind: str, b: int) -> Parts:
    """Boxes of ``b`` shapes of one kind, z up; proportions are random."""

    def between(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(b)

    def box(x: Tensor, y: Tensor, z: Tensor, a: Tensor, c: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        return torch.stack([x, y, z], -1), torch.stack([a, c, e], -1)

    o, w, d, h, t = torch.zeros(b), between(0.5, 1.0), between(0.4, 0.8), between(0.6, 1.2), between(0.04, 0.1)
    legs = [box(i * w, j * d, -h / 2, t, t, h / 2) for i in (-1, 1) for j in (-1, 1)]
    top = box(o, o, o, w, d, t)
    return {
        "table": [top, *legs],
        "chair": [top, *legs, box(-w, o, h / 2, t, d, h / 2)],
        "lamp": [box(o, o, -h, d, d, t), box(o, o, o, t, t, h), box(o, o, h, w, w, between(0.15, 0.3))],
        "bottle": [box(o, o, o, d, d, h), box(o, o, 1.4 * h, d / 3, d / 3, 0.4 * h)],
        "tree": [box(o, o, -h, t, t, h / 2), box(o, o, o, w, w, h / 2), box(o, o, 0.8 * h, w / 2, w / 2, h / 3)],
        "arch": [box(-w, o, o, 2 * t, d, h), box(w, o, o, 2 * t, d, h), box(o, o, h, w, d, 2 * t)],
        "stairs": [box(w * k / 2, o, h * k / 8, w / 4, d, h * k / 8) for k in range(1, 5)],
        "plane": [box(o, o, o, 1.5 * w, 2 * t, 2 * t), box(o, o, o, d / 3, 1.5 * h, t), box(-w, o, 3 * t, t, t, 3 * t)],
        "cup": [box(o, o, -h / 2, d, d, t), *(box(i * d, o, o, t, d, h / 2) for i in (-1, 1)), box(d, o, o, d, t, t)],
        "bench": [box(o, o, o, 2 * w, d / 2, t), box(o, -d / 2, h / 2, 2 * w, t, h / 3), *legs],
    }[kind]  # fmt: skip


def shapes(count: int, points: int = 64) -> tuple[Tensor, Tensor]:
    """Clouds ``(count, points, 3)``, in units of their size, and kinds ``(count,)``."""
    clouds, kinds = [], []
    for k, kind in enumerate(KINDS):
        b = len(range(k, count, len(KINDS)))
        centre, half = (torch.stack(x, 1) for x in zip(*parts(kind, b), strict=True))  # (b, parts, 3)
        area = half.prod(-1, keepdim=True) * (1 / half).sum(-1, keepdim=True)
        part = torch.multinomial(area.squeeze(-1), points, replacement=True).unsqueeze(-1).expand(-1, -1, 3)
        inside = 2 * torch.rand(b, points, 3) - 1
        side = torch.multinomial((1 / half).gather(1, part).reshape(-1, 3), 1).view(b, points, 1)
        surface = inside.scatter(-1, side, inside.gather(-1, side).sign())
        clouds.append(centre.gather(1, part) + half.gather(1, part) * surface + 0.01 * torch.randn(b, points, 3))
        kinds.append(torch.full((b,), k))
    x, y = torch.cat(clouds), torch.cat(kinds)
    x = x - x.mean(1, keepdim=True)
    return x / x.norm(dim=-1).mean(-1)[:, None, None], y


class PointNet(nn.Module):
    """Numbers of each point, the largest over all points, and numbers of these."""

    def __init__(self, outputs: int, width: int = 128) -> None:
        super().__init__()
        self.points = nn.Sequential(
            nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width)
        )
        self.head = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.points(x).amax(-2))
