"""Positional encodings: relabelling a graph changes them by exactly nothing."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import minframe as mf
from molecular_graphs import STRONGLY_REGULAR, D, molecule_like, rook, tree


def assert_follows(a: Tensor, nodes: Tensor | None = None, k: int = 8, times: int = 3) -> None:
    for normalized in (True, False):
        plain = mf.spectral.encodings(a, k, nodes, normalized=normalized)
        assert plain.vectors.isfinite().all()
        for seed in range(times):
            p = torch.randperm(len(a), generator=torch.Generator().manual_seed(seed))
            moved = mf.spectral.encodings(a[p][:, p], k, None if nodes is None else nodes[p], normalized=normalized)
            assert torch.equal(moved.vectors, plain.vectors[p])
            assert torch.equal(moved.values, plain.values)


@pytest.mark.slow
def test_molecule_like_graphs() -> None:
    symmetric = 0
    for seed in range(200):
        a, kinds = molecule_like(seed)
        assert_follows(a, kinds, times=1)
        symmetric += mf.S().frame_of(mf.S().cloud([mf.groups.base.Input("a", a, "edge")])).size > 1
    assert symmetric > 50  # the hard ones are among them


def test_trees() -> None:
    for seed in range(100):
        assert_follows(tree(seed), times=1)


@pytest.mark.parametrize("name", STRONGLY_REGULAR)
def test_strongly_regular_graphs(name: str) -> None:
    a = STRONGLY_REGULAR[name]
    assert_follows(a)
    marked = torch.zeros(len(a), dtype=torch.int64)
    marked[2] = 1
    assert_follows(a, marked)
    vectors = mf.spectral.encodings(a, 8, marked).vectors
    assert vectors.abs().amax(0).count_nonzero() >= 3  # a mark breaks the symmetry, and eigenvectors show it


def test_weighted_disconnected_and_tiny_graphs() -> None:
    upper = (torch.rand(12, 12, dtype=D) * (torch.rand(12, 12) < 0.3)).triu(1)
    assert_follows(upper + upper.mT)
    pieces = torch.block_diag(tree(7), tree(9), torch.zeros(2, 2, dtype=D), rook(3))
    assert_follows(pieces)
    assert_follows(torch.zeros(1, 1, dtype=D))
    assert_follows(torch.zeros(4, 4, dtype=D))


def test_vectors_are_eigenvectors_where_nothing_is_averaged() -> None:
    upper = torch.rand(9, 9, dtype=D).triu(1)
    a = upper + upper.mT
    vectors, values = mf.spectral.encodings(a, 9, normalized=False)
    laplacian = torch.diag(a.sum(-1)) - a
    torch.testing.assert_close(laplacian @ vectors, vectors * values, atol=1e-12, rtol=0)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(9, dtype=D), atol=1e-12, rtol=0)


def test_averages_are_those_over_all_automorphisms() -> None:
    a = tree(8)
    a[0, 1] = a[1, 0] = 1
    n = len(a)
    automorphisms = [p for p in itertools.permutations(range(n)) if n < 9 and torch.equal(a[list(p)][:, list(p)], a)]
    star = torch.zeros(5, 5, dtype=D)
    star[0, 1:] = star[1:, 0] = 1
    for graph, group in ((star, [(0, *p) for p in itertools.permutations(range(1, 5))]), (a, automorphisms)):
        vectors = mf.spectral.encodings(graph, 5).vectors
        for p in group:
            assert torch.equal(vectors[list(p)], vectors)
    # Of the star all that is left is what the leaves have in common.
    assert mf.spectral.encodings(star, 5).vectors.abs().amax(0).count_nonzero() == 2


def test_batches_and_masks_change_nothing() -> None:
    graphs = [molecule_like(seed) for seed in range(12)]
    n = max(len(a) for a, _ in graphs)
    edges, kinds = torch.zeros(12, n, n, dtype=D), torch.zeros(12, n, dtype=torch.int64)
    mask = torch.zeros(12, n, dtype=torch.bool)
    for i, (a, kind) in enumerate(graphs):
        edges[i, : len(a), : len(a)], kinds[i, : len(a)], mask[i, : len(a)] = a, kind, True
    vectors, values = mf.spectral.encodings(edges, 6, kinds, mask)
    for i, (a, kind) in enumerate(graphs):
        alone = mf.spectral.encodings(a, 6, kind)
        assert torch.equal(vectors[i, : len(a)], alone.vectors)
        assert torch.equal(values[i], alone.values)
        assert not vectors[i, len(a) :].any()


def test_blocks_of_equal_eigenvalues() -> None:
    values = torch.linalg.eigvalsh(rook(3))
    group = mf.spectral.block_group(values)
    assert group == mf.O(4) + mf.O(4) + mf.O(1)
    v = torch.linalg.eigh(rook(3))[1]
    whole = mf.S() * group
    net = mf.Equivariant(lambda v: torch.tanh(v + 0.1 * torch.arange(9, dtype=D)), whole)
    g = whole.random(n=9, dtype=D)
    torch.testing.assert_close(net(whole.act(g, v)), whole.act(g, net(v)), atol=1e-11, rtol=0)


def test_bad_graphs_are_refused() -> None:
    with pytest.raises(ValueError, match="k must be"):
        mf.spectral.encodings(rook(3), 0)
    with pytest.raises(ValueError, match="negative"):
        mf.spectral.encodings(-rook(3), 2)
    with pytest.raises(ValueError, match=r"symmetric|direct"):
        mf.spectral.encodings(rook(3).triu(), 2)
    with pytest.raises(ValueError, match="edges must be"):
        mf.spectral.encodings(torch.ones(3, 4), 2)
