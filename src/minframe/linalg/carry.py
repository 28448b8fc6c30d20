"""Rows of one list, times matrices of another: ``y_e = A_owner(e) x_entry(e)``, in float64, without copies of either.

What nodes send along edges is brought into frames in this way: there are more edges than nodes and frames, and a copy
of the matrix of each edge costs more than its product. The gradients are of the same kind,

    carry(A, x)_e = A_owner(e) x_entry(e),      back(A, y)_n = sum_{entry(e) = n} A_owner(e)^T y_e,
    outer(y, x)_k = sum_{owner(e) = k} y_e x_entry(e)^T.

Their sum of products with anything given, ``sum_e y_e^T A_owner(e) x_entry(e)``, is one trilinear form; its three
partial derivatives are these functions, and so are the derivatives of each by its arguments. So three loops in C
(``_carry.c``) give derivatives of any order. PyTorch serves all else: complex numbers, other devices, transforms.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function

from minframe.built import require_current
from minframe.linalg.action import multiply
from minframe.tracing import are_plain

try:
    from minframe.linalg import _carry

    require_current(_carry)
    library: ModuleType | None = _carry
except ImportError:
    library = None

MAX_DIMENSION = 16  # length of rows up to which the loops in C have room


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which row and which matrix each entry is a product of.

    Attributes:
        entry: ``(M,)``, numbers of rows; ``None``: row ``e`` for entry ``e``.
        owner: ``(M,)``, numbers of matrices.
    """

    entry: Tensor | None
    owner: Tensor

    @staticmethod
    def at(entry: Tensor | None, owner: Tensor) -> Pairs:
        """With the numbers one after the other in memory, as loops read them."""
        return Pairs(None if entry is None else entry.long().contiguous(), owner.long().contiguous())

    def of(self, x: Tensor) -> Tensor:
        """The rows, ``(M, ...)``, of all ``(N, ...)``."""
        return x if self.entry is None else x[self.entry]


def carry(x: Tensor, matrix: Tensor, pairs: Pairs, dtype: torch.dtype | None = None) -> Tensor:
    """``(M, ..., d)``, for rows ``x`` ``(N, ..., d)``, in their dtype, and matrices ``(K, d, d)``; differentiable."""
    if _served(x, matrix):
        return _Carry.apply(x, matrix, pairs, dtype or x.dtype)  # type: ignore[no-untyped-call]
    y = multiply(_wide(pairs.of(x)), _wide(matrix)[pairs.owner])
    return y.to(dtype or x.dtype, memory_format=torch.contiguous_format).contiguous()


def _back(y: Tensor, matrix: Tensor, pairs: Pairs, count: int, dtype: torch.dtype) -> Tensor:
    if _served(y, matrix):
        return _Back.apply(y, matrix, pairs, count, dtype)  # type: ignore[no-untyped-call]
    x = multiply(_wide(y), _wide(matrix).mT[pairs.owner])
    if pairs.entry is not None:
        x = x.new_zeros((count, *x.shape[1:])).index_add(0, pairs.entry, x)
    return x.to(dtype)


def _outer(y: Tensor, x: Tensor, pairs: Pairs, count: int) -> Tensor:
    if _served(y, x):
        return _Outer.apply(y, x, pairs, count)  # type: ignore[no-untyped-call]
    d = x.shape[-1]
    left, right = (_wide(z).reshape(len(pairs.owner), -1, d) for z in (y, pairs.of(x)))
    return left.new_zeros(count, d, d).index_add(0, pairs.owner, left.mT @ right)


def _served(*tensors: Tensor) -> bool:
    """Whether the loops in C may read these; gradients are what they have a rule for."""
    return (
        library is not None
        and tensors[0].shape[-1] <= MAX_DIMENSION
        and all(x.is_cpu and x.dtype in (torch.float32, torch.float64) for x in tensors)
        and are_plain(*tensors)
    )


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float64))


def _run(
    name: str,
    sizes: tuple[int, int],
    first: Tensor,
    second: Tensor | None,
    matrix: Tensor | None,
    sums: Tensor | None,
    p: Pairs,
) -> None:
    """Call a loop; ``first`` and ``second`` are rows, and ``sizes`` the numbers of rows and of matrices."""
    d = first.shape[-1]
    channels = first.numel() // (len(first) * d) if first.numel() else 0
    given: list[Any] = []
    for rows in (first, second):
        given += [0, False] if rows is None else [rows.data_ptr(), rows.dtype == torch.float64]
    given += [0 if x is None else x.data_ptr() for x in (matrix, sums, p.entry, p.owner)]
    getattr(library, name)(*given, len(p.owner), *sizes, channels, d)


class _Carry(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, pairs: Pairs, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.pairs = pairs
        x, matrix = x.contiguous(), matrix.double().contiguous()
        y = x.new_empty((len(pairs.owner), *x.shape[1:]), dtype=dtype)
        _run("carry", (len(x), len(matrix)), x, y, matrix, None, pairs)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (y,) = gradients
        x, matrix = ctx.saved_tensors
        of_x, of_matrix = ctx.needs_input_grad[:2]
        return (
            _back(y, matrix, ctx.pairs, len(x), x.dtype) if of_x else None,
            _outer(y, x, ctx.pairs, len(matrix)).to(matrix.dtype) if of_matrix else None,
            None,
            None,
        )


class _Back(Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, matrix: Tensor, pairs: Pairs, count: int, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(y, matrix)
        ctx.pairs = pairs
        y, matrix = y.contiguous(), matrix.double().contiguous()
        sums = y.new_zeros((count, *y.shape[1:]), dtype=torch.float64)
        _run("back", (count, len(matrix)), y, None, matrix, sums, pairs)
        return sums.to(dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = gradients
        y, matrix = ctx.saved_tensors
        of_y, of_matrix = ctx.needs_input_grad[:2]
        return (
            carry(x, matrix, ctx.pairs, y.dtype) if of_y else None,
            _outer(y, x, ctx.pairs, len(matrix)).to(matrix.dtype) if of_matrix else None,
            None,
            None,
            None,
        )


class _Outer(Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, pairs: Pairs, count: int) -> Tensor:
        ctx.save_for_backward(y, x)
        ctx.pairs = pairs
        d = x.shape[-1]
        sums = x.new_zeros((count, d, d), dtype=torch.float64)
        _run("outer", (len(x), count), x.contiguous(), y.contiguous(), None, sums, pairs)
        return sums

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (matrix,) = gradients
        y, x = ctx.saved_tensors
        of_y, of_x = ctx.needs_input_grad[:2]
        return (
            carry(x, matrix, ctx.pairs, y.dtype) if of_y else None,
            _back(y, matrix, ctx.pairs, len(x), x.dtype) if of_x else None,
            None,
            None,
        )
