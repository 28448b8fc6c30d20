"""The decomposition of ``linalg.qr`` in as few operations as possible, for devices on which each is a launch.

The rule is that of ``linalg.qr``, and so are the results but for rounding. There every operation is one over whole
planes of coordinates, the fastest that PyTorch can do on a CPU; here are about half as many, most of them products
of small matrices, which take two to three times as long on a CPU. ``tests/test_operations.py`` counts them.

**Which row.** Let ``c_i`` be the largest of the lengths of the rows up to i. It does not decrease, the last is the
largest of all, and the first row above the bar is the first i with ``c_i`` above it: a binary search.

**The basis competes.** The standard basis is carried along as ``d`` more rows, which come out as Q. They are as short
as ``MIN_LENGTH``, so that they are chosen only where nothing is left of the rows, and then complete Q: at every step
there is a row to choose, and it is not zero. Behind them is a row of zeros, which is found where lengths are NaN. It
divides by zero, and so all results of the sample are NaN.

**Reflections.** With ``v`` what is left of the chosen row, in the coordinates that are left, ``s = sign(v_0) |v|`` and
``w = v + s e_0``, the map ``y -> w <w, y> / (s w_0) - y`` is minus the reflection in w (Householder), and sends ``v``
to ``s e_0``. In two coordinates ``(a, b)`` the matrix with the rows ``(a, b) / |v|`` and ``(b, -a) / |v|`` is a
reflection that sends ``v`` to ``|v| e_0``, without a choice of sign. Its entries are windows of ``(a, b, -a) / |v|``,
and with lengths in the plane behind b, windows of planes are a view of which all but the last are taken at once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from minframe.checks import check_finite, errors_enabled
from minframe.layout import Dense
from minframe.linalg.qr import FRACTION, MIN_LENGTH, floor_of, mean_square, rank_bound
from minframe.linalg.rows import PivotedQR, Rows

LEAST = 4 * MIN_LENGTH**2  # squared length up to which rows are rounding in any case: the basis is not a row


def serves(rows: Rows) -> bool:
    """Whether these are real rows of samples of equal length, one input, of which the first long enough are chosen."""
    plain = rows.row_floor is None and rows.longest is False
    return plain and isinstance(rows.layout, Dense) and not rows.values.is_complex()


@torch.no_grad()
def pivoted_qr(rows: Rows, special: bool) -> PivotedQR:
    """See ``Loops``; for rows that ``serves`` accepts."""
    layout, x, d = rows.layout, rows.values, rows.values.shape[-1]
    assert isinstance(layout, Dense)
    b, n = math.prod(layout.batch_shape), layout.n
    one = torch.eye(d + 2, d, dtype=torch.float64, device=x.device)
    planes = _planes(rows, one.mT)
    # A column more than there are rows: there the largest is positive, and the sign of R's diagonal is written to it.
    running = torch.empty((d, b, n + d + 1), dtype=torch.float64, device=x.device)
    positions = running.new_empty((d, b, 1), dtype=torch.int64)
    short = None if rows.short is None else rows.short.reshape(b, 1)
    axes, squares = turned_planes(planes, one[:-1], running, positions, short, rows.precision.name)
    signs = running[..., -1:].sgn()
    if special:  # minus a reflection has the determinant -1 in an even number of dimensions
        signs[-1].mul_(signs.prod(0) * (-1) ** sum(k + 1 if k > 2 else 1 for k in range(2, d + 1)))
    if not errors_enabled() and (d == 1 or rows.short is not None):  # nothing is sure to have been divided by zero
        signs = torch.sub(signs, running[:1, :, -2:-1], alpha=0)
    pose = torch.cat(axes, 1).mul_(signs.movedim(0, 1))
    basis = torch.empty((*layout.batch_shape, d, d), dtype=torch.float64, device=x.device)
    torch.mul(pose[:, :, n : n + d].mT, 1 / MIN_LENGTH, out=basis.view(b, d, d))
    running[max(d - 2, 0) :, :, -2].square_()  # lengths in one and two coordinates
    peaks = running[..., -2].mT.view(*layout.batch_shape, d)
    determined = peaks > _bound(rows, planes, squares[:, :n] if d > 2 else None, peaks, one[0, 0])
    own = pose[:, :, :n].mT.view(*layout.batch_shape, n, d)
    return PivotedQR(determined, [own], layout, basis, positions.squeeze(-1).mT.view(peaks.shape), peaks)


def turned_planes(
    planes: Tensor,
    one: Tensor,
    running: Tensor,
    positions: Tensor,
    short: Tensor | float | None,
    name: str | None = None,
) -> tuple[list[Tensor], Tensor]:
    """Choose a row for each axis in turn, and turn all rows so that it lies on that axis, but for a sign.

    Args:
        planes: ``(b, d + 1, rows)``, the rows, the last of them zero, and room for lengths.
        one: ``(d + 1, d)``, the identity.
        running: ``(d, b, rows - 1)``, for ``c_i`` at each step; in the last column is then what has the sign of the
            diagonal of R. Lengths are squared where more than two coordinates are left.
        positions: ``(d, b, 1)``, for the rows that are chosen.
        short: see ``Rows``, ``(b, 1)`` or for all samples.
        name: of the rows, if they are to be finite.

    Returns:
        The coordinates along each axis, ``(b, 1, rows)``; and the squared lengths of the rows.
    """
    d, b = running.shape[:2]
    index = running.new_empty(running.shape[1:], dtype=torch.int64)
    left, squares, axes = planes, planes[:, -1], []
    for axis in range(d):
        k = d - axis
        sizes = _sizes(left, k)
        torch.cummax(sizes[:, :-1], -1, out=(running[axis], index))
        peak = running[axis, :, -2:-1]
        if axis == 0:
            if name is not None:
                check_finite(peak.view(b), name)
            squares = sizes if d > 2 else sizes.square()
        height = peak * (FRACTION if k > 2 else FRACTION**0.5)
        if short is None or not axis:
            torch.searchsorted(running[axis], height, out=positions[axis])
        else:
            allowed = squares.masked_fill(sizes < height, torch.inf)
            limit = allowed.amin(-1, keepdim=True) * short
            torch.max(allowed <= limit, -1, True, out=(limit.new_empty((b, 1), dtype=torch.bool), positions[axis]))
        left = _turned(left, k, positions[axis], one[axis:, axis:], running[axis, :, -1:])
        axes.append(left[:, :1])
        left = left[:, 1:]
    return axes, squares


def _planes(rows: Rows, one: Tensor) -> Tensor:
    """Rows relative to their origin, the basis and two rows of zeros, in planes: ``(b, d + 1, n + d + 2)``.

    ``one`` ``(d, d + 2)``: the identity, and zeros. The last plane is room for lengths.
    """
    layout, x, d = rows.layout, rows.values, rows.values.shape[-1]
    x = x.reshape(-1, *x.shape[-2:]).mT
    planes = torch.empty((len(x), d + 1, x.shape[-1] + d + 2), dtype=torch.float64, device=x.device)
    own = planes[:, :d, : x.shape[-1]]
    if rows.origin is None:
        own.copy_(x)
    else:
        torch.sub(x, rows.origin.reshape(-1, d, 1), out=own)
        if layout.real is not None:
            own.mul_(layout.real.reshape(-1, 1, x.shape[-1]))
    torch.mul(one.expand(len(x), *one.shape), MIN_LENGTH, out=planes[:, :d, x.shape[-1] :])
    return planes


def _sizes(planes: Tensor, k: int) -> Tensor:
    """Lengths of rows by their first k coordinates, ``(b, rows)``; squared if these are more than two."""
    if k == 1:
        return planes[:, 0].abs()
    if k == 2:
        return torch.hypot(planes[:, 0], planes[:, 1], out=planes[:, 2])
    return torch.sum(planes[:, :k] * planes[:, :k], 1, out=planes[:, k])


def _turned(planes: Tensor, k: int, chosen: Tensor, one: Tensor, signed: Tensor) -> Tensor:
    """The first k planes, turned so that the ``chosen`` row ``(b, 1)`` lies on the first axis.

    ``one``: the identity, ``(k + 1, k)``. ``signed`` ``(b, 1)``: for what the chosen row then has there, if it may be
    negative. As long as more than one coordinate is left behind it, the result has one more plane, for lengths.
    """
    b = len(planes)
    if k == 1:
        torch.gather(planes[:, 0], -1, chosen, out=signed)
        return planes
    at = chosen.unsqueeze(-1)
    if k == 2:
        windows = planes.unfold(1, 2, 1).mT  # (a, b), (b, length)
        entries = windows.gather(-1, at.unsqueeze(1).expand(b, 2, 2, 1)).squeeze(-1)
        matrix = entries / entries[:, 1:, 1:]
        torch.neg(matrix[:, 0, 0], out=matrix[:, 1, 1])
        return torch.bmm(matrix, planes[:, :2])
    v = planes.gather(-1, at.expand(b, k + 1, 1))
    head = v[:, 0]
    s = torch.copysign(v[:, k].sqrt(), head, out=signed)
    half = head.add_(s) * s
    form = (v[:, :k] / half.unsqueeze(-1)).mT
    return torch.bmm(torch.baddbmm(one, v, form, beta=-1), planes[:, :k])


def _bound(rows: Rows, planes: Tensor, squares: Tensor | None, peaks: Tensor, one: Tensor) -> Tensor:
    """``rank_bound``, ``(*batch, 1)``, and at least ``LEAST``; ``squares``: of lengths, if known, and ``one``: 1.

    The longest of n rows is at most ``sqrt(n)`` times as long as their root mean square, and does not count where its
    part of it is less. Scaled sums of squares are then products, of which each is one operation.
    """
    layout, precision = rows.layout, rows.precision
    assert isinstance(layout, Dense)
    of_longest, of_mean = precision.of_rank or (precision.tolerance, 0.0)
    if layout.mask is not None or precision.floor is not None or layout.n * of_longest**2 > of_mean**2:
        squares = planes[:, :-1, : layout.n].square().sum(1) if squares is None else squares
        mean2 = mean_square(squares.view(*layout.batch_shape, layout.n), rows)
        return rank_bound(peaks[..., :1], mean2, floor_of(rows), precision).clamp_min(LEAST)
    bound = _scaled_square(planes[:, :-1].flatten(1), of_mean**2 / layout.n, one)
    if rows.origin is not None:
        origin = rows.origin.reshape(-1, rows.origin.shape[-1])
        bound = torch.maximum(bound, _scaled_square(origin, (8 * precision.eps) ** 2, one))
    return bound.view(*layout.batch_shape, 1)


def _scaled_square(y: Tensor, factor: float, one: Tensor) -> Tensor:
    """``factor |y|^2 + LEAST`` for vectors ``(b, k)``, ``(b, 1, 1)``."""
    y = y.unsqueeze(-2)
    return torch.baddbmm(one.expand(len(y), 1, 1), y, y.mT, beta=LEAST, alpha=factor)
