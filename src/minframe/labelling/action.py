"""How permutations act: a permutation ``g`` of rows is a tensor ``(*batch, n)`` and takes row ``i`` to ``g[i]``."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def inverse(g: Tensor) -> Tensor:
    """The permutation that undoes ``g``."""
    steps = torch.arange(g.shape[-1], device=g.device).expand(g.shape)
    return torch.empty_like(g).scatter_(-1, g, steps)


def take_nodes(x: Tensor, index: Tensor) -> Tensor:
    """Rows ``(*batch, n, ...)`` of ``x`` at ``index`` ``(*batch, n)``; differentiable."""
    batch, n = index.shape[:-1], index.shape[-1]
    if not batch:
        return x.index_select(0, index)
    samples = math.prod(batch)
    first = torch.arange(samples, device=x.device).unsqueeze(-1) * n
    flat = (first + index.reshape(samples, n)).flatten()
    return x.reshape(samples * n, *x.shape[len(batch) + 1 :]).index_select(0, flat).view(x.shape)


def take_edges(x: Tensor, index: Tensor) -> Tensor:
    """``x`` ``(*batch, n, n, ...)`` with both axes of nodes at ``index`` ``(*batch, n)``; differentiable."""
    batch = index.shape[:-1]
    flat = index.reshape(math.prod(batch), index.shape[-1])
    sample = torch.arange(flat.shape[0], device=x.device)[:, None, None]
    pairs = x.reshape(flat.shape[0], *x.shape[len(batch) :])[sample, flat.unsqueeze(-1), flat.unsqueeze(-2)]
    return pairs.view(x.shape)


def move(g: Tensor, x: Tensor, nodes: int) -> Tensor:
    """``g . x`` for ``x`` with that many axes of nodes: what was at ``i`` comes to ``g[i]``."""
    if nodes == 0:
        return x
    return take_nodes(x, inverse(g)) if nodes == 1 else take_edges(x, inverse(g))
