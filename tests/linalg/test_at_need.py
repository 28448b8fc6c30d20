"""Steps that few samples need, as operators: what they return and their derivatives, whoever needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.layout import Dense, Layout, Ragged
from minframe.linalg import at_need

DTYPES = [torch.float64, torch.complex128]
LEAD = (2, 3)


def matrices(dtype: torch.dtype) -> Tensor:
    return torch.randn(*LEAD, 3, 3, dtype=dtype) + 2 * torch.eye(3)


def needed() -> Iterator[Tensor]:
    """By all samples, by some, and by none."""
    for some in (lambda: torch.ones(LEAD), lambda: torch.tensor([[1, 0, 0], [0, 1, 1]]), lambda: torch.zeros(LEAD)):
        yield some().bool()


def cases(dtype: torch.dtype, here: Tensor) -> dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any]]]:
    """An operator, what it does, and its arguments; where nobody needs it, results are not looked at."""
    x, y = torch.randn(2, *LEAD, 4, 3, dtype=dtype).unbind()
    place = torch.tensor([2, 0, 1]).expand(*LEAD, 3)
    triangle = matrices(dtype).triu()
    columns = [here, matrices(dtype), triangle, place]
    mask = torch.rand(*LEAD, 4) > 0.3
    rows, real = x * mask.unsqueeze(-1), Dense(LEAD, 4, mask)
    batch = torch.tensor([0, 0, 0, 1])
    ragged = Ragged(batch, 2)
    keep = here.to(dtype)[..., None, None]

    def of_needed(run: Callable[..., Any]) -> Callable[..., Any]:
        def only(*args: Any) -> Any:
            found = run(*args)
            return found * keep if isinstance(found, Tensor) else tuple(part * keep for part in found)

        return only

    def scattered(layout: Layout) -> Callable[..., Tensor]:
        def run(x: Tensor, mask: Any, batch: Any, samples: int, matrix: Tensor, here: Tensor) -> Tensor:
            found: Tensor = layout.scatter(at_need._multiply(x, layout, matrix))
            return found

        return run

    ops = torch.ops.minframe
    return {
        "substituted": (ops.substituted, at_need._substitute, [y, x, *columns, matrices(dtype)]),
        "substituted, no C": (ops.substituted, at_need._substitute, [y, x, *columns, None]),
        "factored": (
            of_needed(ops.factored),
            of_needed(lambda matrix, here: tuple(torch.linalg.qr(matrix))),
            [matrices(dtype), here],
        ),
        "scattered": (
            of_needed(ops.scattered),
            of_needed(scattered(real)),
            [rows, mask, None, 0, matrices(dtype), here],
        ),
        "scattered, batch": (
            lambda *args: ops.scattered(*args) * here[0, 0],
            lambda *args: scattered(ragged)(*args) * here[0, 0],
            [x[0, 0], None, batch, 2, matrices(dtype)[0, :2], here[0, :2]],
        ),
    }


NAMES = list(cases(torch.float64, torch.ones(LEAD).bool()))


def leaves(args: list[Any]) -> list[Any]:
    number = [isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex()) for x in args]
    return [x.clone().requires_grad_() if wanted else x for x, wanted in zip(args, number, strict=True)]


def derivatives(run: Callable[..., Any], args: list[Any], order: int) -> tuple[Tensor, ...]:
    """The result, or the gradients of something nonlinear, or those of the same of these."""
    found = run(*args)
    parts = (found,) if isinstance(found, Tensor) else tuple(found)
    wanted = [x for x in args if isinstance(x, Tensor) and x.requires_grad]
    for k in range(order):
        total = sum((part * part.detach().roll(1, -1).conj() + part.pow(3)).real.sum() for part in parts)
        parts = torch.autograd.grad(total, wanted, create_graph=k + 1 < order, materialize_grads=True)  # type: ignore[arg-type]
    return parts


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_results_and_derivatives_are_those_of_what_it_does(name: str, dtype: torch.dtype, order: int) -> None:
    for here in needed():
        operator, plain, args = cases(dtype, here)[name]
        args = leaves(args)
        for found, want in zip(derivatives(operator, args, order), derivatives(plain, args, order), strict=True):
            torch.testing.assert_close(found, want, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_as_declared(name: str) -> None:
    for here in needed():
        operator, _, args = cases(torch.float64, here)[name]
        packet = getattr(torch.ops.minframe, name.split(",")[0])
        torch.library.opcheck(packet.default, tuple(args))
        mapped = torch.vmap(operator, in_dims=(0, *(None for _ in args[1:])))(
            torch.stack([args[0], 2 * args[0]]), *args[1:]
        )
        each = [operator(x, *args[1:]) for x in (args[0], 2 * args[0])]
        for found, *want in zip(*((p,) if isinstance(p, Tensor) else p for p in (mapped, *each)), strict=True):
            torch.testing.assert_close(found, torch.stack(want))


def strong(x: Tensor) -> Tensor:
    """Momenta of positive energies, every other sample boosted by so much that products are not exact enough."""
    x = torch.cat([(x[..., 1:].square().sum(-1, keepdim=True) + 0.1).sqrt(), x[..., 1:]], -1)
    boost = torch.eye(4, dtype=x.dtype)
    boost[:2, :2] = torch.tensor([[200.0, (200.0**2 - 1) ** 0.5], [(200.0**2 - 1) ** 0.5, 200.0]])
    return torch.where((torch.arange(len(x)) % 2 == 0)[:, None, None], x, x @ boost.mT)


CLOUDS: dict[str, Callable[[Tensor], Tensor]] = {
    "at rest": lambda x: torch.cat([(x[..., 1:].square().sum(-1, keepdim=True) + 0.1).sqrt(), x[..., 1:]], -1),
    "strong boosts": strong,
    "no rest frame": lambda x: x,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOUDS)
def test_compiled_forces_of_momenta(name: str) -> None:
    torch.manual_seed(0)
    x = CLOUDS[name](torch.randn(4, 6, 4, dtype=torch.float64)).requires_grad_()
    model = mf.Equivariant(lambda x: x + 0.1 * x.roll(1, -1).sin(), mf.Lorentz())
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    want, found = model(x), compiled(x)
    torch.testing.assert_close(found, want, rtol=1e-10, atol=1e-10 * float(want.detach().abs().max()))
    (of_want,), (of_found,) = (torch.autograd.grad(y.tanh().sum(), x) for y in (want, found))
    torch.testing.assert_close(of_found, of_want, rtol=1e-7, atol=1e-7 * float(of_want.abs().max()))


@pytest.mark.slow
def test_columns_of_a_sum_are_factored_where_another_term_needs_them() -> None:
    """All terms use substitution where one does, compiled code as well."""
    group = mf.Lorentz() + mf.GL(2)
    x = torch.cat([strong(torch.randn(4, 6, 4, dtype=torch.float64)), torch.randn(4, 6, 2, dtype=torch.float64)], -1)
    x.requires_grad_()
    compiled = torch.compile(lambda x: mf.canonicalize(x, group)[0], backend="aot_eager", fullgraph=True)
    want, found = mf.canonicalize(x, group)[0], compiled(x)
    torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)
