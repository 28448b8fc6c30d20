"""Graphs by name, and all graphs with few nodes, for all tests of permutations."""

import itertools

import torch
from torch import Tensor

from minframe.labelling.ops import canonical_order

Graph = tuple[Tensor, Tensor]  # node colours (n,), edge colours (n, n)


def from_edges(n: int, edges) -> Tensor:
    a = torch.zeros(n, n, dtype=torch.int64)
    for i, j in edges:
        a[i, j] = a[j, i] = 1
    return a


def cycle(n: int) -> Tensor:
    return from_edges(n, [(i, (i + 1) % n) for i in range(n)])


def complete(n: int) -> Tensor:
    return 1 - torch.eye(n, dtype=torch.int64)


def bipartite(p: int, q: int) -> Tensor:
    return from_edges(p + q, itertools.product(range(p), range(p, p + q)))


def petersen() -> Tensor:
    edges = [((i, (i + 1) % 5), (i, i + 5), (5 + i, 5 + (i + 2) % 5)) for i in range(5)]
    return from_edges(10, itertools.chain.from_iterable(edges))


def hypercube(d: int) -> Tensor:
    return from_edges(2**d, [(v, v ^ (1 << k)) for v in range(2**d) for k in range(d)])


def grid(p: int, q: int) -> Tensor:
    right = [(q * i + j, q * i + j + 1) for i in range(p) for j in range(q - 1)]
    down = [(q * i + j, q * i + q + j) for i in range(p - 1) for j in range(q)]
    return from_edges(p * q, right + down)


def shrikhande() -> Tensor:
    steps = ((1, 0), (0, 1), (1, 1))
    nodes = itertools.product(range(4), range(4), steps)
    return from_edges(16, [(4 * a + b, 4 * ((a + x) % 4) + (b + y) % 4) for a, b, (x, y) in nodes])


def rook() -> Tensor:
    nodes = list(itertools.product(range(4), range(4)))
    pairs = itertools.combinations(nodes, 2)
    return from_edges(16, [(4 * a + b, 4 * c + d) for (a, b), (c, d) in pairs if a == c or b == d])


def union(*graphs: Tensor) -> Tensor:
    return torch.block_diag(*graphs)


def cfi(base: Tensor, twists: int) -> Tensor:
    """The construction of Cai, Fuerer and Immerman over ``base``, with some edges twisted.

    Two graphs are isomorphic if their numbers of twists are equal modulo two, and otherwise look the same to colour
    refinement.
    """
    links = [(i, j) for i, j in base.nonzero().tolist() if i < j]
    names: dict[object, int] = {}

    def name(*key) -> int:
        return names.setdefault(key, len(names))

    edges = []
    for v in range(len(base)):
        incident = [e for e in links if v in e]
        for size in range(0, len(incident) + 1, 2):
            for subset in itertools.combinations(incident, size):
                edges += [(name(v, subset), name(v, e, e in subset)) for e in incident]
    for k, e in enumerate(links):
        for side in (False, True):
            edges.append((name(e[0], e, side), name(e[1], e, side ^ (k < twists))))
    return from_edges(len(names), edges)


def paley(p: int) -> Tensor:
    squares = {i * i % p for i in range(1, p)}
    return torch.tensor([[int((j - i) % p in squares) for j in range(p)] for i in range(p)])


def plain(edges: Tensor) -> Graph:
    return torch.zeros(len(edges), dtype=torch.int64), edges


def weighted(edges: Tensor) -> Graph:
    """Edge colours and self-loops in a pattern that leaves some symmetry."""
    n = len(edges)
    i = torch.arange(n)
    colours = 1 + (i.unsqueeze(0) + i.unsqueeze(1)) % 3
    return i % 2, edges * colours + torch.diag((i % 4 == 0).long() * 2)


def directed(edges: Tensor) -> Graph:
    """Every second edge is turned into an arrow."""
    i = torch.arange(len(edges))
    arrow = (i.unsqueeze(0) + i.unsqueeze(1)) % 2 == 1
    return plain(torch.where(arrow & (i.unsqueeze(0) < i.unsqueeze(1)), 0, edges))


SHAPES = {
    "petersen": petersen(),
    "Q3": hypercube(3),
    "Q4": hypercube(4),
    "Q5": hypercube(5),
    "Q6": hypercube(6),
    "K64": complete(64),
    "K32,32": bipartite(32, 32),
    "C100": cycle(100),
    "grid": grid(10, 10),
    "shrikhande": shrikhande(),
    "rook": rook(),
    "cfi": cfi(complete(4), 0),
    "cfi twisted": cfi(complete(4), 1),
    "union": union(petersen(), cycle(5), petersen(), cycle(4), cycle(3), torch.zeros(3, 3, dtype=torch.int64)),
    "matching": union(*[complete(2)] * 12),
    "star": bipartite(1, 9),
    "empty": torch.zeros(12, 12, dtype=torch.int64),
    "one node": torch.zeros(1, 1, dtype=torch.int64),
}
GRAPHS: dict[str, Graph] = (
    {name: plain(edges) for name, edges in SHAPES.items()}
    | {f"weighted {name}": weighted(edges) for name, edges in SHAPES.items()}
    | {f"directed {name}": directed(edges) for name, edges in SHAPES.items()}
    | {"arrows in a circle": plain(cycle(12).triu().clamp(max=1) - cycle(12).triu(2) + cycle(12).tril(-2))}
    | {"paley 7": plain(paley(7)), "paley 11": plain(paley(11)), "paley 13": plain(paley(13))}
)


def relabel(graph: Graph, p: Tensor) -> Graph:
    colours, edges = graph
    return colours[p], edges[p][:, p]


def permute_pairs(edges: Tensor, order: Tensor) -> Tensor:
    """Rows and columns of ``(*batch, n, n)`` in an order ``(*batch, n)``."""
    rows = edges.gather(-2, order.unsqueeze(-1).expand(edges.shape))
    return rows.gather(-1, order.unsqueeze(-2).expand(edges.shape))


def forms(edges: Tensor, **options) -> Tensor:
    """Canonical adjacency matrices ``(B, n, n)``."""
    order, _ = canonical_order(edges.new_zeros(edges.shape[:-1]), edges, **options)
    return permute_pairs(edges, order)


def all_graphs(n: int, **options) -> list[Tensor]:
    """Plain graphs with 1, ..., n nodes up to isomorphism, by adding a node in all ways."""
    levels = [torch.zeros(1, 1, 1, dtype=torch.int64)]
    for m in range(1, n):
        subsets = torch.arange(2**m).unsqueeze(-1) >> torch.arange(m) & 1
        old = levels[-1]
        new = old.new_zeros(len(old), 2**m, m + 1, m + 1)
        new[..., :m, :m] = old.unsqueeze(1)
        new[..., m, :m] = new[..., :m, m] = subsets
        i, j = torch.triu_indices(m + 1, m + 1, 1)
        bits = torch.arange(len(i))
        keys = [(forms(part, **options)[:, i, j] << bits).sum(-1) for part in new.flatten(0, 1).split(20000)]
        found = torch.cat(keys).unique()
        level = found.new_zeros(len(found), m + 1, m + 1)
        level[:, i, j] = level[:, j, i] = found.unsqueeze(-1) >> bits & 1
        levels.append(level)
    return levels


def connected(edges: Tensor) -> Tensor:
    reach = (edges + torch.eye(edges.shape[-1], dtype=torch.int64)).double()
    for _ in range(3):
        reach = (reach @ reach).clamp(max=1)
    return (reach > 0).flatten(1).all(-1)
