"""Labelling in C and in PyTorch: one canonical form, the same cells, the same orbits."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from minframe.labelling import native
from minframe.labelling.label import Labelling, label_sparse, labelling
from molecular_graphs import STRONGLY_REGULAR, molecule_like, tree

pytestmark = pytest.mark.skipif(native._graphs is None, reason="built without a C compiler")


def form(order: Tensor, colours: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    at = order.unsqueeze(-1).expand(edges.shape)
    return colours.gather(-1, order), edges.gather(-2, at).gather(-1, order.unsqueeze(-2).expand(edges.shape))


def agree(colours: Tensor, edges: Tensor, mask: Tensor | None = None) -> Labelling:
    compiled = labelling(colours, edges, mask)
    orbits = compiled.orbits
    with native.disabled():
        slow = labelling(colours, edges, mask)
        assert torch.equal(orbits, slow.orbits)
    assert torch.equal(compiled.colours, slow.colours)
    for mine, theirs in zip(form(compiled.order, colours, edges), form(slow.order, colours, edges), strict=True):
        assert torch.equal(mine, theirs)
    assert compiled.trivial == slow.trivial
    return compiled


def cycles(*lengths: int) -> Tensor:
    blocks = [torch.eye(n, dtype=torch.int64).roll(1, 0) for n in lengths]
    a = torch.block_diag(*blocks)
    return ((a + a.mT) > 0).long()


SYMMETRIC = {
    "complete": torch.ones(9, 9, dtype=torch.int64),
    "empty": torch.zeros(7, 7, dtype=torch.int64),
    "cycle": cycles(8),
    "cycles": cycles(5, 3, 5, 4),
    "directed cycle": torch.eye(6, dtype=torch.int64).roll(1, 0),
    "loops": cycles(6) + torch.diag(torch.tensor([0, 3, 0, 3, 0, 3])),
    "bipartite": torch.block_diag(torch.ones(3, 3), torch.ones(4, 4)).long().logical_not().long(),
    "coloured": cycles(8) * (1 + torch.arange(64).view(8, 8) % 2 * torch.arange(64).view(8, 8).mT % 2),
    **{name: a.long() for name, a in STRONGLY_REGULAR.items()},
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_graphs(name: str) -> None:
    a = SYMMETRIC[name]
    moved = [torch.randperm(len(a), generator=torch.Generator().manual_seed(s)) for s in range(4)]
    agree(torch.zeros(4, len(a), dtype=torch.int64), torch.stack([a[p][:, p] for p in moved]))


@pytest.mark.parametrize("n", [1, 2, 5, 8, 17])
@pytest.mark.parametrize("density", [0.1, 0.3, 0.9])
def test_random_graphs(n: int, density: float) -> None:
    random = torch.Generator().manual_seed(n)
    edges = torch.randint(-2, 4, (60, n, n), generator=random) * (torch.rand(60, n, n, generator=random) < density)
    edges[::2] = (edges[::2] + edges[::2].mT) // 2
    colours = torch.randint(-1, 2, (60, n), generator=random)
    agree(colours, edges)
    mask = torch.rand(60, n, generator=random) < 0.8
    mask[:, 0] = True
    agree(colours, edges, mask)


def test_all_graphs_of_five_nodes() -> None:
    pairs = list(itertools.combinations(range(5), 2))
    edges = torch.zeros(2 ** len(pairs), 5, 5, dtype=torch.int64)
    for k, (i, j) in enumerate(pairs):
        edges[:, i, j] = edges[:, j, i] = torch.arange(len(edges)) >> k & 1
    found = agree(torch.zeros(len(edges), 5, dtype=torch.int64), edges)
    assert len(torch.unique(form(found.order, found.colours, edges)[1], dim=0)) == 34


def test_molecules_and_trees_dense_and_listed() -> None:
    graphs = [molecule_like(seed) for seed in range(60)] + [
        (tree(s), torch.zeros(2 + s % 24).long()) for s in range(60)
    ]
    for a, kinds in graphs:
        a, p = a.long(), torch.randperm(len(a), generator=torch.Generator().manual_seed(len(a)))
        pair = torch.stack([a, a[p][:, p]])
        found = agree(torch.stack([kinds, kinds[p]]), pair)
        forms = form(found.order, torch.stack([kinds, kinds[p]]), pair)[1]
        assert torch.equal(*forms)
    sizes = torch.tensor([len(k) for _, k in graphs])
    batch = torch.arange(len(graphs)).repeat_interleave(sizes)
    whole = torch.block_diag(*(a for a, _ in graphs)).long()
    index, kinds = whole.nonzero().T, torch.cat([k for _, k in graphs])
    shuffled = torch.randperm(len(kinds), generator=torch.Generator().manual_seed(0))
    for p in (torch.arange(len(kinds)), shuffled):
        back = p.argsort()
        arguments = kinds[p], back[index], whole[index[0], index[1]], batch[p]
        found = label_sparse(*arguments)
        orbits = found.orbits
        with native.disabled():
            slow = label_sparse(*arguments)
            assert torch.equal(orbits, slow.orbits)
        moved = whole[p][:, p]
        assert torch.equal(moved[found.order][:, found.order], moved[slow.order][:, slow.order])


def test_an_edge_listed_twice_is_refused() -> None:
    index = torch.tensor([[0, 1, 0], [1, 0, 1]])
    with pytest.raises(ValueError, match="more than once"):
        label_sparse(torch.zeros(2, dtype=torch.int64), index)
