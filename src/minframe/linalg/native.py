"""The loops of ``qr`` in C (``_native.c``): the same rule and the same result, in one call each.

The extension is built on installation where there is a C compiler; without it results are as exact, and small clouds
take a few times as long. ``loops`` decides when it is used.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from types import ModuleType

import torch
from torch import Tensor

from minframe.checks import check_finite
from minframe.layout import Dense, Layout
from minframe.linalg.qr import FRACTION, MIN_LENGTH, TINY, tie, tied_samples
from minframe.linalg.rows import PivotedQR, Rows

try:
    from minframe.linalg import _native

    library: ModuleType | None = _native
except ImportError:
    library = None

FINITE, FULL = 1, 2  # bits returned by ``library.pivoted_qr``: all numbers are finite, all axes are determined


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
    return x.contiguous() if x.dtype in (torch.bool, torch.float64) else x.double().contiguous()


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def _flat(rows: Tensor) -> Tensor:
    """Rows ``(*batch, n, d)`` with a single batch axis."""
    return rows if rows.ndim == 3 else rows.reshape(math.prod(rows.shape[:-2]), *rows.shape[-2:])


def _where(rows: Tensor) -> tuple[int, bool, int, int, int]:
    """``Rows`` in the C source."""
    return rows.data_ptr(), rows.dtype == torch.float64, *rows.stride()  # type: ignore[return-value]


def mean(rows: Tensor, layout: Layout) -> Tensor:
    """Mean of the real rows ``(*batch, n, d)``, in float64, ``(*batch, d)``."""
    x = _flat(rows)
    samples, n, d = x.shape
    assert isinstance(layout, Dense)
    mask = _packed(layout.mask, samples * n)
    out = x.new_empty((*rows.shape[:-2], d), dtype=torch.float64)
    assert library is not None
    library.mean(_where(x), samples, n, d, _address(mask), _address(out))
    return out


def pivoted_qr(rows: Rows, special: bool) -> PivotedQR:
    """See ``Loops``. A sample with numbers that are not finite is all NaN, and nothing in it determined."""
    values, layout, precision, longest = rows.values, rows.layout, rows.precision, rows.longest
    x, (*batch, n, d) = _flat(values), values.shape
    samples = x.shape[0]
    assert isinstance(layout, Dense)
    constant = precision.floor if isinstance(precision.floor, float) else 0.0
    floor = _packed(precision.floor, samples) if isinstance(precision.floor, Tensor) else None
    origin, mask = _packed(rows.origin, samples * d), _packed(layout.mask, samples * n)
    short, row_floor = _packed(rows.short, samples), _packed(rows.row_floor, samples * n)
    some = _packed(longest, samples) if isinstance(longest, Tensor) else None  # not in all samples, or in none
    # Lengths that differ by less than half of ``width``, a part of the longest, are equal; 0 if any long row will do.
    width = 0.0 if longest is False else 2 * tie(precision.tolerance)
    rule = FRACTION, precision.tolerance, width, MIN_LENGTH, TINY
    pose = x.new_empty(values.shape)
    basis = x.new_empty((*batch, d, d), dtype=torch.float64)
    peaks = x.new_empty((*batch, d), dtype=torch.float64)
    positions = x.new_empty((*batch, d), dtype=torch.int64)
    determined = x.new_empty((*batch, d), dtype=torch.bool)
    several = torch.empty_like(determined) if longest is True else None  # whether other rows were as long
    at = _address
    assert library is not None
    found = library.pivoted_qr(
        *(_where(x), samples, n, d, at(origin), at(mask), at(floor)),
        *(8 * precision.eps, constant, at(short), at(row_floor), at(some), rule, special),
        *(at(pose), at(basis), at(positions), at(peaks), at(determined), at(several)),
    )
    if not found & FINITE:
        check_finite(peaks[..., :1], precision.name)
    tied = None
    if several is not None:
        tied = tied_samples(several, determined, special)
        tied = tied if bool(tied.any()) else None
    return PivotedQR(determined, [pose], layout, basis, positions, peaks, tied, full=bool(found & FULL))
