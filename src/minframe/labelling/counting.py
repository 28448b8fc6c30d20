"""The number of automorphisms of graphs: exact, in polynomial time, without a chain of stabilisers.

Put the nodes of a graph in cells that are the *orbits* of its automorphisms. The statements of ``residual`` about any
cells hold for these, and further ones do:

* A loose cell of k nodes can be permuted arbitrarily: a factor k!.
* A piece is mapped to every piece that has nodes of the same orbit, as an automorphism that takes a node of one to a
  node of the other takes the pieces along. So c pieces with common orbits contribute c! a^c, where a is the number of
  automorphisms of one of them.
* The orbits of a piece are those of the graph, within the piece: an automorphism that takes one of its nodes to another
  leaves the piece in its place, and those of the piece alone are automorphisms of the graph. So the piece is a
  smaller graph whose orbits are known, and the same is done with it. A node that is alone in its orbit there was one
  of several in the graph, and without it the piece falls apart further: trees are counted by this alone.
* Otherwise the graph is one piece. The number of automorphisms is then the length of the orbit of a node v, times the
  number of those that fix v (orbit-stabiliser theorem), whose orbits are those of the graph with v in its own colour.

All graphs of a batch, and all their pieces, are processed together. There are few rounds in which pieces separate: a
piece that represents c >= 2 pieces is at most half of its graph, and one that is alone in its class does not separate
again. The number of rounds that fix a node is at most the number of nodes that have to be fixed until all others are,
which is small except for graphs that separate once nodes are fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.labelling.arcs import Arcs, components
from minframe.labelling.label import label_arcs
from minframe.labelling.orbits import orbits_sparse
from minframe.labelling.residual import rename


@dataclass(frozen=True, slots=True)
class _Graphs:
    """Graphs that remain to be counted, M nodes in all.

    Attributes:
        orbit: ``(M,)`` of each node, below M; no two graphs share one.
        graph: ``(M,)``, the graph of each node, below ``len(copies)``.
        arcs: of all graphs together.
        copies: for each graph, the input graph whose count it multiplies, and the power.
    """

    orbit: Tensor
    graph: Tensor
    arcs: Arcs
    copies: list[tuple[int, int]]


def count_automorphisms(orbit: Tensor, arcs: Arcs, graph: Tensor, count: int, backend: str) -> list[int]:
    """The number of automorphisms of each of ``count`` graphs, which have N nodes together.

    Args:
        orbit: ``(N,)``, the smallest node of the orbit of each.
        arcs: of all graphs together; loops and colours of nodes are known to the orbits.
        graph: ``(N,)``, the graph of each node.
        count: number of graphs.
        backend: the library for nodes that colours do not distinguish.
    """
    result = [1] * count
    left = _Graphs(orbit, graph, arcs, [(k, 1) for k in range(count)])
    while left.arcs.source.shape[0]:
        left = _step(left, result, backend)
    _count_loose(left, torch.ones_like(left.orbit, dtype=torch.bool), result)
    return result


def _count_loose(graphs: _Graphs, loose: Tensor, result: list[int]) -> None:
    """Multiply the counts by the factors of the ``loose`` nodes ``(M,)``."""
    cell, size = torch.unique(graphs.orbit[loose], return_counts=True)
    several = size > 1
    owner = graphs.graph.new_zeros(graphs.orbit.shape).index_copy(0, graphs.orbit, graphs.graph)
    for k, number in zip(size[several].tolist(), owner[cell[several]].tolist(), strict=True):
        sample, power = graphs.copies[number]
        result[sample] *= math.factorial(k) ** power


def _step(graphs: _Graphs, result: list[int], backend: str) -> _Graphs:
    """Count the parts that separate and keep one piece of each class; where none does, fix one node."""
    orbit, n = graphs.orbit, graphs.orbit.shape[0]
    source, target, code = rename(graphs.arcs, orbit)
    active = torch.zeros(n, dtype=torch.bool).index_fill(0, orbit[source], True)[orbit]
    _count_loose(graphs, ~active, result)
    piece = components(source, target, n)
    # The pieces of a class are those with nodes of one orbit; the first of them represents all.
    first = torch.full_like(piece, n).scatter_reduce(0, orbit, piece, "amin")[orbit]
    heads = (active & (piece == torch.arange(n))).nonzero().squeeze(-1)
    chosen, number = torch.unique(first[heads], return_counts=True)
    copies = []
    for owner, c in zip(graphs.graph[chosen].tolist(), number.tolist(), strict=True):
        sample, power = graphs.copies[owner]
        result[sample] *= math.factorial(c) ** power
        copies.append((sample, power * c))
    nodes = (active & (piece == first)).nonzero().squeeze(-1)
    place = torch.full_like(orbit, -1).index_copy(0, nodes, torch.arange(nodes.shape[0]))
    graph = torch.searchsorted(chosen, piece[nodes])
    keep = place[source] >= 0
    arcs, _ = Arcs.of_sparse(torch.stack([place[source[keep]], place[target[keep]]]), code[keep], nodes.shape[0])
    new = _Graphs(_numbered(orbit[nodes]), graph, arcs, copies)
    before = torch.bincount(graphs.graph, minlength=1)[graphs.graph[chosen]]
    whole = torch.bincount(graph, minlength=chosen.shape[0]) == before  # nothing separated
    return _fix_nodes(new, whole, result, backend) if bool(whole.any()) else new


def _numbered(orbit: Tensor) -> Tensor:
    """For each node the first node of its orbit; ``orbit`` may hold any numbers."""
    number = torch.unique(orbit, return_inverse=True)[1]
    nodes = torch.arange(orbit.shape[0])
    return torch.full_like(nodes, orbit.shape[0]).scatter_reduce(0, number, nodes, "amin")[number]


def _fix_nodes(graphs: _Graphs, chosen: Tensor, result: list[int], backend: str) -> _Graphs:
    """Reduce each ``chosen`` graph to the automorphisms that fix one node of a longest orbit."""
    n = graphs.orbit.shape[0]
    length = torch.bincount(graphs.orbit, minlength=n)[graphs.orbit]
    longest = torch.zeros(len(graphs.copies), dtype=torch.int64).scatter_reduce(0, graphs.graph, length, "amax")
    candidates = (length == longest[graphs.graph]).nonzero().squeeze(-1)
    fixed = torch.full_like(longest, n).scatter_reduce(0, graphs.graph[candidates], candidates, "amin")[chosen]
    for k, number in zip(longest[chosen].tolist(), chosen.nonzero().squeeze(-1).tolist(), strict=True):
        sample, power = graphs.copies[number]
        result[sample] *= k**power
    nodes = chosen[graphs.graph].nonzero().squeeze(-1)
    place = torch.full_like(graphs.orbit, -1).index_copy(0, nodes, torch.arange(nodes.shape[0]))
    inside = graphs.arcs.select(place[graphs.arcs.source] >= 0)
    arcs = Arcs(place[inside.source], place[inside.target], inside.forth, inside.back)
    colours = graphs.orbit.index_fill(0, fixed, n)[nodes]
    batch = torch.unique(graphs.graph[nodes], return_inverse=True)[1]
    moves = label_arcs(colours, arcs, batch, backend).moves
    orbit = graphs.orbit.index_copy(0, nodes, nodes[orbits_sparse(moves, nodes.shape[0])])
    return _Graphs(orbit, graphs.graph, graphs.arcs, graphs.copies)
