"""S() on rows and on graphs: whatever order the nodes come in makes no difference, bit by bit."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import minframe as mf
from backbones import deviation, ramp
from backbones import lopsided_graph as lopsided
from graphs import (
    GRAPHS,
    SHAPES,
    all_graphs,
    bipartite,
    cfi,
    complete,
    connected,
    cycle,
    directed,
    hypercube,
    petersen,
    rook,
    shrikhande,
    union,
    weighted,
)
from minframe.labelling.action import inverse, take_edges, take_nodes

S = mf.S()
by_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
OUTPUTS = {"scalar": "scalar", "node": "node", "edge": "edge"}


def check_graph(
    a: Tensor,
    h: Tensor | None = None,
    batches: int = 10,
    count: int = 100,
    outputs: int | None = None,
    group: mf.Group = S,
) -> None:
    """Inputs that differ by one of ``batches * count`` permutations lead to the same, permuted.

    Outputs of nodes and edges, which need the whole symmetry, are compared for ``outputs`` of each batch.
    """
    n = a.shape[-1]
    inputs = {"a": "edge"} | ({} if h is None else {"h": "node"})
    args = (a,) if h is None else (a, h)
    seen: list[tuple[Tensor, ...]] = []

    def watched(a: Tensor, h: Tensor | None = None) -> Tensor:
        seen.append((a,) if h is None else (a, h))
        return lopsided(a, h)["scalar"]

    invariant, model = mf.Invariant(watched, group, inputs), mf.Equivariant(lopsided, group, inputs, OUTPUTS)
    plain = model(*args)
    assert torch.equal(invariant(*args), plain["scalar"])
    for _ in range(batches):
        g = group.random(count, n=n)
        moved = [group.act(g, x.expand(count, *x.shape), inputs[k]) for k, x in zip(inputs, args, strict=True)]
        assert torch.equal(invariant(*moved), plain["scalar"].expand(count))
        for x, y in zip(seen[0], seen.pop(), strict=True):
            assert torch.equal(y, x.expand_as(y)), "the backbone is shown another graph"
        g, moved = g[:outputs], [x[:outputs] for x in moved]
        out = model(*moved)
        assert torch.equal(out["scalar"], plain["scalar"].expand(len(g)))
        for kind in ("node", "edge"):
            expected = group.act(g, plain[kind].expand(len(g), *plain[kind].shape), kind)
            assert torch.equal(out[kind], expected), kind


# Graphs by name


@pytest.mark.parametrize("name", list(SHAPES))
@by_dtype
def test_named_graphs(name: str, dtype: torch.dtype) -> None:
    a = SHAPES[name].to(dtype)
    outputs = 100 if len(a) <= 20 else 2 if name == "K32,32" else 8
    check_graph(a, batches=10 if dtype == torch.float64 else 1, outputs=outputs)


@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in SHAPES])
def test_weighted_and_directed_graphs_with_loops_and_node_features(name: str) -> None:
    colours, edges = GRAPHS[name]
    check_graph(
        edges.double() / 7, torch.stack([colours.double() / 3, colours.double() - 0.5], -1), batches=1, outputs=20
    )


@pytest.mark.slow
def test_random_graphs_of_128_nodes() -> None:
    generator = torch.Generator().manual_seed(1)
    upper = (torch.rand(128, 128, generator=generator) < 0.1).double().triu(1)
    check_graph(upper + upper.mT, outputs=20)
    weights = torch.randn(128, 128, generator=generator).mul(upper).float()
    check_graph(weights + weights.mT, batches=1)
    check_graph((torch.rand(128, 128, generator=generator) < 0.3).double(), batches=1)  # arrows and loops


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64], ids=str)
def test_adjacency_of_integers_and_booleans(dtype: torch.dtype) -> None:
    for name in ("petersen", "union", "one node"):
        check_graph(SHAPES[name].to(dtype), batches=1)
    edges = weighted(petersen())[1]
    check_graph((edges * 50 - 27 * (edges == 2)).to(dtype), batches=1)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_the_ends_of_the_range_of_integers_are_different_numbers(dtype: torch.dtype) -> None:
    ends = torch.iinfo(dtype)
    rows = torch.tensor([[ends.min], [ends.max]], dtype=dtype)
    assert S.frame(rows, "node").size == 1
    channels = torch.zeros(3, 3, 2, dtype=dtype)
    channels[0, 1], channels[1, 2], channels[2, 0] = ends.min, ends.max, ends.min
    assert S.frame(channels, "edge").size == 1
    for x, type in ((rows, "node"), (channels, "edge")):
        form = S.frame(x, type).to_canonical(x, type)
        for _ in range(10):
            y = S.act(torch.randperm(len(x)), x, type)
            assert torch.equal(S.frame(y, type).to_canonical(y, type), form)


def test_channels_of_edges() -> None:
    generator = torch.Generator().manual_seed(2)
    for name in ("petersen", "Q4", "union", "rook"):
        a = SHAPES[name].double()
        kinds = torch.stack([a, a * torch.randint(1, 3, a.shape, generator=generator), a.mT.tril()], -1)

        def net(x: Tensor) -> tuple[Tensor, Tensor]:
            w = ramp(x.shape[-2], x.dtype)
            edge = torch.tanh(x * w.unsqueeze(-1)) + x.flip(-1) * w[:, None, None]
            return edge, edge.sum(-2)

        model = mf.Equivariant(net, S, "edge", ("edge", "node"))
        for x in (kinds, torch.stack([a, 2 * a], -1)):  # without and with symmetry
            edge, node = model(x)
            g = S.random(100, n=len(a), generator=generator)
            out = model(S.act(g, x.expand(100, *x.shape), "edge"))
            assert deviation(out[0], S.act(g, edge.expand(100, *edge.shape), "edge")) <= 1e-14
            assert deviation(out[1], S.act(g, node.expand(100, *node.shape), "node")) <= 1e-14


def test_complex_weights() -> None:
    a = petersen() * torch.complex(torch.ones(10, 10), torch.arange(10.0).outer(torch.arange(10.0)).sin())
    form = S.frame(a, "edge").to_canonical(a, "edge")
    g = S.random(100, n=10)
    moved = S.act(g, a.expand(100, 10, 10), "edge")
    frame = S.frame(moved, "edge")
    assert torch.equal(frame.to_canonical(moved, "edge"), form.expand(100, 10, 10))


def test_several_matrices_and_features_determine_one_frame() -> None:
    a, b = petersen().double(), torch.diag(torch.arange(10.0).double() % 3)
    h, k = torch.arange(10.0).fmod(4).unsqueeze(-1), torch.arange(20.0).view(10, 2).fmod(7)

    def net(a: Tensor, b: Tensor, h: Tensor, k: Tensor) -> Tensor:
        return lopsided(a + 2 * b, torch.cat([h, k], -1))["node"]

    inputs = {"a": "edge", "b": "edge", "h": "node", "k": "node"}
    assert mf.testing.equivariance_error(mf.Equivariant(net, S, inputs, "node"), S, a, b, h, k, elements=50) <= 1e-14


# All graphs


@pytest.fixture(scope="module")
def census() -> list[Tensor]:
    return all_graphs(8)


@pytest.mark.slow
@by_dtype
def test_all_connected_graphs_with_8_nodes(census: list[Tensor], dtype: torch.dtype) -> None:
    graphs = census[-1][connected(census[-1])].to(dtype)
    assert len(graphs) == 11117
    form = S.frame(graphs, "edge").to_canonical(graphs, "edge")
    assert len(form.unique(dim=0)) == 11117
    model = mf.Equivariant(lopsided, S, "edge", OUTPUTS)
    plain = model(graphs)
    for _ in range(3):
        g = S.random(11117, n=8)
        moved = S.act(g, graphs, "edge")
        assert torch.equal(S.frame(moved, "edge").to_canonical(moved, "edge"), form)
        out = model(moved)
        assert torch.equal(out["scalar"], plain["scalar"])
        for kind in ("node", "edge"):
            assert torch.equal(out[kind], S.act(g, plain[kind], kind))


def test_numbers_of_graphs_and_sizes_of_their_groups(census: list[Tensor]) -> None:
    # Every one of the n! / |Aut| labelled graphs of a class is one of the 2^(n (n - 1) / 2) matrices.
    for n, count in enumerate([1, 2, 4, 11, 34, 156, 1044], 1):
        i, j = torch.triu_indices(n, n, 1)
        if n <= 6:
            codes = torch.arange(2 ** len(i)).unsqueeze(-1) >> torch.arange(len(i)) & 1
            matrices = torch.zeros(len(codes), n, n)
            matrices[:, i, j] = matrices[:, j, i] = codes.float()
        else:
            g = S.random(2, len(census[n - 1]), n=n)
            matrices = S.act(g, census[n - 1].float().expand(2, -1, n, n), "edge").flatten(0, 1)
        forms = S.frame(matrices, "edge").to_canonical(matrices, "edge").flatten(1).unique(dim=0)
        assert len(forms) == count
        sizes = S.frame(forms.view(-1, n, n), "edge").size
        assert sum(math.factorial(n) // size for size in sizes) == 2 ** len(i)


@pytest.mark.parametrize(
    ("graph", "order"),
    [
        (petersen(), 120),
        *((hypercube(d), 2**d * math.factorial(d)) for d in range(1, 7)),
        (complete(64), math.factorial(64)),
        (bipartite(32, 32), 2 * math.factorial(32) ** 2),
        (cycle(100), 200),
        (SHAPES["grid"], 8),
        (shrikhande(), 192),
        (rook(), 1152),
        (SHAPES["empty"], math.factorial(12)),
        (SHAPES["one node"], 1),
        (union(petersen(), petersen(), cycle(3)), 120**2 * 2 * 6),
        (cycle(12).triu().clamp(max=1) - cycle(12).triu(2) + cycle(12).tril(-2), 12),
    ],
)
def test_sizes_are_exact_integers(graph: Tensor, order: int) -> None:
    size = S.frame(graph.float(), "edge").size
    assert size == order
    assert isinstance(size, int)


@pytest.mark.parametrize(
    ("a", "b"),
    [(shrikhande(), rook()), (cfi(complete(4), 0), cfi(complete(4), 1)), (cycle(6), union(cycle(3), cycle(3)))],
)
def test_graphs_that_look_alike_are_told_apart(a: Tensor, b: Tensor) -> None:
    pair = torch.stack([a, b]).double()
    forms = S.frame(pair, "edge").to_canonical(pair, "edge")
    assert not torch.equal(*forms)
    out = mf.Equivariant(lopsided, S, "edge", OUTPUTS)(pair)["scalar"]
    assert out[0] != out[1]


# Averages


def count_calls(backbone: Callable[..., object]) -> tuple[Callable[..., object], list[int]]:
    calls: list[int] = []

    def counting(a: Tensor) -> object:
        calls.append(len(a))
        return backbone(a)

    return counting, calls


@pytest.mark.parametrize("name", ["K64", "K32,32", "Q6"])
def test_one_forward_pass_whatever_the_symmetry(name: str) -> None:
    counting, calls = count_calls(lopsided)
    out = mf.Equivariant(counting, S, "edge", OUTPUTS)(SHAPES[name].double())
    assert calls == [64]
    assert out["node"].unique().numel() >= 1
    spread = out["node"].amax() - out["node"].amin()
    assert spread <= 1e-14 * out["node"].abs().max()  # nodes that can be exchanged have equal outputs


SMALL = [
    "petersen",
    "Q3",
    "Q4",
    "shrikhande",
    "C100",
    "grid",
    "star 4",
    "paths",
    "directed Q3",
    "weighted Q4",
    "arrows in a circle",
]


@pytest.mark.parametrize("name", SMALL)
def test_the_average_is_that_over_all_automorphisms(name: str) -> None:
    extra = {"star 4": bipartite(1, 4), "paths": union(complete(2), complete(2), complete(2))}
    colours, edges = (torch.zeros(len(extra[name])), extra[name]) if name in extra else GRAPHS[name]
    h, a = colours.double().unsqueeze(-1), edges.double()
    group = mf.graph.automorphism_group(a, h)
    assert 1 <= group.order <= 1000
    elements = torch.stack(list(group.elements()))
    assert len(elements.unique(dim=0)) == group.order
    cloud = S.cloud([mf.groups.base.Input("a", a, "edge"), mf.groups.base.Input("h", h, "node")])
    frame = S.frame_of(cloud)
    assert frame.size == group.order
    n = len(a)
    node, edge = torch.randn(n, 2, dtype=torch.float64), torch.randn(n, n, 2, dtype=torch.float64)
    for y, kind in ((node, "node"), (edge, "edge"), (edge[..., 0], "edge")):
        first = S.act(frame.element, y, kind)  # one element of the frame; the others follow it
        every = S.act(elements, first.expand(len(elements), *first.shape), kind)
        torch.testing.assert_close(frame.from_canonical(y, kind), every.mean(0), rtol=1e-13, atol=1e-13)


def test_inputs_that_do_not_determine_the_frame_are_shown_averaged() -> None:
    a, h = hypercube(3).double(), torch.randn(8, 2, dtype=torch.float64)
    shown: list[Tensor] = []
    model = mf.Equivariant(
        lambda a, h: shown.append(h) or lopsided(a, h)["node"], S, {"a": "edge", "h": "node"}, "node", frame_on="a"
    )
    assert mf.testing.equivariance_error(model, S, a, h, elements=20) <= 1e-14
    torch.testing.assert_close(shown[0], h.mean(0).expand(8, 2))


# Rows


@by_dtype
def test_rows_are_sorted_and_equal_ones_averaged(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    generic = torch.randn(30, 4, generator=generator).to(dtype)
    clouds = {
        "generic": generic,
        "repeated": torch.cat([generic, generic[:7], generic[:3]]),
        "all equal": generic[:1].expand(12, 4),
        "integers": torch.randint(0, 2, (40, 3), generator=generator).to(dtype),
        "signed zeros": torch.tensor([[0.0, 1], [-0.0, 1], [0.0, -0.0], [-0.0, 0.0]], dtype=dtype),
        "tiny and huge": torch.tensor([[1e-40, 1e38], [0, 1e38], [1e-40, -1e38], [0, 0]], dtype=dtype),
        "neighbours": 1 + torch.finfo(dtype).eps * torch.arange(8, dtype=dtype).unsqueeze(-1),
        "one row": generic[:1],
    }

    def net(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        w = ramp(x.shape[-2], x.dtype)
        node = torch.atan(x) * w.unsqueeze(-1) + w.unsqueeze(-1)
        return node, torch.atan(x[..., 0]).unsqueeze(-1) * w + w.unsqueeze(-1), node.sum((-1, -2))

    model = mf.Equivariant(net, S, "node", ("node", "edge", "scalar"))
    for name, x in clouds.items():
        node, edge, scalar = model(x)
        form = S.frame(x, "node").to_canonical(x, "node")
        assert form.tolist() == sorted(x.tolist()), name
        g = S.random(1000, n=len(x), generator=generator)
        moved = S.act(g, x.expand(1000, *x.shape), "node")
        frame = S.frame(moved, "node")
        assert torch.equal(frame.to_canonical(moved, "node"), form.expand_as(moved)), name
        out = model(moved)
        assert torch.equal(out[2], scalar.expand(1000)), name
        assert torch.equal(out[0], S.act(g, node.expand(1000, *node.shape), "node")), name
        assert torch.equal(out[1], S.act(g, edge.expand(1000, *edge.shape), "edge")), name


def test_sizes_of_frames_of_rows() -> None:
    x = torch.tensor([[1.0, 2], [1, 2], [3, 4], [1, 2], [3, 4], [5, 6]])
    assert S.frame(x, "node").size == 12
    assert S.frame(x).size == 12  # points are rows to it
    assert S.frame(torch.stack([x, torch.zeros_like(x)]), "node").size == [12, 720]
    assert S.frame(x.expand(2, 3, 6, 2), "node").size == [[12] * 3] * 2
    assert S.frame(torch.zeros(64, 1), "node").size == math.factorial(64)
    assert S.frame(x, "node").rank == 3


def test_rows_without_symmetry_and_with_it_in_one_batch() -> None:
    x = torch.randn(3, 5, 2, dtype=torch.float64)
    x[1] = 1.0
    x[2, 3] = x[2, 1]
    model = mf.Equivariant(lambda x: x * ramp(5, x.dtype).unsqueeze(-1), S, "node", "node")
    separate = torch.stack([model(sample) for sample in x])
    torch.testing.assert_close(model(x), separate, rtol=1e-15, atol=1e-15)


# Masks and batch vectors


def test_padding_makes_no_difference_whatever_it_is() -> None:
    generator = torch.Generator().manual_seed(4)
    graphs = [petersen(), cycle(7), complete(5), torch.zeros(3, 3), torch.zeros(1, 1), directed(cycle(8))[1]]
    n = 12
    model = mf.Equivariant(lopsided_masked, S, {"a": "edge", "h": "node"}, OUTPUTS, mask="mask")
    for junk in (0.0, 7.0, torch.nan, torch.inf):
        a, h = torch.full((len(graphs), n, n), junk).double(), torch.full((len(graphs), n, 1), junk).double()
        mask = torch.zeros(len(graphs), n, dtype=torch.bool)
        for k, graph in enumerate(graphs):
            m = len(graph)
            a[k, :m, :m], h[k, :m, 0], mask[k, :m] = graph.double(), torch.arange(m).double() % 2, True
        plain = model(a, h, mask=mask)
        if junk == 0.0:
            reference = plain
        assert torch.equal(plain["scalar"], reference["scalar"])
        for _ in range(20):
            g = S.random(len(graphs), n=n, generator=generator)
            out = model(S.act(g, a, "edge"), S.act(g, h, "node"), mask=take_nodes(mask, inverse(g)))
            assert torch.equal(out["scalar"], plain["scalar"])
            back = inverse(g)
            node, edge = take_nodes(out["node"], g), take_edges(out["edge"], g)
            assert back.shape == g.shape
            pairs = mask.unsqueeze(-1) & mask.unsqueeze(-2)
            assert (node - plain["node"])[mask].abs().max() <= 1e-13
            assert (edge - plain["edge"])[pairs].abs().max() <= 1e-13
        assert plain["node"][mask].isfinite().all()
        assert S.frame(a, "edge", mask=mask).size == [120, 14, 120, 6, 1, S.frame(graphs[-1].double(), "edge").size]


def lopsided_masked(a: Tensor, h: Tensor, mask: Tensor) -> dict[str, Tensor]:
    assert bool((mask.long().diff(dim=-1) <= 0).all()), "padding comes last"
    assert a.isfinite().all()
    assert bool((a == a * (mask.unsqueeze(-1) & mask.unsqueeze(-2))).all()), "padding is shown as zero"
    return lopsided(a, h)


def test_masked_samples_are_those_without_padding() -> None:
    a = torch.zeros(2, 9, 9).double()
    a[0, :5, :5], a[1, 2:9, 2:9] = cycle(5).double(), cycle(7).double()
    mask = torch.tensor([[True] * 5 + [False] * 4, [False] * 2 + [True] * 7])
    out = mf.Equivariant(lopsided, S, "edge", "node", mask="mask")
    # Only what a node sees through zeros: the same as the graph alone, but for the positions that do not exist.
    node = mf.Equivariant(lambda a: lopsided(a)["node"], S, "edge", "node", mask="mask")(a, mask=mask)
    for k, n in ((0, 5), (1, 7)):
        alone = mf.Equivariant(lambda a: lopsided(a)["node"], S, "edge", "node")(cycle(n).double())
        torch.testing.assert_close(node[k][mask[k]], alone, rtol=1e-14, atol=1e-14)
    assert out.mask == "mask"


def test_batch_vectors_of_rows() -> None:
    generator = torch.Generator().manual_seed(5)
    x = torch.randint(0, 3, (40, 2), generator=generator).double()
    batch = torch.randint(0, 6, (40,), generator=generator)  # in no order
    batch[:6] = torch.arange(6)

    def net(x: Tensor, batch: Tensor) -> Tensor:
        assert bool((batch.diff() >= 0).all())
        return torch.cat([x * ramp(len(x), x.dtype).unsqueeze(-1), batch.unsqueeze(-1).to(x.dtype)], -1)

    model = mf.Equivariant(net, S, "node", "node", batch="batch")
    plain = model(x, batch=batch)
    assert torch.equal(plain[:, 2], batch.double())
    for _ in range(100):
        g = torch.randperm(40, generator=generator)
        out = model(S.act(g, x, "node"), batch=S.act(g, batch, "node"))
        torch.testing.assert_close(out, S.act(g, plain, "node"), rtol=1e-14, atol=1e-14)
    sizes = [S.frame(x[batch == k], "node").size for k in range(6)]
    assert S.frame(x, "node", batch=batch).size == sizes


# Citizens of PyTorch


class Net(nn.Module):
    """On graphs of one size: every entry has weights of its own."""

    def __init__(self, n: int = 10) -> None:
        super().__init__()
        self.node = nn.Linear(n * n, n)
        self.edge = nn.Linear(n * n, n * n)

    def forward(self, a: Tensor) -> tuple[Tensor, Tensor]:
        flat = a.flatten(-2)
        return self.node(flat).unsqueeze(-1), torch.tanh(self.edge(flat)).view(a.shape)


def examples() -> Tensor:
    asymmetric = torch.randn(10, 10)
    graphs = [petersen(), cycle(10), complete(10), union(cycle(4), cycle(6)), weighted(petersen())[1]]
    return torch.stack([*(g.float() for g in graphs), asymmetric])


def test_compiled_graphs() -> None:
    model = mf.Equivariant(Net(), S, "edge", ("node", "edge"))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = examples()
    for _ in range(2):
        for a, b in zip(compiled(x), model(x), strict=True):
            torch.testing.assert_close(a, b)
        x = S.act(S.random(len(x), n=10), x, "edge")


@pytest.mark.slow
def test_compiled_rows() -> None:
    model = mf.Equivariant(lambda x: (x.cumsum(-2), x.cumsum(-2).sum(-2)), S, "node", ("node", "scalar"))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for x in (torch.randn(4, 9, 2), torch.randint(0, 2, (4, 9, 2)).float()):
        for a, b in zip(compiled(x), model(x), strict=True):
            torch.testing.assert_close(a, b)


def test_exported() -> None:
    model = mf.Equivariant(Net(), S, "edge", ("node", "edge"))
    x = examples()
    program = torch.export.export(model, (x,))
    for y in (x, x.flip(0)):
        for a, b in zip(program.module()(y), model(y), strict=True):
            torch.testing.assert_close(a, b)
    rows = mf.Equivariant(lambda x: x.cumsum(-2), S, "node", "node")
    x = torch.randint(0, 2, (4, 9, 2)).float()
    torch.testing.assert_close(torch.export.export(rows, (x,)).module()(x), rows(x))


def test_exported_for_batches_of_any_size() -> None:
    model = mf.Equivariant(Net(), S, "edge", ("node", "edge"))
    x = examples()
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
    for y in (x, torch.cat([x, x.flip(0)])):
        for a, b in zip(program.module()(y), model(y), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["petersen", "weighted", "generic"])
def test_gradients(name: str) -> None:
    graphs = {
        "petersen": petersen().double(),
        "weighted": weighted(petersen())[1].double(),
        "generic": torch.randn(10, 10).double(),
    }
    a = graphs[name]
    scale = torch.tensor([1.3], dtype=torch.float64, requires_grad=True)  # keeps the symmetry
    h = torch.randn(10, 2, dtype=torch.float64, requires_grad=True)
    model = mf.Equivariant(lopsided, S, {"a": "edge", "h": "node"}, OUTPUTS, frame_on="a")

    def outputs(scale: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return tuple(model(a * scale, h).values())

    assert torch.autograd.gradcheck(outputs, (scale, h))
    assert torch.autograd.gradgradcheck(outputs, (scale, h))


def test_gradients_are_equivariant_too() -> None:
    a = weighted(hypercube(3))[1].double()
    g = S.random(n=8)
    model = mf.Equivariant(lambda a: lopsided(a)["scalar"], S, "edge", "scalar")
    x, y = a.clone().requires_grad_(), S.act(g, a, "edge").requires_grad_()
    (dx,), (dy,) = (torch.autograd.grad(model(z).sum(), z) for z in (x, y))
    assert dx.isfinite().all()
    # The gradient at a symmetric input is one of several, unless it is averaged; its mean over the symmetry is unique.
    mean, other = (S.frame(z.detach(), "edge").pose(d, "edge") for z, d in ((x, dx), (y, dy)))
    assert torch.equal(
        S.frame(a, "edge").to_canonical(a, "edge"), S.frame(y.detach(), "edge").to_canonical(y.detach(), "edge")
    )
    torch.testing.assert_close(other, mean)


def test_copies_and_pickles() -> None:
    model = mf.Equivariant(Net(), S, "edge", ("node", "edge"))
    x = examples()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for a, b in zip(other(x), model(x), strict=True):
            assert torch.equal(a, b)
        assert other.group == S
    assert mf.S() == S
    assert hash(S) == hash(mf.S())
    assert repr(S) == "S()"
    assert repr(mf.S(rtol=1e-6, directed=False)) == "S(rtol=1e-06, directed=False)"
    assert mf.S(rtol=1e-6) != S


def test_checkpoints_name_the_labelling_library() -> None:
    model = nn.Sequential(mf.Equivariant(Net(), S, "edge", ("node", "edge")))
    state = model.state_dict()
    name = bytes(state["0.labelling"].tolist()).decode()
    assert name.startswith("igraph")
    model.load_state_dict(state)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    model.load_state_dict(torch.load(buffer, weights_only=True))
    assert not list(model[0].buffers())
    other = dict(state) | {"0.labelling": torch.tensor(list(b"igraph 0.10.0 (bliss)"), dtype=torch.uint8)}
    with pytest.raises(RuntimeError, match=r"igraph 0\.10\.0"):
        model.load_state_dict(other)
    with pytest.raises(RuntimeError, match=r"igraph 0\.10\.0"):
        model.load_state_dict(other, strict=False)
    del other["0.labelling"]
    model.load_state_dict(other)  # a plain backbone's, say


def test_pickles_warn_about_another_library() -> None:
    model = mf.Equivariant(Net(), S, "edge", ("node", "edge"))
    model.labelling = "igraph 0.10.0 (bliss)"
    with pytest.warns(UserWarning, match=r"igraph 0\.10\.0"):
        pickle.loads(pickle.dumps(model))


def test_the_other_library() -> None:
    pytest.importorskip("pynauty")
    for name in ("petersen", "Q4", "weighted Q3", "directed Q3"):
        colours, edges = GRAPHS[name]
        check_graph(edges.double(), colours.double().unsqueeze(-1), batches=1, count=20, group=mf.S(backend="pynauty"))


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mf.S(directed=False).frame(torch.eye(4).roll(1, 0), "edge"), "symmetric"),
        (lambda: S.frame(torch.randn(3, 4), "edge"), "edge.*shape"),
        (lambda: S.frame(torch.randn(5), "node"), "shape"),
        (lambda: S.frame(torch.full((3, 3), torch.nan), "edge"), "NaN|nan|finite|infinit"),
        (lambda: S.frame(torch.full((3, 2), torch.inf), "node"), "NaN|nan|finite|infinit"),
        (lambda: S.frame(torch.randn(3, 3), "edges"), "no type 'edges'"),
        (lambda: S.frame(torch.randn(3, 3), "vector"), "no type 'vector'"),
        (lambda: S.frame(torch.randn(3, 3), "scalar"), "frame of S"),
        (lambda: S.frame(torch.randn(2, 4, 3), "node", mask=torch.ones(2, 3, dtype=torch.bool)), "mask"),
        (lambda: S.frame(torch.randn(2, 4, 4), "edge", mask=torch.ones(2, 3, dtype=torch.bool)), "mask|beside"),
        (lambda: S.frame(torch.randn(4, 3), "node", batch=torch.tensor([0, 0, 1])), "batch"),
        (lambda: S.frame(torch.randn(4, 4), "edge", batch=torch.tensor([0, 0, 1, 1])), "batch"),
        (lambda: S.frame(torch.randn(3, 3), "edge").from_canonical(torch.randn(4, 2), "node"), r"y .*\(3"),
        (lambda: S.frame(torch.randn(3, 3), "edge").from_canonical(torch.randn(3, 2), "edge"), r"y .*\(3, 3"),
        (lambda: S.random(3), "n="),
        (lambda: mf.S(backend="bliss").frame(complete(4), "edge"), "backend"),
        (lambda: mf.Equivariant(lopsided, S, {"a": "edge"}, "vector"), "no type 'vector'"),
        (lambda: mf.Equivariant(lopsided, S, {"a": "scalar"}, "node"), "determines"),
        (lambda: mf.Equivariant(lopsided, S, {"b": "edge"}, "node"), "no argument 'b'"),
        (lambda: mf.Equivariant(lopsided, S, "edge", OUTPUTS)(torch.randn(3, 4)), "a of type 'edge'"),
        (lambda: S.frame(torch.zeros(0, 3), "node"), "no rows|no nodes|no points|empty"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("value", ["edges", None, 3])
def test_what_is_no_tensor(value: object) -> None:
    with pytest.raises(TypeError):
        S.frame(value, "edge")


def test_products_of_permutations_alone_make_no_sense() -> None:
    with pytest.raises(TypeError, match="linear group"):
        S * S


def test_empty_batches() -> None:
    assert S.frame(torch.zeros(0, 4, 3), "node").size == []
    assert S.frame(torch.zeros(0, 4, 4), "edge").size == []
    assert mf.Equivariant(lambda x: x, S, "node", "node")(torch.zeros(0, 4, 3)).shape == (0, 4, 3)
    assert mf.Equivariant(lambda x: x, S, "edge", "edge")(torch.zeros(0, 4, 4)).shape == (0, 4, 4)


def test_rows_without_channels_are_all_equal() -> None:
    assert S.frame(torch.zeros(4, 0), "node").size == 24


# Anything


@given(
    n=st.integers(1, 9),
    values=st.integers(1, 4),
    channels=st.integers(0, 2),
    symmetric=st.booleans(),
    seed=st.integers(0, 2**31),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.int32, torch.bool, torch.float16]),
)
def test_any_graph(n: int, values: int, channels: int, symmetric: bool, seed: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (n, n, channels) if channels else (n, n)
    a = torch.randint(0, values + 1, shape, generator=generator)
    a = a.minimum(a.transpose(0, 1)) if symmetric else a
    numbers = torch.tensor([0, 1, -2, 0.37, 1e-3]) if dtype.is_floating_point else torch.tensor([0, 1, -2, 3, 60000])
    a = numbers[a].to(dtype)
    known = torch.ones(n, dtype=torch.bool)  # so that shapes such as (2, 2, 2) can be read in one way only
    plain = S.frame(a, "edge", mask=known)
    form = plain.to_canonical(a, "edge")
    g = S.random(30, n=n, generator=generator)
    moved = take_edges(a.expand(30, *a.shape), inverse(g))
    frame = S.frame(moved, "edge", mask=known.expand(30, n))
    assert torch.equal(frame.to_canonical(moved, "edge"), form.expand_as(moved))
    assert S.contains(frame.element).all()
    y = torch.randn(n, 2, dtype=torch.float64, generator=generator)
    back = plain.from_canonical(y, "node")
    assert deviation(frame.from_canonical(y.expand(30, n, 2), "node"), S.act(g, back.expand(30, n, 2), "node")) <= 1e-14
    assert frame.size == [plain.size] * 30
    assert plain.size == mf.graph.automorphism_group(a, mask=known, rtol=0.0).order
