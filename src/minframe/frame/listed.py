"""Graphs whose edges are listed, as they are given: what is checked of them, and which numbers count as equal."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from minframe.checks import check_edge_index, check_not_mapped, check_tensor, data_checks_enabled
from minframe.cloud import Cloud, Input, Relations
from minframe.labelling.cluster import combine
from minframe.labelling.colours import channels, tolerance
from minframe.labelling.rows import count_samples, joins_nodes
from minframe.layout import BatchVector, Dense, Layout, Ragged, layout_of


def sparse_cloud(
    nodes: Sequence[Input],
    edges: Sequence[Input],
    index: Sequence[Input],
    attr: Sequence[Input],
    mask: Tensor | None,
    batch: Tensor | BatchVector | None,
    names: tuple[str, str] = ("mask", "batch"),
    num_nodes: int | None = None,
) -> Cloud:
    """Check the inputs that list the edges of graphs, and combine them into a cloud."""
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
        n = (batch.index if isinstance(batch, BatchVector) else batch).shape[0]
    else:
        check_edge_index(edge_index, index[0].name)
        n = int(edge_index.max()) + 1 if edge_index.numel() else 0
    layout = _layout(n, batch, names, edge_index.device)
    if not joins_nodes(edge_index, n, layout.index if isinstance(layout, Ragged) else None):
        check_edge_index(edge_index, index[0].name, n)
        if isinstance(layout, Ragged) and data_checks_enabled():
            graph = layout.index[edge_index]
            if not torch.equal(graph[0], graph[1]):
                raise ValueError(
                    f"{index[0].name} joins nodes of different graphs according to {names[1]}: correct one"
                )
    for name, x, kind in [*nodes, *attr]:
        want = n if kind != "edge_attr" else edge_index.shape[1]
        if x.ndim < 1 or x.shape[0] != want:
            raise ValueError(f"{name} of type {kind!r} must have shape ({want},) or ({want}, c), got {tuple(x.shape)}")
    relations = Relations([i.x for i in nodes], [i.x for i in attr], edge_index)
    return Cloud([], layout, name=", ".join(i.name for i in [*nodes, *index, *attr]), relations=relations)


def _layout(n: int, batch: Tensor | BatchVector | None, names: tuple[str, str], device: torch.device) -> Layout:
    """The layout of ``n`` nodes."""
    if batch is None:
        return Dense((), n)
    if isinstance(batch, Tensor) and batch.shape == (n,) and (count := count_samples(batch)) >= 0:
        return Ragged(batch, count)
    return layout_of(torch.empty((n, 1), device=device), None, batch, names)


def classes(features: Sequence[Tensor], graph: Tensor, rtol: float) -> Tensor:
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


def smallest_gap(features: Sequence[tuple[Tensor, Tensor]], count: int, rtol: float, device: torch.device) -> Tensor:
    """The distance of the numbers of one channel from another clustering, relative to the largest, ``(count,)``.

    As ``relations.smallest_gap``, for ``features`` ``(m, ...)`` with the graph ``(m,)`` of each row. Two numbers are
    equal if their difference is at most ``rtol`` times the largest; the result is the distance of a difference from
    that bound. Every listed entry is an edge, so "no edge" is not a value here. Infinite without features: nothing can
    flip.
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


def check_undirected(edge_index: Tensor, edges: Tensor | None, n: int, name: str) -> None:
    """Raise an error unless every edge is listed in both directions, with one weight."""
    colours = torch.ones_like(edge_index[0]) if edges is None else edges
    forth, back = ((a * n + b) for a, b in (edge_index, edge_index.flip(0)))
    (forth, i), (back, j) = forth.sort(), back.sort()
    if not (torch.equal(forth, back) and torch.equal(colours[i], colours[j])):
        raise ValueError(
            f"{name} was declared undirected, but some edges are listed in one direction only or with two weights: "
            "list both directions, or leave directed= out"
        )
