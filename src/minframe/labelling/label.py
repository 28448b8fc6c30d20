"""Canonical order and automorphisms of graphs, for a batch.

Colours are refined for the whole batch at once (``refine``). Where ties remain, the tied nodes are divided into pieces
(``residual``), and a library (``backend``) labels those that are not rigid; large ones with coloured edges, such as
clouds, are first tried without it (``search``). ``pieces`` combines the results.

Every step is a function of the graph up to isomorphism, so isomorphic graphs have bitwise equal results, independent of
the rest of the batch.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from minframe.labelling import native
from minframe.labelling import orbits as _orbits
from minframe.labelling.action import inverse
from minframe.labelling.arcs import Arcs, listed_twice
from minframe.labelling.backend import DEFAULT
from minframe.labelling.pieces import Assembled, Moves
from minframe.labelling.refine import is_discrete, refine, refine_sparse
from minframe.labelling.residual import residual

MAX_SPARSE_ROUNDS = 64  # rounds of refinement before a library takes over


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
    """Canonical orders of a batch of ``B`` graphs with ``n`` nodes each, padding included; results are on the CPU.

    The automorphism groups are computed on demand.

    Args:
        colours: of the nodes, ``(B, n)``, as ``refine`` takes them.
        edges: ``(B, n, n)``, likewise.
        mask: ``(B, n)``, likewise.
        backend: the labelling library.

    Attributes:
        order: ``(B, n)``, the node at each canonical position; padding comes last.
        inverse: ``(B, n)``, the canonical position of each node.
        colours: ``(B, n)``, refined.
    """

    def __init__(self, colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> None:
        self._graph, self._backend = (colours, edges, None if mask is None else mask.cpu()), backend
        self._library = native.Library(backend)
        self._native: native.Labelled | None = None
        if native.serves(colours):
            self._native = native.label_dense(*self._graph, self._library)
            self.order, self.inverse, self.colours = self._native[:3]
            return
        self.colours = refine(colours, edges, mask).cpu()
        self.order = self.colours.argsort(dim=-1, stable=True)
        if self._pieces is not None:
            n = colours.shape[-1]
            self.order[self._tied] = self._pieces.order.view(-1, n) % n
        self.inverse = inverse(self.order)

    @cached_property
    def _tied(self) -> Tensor:
        """The graphs that refinement leaves with ties."""
        return (~is_discrete(self.colours, self._graph[2])).nonzero().squeeze(-1)

    @cached_property
    def _pieces(self) -> Assembled | None:
        """The tied graphs, assembled from their pieces."""
        tied, (_, edges, mask) = self._tied, self._graph
        if not tied.shape[0]:
            return None
        local, n = self.colours[tied], self.colours.shape[-1]
        if mask is not None:  # padding takes no part in ties
            mask = mask[tied]
            local = torch.where(mask, local, local + (~mask).cumsum(-1) - 1)
        cell = (local + n * torch.arange(tied.shape[0]).unsqueeze(-1)).flatten()
        left = residual(cell, Arcs.of_dense(edges[tied.to(edges.device)].cpu(), mask))
        return Assembled(cell, torch.arange(tied.shape[0]).repeat_interleave(n), left, self._backend)

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

    @cached_property
    def orbits(self) -> Tensor:
        """``(B, n)``, the smallest node of the orbit of each; padding is alone."""
        found = self._native
        if found is not None:
            if found.report & native.UNFINISHED:
                found = self._native = native.label_dense(*self._graph, self._library, found)
            return found.orbits
        if not self._tied.shape[0]:
            return torch.arange(self.order.shape[-1]).expand(self.order.shape)
        return _orbits.orbits(self.generators, self.owner, self.order.shape[0])

    @property
    def trivial(self) -> bool:
        """Whether no graph has an automorphism."""
        if self._native is None and not self._tied.shape[0]:
            return True
        orbits = self.orbits
        if self._native is not None:
            return not self._native.report & native.SYMMETRIC
        return not bool((orbits != torch.arange(self.order.shape[-1])).any())

    @property
    def orbitals(self) -> Tensor:
        """``(B, n, n)``, the smallest ``i * n + j`` of the orbit of each ordered pair of nodes."""
        if self._native is not None and not self._native.report & native.PIECES:
            return _orbits.loose_orbitals(self.orbits)
        return _orbits.orbitals(self.generators, self.owner, self.order.shape[0])


class SparseLabelling:
    """The same for graphs whose edges are listed; see ``label_sparse``. Time and memory grow with their number.

    Attributes:
        order: ``(N,)``, all nodes, graph by graph, each in canonical order.
        inverse: ``(N,)``, the position of each node in it.
        columns: ``(E,)``, the edge at each position, when they are sorted by canonical source and target.
        edges: ``(2, E)``, the sorted edges between canonical positions.
    """

    def __init__(
        self,
        colours: Tensor,
        edge_index: Tensor,
        edge_colours: Tensor | None,
        batch: Tensor | None,
        backend: str,
    ) -> None:
        edges, batch = (None if x is None else x.cpu() for x in (edge_colours, batch))
        self._graph, self._backend = (colours.cpu(), edge_index.cpu(), edges, batch), backend
        self._library = native.Library(backend)
        self._native: native.Labelled | None = None
        if native.serves(self._graph[0]):
            self._native = native.label_sparse(*self._graph, MAX_SPARSE_ROUNDS, self._library)
            if self._native is None:
                raise listed_twice()
            assert self._native.edges is not None
            assert self._native.columns is not None
            self.order, self.inverse = self._native[:2]
            self.edges, self.columns = self._native.edges, self._native.columns
            return
        self.order = self._pieces.order
        self.inverse = inverse(self.order)
        edges = self.inverse[self._graph[1]]
        self.columns = (edges[0] * max(len(self.order), 1) + edges[1]).argsort()
        self.edges = edges[:, self.columns]

    @cached_property
    def _pieces(self) -> Assembled:
        colours, edge_index, edges, batch = self._graph
        n = colours.shape[0]
        arcs, loops = Arcs.of_sparse(edge_index, edges, n)
        batch = torch.zeros_like(colours) if batch is None else batch
        cells = None if self._native is None else self._native.cells
        return label_arcs(_with_loops(colours, loops), arcs, batch, self._backend, cells)

    @property
    def moves(self) -> Moves:
        """Generators of the automorphism groups."""
        return self._pieces.moves

    @cached_property
    def orbits(self) -> Tensor:
        """``(N,)``, the smallest node of the orbit of each."""
        found = self._native
        if found is None:
            return _orbits.orbits_sparse(self.moves, len(self.order))
        if found.report & native.UNFINISHED:
            found = self._native = native.label_sparse(*self._graph, MAX_SPARSE_ROUNDS, self._library, found)
            assert found is not None
        return found.orbits

    @property
    def trivial(self) -> bool:
        """Whether no graph has an automorphism."""
        orbits = self.orbits
        if self._native is not None:
            return not self._native.report & native.SYMMETRIC
        return not bool((orbits != torch.arange(len(self.order))).any())


def labelling(colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT) -> Labelling:
    """Label graphs ``(B, n)``, ``(B, n, n)`` as ``refine`` takes them."""
    return Labelling(colours, edges, mask, backend)


def label(
    colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT
) -> tuple[Tensor, list[Tensor]]:
    """Canonical order and automorphisms of a batch of dense graphs.

    Args:
        colours: of the nodes, ``(*batch, n)``, int64, any numbers.
        edges: colours of the ordered pairs, ``(*batch, n, n)``, int64, 0 for no edge; the diagonal has self-loops.
        mask: ``(*batch, n)``, True for real nodes.
        backend: ``"igraph"`` or ``"pynauty"``; needed only if ties remain that the edges do not resolve.

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
) -> SparseLabelling:
    """Label sparse graphs. Results are on the CPU.

    Args:
        colours: of the nodes, ``(N,)``, int64.
        edge_index: ``(2, E)``, no edge twice; undirected edges in both directions.
        edge_colours: ``(E,)``, int64, 0 for no edge; by default all 1.
        batch: the graph of each node, ``(N,)``.
        backend: as for ``label``.
    """
    return SparseLabelling(colours, edge_index, edge_colours, batch, backend)


def label_arcs(colours: Tensor, arcs: Arcs, batch: Tensor, backend: str, cells: Tensor | None = None) -> Assembled:
    """``label_sparse`` for arcs; ``colours`` include self-loops. ``cells``: from refinement, if already computed."""
    sizes = torch.bincount(batch)
    first = (sizes.cumsum(0) - sizes)[batch]
    cells = refine_sparse(colours, arcs, batch, rounds=MAX_SPARSE_ROUNDS) if cells is None else cells
    return Assembled(cells + first, batch, residual(cells + first, arcs), backend)


def _with_loops(colours: Tensor, loops: Tensor) -> Tensor:
    """Colours of pairs, by colour first."""
    values, loop = torch.unique(loops, return_inverse=True)
    return torch.unique(colours, return_inverse=True)[1] * values.shape[0] + loop
