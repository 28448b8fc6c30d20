"""The weights of ``soft`` as a Triton kernel; see ``gpu``, which imports this module when kernels are asked for."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def ramp(t, flatness: tl.constexpr, cut: tl.constexpr):
    inside = tl.minimum(tl.maximum(t, cut), 1.0 - cut)
    rest = 1.0 - inside
    z = (inside - rest) / (inside * rest) * flatness
    return tl.where(t > cut, 1.0 / (1.0 + tl.exp(-z)), 0.0)


@triton.jit
def weigh(
    y,
    weights,
    length2,
    n,
    y_pose,
    y_row,
    y_coordinate,
    half_sharpness,
    tiny,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    FLATNESS: tl.constexpr,
    CUT: tl.constexpr,
):
    k = tl.program_id(0).to(tl.int64)
    axes = tl.arange(0, PADDED)
    step = tl.arange(0, BLOCK)
    out = weights + k * n

    peak = tl.zeros((), tl.float64)
    for start in range(0, n, BLOCK):
        rows = start + step
        here = (rows < n)[:, None] & (axes < D)[None, :]
        at = k * y_pose + rows[:, None] * y_row + axes[None, :] * y_coordinate
        left = tl.load(y + at, mask=here, other=0.0)
        r2 = tl.sum(left * left, 1)
        tl.store(out + rows, r2, mask=rows < n)
        peak = tl.maximum(peak, tl.max(r2, 0))
    tl.debug_barrier()
    # A row of the length r has the power (r / longest)^a, which is its share times their sum.
    total = tl.zeros((), tl.float64)
    second = tl.zeros((), tl.float64)
    weighted = tl.zeros((), tl.float64)
    for start in range(0, n, BLOCK):
        rows = start + step
        r2 = tl.load(out + rows, mask=rows < n, other=0.0)
        power = tl.exp(half_sharpness * tl.log(tl.maximum(r2 / tl.maximum(peak, tiny), tiny)))
        power = tl.where(rows < n, power, 0.0)
        total += tl.sum(power, 0)
        second += tl.sum(power * power, 0)
        weighted += tl.sum(power * r2, 0)
        tl.store(out + rows, power, mask=rows < n)
    tl.debug_barrier()
    total = tl.maximum(total, tiny)
    tl.store(length2 + k, weighted / total)
    s = tl.maximum(second / total / total, tiny)
    whole = tl.zeros((), tl.float64)
    for start in range(0, n, BLOCK):
        rows = start + step
        p = tl.load(out + rows, mask=rows < n, other=0.0) / total
        w = p * ramp(2 * p / s - 1, FLATNESS, CUT)
        whole += tl.sum(w, 0)
        tl.store(out + rows, w, mask=rows < n)
    tl.debug_barrier()
    for start in range(0, n, BLOCK):
        rows = start + step
        w = tl.load(out + rows, mask=rows < n, other=0.0)
        tl.store(out + rows, w / tl.maximum(whole, tiny), mask=rows < n)
