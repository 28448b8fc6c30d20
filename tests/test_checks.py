"""What bad input gets: an error that names the argument, what was received and what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import minframe as mf
from minframe.checks import check_installed

X = torch.randn(4, 5, 3)
FULL = torch.ones(4, 5, dtype=torch.bool)
NET = torch.nn.Linear(3, 3)


def with_nan() -> torch.Tensor:
    x = X.clone()
    x[2, 1, 0] = torch.nan
    return x


def pair(pos: torch.Tensor, vel: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return pos, vel


def without_points_in_sample_two() -> torch.Tensor:
    mask = FULL.clone()
    mask[2] = False
    return mask


CASES: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    (
        "wrong last axis",
        lambda: mf.O(3).frame(torch.randn(4, 5, 2)),
        ValueError,
        r"x must have shape \(\*batch, n, 3\) for O\(3\), got \(4, 5, 2\)",
    ),
    ("a single vector", lambda: mf.O(3).frame(torch.randn(3)), ValueError, r"x must have shape .* got \(3,\)"),
    (
        "integers",
        lambda: mf.E(3).frame(torch.ones(4, 5, 3, dtype=torch.long)),
        TypeError,
        r"x must have a real floating dtype for E\(3\), got torch.int64: convert",
    ),
    (
        "complex numbers",
        lambda: mf.O(3).frame(X.to(torch.complex64)),
        TypeError,
        "real floating dtype .* got torch.complex64",
    ),
    ("no tensor", lambda: mf.O(3).frame([[1.0, 2.0, 3.0]]), TypeError, "x must be a torch.Tensor, got list: convert"),
    ("NaN", lambda: mf.O(3).frame(with_nan()), ValueError, "NaN or infinite coordinates .* sample 2 of 4.*mask="),
    ("infinity", lambda: mf.SE(3).frame(with_nan().nan_to_num(torch.inf)), ValueError, "NaN or infinite .* sample 2"),
    ("NaN, translation", lambda: mf.Translation(3).frame(with_nan()), ValueError, "NaN or infinite .* sample 2"),
    ("empty cloud", lambda: mf.O(3).frame(torch.randn(4, 0, 3)), ValueError, r"x has no points, shape \(4, 0, 3\)"),
    (
        "mask shape",
        lambda: mf.O(3).frame(X, mask=torch.ones(4, 6, dtype=torch.bool)),
        ValueError,
        r"mask must have shape \(4, 5\), one entry per point, got \(4, 6\)",
    ),
    (
        "mask dtype",
        lambda: mf.O(3).frame(X, mask=FULL.float()),
        TypeError,
        r"mask must be a boolean tensor .* got torch.float32: use for example mask.bool",
    ),
    (
        "mask without points",
        lambda: mf.O(3).frame(X, mask=without_points_in_sample_two()),
        ValueError,
        r"mask leaves sample 2 with no points",
    ),
    (
        "batch shape",
        lambda: mf.O(3).frame(X[0], batch=torch.zeros(4, dtype=torch.long)),
        ValueError,
        r"batch must have shape \(5,\), .* got \(4,\)",
    ),
    (
        "batch dtype",
        lambda: mf.O(3).frame(X[0], batch=torch.zeros(5)),
        TypeError,
        "batch must be an integer tensor .* got torch.float32",
    ),
    (
        "batch with a gap",
        lambda: mf.O(3).frame(X[0], batch=torch.tensor([0, 0, 2, 2, 2])),
        ValueError,
        "batch leaves sample 1 of 3 with no points: renumber",
    ),
    (
        "batch beyond its size",
        lambda: mf.O(3).frame(X[0], batch=torch.tensor([0, 0, 1, 1, 1]), batch_size=1),
        ValueError,
        "batch has the sample number 1, counted from 0, but there are said to be 1 samples: correct one",
    ),
    (
        "batch with empty samples behind",
        lambda: mf.canonicalize(X[0], mf.O(3), batch=torch.tensor([0, 0, 1, 1, 1]), batch_size=3),
        ValueError,
        "batch leaves sample 2 of 3 with no points",
    ),
    (
        "batch size that has to be read",
        lambda: mf.O(3).frame(X[0], batch=torch.tensor([0, 0, 1, 1, 1]), batch_size=torch.tensor(2)),
        TypeError,
        "batch_size must be an integer, the number of samples, got Tensor",
    ),
    (
        "batch size without a batch",
        lambda: mf.Equivariant(torch.sin, mf.O(3), batch_size="size"),
        ValueError,
        "batch_size names 'size', the number of samples of a batch vector: name that in batch=",
    ),
    (
        "negative batch",
        lambda: mf.O(3).frame(X[0], batch=torch.tensor([0, 0, -1, 1, 1])),
        ValueError,
        r"batch has negative sample numbers \(smallest -1\)",
    ),
    (
        "batch for a dense cloud",
        lambda: mf.O(3).frame(X, batch=torch.zeros(5, dtype=torch.long)),
        ValueError,
        r"batch must have shape \(4,\), .* points of shape \(4, 5, 3\)",
    ),
    (
        "mask and batch",
        lambda: mf.O(3).frame(X[0], mask=FULL[0], batch=torch.zeros(5, dtype=torch.long)),
        ValueError,
        "give mask= or batch=, not both",
    ),
    (
        "unknown type",
        lambda: mf.O(3).act(mf.O(3).random(), X, "spinor"),
        ValueError,
        r"O\(3\) has no type 'spinor': use one of scalar, ",
    ),
    (
        "frame of a tensor",
        lambda: mf.O(3).frame(X, type="tensor"),
        ValueError,
        "a frame of O.3. is taken of a 'point' or 'vector' input, got type 'tensor'",
    ),
    (
        "frame of vectors only",
        lambda: mf.E(3).frame(X, type="vector"),
        ValueError,
        r"a frame of E\(3\) needs a 'point' among its inputs",
    ),
    ("dimension zero", lambda: mf.SO(0), ValueError, "SO needs a dimension of at least 1, got 0"),
    ("dimension of the wrong kind", lambda: mf.E(3.0), TypeError, r"E needs an integer dimension, got 3\.0"),
    (
        "output of the wrong shape",
        lambda: mf.Equivariant(lambda x: x[..., :2], mf.O(3))(X),
        ValueError,
        r"output of type 'point' must have shape \(4, \.\.\., 3\), got \(4, 5, 2\)",
    ),
    (
        "output without its batch",
        lambda: mf.Equivariant(lambda x: x[0], mf.O(3))(X),
        ValueError,
        r"output of type 'point' must have shape \(4, \.\.\., 3\), got \(5, 3\)",
    ),
    (
        "tuple where one output was declared",
        lambda: mf.Equivariant(lambda x: (x, x), mf.O(3))(X),
        TypeError,
        "output has type 'point' but is a tuple",
    ),
    (
        "one output where two were declared",
        lambda: mf.Equivariant(lambda x: x, mf.O(3), outputs=("point", "point"))(X),
        TypeError,
        "output must be a tuple of 2, as its types say, got Tensor",
    ),
    (
        "outputs of other names",
        lambda: mf.Equivariant(lambda x: {"a": x}, mf.O(3), outputs={"b": "point"})(X),
        ValueError,
        r"output has the entries \['a'\], but its types name \['b'\]",
    ),
    (
        "unknown argument",
        lambda: mf.Equivariant(pair, mf.O(3), {"position": "point"}),
        ValueError,
        "backbone has no argument 'position' to give a type to; it has: pos, vel",
    ),
    (
        "unknown type of an argument",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "dot"}),
        ValueError,
        "has no type 'dot'",
    ),
    (
        "type that is no name",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": 3}),
        TypeError,
        "pos must be a type name such as 'vector'",
    ),
    (
        "frame_on without a type",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point"}, frame_on="vel"),
        ValueError,
        "frame_on names 'vel', which has no type; inputs gives types to: pos",
    ),
    (
        "frame_on a scalar",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point", "vel": "scalar"}, frame_on="vel"),
        ValueError,
        "got type 'scalar'",
    ),
    (
        "nothing to take a frame of",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "scalar"}),
        ValueError,
        "no input determines a frame of O",
    ),
    ("only vectors for E", lambda: mf.Equivariant(pair, mf.E(3), {"pos": "vector"}), ValueError, "needs a 'point'"),
    (
        "missing input",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point"})(vel=X),
        TypeError,
        "determined by pos, but the call gave none",
    ),
    (
        "wrong shape of a named input",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point", "vel": "vector"})(X, X[..., :2]),
        ValueError,
        r"vel must have shape .* got \(4, 5, 2\)",
    ),
    (
        "another batch in a second input",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point", "vel": "vector"})(X, X[:3]),
        ValueError,
        r"vel of type 'vector' must have shape \(4, \.\.\., 3\), got \(3, 5, 3\)",
    ),
    (
        "another batch in a tensor input",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point", "vel": "tensor"})(X, torch.randn(4, 3)),
        ValueError,
        r"vel of type 'tensor' must have shape \(4, \.\.\., 3, 3\), got \(4, 3\)",
    ),
    (
        "no tensor for a typed input",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point", "vel": "tensor"})(X, 3.0),
        TypeError,
        "vel has type 'tensor' and must be a tensor, got float",
    ),
    (
        "ragged output of the wrong length",
        lambda: mf.Equivariant(lambda x: x[:4], mf.O(3), batch="batch")(X[0], batch=torch.tensor([0, 0, 1, 1, 1])),
        ValueError,
        r"5 rows in 2 samples, .* got shape \(4, 3\)",
    ),
    (
        "one mask entry per sample",
        lambda: mf.O(3).frame(X, mask=FULL[:, 0]),
        ValueError,
        r"mask must have shape \(4, 5\), .* got \(4,\)",
    ),
    (
        "mask of one empty sample",
        lambda: mf.O(3).frame(X[0], mask=~FULL[0]),
        ValueError,
        "mask leaves the sample with no points",
    ),
    (
        "batch with a huge number",
        lambda: mf.O(3).frame(X[0], batch=torch.tensor([0, 1, 2, 3, 10**12])),
        ValueError,
        "has the sample number 1000000000000 but only 5 rows",
    ),
    (
        "integers outside the frame",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point", "vel": "vector"}, frame_on="pos")(X, X.long()),
        TypeError,
        "vel of type 'vector' must be a real floating tensor, got torch.int64",
    ),
    (
        "integers in an action",
        lambda: mf.O(3).act(mf.O(3).random(), X.long()),
        TypeError,
        "must be a real floating tensor, got torch.int64",
    ),
    ("element of another group", lambda: mf.O(3).act(mf.E(3).random(4), X), ValueError, r"g is no element of O\(3\)"),
    (
        "action on another dimension",
        lambda: mf.O(3).act(mf.O(3).random(4), X[..., :2]),
        ValueError,
        r"x of type 'point' must have shape \(4, \.\.\., 3\), got \(4, 5, 2\)",
    ),
    ("canonicalize without a group", lambda: mf.canonicalize(X, "O(3)"), TypeError, "group must be a group"),
    (
        "name of the argument with NaN",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point"}, "point")(with_nan(), X),
        ValueError,
        "pos has NaN",
    ),
    (
        "frame_on nothing",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": "point"}, frame_on=[]),
        ValueError,
        "frame_on is empty",
    ),
    (
        "frames that are no method",
        lambda: mf.Equivariant(NET, mf.O(3), frames=5),
        TypeError,
        "frames must be a method such as mf.frames.Minimal",
    ),
    (
        "mask given to the constructor",
        lambda: mf.Equivariant(NET, mf.O(3), mask=FULL),
        TypeError,
        "mask must be the name of an argument, such as 'mask', got Tensor",
    ),
    ("no outputs", lambda: mf.Equivariant(NET, mf.O(3), outputs=None), TypeError, "outputs must be a type name"),
    (
        "points missing in the call",
        lambda: mf.Equivariant(pair, mf.E(3), {"pos": "point", "vel": "vector"})(None, X),
        ValueError,
        "needs a 'point'",
    ),
    (
        "tested output that is no tensor",
        lambda: mf.testing.equivariance_error(lambda x: {"y": x}, mf.O(3), X),
        TypeError,
        "output has type 'point' but is a dict",
    ),
    ("no backbone", lambda: mf.Equivariant(3, mf.O(3)), TypeError, "backbone must be a module or a function, got int"),
    (
        "no group",
        lambda: mf.Equivariant(NET, "O(3)"),
        TypeError,
        r"group must be a group such as mf.E\(3\), got 'O\(3\)'",
    ),
    (
        "dict input that is no dict",
        lambda: mf.Equivariant(pair, mf.O(3), {"pos": {"x": "point"}, "vel": "vector"})(X, X),
        TypeError,
        r"pos must be a dict with \['x'\], as its types say, got Tensor",
    ),
    (
        "not equivariant",
        lambda: mf.testing.assert_equivariant(NET, mf.O(3), X),
        AssertionError,
        r"not equivariant to O\(3\) on given inputs: relative error .* > 1e-05 in sample \d; 4 of 4 samples fail",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_message(call: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_data_checks_can_be_switched_off() -> None:
    with mf.unchecked():
        assert mf.O(3).frame(with_nan()).element[2].isnan().any()
        assert not mf.O(3).frame(with_nan()).element[:2].isnan().any()  # other samples are untouched
    with pytest.raises(ValueError, match="NaN"):
        mf.O(3).frame(with_nan())


UNORDERED = mf.frames.Unordered()  # of S() and its products, the minimal frame
ALL = {
    "E(3)": mf.E(3),
    "GL(3)": mf.GL(3),
    "Translation(3)": mf.Translation(3),
    "SO(1, 2)": mf.SO(1, 2),
    "S()": mf.S(),
    "S() * SE(3)": mf.S() * mf.SE(3),
    "S() * GL(3)": mf.S() * mf.GL(3),
    "without row order": mf.SE(3),
}
EDGE_INDEX = torch.tensor([[0, 1, 2], [1, 2, 0]])
STORED: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "meta": (lambda x: x.to("meta"), "is on the device 'meta' and has no values.*real device"),
    "coo": (lambda x: x.to_sparse(), r"must be a dense tensor, got the layout torch.sparse_coo: .*to_dense\(\)"),
    "nested": (
        lambda x: torch.nested.as_nested_tensor(x, layout=torch.jagged),
        "must be a dense tensor, got the layout torch.jagged: pad it",
    ),
}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", ALL)
def test_tensors_without_values_in_memory(name: str, stored: str) -> None:
    group, (change, message) = ALL[name], STORED[stored]
    for call in (
        lambda: mf.Equivariant(lambda x: x, group, frames=UNORDERED)(change(X)),
        lambda: group.frame(change(X)),
        lambda: group.frame(X).from_canonical(change(X)) if name != "S()" else group.frame(change(X)),
        lambda: mf.canonicalize(change(X), group),
        lambda: mf.canonicalize(change(X), group, frames=UNORDERED),
    ):
        with pytest.raises(TypeError, match=f"(x|y|output) {message}"):
            call()


@pytest.mark.parametrize("stored", ["meta", "coo"])
def test_masks_and_graphs_without_values_in_memory(stored: str) -> None:
    change, message = STORED[stored]
    calls: list[tuple[str, Callable[[], object]]] = [
        ("mask", lambda: mf.O(3).frame(X, mask=change(FULL))),
        ("batch", lambda: mf.O(3).frame(X[0], batch=change(torch.zeros(5, dtype=torch.int64)))),
        ("x", lambda: mf.S().frame(change(torch.eye(4)), "edge")),
        ("x", lambda: mf.S().frame(change(EDGE_INDEX), "edge_index")),
        ("edges", lambda: mf.graph.automorphism_group(change(torch.eye(4)))),
        ("a", lambda: mf.graph.is_isomorphic(change(torch.eye(4)), torch.eye(4))),
        ("x", lambda: mf.point_group(change(torch.eye(4)))),
    ]
    for name, call in calls:
        with pytest.raises(TypeError, match=f"{name} {message}"):
            call()


@pytest.mark.parametrize("name", ["S() * SE(3)", "S() * GL(3)", "without row order"])
def test_vmap_where_values_are_looked_at(name: str) -> None:
    group = ALL[name]
    model = mf.Equivariant(lambda x: x.tanh(), group, frames=UNORDERED)
    with pytest.raises(NotImplementedError, match=r"values of x, which torch.vmap does not allow.*\(\*batch, n"):
        torch.func.vmap(model)(X)
    with pytest.raises(NotImplementedError, match=r"torch\.vmap does not allow"):
        torch.func.vmap(torch.func.grad(lambda x: model(x).sum()))(X)
    torch.func.grad(lambda x: model(x).square().sum())(X)  # other transforms go through
    torch.func.jacrev(model)(X[0])


def test_vmap_over_graphs() -> None:
    with pytest.raises(NotImplementedError, match=r"frames of S\(\) of graphs look at the values of x"):
        torch.func.vmap(lambda a: mf.S().frame(a, "edge").order)(torch.ones(3, 4, 4))
    with pytest.raises(NotImplementedError, match="look at the values of x"):
        torch.func.vmap(lambda e: mf.S().frame(e, "edge_index").order)(EDGE_INDEX.repeat(3, 1, 1))


@pytest.mark.parametrize("nodes", [None, 3])
def test_negative_nodes(nodes: int | None) -> None:
    with pytest.raises(ValueError, match="edge_index has the negative node -2: nodes are counted from 0"):
        mf.graph.canonical_form_sparse(EDGE_INDEX - 2, num_nodes=nodes)
    with pytest.raises(ValueError, match="edge_index has nodes up to 4, but there are 3, counted from 0"):
        mf.graph.canonical_form_sparse(EDGE_INDEX + 2, num_nodes=3)


TETRAHEDRON = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1], [0, 0, 0]])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", ALL)
def test_a_sample_with_nan(name: str, bad: float) -> None:
    """An error that names the sample where data may be looked at; elsewhere it is NaN, and the others are not."""
    group = ALL[name]
    x = torch.stack([TETRAHEDRON, X[0], X[1], 2 * TETRAHEDRON]).double()
    model = mf.Equivariant(lambda x: x * 2, group, frames=UNORDERED)
    plain = model(x)
    x[2, 1, 0] = bad
    with pytest.raises(ValueError, match=r"NaN or infinite .* in sample 2 of 4"):
        model(x)
    with mf.unchecked():
        quiet = model(x)
    torch._dynamo.reset()
    for found in (quiet, torch.compile(model, backend="eager", fullgraph=True)(x)):
        assert (~found[2].isfinite()).any()
        torch.testing.assert_close(found[[0, 1, 3]], plain[[0, 1, 3]])


@pytest.mark.parametrize("name", ["S() * SE(3)", "without row order"])
def test_nan_in_what_tells_rows_apart(name: str) -> None:
    model = mf.Equivariant(lambda x, h: x * 2, ALL[name], {"x": "point", "h": "node"}, frames=UNORDERED)
    x, h = TETRAHEDRON.expand(3, 5, 3).clone(), torch.ones(3, 5)
    plain = model(x, h)
    h[1, 0] = torch.nan
    with pytest.raises(ValueError, match="NaN or infinite"):
        model(x, h)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(x, h)[::2], plain[::2])


@pytest.mark.parametrize(("name", "module"), [("ase", "minframe.ase"), ("torch_geometric", "minframe.pyg")])
def test_a_script_that_hides_a_package_is_named(
    name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / f"{name}.py"
    script.write_text("")
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=rf"{module} needs .* {re.escape(str(script))}, which hides it: rename"):
        check_installed(name, "it", module, name)
    with pytest.raises(ImportError, match="not installed: pip install nowhere"):
        check_installed("not_there_at_all", "it", module, "nowhere")


def test_rows_and_samples_of_one_number_in_another_order():
    def summed(x, batch):
        return x.new_zeros(int(batch.max()) + 1, 3).index_add(0, batch, x)

    x = torch.randn(3, 3)
    model = mf.Equivariant(summed, mf.O(3), "vector", "vector", batch="batch")
    assert torch.allclose(model(x, batch=torch.arange(3)), x, atol=1e-5)
    with pytest.raises(ValueError, match="Sort the rows by batch"):
        model(x, batch=torch.tensor([2, 0, 1]))


@pytest.mark.parametrize("shape", [(0, 2), (3, 2), (5, 2), (3, 3), (2, 2, 2), (1, 0), (4,), ()], ids=str)
def test_edge_index_of_another_shape(shape):
    model = mf.Equivariant(lambda x, e: x, mf.S(), inputs={"x": "node", "e": "edge_index"}, outputs="node")
    edges = torch.zeros(shape, dtype=torch.long)
    with pytest.raises(ValueError, match=r"must have shape \(2, E\)"):
        model(torch.randn(4, 2), edges)
    with pytest.raises(ValueError, match=r"must have shape \(2, E\)"):
        mf.graph.canonical_form_sparse(edges, num_nodes=4)


def test_small_mistakes_are_named():
    with pytest.raises(ValueError, match="chunk must be a number of poses"):
        mf.frames.Smooth(chunk=0)
    with pytest.raises(ValueError, match="mask names 'x'"):
        mf.Equivariant(lambda x: x, mf.O(3), mask="x")
    with pytest.raises(TypeError, match="returned None"):
        mf.Equivariant(lambda x: None, mf.O(3))(torch.randn(4, 3))
    model = mf.Invariant(lambda x: x.sum((-1, -2)), mf.O(3), frames=mf.frames.Smooth())
    with pytest.raises(NotImplementedError, match=r"torch\.vmap"):
        torch.vmap(model)(torch.randn(2, 4, 3))
