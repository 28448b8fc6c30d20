"""The backbones of the paper's appendix: without any symmetry of their own, real or complex, with random weights.

Every one is made from a generator, so that all methods meet the same network.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

WIDTH = 32
DEGREE = 6

Backbone = Callable[[Tensor], Tensor]


class Source:
    """Random weights of one dtype."""

    def __init__(self, generator: torch.Generator, dtype: torch.dtype) -> None:
        self.generator, self.dtype = generator, dtype

    def normal(self, *shape: int) -> Tensor:
        """Drawn in double precision, so that backbones of both precisions are the same."""
        wide = torch.promote_types(self.dtype, torch.float64)
        return torch.randn(*shape, dtype=wide, generator=self.generator).to(self.dtype)

    def linear(self, inputs: int, outputs: int) -> Linear:
        return Linear(self.normal(inputs, outputs) * (2 / inputs) ** 0.5, 0.3 * self.normal(outputs))

    def graph(self, n: int) -> Tensor:
        """A random graph, with labelled nodes, of mean degree six: its adjacency matrix."""
        drawn = torch.rand(n, n, dtype=torch.float64, generator=self.generator) < min(1.0, DEGREE / max(1, n - 1))
        upper = drawn.triu(1)
        return (upper | upper.mT).to(self.dtype)


class Linear(nn.Module):
    """``x @ weight + bias``."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight, False), nn.Parameter(bias, False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def bend(x: Tensor) -> Tensor:
    """SiLU, of real and imaginary part."""
    if x.is_complex():
        return torch.complex(nn.functional.silu(x.real), nn.functional.silu(x.imag))
    return nn.functional.silu(x)


def clip(x: Tensor) -> Tensor:
    """ReLU, of real and imaginary part."""
    return torch.complex(x.real.relu(), x.imag.relu()) if x.is_complex() else x.relu()


class Norm(nn.Module):
    """Batch normalisation as it is when training is over: by fixed means and deviations."""

    def __init__(self, source: Source, width: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(0.3 * source.normal(width), False)
        self.scale = nn.Parameter(0.5 + source.normal(width).abs().to(source.dtype), False)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) * self.scale


class MLP(nn.Module):
    """The same on every row."""

    def __init__(self, source: Source, d: int, norm: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList([source.linear(d, WIDTH), source.linear(WIDTH, WIDTH), source.linear(WIDTH, d)])
        self.norms = nn.ModuleList(Norm(source, WIDTH) if norm else nn.Identity() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=False):
            x = bend(norm(layer(x)))
        return self.layers[-1](x)


class GIN(nn.Module):
    """Graph isomorphism network: sums over neighbours, on a graph that does not depend on the cloud."""

    def __init__(self, source: Source, d: int, n: int) -> None:
        super().__init__()
        self.graph = nn.Parameter(source.graph(n), False)
        self.layers = nn.ModuleList(nn.Sequential(source.linear(a, WIDTH), Bend()) for a in (d, WIDTH))
        self.last = source.linear(WIDTH, d)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(1.1 * x + self.graph @ x)
        return self.last(x)


class Bend(nn.Module):
    """``bend`` as a module."""

    def forward(self, x: Tensor) -> Tensor:
        return bend(x)


class GCN(nn.Module):
    """Graph convolutions: means over neighbours, weighted by degrees."""

    def __init__(self, source: Source, d: int, n: int) -> None:
        super().__init__()
        graph = source.graph(n) + torch.eye(n, dtype=source.dtype)
        scale = graph.sum(-1).abs().rsqrt().to(source.dtype)
        self.graph = nn.Parameter(scale.unsqueeze(-1) * graph * scale, False)
        self.layers = nn.ModuleList([source.linear(d, WIDTH), source.linear(WIDTH, WIDTH)])
        self.last = source.linear(WIDTH, d)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = bend(self.graph @ layer(x))
        return self.last(x)


def relu(x: Tensor) -> Tensor:
    """``x + ReLU(x)``."""
    return x + clip(x)


def sine(x: Tensor) -> Tensor:
    """``sin(x) - x / |x|``, row by row."""
    return x.sin() - x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def rough(x: Tensor) -> Tensor:
    """Homogeneous and without any symmetry, so that it fits clouds of every scale and number of rows."""
    d = x.shape[-1]
    weight = torch.linspace(-1.3, 1.1, d * d, dtype=x.real.dtype).view(d, d).sin().to(x.dtype)
    return x @ weight - 0.3 * x.abs().roll(1, -1) + 0.2 * x.roll(1, -2)


def cloud_backbones(d: int, n: int, dtype: torch.dtype, generator: torch.Generator) -> dict[str, Backbone]:
    """For clouds ``(*batch, n, d)``."""
    source = Source(generator, dtype)
    return {
        "GIN": GIN(source, d, n),
        "GCN": GCN(source, d, n),
        "MLP": MLP(source, d),
        "MLP+BN": MLP(source, d, norm=True),
        "ReLU": relu,
        "sine": sine,
    }


class Mixer(nn.Module):
    """An MLP over the nodes and over the features."""

    def __init__(self, source: Source, d: int, n: int, norm: bool = False) -> None:
        super().__init__()
        self.nodes = nn.ModuleList([source.linear(n, n), source.linear(n, n)])
        self.features = nn.ModuleList([source.linear(d, WIDTH), source.linear(WIDTH, d)])
        self.norm = Norm(source, WIDTH) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = bend(self.norm(self.features[0](self.nodes[0](x.mT).mT)))
        return self.features[1](self.nodes[1](x.mT).mT)


class ByPlace(nn.Module):
    """A function of the rows, and of where they stand."""

    def __init__(self, function: Backbone, n: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.function = function
        self.place = nn.Parameter(torch.linspace(0.5, 1.5, n, dtype=torch.float64).to(dtype).unsqueeze(-1), False)

    def forward(self, x: Tensor) -> Tensor:
        return self.place * self.function(x)


def set_backbones(d: int, n: int, dtype: torch.dtype, generator: torch.Generator) -> dict[str, Backbone]:
    """For clouds ``(*batch, n, d)`` whose order is to play no role: these depend on it."""
    source = Source(generator, dtype)
    return {
        "GIN": GIN(source, d, n),
        "GCN": GCN(source, d, n),
        "MLP": Mixer(source, d, n),
        "MLP+BN": Mixer(source, d, n, norm=True),
        "ReLU": ByPlace(relu, n, dtype),
        "sine": ByPlace(sine, n, dtype),
    }


class NodeNumbers(nn.Module):
    """Two rounds of messages along the edges of the input, from numbers of the nodes; products of nodes come out."""

    def __init__(self, source: Source, n: int, mean: bool) -> None:
        super().__init__()
        self.start = nn.Parameter(source.normal(n, WIDTH), False)
        self.layers = nn.ModuleList(source.linear(WIDTH, WIDTH) for _ in range(2))
        self.mean = mean

    def forward(self, adj: Tensor) -> Tensor:
        h: Tensor = self.start
        if self.mean:
            adj = adj / (1 + adj.abs().sum(-1, keepdim=True))
        for layer in self.layers:
            h = bend(layer(h + adj @ h / adj.shape[-1] ** 0.5))
        return h @ h.mT / WIDTH


def graph_backbones(n: int, dtype: torch.dtype, generator: torch.Generator) -> dict[str, Backbone]:
    """For adjacency matrices ``(*batch, n, n)``, with an output for each pair of nodes."""
    source = Source(generator, dtype)
    return {
        "GIN": NodeNumbers(source, n, mean=False),
        "GCN": NodeNumbers(source, n, mean=True),
        "MLP": Mixer(source, n, n),
        "MLP+BN": Mixer(source, n, n, norm=True),
        "ReLU": ByPlace(relu, n, dtype),
        "sine": ByPlace(lambda adj: adj.sin() - 0.5 * adj, n, dtype),
    }
