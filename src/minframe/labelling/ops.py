"""Labelling as operators of PyTorch, which ``torch.compile(fullgraph=True)`` and ``torch.export`` do not look into.

They take colours ``(*batch, n)`` and edges ``(*batch, n, n)`` as ``label`` does, or, if edges are listed, what
``label_sparse`` does. All are integers, so nothing is differentiated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.labelling import orbits as _orbits
from minframe.labelling.backend import DEFAULT
from minframe.labelling.label import Labelling, label_sparse, labelling


def _flat(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> Labelling:
    n = colours.shape[-1]
    flat = None if mask is None else mask.reshape(-1, n)
    return labelling(colours.reshape(-1, n), edges.reshape(-1, n, n), flat, backend)


@torch.library.custom_op("minframe::labelled", mutates_args=())
def labelled(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> Tensor:
    """The canonical order of graphs, its inverse, refined colours and orbits of nodes, ``(4, *batch, n)``."""
    found = _flat(colours, edges, mask, backend)
    results = torch.stack([found.order, found.inverse, found.colours, found.orbits])
    return results.view(4, *colours.shape).to(colours.device)


@labelled.register_fake
def _(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> Tensor:
    return colours.new_empty((4, *colours.shape), dtype=torch.int64)


@torch.library.custom_op("minframe::orbitals", mutates_args=())
def _pair_orbits(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> Tensor:
    return _flat(colours, edges, mask, backend).orbitals.view(edges.shape).to(colours.device)


@_pair_orbits.register_fake
def _(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> Tensor:
    return colours.new_empty(edges.shape, dtype=torch.int64)


@torch.library.custom_op("minframe::labelled_sparse", mutates_args=())
def labelled_sparse(
    colours: Tensor, edge_index: Tensor, edges: Tensor | None, batch: Tensor | None, backend: str
) -> tuple[Tensor, Tensor]:
    """The nodes of sparse graphs in canonical order, its inverse and their orbits, ``(3, N)``.

    And the edges between canonical numbers, sorted, and which edge each of them was, ``(3, E)``.
    """
    found = label_sparse(colours, edge_index, edges, batch, backend)
    nodes = torch.stack([found.order, found.inverse, found.orbits])
    return nodes.to(colours.device), torch.cat([found.edges, found.columns.unsqueeze(0)]).to(colours.device)


@labelled_sparse.register_fake
def _(
    colours: Tensor, edge_index: Tensor, edges: Tensor | None, batch: Tensor | None, backend: str
) -> tuple[Tensor, Tensor]:
    nodes = colours.new_empty((3, *colours.shape), dtype=torch.int64)
    return nodes, colours.new_empty((3, *edge_index.shape[1:]), dtype=torch.int64)


@torch.library.custom_op("minframe::sparse_edge_orbits", mutates_args=())
def sparse_edge_orbits(
    colours: Tensor, edge_index: Tensor, edges: Tensor | None, batch: Tensor | None, backend: str
) -> Tensor:
    """Orbit numbers of their edges, ``(E,)``."""
    moves = label_sparse(colours, edge_index, edges, batch, backend).moves
    return _orbits.edge_orbits_sparse(edge_index, moves, colours.shape[0]).to(colours.device)


@sparse_edge_orbits.register_fake
def _(colours: Tensor, edge_index: Tensor, edges: Tensor | None, batch: Tensor | None, backend: str) -> Tensor:
    return colours.new_empty(edge_index.shape[1:], dtype=torch.int64)


def canonical_order(
    colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT
) -> tuple[Tensor, Tensor]:
    """The node at each canonical position, and the refined colours, ``(*batch, n)`` each."""
    order, _, cells, _ = labelled(colours, edges, mask, backend)
    return order, cells


def node_orbits(colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT) -> Tensor:
    """Orbit numbers of the nodes under the automorphisms, ``(*batch, n)``."""
    return labelled(colours, edges, mask, backend)[3]


def pair_orbits(colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT) -> Tensor:
    """Orbit numbers of the ordered pairs of nodes under the automorphisms, ``(*batch, n, n)``."""
    return _pair_orbits(colours, edges, mask, backend)
