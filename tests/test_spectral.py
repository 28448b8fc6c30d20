"""Positional encodings: relabelling a graph changes them by exactly nothing."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import minframe as mf

D = torch.float64
VALENCE = (4, 3, 2, 1)  # of carbon, nitrogen, oxygen and hydrogen or a halogen


def molecule_like(seed: int) -> tuple[Tensor, Tensor]:
    """A random graph with the valences, rings and repeated branches of molecules: weights are bond orders."""
    random = torch.Generator().manual_seed(seed)

    def draw(n: int) -> int:
        return int(torch.randint(n, (1,), generator=random))

    kinds, bonds = [0], {}
    left = [4]

    def add(kind: int, to: int, order: int = 1) -> int:
        kinds.append(kind)
        left.append(VALENCE[kind] - order)
        left[to] -= order
        bonds[to, len(kinds) - 1] = order
        return len(kinds) - 1

    for _ in range(4 + draw(9)):
        open_ = [i for i, free in enumerate(left) if free > 0]
        if not open_:
            break
        to = open_[draw(len(open_))]
        if draw(4) == 0 and left[to] >= 1:  # a ring of five or six
            ring = [add(0, to)]
            for _ in range(4 + draw(2)):
                ring.append(add(0 if draw(6) else 1, ring[-1]))
            if left[ring[-1]] > 0 and left[ring[0]] > 0:
                bonds[ring[0], ring[-1]] = 1
                left[ring[0]] -= 1
                left[ring[-1]] -= 1
        else:
            copies = 1 + (draw(3) == 0)  # twins, as of methyl groups, make automorphisms
            kind = draw(4)
            for _ in range(min(copies, left[to])):
                add(kind, to)
    a = torch.zeros(len(kinds), len(kinds), dtype=D)
    for (i, j), order in bonds.items():
        a[i, j] = a[j, i] = order
    return a, torch.tensor(kinds)


def tree(seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    n = 2 + seed % 24
    a = torch.zeros(n, n, dtype=D)
    for i in range(1, n):
        j = int(torch.randint(i, (1,), generator=random))
        a[i, j] = a[j, i] = 1
    return a


def rook(m: int) -> Tensor:
    cells = list(itertools.product(range(m), repeat=2))
    return torch.tensor([[float(a != b and (a[0] == b[0] or a[1] == b[1])) for b in cells] for a in cells], dtype=D)


def cayley(m: int, steps: set[tuple[int, int]]) -> Tensor:
    """Pairs of numbers modulo ``m``, neighbours if they differ by a step."""
    cells = list(itertools.product(range(m), repeat=2))
    return torch.tensor(
        [[float(((a[0] - b[0]) % m, (a[1] - b[1]) % m) in steps) for b in cells] for a in cells], dtype=D
    )


def paley(q: int) -> Tensor:
    squares = {x * x % q for x in range(1, q)}
    return torch.tensor([[float((a - b) % q in squares) for b in range(q)] for a in range(q)], dtype=D)


SHRIKHANDE = cayley(4, {(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)})
STRONGLY_REGULAR = {"rook 4x4": rook(4), "Shrikhande": SHRIKHANDE, "Paley 13": paley(13), "Paley 17": paley(17), "rook 5x5": rook(5)}  # fmt: skip


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
