"""The door to the loops over rows: compiled ones for small clouds, a kernel on a GPU, those of PyTorch for all others.

Small clouds cost the number of calls, and compiled loops are two. PyTorch is near the floor for large clouds, and has
threads for them. It also serves batch vectors, complex numbers, other devices, and whatever is traced, transformed or
differentiated.
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
    """What both implementations offer, with one result."""

    def mean(self, rows: Tensor, layout: Layout, /) -> Tensor:
        """Mean of the real rows ``(*rows, d)``, in float64, ``(*batch, d)``."""

    def pivoted_qr(self, rows: Rows, special: bool, /) -> PivotedQR:
        """Choose rows and decompose, by the rule of ``linalg.qr``.

        ``special``: the basis is to have determinant one; the last axis is reversed where that is needed.
        """


def loops_for(x: Tensor, layout: Layout) -> Loops:
    """The implementation for rows ``x``: the only place where that is decided."""
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
