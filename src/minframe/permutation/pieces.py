"""From what refinement left to a canonical order and generators: piece by piece, then put together.

The canonical order of a graph is by cell, then by piece, then by the order within the piece; pieces are ordered by
their cells and their canonical form, compared as lists of numbers. Where two agree, exchanging them is an automorphism.
Together with the automorphisms of each piece and all permutations of each loose cell these generate the group.

Equal pieces are looked at once, which is most of the saving on a batch of small graphs. Large ones may be looked at by
several processes (``parallel``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from minframe.permutation import backend as backends
from minframe.permutation import parallel
from minframe.permutation.backend import inverse
from minframe.permutation.parallel import Question
from minframe.permutation.residual import Piece, Residual
from minframe.permutation.search import search

SEARCH_ARCS = 2000  # of a piece with coloured edges, about 45 nodes of a cloud

Move = tuple[list[int], list[int]]  # of a permutation: the nodes that move, and where to


class _Known:
    """Canonical order and automorphisms of pieces; equal pieces are looked at once."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._orders: dict[object, list[int]] = {}
        self._generators: dict[object, list[list[int]]] = {}

    def ask(self, pieces: list[Piece], automorphisms: bool) -> None:
        """Look at all pieces beforehand, by several processes, if that is wanted and pays."""
        if parallel.workers() == 1:
            return
        left = {(p.colours, p.arcs): p for p in pieces if not p.rigid}
        questions = [Question(p.colours, p.arcs, p.base) for p in left.values() if not self._search(p)]
        if not parallel.worth_sending(questions):
            return
        for question, answer in zip(questions, parallel.ask(self._backend, questions, automorphisms), strict=True):
            self._orders[question[:2]] = answer.order
            if automorphisms:
                self._generators[question[:2]] = answer.generators

    def order(self, piece: Piece) -> list[int]:
        """Local nodes in canonical order, of a piece that is not rigid."""
        key = piece.colours, piece.arcs
        if key not in self._orders and not self._search(piece):
            self._orders[key] = backends.get(self._backend).order(piece.colours, piece.triples())
        return self._orders[key]

    def generators(self, piece: Piece) -> list[list[int]]:
        """Of its automorphism group."""
        key = piece.colours, piece.arcs
        if key not in self._generators and not self._search(piece):
            self._generators[key] = backends.get(self._backend).automorphisms(piece.colours, piece.triples())
        return self._generators[key]

    def _search(self, piece: Piece) -> bool:
        """Try without a library if many layers of many edges would be needed; not on sparse graphs."""
        key, m = (piece.colours, piece.arcs), len(piece.nodes)
        if len(piece.arcs) < SEARCH_ARCS or len(piece.arcs) < m * m // 4 or key in self._orders:
            return False
        codes = piece.codes()
        found = search(torch.tensor(piece.colours), codes) if int(codes.max()) > 1 else None
        if found is None:
            return False
        self._orders[key], self._generators[key] = found[0].tolist(), found[1].tolist()
        return True


def _form(piece: Piece, order: list[int]) -> tuple[int, ...]:
    """The arcs between positions in the canonical order."""
    if piece.rigid:
        return piece.arcs
    position, m = inverse(order), len(order)
    return tuple(sorted((position[i] * m + position[j]) * piece.base + code for i, j, code in piece.triples()))


@dataclass(frozen=True, slots=True)
class Moves:
    """Generators of the automorphism groups of a batch of graphs, by the nodes they move.

    Attributes:
        pieces: generators within pieces and exchanges of pieces.
        loose: cells whose nodes can be permuted at will.
        active: ``(N,)``, whether a node is in a piece.
    """

    pieces: list[Move]
    loose: list[list[int]]
    active: Tensor

    def generators(self) -> Iterator[Move]:
        """All of them; of a symmetric group, an exchange and a cycle."""
        yield from self.pieces
        for cell in self.loose:
            yield cell[:2], cell[1::-1]
            if len(cell) > 2:
                yield cell, cell[1:] + cell[:1]


def assemble(cell: Tensor, graph: list[int], left: Residual, backend: str, automorphisms: bool) -> tuple[Tensor, Moves]:
    """All nodes in canonical order, graph by graph, and what moves them. ``graph``: of each piece."""
    known = _Known(backend)
    known.ask(left.pieces, automorphisms)
    by_graph: dict[int, list[tuple[Piece, list[int], list[int]]]] = defaultdict(
        list
    )  # with its order, and the nodes in it
    moves = Moves([], left.loose() if automorphisms else [], left.active)
    for piece, owner in zip(left.pieces, graph, strict=True):
        if piece.rigid:
            by_graph[owner].append((piece, [], piece.nodes))
            continue
        order = known.order(piece)
        by_graph[owner].append((piece, order, [piece.nodes[k] for k in order]))
        if automorphisms:
            for g in known.generators(piece):
                moved = [k for k, image in enumerate(g) if image != k]
                moves.pieces.append(([piece.nodes[k] for k in moved], [piece.nodes[g[k]] for k in moved]))
    sequence: list[int] = []
    for parts in by_graph.values():
        if len(parts) > 1:
            keys = [(piece.cells, _form(piece, order)) for piece, order, _ in parts]
            by_key = sorted(range(len(parts)), key=keys.__getitem__)
            for k, following in pairwise(by_key):
                if automorphisms and keys[k] == keys[following]:
                    one, other = parts[k][2], parts[following][2]
                    moves.pieces.append((one + other, other + one))
            parts = [parts[k] for k in by_key]
        for _, _, ordered in parts:
            sequence += ordered
    nodes = torch.cat([torch.tensor(sequence, dtype=torch.int64), (~left.active).nonzero().squeeze(-1)])
    return nodes[cell[nodes].argsort(stable=True)], moves
