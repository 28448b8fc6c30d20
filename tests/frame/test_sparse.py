"""S() on graphs whose edges are listed: the same as on matrices, in time and memory that grow with the edges."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import minframe as mf
from graphs import GRAPHS, SHAPES, complete, cycle, petersen
from minframe.cloud import Input

S = mf.S()
TYPES = {"edge_index": "edge_index", "edge_attr": "edge_attr", "h": "node"}


def net(edge_index: Tensor, edge_attr: Tensor | None = None, h: Tensor | None = None) -> dict[str, Tensor]:
    """A backbone that treats every position differently."""
    n = len(h) if h is not None else int(edge_index.max()) + 1
    e = edge_index.shape[1]
    weight = (
        torch.ones(e, 1, dtype=torch.float64)
        if edge_attr is None
        else edge_attr.double().unsqueeze(-1).flatten(1).sum(-1, True)
    )
    state = torch.cos(torch.arange(n, dtype=torch.float64)).unsqueeze(-1)
    if h is not None:
        state = state * (1 + h.double().flatten(1).sum(-1, True))
    message = torch.tanh(weight * state[edge_index[0]] + torch.sin(torch.arange(e, dtype=torch.float64)).unsqueeze(-1))
    node = state + torch.zeros_like(state).index_add(0, edge_index[1], message)
    return {"node": node, "edge_attr": message, "scalar": node.sum()}


OUTPUTS = {"node": "node", "edge_attr": "edge_attr", "scalar": "scalar"}


def listed(edges: Tensor) -> tuple[Tensor, Tensor]:
    """``edge_index`` and ``edge_attr`` of a matrix."""
    index = edges.nonzero().T
    return index, edges[index[0], index[1]].double()


def shuffled(index: Tensor, attr: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Other numbers of the nodes and another order of the list, and both."""
    g, order = torch.randperm(len(h)), torch.randperm(index.shape[1])
    moved = torch.empty_like(h)
    moved[g] = h
    return g[index][:, order], attr[order], moved, g, order


def frame_of(index: Tensor, attr: Tensor | None = None, h: Tensor | None = None, batch: Tensor | None = None, group=S):
    inputs = [Input("edge_index", index, "edge_index")]
    if attr is not None:
        inputs.append(Input("edge_attr", attr, "edge_attr"))
    if h is not None:
        inputs.append(Input("h", h, "node"))
    return group.frame_of(group.cloud(inputs, None, batch))


@pytest.mark.parametrize("name", list(GRAPHS))
def test_named_graphs(name: str) -> None:
    colours, edges = GRAPHS[name]
    index, attr = listed(edges)
    h = colours.double().unsqueeze(-1)
    model = mf.Equivariant(net, S, TYPES, OUTPUTS)
    plain = model(index, attr, h)
    frame = frame_of(index, attr, h)
    form = [frame.to_canonical(x, type) for x, type in ((index, "edge_index"), (attr, "edge_attr"), (h, "node"))]
    for _ in range(5 if len(h) > 40 else 20):
        *moved, g, order = shuffled(index, attr, h)
        other = frame_of(*moved)
        for x, type, expected in zip(moved, TYPES.values(), form, strict=True):
            assert torch.equal(other.to_canonical(x, type), expected)
        out = model(*moved)
        assert torch.equal(out["scalar"], plain["scalar"])
        torch.testing.assert_close(out["node"][g], plain["node"], rtol=1e-14, atol=1e-14)
        torch.testing.assert_close(out["edge_attr"], plain["edge_attr"][order], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", [name for name, (h, _) in GRAPHS.items() if 1 < len(h) <= 64])
def test_the_same_symmetry_as_of_matrices(name: str) -> None:
    colours, edges = GRAPHS[name]
    index, attr = listed(edges)
    h, n = colours.double().unsqueeze(-1), len(colours)
    sparse = frame_of(index, attr, h)
    dense = S.frame_of(S.cloud([Input("a", edges.double(), "edge"), Input("h", h, "node")]))
    assert sparse.size == dense.size
    assert torch.equal(sparse.rank.flatten(), dense.rank.flatten())
    # What a symmetric average leaves of numbers that are given in the order of the nodes
    node, edge = torch.randn(n, 2, dtype=torch.float64), torch.randn(n, n, dtype=torch.float64)
    listed_ = edge[index[0], index[1]]
    expected = dense.from_canonical(dense.to_canonical(node, "node"), "node")
    torch.testing.assert_close(sparse.from_canonical(sparse.to_canonical(node, "node"), "node"), expected)
    expected = dense.from_canonical(dense.to_canonical(edge, "edge"), "edge")[index[0], index[1]]
    found = sparse.from_canonical(sparse.to_canonical(listed_, "edge_attr"), "edge_attr")
    torch.testing.assert_close(found, expected)


def test_without_weights_or_features() -> None:
    index, _ = listed(petersen())
    frame = frame_of(index)
    assert frame.size == 120
    form = frame.to_canonical(index, "edge_index")
    model = mf.Equivariant(net, S, {"edge_index": "edge_index"}, OUTPUTS)
    for _ in range(50):
        g = torch.randperm(10)
        moved = g[index][:, torch.randperm(30)]
        assert torch.equal(frame_of(moved).to_canonical(moved, "edge_index"), form)
        assert torch.equal(model(moved)["scalar"], model(index)["scalar"])
    assert mf.testing.equivariance_error(model, S, index, elements=50) <= 1e-14


def test_there_and_back() -> None:
    colours, edges = GRAPHS["weighted Q3"]
    index, attr = listed(edges)
    frame = frame_of(index, attr, colours.unsqueeze(-1))
    for x, type in ((index, "edge_index"), (attr, "edge_attr"), (colours.unsqueeze(-1).double(), "node")):
        torch.testing.assert_close(frame.from_canonical(frame.to_canonical(x, type), type), x)


def together(graphs: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sizes = torch.tensor([len(h) for _, _, h in graphs])
    first = sizes.cumsum(0) - sizes
    index = torch.cat([i + f for (i, _, _), f in zip(graphs, first, strict=True)], 1)
    attr, h = (torch.cat([graph[k] for graph in graphs]) for k in (1, 2))
    return index, attr, h, torch.repeat_interleave(torch.arange(len(graphs)), sizes)


def several() -> list[tuple[Tensor, Tensor, Tensor]]:
    names = ("petersen", "weighted Q3", "directed Q4", "one node", "star", "empty", "petersen", "arrows in a circle")
    return [(*listed(GRAPHS[name][1]), GRAPHS[name][0].double().unsqueeze(-1)) for name in names]


def test_batch_vectors() -> None:
    index, attr, h, batch = together(several())
    model = mf.Equivariant(
        lambda edge_index, edge_attr, h: net(edge_index, edge_attr, h), S, TYPES, OUTPUTS, batch="batch"
    )
    plain = model(index, attr, h, batch=batch)
    alone = [frame_of(*graph) for graph in several()]
    frame = frame_of(index, attr, h, batch)
    assert frame.size == [f.size for f in alone]
    form = frame.to_canonical(index, "edge_index")
    first = 0
    for graph, own in zip(several(), alone, strict=True):
        n = len(graph[2])
        mine = ((form >= first) & (form < first + n)).all(0)
        assert torch.equal(form[:, mine] - first, own.to_canonical(graph[0], "edge_index"))
        first += n
    for _ in range(20):  # the nodes of all graphs come in any order
        *moved, g, order = shuffled(index, attr, h)
        there = torch.empty_like(batch)
        there[g] = batch
        out = model(*moved, batch=there)
        assert torch.equal(out["scalar"], plain["scalar"])
        torch.testing.assert_close(out["node"][g], plain["node"], rtol=1e-14, atol=1e-14)
        torch.testing.assert_close(out["edge_attr"], plain["edge_attr"][order], rtol=1e-14, atol=1e-14)


class Net(torch.nn.Module):
    def forward(self, edge_index: Tensor, edge_attr: Tensor, h: Tensor, batch: Tensor | None = None) -> Any:
        return net(edge_index, edge_attr, h)


def test_compiled_and_exported() -> None:
    graphs = several()
    model = mf.Equivariant(Net(), S, TYPES, OUTPUTS, batch="batch")
    for kwargs, *args in ({}, *together(graphs)[:3]), ({"batch": together(graphs)[3]}, *together(graphs)[:3]):
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        exported = torch.export.export(model, tuple(args), kwargs).module()
        for _ in range(2):
            expected = model(*args, **kwargs)
            for found in (compiled(*args, **kwargs), exported(*args, **kwargs)):
                for name, y in expected.items():
                    torch.testing.assert_close(found[name], y, rtol=1e-14, atol=1e-14)
            args = [args[0], args[1].flip(0), args[2]]  # other weights of the same edges


def test_sums_are_added_up_in_one_order() -> None:
    index, attr, h, batch = together(several())
    model = mf.Equivariant(Net(), S, TYPES, OUTPUTS, batch="batch")
    plain = model(index, attr, h, batch=batch)
    for _ in range(20):
        *moved, g, order = shuffled(index, attr, h)
        out = model(*moved, batch=torch.empty_like(batch).index_copy(0, g, batch))
        assert torch.equal(out["node"][g], plain["node"])
        assert torch.equal(out["edge_attr"], plain["edge_attr"][order])


@pytest.mark.parametrize("what", ["nodes", "edges"])
def test_other_graphs_of_a_batch_bridge_no_gap(what: str) -> None:
    # With a tolerance, numbers are compared within a graph: another one between them makes no difference.
    group = mf.S(rtol=1e-6)
    pairs = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    apart = torch.tensor([1.0, 1.0, 1 - 1.6e-6, 1 - 1.6e-6], dtype=torch.float64)
    between = torch.tensor([1.0, 1.0, 1 - 0.8e-6, 1 - 0.8e-6], dtype=torch.float64)
    index, batch = torch.cat([pairs, pairs + 4], 1), torch.arange(8) // 4
    both = torch.cat([apart, between])
    if what == "nodes":
        alone, size = (
            frame_of(pairs, None, apart.unsqueeze(-1), group=group).size,
            frame_of(index, None, both.unsqueeze(-1), batch, group).size,
        )
    else:
        alone, size = frame_of(pairs, apart, group=group).size, frame_of(index, both, None, batch, group).size
    assert alone == 4
    assert size == [4, 8]


def test_the_largest_number_is_that_of_the_graph() -> None:
    group = mf.S(rtol=1e-6)
    pairs = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    h = torch.tensor([1.0, 1.0, 1.1, 1.1, 1e9, 1e9, 1e9, 1e9], dtype=torch.float64).unsqueeze(-1)
    index, batch = torch.cat([pairs, pairs + 4], 1), torch.arange(8) // 4
    assert frame_of(index, None, h, batch, group).size == [4, 8]
    assert frame_of(index, h.flatten(), None, batch, group).size == [4, 8]


def test_gradients() -> None:
    colours, edges = GRAPHS["weighted petersen"]
    index, attr = listed(edges)
    scale = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    h = torch.randn(10, 2, dtype=torch.float64, requires_grad=True)
    model = mf.Equivariant(net, S, TYPES, OUTPUTS, frame_on=("edge_index", "edge_attr"))
    assert len(colours) == 10
    assert torch.autograd.gradcheck(lambda s, h: tuple(model(index, attr * s, h).values()), (scale, h))


def test_a_large_graph() -> None:
    generator = torch.Generator().manual_seed(0)
    n, e = 10_000, 50_000
    index = torch.unique(torch.randint(0, n, (2, e), generator=generator), dim=1)
    model = mf.Equivariant(net, S, {"edge_index": "edge_index", "h": "node"}, OUTPUTS)
    h = torch.zeros(n, 1)
    plain = model(index, h=h)
    g = torch.randperm(n, generator=generator)
    out = model(g[index][:, torch.randperm(index.shape[1])], h=h)
    assert torch.equal(out["scalar"], plain["scalar"])
    torch.testing.assert_close(out["node"][g], plain["node"], rtol=1e-13, atol=1e-13)


def test_a_large_tree_with_a_large_symmetry() -> None:
    # 1,000 stars of five leaves at one root: 1000! 120^1000 automorphisms.
    hubs = torch.arange(1, 1001)
    leaves = torch.arange(1001, 6001)
    one = torch.cat([torch.stack([torch.zeros_like(hubs), hubs]), torch.stack([hubs.repeat_interleave(5), leaves])], 1)
    index = torch.cat([one, one.flip(0)], 1)
    model = mf.Equivariant(net, S, {"edge_index": "edge_index"}, OUTPUTS)
    out = model(index)
    for part in (hubs, leaves):
        assert float(out["node"][part].std()) <= 1e-13
    g = torch.randperm(6001)
    torch.testing.assert_close(model(g[index])["node"][g], out["node"], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: frame_of(torch.tensor([[0, 0], [1, 1]])), "more than once"),
        (lambda: frame_of(torch.tensor([[0, -1], [1, 1]])), "edge_index"),
        (lambda: frame_of(torch.tensor([[0, 9], [1, 1]]), None, torch.zeros(4, 1)), "edge_index"),
        (lambda: frame_of(torch.tensor([[0.0, 1.0], [1, 0]])), "integer"),
        (lambda: frame_of(torch.tensor([[0, 1, 2]])), r"\(2, E\)"),
        (lambda: frame_of(torch.tensor([[0, 1], [1, 0]]), torch.zeros(3)), "edge_attr"),
        (lambda: frame_of(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, torch.nan])), "NaN|nan|finite|infinit"),
        (lambda: frame_of(torch.tensor([[0, 1], [1, 0]]), None, None, torch.tensor([0, 1])), "different graphs"),
        (lambda: frame_of(torch.tensor([[0], [1]]), group=mf.S(directed=False)), "undirected"),
        (
            lambda: frame_of(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0]), group=mf.S(directed=False)),
            "undirected",
        ),
        (lambda: S.frame(torch.zeros(4), "edge_attr"), "edge_index"),
    ],
)
def test_bad_input(call, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_symmetric_lists_are_undirected() -> None:
    index, attr = listed(petersen())
    assert frame_of(index, attr, group=mf.S(directed=False)).size == 120
    index, attr = listed(complete(30))
    assert frame_of(index, attr).size == math.factorial(30)
    assert frame_of(listed(SHAPES["C100"])[0]).size == 2 * len(cycle(100))


def ring(n: int) -> Tensor:
    return cycle(n).nonzero().T


@pytest.mark.parametrize("on", ["nodes", "edges"])
def test_the_margin_is_rounding_at_a_jump(on: str) -> None:
    index = ring(6)
    generator = torch.Generator().manual_seed(0)
    count = 6 if on == "nodes" else index.shape[1]
    start, end = (torch.rand(count, dtype=torch.float64, generator=generator) for _ in range(2))

    def at(t: float) -> tuple[Tensor, Any]:
        values = (1 - t) * start + t * end
        frame = frame_of(index, None, values) if on == "nodes" else frame_of(index, values)
        return frame.order, frame

    low, high = 0.0, 1.0
    assert not torch.equal(at(low)[0], at(high)[0])
    assert at(low)[1].margin > 1e-4
    while high - low > 1e-15:
        middle = (low + high) / 2
        low, high = (middle, high) if torch.equal(at(middle)[0], at(low)[0]) else (low, middle)
        if middle in (low, high) and high - low < 1e-14:
            break
    assert at(low)[1].margin < 1e-13
    assert at(high)[1].margin < 1e-13


def test_the_margin_of_listed_graphs() -> None:
    index, nodes = ring(5), torch.tensor([1.0, 2.0, 2.0, 4.0, 3.9])
    assert frame_of(index).margin == torch.inf  # nothing that could flip
    assert frame_of(index, None, torch.ones(5)).margin == torch.inf
    assert torch.isclose(frame_of(index, None, nodes).margin, torch.tensor(0.025, dtype=torch.float64), atol=1e-6)
    assert torch.equal(frame_of(index, None, nodes).margin, mf.S().frame(nodes.unsqueeze(-1)).margin)
    g = torch.tensor([3, 0, 4, 1, 2])
    assert torch.equal(frame_of(g[index], None, nodes[g.argsort()]).margin, frame_of(index, None, nodes).margin)
    both = torch.cat([index, index + 5], 1)
    batch = torch.arange(2).repeat_interleave(5)
    margins = frame_of(both, None, torch.cat([nodes, 10 * nodes.round()]), batch=batch).margin
    assert torch.allclose(margins, torch.tensor([0.025, 0.25], dtype=torch.float64), atol=1e-6)


def test_the_margin_knows_the_tolerance() -> None:
    """Numbers are the same up to ``rtol``, so that is where a frame jumps."""
    index, group = ring(5), mf.S(rtol=0.1)
    given = [Input("edge_index", index, "edge_index"), Input("nodes", torch.tensor([1.0, 1.11, 0.5, 0.5, 0.5]), "node")]
    assert abs(float(group.frame_of(group.cloud(given)).margin) - abs(0.11 / 1.11 - 0.1)) < 1e-6
