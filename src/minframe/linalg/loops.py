"""The choice of the loops over rows: compiled ones for small clouds, a kernel on a GPU, PyTorch for all others.

The cost of small clouds is the number of calls, and compiled loops need two. For large clouds PyTorch is near the lower
bound of cost and uses threads. It also handles batch vectors, complex numbers, other devices, and tensors that are
traced, transformed or differentiated.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from minframe.layout import Dense, Layout
from minframe.linalg import gpu, native, qr
from minframe.linalg.rows import PivotedQR, Rows
from minframe.tracing import is_compiling, is_plain

MAX_NATIVE_NUMEL = 16_384  # above this PyTorch's own loops are faster


class Loops(Protocol):
    """The interface of all implementations, with one result type."""

    def mean(self, rows: Tensor, layout: Layout, /) -> Tensor:
        """Mean of the real rows ``(*rows, d)``, in float64, ``(*batch, d)``."""

    def pivoted_qr(self, rows: Rows, special: bool, /) -> PivotedQR:
        """Choose rows and decompose, by the rule of ``linalg.qr``.

        ``special``: the basis has determinant one; the last axis is reversed where necessary.
        """


def loops_for(x: Tensor, layout: Layout) -> Loops:
    """The implementation for rows ``x``; the choice is made here alone."""
    small = (
        native.library is not None
        and not is_compiling()
        and x.numel() <= MAX_NATIVE_NUMEL
        and x.is_cpu
        and x.dtype in (torch.float32, torch.float64)
        and isinstance(layout, Dense)
        and is_plain(x)
    )
    if small:
        return native
    return gpu if x.is_cuda and gpu.serves(x) and isinstance(layout, Dense) and is_plain(x) else qr


def mean(rows: Tensor, layout: Layout) -> Tensor:
    """See ``Loops``; differentiable."""
    return loops_for(rows, layout).mean(rows, layout)


def pivoted_qr(rows: Rows, special: bool) -> PivotedQR:
    """See ``Loops``."""
    return loops_for(rows.values, rows.layout).pivoted_qr(rows, special)
