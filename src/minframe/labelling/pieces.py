"""From what refinement left to a canonical order and generators: piece by piece, then put together.

The canonical order of a graph is by cell, then by piece, then by the order within the piece; pieces are ordered by
their cells and their canonical form, compared as lists of numbers. Where two agree, exchanging them is an automorphism.
Together with the automorphisms of each piece and all permutations of each loose cell these generate the group.

Equal pieces are looked at once, which is most of the saving on a batch of small graphs. Large ones may be looked at by
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
from minframe.labelling.residual import Kind, Residual, residual, split
from minframe.labelling.search import search

MAX_SEARCHED_ARCS = 2000  # of a piece with coloured edges, about 45 nodes of a cloud

T = TypeVar("T")
MIN_NESTED_NODES = 48  # of a piece that is cut into pieces of its own before a library is asked for its automorphisms


class Answer(NamedTuple):
    """The nodes of a piece in canonical order, and generators of its group if they are known by now."""

    order: list[int]
    generators: list[Move] | None


def _searched(kind: Kind) -> Answer | None:
    """What is found without a library: of rigid pieces, and of dense ones that it would need many layers for."""
    m = len(kind.colours)
    if kind.rigid:
        return Answer(list(range(m)), [])
    if len(kind.arcs) < MAX_SEARCHED_ARCS or len(kind.arcs) < m * m // 4:
        return None
    codes = kind.codes()
    found = search(torch.tensor(kind.colours), codes) if int(codes.max()) > 1 else None
    return None if found is None else Answer(found[0].tolist(), [as_move(g) for g in found[1].tolist()])


def _look_at(kinds: list[Kind], backend: str, nested: bool) -> list[Answer]:
    """The canonical order of each kind of piece."""
    found = [_searched(kind) for kind in kinds]
    if nested:
        found = _filled(kinds, found, lambda asked: _apart(asked, backend))
    return _filled(kinds, found, lambda asked: [Answer(order, None) for order in ask_orders(backend, asked)])  # type: ignore[return-value]


def _generators(kinds: list[Kind], backend: str) -> list[list[Move]]:
    """Generators of the automorphism group of each kind of piece."""
    found = [None if answer is None else answer.generators for answer in _apart(kinds, backend)]
    return _filled(kinds, found, lambda asked: ask_generators(backend, asked))  # type: ignore[return-value]


def order_of(kind: Kind, backend: str) -> list[int]:
    """The nodes of one piece in canonical order."""
    return _look_at([kind], backend, nested=False)[0].order


def generators_of(kind: Kind, backend: str) -> list[Move]:
    """Generators of the automorphism group of one piece."""
    found = _searched(kind)
    known = None if found is None else found.generators
    return _generators([kind], backend)[0] if known is None else known


def _filled(
    kinds: list[Kind], found: Sequence[T | None], ask: Callable[[list[Kind]], Sequence[T | None]]
) -> list[T | None]:
    """``found``, with answers of ``ask`` where there is none."""
    answers = iter(ask([kind for kind, answer in zip(kinds, found, strict=True) if answer is None]))
    return [next(answers) if answer is None else answer for answer in found]


def _apart(kinds: list[Kind], backend: str) -> list[Answer | None]:
    """Canonical orders and generators of those pieces that fall into pieces themselves, like a tree without its root.

    The order is another one than that of a library: it serves to tell which pieces are alike.
    """
    result: list[Answer | None] = [None] * len(kinds)
    large = [k for k, kind in enumerate(kinds) if len(kind.colours) >= MIN_NESTED_NODES]
    if not large:
        return result
    graph, cell, arcs = _union([kinds[k] for k in large])
    left = residual(cell, arcs)
    whole = torch.bincount(left.number, minlength=1) == torch.bincount(graph)[graph[left.nodes[left.start]]]
    stuck = set(graph[left.nodes[left.start]][whole].tolist()) if len(left.start) else set[int]()
    chosen = [k for number, k in enumerate(large) if number not in stuck]
    if stuck and chosen:
        graph, cell, arcs = _union([kinds[k] for k in chosen])
        left = residual(cell, arcs)
    if chosen:
        found = Assembled(cell, graph, left, backend, nested=True)
        sizes = [len(kinds[k].colours) for k in chosen]
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


def _union(kinds: list[Kind]) -> tuple[Tensor, Tensor, Arcs]:
    """Pieces as one graph: the number of the piece and the cell of each node, and the arcs."""
    sizes = torch.tensor([len(kind.colours) for kind in kinds])
    graph = torch.arange(len(kinds)).repeat_interleave(sizes)
    first = sizes.cumsum(0) - sizes
    cell = torch.tensor([c for kind in kinds for c in kind.colours]) + first[graph]
    of_arc = torch.arange(len(kinds)).repeat_interleave(torch.tensor([len(kind.arcs) for kind in kinds]))
    number = torch.tensor([a for kind in kinds for a in kind.arcs])
    base, m = torch.tensor([kind.base for kind in kinds])[of_arc], sizes[of_arc]
    pair = number // base
    ends = torch.stack([pair // m, pair % m]) + first[of_arc]
    return graph, cell, Arcs.of_sparse(ends, number % base, len(graph))[0]


def _form(kind: Kind, order: list[int]) -> tuple[int, ...]:
    """The arcs between positions in the canonical order."""
    if kind.rigid:
        return kind.arcs
    position, m = inverse(order), len(order)
    return tuple(sorted((position[i] * m + position[j]) * kind.base + code for i, j, code in kind.triples()))


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


class Assembled:
    """All nodes in canonical order, graph by graph, and what moves them, which is found when it is asked for.

    Args:
        cell: ``(N,)``, as given to ``residual``.
        graph: ``(N,)``, of each node.
        left: what ``residual`` found.
        backend: the library to ask.
        nested: cut pieces into pieces of their own. The canonical order is then another one.

    Attributes:
        order: ``(N,)``.
    """

    def __init__(self, cell: Tensor, graph: Tensor, left: Residual, backend: str, nested: bool = False) -> None:
        self._left, self._backend = left, backend
        self._answers: list[Answer] = []
        self._exchanges: list[Move] = []
        if not left.kinds:
            self.order = cell.argsort(stable=True)
            return
        self._answers = _look_at(left.kinds, backend, nested)
        found = [answer.order for answer in self._answers]
        sizes = torch.tensor([len(order) for order in found], dtype=torch.int64)
        orders = torch.tensor([k for order in found for k in order], dtype=torch.int64)
        first, kind = left.start[left.number], left.kind[left.number]
        within = orders[(sizes.cumsum(0) - sizes)[kind] + torch.arange(left.nodes.shape[0]) - first]
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
        generators = _filled(left.kinds, known, lambda asked: _generators(asked, self._backend))
        return Moves([*_within(left, generators), *self._exchanges], left.loose(), left.active)  # type: ignore[arg-type]


def _within(left: Residual, generators: list[list[Move]]) -> Iterator[Move]:
    """Those that leave every piece where it is; ``generators`` of each kind."""
    for piece, kind in zip(left.members(left.nodes), left.kind.tolist(), strict=True):
        for points, images in generators[kind]:
            yield [piece[k] for k in points], [piece[k] for k in images]


def _ranks(left: Residual, graph: Tensor, nodes: Tensor, orders: list[list[int]]) -> tuple[Tensor, list[Move]]:
    """Numbers ``(P,)`` by which the pieces of each graph are in order, and exchanges of neighbours that are alike.

    ``nodes`` ``(M,)`` are the nodes of the pieces in their canonical order, ``orders`` those of each kind.
    """
    rank, exchanges = torch.arange(left.start.shape[0]), list[Move]()
    owner = graph[left.nodes[left.start]]
    several = torch.bincount(owner, minlength=1)[owner] > 1
    chosen = several.nonzero().squeeze(-1)
    if chosen.shape[0] == 0:
        return rank, exchanges
    members = left.members(nodes, several)
    cells = left.members(left.cell[nodes], several)
    kinds = left.kind[chosen].tolist()
    forms = {k: _form(left.kinds[k], orders[k]) for k in set(kinds)}
    keys = [(own, forms[k]) for own, k in zip(cells, kinds, strict=True)]
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
