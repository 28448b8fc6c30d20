"""Canonical forms of graphs, without a backbone."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from minframe.cloud import Input
from minframe.frame.listed import sparse_cloud
from minframe.groups.permutation import S
from minframe.labelling.backend import DEFAULT


class CanonicalGraph(NamedTuple):
    """A graph in canonical order, and the way there.

    Attributes:
        edges: as given, with rows and columns in canonical order; padding is zero.
        nodes: as given, in canonical order; ``None`` if there were none.
        order: ``(*batch, n)``, int64: the node at each canonical position, padding last. For one graph ``edges`` is
            ``given[order][:, order]``.
    """

    edges: Tensor
    nodes: Tensor | None
    order: Tensor


class CanonicalSparseGraph(NamedTuple):
    """Sparse graphs in canonical order.

    Attributes:
        edge_index: ``(2, E)``, between canonical positions, sorted.
        edge_attr: in the same order; ``None`` if there was none.
        nodes: in canonical order, those of graph 0 first; ``None`` if there were none.
        order: ``(N,)``, int64: the node at each canonical position. ``batch[order]`` is the new batch vector.
    """

    edge_index: Tensor
    edge_attr: Tensor | None
    nodes: Tensor | None
    order: Tensor


def canonical_form(
    edges: Tensor,
    nodes: Tensor | None = None,
    mask: Tensor | None = None,
    directed: bool | None = None,
    rtol: float = 0.0,
    backend: str = DEFAULT,
) -> CanonicalGraph:
    """One form for all relabellings of a graph, and another for every other graph.

    >>> import torch
    >>> from minframe import graph
    >>> path = torch.tensor([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> star = torch.tensor([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    >>> p = torch.randperm(4)
    >>> form = graph.canonical_form(torch.stack([path, path[p][:, p], star]))
    >>> bool((form.edges[0] == form.edges[1]).all()), bool((form.edges[0] == form.edges[2]).all())
    (True, False)

    The result is differentiable in ``edges`` and ``nodes``, with ``order`` fixed. -0.0 counts as 0.0, and becomes it.

    Args:
        edges: ``(*batch, n, n)`` or ``(*batch, n, n, c)``, any real dtype; see ``split_edges`` for shapes such as
            ``(3, 3, 3)``.
        nodes: colours ``(*batch, n)`` or features ``(*batch, n, c)``, any real dtype.
        mask: ``(*batch, n)``, True for real nodes. Padding, whatever its values, makes no difference.
        directed: False has the matrices checked for symmetry; otherwise directions count if there are any.
        rtol: with 0, the default, isomorphic graphs have equal forms bit by bit. With more, floating numbers that
            differ by rounding are taken for equal, and isomorphic graphs have forms that agree up to rounding.
        backend: ``"igraph"`` or ``"pynauty"``.
    """
    group = S(backend=backend, rtol=rtol, directed=directed)
    inputs = [Input("edges", edges, "edge"), *([] if nodes is None else [Input("nodes", nodes, "node")])]
    frame = group.frame_of(group.cloud(inputs, mask))
    return CanonicalGraph(
        frame.pose(edges, "edge", own=True),
        None if nodes is None else frame.pose(nodes, "node", own=True),
        frame.element,
    )


def canonical_form_sparse(
    edge_index: Tensor,
    edge_attr: Tensor | None = None,
    nodes: Tensor | None = None,
    num_nodes: int | None = None,
    batch: Tensor | None = None,
    backend: str = DEFAULT,
) -> CanonicalSparseGraph:
    """``canonical_form`` for lists of edges; time and memory grow with their number.

    >>> import torch
    >>> from minframe import graph
    >>> ring = torch.stack([torch.arange(1000), (torch.arange(1000) + 1) % 1000])
    >>> form = graph.canonical_form_sparse(ring)
    >>> torch.equal(graph.canonical_form_sparse(torch.randperm(1000)[ring]).edge_index, form.edge_index)
    True

    Every edge that is listed is one, also with the weight zero. Weights and features are compared exactly.

    Args:
        edge_index: ``(2, E)``, int64, no edge twice. An undirected edge is listed in both directions.
        edge_attr: ``(E,)`` or ``(E, c)``, any real dtype.
        nodes: colours ``(N,)`` or features ``(N, c)``, any real dtype.
        num_nodes: ``N``; by default as many as ``nodes`` or ``batch`` has, or else as edges need.
        batch: ``(N,)``, the graph of each node.
        backend: ``"igraph"`` or ``"pynauty"``.
    """
    group = S(backend=backend)
    index = Input("edge_index", edge_index, "edge_index")
    rows = [] if nodes is None else [Input("nodes", nodes, "node")]
    attr = [] if edge_attr is None else [Input("edge_attr", edge_attr, "edge_attr")]
    frame = group.frame_of(sparse_cloud(rows, [], [index], attr, None, batch, num_nodes=num_nodes))
    return CanonicalSparseGraph(
        frame.pose(edge_index, "edge_index", own=True),
        None if edge_attr is None else frame.pose(edge_attr, "edge_attr", own=True),
        None if nodes is None else frame.pose(nodes, "node", own=True),
        frame.element,
    )
