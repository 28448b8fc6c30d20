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

from minframe.labelling.backend import inverse
from minframe.labelling.parallel import Answer, ask
from minframe.labelling.residual import Kind, Residual
from minframe.labelling.search import search

SEARCH_ARCS = 2000  # of a piece with coloured edges, about 45 nodes of a cloud

Move = tuple[list[int], list[int]]  # of a permutation: the nodes that move, and where to


def _searched(kind: Kind) -> Answer | None:
    """What is found without a library: of rigid pieces, and of dense ones that it would need many layers for."""
    m = len(kind.colours)
    if kind.rigid:
        return Answer(list(range(m)), [])
    if len(kind.arcs) < SEARCH_ARCS or len(kind.arcs) < m * m // 4:
        return None
    codes = kind.codes()
    found = search(torch.tensor(kind.colours), codes) if int(codes.max()) > 1 else None
    return None if found is None else Answer(found[0].tolist(), found[1].tolist())


def _look_at(kinds: list[Kind], backend: str, automorphisms: bool) -> list[Answer]:
    """Canonical order and generators of each kind of piece."""
    found = [_searched(kind) for kind in kinds]
    asked = [kind for kind, answer in zip(kinds, found, strict=True) if answer is None]
    answers = iter(ask(backend, asked, automorphisms))
    return [next(answers) if answer is None else answer for answer in found]


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


def assemble(cell: Tensor, graph: Tensor, left: Residual, backend: str, automorphisms: bool) -> tuple[Tensor, Moves]:
    """All nodes in canonical order, graph by graph, and what moves them. ``graph`` ``(N,)``: of each node."""
    if not left.kinds:
        return cell.argsort(stable=True), Moves([], left.loose() if automorphisms else [], left.active)
    answers = _look_at(left.kinds, backend, automorphisms)
    sizes = torch.tensor([len(answer.order) for answer in answers], dtype=torch.int64)
    orders = torch.tensor([k for answer in answers for k in answer.order], dtype=torch.int64)
    first, kind = left.start[left.number], left.kind[left.number]
    within = orders[(sizes.cumsum(0) - sizes)[kind] + torch.arange(left.nodes.shape[0]) - first]
    nodes = left.nodes[first + within]
    rank, exchanges = _ranks(left, graph, nodes, answers)
    moves = Moves([], [], left.active)
    if automorphisms:
        moves = Moves([*_within(left, answers), *exchanges], left.loose(), left.active)
    nodes = nodes[rank[left.number].argsort(stable=True)]
    nodes = torch.cat([nodes, (~left.active).nonzero().squeeze(-1)])
    return nodes[cell[nodes].argsort(stable=True)], moves


def _within(left: Residual, answers: list[Answer]) -> Iterator[Move]:
    """Generators that leave every piece where it is."""
    moved = [[[k for k, image in enumerate(g) if k != image] for g in answer.generators] for answer in answers]
    for piece, kind in zip(left.members(left.nodes), left.kind.tolist(), strict=True):
        for g, points in zip(answers[kind].generators, moved[kind], strict=True):
            yield [piece[k] for k in points], [piece[g[k]] for k in points]


def _ranks(left: Residual, graph: Tensor, nodes: Tensor, answers: list[Answer]) -> tuple[Tensor, list[Move]]:
    """Numbers ``(P,)`` by which the pieces of each graph are in order, and exchanges of neighbours that are alike.

    ``nodes`` ``(M,)`` are the nodes of the pieces in their canonical order.
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
    forms = {k: _form(left.kinds[k], answers[k].order) for k in set(kinds)}
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
