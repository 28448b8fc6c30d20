"""The number of automorphisms, exact at any size, without building the group."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minframe as mf
from graphs import GRAPHS, cycle, petersen, union
from group_order import group_order
from minframe.labelling import chain

pytest.importorskip("igraph")


@pytest.fixture
def no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a chain of stabilisers is built: its time grows steeply."""

    def build(*_: object) -> None:
        raise AssertionError("a chain of stabilisers was built")

    monkeypatch.setattr(chain.StabiliserChain, "__init__", build)


def bipartite(a: int, b: int) -> Tensor:
    """All edges between ``a`` nodes and ``b`` others."""
    edges = torch.zeros(a + b, a + b, dtype=torch.int64)
    edges[:a, a:] = edges[a:, :a] = 1
    return edges


def tree(n: int, branches: int) -> Tensor:
    """The edges ``(2, E)`` of a tree whose levels are full but for the last."""
    child = torch.arange(1, n)
    parent = (child - 1) // branches
    return torch.stack([torch.cat([child, parent]), torch.cat([parent, child])])


def tree_order(n: int, branches: int) -> int:
    """The number of its automorphisms: at every node, exchanges of subtrees that are alike."""
    size, order = [1] * n, [1] * n
    for node in reversed(range(n)):
        below = list(range(branches * node + 1, min(branches * node + 1 + branches, n)))
        size[node] += sum(size[k] for k in below)
        alike = {s: [size[k] for k in below].count(s) for s in {size[k] for k in below}}  # levels are full: size tells
        order[node] = math.prod(order[k] for k in below) * math.prod(map(math.factorial, alike.values()))
    return order[0]


def rook(m: int) -> Tensor:
    """The fields of a chess board, joined where a rook moves."""
    row, column = torch.arange(m * m) // m, torch.arange(m * m) % m
    return ((row[:, None] == row) ^ (column[:, None] == column)).long()


LARGE = {
    "K(100, 100)": (bipartite(100, 100), 2 * math.factorial(100) ** 2),
    "K(200, 200)": (bipartite(200, 200), 2 * math.factorial(200) ** 2),
    "K(30, 50)": (bipartite(30, 50), math.factorial(30) * math.factorial(50)),
    "eight K(9, 9)": (union(*[bipartite(9, 9)] * 8), (2 * math.factorial(9) ** 2) ** 8 * math.factorial(8)),
    "rook's graph": (rook(9), 2 * math.factorial(9) ** 2),
    "hundred rings": (union(*[cycle(5)] * 100), 10**100 * math.factorial(100)),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_groups(name: str, no_chain: None) -> None:
    edges, order = LARGE[name]
    g = mf.S().random(n=len(edges), generator=torch.Generator().manual_seed(0))
    edges = mf.S().act(g, edges, "edge")
    assert mf.graph.automorphism_group(edges).order == order
    assert mf.S().frame(edges, "edge").size == order
    assert mf.S().frame(edges.nonzero().T, "edge_index").size == order


@pytest.mark.parametrize(("n", "branches"), [(255, 2), (200, 2), (364, 3), (10_000, 2), (10_000, 3), (10_000, 9_999)])
@pytest.mark.parametrize("shuffled", [False, True])
def test_trees(n: int, branches: int, shuffled: bool, no_chain: None) -> None:
    edges = tree(n, branches)
    if shuffled:
        edges = torch.randperm(n, generator=torch.Generator().manual_seed(0))[edges]
    order = tree_order(n, branches)
    assert mf.S().frame(edges, "edge_index").size == order
    if n < 1000:
        dense = torch.zeros(n, n, dtype=torch.int64)
        dense[edges[0], edges[1]] = 1
        assert mf.graph.automorphism_group(dense).order == order


def test_full_binary_tree() -> None:
    assert tree_order(255, 2) == 2**127


@pytest.mark.parametrize("name", GRAPHS)
def test_named_graphs_count_as_their_generators_do(name: str) -> None:
    colours, edges = GRAPHS[name]
    group = mf.graph.automorphism_group(edges, colours.unsqueeze(-1))
    assert group.order == group_order(group.generators)


def by_hand(colours: Tensor, edges: Tensor) -> int:
    """All permutations, tried."""
    n = len(colours)
    every = (torch.tensor(p, dtype=torch.int64) for p in itertools.permutations(range(n)))
    return sum(torch.equal(colours[p], colours) and torch.equal(edges[p][:, p], edges) for p in every)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.booleans(), st.integers(1, 3), st.integers(1, 2))
def test_small_graphs_by_hand(seed: int, n: int, directed: bool, kinds: int, shades: int) -> None:
    source = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, kinds + 1, (4, n, n), generator=source)
    edges = edges if directed else torch.maximum(edges, edges.mT)
    colours = torch.randint(0, shades, (4, n), generator=source)
    expected = [by_hand(c, e) for c, e in zip(colours, edges, strict=True)]
    groups = mf.graph.automorphism_group(edges, colours)
    assert [group.order for group in groups] == expected
    padded = torch.nn.functional.pad(edges, (0, 2, 0, 2), value=1)
    mask = torch.arange(n + 2).expand(4, -1) < n
    group = mf.S()
    inputs = [("edges", padded, "edge"), ("nodes", torch.nn.functional.pad(colours, (0, 2)), "node")]
    cloud = group.cloud([mf.groups.base.Input(*i) for i in inputs], mask)
    assert group.frame_of(cloud).size == expected


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 4))
def test_copies_of_small_graphs(seed: int, n: int, copies: int) -> None:
    """Below a root, and with their own nodes below them again."""
    source = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, 2, (n, n), generator=source)
    edges = torch.maximum(edges, edges.mT)
    root = torch.nn.functional.pad(union(*[edges] * copies), (1, 0, 1, 0), value=1)
    root[0, 0] = 0
    twice = torch.nn.functional.pad(union(root, root), (1, 0, 1, 0), value=2)
    group = mf.graph.automorphism_group(twice)
    assert group.order == group_order(group.generators)
    index = twice.nonzero().T
    listed = mf.S().cloud(
        [
            mf.groups.base.Input("edge_index", index, "edge_index"),
            mf.groups.base.Input("edge_attr", twice[index[0], index[1]], "edge_attr"),
        ]
    )
    assert mf.S().frame_of(listed).size == group.order


def test_sizes_that_python_does_not_print() -> None:
    """Beyond 4,300 digits."""
    frame = mf.S().frame(tree(5000, 4999), "edge_index")
    assert repr(frame).startswith("Frame(group=S(), rank=2, size=8.4")
    assert repr(mf.S().frame(torch.stack([petersen(), cycle(10)]), "edge")).endswith("size=[120, 20])")
