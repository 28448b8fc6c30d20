"""Stabiliser chains: exact orders, membership, uniform elements, and averages equal to full enumeration."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphs import GRAPHS, SHAPES, complete, from_edges, plain, union
from group_order import group_order
from minframe.labelling.chain import StabiliserChain, compose, inverse
from minframe.labelling.label import label_graph
from minframe.labelling.ops import node_orbits, pair_orbits
from minframe.labelling.orbits import orbit_mean, orbital_mean


def cycle(n, *points):
    g = list(range(n))
    for a, b in zip(points, points[1:] + points[:1], strict=True):
        g[a] = b
    return tuple(g)


def symmetric(n):
    return [cycle(n, 0, 1), cycle(n, *range(n))]


def group_of(name):
    colours, edges = GRAPHS[name]
    return StabiliserChain(label_graph(colours, edges)[1], len(colours))


def triangular(n):
    """The line graph of K_n, with group S_n on pairs."""
    pairs = list(itertools.combinations(range(n), 2))
    edges = [(i, j) for i, j in itertools.combinations(range(len(pairs)), 2) if set(pairs[i]) & set(pairs[j])]
    return from_edges(len(pairs), edges)


@pytest.mark.parametrize(
    ("generators", "n", "order"),
    [
        (symmetric(64), 64, math.factorial(64)),
        (symmetric(2), 2, 2),
        ([cycle(12, 0, 1, 2), cycle(12, *range(1, 12))], 12, math.factorial(12) // 2),
        ([cycle(11, *range(11)), compose(cycle(11, 2, 6, 10, 7), cycle(11, 3, 9, 4, 5))], 11, 7920),
        ([], 5, 1),
        ([tuple(range(5))], 5, 1),
        ([cycle(100, *range(100))], 100, 100),
        ([cycle(6, 0, 1), cycle(6, 2, 3), cycle(6, 4, 5)], 6, 8),
        ([*symmetric(200), compose(cycle(204, 200, 202), cycle(204, 201, 203))], 204, 2 * math.factorial(200)),
    ],
    ids=["S64", "S2", "A12", "M11", "trivial", "identity", "C100", "2^3", "S200 x C2"],
)
def test_orders_of_known_groups(generators, n, order):
    generators = [(*g, *range(len(g), n)) for g in generators]
    chain = StabiliserChain(generators, n)
    assert chain.order == order
    assert StabiliserChain(generators, n, order=order).order == order
    if generators:
        assert group_order(torch.tensor(generators)) == order
    assert repr(chain) == f"StabiliserChain(degree={n}, order={order})"


@pytest.mark.parametrize(
    ("edges", "order"),
    [
        (triangular(8), math.factorial(8)),
        (union(*[complete(4)] * 8), math.factorial(4) ** 8 * math.factorial(8)),
        (SHAPES["K32,32"], 2 * math.factorial(32) ** 2),
        (SHAPES["Q6"], 46080),
    ],
    ids=["T8", "S4 wr S8", "K32,32", "Q6"],
)
def test_orders_of_graphs(edges, order):
    _, generators = label_graph(*plain(edges))
    assert StabiliserChain(generators, len(edges)).order == order
    assert group_order(generators) == order


def test_symmetric_groups_too_large_for_a_chain():
    _, generators = label_graph(*plain(union(complete(500), torch.zeros(300, 300, dtype=torch.int64))))
    assert group_order(generators) == math.factorial(500) * math.factorial(300)
    assert group_order(torch.empty(0, 7, dtype=torch.int64)) == 1


@given(st.integers(1, 6), st.integers(0, 3), st.integers(0, 2**31))
def test_small_groups_against_closure(n, k, seed):
    source = torch.Generator().manual_seed(seed)
    generators = [tuple(torch.randperm(n, generator=source).tolist()) for _ in range(k)]
    closure = {tuple(range(n))}
    queue = list(closure)
    for g in queue:
        for s in generators:
            h = compose(s, g)
            if h not in closure:
                closure.add(h)
                queue.append(h)
    ordered = StabiliserChain(generators, n, base=range(n))
    assert ordered.order == len(closure)
    if ordered.generators:
        assert ordered.base == list(range(n))
    chain = StabiliserChain(generators, n)
    assert chain.order == len(closure)
    elements = list(chain.elements())
    assert len(elements) == len(closure)
    assert set(elements) == closure
    assert all((p in chain) == (p in closure) for p in itertools.permutations(range(n)))
    if k:
        assert group_order(torch.tensor(generators)) == len(closure)
    assert chain.orbits().tolist() == [min(g[i] for g in closure) for i in range(n)]
    pairs = [[min(g[i] * n + g[j] for g in closure) for j in range(n)] for i in range(n)]
    assert chain.orbitals().tolist() == pairs


def test_transversals():
    chain = group_of("rook")
    fixed = []
    for point, transversal in zip(chain.base, chain.transversals, strict=True):
        assert all(t[p] == p for t in transversal for p in fixed)
        assert len({t[point] for t in transversal}) == len(transversal)
        fixed.append(point)


def test_membership():
    chain = group_of("petersen")
    assert chain.random() in chain
    assert tuple(range(10)) in chain
    assert cycle(10, 0, 1) not in chain
    assert (0,) * 10 not in chain
    assert inverse(tuple(chain.random().tolist())) in chain


def test_random_elements_are_uniform():
    chain = StabiliserChain([cycle(4, 0, 1, 2, 3), cycle(4, 0, 2)], 4)  # the dihedral group of a square
    source = torch.Generator().manual_seed(1)
    draws = [tuple(chain.random(source).tolist()) for _ in range(4000)]
    counts = torch.tensor([draws.count(g) for g in chain.elements()], dtype=torch.float64)
    assert counts.sum() == 4000
    assert ((counts - 500) ** 2 / 500).sum() < 24  # chi squared with 7 degrees of freedom, p = 0.001


def test_bad_generators():
    with pytest.raises(ValueError, match="permutations"):
        StabiliserChain([(0, 0, 1)], 3)


def on_nodes(g, y):
    """(g . y)[g[i]] = y[i], on the first axis."""
    return torch.empty_like(y).index_copy(0, g, y)


def on_triples(g, y):
    for axis in range(3):
        y = torch.empty_like(y).index_copy(axis, g, y)
    return y


SMALL = [name for name, graph in GRAPHS.items() if group_order(label_graph(*graph)[1]) <= 1000]


@pytest.mark.parametrize("name", SMALL)
def test_averages_equal_full_enumeration(name):
    chain = group_of(name)
    n = chain.degree
    y = torch.randn(n, 2, dtype=torch.float64)
    pairs = torch.randn(n, n, 2, dtype=torch.float64)
    k = min(n, 16)
    elements = torch.tensor(list(chain.elements()))
    assert len(elements.unique(dim=0)) == chain.order
    inverses = elements.argsort(-1)
    nodes = y[inverses].mean(0)
    torch.testing.assert_close(chain.average(on_nodes, y), nodes)
    torch.testing.assert_close(orbit_mean(y, chain.orbits()), nodes)
    torch.testing.assert_close(orbit_mean(y, node_orbits(*GRAPHS[name])), nodes)
    edges = torch.stack([pairs[i][:, i] for i in inverses]).mean(0)
    torch.testing.assert_close(orbital_mean(pairs, chain.orbitals()), edges)
    torch.testing.assert_close(orbital_mean(pairs, pair_orbits(*GRAPHS[name])), edges)
    if k == n:
        triples = torch.randn(n, n, n, dtype=torch.float64)
        expected = torch.stack([triples[i][:, i][:, :, i] for i in inverses]).mean(0)
        torch.testing.assert_close(chain.average(on_triples, triples), expected)


def test_the_list_of_small_groups_is_not_empty():
    assert {"petersen", "Q3", "Q4", "shrikhande", "grid", "paley 11", "arrows in a circle"} <= set(SMALL)


def test_average_over_64_factorial():
    chain = StabiliserChain(symmetric(64), 64)
    calls = 0

    def apply(g, y):
        nonlocal calls
        calls += 1
        return on_nodes(g, y)

    y = torch.randn(64, 3, dtype=torch.float64)
    torch.testing.assert_close(chain.average(apply, y), y.mean(0).expand(64, 3))
    assert calls == sum(range(2, 65))


def test_means_in_a_batch_and_their_derivatives():
    graphs = [GRAPHS["petersen"], plain(union(SHAPES["star"]))]
    colours, edges = (torch.stack(t) for t in zip(*graphs, strict=True))
    y = torch.randn(2, 10, 3, dtype=torch.float64, requires_grad=True)
    orbits, pairs = node_orbits(colours, edges), pair_orbits(colours, edges)
    mean = orbit_mean(y, orbits)
    torch.testing.assert_close(mean[0], y[0].mean(0).expand(10, 3))
    torch.testing.assert_close(mean[1, 0], y[1, 0])
    torch.testing.assert_close(mean[1, 1:], y[1, 1:].mean(0).expand(9, 3))
    assert torch.autograd.gradcheck(lambda y: orbit_mean(y, orbits), y)
    z = torch.randn(2, 10, 10, 1, dtype=torch.float64, requires_grad=True)
    averaged = orbital_mean(z, pairs)
    torch.testing.assert_close(orbital_mean(averaged, pairs), averaged)
    assert len(averaged[0].detach().unique()) == 3  # Petersen: node, edge, no edge
    averaged.sum().backward()
    torch.testing.assert_close(z.grad, torch.ones_like(z))
