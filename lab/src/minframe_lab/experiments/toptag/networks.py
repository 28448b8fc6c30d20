"""The networks of the top-tagging experiment: a transformer, the paper's MinkGNN, and the mass of the jet alone."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from minframe_lab.experiments.toptag.lorentz import (
    FEATURES,
    PREPROCESSED,
    mass,
    minkowski,
    raw_features,
    usual_features,
)

PAIR_FEATURES = 2
VECTOR_STEP = 1e-3  # how far the paper's network moves momenta in a layer, at the start


class Block(nn.Module):
    """Attention and a perceptron, both on normalised inputs."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.own = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.mix(self.before(h)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        h = h + self.out(mixed.transpose(1, 2).flatten(2))
        return cast(Tensor, h + self.own(self.between(h)))


class Transformer(nn.Module):
    """A logit ``(B,)`` for each jet, from features of its constituents; it does not see their order."""

    def __init__(self, width: int = 64, layers: int = 3, heads: int = 4, preprocessed: bool = False) -> None:
        super().__init__()
        self.preprocessed = preprocessed
        self.embed = nn.Sequential(
            nn.Linear(PREPROCESSED if preprocessed else FEATURES, width), nn.GELU(), nn.Linear(width, width)
        )
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.end = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, p: Tensor, mask: Tensor) -> Tensor:
        features = (usual_features if self.preprocessed else raw_features)(p, mask)
        h = self.embed(features.to(next(self.parameters()).dtype))
        for block in self.blocks:
            h = block(h, mask)
        return cast(Tensor, self.end(pooled(h, mask))[..., 0])


def pooled(h: Tensor, mask: Tensor) -> Tensor:
    """The mean of ``(B, n, c)`` over what is there."""
    return (h * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


def squashed(x: Tensor) -> Tensor:
    """``sign(x) log(1 + |x|)``, for products of momenta, which range over many decades."""
    return x.sign() * x.abs().log1p()


class MinkowskiLayer(nn.Module):
    """Messages that see products of momenta, and momenta that are moved along each other.

    With ``invariant=False``, as in the paper, momenta also pass through a perceptron of their own, which no boost
    commutes with: the network then needs a frame.
    """

    def __init__(self, width: int, invariant: bool, last: bool) -> None:
        super().__init__()
        self.last = last  # where momenta go behind it is of no use
        self.parts = [width, width, PAIR_FEATURES]
        self.message = nn.Sequential(
            nn.Linear(2 * width + PAIR_FEATURES, width),
            nn.LayerNorm(width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
        )
        self.weight = nn.Sequential(nn.Linear(width, 1), nn.Sigmoid())
        self.node = nn.Sequential(nn.Linear(2 * width, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width))
        self.vectors = None if invariant else nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 4))
        if not last:
            self.move = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1, bias=False))

    def forward(self, h: Tensor, x: Tensor, pair: Tensor) -> tuple[Tensor, Tensor]:
        if self.vectors is not None:
            x = x + self.vectors(x)
        products = minkowski(x.unsqueeze(2), x.unsqueeze(1))
        square = products.diagonal(dim1=1, dim2=2)
        distance = square.unsqueeze(2) + square.unsqueeze(1) - 2 * products
        edges = torch.stack([squashed(distance), squashed(products)], -1)
        # The first map of a message is linear in both ends: it is taken once a constituent, not once a pair.
        first = cast(nn.Linear, self.message[0])
        to, fro, of_pair = torch.split(first.weight, self.parts, 1)
        linear = nn.functional.linear(h, to, first.bias).unsqueeze(2) + (h @ fro.mT).unsqueeze(1) + edges @ of_pair.mT
        m = self.message[1:](linear) * pair.unsqueeze(-1)
        received = (m * self.weight(m)).sum(2)
        if not self.last:
            x = x + VECTOR_STEP * ((self.move(m) * pair.unsqueeze(-1)).clamp(-100, 100) * x.unsqueeze(1)).mean(2)
        return h + self.node(torch.cat([h, received], -1)), x


class MinkGNN(nn.Module):
    """LorentzNet's kind of network on momenta ``(B, n, 4)``; a logit ``(B,)`` for each jet."""

    UNIT = 20.0  # GeV, in which momenta are about one

    def __init__(self, width: int = 32, layers: int = 3, invariant: bool = False) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.randn(width) / width**0.5)
        self.layers = nn.ModuleList(MinkowskiLayer(width, invariant, last=i == layers - 1) for i in range(layers))
        self.end = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, p: Tensor, mask: Tensor) -> Tensor:
        n = p.shape[1]
        pair = mask.unsqueeze(2) & mask.unsqueeze(1) & ~torch.eye(n, dtype=torch.bool, device=p.device)
        x = p.to(self.embed.dtype) / self.UNIT
        h = self.embed.expand(len(p), n, -1) * mask.unsqueeze(-1)
        for layer in self.layers:
            h, x = layer(h, x, pair)
        return cast(Tensor, self.end(pooled(h, mask))[..., 0])


class JetMass(nn.Module):
    """A logit that depends on the mass of the jet alone: what any other network has to be better than."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def forward(self, p: Tensor, mask: Tensor) -> Tensor:
        m = (mass(p, mask) / 100).log1p().unsqueeze(-1)
        return cast(Tensor, self.network(m.to(next(self.parameters()).dtype))[..., 0])
