"""Graphs as lists of arcs, for graphs that are not dense. Several graphs form one graph with several components."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Arcs:
    """All ordered pairs of different nodes with an edge in one direction or the other, ``(A,)`` each.

    Attributes:
        source: the node that the arc starts from.
        target: the node that it leads to.
        forth: colour of the edge from source to target, 0 if there is none.
        back: colour of the edge from target to source. The pair is listed the other way round too.
    """

    source: Tensor
    target: Tensor
    forth: Tensor
    back: Tensor

    def select(self, keep: Tensor) -> Arcs:
        """The arcs where ``keep`` ``(A,)`` is True."""
        return Arcs(self.source[keep], self.target[keep], self.forth[keep], self.back[keep])

    @staticmethod
    def of_dense(edges: Tensor, mask: Tensor | None = None) -> Arcs:
        """The arcs of a batch ``(B, n, n)``; node ``i`` of graph ``b`` has the number ``b n + i``."""
        n = edges.shape[-1]
        linked = (edges != 0) | (edges.mT != 0)
        linked.diagonal(dim1=-2, dim2=-1).fill_(False)
        if mask is not None:
            linked &= mask.unsqueeze(-1) & mask.unsqueeze(-2)
        graph, i, j = linked.nonzero(as_tuple=True)
        return Arcs(graph * n + i, graph * n + j, edges[graph, i, j], edges[graph, j, i])

    @staticmethod
    def of_sparse(edge_index: Tensor, edge_colours: Tensor | None, n: int) -> tuple[Arcs, Tensor]:
        """The arcs of edges ``(2, E)`` with colours ``(E,)`` between ``n`` nodes, and colours ``(n,)`` of self-loops.

        No edge may be listed twice. One direction alone is an edge in that direction.
        """
        source, target = edge_index
        if edge_colours is None:
            edge_colours = torch.ones_like(source)
        loop = source == target
        loops = edge_colours.new_zeros(n).index_copy(0, source[loop], edge_colours[loop])
        source, target, colours = source[~loop], target[~loop], edge_colours[~loop]
        forward = source * n + target
        keys, place = torch.unique(torch.cat([forward, target * n + source]), return_inverse=True)
        e = source.shape[0]
        forth, back = torch.zeros_like(keys), torch.zeros_like(keys)
        forth[place[:e]] = colours
        back[place[e:]] = colours
        once = torch.zeros_like(keys, dtype=torch.bool)
        once[place[:e]] = True
        looped = edge_index[0, loop]
        if int(once.sum()) != e or torch.unique(looped).shape[0] != looped.shape[0]:
            raise listed_twice()
        keep = (forth != 0) | (back != 0)
        return Arcs(keys // n, keys % n, forth, back).select(keep), loops


def listed_twice() -> ValueError:
    """The error for a list with duplicates."""
    return ValueError(
        "edge_index lists an edge more than once: merge duplicates first, for example with "
        "torch_geometric.utils.coalesce"
    )


def components(source: Tensor, target: Tensor, n: int) -> Tensor:
    """The smallest node that each of ``n`` nodes is connected with, ``(n,)``, for arcs in both directions.

    Every node points to a smaller one it is connected with, at first to itself. A round hooks the nodes pointed to
    by the two ends of an arc, the larger on the smaller, and lets every node point where the one it points to does. It
    ends when arcs join nodes that point to the same one. The depth of a tree of pointers is halved in each round.
    """
    parent = torch.arange(n, device=source.device)
    while True:
        ends = parent[source], parent[target]
        if bool((ends[0] == ends[1]).all()):
            return parent
        low, high = torch.minimum(*ends), torch.maximum(*ends)
        parent = parent.scatter_reduce(0, high, low, "amin")
        parent = parent[parent]
        parent = parent[parent]
