"""The loops of ``qr`` in C, for small clouds: what those cost is the number of calls, and here it is one.

Built on installation where there is a C compiler; without it all is as exact, and small clouds take a few times as
long. PyTorch is near the floor for large ones, and has threads for them. To it are also left batch vectors, complex
numbers, other devices, and whatever somebody traces or transforms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.errors import has_tangent, readable
from minframe.linalg.action import wide

try:
    from minframe.linalg import _native
except ImportError:
    _native = None  # type: ignore[assignment]

NUMBERS = 16_384  # in a tensor, from which on it is large
FINITE, FULL = 1, 2  # what ``_native.pivoted_qr`` returns, as bits


def is_at_hand(x: Tensor) -> bool:
    """Whether ``x`` is small, and may be read from memory: nobody looks on, and no derivative is wanted."""
    return (
        _native is not None
        and readable(x)
        and x.numel() <= NUMBERS
        and x.is_cpu
        and type(x) is Tensor
        and x.dtype in (torch.float32, torch.float64)
        and not has_tangent(x)
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._is_tracing()
    )


def _packed(x: Tensor | None) -> Tensor | None:
    """Contiguous, and in float64 unless boolean."""
    return None if x is None else x.contiguous() if x.dtype == torch.bool else wide(x).contiguous()


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def mean(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Mean of the rows ``(*batch, n, d)`` that the mask leaves, in float64, ``(*batch, d)``."""
    *batch, n, d = rows.shape
    out = rows.new_empty((*batch, d), dtype=torch.float64)
    packed, mask = _packed(rows), _packed(mask)
    _native.mean(_address(packed), _address(mask), math.prod(batch), n, d, _address(out))
    return out


def planes(rows: Tensor, origin: Tensor | None, mask: Tensor | None) -> Tensor:
    """``Dense.planes`` of rows ``(*batch, n, d)`` relative to an origin ``(*batch, d)``; padding becomes zero."""
    *batch, n, d = rows.shape
    out = rows.new_empty((d, *batch, n + d), dtype=torch.float64)
    packed, origin, mask = _packed(rows), _packed(origin), _packed(mask)
    _native.planes(_address(packed), _address(origin), _address(mask), math.prod(batch), n, d, _address(out))
    return out


class Decomposition(NamedTuple):
    """What ``pivoted_qr`` found, one entry for each sample and axis.

    Attributes:
        positions: of the rows chosen.
        peaks: the largest squared length that was left.
        determined: whether that is more than rounding.
        several: whether other rows were above the bar.
        finite: whether all numbers are; else the peaks of some sample begin with one that is not.
        full: whether all axes are determined in all samples.
    """

    positions: Tensor
    peaks: Tensor
    determined: Tensor
    several: Tensor
    finite: bool
    full: bool


def pivoted_qr(
    values: Tensor,
    floor: Tensor | float | None,
    short: Tensor | None,
    row_floor: Tensor | None,
    rule: Sequence[float],
    special: bool,
) -> Decomposition:
    """Choose the rows of planes ``(d, *batch, n + d)`` and decompose them in place. For the rest, see ``cloud.Planes``.

    ``rule``: the constants of ``qr``, in the order of ``Rule`` in the C source.
    """
    d, *batch, length = values.shape
    samples, n = math.prod(batch), length - d
    floors = _packed(floor if isinstance(floor, Tensor) else None)
    short, row_floor = _packed(short), _packed(row_floor)
    assert values.is_contiguous()
    for x, count in ((floors, samples), (short, samples), (row_floor, samples * n)):
        assert x is None or x.numel() == count
    scratch = values.new_empty((1 if short is None else 2) * length + d)
    peaks = values.new_empty((*batch, d))
    positions = values.new_empty((*batch, d), dtype=torch.int64)
    determined, several = (values.new_empty((*batch, d), dtype=torch.bool) for _ in range(2))
    found = _native.pivoted_qr(
        *(_address(values), d, samples, n),
        *(_address(floors), floor if isinstance(floor, float) else 0.0, _address(short), _address(row_floor)),
        *(tuple(rule), special),
        *(_address(scratch), _address(positions), _address(peaks), _address(determined), _address(several)),
    )
    return Decomposition(positions, peaks, determined, several, bool(found & FINITE), bool(found & FULL))
