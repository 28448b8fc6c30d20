"""The loops of ``qr`` in C, for small clouds: what those cost is the number of calls, and here there are two.

Built on installation where there is a C compiler; without it all is as exact, and small clouds take a few times as
long. PyTorch is near the floor for large ones, and has threads for them. To it are also left batch vectors, complex
numbers, other devices, and whatever somebody traces or transforms.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.dtypes import wide
from minframe.tracing import has_tangent, is_compiling, is_transformed, is_watched

try:
    from minframe.linalg import _native
except ImportError:
    _native = None  # type: ignore[assignment]

NUMBERS = 16_384  # in a tensor, from which on it is large
FINITE, FULL = 1, 2  # what ``_native.pivoted_qr`` returns, as bits


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Leave everything to PyTorch in here, to compare the two."""
    global _native
    saved, _native = _native, None  # type: ignore[assignment]
    try:
        yield
    finally:
        _native = saved


def is_at_hand(x: Tensor) -> bool:
    """Whether ``x`` is small, and may be read from memory: nobody looks on, and no derivative is wanted."""
    return (
        _native is not None
        and not is_compiling()
        and not is_transformed(x)
        and x.numel() <= NUMBERS
        and x.is_cpu
        and type(x) is Tensor
        and x.dtype in (torch.float32, torch.float64)
        and not x.is_neg()  # what is in memory has the other sign
        and not has_tangent(x)
        and not is_watched()
    )


class Rule(NamedTuple):
    """The constants of ``qr``.

    Attributes:
        fraction: of the largest squared length, from which on rows are taken.
        tolerance: what is shorter than this part of the longest row is rounding.
        tie: lengths that differ by less than half of this part of the longest are equal; 0 if any long row will do.
        speck: what is shorter is nothing.
        tiny: what may be divided by.
    """

    fraction: float
    tolerance: float
    tie: float
    speck: float
    tiny: float


def _packed(x: Tensor | None) -> Tensor | None:
    """Contiguous, and in float64 unless boolean."""
    return None if x is None else x.contiguous() if x.dtype == torch.bool else wide(x).contiguous()


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def _flat(rows: Tensor) -> Tensor:
    """Rows ``(*batch, n, d)`` with a single batch axis."""
    return rows if rows.ndim == 3 else rows.reshape(math.prod(rows.shape[:-2]), *rows.shape[-2:])


def _where(rows: Tensor) -> tuple[int, bool, int, int, int]:
    """``Rows`` in the C source."""
    return rows.data_ptr(), rows.dtype == torch.float64, *rows.stride()  # type: ignore[return-value]


def mean(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Mean of the rows ``(*batch, n, d)`` that the mask leaves, in float64, ``(*batch, d)``."""
    x, mask = _flat(rows), _packed(mask)
    samples, n, d = x.shape
    out = x.new_empty((*rows.shape[:-2], d), dtype=torch.float64)
    _native.mean(_where(x), samples, n, d, _address(mask), _address(out))
    return out


class Decomposition(NamedTuple):
    """What ``pivoted_qr`` found.

    Attributes:
        pose: ``(*batch, n, d)``, in the dtype of the rows, zero where not determined.
        basis: ``(*batch, d, d)``.
        positions: ``(*batch, d)``, like all below: of the row chosen for each axis.
        peaks: the largest squared length that was left.
        determined: whether that is more than rounding.
        several: whether other rows were as long as the longest; ``None`` if longest rows were not asked for.
        finite: whether all numbers are; a sample that has others is all NaN, and nothing in it determined.
        full: whether all axes are determined in all samples.
    """

    pose: Tensor
    basis: Tensor
    positions: Tensor
    peaks: Tensor
    determined: Tensor
    several: Tensor | None
    finite: bool
    full: bool


def pivoted_qr(
    rows: Tensor,
    rule: Rule,
    special: bool,
    *,
    origin: Tensor | None = None,
    mask: Tensor | None = None,
    noise: float = 0.0,
    floor: Tensor | float | None = None,
    short: Tensor | None = None,
    row_floor: Tensor | None = None,
    longest: Tensor | None = None,
) -> Decomposition:
    """Choose among the ``rows`` ``(*batch, n, d)``, relative to an origin ``(*batch, d)``, and decompose.

    Args:
        rows: as they are; padding is read as zero.
        rule: by which rows are chosen.
        special: as for ``qr.pivoted_qr``.
        origin: in float64.
        mask: ``(*batch, n)``, True for real rows.
        noise: rounding of the rows, relative to the length of the origin; not used if there is a floor.
        floor: see ``cloud.Planes``, as for those that follow.
        short: there.
        row_floor: there.
        longest: the samples in which longest rows are taken, if not in all for which the rule has a tie.
    """
    x, (*batch, n, d) = _flat(rows), rows.shape
    samples = x.shape[0]
    constant = floor if isinstance(floor, float) else 0.0
    floor = floor if isinstance(floor, Tensor) else None
    origin, mask, floor, short, row_floor, longest = map(_packed, (origin, mask, floor, short, row_floor, longest))
    per_sample, per_row = (floor, short, longest), (mask, row_floor)
    sizes = [(origin, samples * d), *((x, samples) for x in per_sample), *((x, samples * n) for x in per_row)]
    assert all(given is None or given.numel() == size for given, size in sizes)
    pose = x.new_empty(rows.shape)
    basis = x.new_empty((*batch, d, d), dtype=torch.float64)
    peaks = x.new_empty((*batch, d), dtype=torch.float64)
    positions = x.new_empty((*batch, d), dtype=torch.int64)
    determined = x.new_empty((*batch, d), dtype=torch.bool)
    several = torch.empty_like(determined) if rule.tie > 0 and longest is None else None
    at = _address
    found = _native.pivoted_qr(
        *(_where(x), samples, n, d, at(origin), at(mask), at(floor)),
        *(noise, constant, at(short), at(row_floor), at(longest), rule, special),
        *(at(pose), at(basis), at(positions), at(peaks), at(determined), at(several)),
    )
    finite, full = bool(found & FINITE), bool(found & FULL)
    return Decomposition(pose, basis, positions, peaks, determined, several, finite, full)
