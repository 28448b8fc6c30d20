"""The part of a graph that colour refinement leaves undecided, divided into pieces.

Take a graph with its nodes in *cells* (any invariant partition), and call the pairs from one cell to another, or within
one, a *block*. An automorphism maps every block to itself, so the colours of a block may be renamed, each block on its
own, without changing the group: only which pairs of a block have equal colours matters. Here the most frequent
colour, or the absence of an edge if some pair has none, becomes 0, and others 1, 2, ... by falling frequency, ties by
the colour itself. The renamed graph has an edge where the colour is not 0. It has far fewer of them:

* A block of a single colour disappears. In an equitable partition this holds for all blocks of a single node.
* Nodes without edges in cells without edges are interchangeable: every permutation of such a *loose* cell is an
  automorphism, and their order does not matter. In K_64 all nodes are loose.
* What is left falls into connected components, here called *pieces*. Those of a graph are independent: an automorphism
  moves pieces as a whole, to isomorphic ones, and what it does within a piece is an automorphism of the piece. A graph
  may thus be labelled piece by piece; pieces with the same canonical form can be exchanged. A piece whose nodes
  have different colours is rigid.

Nothing in this relies on the partition being equitable. The direction of an edge between different cells is absorbed in
its colour, since the cells tell its ends apart; only within a cell an edge can be an arrow, that is ``code(i, j)``
differ from ``code(j, i)``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.labelling.arcs import Arcs, components
from minframe.labelling.refine import scramble


class Pattern(NamedTuple):
    """A connected piece of the renamed graph, up to its place. Its nodes are numbered in the order of their cells.

    Attributes:
        colours: for each node the rank of its cell among those of the piece.
        arcs: ascending numbers ``(i * m + j) * base + code`` for ``m`` nodes.
        base: an integer above all codes.
    """

    colours: tuple[int, ...]
    arcs: tuple[int, ...]
    base: int

    def triples(self) -> list[tuple[int, int, int]]:
        """Arcs as source, target and code."""
        m, base = len(self.colours), self.base
        return [(a // base // m, a // base % m, a % base) for a in self.arcs]

    def codes(self) -> Tensor:
        """Arcs as a matrix."""
        m = len(self.colours)
        arcs = torch.tensor(self.arcs, dtype=torch.int64)
        return torch.zeros(m * m, dtype=torch.int64).index_copy(0, arcs // self.base, arcs % self.base).view(m, m)

    @property
    def rigid(self) -> bool:
        """Whether colours tell all nodes apart."""
        return self.colours[-1] == len(self.colours) - 1


@dataclass(frozen=True, slots=True)
class Residual:
    """``P`` pieces with ``M`` nodes together, and which nodes are in one.

    Attributes:
        nodes: ``(M,)``, piece by piece, in the numbering of its pattern.
        start: ``(P,)``, where the nodes of each piece begin.
        number: ``(M,)``, the piece that each belongs to.
        pattern: ``(P,)``, the number of the pattern of each piece.
        patterns: the different patterns, each once.
        active: ``(N,)``, whether a node is part of a piece.
        cell: ``(N,)``, as given.
    """

    nodes: Tensor
    start: Tensor
    number: Tensor
    pattern: Tensor
    patterns: list[Pattern]
    active: Tensor
    cell: Tensor

    def members(self, values: Tensor, chosen: Tensor | None = None) -> list[list[int]]:
        """The ``values`` ``(M,)`` of each piece, or of each piece that is ``chosen`` ``(P,)``."""
        sizes = torch.bincount(self.number, minlength=self.start.shape[0])
        if chosen is not None:
            values, sizes = values[chosen[self.number]], sizes[chosen]
        return split(values.tolist(), sizes.tolist())

    def loose(self) -> list[list[int]]:
        """Loose cells of more than one node."""
        sizes = torch.bincount(self.cell, minlength=1)
        nodes = ((sizes[self.cell] > 1) & ~self.active).nonzero().squeeze(-1)
        nodes = nodes[self.cell[nodes].argsort(stable=True)]
        return split(nodes.tolist(), torch.unique_consecutive(self.cell[nodes], return_counts=True)[1].tolist())


def _pairs(first: Tensor, second: Tensor, bound: int) -> tuple[Tensor, int]:
    """Pairs of integers as numbers in lexicographic order, and a number above all, which does not exceed ``bound``."""
    (low, high), (low2, high2) = (tuple(map(int, x.aminmax())) for x in (first, second))
    width, width2 = high - low + 1, high2 - low2 + 1
    if width * width2 <= bound:
        return (first - low) * width2 + (second - low2), width * width2
    ranks = torch.unique(torch.cat([first, second]), return_inverse=True)[1].view(2, -1)
    pairs = torch.unique(ranks[0] * 2 * first.shape[0] + ranks[1], return_inverse=True)[1]
    return pairs, first.shape[0]


def rename(arcs: Arcs, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The arcs of the renamed graph: source, target and code, in both directions."""
    lower = cell[arcs.source] <= cell[arcs.target]  # pairs between cells are seen from the lower one
    arcs = arcs.select(lower)
    p, q = cell[arcs.source], cell[arcs.target]
    size = torch.bincount(cell, minlength=cell.shape[0])
    colour, patterns = _pairs(arcs.forth, arcs.back, p.shape[0])
    block = p * cell.shape[0] + q
    if cell.shape[0] ** 2 * patterns >= 2**63:
        block = torch.unique(block, return_inverse=True)[1]
    # Entries: the colours that occur in a block, ordered by block and colour, and how often each occurs.
    entry, entry_of, count = torch.unique(block * patterns + colour, return_inverse=True, return_counts=True)
    entries = count.shape[0]
    block_of = torch.unique_consecutive(entry // patterns, return_inverse=True)[1]
    capacity = count.new_zeros(entries).index_copy(0, entry_of, size[p] * (size[q] - (p == q).long()))
    blocks = torch.bincount(block_of, minlength=1)
    total = torch.zeros_like(blocks).index_add(0, block_of, count)[block_of]
    by_count = count.argsort(stable=True, descending=True)
    by_count = by_count[block_of[by_count].argsort(stable=True)]
    place = torch.empty_like(by_count).index_copy(0, by_count, torch.arange(entries, device=cell.device))
    first = (blocks.cumsum(0) - blocks)[block_of]
    code = (place - first + (total < capacity).long())[entry_of]
    keep = code > 0
    source, target, code = arcs.source[keep], arcs.target[keep], code[keep]
    across = cell[source] != cell[target]
    return (
        torch.cat([source, target[across]]),
        torch.cat([target, source[across]]),
        torch.cat([code, code[across]]),
    )


def split(values: list[int], sizes: list[int]) -> list[list[int]]:
    """A list cut into parts of these sizes."""
    return [values[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]


@functools.lru_cache(maxsize=32)
def _factors(bits: int) -> Tensor:
    """Fixed pseudo-random numbers ``(2^bits,)``."""
    return scramble(torch.arange(1, 2**bits + 1))


def _patterns(lists: Sequence[tuple[Tensor, Tensor]], count: int) -> tuple[Tensor, Tensor]:
    """Which of ``count`` pieces are equal: the pattern ``(count,)`` of each piece, and the first piece of each pattern.

    Args:
        lists: the lists of integers by which pieces are compared; the entries of all pieces as a tensor ``(L,)``, and
            the piece ``(L,)`` that each entry belongs to.
        count: number of pieces.

    Pieces have the same pattern if sums of their entries with random factors agree. The lists themselves are then
    compared. If they differ, every piece counts as a pattern of its own, which is also correct and only takes longer.
    """
    pieces = torch.arange(count)
    if count < 2:
        return pieces, pieces
    found, places = torch.zeros_like(pieces), []
    for values, owner in lists:
        size = torch.bincount(owner, minlength=count)
        start = size.cumsum(0) - size
        place = torch.arange(owner.shape[0]) - start[owner]
        factors = _factors(int(size.max()).bit_length())[place]
        found = (found * 3 + size).index_add(0, owner, factors * values)
        places.append((size, start, place))
    names, pattern = torch.unique(found, return_inverse=True)
    other = torch.full_like(names, count).scatter_reduce(0, pattern, pieces, "amin")[pattern]  # the first of each
    for (values, owner), (size, start, place) in zip(lists, places, strict=True):
        if not torch.equal(size[other], size) or not torch.equal(values[start[other][owner] + place], values):
            return pieces, pieces
    first = other == pieces
    return (first.cumsum(0) - 1)[other], first.nonzero().squeeze(-1)


def residual(cell: Tensor, arcs: Arcs) -> Residual:
    """Pieces and loose cells for nodes in cells ``(N,)``, numbered below N; different graphs have different cells."""
    n = cell.shape[0]
    source, target, code = rename(arcs, cell) if arcs.source.shape[0] else (arcs.source, arcs.target, arcs.forth)
    if source.shape[0] == 0:  # everything is loose
        none = source.new_empty(0)
        return Residual(none, none, none, none, [], torch.zeros(n, dtype=torch.bool), cell)
    touched = torch.zeros(n, dtype=torch.bool)
    touched[cell[source]] = True
    active = touched[cell]
    piece = components(source, target, n)

    nodes = active.nonzero().squeeze(-1)
    nodes = nodes[(piece[nodes] * n + cell[nodes]).argsort(stable=True)]
    number, sizes = torch.unique_consecutive(piece[nodes], return_inverse=True, return_counts=True)[1:]
    start = sizes.cumsum(0) - sizes
    cells = cell[nodes]
    rises = torch.zeros_like(cells)
    rises[1:] = cells[1:] != cells[:-1]
    rises = rises.cumsum(0)
    colours = rises - rises[start[number]]

    place = torch.zeros_like(cell)
    place[nodes] = torch.arange(nodes.shape[0])
    i, j = place[source], place[target]
    by_arc = (i * nodes.shape[0] + j).argsort()
    i, j, code = i[by_arc], j[by_arc], code[by_arc]
    owner = number[i]
    base = int(code.max()) + 1
    arc = ((i - start[owner]) * sizes[owner] + j - start[owner]) * base + code
    pattern, first = _patterns([(colours, number), (arc, owner)], sizes.shape[0])
    degree = torch.bincount(owner, minlength=sizes.shape[0])
    chosen = torch.zeros_like(sizes, dtype=torch.bool).index_fill(0, first, True)
    patterns = [
        Pattern(tuple(own), tuple(listed), base)
        for own, listed in zip(
            split(colours[chosen[number]].tolist(), sizes[first].tolist()),
            split(arc[chosen[owner]].tolist(), degree[first].tolist()),
            strict=True,
        )
    ]
    return Residual(nodes, start, number, pattern, patterns, active, cell)
