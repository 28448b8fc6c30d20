"""The loops of ``qr`` in C (``_native.c``), and products of rows (``_products.c``), in one call each.

The rule and the results are the same. The extensions are built on installation where there is a C compiler; without
them results are as exact, and take a few times as long. ``loops`` decides when they are used.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from minframe.built import require_current
from minframe.checks import check_finite
from minframe.layout import Dense, Layout
from minframe.linalg.qr import FRACTION, MIN_LENGTH, TINY, tie, tied_samples
from minframe.linalg.rows import PivotedQR, Rows, WhiteQR

try:
    from minframe.linalg import _native, _products

    require_current(_native, _products)
    library: ModuleType | None = _native
    products: ModuleType | None = _products
except ImportError:
    library = products = None

FINITE, FULL, SERVED, SLOW = (
    1,
    2,
    4,
    8,
)  # bits returned by ``library.pivoted_qr``, of what holds for all samples; see there
NOT_WHITE = 0, 0, 0.0, False  # what ``library.pivoted_qr`` is told where no rows are to be made white
NOT_AT_REST = False, False, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0  # and where they are not brought to rest
MAX_AXES = 16  # dimensions of space-time that the loops have room for
MAX_SUM = 16_384  # rows of a sample that are added up one after the other
MIN_NUMEL_PER_THREAD = 32_768  # a thread with fewer numbers costs more than it saves


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Use PyTorch alone inside this context, to compare the two implementations."""
    global library
    saved, library = library, None
    try:
        yield
    finally:
        library = saved


def _packed(x: Tensor | None, size: int) -> Tensor | None:
    """``x`` contiguous, and in float64 unless boolean; ``size`` is the number of entries that the loops read."""
    if x is None:
        return None
    assert x.numel() == size
    return x.contiguous() if x.dtype == torch.bool else x.to(torch.promote_types(x.dtype, torch.float64)).contiguous()


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def _numbers(rows: Tensor, layout: Layout) -> tuple[tuple[Any, ...], Sequence[Tensor | None]]:
    """``Rows`` in the C source, and tensors to keep until the loops have read them."""
    x = rows.resolve_conj() if rows.is_complex() else rows
    parts = 2 if x.is_complex() else 1
    kind = x.dtype in (torch.float64, torch.complex128), parts
    d = x.shape[-1]
    if isinstance(layout, Dense):
        n = x.shape[-2]
        x = x if x.ndim == 3 else x.reshape(math.prod(x.shape[:-2]), n, d)
        samples = x.shape[0]
        mask = _packed(layout.mask, samples * n)
        steps = x.stride() if parts == 1 else [parts * step for step in x.stride()]
        return ((x.data_ptr(), *kind, *steps), (samples, n, d), (_address(mask), 0, 0, 0)), (x, mask)
    segments = layout.segments()
    lists = [None if t is None else t.contiguous() for t in (segments.order, segments.starts, segments.sizes)]
    row, coordinate = (parts * step for step in x.stride())
    where = 0, *(_address(t) for t in lists)
    return ((x.data_ptr(), *kind, 0, row, coordinate), (layout.count, segments.largest, d), where), (x, *lists)


def _threads(rows: Tensor) -> int:
    """How many threads share the loops; results do not depend on it."""
    most = rows.numel() // MIN_NUMEL_PER_THREAD
    return 1 if most < 2 else min(torch.get_num_threads(), most)


def mean(rows: Tensor, layout: Layout) -> Tensor:
    """Mean of the real rows ``(*rows, d)``, in float64, ``(*batch, d)``."""
    where, kept = _numbers(rows, layout)
    number = torch.promote_types(rows.dtype, torch.float64)
    out = rows.new_empty((*layout.batch_shape, rows.shape[-1]), dtype=number)
    assert library is not None
    library.mean(where, _address(out), _threads(rows))
    del kept
    return out


def pivoted_qr(rows: Rows, special: bool) -> PivotedQR:
    """See ``Loops``. A sample with numbers that are not finite is all NaN, and nothing in it determined."""
    found, flags = _decomposed(rows, special, 8 * rows.precision.eps, NOT_WHITE)
    if not flags & FINITE:
        check_finite(found.peaks[..., :1], rows.precision.name)
    return _renewed(found, rows, special)


def unchecked_qr(rows: Rows, special: bool) -> PivotedQR:
    """``pivoted_qr`` that raises no errors."""
    return _renewed(_decomposed(rows, special, 8 * rows.precision.eps, NOT_WHITE)[0], rows, special)


def _renewed(found: PivotedQR, rows: Rows, special: bool) -> PivotedQR:
    """The result, whose pose may be given away unless it was written over the rows."""
    if found.coordinates[0] is not rows.values:
        found.renew = lambda: pivoted_qr(rows, special).coordinates[0]
    return found


def oriented(
    x: Tensor,
    mask: Tensor | None,
    origin: Tensor | None,
    eps: float,
    of_rank: tuple[float, float],
    special: bool,
    about_mean: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Pose, basis, known axes and origin of rows ``(*batch, n, d)``, as of ``pivoted_qr``; see ``linalg.orientation``.

    ``about_mean``: the origin is to be their mean. Written for small clouds, of which Python takes most of the time.
    """
    parts, number = 1, torch.float64
    if x.is_complex():
        x, parts, number = x.resolve_conj(), 2, torch.complex128
    shape = x.shape
    *batch, n, d = shape
    flat = x if len(shape) == 3 else x.reshape(math.prod(batch), n, d)
    samples, kind = flat.shape[0], (x.dtype is number, parts)
    pose = x.new_empty(shape)
    basis = x.new_empty((*batch, d, d), dtype=number)
    determined = x.new_empty((*batch, d), dtype=torch.bool)
    real = None if mask is None else _packed(mask, samples * n)
    middle = None if origin is None else _packed(origin, samples * d)
    steps = flat.stride() if parts == 1 else [parts * step for step in flat.stride()]
    where = (flat.data_ptr(), *kind, *steps), (samples, n, d), (_address(real), 0, 0, 0)
    rule, threads = (FRACTION, *of_rank, 0.0, MIN_LENGTH, TINY), _threads(x)
    assert library is not None
    if about_mean:
        middle = x.new_empty((*batch, d), dtype=number)
        library.mean(where, middle.data_ptr(), threads)
    library.pivoted_qr(
        *(where, _address(middle), 0, 8 * eps, 0.0, 0, 0, 0, rule, special, pose.data_ptr(), basis.data_ptr()),
        *(0, 0, determined.data_ptr(), 0, NOT_WHITE, NOT_AT_REST, threads),
    )
    return pose, basis, determined, middle


def white_qr(rows: Rows, special: bool, recentre: bool, least: float) -> WhiteQR | None:
    """See ``loops.white_qr``; ``least``: ratio of pivots of a scatter matrix that is decomposed directly."""
    number = torch.promote_types(rows.values.dtype, torch.float64)
    d = rows.values.shape[-1]
    t, inverse = (rows.values.new_empty((*rows.layout.batch_shape, d, d), dtype=number) for _ in range(2))
    found, flags = _decomposed(rows, special, 0.0, (_address(t), _address(inverse), least, recentre))
    if flags & ~SLOW != FINITE | FULL | SERVED:
        return None

    def again() -> Tensor:
        same = white_qr(rows, special, recentre, least)
        assert same is not None
        return same.found.coordinates[0]

    found.renew = again
    return WhiteQR(found, t, inverse)


def at_rest(
    x: Tensor, layout: Layout, tolerance: float, special: bool, rest: tuple[bool, bool, float, float, float, float]
) -> tuple[Tensor, Tensor, bool, Tensor | None] | None:
    """The pose of momenta ``(*rows, d)``; four matrices ``(4, *batch, d, d)``; whether all boosts are slow; and which
    samples of the flattened batch these are known of, ``(b,)``, ``None`` if of all.

    The matrices are of elements, their inverses, transposed, and their factors: Q, transposed, and R. ``rest``: as
    ``Rest`` in the C source; see ``linalg.at_rest``. ``None``: some numbers are not finite, or rows too long.
    """
    batch, d = layout.batch_shape, x.shape[-1]
    if d > MAX_AXES:
        return None
    where, kept = _numbers(x, layout)
    pose, matrices = x.new_empty(x.shape), x.new_empty((4, *batch, d, d), dtype=torch.float64)
    linear, basis, *factors = (matrix.data_ptr() for matrix in matrices.unbind())
    determined = x.new_empty((*batch, d), dtype=torch.bool)
    served = x.new_empty(math.prod(batch), dtype=torch.bool)
    rule = FRACTION, tolerance, 0.0, 0.0, MIN_LENGTH, TINY
    assert library is not None
    found: int = library.pivoted_qr(
        *(where, 0, 0, 0.0, 0.0, 0, 0, 0, rule, special, pose.data_ptr(), basis, 0, 0, determined.data_ptr(), 0),
        *(NOT_WHITE, (*rest, linear, *factors, served.data_ptr()), _threads(x)),
    )
    del kept
    return (pose, matrices, bool(found & SLOW), None if found & SERVED else served) if found & FINITE else None


def _decomposed(rows: Rows, special: bool, noise: float, white: tuple[int, int, float, bool]) -> tuple[PivotedQR, int]:
    """What ``library.pivoted_qr`` finds, and the bits that it returns."""
    values, layout, precision, longest = rows.values, rows.layout, rows.precision, rows.longest
    batch, d = layout.batch_shape, values.shape[-1]
    samples = math.prod(batch)
    where, kept = _numbers(values, layout)
    constant = precision.floor if isinstance(precision.floor, float) else 0.0
    floor = _packed(precision.floor, samples) if isinstance(precision.floor, Tensor) else None
    origin, short = _packed(rows.origin, samples * d), _packed(rows.short, samples)
    row_floor = _packed(rows.row_floor, values.numel() // d)
    some = _packed(longest, samples) if isinstance(longest, Tensor) else None  # not in all samples, or in none
    # Lengths that differ by less than half of ``width``, a part of the longest, are equal; 0 if any long row will do.
    width = 0.0 if longest is False else 2 * tie(precision.tolerance)
    rule = FRACTION, *(precision.of_rank or (precision.tolerance, 0.0)), width, MIN_LENGTH, TINY
    number = torch.complex128 if values.is_complex() else torch.float64
    spare = rows.spare and values.is_contiguous()  # a sample is written when all of it was read
    pose = values if spare else values.new_empty(values.shape)
    basis = values.new_empty((*batch, d, d), dtype=number)
    peaks = values.new_empty((*batch, d), dtype=torch.float64)
    positions = values.new_empty((*batch, d), dtype=torch.int64)
    determined = values.new_empty((*batch, d), dtype=torch.bool)
    several = torch.empty_like(determined) if longest is True else None  # whether other rows were as long
    at = _address
    assert library is not None
    found: int = library.pivoted_qr(
        *(where, at(origin), at(floor), noise, constant, at(short), at(row_floor), at(some), rule, special),
        *(pose.data_ptr(), basis.data_ptr(), positions.data_ptr(), peaks.data_ptr(), determined.data_ptr()),
        *(at(several), white, NOT_AT_REST, _threads(values)),
    )
    del kept
    tied = None
    if several is not None:
        tied = tied_samples(several, determined, special)
        tied = tied if bool(tied.any()) else None
    full = bool(found & FULL)
    decomposition = PivotedQR(
        *(determined, [pose], layout, basis, positions, peaks), tied=tied, full=full, zeroed=True, several=several
    )
    return decomposition, found


def scatter(rows: Tensor, layout: Layout) -> Tensor:
    """See ``layout.scatter``; for numbers in double precision."""
    where, kept = _numbers(rows, layout)
    d = rows.shape[-1]
    out = rows.new_empty((*layout.batch_shape, d, d))
    assert products is not None
    products.scatter(where, _address(out), _threads(rows))
    del kept
    return out


def multiply(rows: Tensor, layout: Layout, matrix: Tensor, time: int = -1, momentum: Tensor | None = None) -> Tensor:
    """See ``loops.multiply``; for numbers in double precision. ``time``, not negative, and ``momentum``: see
    ``loops.to_rest``.
    """
    where, kept = _numbers(rows, layout)
    d = rows.shape[-1]
    packed = matrix.to(rows.dtype).resolve_conj().contiguous()
    assert packed.shape == (*layout.batch_shape, d, d)
    out = rows.new_empty(rows.shape)
    there = _packed(momentum, packed.shape[:-2].numel())
    assert products is not None
    products.multiply(where, _address(packed), _address(out), time, _address(there), _threads(rows))
    del kept
    return out


def time_axis(s: Tensor, time: int) -> Tensor | None:
    """See ``eigen.time_axis``; for real numbers in double precision."""
    packed, d = s.contiguous(), s.shape[-1]
    out = s.new_empty(s.shape[:-1])
    assert products is not None
    found = products.time_axes(packed.data_ptr(), math.prod(s.shape[:-2]), d, time, out.data_ptr())
    return out if found else None
