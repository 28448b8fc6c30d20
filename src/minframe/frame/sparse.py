"""Frames of graphs whose edges are listed, as in PyTorch Geometric: time and memory grow with the number of edges.

Nodes have canonical numbers, and edges are sorted by source and then by target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from minframe.checks import check_numbers, data_checks_enabled
from minframe.cloud import Cloud
from minframe.frame import Frame
from minframe.frame.listed import check_undirected, classes, smallest_gap
from minframe.frame.permutation import Permutes
from minframe.frame.record import Known
from minframe.frame.size import Size, nested
from minframe.labelling.action import inverse
from minframe.labelling.arcs import Arcs
from minframe.labelling.counting import count_automorphisms
from minframe.labelling.label import SparseLabelling, label_sparse
from minframe.labelling.ops import labelled_sparse, sparse_edge_orbits
from minframe.labelling.orbits import edge_orbits_sparse, orbit_mean
from minframe.labelling.rows import listed_classes, take
from minframe.layout import Layout, Ragged
from minframe.tracing import is_compiling
from minframe.types import EDGE_ATTR, EDGE_INDEX, NODE, Type


def sparse_frame(group: Permutes, cloud: Cloud) -> SparseFrame:
    """The frame of graphs whose edges are listed."""
    relations, layout = cloud.relations, cloud.layout
    assert relations is not None
    assert relations.edge_index is not None
    edge_index, n = relations.edge_index.long(), layout.rows_shape[0]
    batch = layout.index if isinstance(layout, Ragged) else None
    samples = math.prod(layout.batch_shape)

    def ranks(features: Sequence[Tensor], graph: Tensor | None, like: Tensor) -> Tensor:
        found = listed_classes(features, graph, samples, group.rtol)
        if found is not None:
            return found
        for x in features:
            check_numbers(x, cloud.name, what="row")
        return classes(features, torch.zeros_like(like) if graph is None else graph, group.rtol)

    colours = edge_index.new_zeros(n)
    if relations.nodes and n:
        colours = ranks(relations.nodes, batch, colours)
    edges = None
    if relations.edges and edge_index.shape[1]:
        edges = ranks(relations.edges, None if batch is None else batch[edge_index[0]], edge_index[0]) + 1
    if group.directed is False and data_checks_enabled():
        check_undirected(edge_index, edges, n, cloud.name)

    def margin() -> Tensor:
        graph = edge_index.new_zeros(n) if batch is None else batch
        features = [(x, graph) for x in relations.nodes] + [(x, graph[edge_index[0]]) for x in relations.edges]
        return smallest_gap(features, math.prod(layout.batch_shape), group.rtol, edge_index.device)

    return SparseFrame(group, layout, relations.edge_index, colours, edges, batch, margin)


def _at(x: Tensor, index: Tensor) -> Tensor:
    """The rows of ``x`` at ``index`` ``(m,)``; differentiable."""
    found = take(x, index)
    return x.index_select(0, index) if found is None else found


Listed = tuple[Tensor, Tensor, Tensor | None, Tensor | None, str]  # colours, edges, their colours, batch, library


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
        self._given = edge_index
        self._graph: Listed = colours, edge_index.long(), edges, batch, group.backend
        if is_compiling():
            (self.order, self._position, self._numbers[NODE.name]), listed = labelled_sparse(*self._graph)
            self._edges, self._columns = listed[:2], listed[2]
            return
        found, device = self._found, colours.device
        self.order, self._position = found.order.to(device), found.inverse.to(device)
        self._columns, self._edges = found.columns.to(device), found.edges.to(device)

    @cached_property
    def _found(self) -> SparseLabelling:
        return label_sparse(*self._graph)

    @cached_property
    def _trivial(self) -> bool:
        """Whether no graph has a symmetry."""
        return self._found.trivial

    def stored(self) -> dict[str, Any]:
        state = super().stored() | {"_trivial": self._trivial, "_numbers": {NODE.name: self._orbits(NODE)}}
        state.pop("_found", None)  # orbits of edges are found on demand, from the graph
        return state

    def check_inputs(self, cloud: Cloud) -> None:
        super().check_inputs(cloud)
        given = None if cloud.relations is None else cloud.relations.edge_index
        if given is None or given.shape != self._given.shape:
            shape = None if given is None else tuple(given.shape)
            raise ValueError(
                f"frame is that of graphs with an edge_index of shape {tuple(self._given.shape)}, got {shape}"
            )
        if data_checks_enabled() and not torch.equal(given, self._given):
            raise ValueError("frame is that of other graphs: their edge_index differs from the one that was given")

    def collated(self, frames: Sequence[Frame], layout: Layout) -> SparseFrame:
        mine = cast(Sequence[SparseFrame], frames)
        sizes = torch.tensor([(len(f.order), f._given.shape[1]) for f in mine], device=self.order.device)
        nodes, edges = (sizes.cumsum(0) - sizes).unbind(-1)
        nodes_of_nodes, nodes_of_edges = (nodes.repeat_interleave(k) for k in sizes.unbind(-1))
        edges_of_edges = edges.repeat_interleave(sizes[:, 1])
        made = object.__new__(SparseFrame)
        made.group, made.layout, made.shown_layout = self.group, layout, layout
        made.labelling = self.labelling
        made.order = torch.cat([f.order for f in mine]) + nodes_of_nodes
        made._position = torch.cat([f._position for f in mine]) + nodes_of_nodes
        made._columns = torch.cat([f._columns for f in mine]) + edges_of_edges
        made._edges = torch.cat([f._edges for f in mine], 1) + nodes_of_edges
        made._given = torch.cat([f._given for f in mine], 1) + nodes_of_edges
        made._numbers = {NODE.name: torch.cat([f._orbits(NODE) for f in mine]) + nodes_of_nodes}
        made._trivial = all(f._trivial for f in mine)
        made._margin = Known(torch.stack([f.margin.view(()) for f in mine]))
        colours, weights = torch.cat([f._graph[0] for f in mine]), [f._graph[2] for f in mine if f._given.numel()]
        listed = [w for w in weights if w is not None]
        if 0 < len(listed) < len(weights):
            raise ValueError("frames of graphs with 'edge_attr' and of graphs without do not make up a batch")
        batch = torch.arange(len(mine), device=sizes.device).repeat_interleave(sizes[:, 0])
        made._graph = colours, made._given.long(), torch.cat(listed) if listed else None, batch, self._graph[4]
        return made

    def _orbits(self, kind: Type) -> Tensor:
        """Orbits of nodes or of edges, computed once."""
        if kind.name not in self._numbers:
            nodes, n = kind is NODE, len(self.order)
            if is_compiling():
                found = sparse_edge_orbits(*self._graph)
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
        """``x`` in canonical order."""
        if kind is EDGE_INDEX:
            return self._edges.clone() if x is self._given else self._position[x][:, self._columns]
        if kind not in (NODE, EDGE_ATTR):
            return x
        return _at(x, self.order if kind is NODE else self._columns)

    def shown(self, x: Tensor, kind: Type, own: bool) -> Tensor:
        if kind not in (NODE, EDGE_ATTR):
            return self._taken(x, kind)
        if not own:
            return self._taken(self._average(x, kind), kind)
        found = take(x, self.order if kind is NODE else self._columns, positive=True)
        if found is None:
            found = self._taken(x, kind)
            found = found + 0.0 if x.is_floating_point() else found  # -0.0 equals 0.0, and is shown as 0.0
        return found

    def carried_back(self, y: Tensor, kind: Type) -> Tensor:
        if kind is EDGE_INDEX:
            return self.order[y][:, inverse(self._columns)]
        y = self._average(y, kind, canonical=True)  # see PermutationFrame
        if kind not in (NODE, EDGE_ATTR):
            return y
        return _at(y, self._position if kind is NODE else inverse(self._columns))

    def reorder(self, x: Tensor) -> Tensor:
        return _at(x, self.order)

    def _average(self, y: Tensor, kind: Type, canonical: bool = False) -> Tensor:
        if kind not in (NODE, EDGE_ATTR):
            return y
        if not is_compiling() and self._trivial:
            return y
        numbers = self._orbits(kind)
        if canonical:
            numbers = numbers[self.order if kind is NODE else self._columns]
        return orbit_mean(y, numbers)
