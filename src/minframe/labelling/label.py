"""Canonical order and automorphisms of graphs, for a batch.

Colours are refined for the batch at once (``refine``). Of samples where ties remain, what is tied is cut into pieces
(``residual``), and a library (``backend``) is asked about those that are not rigid; large ones with coloured edges,
such as clouds, are tried without it (``search``). ``pieces`` puts the answers together.

Every step is a function of the graph up to isomorphism, so isomorphic graphs come out the same, bit by bit, whatever
else is in the batch.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from minframe.labelling.arcs import Arcs
from minframe.labelling.backend import DEFAULT
from minframe.labelling.pieces import Assembled, Moves
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


class Labelling:
    """What is known about a batch of ``B`` graphs with ``n`` nodes each, padding included.

    Generators of the automorphism groups are found when they are asked for.

    Args:
        order: ``(B, n)``, the node at each canonical position; padding comes last.
        colours: ``(B, n)``, refined.
        tied: the graphs that these do not settle.
        pieces: of those graphs, if there are any.

    Attributes:
        order: as given.
        colours: as given.
    """

    def __init__(self, order: Tensor, colours: Tensor, tied: Tensor, pieces: Assembled | None) -> None:
        self.order = order
        self.colours = colours
        self._tied = tied
        self._pieces = pieces

    @cached_property
    def _generated(self) -> tuple[Tensor, Tensor]:
        n = self.order.shape[-1]
        if self._pieces is None:
            return torch.empty((0, n), dtype=torch.int64), torch.empty(0, dtype=torch.int64)
        generators, owner = _matrix(self._pieces.moves, n)
        owner, by_owner = self._tied[owner].sort(stable=True)
        return generators[by_owner], owner

    @property
    def generators(self) -> Tensor:
        """``(k, n)`` of the automorphism groups, those of a graph together: node ``i`` goes to ``g[i]``."""
        return self._generated[0]

    @property
    def owner(self) -> Tensor:
        """``(k,)``, the graph of each generator, ascending."""
        return self._generated[1]


def labelling(colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT) -> Labelling:
    """Label graphs ``(B, n)``, ``(B, n, n)`` as ``refine`` takes them; results are on the CPU."""
    colours = refine(colours, edges, mask).cpu()
    n = colours.shape[-1]
    order = colours.argsort(dim=-1, stable=True)
    mask = None if mask is None else mask.cpu()
    tied = (~is_discrete(colours, mask)).nonzero().squeeze(-1)
    if not tied.shape[0]:
        return Labelling(order, colours, tied, None)
    local = colours[tied]
    if mask is not None:  # padding is tied with nothing
        mask = mask[tied]
        local = torch.where(mask, local, local + (~mask).cumsum(-1) - 1)
    cell = (local + n * torch.arange(tied.shape[0]).unsqueeze(-1)).flatten()
    left = residual(cell, Arcs.of_dense(edges[tied.to(edges.device)].cpu(), mask))
    graph = torch.arange(tied.shape[0]).repeat_interleave(n)
    pieces = Assembled(cell, graph, left, backend)
    order[tied] = pieces.order.view(-1, n) % n
    return Labelling(order, colours, tied, pieces)


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
) -> Assembled:
    """Label sparse graphs; time and memory grow with the number of edges. Results are on the CPU.

    Args:
        colours: of the nodes, ``(N,)``, int64.
        edge_index: ``(2, E)``, no edge twice; undirected edges in both directions.
        edge_colours: ``(E,)``, int64, 0 is as good as no edge; by default all 1.
        batch: the graph of each node, ``(N,)``.
        backend: as for ``label``.
    """
    n = colours.shape[0]
    arcs, loops = Arcs.of_sparse(edge_index.cpu(), None if edge_colours is None else edge_colours.cpu(), n)
    colours = _with_loops(colours.cpu(), loops)
    batch = torch.zeros_like(colours) if batch is None else batch.cpu()
    return label_arcs(colours, arcs, batch, backend)


def label_arcs(colours: Tensor, arcs: Arcs, batch: Tensor, backend: str) -> Assembled:
    """The same for arcs; ``colours`` tell what loops nodes have."""
    sizes = torch.bincount(batch)
    first = (sizes.cumsum(0) - sizes)[batch]
    cell = refine_sparse(colours, arcs, batch, rounds=SPARSE_ROUNDS) + first
    return Assembled(cell, batch, residual(cell, arcs), backend)


def _with_loops(colours: Tensor, loops: Tensor) -> Tensor:
    """Colours of pairs, by colour first."""
    values, loop = torch.unique(loops, return_inverse=True)
    return torch.unique(colours, return_inverse=True)[1] * values.shape[0] + loop
