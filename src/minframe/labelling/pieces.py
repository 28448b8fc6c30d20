"""The canonical order and generators of what refinement leaves undecided: piece by piece, then combined.

The canonical order of a graph is by cell, then by piece, then by the order within the piece; pieces are ordered by
their cells and their canonical form, compared as lists of numbers. Where two agree, exchanging them is an automorphism.
Together with the automorphisms of each piece and all permutations of each loose cell these generate the group.

Equal pieces are labelled once, which is most of the saving on a batch of small graphs. Large ones may be shared among
several processes (``parallel``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from minframe.labelling.arcs import Arcs
from minframe.labelling.backend import inverse
from minframe.labelling.parallel import Move, as_move, ask_generators, ask_orders
from minframe.labelling.residual import Pattern, Residual, residual, split
from minframe.labelling.search import search

MIN_SEARCHED_ARCS = 2000  # arcs from which a piece with coloured edges is searched; about 45 nodes of a cloud

T = TypeVar("T")
MIN_NESTED_NODES = 48  # nodes from which a piece is itself divided before a library finds its automorphisms


class Answer(NamedTuple):
    """The nodes of a piece in canonical order, and generators of its group if they are already known."""

    order: list[int]
    generators: list[Move] | None


def _searched(pattern: Pattern) -> Answer | None:
    """The answer without a library, for rigid pieces and for dense ones that would need many layers; else ``None``."""
    m = len(pattern.colours)
    if pattern.rigid:
        return Answer(list(range(m)), [])
    if len(pattern.arcs) < MIN_SEARCHED_ARCS or len(pattern.arcs) < m * m // 4:
        return None
    codes = pattern.codes()
    found = search(torch.tensor(pattern.colours), codes) if int(codes.max()) > 1 else None
    return None if found is None else Answer(found[0].tolist(), [as_move(g) for g in found[1].tolist()])


def _look_at(patterns: list[Pattern], backend: str, nested: bool) -> list[Answer]:
    """The canonical order of each pattern."""
    found = [_searched(pattern) for pattern in patterns]
    if nested:
        found = _filled(patterns, found, lambda asked: _apart(asked, backend))
    return _filled(patterns, found, lambda asked: [Answer(order, None) for order in ask_orders(backend, asked)])  # type: ignore[return-value]


def _generators(patterns: list[Pattern], backend: str) -> list[list[Move]]:
    """Generators of the automorphism group of each pattern."""
    found = [None if answer is None else answer.generators for answer in _apart(patterns, backend)]
    return _filled(patterns, found, lambda asked: ask_generators(backend, asked))  # type: ignore[return-value]


def order_of(pattern: Pattern, backend: str) -> list[int]:
    """The nodes of one piece in canonical order."""
    return _look_at([pattern], backend, nested=False)[0].order


def generators_of(pattern: Pattern, backend: str) -> list[Move]:
    """Generators of the automorphism group of one piece."""
    found = _searched(pattern)
    known = None if found is None else found.generators
    return _generators([pattern], backend)[0] if known is None else known


def _filled(
    patterns: list[Pattern], found: Sequence[T | None], ask: Callable[[list[Pattern]], Sequence[T | None]]
) -> list[T | None]:
    """``found``, with answers from ``ask`` for the missing ones."""
    answers = iter(ask([pattern for pattern, answer in zip(patterns, found, strict=True) if answer is None]))
    return [next(answers) if answer is None else answer for answer in found]


def _apart(patterns: list[Pattern], backend: str) -> list[Answer | None]:
    """Canonical orders and generators of pieces that divide into pieces themselves, like a tree without its root.

    The order differs from that of a library: it serves to find which pieces are equal.
    """
    result: list[Answer | None] = [None] * len(patterns)
    large = [k for k, pattern in enumerate(patterns) if len(pattern.colours) >= MIN_NESTED_NODES]
    if not large:
        return result
    graph, cell, arcs = _union([patterns[k] for k in large])
    left = residual(cell, arcs)
    whole = torch.bincount(left.number, minlength=1) == torch.bincount(graph)[graph[left.nodes[left.start]]]
    stuck = set(graph[left.nodes[left.start]][whole].tolist()) if len(left.start) else set[int]()
    chosen = [k for number, k in enumerate(large) if number not in stuck]
    if stuck and chosen:
        graph, cell, arcs = _union([patterns[k] for k in chosen])
        left = residual(cell, arcs)
    if chosen:
        found = Assembled(cell, graph, left, backend, nested=True)
        sizes = [len(patterns[k].colours) for k in chosen]
        starts = list(accumulate(sizes, initial=0))
        moves: list[list[Move]] = [[] for _ in chosen]
        for points, images in found.moves.generators():
            number = bisect_right(starts, points[0]) - 1
            first = starts[number]
            moves[number].append(([p - first for p in points], [p - first for p in images]))
        orders = split((found.order - torch.tensor(starts)[graph]).tolist(), sizes)
        for k, order, own in zip(chosen, orders, moves, strict=True):
            result[k] = Answer(order, own)
    return result


def _union(patterns: list[Pattern]) -> tuple[Tensor, Tensor, Arcs]:
    """Pieces as one graph: the number of the piece and the cell of each node, and the arcs."""
    sizes = torch.tensor([len(pattern.colours) for pattern in patterns])
    graph = torch.arange(len(patterns)).repeat_interleave(sizes)
    first = sizes.cumsum(0) - sizes
    cell = torch.tensor([c for pattern in patterns for c in pattern.colours]) + first[graph]
    of_arc = torch.arange(len(patterns)).repeat_interleave(torch.tensor([len(pattern.arcs) for pattern in patterns]))
    number = torch.tensor([a for pattern in patterns for a in pattern.arcs])
    base, m = torch.tensor([pattern.base for pattern in patterns])[of_arc], sizes[of_arc]
    pair = number // base
    ends = torch.stack([pair // m, pair % m]) + first[of_arc]
    return graph, cell, Arcs.of_sparse(ends, number % base, len(graph))[0]


def _form(pattern: Pattern, order: list[int]) -> tuple[int, ...]:
    """The arcs between positions in the canonical order."""
    if pattern.rigid:
        return pattern.arcs
    position, m = inverse(order), len(order)
    return tuple(sorted((position[i] * m + position[j]) * pattern.base + code for i, j, code in pattern.triples()))


@dataclass(frozen=True, slots=True)
class Moves:
    """Generators of the automorphism groups of a batch of graphs, by the nodes they move.

    Attributes:
        pieces: generators within pieces and exchanges of pieces.
        loose: cells whose nodes can be permuted arbitrarily.
        active: ``(N,)``, whether a node is in a piece.
    """

    pieces: list[Move]
    loose: list[list[int]]
    active: Tensor

    def generators(self) -> Iterator[Move]:
        """All generators; a symmetric group is generated by an exchange and a cycle."""
        yield from self.pieces
        for cell in self.loose:
            yield cell[:2], cell[1::-1]
            if len(cell) > 2:
                yield cell, cell[1:] + cell[:1]


class Assembled:
    """All nodes in canonical order, graph by graph, and the generators that move them, which are computed on demand.

    Args:
        cell: ``(N,)``, as given to ``residual``.
        graph: ``(N,)``, the graph of each node.
        left: the result of ``residual``.
        backend: the labelling library.
        nested: divide pieces further. The canonical order is then a different one.

    Attributes:
        order: ``(N,)``.
    """

    def __init__(self, cell: Tensor, graph: Tensor, left: Residual, backend: str, nested: bool = False) -> None:
        self._left, self._backend = left, backend
        self._answers: list[Answer] = []
        self._exchanges: list[Move] = []
        if not left.patterns:
            self.order = cell.argsort(stable=True)
            return
        self._answers = _look_at(left.patterns, backend, nested)
        found = [answer.order for answer in self._answers]
        sizes = torch.tensor([len(order) for order in found], dtype=torch.int64)
        orders = torch.tensor([k for order in found for k in order], dtype=torch.int64)
        first, pattern = left.start[left.number], left.pattern[left.number]
        within = orders[(sizes.cumsum(0) - sizes)[pattern] + torch.arange(left.nodes.shape[0]) - first]
        nodes = left.nodes[first + within]
        rank, self._exchanges = _ranks(left, graph, nodes, found)
        nodes = nodes[rank[left.number].argsort(stable=True)]
        nodes = torch.cat([nodes, (~left.active).nonzero().squeeze(-1)])
        self.order = nodes[cell[nodes].argsort(stable=True)]

    @cached_property
    def moves(self) -> Moves:
        """Generators of the automorphism groups."""
        left = self._left
        known = [answer.generators for answer in self._answers]
        generators = _filled(left.patterns, known, lambda asked: _generators(asked, self._backend))
        return Moves([*_within(left, generators), *self._exchanges], left.loose(), left.active)  # type: ignore[arg-type]


def _within(left: Residual, generators: list[list[Move]]) -> Iterator[Move]:
    """Those that leave every piece where it is; ``generators`` of each pattern."""
    for piece, pattern in zip(left.members(left.nodes), left.pattern.tolist(), strict=True):
        for points, images in generators[pattern]:
            yield [piece[k] for k in points], [piece[k] for k in images]


def _ranks(left: Residual, graph: Tensor, nodes: Tensor, orders: list[list[int]]) -> tuple[Tensor, list[Move]]:
    """Numbers ``(P,)`` by which the pieces of each graph are in order, and exchanges of neighbours that are alike.

    ``nodes`` ``(M,)`` are the nodes of the pieces in their canonical order, ``orders`` those of each pattern.
    """
    rank, exchanges = torch.arange(left.start.shape[0]), list[Move]()
    owner = graph[left.nodes[left.start]]
    several = torch.bincount(owner, minlength=1)[owner] > 1
    chosen = several.nonzero().squeeze(-1)
    if chosen.shape[0] == 0:
        return rank, exchanges
    members = left.members(nodes, several)
    cells = left.members(left.cell[nodes], several)
    patterns = left.pattern[chosen].tolist()
    forms = {k: _form(left.patterns[k], orders[k]) for k in set(patterns)}
    keys = [(own, forms[k]) for own, k in zip(cells, patterns, strict=True)]
    by_graph = defaultdict(list)
    for k, number in enumerate(owner[chosen].tolist()):
        by_graph[number].append(k)
    place = list(range(len(keys)))
    for parts in by_graph.values():
        by_key = sorted(parts, key=keys.__getitem__)
        for position, k in zip(parts, by_key, strict=True):
            place[k] = position
        for k, following in pairwise(by_key):
            if keys[k] == keys[following]:
                exchanges.append((members[k] + members[following], members[following] + members[k]))
    rank[chosen] = chosen[torch.tensor(place)]
    return rank, exchanges
