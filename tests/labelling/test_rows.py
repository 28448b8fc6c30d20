"""Rows of features in C and in PyTorch: the same classes, moves and means, bit by bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.frame.listed import classes as _classes
from minframe.labelling import native, rows
from minframe.labelling.action import take_edges, take_nodes
from minframe.labelling.colours import edge_colours, node_colours
from minframe.labelling.orbits import _mean, orbit_mean
from minframe.labelling.separate import separate_with_margin
from molecular_graphs import STRONGLY_REGULAR, molecule_like

pytestmark = pytest.mark.skipif(native._rows is None, reason="built without a C compiler")

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)


def numbers(dtype: torch.dtype, *shape: int, seed: int = 0, noise: float = 0.0) -> Tensor:
    """Few different numbers, negative ones and both zeros among them; floating-point ones with noise."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randint(-2, 3, shape, generator=random)
    if dtype.is_complex:
        x = torch.complex(x.double(), torch.randint(-1, 2, shape, generator=random).double())
    if not (dtype.is_floating_point or dtype.is_complex):
        return x.to(dtype) if dtype != torch.int64 else x * (1 + (torch.rand(shape, generator=random) < 0.2) * 2**33)
    sign = torch.where(torch.rand(shape, generator=random) < 0.5, -1.0, 1.0)
    wiggle = noise * torch.randn(shape, generator=random, dtype=torch.float64)
    return (0.37 * x * sign + wiggle).to(dtype)


def padding(b: int, n: int) -> Tensor:
    mask = torch.rand(b, n, generator=torch.Generator().manual_seed(b)) < 0.7
    mask[:, 0] = True
    return mask


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels", [(), (1,), (3,), (2, 2), (0,)])
def test_classes_of_nodes(dtype: torch.dtype, channels: tuple[int, ...]) -> None:
    x = numbers(dtype, 5, 14, *channels, noise=1e-6)
    for mask in (None, padding(5, 14)):
        for rtol in (0.0, 1e-5, None):
            found = rows.node_classes([x], rtol, mask)
            assert found is not None
            assert torch.equal(found, node_colours([x], rtol, mask))
    both = [x, numbers(torch.int32, 5, 14, 2, seed=3)]
    found = rows.node_classes(both, 0.0, None)
    assert found is not None
    assert torch.equal(found, node_colours(both, 0.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("exponent", range(1, 17, 2))
def test_nearly_equal_features(dtype: torch.dtype, exponent: int) -> None:
    """Values in groups with noise of every size: both cut at the same gaps, on either side of the tolerance."""
    x = numbers(dtype, 40, 23, 2, seed=exponent, noise=10.0**-exponent)
    batch = torch.arange(40).repeat_interleave(23)[torch.randperm(920, generator=torch.Generator().manual_seed(1))]
    for rtol in (0.0, 10.0 ** (-exponent - 1), 10.0**-exponent, 3 * 10.0**-exponent, None):
        found = rows.node_classes([x], rtol, None)
        assert found is not None
        assert torch.equal(found, node_colours([x], rtol))
        listed = rows.listed_classes([x.flatten(0, 1)], batch, 40, rtol)
        assert listed is not None
        if rtol is not None:
            assert torch.equal(listed, _classes([x.flatten(0, 1)], batch, rtol))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels", [(), (1,), (2,), (0,)])
def test_colours_of_edges(dtype: torch.dtype, channels: tuple[int, ...]) -> None:
    x = numbers(dtype, 6, 7, 7, *channels, noise=1e-6)
    x = torch.where(torch.rand(x.shape[:3]).view(6, 7, 7, *(1,) * len(channels)) < 0.6, torch.zeros_like(x), x)
    other = numbers(torch.float32, 6, 7, 7, 2, seed=9)
    for mask in (None, padding(6, 7)):
        for rtol in (0.0, 1e-5):
            for edges in ([x], [x, other], [(10 * x).round() if x.is_floating_point() else x]):
                found = rows.pair_colours(edges, rtol, mask)
                assert found is not None
                assert torch.equal(found, edge_colours(edges, rtol, mask))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_numbers_that_cannot_be_ordered_are_left_to_the_checks(bad: float) -> None:
    x, edges = torch.zeros(2, 5, 3), torch.zeros(2, 5, 5)
    x[1, 4, 2] = edges[1, 4, 2] = bad
    assert rows.node_classes([x], 0.0, None) is None
    assert rows.pair_colours([edges], 0.0, None) is None
    assert rows.listed_classes([x.flatten(0, 1)], None, 1, 0.0) is None
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[1, 4] = False
    assert rows.node_classes([x], 0.0, mask) is not None
    assert rows.pair_colours([edges], 0.0, mask) is not None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_moves(dtype: torch.dtype) -> None:
    order = torch.rand(4, 9, generator=torch.Generator().manual_seed(0)).argsort(-1)
    for channels in ((), (3,)):
        for axes, reference in ((1, take_nodes), (2, take_edges)):
            x = numbers(dtype, 4, *(9,) * axes, *channels)
            found = rows.take(x, order, axes)
            assert found is not None
            assert torch.equal(found, reference(x, order))
            mask = padding(4, 9)
            real = mask if axes == 1 else mask.unsqueeze(-1) & mask.unsqueeze(-2)
            x_clean = torch.where(real.view(*real.shape, *(1,) * len(channels)), x, torch.zeros_like(x))
            found = rows.take(x, order, axes, mask)
            assert found is not None
            assert torch.equal(found, reference(x_clean, order))
    zeros = rows.take(torch.full((4, 9), -0.0), order, positive=True)
    assert zeros is not None
    assert not zeros.signbit().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_means_and_their_derivatives(dtype: torch.dtype) -> None:
    y = torch.randn(3, 8, 5, dtype=dtype)
    orbits = torch.randint(0, 8, (3, 8))
    found = rows.mean(y, orbits)
    assert found is not None
    assert torch.equal(found, _mean(y, orbits))
    if dtype == torch.float64:
        torch.autograd.gradcheck(lambda y: orbit_mean(y, orbits), y.requires_grad_())
        torch.autograd.gradgradcheck(lambda y: orbit_mean(y, orbits).pow(3), y)


def test_a_mean_inside_transforms() -> None:
    y, orbits = torch.randn(4, 6, 2, dtype=torch.float64), torch.tensor([0, 0, 2, 2, 2, 5])
    expected = torch.stack([_mean(part, orbits) for part in y])
    assert torch.equal(torch.func.vmap(lambda part: orbit_mean(part, orbits))(y), expected)
    gradient = torch.func.grad(lambda y: orbit_mean(y, orbits.expand(4, 6)).pow(2).sum())(y)
    torch.testing.assert_close(gradient, 2 * expected)
    _, tangent = torch.func.jvp(lambda y: orbit_mean(y, orbits.expand(4, 6)), (y,), (y,))
    torch.testing.assert_close(tangent, expected)


def test_batch_vectors_and_lists() -> None:
    assert rows.count_samples(torch.tensor([0, 0, 1, 2, 2])) == 3
    assert rows.count_samples(torch.tensor([2, 0, 1, 0])) == 3
    assert rows.count_samples(torch.tensor([], dtype=torch.int64)) == 0
    for bad in ([0, 2, 2], [-1, 0], [0, 5], [1, 1]):
        assert rows.count_samples(torch.tensor(bad)) == -1
    index, batch = torch.tensor([[0, 1, 2], [1, 0, 2]]), torch.tensor([0, 0, 1])
    assert rows.joins_nodes(index, 3, batch)
    assert not rows.joins_nodes(index, 2, None)
    assert not rows.joins_nodes(-index, 3, None)
    assert not rows.joins_nodes(torch.tensor([[0], [2]]), 3, batch)


def graphs() -> list[tuple[Tensor, Tensor]]:
    """Molecules and graphs with much symmetry, of mixed sizes."""
    found = [molecule_like(seed) for seed in range(20)]
    found += [(a, torch.zeros(len(a), dtype=torch.int64)) for a in STRONGLY_REGULAR.values()]
    copies = torch.block_diag(*(STRONGLY_REGULAR["Shrikhande"], STRONGLY_REGULAR["rook 4x4"]))
    return [*found, (copies, torch.zeros(len(copies), dtype=torch.int64)), (torch.zeros(3, 3), torch.zeros(3).long())]


def outputs(relabel: int | None = None) -> list[Tensor]:
    """Canonical inputs, and node outputs carried back, of all graphs dense with a mask and listed."""
    items = graphs()
    if relabel is not None:
        moved = [torch.randperm(len(k), generator=torch.Generator().manual_seed(relabel)) for _, k in items]
        items = [(a[p][:, p], k[p]) for p, (a, k) in zip(moved, items, strict=True)]
    n = max(len(k) for _, k in items)
    a, x = torch.zeros(len(items), n, n), torch.zeros(len(items), n, 4)
    mask = torch.zeros(len(items), n, dtype=torch.bool)
    for i, (weights, kinds) in enumerate(items):
        a[i, : len(kinds), : len(kinds)] = weights.float()
        x[i, : len(kinds)] = torch.nn.functional.one_hot(kinds, 4).float()
        mask[i, : len(kinds)] = True
    shown: list[Tensor] = []

    def dense(a: Tensor, x: Tensor) -> Tensor:
        shown.extend([a, x])
        return (a.cumsum(-1) @ x).cumsum(1)

    def listed(edge_index: Tensor, edge_attr: Tensor, x: Tensor) -> Tensor:
        shown.extend([edge_index, edge_attr, x])
        return x.cumsum(0).index_add(0, edge_index[1], edge_attr.cumsum(0).unsqueeze(-1) * x[edge_index[0]])

    model = mf.Equivariant(dense, mf.S(), {"a": "edge", "x": "node"}, "node", mask="mask")
    node_outputs = [model(a, x, mask=mask)[mask]]
    index, batch = torch.block_diag(*(w for w, _ in items)).nonzero().T, mask.nonzero()[:, 0]
    weights = torch.cat([w[w != 0] for w, _ in items]).float()
    model = mf.Equivariant(
        listed, mf.S(), {"edge_index": "edge_index", "edge_attr": "edge_attr", "x": "node"}, "node", batch="batch"
    )
    node_outputs.append(model(index, weights, x[mask], batch=batch))
    if relabel is None:
        return [*shown, *node_outputs]
    sizes = [len(k) for _, k in items]
    back = [torch.cat([part[p.argsort()] for part, p in zip(y.split(sizes), moved, strict=True)]) for y in node_outputs]
    return [*shown, *back]


def test_whole_calls_with_and_without_c() -> None:
    compiled = outputs()
    with native.disabled():
        slow = outputs()
    assert all(torch.equal(x, y) for x, y in zip(compiled, slow, strict=True))


def test_whole_calls_ignore_labels() -> None:
    assert all(torch.equal(x, y) for x, y in zip(outputs(), outputs(relabel=5), strict=True))


@pytest.mark.parametrize("n", [1, 2, 7, 33, 64])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_cells_are_cut_at_the_same_gaps(n: int, k: int) -> None:
    """With ties, gaps about the tolerance and cells to begin with."""
    values = numbers(torch.float64, 40, n, k, seed=n, noise=1e-3)
    tolerance = torch.rand(40, 1, dtype=torch.float64) * 2e-3
    cells = torch.zeros(40, n, dtype=torch.int64)
    cells[::3, 2:] = 2
    found = rows.separated(values, cells, tolerance)
    assert found is not None
    with native.disabled():
        assert rows.separated(values, cells, tolerance) is None
        for one, other in zip(found, separate_with_margin(values, cells, tolerance), strict=True):
            assert torch.equal(one, other)
