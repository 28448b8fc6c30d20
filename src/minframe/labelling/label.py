"""Canonical order and automorphisms of graphs, for a batch.

Colours are refined for the batch at once (``refine``). Of samples where ties remain, what is tied is cut into pieces
(``residual``), and a library (``backend``) is asked about those that are not rigid; large ones with coloured edges,
such as clouds, are tried without it (``search``). ``pieces`` puts the answers together.

Every step is a function of the graph up to isomorphism, so isomorphic graphs come out the same, bit by bit, whatever
else is in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.labelling.arcs import Arcs
from minframe.labelling.backend import DEFAULT
from minframe.labelling.pieces import Moves, assemble
from minframe.labelling.refine import is_discrete, refine, refine_sparse
from minframe.labelling.residual import residual

SPARSE_ROUNDS = 64  # of refinement before a library takes over


def _matrix(moves: Moves, n: int) -> tuple[Tensor, Tensor]:
    """Generators ``(k, n)`` of all graphs, which have ``n`` nodes each, and the graph of each ``(k,)``."""
    generators = list(moves.generators())
    owner = torch.tensor([points[0] // n for points, _ in generators], dtype=torch.int64)
    row = torch.arange(len(generators)).repeat_interleave(
        torch.tensor([len(points) for points, _ in generators], dtype=torch.int64)
    )
    point = torch.tensor([p for points, _ in generators for p in points], dtype=torch.int64)
    image = torch.tensor([p for _, images in generators for p in images], dtype=torch.int64)
    matrix = torch.arange(n).repeat(len(generators), 1)
    matrix[row, point % n] = image % n
    return matrix, owner


@dataclass(frozen=True, slots=True)
class Labelling:
    """What is known about a batch of ``B`` graphs with ``n`` nodes each, padding included.

    Attributes:
        order: ``(B, n)``, the node at each canonical position; padding comes last.
        colours: ``(B, n)``, refined.
        generators: ``(k, n)`` of the automorphism groups, those of a graph together: node ``i`` goes to ``g[i]``.
        owner: ``(k,)``, the graph of each, ascending.
    """

    order: Tensor
    colours: Tensor
    generators: Tensor
    owner: Tensor


def labelling(
    colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT, automorphisms: bool = True
) -> Labelling:
    """Label graphs ``(B, n)``, ``(B, n, n)`` as ``refine`` takes them; results are on the CPU.

    Without ``automorphisms`` their generators are left out.
    """
    colours = refine(colours, edges, mask).cpu()
    n = colours.shape[-1]
    order = colours.argsort(dim=-1, stable=True)
    generators, owner = torch.empty((0, n), dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    mask = None if mask is None else mask.cpu()
    tied = (~is_discrete(colours, mask)).nonzero().squeeze(-1)
    if tied.shape[0]:
        local = colours[tied]
        if mask is not None:  # padding is tied with nothing
            mask = mask[tied]
            local = torch.where(mask, local, local + (~mask).cumsum(-1) - 1)
        cell = (local + n * torch.arange(tied.shape[0]).unsqueeze(-1)).flatten()
        left = residual(cell, Arcs.of_dense(edges[tied.to(edges.device)].cpu(), mask))
        graph = torch.arange(tied.shape[0]).repeat_interleave(n)
        nodes, moves = assemble(cell, graph, left, backend, automorphisms)
        order[tied] = nodes.view(-1, n) % n
        if automorphisms:
            generators, owner = _matrix(moves, n)
            owner, by_owner = tied[owner].sort(stable=True)
            generators = generators[by_owner]
    return Labelling(order, colours, generators, owner)


def label(
    colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT
) -> tuple[Tensor, list[Tensor]]:
    """Canonical order and automorphisms of a batch of dense graphs.

    Args:
        colours: of the nodes, ``(*batch, n)``, int64, any numbers.
        edges: colours of the ordered pairs, ``(*batch, n, n)``, int64, 0 for no edge; the diagonal has self-loops.
        mask: ``(*batch, n)``, True for real nodes.
        backend: ``"igraph"`` or ``"pynauty"``; needed only if ties remain that the edges do not explain away.

    Returns:
        The order ``(*batch, n)``: the node at each canonical position, padding last. For each sample (the batch
        flattened) generators of its automorphism group, ``(k, n)``: node ``i`` goes to ``g[i]``.
    """
    n = colours.shape[-1]
    flat = None if mask is None else mask.reshape(-1, n)
    found = labelling(colours.reshape(-1, n), edges.reshape(-1, n, n), flat, backend)
    sizes = torch.bincount(found.owner, minlength=found.order.shape[0])
    return found.order.view(colours.shape).to(colours.device), list(torch.split(found.generators, sizes.tolist()))


def label_graph(colours: Tensor, edges: Tensor, backend: str = DEFAULT) -> tuple[Tensor, Tensor]:
    """The same for one graph, ``(n,)`` and ``(n, n)``: the order ``(n,)`` and generators ``(k, n)``."""
    order, generators = label(colours, edges, None, backend)
    return order, generators[0]


def label_sparse(
    colours: Tensor,
    edge_index: Tensor,
    edge_colours: Tensor | None = None,
    batch: Tensor | None = None,
    backend: str = DEFAULT,
    automorphisms: bool = True,
) -> tuple[Tensor, Moves]:
    """Canonical order of sparse graphs, and what moves their nodes; time and memory grow with the number of edges.

    Args:
        colours: of the nodes, ``(N,)``, int64.
        edge_index: ``(2, E)``, no edge twice; undirected edges in both directions.
        edge_colours: ``(E,)``, int64, 0 is as good as no edge; by default all 1.
        batch: the graph of each node, ``(N,)``.
        backend: as for ``label``.
        automorphisms: whether to find them.

    Returns:
        The nodes in canonical order ``(N,)``, those of graph 0 first, and the generators on the CPU.
    """
    n, device = colours.shape[0], colours.device
    arcs, loops = Arcs.of_sparse(edge_index.cpu(), None if edge_colours is None else edge_colours.cpu(), n)
    colours = _with_loops(colours.cpu(), loops)
    batch = torch.zeros_like(colours) if batch is None else batch.cpu()
    sizes = torch.bincount(batch)
    first = (sizes.cumsum(0) - sizes)[batch]
    cell = refine_sparse(colours, arcs, batch, rounds=SPARSE_ROUNDS) + first
    left = residual(cell, arcs)
    order, moves = assemble(cell, batch, left, backend, automorphisms)
    return order.to(device), moves


def _with_loops(colours: Tensor, loops: Tensor) -> Tensor:
    """Colours of pairs, by colour first."""
    values, loop = torch.unique(loops, return_inverse=True)
    return torch.unique(colours, return_inverse=True)[1] * values.shape[0] + loop
