"""The decomposition as an operator: the same results under compilers and transforms as in eager mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import minframe as mf
from minframe.layout import Dense, Layout, Ragged
from minframe.linalg import loops, native, operators, orientation
from minframe.linalg.rows import Precision, Rows
from table import clouds_for

OPERATOR = torch.ops.minframe.pivoted_qr.default


def cases() -> Iterator[tuple[Rows, bool]]:
    """Rows in all the ways in which they are given."""
    torch.manual_seed(0)
    x = torch.randn(2, 4, 7, 3, dtype=torch.float64)
    x[0, 1, :, 2] = 0
    mask = torch.rand(2, 4, 7) > 0.3
    mask[..., 0] = True
    batch = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    sparse = Ragged(batch, 3)
    fine, single = Precision(1e-16, 1e-12), Precision(1e-7, 1e-5)
    mean = x.mean(-2)
    few = Rows(x, Dense((2, 4), 7), Precision(1e-16, 1e-12, torch.full((2, 4, 1), 1e-3, dtype=torch.float64)))
    some = torch.rand(2, 4) > 0.5
    for special in (False, True):
        yield Rows(x, Dense((2, 4), 7), fine), special
        yield Rows(x, Dense((2, 4), 7), fine, mean, True), special
        yield Rows(x, Dense((2, 4), 7), fine, mean, some), special
        yield Rows(x * mask.unsqueeze(-1), Dense((2, 4), 7, mask), fine), special
        yield Rows(x.float(), Dense((2, 4), 7), single, row_floor=torch.full((2, 4, 7), 1e-9, dtype=x.dtype)), special
        yield Rows(x[0, 0], sparse, Precision(1e-16, 1e-12, 1e-12)), special
        yield Rows(torch.complex(x, x.flip(-1)), Dense((2, 4), 7), fine), special
        yield few, special


@pytest.mark.parametrize("number", range(16))
def test_the_operator_decomposes_as_eager_mode_does(number: int) -> None:
    case = list(cases())[number]
    want, found = loops.pivoted_qr(*case), operators.pivoted_qr(*case)
    for name in ("determined", "basis", "positions", "peaks"):
        assert torch.equal(getattr(found, name), getattr(want, name)), name
    dtype = case[0].values.dtype
    assert torch.equal(found.pose(dtype), want.pose(dtype))
    if case[0].longest is True:
        none = torch.zeros_like(want.determined[..., 0])
        assert torch.equal(found.tied, none if want.tied is None else want.tied)  # type: ignore[arg-type]


PRECISION = Precision(1e-16, 1e-12, of_rank=(4e-16, 1e-12))


def dense_cases() -> Iterator[tuple[Tensor, Dense]]:
    """Rows that the operators without derivatives take."""
    x = torch.randn(2, 4, 7, 3, dtype=torch.float64)
    x[0, 1, :, 2] = 0
    x[1, 1, 2, 0] = torch.nan
    mask = torch.rand(2, 4, 7) > 0.3
    mask[..., 0] = True
    yield x, Dense((2, 4), 7)
    yield torch.where(mask.unsqueeze(-1), x, 0), Dense((2, 4), 7, mask)
    yield x[0].float(), Dense((4,), 7)
    yield torch.complex(x, x.flip(-1)).conj(), Dense((2, 4), 7)
    yield x[0, 0], Dense((), 7)


@pytest.mark.parametrize("special", [False, True])
def test_operators_without_derivatives_return_the_same(special: bool) -> None:
    for values, layout in dense_cases():
        with mf.unchecked():
            middle = loops.mean(values, layout)
        for origin in (None, middle):
            want = operators.pivoted_qr(Rows(values, layout, PRECISION, origin), special)
            both = [orientation.oriented(Rows(values, layout, PRECISION, origin), special)[0]]
            if origin is not None:
                found, mean = orientation.oriented(Rows(values, layout, PRECISION), special, about_mean=True)
                torch.testing.assert_close(mean, middle, rtol=0, atol=0, equal_nan=True)
                both.append(found)
            for found in both:
                assert torch.equal(found.determined, want.determined)
                torch.testing.assert_close(found.basis, want.basis, rtol=0, atol=0, equal_nan=True)
                poses = found.pose(values.dtype), want.pose(values.dtype)
                torch.testing.assert_close(*poses, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["oriented", "centred"])
def test_operators_without_derivatives_are_as_declared(name: str) -> None:
    operator, rule = getattr(torch.ops.minframe, name).default, (1e-7, 1e-5, 4e-7, 1e-5, True)
    for values, layout in dense_cases():
        if not values.isnan().any():
            torch.library.opcheck(operator, (values, layout.mask, None, *rule))
    many, mask = torch.randn(5, 2, 7, 3), torch.ones(2, 7, dtype=torch.bool)
    mapped = torch.vmap(lambda x: operator(x, mask, None, *rule))(many)
    for found, want in zip(mapped, operator(many, mask.expand(5, 2, 7), None, *rule), strict=True):
        assert torch.equal(found, want)


@pytest.mark.parametrize("group", [mf.O(3), mf.SE(3), mf.E(2)], ids=str)
def test_compiled_frames_without_derivatives_call_one_operator(group: mf.Group) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    x, mask = torch.randn(4, 6, group.d), torch.rand(4, 6) > 0.4  # type: ignore[attr-defined]
    mask[:, 0] = True
    for real in (None, mask):
        compiled = torch.compile(lambda x, real=real: mf.canonicalize(x, group, mask=real)[0], backend=backend)
        assert torch.equal(compiled(x), mf.canonicalize(x, group, mask=real)[0])
        called = [str(node.target) for node in graphs[-1].graph.nodes if "minframe" in str(node.target)]
        assert called == ["minframe.oriented" if isinstance(group, mf.O) else "minframe.centred"]
        assert not any("mean" in node.name for node in graphs[-1].graph.nodes if node.op == "call_method")


class Seen(TorchDispatchMode):
    """The arguments of the operator."""

    def __init__(self) -> None:
        super().__init__()
        self.args: list[tuple[object, ...]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if function is OPERATOR:
            self.args.append(args)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("case", [0, 1, 3, 4, 5, 6])
def test_its_shapes_and_strides_are_as_declared(case: int) -> None:
    with Seen() as seen:
        operators.pivoted_qr(*list(cases())[case])
    (args,) = seen.args
    torch.library.opcheck(OPERATOR, args)  # schema, fake kernel, derivatives that it does not have, dynamic shapes


def test_it_is_what_transforms_and_compilers_run(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    decompose = operators.DECOMPOSE[0]

    def counting(rows: Rows, special: bool) -> object:
        calls.append(tuple(rows.values.shape))
        return decompose(rows, special)

    def counting_oriented(x: Tensor, *others: object) -> object:
        calls.append(tuple(x.shape))
        return oriented(x, *others)  # type: ignore[arg-type]

    oriented = native.oriented
    monkeypatch.setattr(operators, "DECOMPOSE", [counting])
    monkeypatch.setattr(native, "oriented", counting_oriented)
    x = torch.randn(4, 6, 3, dtype=torch.float64)
    model = mf.Equivariant(lambda x: x * x.abs(), mf.SE(3))
    want = model(x)
    assert not calls
    torch.testing.assert_close(torch.vmap(model)(x), want)
    assert calls == [(4, 6, 3)]  # all at once
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    exported = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(compiled(x), want)
    torch.testing.assert_close(exported(x), want)
    assert calls[1:] == [(4, 6, 3)] * 2


def test_maps_over_a_batch_vector_and_over_some_arguments() -> None:
    x, batch = torch.randn(5, 7, 3, dtype=torch.float64), torch.tensor([0, 0, 0, 1, 1, 2, 2])

    def basis(x: Tensor, layout: Layout, origin: Tensor) -> Tensor:
        return operators.pivoted_qr(Rows(x, layout, Precision(1e-16, 1e-12), origin), False).basis

    ragged = Ragged(batch, 3)
    zero = torch.zeros(3, 3, dtype=x.dtype)
    found = torch.vmap(lambda x: basis(x, ragged, zero))(x)
    assert torch.equal(found, torch.stack([basis(part, ragged, zero) for part in x]))
    dense, middle = Dense((), 7), x.mean((0, 1))
    found = torch.vmap(lambda x: basis(x, dense, middle), in_dims=1)(x.movedim(0, 1))
    assert torch.equal(found, torch.stack([basis(part, dense, middle) for part in x]))


@pytest.mark.parametrize("group", [mf.O(3), mf.SE(3)], ids=str)
def test_maps_agree_on_every_family_of_clouds(group: mf.Group) -> None:
    model = mf.Equivariant(lambda x: x * x.abs() + x.roll(1, -2), group)
    for name, x in clouds_for(group).items():
        many = torch.stack([x, x.flip(-2)])
        torch.testing.assert_close(torch.vmap(model)(many), model(many), msg=name)


def test_samples_with_nan_are_nan_and_no_error() -> None:
    x = torch.randn(3, 5, 3, dtype=torch.float64)
    x[1, 0, 0] = torch.nan
    for context in (mf.unchecked(), native.disabled()):
        with context:
            pose = torch.vmap(lambda x: mf.canonicalize(x, mf.E(3))[0])(x)
        assert pose.isnan().all(-1).all(-1).tolist() == [False, True, False]


def test_the_rank_of_short_rows_is_that_of_eager_mode() -> None:
    """The operator has the tolerance relative to the root mean square too, which counts beside one long row."""
    x = torch.randn(8, 200, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1e-3, 1e-3, 3e-6])
    x[:, 0] = torch.tensor([1.0, 0.0, 0.0])

    pose = mf.Invariant(lambda x: x, mf.O(3))
    eager = pose(x)
    assert bool((eager[..., 2] != 0).any(-1).all())
    compiled = torch.compile(pose, backend="aot_eager", fullgraph=True)(x)
    assert torch.allclose(compiled, eager, rtol=1e-5, atol=1e-9)
