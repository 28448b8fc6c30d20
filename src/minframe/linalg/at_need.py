"""Steps that hardly any sample needs, as operators: compiled code leaves them out where eager mode does.

Eager mode reads that no boost of a batch is so strong that a product with it is not exact enough, or that all rows have
a rest frame. A compiler reads nothing and traces what would serve all: products with all rows, for nothing. These
operators read it when they run, and so do their derivatives, which are operators too; what nobody needs has zeros. Only
second derivatives are traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minframe.dtypes import wide
from minframe.layout import Dense, Layout, Ragged
from minframe.linalg.action import behind_batch, multiply
from minframe.linalg.operators import library, mapped, unshared
from minframe.tracing import is_compiling, is_inside_transform, with_views

CONTIGUOUS = torch.contiguous_format


def serves(x: Tensor) -> bool:
    """Whether the operators are to be called: a compiler looks on, and to look at the data makes nobody wait.

    Transforms inside of compiled code may ask for derivatives that operators have no formulas for.
    """
    return is_compiling() and x.is_cpu and not is_inside_transform()


# --- Coordinates by substitution -------------------------------------------------------------------------------------


def _by_row(x: Tensor, like: Tensor) -> Tensor:
    """``(*batch, any, d)``, for vectors ``x`` ``(*batch, *any, d)`` and matrices ``like`` ``(*batch, d, d)``."""
    batch = x.shape[: like.ndim - 2]
    return x.reshape(*batch, math.prod(x.shape[len(batch) : -1]), x.shape[-1])


def _steps(
    x: Tensor, adjoint: Tensor, triangle: Tensor, place: Tensor, after: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The solution ``R^-1 Q^* x`` ``(*batch, d, any)``, the same in the order of coordinates, and times C, by row."""
    right = _by_row(multiply(wide(x), adjoint), triangle)
    solved = torch.linalg.solve_triangular(triangle, right.mT, upper=True)
    placed = solved.gather(-2, place.unsqueeze(-1).expand(solved.shape)).mT
    return solved, placed, placed if after is None else placed @ after.mT


def _substitute(
    y: Tensor, x: Tensor, here: Tensor, adjoint: Tensor, triangle: Tensor, place: Tensor, after: Tensor | None
) -> Tensor:
    found = _steps(x, adjoint, triangle, place, after)[-1]
    return torch.where(behind_batch(here, y, 0), found.reshape(y.shape), y)


def _substitute_back(
    x: Tensor, here: Tensor, adjoint: Tensor, triangle: Tensor, place: Tensor, after: Tensor | None, g: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, ``Q^*``, R and C, for the gradient g of the result.

    Of ``y = M x`` they are ``M^* g`` and ``g x^*``, summed over rows; of ``z = R^-1 b``, ``h = R^-* g`` and ``-h z^*``.
    """
    solved, placed, _ = _steps(x, adjoint, triangle, place, after)
    g = torch.where(behind_batch(here, g, 0), g, 0.0)
    outward = _by_row(wide(g), triangle)
    of_after = outward.mT @ placed.conj()
    outward = (outward if after is None else outward @ after.conj()).mT
    outward = outward.gather(-2, place.argsort(-1).unsqueeze(-1).expand(outward.shape))
    outward = torch.linalg.solve_triangular(triangle.mH, outward, upper=False)
    of_triangle = -(outward @ solved.mH).triu()
    of_adjoint = outward @ _by_row(wide(x), triangle).conj()
    of_x = multiply(outward.mT.reshape(x.shape), adjoint.mH).to(x.dtype)
    return of_x, of_adjoint, of_triangle, of_after


@with_views
def _substitute_at_need(y: Tensor, x: Tensor, here: Tensor, *columns: Any) -> Tensor:
    return unshared(_substitute(y, x, here, *columns)) if bool(here.any()) else y.clone(memory_format=CONTIGUOUS)


@with_views
def _substitute_back_at_need(
    x: Tensor, here: Tensor, adjoint: Tensor, triangle: Tensor, place: Tensor, after: Tensor | None, g: Tensor
) -> tuple[Tensor, ...]:
    if bool(here.any()):
        return tuple(map(unshared, _substitute_back(x, here, adjoint, triangle, place, after, g)))
    return x.new_zeros(x.shape), *(triangle.new_zeros(triangle.shape) for _ in range(3))


def substitute(
    y: Tensor, x: Tensor, here: Tensor, adjoint: Tensor, triangle: Tensor, place: Tensor, after: Tensor | None
) -> Tensor:
    """``C P R^-1 Q^* x`` for vectors x of the samples that are ``here``, and ``y`` for others; see ``linalg.columns``.

    ``x`` and ``y`` are ``(*batch, *any, d)``, ``here`` ``(*batch,)``, and the matrices ``(*batch, d, d)``.
    """
    run = torch.ops.minframe.substituted if serves(y) else _substitute
    return run(y, x, here, adjoint, triangle, place, after)


# --- Factors ---------------------------------------------------------------------------------------------------------


def _factor_back(q: Tensor, r: Tensor, here: Tensor, of_q: Tensor, of_r: Tensor) -> Tensor:
    """The gradient of ``A = Q R``, for those of Q and R: ``(dQ + Q S) R^-*``.

    S is Hermitian and has, above the diagonal and on it, ``dR R^* - Q^* dQ``, of the diagonal the real part.
    """
    m = of_r @ r.mH - q.mH @ of_q
    upper = m.triu(1)
    s = upper + upper.mH + torch.diag_embed(m.diagonal(dim1=-2, dim2=-1).real.to(m.dtype))
    # where nothing is asked for, columns may be zero
    r = torch.where(behind_batch(here, r, 0), r, torch.eye(r.shape[-1], dtype=r.dtype, device=r.device))
    return torch.linalg.solve_triangular(r.mH, of_q + q @ s, upper=False, left=False)


@with_views
def _factor_at_need(matrix: Tensor, here: Tensor) -> tuple[Tensor, ...]:
    if bool(here.any()):
        return tuple(map(unshared, torch.linalg.qr(matrix)))
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand(matrix.shape)
    return one.clone(memory_format=CONTIGUOUS), one.clone(memory_format=CONTIGUOUS)


@with_views
def _factor_back_at_need(q: Tensor, r: Tensor, here: Tensor, of_q: Tensor, of_r: Tensor) -> Tensor:
    return unshared(_factor_back(q, r, here, of_q, of_r)) if bool(here.any()) else q.new_zeros(q.shape)


def factor(matrix: Tensor, here: Tensor) -> tuple[Tensor, Tensor]:
    """``torch.linalg.qr`` of matrices ``(*batch, d, d)``; of samples that are not ``here``, anything that is finite."""
    q, r = torch.ops.minframe.factored(matrix, here) if serves(matrix) else torch.linalg.qr(matrix)
    return q, r


# --- Sums of products ------------------------------------------------------------------------------------------------


def _layout(x: Tensor, mask: Tensor | None, batch: Tensor | None, samples: int) -> Layout:
    return Dense(tuple(x.shape[:-2]), x.shape[-2], mask) if batch is None else Ragged(batch, samples)


def _multiply(x: Tensor, layout: Layout, matrix: Tensor) -> Tensor:
    return multiply(x, layout.for_rows(matrix, x))


def _scatter_back(x: Tensor, matrix: Tensor, layout: Layout, g: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x and A, for the gradient g of ``sum y y^*``, ``y = A x``: that of y is ``(g + g^*) y``."""
    both = (g + g.mH) @ matrix
    return _multiply(x, layout, matrix.mH @ both), both @ layout.scatter(x)


@with_views
def _scatter_at_need(
    x: Tensor, mask: Tensor | None, batch: Tensor | None, samples: int, matrix: Tensor, here: Tensor
) -> Tensor:
    if not bool(here.any()):
        return matrix.new_zeros(matrix.shape)
    layout = _layout(x, mask, batch, samples)
    return unshared(layout.scatter(_multiply(x, layout, matrix)))


@with_views
def _scatter_back_at_need(
    x: Tensor, mask: Tensor | None, batch: Tensor | None, samples: int, matrix: Tensor, here: Tensor, g: Tensor
) -> tuple[Tensor, ...]:
    if not bool(here.any()):
        return x.new_zeros(x.shape), matrix.new_zeros(matrix.shape)
    return tuple(map(unshared, _scatter_back(x, matrix, _layout(x, mask, batch, samples), g)))


def scatter(x: Tensor, matrix: Tensor, layout: Layout, here: Tensor) -> Tensor:
    """The sum of ``y y^*``, ``y = A x``, over the rows x, ``(*batch, d, d)``; of samples that are not ``here``, any."""
    batch = layout.index if isinstance(layout, Ragged) else None
    samples = 0 if batch is None else layout.batch_shape[0]
    found: Tensor = torch.ops.minframe.scattered(x, layout.real, batch, samples, matrix, here)
    return found


# --- Operators -------------------------------------------------------------------------------------------------------


def _define(
    name: str, schema: str, run: Callable[..., Any], shapes: Callable[..., Any], mapped: Callable[..., Any]
) -> None:
    library.define(f"{name}{schema}")  # type: ignore[no-untyped-call]
    for device in ("CPU", "CUDA"):
        library.impl(name, run, device)  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"minframe::{name}", shapes, lib=library)

    def call(info: Any, axes: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        found = mapped(getattr(torch.ops.minframe, name), info.batch_size, axes, args)
        return found, 0 if isinstance(found, Tensor) else (0,) * len(found)

    torch.library.register_vmap(f"minframe::{name}", call, lib=library)


def _in_front(operator: Any, size: int, axes: Sequence[Any], args: Sequence[Any]) -> Any:
    """An operator under ``vmap``: the axis becomes one more batch axis, in front."""
    return operator(
        *(
            x if x is None else x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0)
            for x, axis in zip(args, axes, strict=True)
        )
    )


def _with_layout(operator: Any, size: int, axes: Sequence[Any], args: Sequence[Any]) -> Any:
    def several(*args: Any) -> Sequence[Tensor]:
        found = operator(*args)
        return (found,) if isinstance(found, Tensor) else found

    found = mapped(several, len(args), size, axes, args)
    return found if len(found) > 1 else found[0]


def _like(*numbers: int) -> Callable[..., Any]:
    """The shapes of results, which are those of some arguments."""

    def shapes(*args: Any) -> Any:
        found = tuple(args[k].new_empty(args[k].shape) for k in numbers)
        return found[0] if len(found) == 1 else found

    return shapes


def _differentiate(name: str, save: Callable[..., Any], back: Callable[..., Any], traced: Callable[..., Any]) -> None:
    """Give an operator its derivative: an operator, or, where that is to have derivatives too, what it runs.

    ``save`` has what both take beside gradients, from the arguments and the result; what they return are gradients, by
    the numbers of arguments.
    """

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        kept = save(inputs, output)
        ctx.others = [None if isinstance(x, Tensor) else x for x in kept]
        ctx.save_for_backward(*(x if isinstance(x, Tensor) else None for x in kept))

    def backward(ctx: Any, *gradients: Tensor) -> Any:
        kept = [other if x is None else x for x, other in zip(ctx.saved_tensors, ctx.others, strict=True)]
        return (traced if torch.is_grad_enabled() else back)(*kept, *gradients)

    torch.library.register_autograd(f"minframe::{name}", backward, setup_context=setup, lib=library)


COLUMNS = "Tensor here, Tensor adjoint, Tensor triangle, Tensor place, Tensor? after"
ROWS = "Tensor x, Tensor? mask, Tensor? batch, SymInt samples, Tensor matrix, Tensor here"
FOUR = "(Tensor, Tensor, Tensor, Tensor)"
_define("substituted", f"(Tensor y, Tensor x, {COLUMNS}) -> Tensor", _substitute_at_need, _like(0), _in_front)
_define(
    *("substituted_back", f"(Tensor x, {COLUMNS}, Tensor g) -> {FOUR}"),
    *(_substitute_back_at_need, _like(0, 3, 3, 3), _in_front),
)
_define("factored", "(Tensor matrix, Tensor here) -> (Tensor, Tensor)", _factor_at_need, _like(0, 0), _in_front)
_define(
    *("factored_back", "(Tensor q, Tensor r, Tensor here, Tensor of_q, Tensor of_r) -> Tensor"),
    *(_factor_back_at_need, _like(0), _in_front),
)
_define("scattered", f"({ROWS}) -> Tensor", _scatter_at_need, _like(4), _with_layout)
_define("scattered_back", f"({ROWS}, Tensor g) -> (Tensor, Tensor)", _scatter_back_at_need, _like(0, 4), _with_layout)


def _of_substituted(run: Callable[..., Any]) -> Callable[..., Any]:
    def back(x: Tensor, here: Tensor, *others: Any) -> tuple[Tensor | None, ...]:
        of_x, of_adjoint, of_triangle, of_after = run(x, here, *others)
        g, after = others[-1], others[-2]
        of_y = torch.where(behind_batch(here, g, 0), 0.0, g)
        return of_y, of_x, None, of_adjoint, of_triangle, None, None if after is None else of_after

    return back


def _of_scattered(run: Callable[..., Any]) -> Callable[..., Any]:
    def back(*args: Any) -> tuple[Tensor | None, ...]:
        of_x, of_matrix = run(*args)
        return of_x, None, None, None, of_matrix, None

    return back


def _traced_scatter_back(
    x: Tensor, mask: Any, batch: Any, samples: int, matrix: Tensor, here: Tensor, g: Tensor
) -> Any:
    return _scatter_back(x, matrix, _layout(x, mask, batch, samples), g)


_differentiate(
    "substituted",
    lambda inputs, output: inputs[1:],
    _of_substituted(lambda *args: torch.ops.minframe.substituted_back(*args)),
    _of_substituted(_substitute_back),
)
_differentiate(
    "factored",
    lambda inputs, output: (*output, inputs[1]),
    lambda *args: (torch.ops.minframe.factored_back(*args), None),
    lambda *args: (_factor_back(*args), None),
)
_differentiate(
    "scattered",
    lambda inputs, output: inputs,
    _of_scattered(lambda *args: torch.ops.minframe.scattered_back(*args)),
    _of_scattered(_traced_scatter_back),
)
