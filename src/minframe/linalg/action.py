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
    if matrix.ndim == x.ndim == 3:  # what matmul comes to, without its own dozen of small calls
        return torch.bmm(matrix, x.mT).mT
    batch = x.shape[: matrix.ndim - 2]
    rows = x.reshape(*batch, math.prod(x.shape[len(batch) : -1]), x.shape[-1])
    return (matrix @ rows.mT).mT.reshape(x.shape)  # three times as fast as rows @ matrix.mT


def transform(x: Tensor, type: Type, matrix: Tensor | None, det: Tensor | None = None) -> Tensor:
    """``x`` moved by ``matrix`` ``(*batch, d, d)``, in float64 or complex128; ``None`` is the identity.

    A dual type is to be handed the inverse transpose as ``matrix``. ``det`` ``(*batch,)`` is what a parity type is
    multiplied with.
    """
    if matrix is not None and type.order:
        x, matrix = wide(x), wide(matrix)
        if type.order == 1:
            x = multiply(x, matrix)
        else:
            matrix = behind_batch(matrix, x, 2)
            x = matrix @ x @ matrix.mT
    if det is not None and type.parity:
        x = x * behind_batch(det, x, 0)
    return x
