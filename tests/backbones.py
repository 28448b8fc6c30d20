"""Backbones that treat every row, node and pair of nodes differently, and how far two outputs are apart."""

from __future__ import annotations

import torch
from torch import Tensor


def ramp(n: int, dtype: torch.dtype) -> Tensor:
    """A different number for every position."""
    return torch.cos(1.7 * torch.arange(n, dtype=torch.float64)).to(dtype)


def lopsided_graph(a: Tensor, h: Tensor | None = None) -> dict[str, Tensor]:
    """A backbone that treats every position differently: nodes, edges and whole graphs from nodes and edges."""
    a = a if a.is_floating_point() else a.double()
    n = a.shape[-1]
    w = ramp(n, a.dtype)
    node = torch.tanh((a * w).sum(-1) - (a.mT * w.square()).sum(-1)) + w
    if h is not None:
        node = node * (1 + h.to(a.dtype).sum(-1).cumsum(-1))
    edge = torch.tanh(a * w.unsqueeze(-1) + 0.3 * w) + node.unsqueeze(-1)
    scalar = (edge * w).sum((-1, -2))
    return {"scalar": scalar, "node": node.unsqueeze(-1), "edge": edge}


def deviation(a: Tensor, b: Tensor) -> float:
    """Largest difference of two batches, relative to the largest number of each sample."""
    a, b = a.double().flatten(1), b.double().flatten(1)
    if not b.numel():
        return 0.0
    return float(((a - b).abs().amax(-1) / b.abs().amax(-1).clamp_min(1e-300)).max())


def scale_of(x: Tensor) -> Tensor:
    size = x.abs().flatten(-2).amax(-1)[..., None, None]
    return torch.where(size > 0, size, 1.0)


def lopsided(x: Tensor) -> Tensor:
    """A backbone that respects neither the order of the points nor the coordinates; of the size of its input."""
    n, d = x.shape[-2:]
    w = torch.cos(1.3 * torch.arange(n, dtype=torch.float64)).to(x.dtype).unsqueeze(-1)
    size = scale_of(x)
    y = x / size
    mix = 2 * torch.linspace(-1.3, 1.1, d * d, dtype=torch.float64).view(d, d).sin().to(x.dtype)
    y = _bent(y @ mix) + w * y.roll(1, -1) + 0.3 * y.cumsum(-2) / n + 0.1 * w
    return size * y


def _bent(y: Tensor) -> Tensor:
    return torch.complex(torch.tanh(y.real), y.imag) if y.is_complex() else torch.tanh(y)
