"""The loops of ``qr`` as one Triton kernel: the cost of a frame on a GPU is its kernel launches, and this is one.

A program decomposes one sample. It follows ``qr`` step by step (the names are the same), on a private float64 copy of
the rows in global memory, which stays in the cache of the device: at each step one pass finds the row to take, and one
reflects all rows and finds what is left of the longest. The basis, at most 8 by 8, is kept in registers.

Triton is an extra (``pip install "minframe[gpu]"``). Its interpreter runs the same source on the CPU
(``TRITON_INTERPRET=1``), which is how it is tested. Compiled code has neither run nor been timed on a GPU, so it has to
be switched on (``use_kernel``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from minframe.checks import check_finite
from minframe.layout import Dense, Layout
from minframe.linalg import qr
from minframe.linalg.rows import PivotedQR, Rows

MAX_DIMENSION = 8  # dimension up to which a basis fits into registers
BLOCK_ROWS = 128  # rows that a program processes together
kernel: Any = None  # of the module ``kernel``, while it is in use


def power_of_two(n: int) -> int:
    """The smallest power of two that is not below ``n``."""
    return 1 << (n - 1).bit_length()


def serves(x: Tensor) -> bool:
    """Whether the kernel is switched on, and can decompose rows ``x`` ``(*batch, n, d)``."""
    return kernel is not None and x.dtype in (torch.float32, torch.float64) and x.shape[-1] <= MAX_DIMENSION


@contextlib.contextmanager
def use_kernel(on: bool = True) -> Iterator[None]:
    """Decompose clouds on a GPU by the kernel inside this context.

    It is not the default: it has been tested by Triton's interpreter and compiled for several targets, and has not run
    on a GPU yet.
    """
    global kernel
    saved, kernel = kernel, load() if on else None
    try:
        yield
    finally:
        kernel = saved


def load() -> Any:
    """The kernel. Triton takes a while to import, and is an extra, so this is done on demand."""
    try:
        return importlib.import_module("minframe.linalg.kernel").kernel
    except ImportError as error:
        raise ImportError('the kernel needs Triton: pip install "minframe[gpu]"') from error


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
            *(qr.FRACTION, precision.tolerance, width, qr.MIN_LENGTH, qr.TINY),
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
