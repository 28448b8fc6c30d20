"""The loops of ``qr`` as Triton kernels; see ``gpu``, which imports this module when kernels are asked for."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mean(
    x,
    mask,
    out,
    n,
    x_sample,
    x_row,
    x_coordinate,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_MASK: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    axes = tl.arange(0, PADDED)
    live = axes < D
    step = tl.arange(0, BLOCK)
    middle = tl.zeros((PADDED,), tl.float64)
    for _ in tl.static_range(2):  # the second pass makes coincident points come out as zeros, see ``qr.mean``
        total = tl.zeros((PADDED,), tl.float64)
        count = tl.zeros((), tl.float64)
        for start in range(0, n, BLOCK):
            rows = start + step
            real = rows < n
            if HAS_MASK:
                real = real & (tl.load(mask + b * n + rows, mask=real, other=0) != 0)
            at = b * x_sample + rows[:, None] * x_row + axes[None, :] * x_coordinate
            here = real[:, None] & live[None, :]
            y = tl.load(x + at, mask=here, other=0.0).to(tl.float64) - middle[None, :]
            total += tl.sum(tl.where(here, y, 0.0), 0)
            count += tl.sum(real.to(tl.float64), 0)
        middle += total / count
    tl.store(out + b * D + axes, middle, mask=live)


@triton.jit
def decompose(
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
    of_longest,
    of_mean,
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
    total = tl.zeros((), tl.float64)
    present_rows = tl.zeros((), tl.float64)
    for start in range(0, n, BLOCK):
        rows = start + step
        here = (rows < n)[:, None] & live[None, :]
        at = b * x_sample + rows[:, None] * x_row + axes[None, :] * x_coordinate
        y = tl.load(x + at, mask=here, other=0.0).to(tl.float64) - centre[None, :]
        present = rows < n
        if HAS_MASK:
            present = present & (tl.load(mask + begin + rows, mask=rows < n, other=0) != 0)
            y = tl.where(present[:, None], y, 0.0)
        y = tl.where(here, y, 0.0)
        r2 = tl.sum(y * y, 1)
        poison += tl.sum(r2 * 0.0, 0)  # NaN or infinity in a row is NaN here
        if HAS_ROW_FLOOR:
            r2 = tl.where(r2 > tl.load(row_floor + begin + rows, mask=rows < n, other=0.0), r2, 0.0)
        peak = tl.maximum(peak, tl.max(r2, 0))
        total += tl.sum(r2, 0)
        present_rows += tl.sum(present.to(tl.float64), 0)
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
    equal = tl.maximum(tie * tl.sqrt(peak), 2 * least)
    floor_length = tl.maximum(least, constant_floor)
    bound = tl.maximum(peak * of_longest * of_longest, floor_length * floor_length)
    bound = tl.maximum(bound, tl.where(finite, total / tl.maximum(present_rows, 1.0), 0.0) * of_mean * of_mean)
    uncertain = tl.zeros((), tl.float64)
    q = tl.where(axes[:, None] == axes[None, :], 1.0, 0.0).to(tl.float64)  # rows of the identity
    product = 1.0
    known = tl.zeros((PADDED,), tl.float64)
    for axis in tl.static_range(D):
        bar = tl.where(by_length, tl.maximum(peak - equal * tl.sqrt(peak), tl.minimum(bound, peak)), peak * fraction)
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
            unit = tl.max(tl.abs(v), 0)  # so that no square underflows
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
