"""Graphs up to isomorphism, through the public functions."""

import copy
import itertools
import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphs import (
    GRAPHS,
    SHAPES,
    all_graphs,
    bipartite,
    cfi,
    complete,
    connected,
    cycle,
    hypercube,
    paley,
    permute_pairs,
    petersen,
    relabel,
    rook,
    shrikhande,
    union,
)
from minframe import checks, graph
from minframe.labelling.chain import StabiliserChain

BACKENDS = ["igraph", "pynauty"]


@pytest.fixture(params=BACKENDS)
def backend(request):
    pytest.importorskip(request.param)
    return request.param


def shuffled(edges, *others):
    """The same graph with other labels: everything that is indexed by nodes, edges first."""
    p = torch.randperm(len(edges))
    moved = (edges[p][:, p], *(x[p] for x in others))
    return moved if others else moved[0]


def same_form(first, second):
    nodes = first.nodes is second.nodes is None or torch.equal(first.nodes, second.nodes)
    return torch.equal(first.edges, second.edges) and nodes


# Canonical forms


def classes(edges, **options):
    """Different canonical forms in a batch."""
    return graph.canonical_form(edges, **options).edges.flatten(1).unique(dim=0)


@pytest.mark.parametrize(("n", "count"), list(enumerate([1, 2, 4, 11, 34, 156], 1)))
def test_numbers_of_graphs(n, count, backend):
    # All matrices: 2^15 for six nodes.
    i, j = torch.triu_indices(n, n, 1)
    codes = torch.arange(2 ** len(i)).unsqueeze(-1) >> torch.arange(len(i)) & 1
    edges = torch.zeros(len(codes), n, n, dtype=torch.bool)
    edges[:, i, j] = edges[:, j, i] = codes.bool()
    assert len(classes(edges, directed=False, backend=backend)) == count


def test_number_of_graphs_with_seven_nodes():
    # A node joined to each graph with six in all ways.
    six = all_graphs(6)[-1]
    subsets = torch.arange(64).unsqueeze(-1) >> torch.arange(6) & 1
    edges = torch.zeros(len(six), 64, 7, 7, dtype=torch.int32)
    edges[..., :6, :6] = six.unsqueeze(1)
    edges[..., 6, :6] = edges[..., :6, 6] = subsets.int()
    assert len(classes(edges.flatten(0, 1))) == 1044


@pytest.mark.slow
def test_connected_graphs_with_eight_nodes():
    edges = all_graphs(8)[-1]
    edges = edges[connected(edges)]
    assert len(edges) == 11117
    moved = permute_pairs(edges, torch.rand(edges.shape[:-1]).argsort(-1))
    for dtype in (torch.int64, torch.float32):
        form, other = graph.canonical_form(edges.to(dtype)), graph.canonical_form(moved.to(dtype))
        assert torch.equal(form.edges, other.edges)
        assert len(form.edges.flatten(1).unique(dim=0)) == 11117
    assert graph.is_isomorphic(edges, moved).all()
    assert not graph.is_isomorphic(edges, moved.roll(1, 0)).any()


@pytest.mark.parametrize("name", GRAPHS)
def test_relabelling_changes_nothing(name, backend):
    colours, edges = GRAPHS[name]
    weights = edges.double() * math.pi
    features = torch.stack([colours.float() / 3, -colours.float()], -1)
    for e, v in ((edges, colours), (edges.int(), None), (weights, features), (weights.float(), colours.bool())):
        form = graph.canonical_form(e, v, backend=backend)
        order = form.order
        assert torch.equal(form.edges, e[order][:, order])
        assert form.edges.dtype == e.dtype
        assert v is None or (torch.equal(form.nodes, v[order]) and form.nodes.dtype == v.dtype)
        moved = shuffled(e, v) if v is not None else (shuffled(e), None)
        assert same_form(graph.canonical_form(*moved, backend=backend), form)


def random_graph(n, kinds, channels, directed, source):
    edges = torch.randint(0, kinds, (n, n, *channels), generator=source)
    return (
        edges
        if directed
        else torch.where(
            torch.ones(n, n).triu().bool().view(n, n, *(1 for _ in channels)), edges, edges.transpose(0, 1)
        )
    )


@given(st.integers(1, 9), st.integers(2, 4), st.sampled_from([(), (1,), (2,)]), st.booleans(), st.integers(0, 2**31))
def test_random_graphs(n, kinds, channels, directed, seed):
    source = torch.Generator().manual_seed(seed)
    edges = random_graph(n, kinds, channels, directed, source)
    nodes = torch.randint(0, 2, (n,), generator=source)
    p = torch.randperm(n, generator=source)
    for weigh in (lambda x: x, lambda x: x * 0.1 - 0.1):
        a, b = weigh(edges), weigh(edges)[p][:, p]
        options = dict(directed=False) if not directed else {}
        assert same_form(graph.canonical_form(a, nodes, **options), graph.canonical_form(b, nodes[p], **options))
        assert graph.is_isomorphic(a, b, nodes, nodes[p])
        group = graph.automorphism_group(a, nodes)
        assert all(torch.equal(a[g][:, g], a) and torch.equal(nodes[g], nodes) for g in group.generators)


@given(st.integers(2, 9), st.booleans(), st.integers(0, 2**31))
def test_a_flipped_edge_makes_another_graph(n, directed, seed):
    source = torch.Generator().manual_seed(seed)
    edges = random_graph(n, 2, (), directed, source)
    i, j = torch.randperm(n, generator=source)[:2].tolist()
    other = edges.clone()
    other[i, j] = 1 - other[i, j]
    if not directed:
        other[j, i] = other[i, j]
    p = torch.randperm(n, generator=source)
    assert not graph.is_isomorphic(edges, other[p][:, p])
    assert not same_form(graph.canonical_form(edges), graph.canonical_form(other[p][:, p]))


def test_a_moved_edge_is_found_out():
    # The number of edges and all degrees stay the same: two triangles against a hexagon.
    assert not graph.is_isomorphic(cycle(6), union(cycle(3), cycle(3)))


def test_negative_zero_is_zero():
    edges = torch.tensor([[0.0, 1.0, -0.0], [1.0, -0.0, 0.0], [0.0, -0.0, -0.0]])
    nodes = torch.tensor([[0.0], [-0.0], [-0.0]])
    form = graph.canonical_form(edges, nodes)
    assert not form.edges.signbit().any()
    assert not form.nodes.signbit().any()
    assert same_form(graph.canonical_form(edges.abs(), nodes.abs()), form)
    assert graph.is_isomorphic(edges, edges.abs(), rtol=0)


def test_exact_weights_tell_the_last_bit():
    edges = petersen().double() * 0.1
    other = edges.clone()
    other[0, 1] = other[1, 0] = math.nextafter(0.1, 1)
    assert not same_form(graph.canonical_form(edges), graph.canonical_form(other))
    assert not graph.is_isomorphic(edges, other, rtol=0)
    assert graph.is_isomorphic(edges, other)
    assert graph.automorphism_group(other).order == 120
    assert graph.automorphism_group(other, rtol=0).order == 120 // 15  # what fixes one of 15 edges


def test_large_integers_do_not_overflow():
    top, low = 2**63 - 1, -(2**63)
    edges = torch.tensor([[0, top, low], [low, 0, top], [top, low, 0]])
    assert graph.automorphism_group(edges).order == 3
    channels = torch.stack([edges, edges], -1)
    assert graph.automorphism_group(channels).order == 3
    assert same_form(graph.canonical_form(shuffled(channels)), graph.canonical_form(channels))
    assert graph.automorphism_group(complete(3), torch.tensor([top, low, top])).order == 2
    assert graph.automorphism_group(torch.stack([channels[..., 0], channels[..., 0] + 1], -1)).order == 3


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.float64, torch.bool])
def test_dtypes(dtype):
    edges = petersen().to(dtype)
    form = graph.canonical_form(edges, torch.arange(10).remainder(2).to(dtype))
    assert form.edges.dtype == form.nodes.dtype == dtype
    assert graph.automorphism_group(edges).order == 120
    assert graph.is_isomorphic(edges, shuffled(petersen()))  # of another dtype


def test_padding_makes_no_difference(backend):
    names = ("petersen", "weighted Q4", "directed union", "paley 7", "one node", "cfi twisted")
    graphs = [GRAPHS[name] for name in names]
    n = max(len(c) for c, _ in graphs) + 3
    nodes, edges = torch.full((len(graphs), n, 1), torch.nan), torch.full((len(graphs), n, n), torch.nan)
    mask = torch.zeros(len(graphs), n, dtype=torch.bool)
    for k, (c, e) in enumerate(graphs):
        place = torch.randperm(n)[: len(c)]
        nodes[k, place, 0], mask[k, place] = c.float(), True
        edges[k, place.unsqueeze(1), place] = e.float()
    form = graph.canonical_form(edges, nodes, mask, backend=backend)
    groups = graph.automorphism_group(edges, nodes, mask, backend=backend)
    for k, (c, e) in enumerate(graphs):
        m = len(c)
        alone = graph.canonical_form(e.float(), c.float().unsqueeze(-1), backend=backend)
        assert torch.equal(form.edges[k, :m, :m], alone.edges)
        assert torch.equal(form.nodes[k, :m], alone.nodes)
        assert not form.edges[k, m:].any()
        assert not form.edges[k, :, m:].any()
        assert not form.nodes[k, m:].any()
        assert mask[k, form.order[k, :m]].all()
        group = groups[k]
        assert group.order == graph.automorphism_group(e, c).order
        padding = (~mask[k]).nonzero().squeeze(-1)
        assert torch.equal(group.orbits[padding], padding)
        swapped = torch.arange(n)
        swapped[padding[:2]] = padding[:2].flip(0)
        assert swapped not in group
        assert group.random() in group


def test_batch_makes_no_difference():
    edges = torch.stack([petersen(), union(cycle(4), cycle(6)), union(complete(5), paley(5)), bipartite(3, 7)])
    weights = torch.stack([edges * 0.3, edges * 7.7 - edges.triu(3)], -1).double().view(2, 2, 10, 10, 2)
    nodes = torch.rand(2, 2, 10, 3)
    form = graph.canonical_form(weights, nodes)
    for i, j in itertools.product(range(2), range(2)):
        alone = graph.canonical_form(weights[i, j], nodes[i, j])
        assert torch.equal(form.edges[i, j], alone.edges)
        assert torch.equal(form.nodes[i, j], alone.nodes)
        assert torch.equal(form.order[i, j], alone.order)
    assert [g.order for g in graph.automorphism_group(edges.view(2, 2, 10, 10))] == [
        graph.automorphism_group(e).order for e in edges
    ]


def test_gradients_flow():
    edges = torch.rand(3, 6, 6, requires_grad=True)
    nodes = torch.rand(3, 6, requires_grad=True)
    mask = torch.arange(6) < torch.tensor([[6], [4], [5]])
    form = graph.canonical_form(edges, nodes, mask)
    (form.edges.sum() + form.nodes.sum()).backward()
    assert torch.equal(edges.grad != 0, mask.unsqueeze(-1) & mask.unsqueeze(-2))
    assert torch.equal(nodes.grad != 0, mask)


@torch.no_grad()
def test_compiles():
    edges, nodes = petersen().expand(2, -1, -1).double(), torch.rand(2, 10)
    with checks.unchecked():
        form = torch.compile(graph.canonical_form, fullgraph=True, backend="aot_eager")(edges, nodes)
    assert same_form(form, graph.canonical_form(edges, nodes))


# Isomorphism


def test_told_apart(backend):
    pairs = [
        (shrikhande(), rook()),
        (cfi(complete(4), 0), cfi(complete(4), 1)),
        (union(cfi(complete(4), 0), cfi(complete(4), 1)), union(cfi(complete(4), 0), cfi(complete(4), 0))),
    ]
    for first, second in pairs:
        for dtype in (torch.int64, torch.float32):
            a, b = first.to(dtype), second.to(dtype)
            assert not graph.is_isomorphic(a, shuffled(b), backend=backend)
            assert graph.is_isomorphic(a, shuffled(a), backend=backend)
            assert graph.is_isomorphic(b, shuffled(b), backend=backend)
    assert graph.is_isomorphic(cfi(complete(4), 0), shuffled(cfi(complete(4), 2)), backend=backend)


def test_rounding_is_forgiven(backend):
    for name in ("petersen", "weighted Q4", "directed union", "weighted C100", "paley 13"):
        colours, edges = GRAPHS[name]
        for dtype in (torch.float32, torch.float64):
            eps = torch.finfo(dtype).eps
            a = edges.to(dtype) / 3
            b = shuffled(a + eps * (torch.rand(a.shape, dtype=dtype) - 0.5))
            assert graph.is_isomorphic(a, b, backend=backend)
            assert not graph.is_isomorphic(a, b, rtol=0, backend=backend)
            assert not graph.is_isomorphic(a, b + 100 * eps * torch.diag(torch.rand(len(b))), backend=backend)
            features = colours.to(dtype).unsqueeze(-1)
            assert graph.is_isomorphic(a, a, features, features * (1 + eps), backend=backend)


def test_true_is_a_proof():
    # One chain of weights, each as good as the next: as classes the graphs are the same, as weights they are not.
    n = 12
    i, j = torch.triu_indices(n, n, 1)
    ladder = 1 + torch.arange(len(i), dtype=torch.float64) * 1e-3
    a, b = torch.zeros(2, n, n, dtype=torch.float64)
    a[i, j] = a[j, i] = ladder
    b[i, j] = b[j, i] = ladder.flip(0)
    assert not graph.is_isomorphic(a, b, rtol=1e-3)
    assert graph.is_isomorphic(a, shuffled(a), rtol=1e-3)  # bit by bit
    assert graph.is_isomorphic(a, b, rtol=0.1)


def test_a_graph_against_a_batch():
    many = torch.stack([shuffled(shrikhande()), rook(), shuffled(rook()), shrikhande()])
    assert graph.is_isomorphic(rook(), many).tolist() == [False, True, True, False]
    assert graph.is_isomorphic(many.unsqueeze(1), many).tolist() == [
        [True, False, False, True],
        [False, True, True, False],
        [False, True, True, False],
        [True, False, False, True],
    ]
    assert graph.is_isomorphic(many, petersen()).tolist() == [False] * 4
    assert graph.is_isomorphic(petersen(), cycle(5)).shape == ()


def test_colours_count(backend):
    square = cycle(4)
    side, diagonal = torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 1, 0])
    assert graph.is_isomorphic(square, square, side, side.roll(1), backend=backend)
    assert not graph.is_isomorphic(square, square, side, diagonal, backend=backend)
    assert not graph.is_isomorphic(square, square, side, side + 1, backend=backend)
    assert graph.automorphism_group(square, side, backend=backend).order == 2
    assert graph.automorphism_group(square, diagonal, backend=backend).order == 4
    features = torch.stack([side, diagonal], -1).double()
    assert graph.automorphism_group(square, features, backend=backend).order == 1


def test_weights_are_those_of_both_graphs():
    # As ranks within their own graph, 1 and 2 are the same.
    assert not graph.is_isomorphic(petersen(), 2 * petersen())
    assert not graph.is_isomorphic(petersen().float(), 2.0 * petersen())
    assert not graph.is_isomorphic(petersen(), petersen(), torch.zeros(10), torch.ones(10))


def test_padded_graphs_by_colour():
    a, b = union(petersen(), torch.zeros(2, 2)), union(torch.zeros(2, 2), shuffled(petersen()))
    mask = torch.arange(12) < 10
    assert graph.is_isomorphic(a, b, mask, mask.roll(2))
    assert not graph.is_isomorphic(a, b, mask, mask)


def test_channels(backend):
    # A red and a blue cycle on the same nodes.
    red, blue = cycle(7), from_steps(7, 2)
    edges = torch.stack([red, blue], -1)
    assert graph.automorphism_group(edges, backend=backend).order == 14
    assert graph.automorphism_group(red + blue, backend=backend).order == 14
    assert graph.is_isomorphic(edges, shuffled(edges), backend=backend)
    # Doubling takes red to blue, and blue to another circle.
    assert not graph.is_isomorphic(edges, edges.flip(-1), backend=backend)
    assert graph.is_isomorphic(edges[..., :1], edges[..., 1:], backend=backend)
    assert graph.automorphism_group(edges.new_zeros(5, 5, 0), backend=backend).order == 120


def from_steps(n, step):
    i = torch.arange(n)
    distance = (i.unsqueeze(0) - i.unsqueeze(1)) % n
    return ((distance == step) | (distance == n - step)).long()


# Automorphisms

ORDERS = {
    "petersen": (petersen(), 120),
    "Q4": (hypercube(4), 384),
    "K64": (complete(64), math.factorial(64)),
    "K32,32": (bipartite(32, 32), 2 * math.factorial(32) ** 2),
    "C100": (cycle(100), 200),
    "shrikhande": (shrikhande(), 192),
    "rook": (rook(), 1152),
    "two petersen": (union(petersen(), petersen()), 2 * 120**2),
    "many petersen": (union(*[petersen()] * 6), math.factorial(6) * 120**6),
    "different parts": (union(petersen(), cycle(5), complete(4), cycle(5)), 120 * 2 * 10**2 * 24),
    "matching": (union(*[complete(2)] * 64), 2**64 * math.factorial(64)),
    "graphs of arrows": (union(*[cycle(9).triu()] * 3), math.factorial(3)),
    "no edges": (torch.zeros(20, 20), math.factorial(20)),
    "one node": (torch.zeros(1, 1), 1),
    "nothing": (torch.zeros(0, 0), 1),
    "paley": (paley(11), 55),
    "loops": (torch.eye(6), math.factorial(6)),
    "one loop": (torch.diag(torch.tensor([1, 0, 0, 0])), 6),
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders(name, backend):
    edges, order = ORDERS[name]
    for variant in (edges, shuffled(edges) * -0.7, shuffled(edges).bool()):
        group = graph.automorphism_group(variant, backend=backend)
        assert group.order == order
        assert isinstance(group.order, int)
        assert group.generators.shape[-1] == len(edges)
        for g in group.generators:
            assert g in group
            assert torch.equal(variant[g][:, g], variant)


@given(st.integers(2, 4), st.integers(1, 5), st.booleans(), st.integers(0, 2**31))
def test_order_of_copies(copies, n, directed, seed):
    source = torch.Generator().manual_seed(seed)
    edges = union(*[random_graph(n, 2, (), directed, source)] * copies)
    p = torch.randperm(len(edges), generator=source)
    group = graph.automorphism_group(edges[p][:, p])
    assert group.order == StabiliserChain(group.generators, len(edges)).order


def test_weights_and_directions_break_symmetry(backend):
    weighted, directed = cycle(12).double() * 0.1, cycle(12).clone()
    weighted[0, 1] = weighted[1, 0] = 0.3
    assert graph.automorphism_group(weighted, backend=backend).order == 2
    directed[1:, :-1].diagonal().zero_()
    directed[0, 11] = 0
    assert graph.automorphism_group(directed, backend=backend).order == 12
    assert not graph.is_isomorphic(directed, cycle(12), backend=backend)
    assert graph.is_isomorphic(directed, directed.mT, backend=backend)
    assert not graph.is_isomorphic(directed, directed + weighted, backend=backend)


def solids():
    """Vertices of the Platonic solids and the orders of their groups."""
    golden = (1 + math.sqrt(5)) / 2
    signs = list(itertools.product((-1.0, 1.0), repeat=3))
    tetrahedron = [s for s in signs if math.prod(s) > 0]
    octahedron = [[s * (k == axis) for k in range(3)] for axis in range(3) for s in (-1.0, 1.0)]
    icosahedron = [[(0.0, a, b * golden)[(k + r) % 3] for k in range(3)] for r in range(3) for a, b, _ in signs[::2]]
    corners = [
        [(0.0, a / golden, b * golden)[(k + r) % 3] for k in range(3)] for r in range(3) for a, b, _ in signs[::2]
    ]
    points = [tetrahedron, signs, octahedron, icosahedron, [*signs, *corners]]
    return zip(
        ("tetrahedron", "cube", "octahedron", "icosahedron", "dodecahedron"),
        points,
        (24, 48, 48, 120, 120),
        strict=True,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("points", "order"), [pytest.param(p, o, id=name) for name, p, o in solids()])
def test_platonic_solids(points, order, dtype, backend):
    x = torch.tensor(points, dtype=torch.float64)
    for _ in range(3):
        turned = (x @ torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))[0]).to(dtype)
        distances = (turned.unsqueeze(0) - turned.unsqueeze(1)).norm(dim=-1)
        group = graph.automorphism_group(distances, backend=backend)
        assert group.order == order
        assert not group.orbits.any()
        other = (x.to(dtype).unsqueeze(0) - x.to(dtype).unsqueeze(1)).norm(dim=-1)
        assert graph.is_isomorphic(distances, shuffled(other), backend=backend)
        assert not graph.is_isomorphic(distances, other * 1.001, backend=backend)


@pytest.mark.parametrize("name", ["petersen", "Q3", "star", "shrikhande", "weighted union", "paley 7", "one node"])
def test_elements(name):
    colours, edges = GRAPHS[name]
    group = graph.automorphism_group(edges, colours)
    if group.order < 2000:
        elements = torch.stack(list(group.elements()))
        assert len(elements.unique(dim=0)) == len(elements) == group.order
        assert torch.equal(elements[0], torch.arange(len(edges)))
        assert all(torch.equal(edges[g][:, g], edges) and g in group for g in elements)
        assert torch.equal(group.orbits, elements.amin(0))
        n = len(edges)
        assert torch.equal(group.orbitals, (elements.unsqueeze(-1) * n + elements.unsqueeze(-2)).amin(0))
    source = torch.Generator().manual_seed(3)
    first = group.random(source)
    assert first in group
    assert torch.equal(first, group.random(torch.Generator().manual_seed(3)))


def test_random_elements_are_uniform():
    group = graph.automorphism_group(cycle(5))
    drawn = torch.stack([group.random() for _ in range(3000)])
    _, counts = drawn.unique(dim=0, return_counts=True)
    assert len(counts) == 10
    assert ((counts - 300).abs() < 5 * math.sqrt(300)).all()


def test_membership():
    group = graph.automorphism_group(cycle(4))
    assert [1, 2, 3, 0] in group
    assert torch.tensor([1, 2, 3, 0], dtype=torch.int32) in group
    for g in ([1, 0, 2, 3], [0, 1, 2], [0, 0, 2, 2], [0, 1, 2, 4], [0.0, 1.0, 2.0, 3.0]):
        assert g not in group
    assert [] in graph.automorphism_group(torch.zeros(0, 0))
    large = graph.automorphism_group(complete(64))
    assert torch.randperm(64) in large
    assert large.random() in large


def test_repr_and_copies():
    group = graph.automorphism_group(petersen())
    assert repr(group) == "AutomorphismGroup(nodes=10, order=120)"
    assert repr(graph.automorphism_group(complete(64))) == "AutomorphismGroup(nodes=64, order=1.27e+89)"
    large = graph.automorphism_group(complete(200))
    assert repr(large) == "AutomorphismGroup(nodes=200, generators=2)"
    assert large.order == math.factorial(200)
    assert repr(large) == "AutomorphismGroup(nodes=200, order=7.89e+374)"
    for copied in (pickle.loads(pickle.dumps(group)), copy.deepcopy(group)):
        assert copied.order == 120
        assert copied.random() in group


# Lists of edges


def sparse(edges):
    index = edges.nonzero().T
    return index, edges[index[0], index[1]]


def same_sparse(first, second):
    return all(a is b is None or torch.equal(a, b) for a, b in zip(first[:3], second[:3], strict=True))


@pytest.mark.parametrize("name", GRAPHS)
def test_sparse_relabelling_changes_nothing(name, backend):
    colours, edges = GRAPHS[name]
    n = len(edges)
    for colour, weigh in (
        (colours, lambda x: x),
        (colours.float().unsqueeze(-1) / 3, lambda x: torch.stack([x * 0.1, -x], -1)),
    ):
        index, attr = sparse(edges)
        form = graph.canonical_form_sparse(index, weigh(attr), colour, backend=backend)
        assert torch.equal(form.nodes, colour[form.order])
        back = torch.zeros(n, n, dtype=torch.int64)
        back[form.edge_index[0], form.edge_index[1]] = (
            form.edge_attr if form.edge_attr.ndim == 1 else form.edge_attr[:, 1].neg()
        ).long()
        assert torch.equal(back, relabel((colours, edges), form.order)[1])
        moved, moved_colour = shuffled(edges, colour)
        index, attr = sparse(moved)
        mixed = torch.randperm(index.shape[1])
        other = graph.canonical_form_sparse(index[:, mixed].int(), weigh(attr)[mixed], moved_colour, backend=backend)
        assert same_sparse(form, other)


def test_sparse_batch_makes_no_difference():
    graphs = [shuffled(SHAPES[name]) for name in ("petersen", "grid", "one node", "petersen", "cfi", "star")]
    weights = [torch.rand(1) * g for g in graphs]
    sizes = torch.tensor([len(g) for g in graphs])
    batch = torch.arange(len(graphs)).repeat_interleave(sizes)
    whole = torch.block_diag(*weights)
    whole, batch, nodes = shuffled(whole, batch, batch.double() - 2)
    form = graph.canonical_form_sparse(*sparse(whole), nodes, batch=batch)
    assert torch.equal(batch[form.order], batch.sort()[0])
    start = 0
    for k, weight in enumerate(weights):
        alone = graph.canonical_form_sparse(*sparse(weight), torch.full((len(weight),), k - 2.0))
        mine = (form.edge_index >= start).all(0) & (form.edge_index < start + len(weight)).all(0)
        assert torch.equal(form.edge_index[:, mine] - start, alone.edge_index)
        assert torch.equal(form.edge_attr[mine], alone.edge_attr)
        start += len(weight)


def test_sparse_edges_of_weight_zero_are_edges():
    index = torch.tensor([[0, 1], [1, 2]])
    forms = [graph.canonical_form_sparse(index, torch.tensor(w)) for w in ([0.0, 1.0], [1.0, 0.0], [-0.0, 1.0])]
    assert all(form.edge_index.shape == (2, 2) for form in forms)
    assert not same_sparse(forms[0], forms[1])
    assert same_sparse(forms[0], forms[2])
    assert not forms[2].edge_attr.signbit().any()


def test_sparse_without_edges_or_nodes():
    nothing = torch.empty(2, 0, dtype=torch.int64)
    assert graph.canonical_form_sparse(nothing).order.shape == (0,)
    form = graph.canonical_form_sparse(nothing, torch.empty(0, 2), torch.tensor([3, 1, 2]))
    assert form.nodes.tolist() == [1, 2, 3]
    assert form.edge_attr.shape == (0, 2)
    assert graph.canonical_form_sparse(nothing, nodes=torch.empty(3, 0), num_nodes=3).order.shape == (3,)


@pytest.mark.slow
def test_large_sparse_graph():
    n = 100_000
    index = torch.randint(0, n, (2, 250_000))
    index = index[:, index[0] != index[1]]
    index = torch.cat([index, index.flip(0)], 1).unique(dim=1)
    attr = torch.randint(0, 3, (index.shape[1],))
    form = graph.canonical_form_sparse(index, attr, num_nodes=n)
    p, mixed = torch.randperm(n), torch.randperm(index.shape[1])
    assert same_sparse(graph.canonical_form_sparse(p[index][:, mixed], attr[mixed], num_nodes=n), form)


# Shapes and errors


@pytest.mark.parametrize(
    ("shape", "nodes", "mask", "expected"),
    [
        ((4, 4), None, None, ((), 4, ())),
        ((5, 4, 4), None, None, ((5,), 4, ())),
        ((4, 4, 5), None, None, ((), 4, (5,))),
        ((2, 5, 4, 4), None, None, ((2, 5), 4, ())),
        ((2, 4, 4, 5), None, None, ((2,), 4, (5,))),
        ((3, 3, 3), None, None, ((3,), 3, ())),
        ((3, 3, 3), (3,), None, ((), 3, (3,))),
        ((3, 3, 3), (3, 3), None, ((3,), 3, ())),
        ((3, 3, 3), (3, 2), None, ((), 3, (3,))),
        ((3, 3, 3), (3, 3, 2), None, ((3,), 3, ())),
        ((3, 3, 3), None, (3,), ((), 3, (3,))),
        ((3, 3, 3), None, (3, 3), ((3,), 3, ())),
        ((3, 3, 3), (3, 3), (3,), ((), 3, (3,))),
        ((2, 3, 3, 3), None, None, ((2,), 3, (3,))),
        ((2, 3, 3, 3), (2, 3, 3), None, ((2,), 3, (3,))),
        ((2, 3, 3, 3), None, (2, 3, 3), ((2, 3), 3, ())),
        ((2, 3, 3, 3), (2, 3, 3, 5), None, ((2, 3), 3, ())),
        ((0, 0), None, None, ((), 0, ())),
        ((1, 1, 1), None, None, ((1,), 1, ())),
    ],
)
def test_shapes(shape, nodes, mask, expected):
    form = graph.canonical_form(
        torch.zeros(shape),
        None if nodes is None else torch.zeros(nodes),
        None if mask is None else torch.ones(mask, dtype=torch.bool),
    )
    assert form.edges.shape == shape
    assert form.nodes is None or form.nodes.shape == nodes
    assert form.order.shape == (*expected[0], expected[1])


def test_empty_batches_and_graphs():
    assert graph.canonical_form(torch.zeros(0, 5, 5)).edges.shape == (0, 5, 5)
    assert graph.automorphism_group(torch.zeros(0, 5, 5)) == []
    assert graph.is_isomorphic(torch.zeros(0, 5, 5), torch.zeros(5, 5)).shape == (0,)
    assert graph.is_isomorphic(torch.zeros(3, 0, 0), torch.zeros(0, 0)).tolist() == [True] * 3
    assert [g.order for g in graph.automorphism_group(torch.zeros(2, 0, 0))] == [1, 1]
    group = graph.automorphism_group(torch.zeros(0, 0))
    assert group.orbits.shape == (0,)
    assert group.orbitals.shape == (0, 0)
    assert [g.tolist() for g in group.elements()] == [[]]


ASYMMETRIC = torch.tensor([[0, 1], [0, 0]])
INDEX = torch.tensor([[0, 1], [1, 0]])
BAD = [
    (
        ValueError,
        r"edges of type 'edge' must have shape \(\*batch, n, n\).*got \(2, 7\).*edge_index",
        lambda: graph.canonical_form(torch.zeros(2, 7)),
    ),
    (ValueError, r"edges of type 'edge' must have shape", lambda: graph.automorphism_group(torch.zeros(3))),
    (TypeError, r"edges must be a torch.Tensor, got list", lambda: graph.canonical_form([[0]])),
    (
        TypeError,
        r"a_nodes must be a torch.Tensor, got list",
        lambda: graph.is_isomorphic(torch.zeros(1, 1), torch.zeros(1, 1), [0], [0]),
    ),
    (
        ValueError,
        r"nodes of type 'node' must have shape \(4, \.\.\.\), got \(3,\)",
        lambda: graph.canonical_form(torch.zeros(4, 4), torch.zeros(3)),
    ),
    (
        ValueError,
        r"mask must have shape \(2, 4\).*got \(4,\)",
        lambda: graph.canonical_form(torch.zeros(2, 4, 4), mask=torch.ones(4).bool()),
    ),
    (
        TypeError,
        r"mask must be a boolean.*torch.float32",
        lambda: graph.automorphism_group(torch.zeros(4, 4), mask=torch.ones(4)),
    ),
    (
        ValueError,
        r"edges has NaN or infinite values in sample 1 of 2",
        lambda: graph.canonical_form(torch.tensor([[[0.0]], [[torch.nan]]])),
    ),
    (
        ValueError,
        r"b has NaN or infinite",
        lambda: graph.is_isomorphic(torch.zeros(1, 1), torch.full((1, 1), torch.inf)),
    ),
    (
        ValueError,
        r"nodes has NaN or infinite",
        lambda: graph.automorphism_group(torch.zeros(1, 1), torch.full((1, 1), torch.nan)),
    ),
    (
        ValueError,
        r"edges is not symmetric in sample 0 of 1.*directed=False.*edges \+ edges.mT",
        lambda: graph.canonical_form(ASYMMETRIC, directed=False),
    ),
    (ValueError, r"rtol must be a number.*got -1", lambda: graph.canonical_form(ASYMMETRIC, rtol=-1)),
    (ValueError, r"rtol must be a number.*got nan", lambda: graph.is_isomorphic(ASYMMETRIC, ASYMMETRIC, rtol=math.nan)),
    (ValueError, r"backend must be one of.*got 'saucy'", lambda: graph.canonical_form(ASYMMETRIC, backend="saucy")),
    (
        ValueError,
        r"a_nodes and b_nodes belong together",
        lambda: graph.is_isomorphic(ASYMMETRIC, ASYMMETRIC, torch.zeros(2)),
    ),
    (
        ValueError,
        r"a and b must have the same channels, got 1 and 3",
        lambda: graph.is_isomorphic(ASYMMETRIC, torch.zeros(2, 2, 3)),
    ),
    (
        ValueError,
        r"batches that broadcast, got \(2,\) and \(3,\)",
        lambda: graph.is_isomorphic(torch.zeros(2, 5, 5), torch.zeros(3, 5, 5)),
    ),
    (
        ValueError,
        r"edge_index must have shape \(2, E\), got \(3, 3\)",
        lambda: graph.canonical_form_sparse(torch.zeros(3, 3).long()),
    ),
    (
        TypeError,
        r"edge_index must be an integer tensor, got torch.float32",
        lambda: graph.canonical_form_sparse(torch.zeros(2, 3)),
    ),
    (
        ValueError,
        r"edge_index has nodes up to 1, but there are 1",
        lambda: graph.canonical_form_sparse(INDEX, num_nodes=1),
    ),
    (ValueError, r"edge_index has the negative node -1", lambda: graph.canonical_form_sparse(INDEX - 1)),
    (ValueError, r"edge_index lists an edge more than once", lambda: graph.canonical_form_sparse(INDEX[:, [0, 0]])),
    (
        ValueError,
        r"edge_attr of type 'edge_attr' must have shape \(2,\) or \(2, c\), got \(3,\)",
        lambda: graph.canonical_form_sparse(INDEX, torch.zeros(3)),
    ),
    (
        ValueError,
        r"edge_attr has NaN or infinite values in row 1 of 2",
        lambda: graph.canonical_form_sparse(INDEX, torch.tensor([0, torch.nan])),
    ),
    (
        ValueError,
        r"nodes of type 'node' must have shape \(5,\)",
        lambda: graph.canonical_form_sparse(INDEX, nodes=torch.zeros(4), num_nodes=5),
    ),
    (
        ValueError,
        r"batch must have shape \(5,\)",
        lambda: graph.canonical_form_sparse(INDEX, num_nodes=5, batch=torch.zeros(4).long()),
    ),
    (ValueError, r"batch has negative", lambda: graph.canonical_form_sparse(INDEX, batch=torch.tensor([-1, -1]))),
    (TypeError, r"batch must be an integer", lambda: graph.canonical_form_sparse(INDEX, batch=torch.zeros(2))),
    (
        ValueError,
        r"joins nodes of different graphs",
        lambda: graph.canonical_form_sparse(INDEX, batch=torch.tensor([0, 1])),
    ),
]


@pytest.mark.parametrize(("error", "message", "call"), BAD)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_rounding_does_not_make_a_direction():
    edges = petersen() * 0.1
    edges[0, 1] = math.nextafter(float(edges[0, 1]), 1) + 1e-8
    with pytest.raises(ValueError, match="not symmetric"):
        graph.canonical_form(edges, directed=False)
    form = graph.canonical_form(edges, directed=False, rtol=1e-6)
    other = graph.canonical_form(shuffled(edges), directed=False, rtol=1e-6)
    assert torch.allclose(form.edges, other.edges, atol=1e-6)
