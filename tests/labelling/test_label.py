"""Canonical labelling: one form for all relabellings, different forms for different graphs, all automorphisms."""

import itertools
import math
import pickle
import zlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import minframe as mf
from graphs import GRAPHS, SHAPES, cfi, complete, cycle, permute_pairs, plain, relabel, union
from group_order import group_order
from minframe.labelling import backend as backends
from minframe.labelling import label as labellings
from minframe.labelling import native, parallel, pieces
from minframe.labelling import residual as residuals
from minframe.labelling.arcs import Arcs
from minframe.labelling.backend import Layered, backend_version, inverse, layered, lists_vertices
from minframe.labelling.cluster import cluster_edges
from minframe.labelling.label import label, label_graph, label_sparse
from minframe.labelling.ops import canonical_order, node_orbits, pair_orbits
from minframe.labelling.orbits import edge_orbits_sparse, orbits_sparse
from minframe.labelling.residual import residual
from minframe.labelling.search import search

BACKENDS = ["igraph", "pynauty"]
ORDERS = {
    "petersen": 120,
    "Q3": 48,
    "Q4": 384,
    "Q5": 3840,
    "Q6": 46080,
    "K64": math.factorial(64),
    "K32,32": 2 * math.factorial(32) ** 2,
    "C100": 200,
    "grid": 8,
    "shrikhande": 192,
    "rook": 1152,
    "union": 120**2 * 2 * 10 * 8 * 6 * 6,
    "matching": 2**12 * math.factorial(12),
    "star": math.factorial(9),
    "empty": math.factorial(12),
    "one node": 1,
    "arrows in a circle": 12,
    "paley 7": 21,
    "paley 11": 55,
    "paley 13": 78,
}


def form(graph, backend="igraph"):
    order, _ = label_graph(*graph, backend)
    assert sorted(order.tolist()) == list(range(len(order)))
    return relabel(graph, order)


def same(first, second):
    return first[1].shape == second[1].shape and all(map(torch.equal, first, second))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_one_form_for_all_relabellings(name, backend):
    pytest.importorskip(backend)
    expected = form(GRAPHS[name], backend)
    for _ in range(4):
        p = torch.randperm(len(expected[0]))
        assert same(form(relabel(GRAPHS[name], p), backend), expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_generators_are_automorphisms(name, backend):
    pytest.importorskip(backend)
    graph = GRAPHS[name]
    _, generators = label_graph(*graph, backend)
    for g in generators:
        assert same(relabel(graph, g), graph)
    if name in ORDERS:
        assert group_order(generators) == ORDERS[name]


@pytest.mark.parametrize("name", [name for name in GRAPHS if len(GRAPHS[name][0]) <= 40])
def test_libraries_find_the_same_group(name):
    pytest.importorskip("pynauty")
    first, second = (group_order(label_graph(*GRAPHS[name], backend)[1]) for backend in BACKENDS)
    assert first == second


@pytest.mark.parametrize("backend", BACKENDS)
def test_told_apart(backend):
    pytest.importorskip(backend)
    pairs = [
        (SHAPES["shrikhande"], SHAPES["rook"]),
        (SHAPES["cfi"], SHAPES["cfi twisted"]),
        (union(cfi(complete(4), 0), cfi(complete(4), 1)), union(cfi(complete(4), 0), cfi(complete(4), 0))),
    ]
    for first, second in pairs:
        assert not same(form(plain(first), backend), form(plain(second), backend))
    # two twists untwist each other
    assert same(form(plain(cfi(complete(4), 2)), backend), form(plain(cfi(complete(4), 0)), backend))


def check_by_brute_force(graph, p):
    n = len(graph[0])
    order, generators = label_graph(*graph)
    automorphisms = [p for p in map(torch.tensor, itertools.permutations(range(n))) if same(relabel(graph, p), graph)]
    assert group_order(generators) == len(automorphisms)
    assert same(form(relabel(graph, p)), relabel(graph, order))
    assert torch.equal(node_orbits(*graph), torch.stack(automorphisms).amin(0))
    pairs = torch.stack([p.unsqueeze(1) * n + p for p in automorphisms]).amin(0)
    assert torch.equal(pair_orbits(*graph), pairs)


@given(st.integers(1, 6), st.integers(2, 3), st.booleans(), st.integers(0, 2**31))
def test_small_graphs_against_all_permutations(n, kinds, directed, seed):
    source = torch.Generator().manual_seed(seed)
    colours = torch.randint(0, 2, (n,), generator=source) * (seed % 3 // 2)
    edges = torch.randint(0, kinds, (n, n), generator=source)
    if not directed:
        edges = edges.triu() + edges.triu(1).mT
    check_by_brute_force((colours, edges), torch.randperm(n, generator=source))


@given(st.integers(1, 3), st.integers(1, 6), st.integers(2, 4), st.integers(0, 2**31))
def test_symmetric_graphs_against_all_permutations(copies, n, kinds, seed):
    # Disjoint copies of a graph with a circular symmetry, arrows and colours included, up to six nodes in all.
    n = min(n, 6 // copies)
    source = torch.Generator().manual_seed(seed)
    i = torch.arange(n)
    circle = torch.randint(0, kinds, (n,), generator=source)[(i.unsqueeze(0) - i.unsqueeze(1)) % n]
    edges = union(*[circle] * copies)
    p = torch.randperm(len(edges), generator=source)
    check_by_brute_force(relabel(plain(edges), p), torch.randperm(len(edges), generator=source))


def test_batch_and_padding_make_no_difference():
    names = ("petersen", "weighted Q4", "directed union", "paley 7", "one node", "cfi twisted", "empty")
    graphs = [GRAPHS[name] for name in names]
    n = max(len(c) for c, _ in graphs) + 2
    colours, edges = torch.randint(0, 9, (len(graphs), n)), torch.randint(0, 9, (len(graphs), n, n))
    mask = torch.zeros(len(graphs), n, dtype=torch.bool)
    for k, (c, e) in enumerate(graphs):
        place = torch.randperm(n)[: len(c)]
        colours[k, place], mask[k, place] = c, True
        edges[k, place.unsqueeze(1), place] = e
    order, generators = label(colours, edges, mask)
    orbits = node_orbits(colours, edges, mask)
    for k, graph in enumerate(graphs):
        m = len(graph[0])
        first = order[k, :m]
        assert mask[k, first].all()
        assert same((colours[k][first], edges[k][first][:, first]), form(graph))
        assert group_order(generators[k]) == group_order(label_graph(*graph)[1])
        padding = ~mask[k]
        assert (generators[k][:, padding] == torch.arange(n)[padding]).all()
        assert torch.equal(orbits[k][padding], torch.arange(n)[padding])


def test_batch_shapes():
    colours, edges = plain(SHAPES["Q3"])
    order, generators = label(colours.expand(2, 3, -1), edges.expand(2, 3, -1, -1))
    assert order.shape == (2, 3, 8)
    assert len(generators) == 6
    order, generators = label(colours.new_zeros(0, 4), edges.new_zeros(0, 4, 4))
    assert order.shape == (0, 4)
    assert generators == []


def test_order_is_by_refined_colour():
    for graph in GRAPHS.values():
        order, colours = canonical_order(*graph)
        assert (colours[order].diff() >= 0).all()


def test_discrete_colours_need_no_library(monkeypatch):
    monkeypatch.setattr(backends, "get", lambda name: pytest.fail("asked for a library"))
    edges = torch.randint(0, 5, (4, 12, 12))
    label(edges.new_zeros(4, 12), edges)
    label_graph(*GRAPHS["K64"])  # nor do nodes that look alike to everyone
    label_graph(*GRAPHS["star"])


@pytest.mark.parametrize("name", GRAPHS)
def test_sparse_is_dense(name):
    colours, edges = GRAPHS[name]
    n = len(colours)
    index = edges.nonzero().T
    found = label_sparse(colours, index, edges[index[0], index[1]])
    order, moves = found.order, found.moves
    assert same(relabel((colours, edges), order), form((colours, edges)))
    orbits = node_orbits(colours, edges)
    assert torch.equal(orbits_sparse(moves, n), orbits)
    pairs = pair_orbits(colours, edges)[index[0], index[1]]
    found = edge_orbits_sparse(index, moves, n)
    assert torch.equal(found.unsqueeze(0) == found.unsqueeze(1), pairs.unsqueeze(0) == pairs.unsqueeze(1))


def test_sparse_batch():
    shapes = [SHAPES[name] for name in ("petersen", "grid", "one node", "petersen", "matching")]
    whole = torch.block_diag(*shapes)
    batch = torch.arange(len(shapes)).repeat_interleave(torch.tensor([len(s) for s in shapes]))
    p = torch.randperm(len(whole))
    zero = torch.zeros(len(whole), dtype=torch.int64)
    found = label_sparse(zero, whole[p][:, p].nonzero().T, batch=batch[p])
    order, moves = found.order, found.moves
    expected = torch.block_diag(*[form(plain(s))[1] for s in shapes])
    assert torch.equal(whole[p][:, p][order][:, order], expected)
    orbits = orbits_sparse(moves, len(whole))
    assert len(orbits.unique()) == 1 + len(node_orbits(*plain(SHAPES["grid"])).unique()) + 1 + 1 + 1


def test_large_sparse_graph():
    n, e = 20_000, 60_000
    index = torch.randint(0, n, (2, e))
    index = index[:, index[0] != index[1]]
    index = torch.cat([index, index.flip(0)], 1).unique(dim=1)
    zero = torch.zeros(n, dtype=torch.int64)

    def canonical(index):
        order = label_sparse(zero, index).order
        place = torch.empty_like(order).index_copy(0, order, torch.arange(n))
        return place[index].unique(dim=1)

    assert torch.equal(canonical(torch.randperm(n)[index]), canonical(index))


def polygon(n):
    angle = torch.arange(n, dtype=torch.float64) * 2 * math.pi / n
    return torch.stack([angle.cos(), angle.sin()], -1)


def lattice(k):
    axis = torch.arange(k, dtype=torch.float64) - (k - 1) / 2
    return torch.cartesian_prod(axis, axis, axis)


def prism(n):
    heights = torch.tensor([[1.0], [-1.0]], dtype=torch.float64).repeat_interleave(n, 0)
    return torch.cat([polygon(n).repeat(2, 1), heights], -1)


CLOUDS = {"polygon": (polygon(50), 100), "lattice": (lattice(4), 48), "prism": (prism(24), 96)}


@pytest.mark.parametrize("name", CLOUDS)
def test_clouds_are_labelled_without_a_library(monkeypatch, name):
    x, expected = CLOUDS[name]
    edges = cluster_edges((x @ x.mT).unsqueeze(-1), 1e-9)
    graph = plain(edges)
    theirs = group_order(torch.tensor(backends.get().automorphisms(*by_hand(edges))))
    monkeypatch.setattr(backends, "get", lambda name: pytest.fail("asked for a library"))
    order, generators = label_graph(*graph)
    assert group_order(generators) == expected == theirs
    assert len(generators) <= math.log2(expected)
    for g in generators:
        assert same(relabel(graph, g), graph)
    p = torch.randperm(len(x))
    assert same(form(relabel(graph, p)), relabel(graph, order))


def by_hand(edges):
    """A graph as a backend takes it."""
    low = int(edges.min()) - 1
    colours = (edges.diagonal() - low).tolist()
    n = range(len(edges))
    return colours, [(i, j, int(edges[i, j]) - low) for i in n for j in n if i != j]


def test_search_leaves_what_it_cannot_prove():
    assert search(*plain(union(complete(3), complete(3), cycle(6)))) is None  # one cell, two orbits
    assert search(*plain(SHAPES["K32,32"])) is None  # too long a path
    assert search(*plain(cycle(300))) is None  # too many leaves


@pytest.mark.parametrize("name", ["Q3", "Q4", "petersen", "paley 7", "paley 13", "C100", "grid", "weighted Q5"])
def test_search_agrees_with_the_library(name):
    colours, edges = GRAPHS[name]
    edges, colours = edges - edges.diagonal().diag(), colours * 9 + edges.diagonal()
    order, generators = search(colours, edges)
    assert group_order(generators) == group_order(label_graph(colours, edges)[1])
    p = torch.randperm(len(order))
    moved = relabel((colours, edges), p)
    assert same(relabel(moved, search(*moved)[0]), relabel((colours, edges), order))


def test_forced_search_on_all_families(monkeypatch):
    monkeypatch.setattr(pieces, "MIN_SEARCHED_ARCS", 0)
    for graph in GRAPHS.values():
        expected = form(graph)
        p = torch.randperm(len(graph[0]))
        assert same(form(relabel(graph, p)), expected)


def test_layers_are_logarithmic():
    n = 12
    arcs = [(i, j, 1 + min(i, j) * n + max(i, j)) for i in range(n) for j in range(n) if i != j]
    graph = layered([0] * n, arcs)
    assert graph.vertices == n * 8  # codes up to 132 have eight bits
    assert len(graph.edges) <= 8 * n * (n - 1) / 2 + 7 * n
    arrows = layered([0] * n, [(i, j, 1) for i, j, _ in arcs if i < j])
    assert arrows.vertices == 3 * n


def test_versions():
    assert backend_version("igraph").startswith("igraph ")
    assert backend_version("igraph").endswith("(bliss)")
    pytest.importorskip("pynauty")
    assert backend_version("pynauty").endswith("(nauty)")
    with pytest.raises(ValueError, match=r"igraph.*got 'saucy'"):
        backend_version("saucy")


def test_canonical_orders_are_what_they_were():
    # If this fails, raise backend.LABELLING_VERSION, so that models trained on the old orders are not run on the new ones.
    i = torch.arange(50 * 9 * 9).view(50, 9, 9)
    edges = ((i * i * 7919 + i * 104729) % 13).triu(1)
    order, generators = label(torch.zeros(50, 9, dtype=torch.int64), edges + edges.mT)
    assert not any(len(g) for g in generators)
    assert (backends.LABELLING_VERSION, zlib.crc32(order.numpy().tobytes())) == (2, 1911315005)


def test_missing_library_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    backends.get.cache_clear()
    monkeypatch.setattr(backends.importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install igraph$"):
        label_graph(*GRAPHS["petersen"])
    backends.get.cache_clear()


def test_convention_is_found_out():
    right = backends.get("igraph")
    assert lists_vertices(right.label)
    assert not lists_vertices(lambda graph: inverse(right.label(graph)))
    with pytest.raises(RuntimeError, match="another version"):
        lists_vertices(lambda graph: list(range(graph.vertices)))
    assert isinstance(pickle.loads(pickle.dumps(Layered(1, [0], []))), Layered)


@torch.no_grad()
def test_compile_and_export():
    class Canonical(torch.nn.Module):
        def forward(self, colours, edges, mask):
            order, refined = canonical_order(colours, edges, mask)
            orbits, pairs = node_orbits(refined, edges, mask), pair_orbits(refined, edges, mask)
            return permute_pairs(edges, order), orbits + 0, pairs + 0

    edges = (torch.rand(5, 9, 9) < 0.4).triu(1).long()
    edges = edges + edges.mT
    mask = torch.ones(5, 9, dtype=torch.bool)
    mask[1, 7:] = False
    arguments = edges.new_zeros(5, 9), edges, mask
    module = Canonical()
    expected = module(*arguments)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    exported = torch.export.export(module, arguments).module()
    for found in (compiled(*arguments), exported(*arguments)):
        assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("op", ["labelled", "orbitals"])
def test_operator_is_registered_properly(op):
    colours, edges = plain(SHAPES["petersen"])
    torch.library.opcheck(getattr(torch.ops.minframe, op).default, (colours, edges, None, "igraph"))
    mask = torch.arange(10) < 8
    torch.library.opcheck(
        getattr(torch.ops.minframe, op).default,
        (colours.expand(3, -1), edges.expand(3, -1, -1), mask.expand(3, -1), "igraph"),
    )


def test_an_accident_among_sums_costs_time_only(monkeypatch):
    path, star = torch.ones(3).diag(1).long(), torch.zeros(4, 4, dtype=torch.int64)
    star[0, 1:] = 1
    edges = union(path + path.mT, star + star.mT, path + path.mT)
    one_cell = torch.zeros(12, dtype=torch.int64)

    def kinds():
        return len(residual(one_cell, Arcs.of_dense(edges.unsqueeze(0))).patterns)

    expected = form((one_cell, edges))
    assert kinds() == 2
    monkeypatch.setattr(residuals, "_factors", lambda bits: torch.zeros(2**bits, dtype=torch.int64))
    assert kinds() == 3  # all sums agree, and all pieces are looked at
    assert same(form((one_cell, edges)), expected)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("listed", [False, True])
def test_a_call_labels_a_graph_once(listed, compiled, monkeypatch):
    """The canonical order, node outputs, sizes and orbits come from one refinement and one question of each kind."""
    asked = []
    if not compiled:
        monkeypatch.setattr(native, "_graphs", None)
    elif native._graphs is None:
        pytest.skip("built without a C compiler")

    def counted(place, name):
        function = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *args, **kwargs: asked.append(name) or function(*args, **kwargs))

    counted(labellings, "refine_sparse" if listed else "refine")
    counted(labellings, "residual")
    counted(backends.Backend, "order")
    counted(backends.Backend, "automorphisms")
    monkeypatch.setattr(parallel, "MAX_REMEMBERED_ARCS", -1)  # nothing is remembered
    edges = cycle(50)
    edges[0, 25] = edges[25, 0] = 1
    graph = edges.nonzero().T if listed else edges
    model = mf.Equivariant(lambda e: torch.arange(50.0), mf.S(), "edge_index" if listed else "edge", "node")
    found = model(graph)
    slow = [] if compiled else ["refine_sparse" if listed else "refine", "residual"]
    assert sorted(asked) == ["automorphisms", "order", *slow]
    assert len(found.unique()) == 13  # orbits
    asked.clear()
    mf.Invariant(lambda e: e.sum(), mf.S(), "edge_index" if listed else "edge")(graph)
    assert "automorphisms" not in asked
