"""How a matrix and a shift act on typed tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from minframe.dtypes import wide
from minframe.types import Type


def behind_batch(sample: Tensor, x: Tensor, core: int) -> Tensor:
    """``(*batch, *core)`` with axes of length one put in for the axes of ``x`` between batch and core."""
    batch = sample.shape[: sample.ndim - core]
    return sample.reshape((*batch, *(1,) * (x.ndim - len(batch) - core), *sample.shape[sample.ndim - core :]))


def product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b``, computed in float64 or complex128; the dtype stays."""
    return (wide(a) @ wide(b)).to(a.dtype)


def multiply(x: Tensor, matrix: Tensor) -> Tensor:
    """``matrix @ v`` for every vector ``v`` of ``x`` ``(*batch, *any, d)``, with ``matrix`` ``(*batch, d, d)``."""
    if matrix.ndim == x.ndim == 3:  # the same as matmul, without its dozen small calls
        return torch.bmm(matrix, x.mT).mT
    batch = x.shape[: matrix.ndim - 2]
    rows = x.reshape(*batch, math.prod(x.shape[len(batch) : -1]), x.shape[-1])
    return (matrix @ rows.mT).mT.reshape(x.shape)  # three times as fast as rows @ matrix.mT


def transform(
    x: Tensor,
    kind: Type,
    matrix: Tensor | None,
    det: Tensor | None = None,
    shift: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``x`` moved by ``matrix`` ``(*batch, d, d)``, in float64 or complex128; ``None`` is the identity.

    For a dual type, ``matrix`` must be the inverse transpose. ``det`` ``(*batch,)`` is the factor of parity types, and
    ``shift``, broadcastable to ``x``, is added at the end. With a ``dtype``, the result has that dtype and is
    contiguous, as users expect of results.
    """
    if matrix is not None and kind.core_ndim:
        number = torch.promote_types(x.dtype, torch.float64)
        x, matrix = x.to(number), matrix.to(torch.promote_types(matrix.dtype, torch.float64))
        if kind.core_ndim == 1:
            x = multiply(x, matrix)
        else:
            matrix = behind_batch(matrix, x, 2)
            x = matrix @ x @ matrix.mT
    if det is not None and kind.parity:
        x = x * behind_batch(det, x, 0)
    if shift is not None:
        x = x + shift
    return x if dtype is None else x.to(dtype, memory_format=torch.contiguous_format).contiguous()
