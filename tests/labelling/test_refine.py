"""Colour refinement: equitable, invariant, the same for dense and sparse graphs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphs import GRAPHS, SHAPES, cfi, complete, plain, relabel
from minframe.labelling.arcs import Arcs, components
from minframe.labelling.cluster import cluster_edges
from minframe.labelling.refine import is_discrete, refine, refine_sparse


def reference(colours, edges):
    """Colour refinement with signatures spelled out; cells as a set of sets."""
    n = len(colours)
    now = [(int(colours[i]), int(edges[i, i])) for i in range(n)]
    while True:
        seen = [
            (now[i], sorted((int(edges[i, j]), int(edges[j, i]), now[j]) for j in range(n) if j != i)) for i in range(n)
        ]
        distinct = [list(t) for t in sorted({(k, tuple(s)) for k, s in seen})]
        new = [distinct.index([k, tuple(s)]) for k, s in seen]
        if len(set(new)) == len(set(now)):
            return {frozenset(i for i in range(n) if new[i] == c) for c in new}
        now = [(c, 0) for c in new]


def cells(colours):
    return {frozenset((colours == c).nonzero().flatten().tolist()) for c in colours}


@pytest.mark.parametrize("name", [name for name, (c, _) in GRAPHS.items() if len(c) <= 40])
def test_partition_is_the_coarsest_equitable_one(name):
    assert cells(refine(*GRAPHS[name])) == reference(*GRAPHS[name])


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 2**31))
def test_random_graphs(n, kinds, seed):
    source = torch.Generator().manual_seed(seed)
    colours = torch.randint(-1, 1, (n,), generator=source)
    edges = torch.randint(-1, kinds, (n, n), generator=source)
    if seed % 2:
        edges = edges.triu() + edges.triu(1).mT
    found = refine(colours, edges)
    assert cells(found) == reference(colours, edges)
    p = torch.randperm(n, generator=source)
    assert torch.equal(refine(colours[p], edges[p][:, p]), found[p])
    # colours count the nodes in front, and refine those given
    assert torch.equal(found, (found.unsqueeze(0) < found.unsqueeze(1)).sum(-1))
    assert (colours[found.argsort()].diff() >= 0).all()


@pytest.mark.parametrize("name", GRAPHS)
def test_invariant_bit_by_bit(name):
    expected = refine(*GRAPHS[name])
    for _ in range(5):
        p = torch.randperm(len(expected))
        assert torch.equal(refine(*relabel(GRAPHS[name], p)), expected[p])


def test_batch_and_padding_make_no_difference():
    graphs = [GRAPHS[name] for name in ("petersen", "weighted grid", "directed Q4", "one node", "weighted Q3")]
    n = max(len(c) for c, _ in graphs) + 3
    colours = torch.randint(0, 9, (len(graphs), n))
    edges = torch.randint(0, 9, (len(graphs), n, n))
    mask = torch.zeros(len(graphs), n, dtype=torch.bool)
    for k, (c, e) in enumerate(graphs):
        place = torch.randperm(n)[: len(c)]
        colours[k, place], mask[k, place] = c, True
        edges[k, place.unsqueeze(1), place] = e
    found = refine(colours, edges, mask)
    for k, (c, e) in enumerate(graphs):
        real = mask[k]
        order = colours[k][real], edges[k][real][:, real]
        assert torch.equal(found[k][real], refine(*order))
        assert (found[k][~real] == len(c)).all()
        assert bool(is_discrete(found, mask)[k]) == bool(is_discrete(refine(c, e)))


@pytest.mark.parametrize("name", GRAPHS)
def test_sparse_is_dense(name):
    colours, edges = GRAPHS[name]
    loops = edges.diagonal()
    off = edges - torch.diag(loops)
    index = off.nonzero().T
    arcs, none = Arcs.of_sparse(index, off[index[0], index[1]], len(colours))
    assert not none.any()
    both = colours * 100 + loops
    assert torch.equal(refine_sparse(both, arcs), refine(colours, edges))
    stopped = refine_sparse(both, arcs, rounds=1)
    p = torch.randperm(len(colours))
    q = p.argsort()
    arcs, _ = Arcs.of_sparse(q[index], off[index[0], index[1]], len(colours))
    assert torch.equal(refine_sparse(both[p], arcs, rounds=1), stopped[p])


def test_sparse_batch_in_any_order():
    shapes = [SHAPES["petersen"], SHAPES["grid"], SHAPES["union"], SHAPES["one node"]]
    whole = torch.block_diag(*shapes)
    batch = torch.arange(len(shapes)).repeat_interleave(torch.tensor([len(s) for s in shapes]))
    p = torch.randperm(len(whole))
    arcs, _ = Arcs.of_sparse(whole[p][:, p].nonzero().T, None, len(whole))
    found = refine_sparse(torch.zeros(len(whole), dtype=torch.int64), arcs, batch[p])
    assert torch.equal(found, torch.cat([refine(*plain(s)) for s in shapes])[p])


def test_generic_clouds_are_separated_at_once():
    x = torch.randn(64, 20, 3, dtype=torch.float64)
    gram = cluster_edges((x @ x.mT).unsqueeze(-1), 1e-11)
    zero = gram.new_zeros(gram.shape[:-1])
    assert is_discrete(refine(zero, gram)).all()
    gram.diagonal(dim1=-2, dim2=-1).zero_()  # and without the norms
    assert is_discrete(refine(zero, gram)).all()


def test_most_graphs_are_separated():
    edges = (torch.rand(50, 64, 64) < 0.3).triu(1).long()
    assert is_discrete(refine(edges.new_zeros(50, 64), edges + edges.mT)).float().mean() > 0.9


def test_cannot_tell_cfi_pairs_apart():
    # This is what makes them a test of the labelling.
    first, second = (refine(*plain(cfi(complete(4), twists))) for twists in (0, 1))
    assert torch.equal(first.sort()[0], second.sort()[0])


def test_no_nodes_no_samples():
    assert refine(torch.zeros(3, 0, dtype=torch.int64), torch.zeros(3, 0, 0, dtype=torch.int64)).shape == (3, 0)
    assert refine(torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 3, 3, dtype=torch.int64)).shape == (0, 3)


def test_duplicate_edges_are_refused():
    with pytest.raises(ValueError, match="more than once"):
        Arcs.of_sparse(torch.tensor([[0, 0], [1, 1]]), None, 2)
    with pytest.raises(ValueError, match="more than once"):
        Arcs.of_sparse(torch.tensor([[1, 1], [1, 1]]), None, 2)


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 2**31))
def test_components(n, edges, seed):
    source = torch.Generator().manual_seed(seed)
    i, j = torch.randint(0, n, (2, edges), generator=source)
    parent = list(range(n))
    for a, b in zip(i.tolist(), j.tolist(), strict=True):
        low, high = sorted((parent[a], parent[b]))
        parent = [low if p == high else p for p in parent]
    assert components(i, j, n).tolist() == parent
