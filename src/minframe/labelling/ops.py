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


@torch.library.custom_op("minframe::canonical_order", mutates_args=())
def _canonical_order(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> tuple[Tensor, Tensor]:
    found = _flat(colours, edges, mask, backend)
    device = colours.device
    return found.order.view(colours.shape).to(device), found.colours.reshape(colours.shape).to(device)


@torch.library.custom_op("minframe::orbits", mutates_args=())
def _node_orbits(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> Tensor:
    found = _flat(colours, edges, mask, backend)
    return found.orbits.reshape(colours.shape).to(colours.device, copy=True)


@torch.library.custom_op("minframe::orbitals", mutates_args=())
def _pair_orbits(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> Tensor:
    found = _flat(colours, edges, mask, backend)
    numbers = _orbits.orbitals(found.generators, found.owner, found.order.shape[0])
    return numbers.view(edges.shape).to(colours.device)


@torch.library.custom_op("minframe::sparse_order", mutates_args=())
def sparse_order(
    colours: Tensor, edge_index: Tensor, edges: Tensor | None, batch: Tensor | None, backend: str
) -> Tensor:
    """The nodes of sparse graphs in canonical order, ``(N,)``."""
    return label_sparse(colours, edge_index, edges, batch, backend).order.to(colours.device)


@torch.library.custom_op("minframe::sparse_orbits", mutates_args=())
def sparse_orbits(
    colours: Tensor, edge_index: Tensor, edges: Tensor | None, batch: Tensor | None, backend: str
) -> Tensor:
    """Orbit numbers of their nodes, ``(N,)``."""
    return label_sparse(colours, edge_index, edges, batch, backend).orbits.to(colours.device)


@torch.library.custom_op("minframe::sparse_edge_orbits", mutates_args=())
def sparse_edge_orbits(
    colours: Tensor, edge_index: Tensor, edges: Tensor | None, batch: Tensor | None, backend: str
) -> Tensor:
    """Orbit numbers of their edges, ``(E,)``."""
    moves = label_sparse(colours, edge_index, edges, batch, backend).moves
    return _orbits.edge_orbits_sparse(edge_index, moves, colours.shape[0]).to(colours.device)


@_canonical_order.register_fake
def _(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> tuple[Tensor, Tensor]:
    like = colours.new_empty(colours.shape, dtype=torch.int64)
    return like, torch.empty_like(like)


@_node_orbits.register_fake
def _(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> Tensor:
    return colours.new_empty(colours.shape, dtype=torch.int64)


@_pair_orbits.register_fake
def _(colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> Tensor:
    return colours.new_empty(edges.shape, dtype=torch.int64)


@sparse_order.register_fake
@sparse_orbits.register_fake
def _(colours: Tensor, edge_index: Tensor, edges: Tensor | None, batch: Tensor | None, backend: str) -> Tensor:
    return colours.new_empty(colours.shape, dtype=torch.int64)


@sparse_edge_orbits.register_fake
def _(colours: Tensor, edge_index: Tensor, edges: Tensor | None, batch: Tensor | None, backend: str) -> Tensor:
    return colours.new_empty(edge_index.shape[1:], dtype=torch.int64)


def canonical_order(
    colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT
) -> tuple[Tensor, Tensor]:
    """The node at each canonical position, and the refined colours, ``(*batch, n)`` each."""
    return _canonical_order(colours, edges, mask, backend)


def node_orbits(colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT) -> Tensor:
    """Orbit numbers of the nodes under the automorphisms, ``(*batch, n)``."""
    return _node_orbits(colours, edges, mask, backend)


def pair_orbits(colours: Tensor, edges: Tensor, mask: Tensor | None = None, backend: str = DEFAULT) -> Tensor:
    """Orbit numbers of the ordered pairs of nodes under the automorphisms, ``(*batch, n, n)``."""
    return _pair_orbits(colours, edges, mask, backend)
