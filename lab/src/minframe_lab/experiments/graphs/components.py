"""Graphs taken apart into their connected components."""

from __future__ import annotations

import torch
from torch import Tensor


def components(adjacency: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """For each component the number of its graph ``(C,)`` and which nodes it has ``(C, n)``; matrices ``(B, n, n)``."""
    n = adjacency.shape[-1]
    reach = (adjacency != 0) | torch.eye(n, dtype=torch.bool, device=adjacency.device)
    for _ in range(max(n - 1, 1).bit_length()):  # paths twice as long each time
        reach = (reach.float() @ reach.float()) > 0
    first = reach.byte().argmax(-1)  # a component is known by its first node
    graph, root = ((first == torch.arange(n, device=first.device)) & mask).nonzero(as_tuple=True)
    return graph, reach[graph, root] & mask[graph]


def places(graph: Tensor) -> Tensor:
    """The number of each component ``(C,)`` within its graph."""
    start = torch.searchsorted(graph, graph)  # they are sorted: where those of the same graph begin
    return torch.arange(len(graph), device=graph.device) - start
