"""Equal floats: what rounding separates is one class, whatever the scale and wherever decimals break."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minframe.labelling.cluster import cluster, cluster_edges, cluster_rows, combine


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4, 1e-30, 1e30])
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-5), (torch.float64, 1e-11)])
def test_rounding_is_bridged_at_any_scale(scale, dtype, rtol):
    eps = torch.finfo(dtype).eps
    exact = torch.tensor([3.0, -1.0, 0.25, 3.0, 0.0, -1.0, 0.25, 2.0], dtype=dtype)
    noisy = exact + 3 * eps * torch.tensor([0, 1, -1, -1, 0.5, -1, 1, 0], dtype=dtype)
    assert cluster(noisy * scale, rtol).tolist() == [4, 0, 2, 4, 1, 0, 2, 3]


@pytest.mark.parametrize("boundary", [0.05, 0.1, 0.5, 0.15, 1.0, 0.25])
def test_decimal_boundaries_do_not_split(boundary):
    value = torch.tensor(boundary, dtype=torch.float64)
    below, above = value.nextafter(value - 1), value.nextafter(value + 1)
    values = torch.stack([below, value, above, value + 0.3])
    assert cluster(values, 1e-12).tolist() == [0, 0, 0, 1]


def test_exact_equality():
    x = torch.tensor([1.0, 1.0, 1.0 + 2**-23, -0.0, 0.0])
    assert cluster(x, 0.0).tolist() == [1, 1, 2, 0, 0]


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_classes_do_not_depend_on_the_order(values, source):
    x = torch.tensor(values, dtype=torch.float64)
    p = list(range(len(values)))
    source.shuffle(p)
    assert torch.equal(cluster(x[p], 1e-6), cluster(x, 1e-6)[p])
    assert torch.equal(cluster(x * 1024, 1e-6), cluster(x, 1e-6))


def test_batch_is_sample_by_sample():
    x = torch.randint(0, 5, (3, 4, 7)).double() / 7
    expected = torch.stack([torch.stack([cluster(row, 1e-9) for row in rows]) for rows in x])
    assert torch.equal(cluster(x, 1e-9), expected)
    assert torch.equal(expected, cluster(x + 1e-13 * torch.randn_like(x), 1e-9))


@pytest.mark.parametrize("padding", [0.0, 1e30, -1e30, torch.nan, torch.inf, 0.5])
def test_padding_takes_no_part(padding):
    x = torch.tensor([[0.0, 1.0, 0.4, 1.0], [2.0, 2.0, 2.0, 2.0]])
    wide = torch.cat([x, torch.full((2, 2), padding)], -1)[:, [4, 0, 1, 5, 2, 3]]
    mask = torch.tensor([False, True, True, False, True, True]).expand(2, 6)
    found = cluster(wide, 1e-5, mask)
    assert torch.equal(found[:, [1, 2, 4, 5]], cluster(x, 1e-5))
    assert (found[:, [0, 3]] == -1).all()


def test_empty():
    assert cluster(torch.zeros(3, 0), 1e-5).shape == (3, 0)
    assert cluster(torch.zeros(2, 3), 1e-5, torch.zeros(2, 3, dtype=torch.bool)).tolist() == [[-1] * 3] * 2


def test_rows_in_lexicographic_order():
    x = torch.randint(0, 3, (5, 20, 4)).double()
    for rows, classes in zip(x, cluster_rows(x, 1e-9), strict=True):
        distinct = sorted(set(map(tuple, rows.tolist())))
        assert classes.tolist() == [distinct.index(tuple(row)) for row in rows.tolist()]


def test_rows_have_a_scale_per_channel_and_padding():
    x = torch.tensor([[1e6, 1e-6], [1e6, 2e-6], [1e6, 1e-6], [0.0, 0.0]], dtype=torch.float64)
    assert cluster_rows(x, 1e-9).tolist() == [1, 2, 1, 0]
    mask = torch.tensor([True, True, True, False])
    x[3] = torch.nan
    assert cluster_rows(x, 1e-9, mask).tolist() == [0, 1, 0, -1]


def test_combine_many_classes():
    # More channels than fit in one integer if multiplied together.
    x = torch.stack([torch.randperm(200) for _ in range(20)], -1)
    assert torch.equal(combine(x), x[:, 0])


def test_edges_have_zero_for_no_edge():
    w = torch.tensor([[0.0, -2.0, 1.5], [-2.0, 1e-12, 0.5], [1.5, 0.5, 0.0]], dtype=torch.float64)
    colours = cluster_edges(w.unsqueeze(-1), 1e-9)
    assert colours.tolist() == [[0, -1, 2], [-1, 0, 1], [2, 1, 0]]
    padded = torch.full((1, 4, 4, 1), torch.nan, dtype=torch.float64)
    padded[0, :3, :3, 0] = w
    found = cluster_edges(padded, 1e-9, torch.tensor([[True, True, True, False]]))[0]
    assert torch.equal(found[:3, :3], colours)
    assert (found[3] == 0).all()
    assert (found[:, 3] == 0).all()
    two = cluster_edges(torch.stack([w, torch.zeros_like(w)], -1), 1e-9)
    assert torch.equal(two, colours)
