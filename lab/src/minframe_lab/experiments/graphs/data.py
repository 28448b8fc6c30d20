"""Graphs as padded matrices: all connected ones on eight nodes, and pairs that refinement of colours cannot tell apart.

GRAPH8c is generated: every connected graph on n + 1 nodes is a connected graph on n nodes with one node more, and our
own canonical forms say which of them are the same. The numbers on 1 to 8 nodes are 1, 1, 2, 6, 21, 112, 853, 11117.

EXP (Abboud et al., 2021) is read from a file. Without one a stand-in of the same make is generated: graphs of
propositional formulas in pairs, one of which can be satisfied and one cannot, that differ in one parity.
"""

from __future__ import annotations

import functools
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import minframe as mf
from minframe_lab.experiments.cache import cached
from minframe_lab.experiments.experiment import Advance, Batch

CONNECTED = (1, 1, 2, 6, 21, 112, 853, 11_117)
SIZE = 64  # nodes that EXP graphs are padded to
PAIRS = 600
BASES = {  # cubic graphs: a variable for each edge, a parity for each node
    "complete": [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)],
    "prism": [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4), (2, 5)],
    "bipartite": [(i, j) for i in range(3) for j in range(3, 6)],
}


def connected_graphs(n: int = 8, advance: Advance = lambda _: None) -> Tensor:
    """The connected graphs on ``n`` nodes up to isomorphism, ``(CONNECTED[n - 1], n, n)``."""
    graphs = torch.zeros(1, 1, 1)
    for size in range(1, n):
        rows = torch.tensor(list(product((0.0, 1.0), repeat=size))[1:])  # the new node has a neighbour
        found = []
        for part in torch.split(graphs, 256):
            larger = torch.zeros(len(part), len(rows), size + 1, size + 1)
            larger[:, :, :size, :size] = part.unsqueeze(1)
            larger[:, :, size, :size] = rows
            larger[:, :, :size, size] = rows
            pose, _ = mf.canonicalize(larger.flatten(0, 1), mf.S(), type="edge")
            found.append(torch.unique(pose, dim=0))
            if size == n - 1:
                advance(len(part))
        graphs = torch.unique(torch.cat(found), dim=0)
    return graphs


def read_graph6(path: Path) -> Tensor:
    """Graphs of one size, at most 62 nodes, ``(B, n, n)``, from a file with one in each line."""
    lines = path.read_text().split()
    n = ord(lines[0][0]) - 63
    rows, columns = zip(*((i, j) for j in range(n) for i in range(j)), strict=True)
    graphs = torch.zeros(len(lines), n, n)
    for graph, line in zip(graphs, lines, strict=True):
        bits = [(ord(c) - 63) >> (5 - k) & 1 for c in line[1:] for k in range(6)][: len(rows)]
        graph[rows, columns] = torch.tensor(bits, dtype=graph.dtype)
    return graphs + graphs.mT


def graph8c(path: Path | None = None, advance: Advance = lambda _: None) -> Tensor:
    """All connected graphs on eight nodes."""
    if path is not None:
        return read_graph6(path)
    return cached("graph8c", CONNECTED[6], lambda told: (connected_graphs(8, told),), advance)[0]


def padded(graphs: list[tuple[int, Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Adjacency ``(B, 64, 64)``, colours ``(B, 64, 2)`` and mask from sizes, edges ``(2, E)`` and colours ``(n,)``."""
    adjacency = torch.zeros(len(graphs), SIZE, SIZE)
    colour = torch.zeros(len(graphs), SIZE, 2)
    mask = torch.zeros(len(graphs), SIZE, dtype=torch.bool)
    for i, (n, edges, kinds) in enumerate(graphs):
        adjacency[i, edges[0], edges[1]] = 1.0
        colour[i, torch.arange(n), kinds] = 1.0
        mask[i, :n] = True
    return adjacency, colour, mask


def exp(path: Path | None = None, pairs: int = PAIRS, seed: int = 0) -> Batch:
    """Adjacency, colours, mask and labels ``(B,)``; graphs 2 i and 2 i + 1 form a pair."""
    return read_exp(path) if path is not None else generate_exp(pairs, seed)


def read_exp(path: Path) -> Batch:
    """From ``node_ptr``, ``edge_ptr`` ``(B + 1,)``, ``x`` ``(N, 1)``, ``edge_index`` ``(2, E)`` and ``y`` ``(B,)``."""
    with np.load(path) as stored:
        nodes, edges = stored["node_ptr"], stored["edge_ptr"]
        x, index = (torch.from_numpy(stored[k].astype(np.int64)) for k in ("x", "edge_index"))
        labels = torch.from_numpy(stored["y"].astype(np.float32))
    graphs = [
        (int(b - a), index[:, c:d], x[a:b, 0])
        for a, b, c, d in zip(nodes[:-1], nodes[1:], edges[:-1], edges[1:], strict=True)
    ]
    return *padded(graphs), labels


@functools.cache
def generate_exp(pairs: int = PAIRS, seed: int = 0) -> Batch:
    """Formulas of parities (Tseitin) that can and cannot be satisfied, each beside a random formula that can.

    Nodes are literals (colour 0) and clauses (colour 1); a literal is linked with its negation and with the clauses it
    stands in. The exclusive or of the three variables around a node of a cubic graph has four clauses. All parities can
    be met if and only if an even number of them is odd, and which ones they are makes no difference.
    """
    random = np.random.RandomState(seed)
    graphs, labels = [], []
    for _ in range(pairs):
        base = BASES[list(BASES)[random.randint(len(BASES))]]
        size = len(base) * 2 + 4 * (1 + max(b for _, b in base))
        extra = _tree(random, int(random.randint(max(4, 32 - size), SIZE - size + 1)))
        charges = random.randint(2, size=1 + max(b for _, b in base))
        for satisfiable in (1, 0):
            if charges.sum() % 2 == satisfiable:
                charges[0] ^= 1
            graphs.append(_relabelled(random, _joined(_parities(base, charges), extra)))
            labels.append(float(satisfiable))
    return *padded(graphs), torch.tensor(labels)


Coloured = tuple[list[int], list[tuple[int, int]]]  # a colour for each node, and edges


def _parities(base: list[tuple[int, int]], charges: np.ndarray[tuple[int], np.dtype[np.int_]]) -> Coloured:
    """The formula in which the variables around each node of ``base`` have the parity of its charge."""
    colours, edges = [0] * (2 * len(base)), [(2 * v, 2 * v + 1) for v in range(len(base))]
    for node, charge in enumerate(charges):
        around = [v for v, ends in enumerate(base) if node in ends]
        for values in product((0, 1), repeat=len(around)):
            if sum(values) % 2 != charge:  # a clause that forbids these values
                edges += [(2 * v + value, len(colours)) for v, value in zip(around, values, strict=True)]
                colours.append(1)
    return colours, edges


def _tree(random: np.random.RandomState, size: int) -> Coloured:
    """A random tree of literals and clauses."""
    colours, edges = [0], []
    for i in range(1, size):
        parent = int(random.randint(i))
        colours.append(1 - colours[parent])
        edges.append((parent, i))
    return colours, edges


def _joined(a: Coloured, b: Coloured) -> Coloured:
    return a[0] + b[0], a[1] + [(i + len(a[0]), j + len(a[0])) for i, j in b[1]]


def _relabelled(random: np.random.RandomState, graph: Coloured) -> tuple[int, Tensor, Tensor]:
    """Size, edges in both directions and colours, with the nodes in a random order."""
    order = torch.from_numpy(random.permutation(len(graph[0])))
    edges = order[torch.tensor(graph[1])].mT
    colours = torch.zeros(len(order), dtype=torch.long)
    colours[order] = torch.tensor(graph[0])
    return len(order), torch.cat([edges, edges.flip(0)], 1), colours
