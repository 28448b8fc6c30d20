"""Frames of graphs whose edges are listed, as in PyTorch Geometric: time and memory grow with the number of edges.

Canonical are the numbers of the nodes, and then the order of the list: by source, then by target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from minframe.checks import (
    check_edge_index,
    check_not_mapped,
    check_numbers,
    check_tensor,
    data_checks_enabled,
)
from minframe.cloud import Cloud, Input, Relations
from minframe.frame import Frame
from minframe.frame.permutation import Permutes
from minframe.frame.size import Size, nested
from minframe.labelling.action import inverse
from minframe.labelling.arcs import Arcs
from minframe.labelling.cluster import combine
from minframe.labelling.colours import channels, tolerance
from minframe.labelling.counting import count_automorphisms
from minframe.labelling.label import SparseLabelling, label_sparse
from minframe.labelling.ops import sparse_edge_orbits, sparse_orbits, sparse_order
from minframe.labelling.orbits import edge_orbits_sparse, orbit_mean
from minframe.layout import Dense, Layout, Ragged, layout_of
from minframe.tracing import is_compiling
from minframe.types import EDGE_ATTR, EDGE_INDEX, NODE, Type


def sparse_cloud(
    nodes: Sequence[Input],
    edges: Sequence[Input],
    index: Sequence[Input],
    attr: Sequence[Input],
    mask: Tensor | None,
    batch: Tensor | None,
    names: tuple[str, str] = ("mask", "batch"),
    num_nodes: int | None = None,
) -> Cloud:
    """Check the inputs that list the edges of graphs, and put them together."""
    if len(index) != 1 or edges:
        given = ", ".join(f"{i.name}: {i.type!r}" for i in [*index, *edges, *attr])
        raise ValueError(f"edges are given by one 'edge_index', with 'edge_attr' beside it, or as 'edge'; got {given}")
    if mask is not None:
        raise ValueError(f"{names[0]}= has no place beside 'edge_index': nodes have no padding there")
    for item in [*nodes, *index, *attr]:
        check_tensor(item.x, item.name)
        check_not_mapped(item.x, "S() of listed edges", item.name)
    edge_index = index[0].x
    if num_nodes is not None:
        n = num_nodes
    elif nodes:
        n = nodes[0].x.shape[0]
    elif batch is not None:
        n = batch.shape[0]
    else:
        check_edge_index(edge_index, index[0].name)
        n = int(edge_index.max()) + 1 if edge_index.numel() else 0
    check_edge_index(edge_index, index[0].name, n)
    for name, x, kind in [*nodes, *attr]:
        want = n if kind != "edge_attr" else edge_index.shape[1]
        if x.ndim < 1 or x.shape[0] != want:
            raise ValueError(f"{name} of type {kind!r} must have shape ({want},) or ({want}, c), got {tuple(x.shape)}")
    layout: Layout = Dense((), n)
    if batch is not None:
        layout = layout_of(torch.empty((n, 1), device=edge_index.device), None, batch, names)
        graph = layout.index[edge_index]  # type: ignore[union-attr]
        if data_checks_enabled() and not torch.equal(graph[0], graph[1]):
            raise ValueError(f"{index[0].name} joins nodes of different graphs according to {names[1]}: correct one")
    relations = Relations([i.x for i in nodes], [i.x for i in attr], edge_index)
    return Cloud([], layout, name=", ".join(i.name for i in [*nodes, *index, *attr]), relations=relations)


def _classes(features: Sequence[Tensor], graph: Tensor, rtol: float) -> Tensor:
    """Ranks ``(m,)`` of rows ``(m, ...)`` in lexicographic order, counted from 0 within the graph of each."""
    parts = [graph]
    for x in features:
        for values in channels(x, 1).unbind(-1):
            order = values.argsort()
            order = order[graph[order].argsort(stable=True)]
            size = values.abs() if values.is_floating_point() else torch.zeros_like(values)
            largest = size.new_zeros(len(graph)).scatter_reduce(0, graph, size, "amax")[graph[order]]
            cut = values[order].diff() > tolerance(x, rtol) * largest[1:]
            cut = torch.cat([cut.new_zeros(1), cut | (graph[order].diff() > 0)])
            parts.append(torch.empty_like(order).scatter_(0, order, cut.cumsum(0)))
    classes = combine(torch.stack(parts, -1))
    first = classes.new_full((len(graph),), len(graph)).scatter_reduce(0, graph, classes, "amin")
    return classes - first[graph]


def _smallest_gap(features: Sequence[tuple[Tensor, Tensor]], count: int, rtol: float, device: torch.device) -> Tensor:
    """How far the numbers of one channel are from being told apart otherwise, relative to the largest, ``(count,)``.

    As ``relations.smallest_gap``, for ``features`` ``(m, ...)`` with the graph ``(m,)`` of each row. Two numbers are
    the same if their difference is at most ``rtol`` times the largest: what counts is how far it is from that. Every
    edge that is listed is one, so no edge is not a value here. Infinite without features: then nothing can flip.
    """
    least = torch.full((count,), torch.inf, dtype=torch.float64, device=device)
    for x, graph in features:
        allowed = tolerance(x, rtol)
        for values in channels(x.detach(), 1).double().unbind(-1):
            order = values.argsort()
            order = order[graph[order].argsort(stable=True)]
            value, owner = values[order], graph[order]
            largest = value.new_zeros(count).scatter_reduce(0, graph, values.abs(), "amax")
            scale = torch.where(largest > 0, largest, 1.0)[owner[1:]]
            gap = value.diff() / scale
            apart = (owner.diff() == 0) & (gap > 0)
            gap = torch.where(apart, (gap - allowed).abs(), torch.inf)
            least = least.scatter_reduce(0, owner[1:], gap, "amin")
    return least


def sparse_frame(group: Permutes, cloud: Cloud) -> SparseFrame:
    """The frame of graphs whose edges are listed."""
    relations, layout = cloud.relations, cloud.layout
    assert relations is not None
    assert relations.edge_index is not None
    edge_index, n = relations.edge_index.long(), layout.rows_shape[0]
    batch = layout.index if isinstance(layout, Ragged) else None
    for x in [*relations.nodes, *relations.edges]:
        check_numbers(x, cloud.name, what="row")
    colours = edge_index.new_zeros(n)
    if relations.nodes and n:
        colours = _classes(relations.nodes, torch.zeros_like(colours) if batch is None else batch, group.rtol)
    edges = None
    if relations.edges and edge_index.shape[1]:
        graph = torch.zeros_like(edge_index[0]) if batch is None else batch[edge_index[0]]
        edges = _classes(relations.edges, graph, group.rtol) + 1
    if group.directed is False and data_checks_enabled():
        _check_undirected(edge_index, edges, n, cloud.name)

    def margin() -> Tensor:
        graph = edge_index.new_zeros(n) if batch is None else batch
        features = [(x, graph) for x in relations.nodes] + [(x, graph[edge_index[0]]) for x in relations.edges]
        return _smallest_gap(features, math.prod(layout.batch_shape), group.rtol, edge_index.device)

    return SparseFrame(group, layout, edge_index, colours, edges, batch, margin)


def _check_undirected(edge_index: Tensor, edges: Tensor | None, n: int, name: str) -> None:
    colours = torch.ones_like(edge_index[0]) if edges is None else edges
    forth, back = ((a * n + b) for a, b in (edge_index, edge_index.flip(0)))
    (forth, i), (back, j) = forth.sort(), back.sort()
    if not (torch.equal(forth, back) and torch.equal(colours[i], colours[j])):
        raise ValueError(
            f"{name} was declared undirected, but some edges are listed in one direction only or with two weights: "
            "list both directions, or leave directed= out"
        )


class SparseFrame(Frame):
    """The permutations that bring graphs into canonical order; see ``PermutationFrame``."""

    group: Permutes
    keeps_rows = False

    def __init__(
        self,
        group: Permutes,
        layout: Layout,
        edge_index: Tensor,
        colours: Tensor,
        edges: Tensor | None,
        batch: Tensor | None,
        margin: Callable[[], Tensor],
    ) -> None:
        self.group = group
        self.layout = self.shown_layout = layout
        self._margin = margin
        self._numbers: dict[str, Tensor] = {}
        self._graph = colours, edge_index, edges, batch, group.backend
        if is_compiling():
            self.order = sparse_order(*self._graph)
        else:
            self.order = self._found.order.to(colours.device)
        self._position = inverse(self.order)
        source, target = self._position[edge_index]
        self._columns = (source * max(len(self.order), 1) + target).argsort()

    @cached_property
    def _found(self) -> SparseLabelling:
        return label_sparse(*self._graph)

    def _orbits(self, kind: Type) -> Tensor:
        """Orbits of nodes or of edges, computed once."""
        if kind.name not in self._numbers:
            nodes, n = kind is NODE, len(self.order)
            if is_compiling():
                found = (sparse_orbits if nodes else sparse_edge_orbits)(*self._graph)
            elif nodes:
                found = self._found.orbits
            else:
                found = edge_orbits_sparse(self._graph[1], self._found.moves, n)
            self._numbers[kind.name] = found.to(self.order.device)
        return self._numbers[kind.name]

    @property
    def element(self) -> Tensor:
        return self.order

    def _per_graph(self, numbers: Tensor) -> Tensor:
        batch = self._graph[3]
        count = self.layout.batch_shape[0] if batch is not None else 1
        graph = torch.zeros_like(numbers) if batch is None else batch
        return torch.zeros(count, dtype=torch.int64, device=numbers.device).index_add(0, graph, numbers)

    @property
    def rank(self) -> Tensor:
        own = self._orbits(NODE) == torch.arange(len(self.order), device=self.order.device)
        return self._per_graph(own.long()).view(self.layout.batch_shape)

    @property
    def size(self) -> Size:
        colours, edge_index, edges, batch, backend = self._graph
        n, count = len(colours), math.prod(self.layout.batch_shape)
        arcs, _ = Arcs.of_sparse(edge_index.cpu(), None if edges is None else edges.cpu(), n)
        graph = torch.zeros(n, dtype=torch.int64) if batch is None else batch.cpu()
        sizes = count_automorphisms(self._orbits(NODE).cpu(), arcs, graph, count, backend)
        size: Size = nested(sizes, self.layout.batch_shape)
        return size

    @property
    def margin(self) -> Tensor:
        return self._margin().view(self.layout.batch_shape)

    def to_canonical(self, x: Tensor, type: str = "node") -> Tensor:
        return self._taken(x, self._checked(x, type, "x"))

    def pose(self, x: Tensor, type: str = "node", own: bool = False) -> Tensor:
        return self.shown(x, self._checked(x, type, "x"), own)

    def from_canonical(self, y: Tensor, type: str = "node") -> Tensor:
        return self.carried_back(y, self._checked(y, type, "y"))

    def _checked(self, x: Tensor, type: str, name: str) -> Type:
        self.group.check(x, type, name, self.layout)
        return self.group.type(type)

    def _taken(self, x: Tensor, kind: Type) -> Tensor:
        """In canonical order."""
        if kind is NODE:
            return x[self.order]
        if kind is EDGE_INDEX:
            return self._position[x][:, self._columns]
        return x[self._columns] if kind is EDGE_ATTR else x

    def shown(self, x: Tensor, kind: Type, own: bool) -> Tensor:
        if kind in (NODE, EDGE_ATTR):
            x = x + 0.0 if own and x.is_floating_point() else x if own else self._average(x, kind)
        return self._taken(x, kind)

    def carried_back(self, y: Tensor, kind: Type) -> Tensor:
        if kind is EDGE_INDEX:
            return self.order[y][:, inverse(self._columns)]
        y = self._average(y, kind, canonical=True)  # see PermutationFrame
        if kind is NODE:
            return y[self._position]
        return y[inverse(self._columns)] if kind is EDGE_ATTR else y

    def reorder(self, x: Tensor) -> Tensor:
        return x[self.order]

    def _average(self, y: Tensor, kind: Type, canonical: bool = False) -> Tensor:
        if kind not in (NODE, EDGE_ATTR):
            return y
        if not is_compiling() and self._found.trivial:
            return y
        numbers = self._orbits(kind)
        if canonical:
            numbers = numbers[self.order if kind is NODE else self._columns]
        return orbit_mean(y, numbers)
