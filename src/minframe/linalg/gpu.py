"""The loops of ``qr`` as one Triton kernel: on a GPU a frame costs its kernel launches, and here there is one.

A program decomposes one sample. It follows ``qr`` step by step (the names are the same), on a private float64 copy of
the rows in global memory, which stays in the cache of the device: at each step one pass finds the row to take, and one
reflects all rows and finds what is left of the longest. The basis, at most 8 by 8, is kept in registers.

Triton is an extra (``pip install "minframe[gpu]"``). Its interpreter runs the same source on the CPU
(``TRITON_INTERPRET=1``), which is how it is tested. Compiled code has neither
run nor been timed on a GPU, so it has to be switched on (``use_kernel``).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from minframe.checks import check_finite
from minframe.layout import Dense, Layout
from minframe.linalg import qr
from minframe.linalg.rows import PivotedQR, Rows

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

MAX_DIMENSION = 8  # of a basis that fits into registers
BLOCK_ROWS = 128  # that a program looks at together
enabled = False  # see ``use_kernel``


def power_of_two(n: int) -> int:
    """The smallest power of two that is not below ``n``."""
    return 1 << (n - 1).bit_length()


if triton is not None:

    @triton.jit
    def kernel(
        x,
        origin,
        mask,
        floor,
        short,
        row_floor,
        longest,
        work,
        lengths,
        pose,
        basis,
        positions,
        peaks,
        determined,
        several,
        n,
        x_sample,
        x_row,
        x_coordinate,
        noise,
        constant_floor,
        fraction,
        tolerance,
        tie,
        speck,
        tiny,
        D: tl.constexpr,
        PADDED: tl.constexpr,
        BLOCK: tl.constexpr,
        SPECIAL: tl.constexpr,
        HAS_ORIGIN: tl.constexpr,
        HAS_MASK: tl.constexpr,
        HAS_FLOOR: tl.constexpr,
        HAS_SHORT: tl.constexpr,
        HAS_ROW_FLOOR: tl.constexpr,
        HAS_LONGEST: tl.constexpr,
    ):
        b = tl.program_id(0).to(tl.int64)
        axes = tl.arange(0, PADDED)
        live = axes < D
        step = tl.arange(0, BLOCK)
        begin = b * n

        # A copy of the rows, relative to the origin, padding zero.
        centre = tl.zeros((PADDED,), tl.float64)
        if HAS_ORIGIN:
            centre = tl.load(origin + b * D + axes, mask=live, other=0.0)
        far = tl.sqrt(tl.sum(centre * centre, 0))
        peak = tl.zeros((), tl.float64)
        poison = tl.zeros((), tl.float64)
        for start in range(0, n, BLOCK):
            rows = start + step
            here = (rows < n)[:, None] & live[None, :]
            at = b * x_sample + rows[:, None] * x_row + axes[None, :] * x_coordinate
            y = tl.load(x + at, mask=here, other=0.0).to(tl.float64) - centre[None, :]
            if HAS_MASK:
                real = tl.load(mask + begin + rows, mask=rows < n, other=0)
                y = tl.where((real != 0)[:, None], y, 0.0)
            y = tl.where(here, y, 0.0)
            r2 = tl.sum(y * y, 1)
            poison += tl.sum(r2 * 0.0, 0)  # NaN or infinity in a row is NaN here
            if HAS_ROW_FLOOR:
                r2 = tl.where(r2 > tl.load(row_floor + begin + rows, mask=rows < n, other=0.0), r2, 0.0)
            peak = tl.maximum(peak, tl.max(r2, 0))
            tl.store(work + (begin + rows)[:, None] * D + axes[None, :], y, mask=here)
            if HAS_SHORT:
                tl.store(lengths + begin + rows, r2, mask=rows < n)
        tl.debug_barrier()
        finite = poison == 0.0
        peak = tl.where(finite, peak, 0.0)

        least = noise * far
        if HAS_FLOOR:
            least = tl.load(floor + b)
        at_most = tl.full((), float("inf"), tl.float64)
        if HAS_SHORT:
            at_most = tl.load(short + b)
        by_length = tie > 0
        if HAS_LONGEST:
            by_length = tl.load(longest + b) != 0
        equal = tie * tl.sqrt(peak) + 2 * least
        bound = peak * tolerance * tolerance + least * least + constant_floor * constant_floor
        uncertain = tl.zeros((), tl.float64)
        q = tl.where(axes[:, None] == axes[None, :], 1.0, 0.0).to(tl.float64)  # rows of the identity
        product = 1.0
        known = tl.zeros((PADDED,), tl.float64)
        for axis in tl.static_range(D):
            bar = tl.where(by_length, peak - equal * tl.sqrt(peak), peak * fraction)
            limit = tl.full((), float("inf"), tl.float64)
            if HAS_SHORT and axis > 0:
                shortest = tl.full((), float("inf"), tl.float64)
                for start in range(0, n, BLOCK):
                    rows = start + step
                    here = (rows < n)[:, None] & live[None, :]
                    y = tl.load(work + (begin + rows)[:, None] * D + axes[None, :], mask=here, other=0.0)
                    r2 = tl.sum(tl.where(axes[None, :] >= axis, y * y, 0.0), 1)
                    if HAS_ROW_FLOOR:
                        small = tl.load(row_floor + begin + rows, mask=rows < n, other=0.0) + uncertain
                        r2 = tl.where(r2 > small, r2, 0.0)
                    length = tl.load(lengths + begin + rows, mask=rows < n, other=float("inf"))
                    length = tl.where((r2 >= bar) & (rows < n), length, float("inf"))
                    shortest = tl.minimum(shortest, tl.min(length, 0))
                limit = at_most * shortest
            # The first row above the bar, and how many there are.
            chosen = n
            count = 0
            v = tl.zeros((PADDED,), tl.float64)
            taken = tl.zeros((), tl.float64)
            rounding = tl.zeros((), tl.float64)
            for start in range(0, n, BLOCK):
                rows = start + step
                here = (rows < n)[:, None] & live[None, :]
                y = tl.load(work + (begin + rows)[:, None] * D + axes[None, :], mask=here, other=0.0)
                r2 = tl.sum(tl.where(axes[None, :] >= axis, y * y, 0.0), 1)
                if HAS_ROW_FLOOR:
                    small = tl.load(row_floor + begin + rows, mask=rows < n, other=0.0) + uncertain
                    r2 = tl.where(r2 > small, r2, 0.0)
                above = (r2 >= bar) & (rows < n)
                if HAS_SHORT and axis > 0:
                    length = tl.load(lengths + begin + rows, mask=rows < n, other=float("inf"))
                    above = above & (length <= limit)
                first = tl.min(tl.where(above, rows, n), 0)
                if (chosen == n) & (first < n):
                    mine = rows == first
                    v = tl.sum(tl.where(mine[:, None], y, 0.0), 0)
                    taken = tl.sum(tl.where(mine, r2, 0.0), 0)
                    if HAS_ROW_FLOOR:
                        rounding = tl.sum(tl.where(mine, small, 0.0), 0)
                    chosen = first
                count += tl.sum(above.to(tl.int32), 0)
            chosen = tl.where(finite & (chosen < n), chosen, 0)
            if HAS_ROW_FLOOR:
                uncertain += rounding / tl.maximum(taken, tiny)
            tl.store(positions + b * D + axis, chosen.to(tl.int64))
            tl.store(several + b * D + axis, (finite & (count > 1)).to(tl.int8))
            tl.store(peaks + b * D + axis, tl.where(finite, peak, float("nan")))
            tl.store(determined + b * D + axis, (finite & (peak > bound)).to(tl.int8))
            known = tl.where(axes == axis, tl.where(peak > bound, 1.0, 0.0), known)

            on_axis = axes == axis
            head = tl.sum(tl.where(on_axis, v, 0.0), 0)
            if axis == D - 1:
                sign = tl.where(head < 0, -1.0, 1.0)
                if SPECIAL:  # each of the d - 1 reflections has determinant -1
                    sign = product if D % 2 == 1 else -product
                q = tl.where(on_axis[None, :], q * sign, q)
                for start in range(0, n, BLOCK):
                    rows = start + step
                    here = (rows < n)[:, None] & live[None, :]
                    at = (begin + rows)[:, None] * D + axes[None, :]
                    y = tl.load(work + at, mask=here, other=0.0)
                    y = tl.where(on_axis[None, :], y * sign, y)
                    y = tl.where((known == 1.0)[None, :], y, 0.0) + poison
                    tl.store(pose + at, y.to(pose.dtype.element_ty), mask=here)
            else:
                v = tl.where((axes >= axis) & live, v, 0.0)
                unit = tl.max(tl.abs(v), 0)  # lest a square underflow
                v_scaled = v / tl.where(unit > 0, unit, 1.0)
                norm = unit * tl.sqrt(tl.sum(v_scaled * v_scaled, 0))
                nothing = norm < speck
                head = tl.where(nothing, 1.0, head)
                norm = tl.where(nothing, 1.0, norm)
                norm = tl.where(head < 0, -norm, norm)
                w = tl.where(on_axis, head + norm, v)
                scale = 1.0 / ((head + norm) * norm)
                sign = tl.where(norm < 0, 1.0, -1.0)
                product = product * sign
                turned = tl.sum(q * w[None, :], 1) * scale
                q = q - turned[:, None] * w[None, :]
                q = tl.where(on_axis[None, :], q * sign, q)
                peak = tl.zeros((), tl.float64)
                for start in range(0, n, BLOCK):
                    rows = start + step
                    here = (rows < n)[:, None] & live[None, :]
                    at = (begin + rows)[:, None] * D + axes[None, :]
                    y = tl.load(work + at, mask=here, other=0.0)
                    c = tl.sum(y * w[None, :], 1) * scale
                    y = y - c[:, None] * w[None, :]
                    y = tl.where(on_axis[None, :], y * sign, y)
                    tl.store(work + at, y, mask=here)
                    r2 = tl.sum(tl.where(axes[None, :] > axis, y * y, 0.0), 1)
                    if HAS_ROW_FLOOR:
                        small = tl.load(row_floor + begin + rows, mask=rows < n, other=0.0) + uncertain
                        r2 = tl.where(r2 > small, r2, 0.0)
                    peak = tl.maximum(peak, tl.max(r2, 0))
                peak = tl.where(finite, peak, 0.0)
                tl.debug_barrier()
        at = b * D * D + axes[:, None] * D + axes[None, :]
        tl.store(basis + at, q + poison, mask=live[:, None] & live[None, :])


def serves(x: Tensor) -> bool:
    """Whether the kernel is switched on, and can decompose rows ``x`` ``(*batch, n, d)``."""
    return enabled and x.dtype in (torch.float32, torch.float64) and x.shape[-1] <= MAX_DIMENSION


@contextlib.contextmanager
def use_kernel(on: bool = True) -> Iterator[None]:
    """Let clouds on a GPU be decomposed by the kernel in here.

    It is not the default: it has been tested by Triton's interpreter and compiled for several targets, and has not run
    on a GPU yet.
    """
    global enabled
    if on and triton is None:
        raise ImportError('the kernel needs Triton: pip install "minframe[gpu]"')
    saved, enabled = enabled, on
    try:
        yield
    finally:
        enabled = saved


def mean(rows: Tensor, layout: Layout) -> Tensor:
    """See ``Loops``."""
    return qr.mean(rows, layout)


def pivoted_qr(rows: Rows, special: bool) -> PivotedQR:
    """See ``Loops``. Nothing waits for the device, unless errors need to look at the data."""
    values, layout, precision, longest = rows.values, rows.layout, rows.precision, rows.longest
    assert isinstance(layout, Dense)
    x, (*batch, n, d) = values.reshape(math.prod(values.shape[:-2]), *values.shape[-2:]), values.shape
    floor = precision.floor
    given = {
        "ORIGIN": rows.origin,
        "MASK": layout.mask,
        "FLOOR": floor if isinstance(floor, Tensor) else None,
        "SHORT": rows.short,
        "ROW_FLOOR": rows.row_floor,
        "LONGEST": longest if isinstance(longest, Tensor) else None,
    }
    number = functools.partial(torch.empty, dtype=torch.float64, device=x.device)
    work = number(x.shape)
    lengths = work if rows.short is None else number(x.shape[:-1])
    pose = torch.empty(values.shape, dtype=x.dtype, device=x.device)
    basis, peaks = number((*batch, d, d)), number((*batch, d))
    positions = torch.empty((*batch, d), dtype=torch.int64, device=x.device)
    determined, several = (torch.empty((*batch, d), dtype=torch.int8, device=x.device) for _ in range(2))
    width = 0.0 if longest is False else 2 * qr.tie(precision.tolerance)
    if len(x):
        kernel[(len(x),)](
            x,
            *(work if part is None else _packed(part) for part in given.values()),
            *(work, lengths, pose, basis, positions, peaks, determined, several, n, *x.stride()),
            *(8 * precision.eps, floor if isinstance(floor, float) else 0.0),
            *(qr.FRACTION, precision.tolerance, width, qr.SPECK, qr.TINY),
            D=d,
            PADDED=power_of_two(d),
            BLOCK=min(BLOCK_ROWS, power_of_two(n)),
            SPECIAL=special,
            **{f"HAS_{name}": part is not None for name, part in given.items()},
        )
    check_finite(peaks[..., :1], precision.name)
    known = determined.bool()
    tied = qr.tied_samples(several.bool(), known, special) if longest is True else None
    return PivotedQR(known, [pose], layout, basis, positions, peaks, tied)


def _packed(x: Tensor) -> Tensor:
    """Contiguous, in a dtype that the kernel reads."""
    return (x.to(torch.int8) if x.dtype == torch.bool else x.double()).contiguous()
