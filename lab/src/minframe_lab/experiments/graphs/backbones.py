"""A multilayer perceptron on the adjacency matrix, and a graph isomorphism network that may know the nodes' places."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn


class AdjacencyNetwork(nn.Module):
    """A perceptron on the entries of the matrix ``(B, n, n)`` and on the colours ``(B, n, c)``, to ``(B, out)``."""

    def __init__(self, n: int, colours: int, hidden: Sequence[int], out: int, activation: type[nn.Module]) -> None:
        super().__init__()
        sizes = [n * (n + colours), *hidden]
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(sizes):
            layers += [nn.Linear(a, b), activation()]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], out))

    def forward(self, adjacency: Tensor, colour: Tensor, mask: Tensor | None = None) -> Tensor:
        return cast(Tensor, self.layers(torch.cat([adjacency.flatten(1), colour.flatten(1)], -1)))


class IsomorphismNetwork(nn.Module):
    """A graph isomorphism network (GIN), summed over nodes, to ``(B, out)``.

    With ``places`` a node begins with a vector for its place in the order: more than refinement of colours is told
    apart then, but the answer depends on the order.
    """

    def __init__(self, n: int, colours: int, width: int = 64, layers: int = 3, out: int = 10, places: bool = True):
        super().__init__()
        self.places = places
        self.embed = nn.Linear(max(colours, 1), width)
        self.place = nn.Parameter(torch.randn(n, width)) if places else None
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()) for _ in range(layers)
        )
        self.out = nn.Linear(width, out)

    def forward(self, adjacency: Tensor, colour: Tensor, mask: Tensor | None = None) -> Tensor:
        h = self.embed(colour if colour.shape[-1] else adjacency.new_ones(*adjacency.shape[:2], 1))
        if self.place is not None:
            h = h + self.place
        for layer in self.layers:
            h = layer(h + adjacency @ h)
        if mask is not None:
            h = h * mask.unsqueeze(-1)
        return cast(Tensor, self.out(h.sum(1)))


class PublishedIsomorphismNetwork(nn.Module):
    """The GIN of published comparisons: one linear map a layer, a random weight of the node itself, tanh throughout.

    Nodes begin with one, their degree and their colours; with ``places`` also with their place in the order.
    """

    def __init__(self, n: int, colours: int, width: int = 64, layers: int = 3, out: int = 10, places: bool = True):
        super().__init__()
        sizes = [2 + colours + (n if places else 0), *[width] * layers]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.own = nn.Parameter(torch.rand(layers))
        self.out = nn.Linear(width, out)
        self.places = places

    def forward(self, adjacency: Tensor, colour: Tensor, mask: Tensor | None = None) -> Tensor:
        degree = adjacency.sum(-1, keepdim=True)
        h = torch.cat([torch.ones_like(degree), degree, colour], -1)
        if self.places:
            place = torch.eye(adjacency.shape[-1], dtype=h.dtype, device=h.device)
            h = torch.cat([h, place.expand(len(h), -1, -1)], -1)
        for layer, own in zip(self.layers, self.own, strict=True):
            h = layer((1 + own) * h + adjacency @ h).tanh()
        if mask is not None:
            h = h * mask.unsqueeze(-1)
        return cast(Tensor, self.out(h.sum(1)).tanh())


def backbone(name: str, n: int, colours: int, ordered: bool = True, out: int = 10) -> nn.Module:
    """``"mlp"``, ``"gin"`` or ``"gin-published"``, for graphs of ``n`` nodes; ``ordered`` lets it use their order."""
    if name == "gin":
        return IsomorphismNetwork(n, colours, out=out, places=ordered)
    if name == "gin-published":
        return PublishedIsomorphismNetwork(n, colours, out=out, places=ordered)
    if name == "mlp":
        hidden = (128, 64) if n <= 8 else (2048, 4096, 2048)
        return AdjacencyNetwork(n, colours, hidden, out, nn.Tanh if n <= 8 else nn.ReLU)
    raise ValueError(f"no backbone is called {name!r}: use mlp, gin or gin-published")
