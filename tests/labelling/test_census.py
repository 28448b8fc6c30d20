"""The numbers of graphs up to isomorphism."""

import pytest
import torch
from torch import Tensor

from graphs import all_graphs, connected, forms, permute_pairs
from minframe.labelling import refine as refine_module


@pytest.fixture(scope="module")
def census() -> list[Tensor]:
    return all_graphs(8)


def test_numbers_of_graphs(census):
    assert [len(level) for level in census] == [1, 2, 4, 11, 34, 156, 1044, 12346]
    assert [int(connected(level).sum()) for level in census] == [1, 1, 2, 6, 21, 112, 853, 11117]


def test_canonical_forms_of_all_graphs_with_8_nodes(census):
    graphs = census[-1]
    expected = forms(graphs)
    p = torch.rand(graphs.shape[:-1]).argsort(-1)
    assert torch.equal(forms(permute_pairs(graphs, p)), expected)


def test_numbers_of_graphs_with_the_other_library():
    pytest.importorskip("pynauty")
    assert [len(level) for level in all_graphs(7, backend="pynauty")] == [1, 2, 4, 11, 34, 156, 1044]


@pytest.mark.parametrize("bits", [(1, 1, 1), (2, 1, 2), (24, 14, 0)])
def test_collisions_do_no_harm(monkeypatch, bits):
    for name, value in zip(("_A_BITS", "_B_BITS", "_KEY_BITS"), bits, strict=True):
        monkeypatch.setattr(refine_module, name, value)
    assert [len(level) for level in all_graphs(7)] == [1, 2, 4, 11, 34, 156, 1044]


def test_numbers_of_directed_graphs():
    # Adjacency matrices with zero diagonal up to isomorphism: 1, 3, 16, 218.
    for n, count in ((1, 1), (2, 3), (3, 16), (4, 218)):
        pairs = (1 - torch.eye(n, dtype=torch.int64)).nonzero()
        codes = torch.arange(2 ** len(pairs)).unsqueeze(-1) >> torch.arange(len(pairs)) & 1
        edges = codes.new_zeros(len(codes), n, n)
        edges[:, pairs[:, 0], pairs[:, 1]] = codes
        assert len(forms(edges).unique(dim=0)) == count
