"""What the private names of PyTorch in ``minframe.tracing`` say, in each of the situations they are there for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from minframe import tracing

PRIVATE = re.compile(r"\btorch(\.\w+)*\._\w|\bfrom torch\S* import [^\n]*\b_\w|\bfunctorch\b|_dynamo")


def test_private_names_stand_in_one_file() -> None:
    folder = Path(tracing.__file__).parent
    found = {str(p.relative_to(folder)) for p in folder.rglob("*.py") if PRIVATE.search(p.read_text())}
    assert found == {"tracing.py"}


class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_compiling() -> None:
    assert not tracing.is_compiling()
    compiled = torch.compile(lambda x: x + tracing.is_compiling(), backend="eager", fullgraph=True)
    assert compiled(torch.zeros(())) == 1


@pytest.mark.parametrize("transform", [torch.func.vmap, lambda f: lambda x: torch.func.jvp(f, (x,), (x,))[0]])
def test_transforms(transform: Any) -> None:
    seen: list[bool] = []

    def look(x: Tensor) -> Tensor:
        seen.append(tracing.is_transformed(x) and tracing.has_tangent(x))
        return x * x

    transform(look)(torch.ones(3))
    assert seen == [True]
    assert not tracing.is_transformed(torch.ones(3))


def test_maps_are_seen_below_derivatives() -> None:
    seen: list[bool] = []

    def look(x: Tensor) -> Tensor:
        seen.append(tracing.is_mapped(x))
        return (x * x).sum()

    torch.func.grad(look)(torch.ones(3))
    torch.func.vmap(torch.func.grad(look))(torch.ones(2, 3))
    assert seen == [False, True]


def test_transforms_are_seen_while_compiling() -> None:
    def look(x: Tensor) -> Tensor:
        return x * tracing.is_inside_transform() * tracing.has_tangent(x)

    compiled = torch.compile(look, backend="eager", fullgraph=True)
    assert compiled(torch.ones(())) == 0
    assert torch.compile(torch.func.grad(look), backend="eager", fullgraph=True)(torch.ones(())) == 1
    assert torch.compile(lambda x: torch.func.jvp(look, (x,), (x,))[1], backend="eager")(torch.ones(())) == 1
    assert compiled(torch.ones(())) == 0
    assert not tracing.is_inside_transform()
    with forward_ad.dual_level():
        assert tracing.is_inside_transform()


def test_tangents() -> None:
    x = torch.ones(3)
    assert not tracing.has_tangent(x)
    assert tracing.has_tangent(torch.ones(3, requires_grad=True))
    with torch.no_grad():
        assert not tracing.has_tangent(torch.ones(3, requires_grad=True))
    with forward_ad.dual_level():
        assert not tracing.has_tangent(x)
        assert tracing.has_tangent(forward_ad.make_dual(x, x))


def test_what_is_watched_is_not_plain() -> None:
    x = torch.ones(3)
    assert tracing.is_plain(x)
    assert not tracing.is_plain(torch.ones(3, requires_grad=True))
    assert not tracing.is_plain(torch.nn.Parameter(torch.ones(3), requires_grad=False))
    assert not tracing.is_plain(torch.ones(3, dtype=torch.complex64).conj().imag)
    with Watch():
        assert not tracing.is_plain(x)
    seen: list[bool] = []

    def look(x: Tensor) -> Tensor:
        seen.append(not tracing.is_plain(x))
        return x + 1

    torch.jit.trace(look, torch.ones(3), check_trace=False)
    assert seen == [True]


def test_constants_are_found_once() -> None:
    calls: list[int] = []

    @tracing.constant_while_compiling
    def looked_up() -> int:
        calls.append(1)
        return 3

    compiled = torch.compile(lambda x: x * looked_up(), backend="eager", fullgraph=True)
    assert [float(compiled(torch.ones(()))) for _ in range(3)] == [3, 3, 3]
    assert len(calls) == 1


def test_trees() -> None:
    class Pair(NamedTuple):
        a: int
        b: dict[str, int]

    assert tracing.tree_map(lambda x, y: x + y, Pair(1, {"c": 2}), Pair(10, {"c": 20})) == Pair(11, {"c": 22})


def test_sizes_that_depend_on_the_data() -> None:
    tracing.assume_positive(1)
    with pytest.raises(RuntimeError):
        tracing.assume_positive(0)


def test_batched_gradients_have_no_memory() -> None:
    """``is_grads_batched`` hands a backward pass tensors that stand for many, and are no transform's."""
    seen: list[bool] = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            seen.append(tracing.is_plain(g))
            return g * 1

    x = torch.ones(3, requires_grad=True)
    y = Look.apply(x)
    torch.autograd.grad(y, x, torch.ones(3), retain_graph=True)
    torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
    assert seen == [True, False]
