"""The choice of the loops over rows: compiled ones where there are any, a kernel on a GPU, PyTorch for all others.

PyTorch serves where no compiler was at hand, on other devices, there in fewer operations, and where dispatch modes look
on. What compiles or transforms a call gets an operator, which chooses among these when it runs.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from minframe.checks import NOTHING, limited
from minframe.layout import Dense, Layout, Ragged
from minframe.linalg import (
    action,
    few,
    gpu,
    native,
    operators,
    orientation,
    qr,
    soft_derivatives,
    soft_native,
    soft_slopes,
)
from minframe.linalg import soft_poses as soft_poses_
from minframe.linalg.carry import Pairs, carry
from minframe.linalg.rows import Oriented, PivotedQR, Rows, WhiteQR
from minframe.linalg.soft import Rule
from minframe.linalg.soft_poses import Poses
from minframe.tracing import is_compiling, is_plain, is_transformed

DOUBLE = torch.float64, torch.complex128
NATIVE_DTYPES = torch.float32, torch.complex64, *DOUBLE
MIN_PIVOT_RATIO = 0.05  # least ratio of pivots of a scatter matrix that is decomposed directly


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
    if gpu.kernels is None and is_native(x):  # asked for first, for tiny clouds
        return native
    if (is_compiling() or is_transformed(x)) and (x.is_cpu or gpu.kernels is not None):
        return operators  # on other devices, compilers make few kernels of PyTorch's loops
    if gpu.kernels is not None and gpu.serves(x) and isinstance(layout, Dense):
        return gpu
    return native if is_native(x) else qr


def is_native(x: Tensor) -> bool:
    """Whether the loops in C serve ``x``, unless a kernel does."""
    return native.library is not None and x.is_cpu and x.dtype in NATIVE_DTYPES and is_plain(x)


def mean(rows: Tensor, layout: Layout) -> Tensor:
    """See ``Loops``; differentiable."""
    return loops_for(rows, layout).mean(rows, layout)


def pivoted_qr(rows: Rows, special: bool) -> PivotedQR:
    """See ``Loops``."""
    return _decomposed(loops_for(rows.values, rows.layout), rows, special)


def _decomposed(loops: Loops, rows: Rows, special: bool) -> PivotedQR:
    if loops is qr and launches(rows.values) and few.serves(rows):
        return few.pivoted_qr(rows, special)
    return loops.pivoted_qr(rows, special)


def launches(x: Tensor) -> bool:
    """Whether the number of operations matters more than how long each takes: they are launched on another device.

    Where a compiler or a transform looks on, it does not.
    """
    return not x.is_cpu and not is_compiling() and not is_transformed(x)


def unchecked_qr(rows: Rows, special: bool) -> PivotedQR:
    """``pivoted_qr`` inside of an operator, where nothing is an error."""
    if loops_for(rows.values, rows.layout) is native:
        return native.unchecked_qr(rows, special)
    return limited(NOTHING, pivoted_qr, rows, special)


def oriented(rows: Rows, special: bool, about_mean: bool = False) -> tuple[Oriented, Tensor | None]:
    """``pivoted_qr`` for frames without derivatives, and the origin.

    ``about_mean``: of rows that have no origin, which becomes their mean.
    """
    loops = loops_for(rows.values, rows.layout)
    if loops is operators and orientation.serves(rows):
        return orientation.oriented(rows, special, about_mean)
    if about_mean:
        rows.origin = loops.mean(rows.values, rows.layout)
    return _decomposed(loops, rows, special), rows.origin


operators.DECOMPOSE.append(unchecked_qr)
orientation.IS_NATIVE.append(is_native)


def white_qr(rows: Rows, special: bool, recentre: bool) -> WhiteQR | None:
    """The decomposition of rows that are made white first, all in one call.

    ``special``: keep the volume; ``recentre``: subtract what rounding of the origin left of the mean. ``None``: there
    are no compiled loops for it, or the rows of some sample are too far from white, and ``linalg.whiten`` has to serve.
    """
    compiled = loops_for(rows.values, rows.layout) is native
    return native.white_qr(rows, special, recentre, MIN_PIVOT_RATIO) if compiled else None


def scatter(rows: Tensor, layout: Layout) -> Tensor:
    """Sum of ``x x^*`` over the rows ``(*rows, d)``, whose padding is zero, ``(*batch, d, d)``; differentiable."""
    compiled = rows.dtype in DOUBLE and loops_for(rows, layout) is native
    return native.scatter(rows, layout) if compiled else layout.scatter(rows)


def multiply(rows: Tensor, layout: Layout, matrix: Tensor) -> Tensor:
    """``matrix @ x`` for every row ``x``, ``(*rows, d)``; ``matrix`` is ``(*batch, d, d)``. Differentiable."""
    compiled = rows.dtype in DOUBLE and is_plain(matrix) and loops_for(rows, layout) is native
    if compiled:
        return native.multiply(rows, layout, matrix)
    if isinstance(layout, Ragged):
        return carry(rows, matrix, Pairs.at(None, layout.owner(rows)))
    return action.multiply(rows, layout.for_rows(matrix, rows))


def to_rest(rows: Tensor, layout: Layout, matrix: Tensor, time: int, momentum: Tensor | None = None) -> Tensor | None:
    """``multiply`` by boosts to the rest frame, and what is left of the total across the axis ``time`` taken away.

    ``momentum`` ``(*batch,)``: the samples in which it is taken away; ``None``: all. What is returned is ``None`` where
    there is no compiled loop for it, and it has to be taken away afterwards.
    """
    small = isinstance(layout, Dense) and layout.padded_length <= native.MAX_SUM
    compiled = small and rows.dtype == torch.float64 and is_plain(matrix) and loops_for(rows, layout) is native
    return native.multiply(rows, layout, matrix, time, momentum) if compiled else None


def soft_poses(rows: Tensor, layout: Layout, rule: Rule, rounding: float, reach: Tensor | None) -> Poses:
    """See ``linalg.soft_poses``."""
    compiled = (
        rule.poses is None
        and soft_native.library is not None
        and rule.counts is None
        and not is_compiling()
        and rows.is_cpu
        and rows.dtype == torch.float64
        and is_plain(rows)
        and not _with_moments(layout, rule)
    )
    return (soft_native if compiled else soft_poses_).soft_poses(rows, layout, rule, rounding, reach)


def differentiable_poses(rows: Tensor, layout: Layout, rule: Rule, found: Poses, short: Tensor | None) -> Poses:
    """See ``linalg.soft_derivatives``."""
    with torch.no_grad():  # gradients are what is wanted; any other derivative is not served
        compiled = (
            rule.poses is None
            and soft_slopes.library is not None
            and rule.counts is None
            and found.moments_from is None
            and rows.is_cpu
            and rows.dtype == torch.float64
            and is_plain(rows)
        )
    return (soft_slopes if compiled else soft_derivatives).differentiable_poses(rows, layout, rule, found, short)


def _with_moments(layout: Layout, rule: Rule) -> bool:
    """Whether moments may compete in some sample; padding does not count."""
    if not rule.with_moments(layout.padded_length) or layout.real is None:
        return rule.with_moments(layout.padded_length)
    return rule.with_moments(int(layout.sizes().max()) if layout.real.numel() else 0)
