"""``split.rest_frame`` as a Triton kernel; see ``gpu``, which imports this module when kernels are asked for."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rest_frame(
    x,
    least,
    matrix,
    momentum,
    squares,
    n,
    x_sample,
    x_row,
    x_coordinate,
    massless,
    max_ratio,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    TIME: tl.constexpr,
    HAS_LEAST: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    axes = tl.arange(0, PADDED)
    live = axes < D
    step = tl.arange(0, BLOCK)
    eta = tl.where(axes == TIME, 1.0, -1.0).to(tl.float64)  # of the sign of time

    total = tl.zeros((PADDED,), tl.float64)
    form = tl.zeros((), tl.float64)  # the sum of <x_i, x_i>
    size = tl.zeros((), tl.float64)
    for start in range(0, n, BLOCK):
        rows = start + step
        here = (rows < n)[:, None] & live[None, :]
        at = b * x_sample + rows[:, None] * x_row + axes[None, :] * x_coordinate
        y = tl.load(x + at, mask=here, other=0.0)
        total += tl.sum(y, 0)
        form += tl.sum(tl.sum(y * y * eta[None, :], 1), 0)
        size += tl.sum(tl.sum(y * y, 1), 0)
    tl.store(squares + b, size)

    length2 = tl.sum(total * total, 0)
    mass2 = tl.sum(total * total * eta, 0)
    timelike = mass2 > massless * length2
    if HAS_LEAST:  # rows about their mean add up to rounding
        shortest = tl.load(least + b)
        timelike = timelike & (length2 > shortest * shortest)
    mass = tl.sqrt(tl.where(timelike, mass2, 1.0))
    axis = tl.where(timelike, total, tl.where(axes == TIME, 1.0, 0.0)) / mass
    dual = axis * eta
    energies2 = tl.zeros((), tl.float64)
    for start in range(0, n, BLOCK):
        rows = start + step
        here = (rows < n)[:, None] & live[None, :]
        at = b * x_sample + rows[:, None] * x_row + axes[None, :] * x_coordinate
        y = tl.load(x + at, mask=here, other=0.0)
        energy = tl.sum(y * dual[None, :], 1)
        energies2 += tl.sum(energy * energy, 0)
    taken = timelike & (2 * energies2 - form <= max_ratio * mass2)
    tl.store(momentum + b, taken.to(tl.int8))

    # The boost, see ``form.boost_to``.
    on_time = axes == TIME
    time = tl.sum(tl.where(on_time, axis, 0.0), 0)
    w = axis + tl.where(on_time, tl.where(time < 0, -1.0, 1.0), 0.0)
    one = tl.where(axes[:, None] == axes[None, :], 1.0, 0.0).to(tl.float64)
    boost = one - (w / (tl.abs(time) + 1.0))[:, None] * (w * eta)[None, :]
    boost = tl.where(on_time[None, :], axis[:, None], boost)
    at = b * D * D + axes[:, None] * D + axes[None, :]
    tl.store(matrix + at, boost, mask=live[:, None] & live[None, :])
