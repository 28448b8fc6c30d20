"""The paper's network for clouds: linear maps along the points and along their coordinates, in turn."""

from __future__ import annotations

import itertools
from typing import cast

import torch
from torch import Tensor, nn


class CloudNetwork(nn.Module):
    """A positive number for each cloud ``(B, n, d)``; it depends on the order of the points and on their pose.

    Args:
        n: number of points.
        d: number of coordinates.
        width: of hidden layers, along both axes.
        rounds: how often both axes are mixed.
        typical: what is returned if the network itself gives zero.
    """

    def __init__(self, n: int = 16, d: int = 5, width: int = 32, rounds: int = 3, typical: float = 12.0) -> None:
        super().__init__()
        sizes = [(n, d)] + [(width, width)] * rounds
        self.features = nn.ModuleList(nn.Linear(a[1], b[1]) for a, b in itertools.pairwise(sizes))
        self.nodes = nn.ModuleList(nn.Linear(a[0], b[0]) for a, b in itertools.pairwise(sizes))
        self.out = nn.Linear(width * width, 1)
        self.typical = typical

    def forward(self, x: Tensor) -> Tensor:
        for i, (feature, node) in enumerate(zip(self.features, self.nodes, strict=True)):
            y = nn.functional.silu(feature(x))
            y = nn.functional.silu(node(y.mT)).mT
            x = x + y if i else y
        return self.typical * torch.exp(cast(Tensor, self.out(x.flatten(1))).squeeze(-1))
