"""The loops over rows as Triton kernels: the cost of a frame on a GPU is its kernel launches, and each of these is one.

A program of a kernel handles one sample. It follows the PyTorch source step by step (the names are the same):

| kernel | what it computes |
|---|---|
| ``kernel.mean`` | the mean of the real rows |
| ``kernel.decompose`` | the pivoted decomposition of ``qr``, for up to 8 dimensions |
| ``kernel_rest.rest_frame`` | the boost to the rest frame of the total momentum, and whether it is taken |
| ``kernel_soft.weigh`` | the weights of one step of a smooth frame, where rows compete alone |

The decomposition works on a private float64 copy of the rows in global memory, which stays in the cache of the device:
at each step one pass finds the row to take, and one reflects all rows and finds what is left of the longest. The basis,
at most 8 by 8, is kept in registers.

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
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minframe.checks import check_finite
from minframe.layout import Dense, Layout
from minframe.linalg import qr
from minframe.linalg.ramp import CUT_WIDTH, FLATNESS
from minframe.linalg.rows import PivotedQR, Rows
from minframe.tracing import is_plain

MAX_DIMENSION = 8  # dimension up to which a basis fits into registers
BLOCK_ROWS = 128  # rows that a program processes together


class Kernels(NamedTuple):
    """The kernels, and whether Triton's interpreter runs them, on the CPU."""

    mean: Any
    decompose: Any
    rest_frame: Any
    weigh: Any
    interpreted: bool


kernels: Kernels | None = None  # while they are in use


def power_of_two(n: int) -> int:
    """The smallest power of two that is not below ``n``."""
    return 1 << (n - 1).bit_length()


def serves(x: Tensor) -> bool:
    """Whether kernels are switched on (``kernels``), and can read rows ``x`` ``(*batch, n, d)``."""
    return (
        kernels is not None
        and x.dtype in (torch.float32, torch.float64)
        and x.shape[-1] <= MAX_DIMENSION
        and (x.is_cuda or (kernels.interpreted and x.is_cpu))
        and is_plain(x)
    )


@contextlib.contextmanager
def use_kernel(on: bool = True) -> Iterator[None]:
    """Use the kernels for clouds on a GPU inside this context.

    It is not the default: they have been tested by Triton's interpreter and compiled for several targets, and have not
    run on a GPU yet.
    """
    global kernels
    saved, kernels = kernels, load() if on else None
    try:
        yield
    finally:
        kernels = saved


def load() -> Kernels:
    """The kernels. Triton takes a while to import, and is an extra, so this is done on demand."""
    try:
        rows, rest, soft = (
            importlib.import_module(f"minframe.linalg.{name}") for name in ("kernel", "kernel_rest", "kernel_soft")
        )
        interpreted = type(rows.mean).__name__ == "InterpretedFunction"
    except ImportError as error:
        raise ImportError('the kernels need Triton: pip install "minframe[gpu]"') from error
    return Kernels(rows.mean, rows.decompose, rest.rest_frame, soft.weigh, interpreted)


def _blocks(n: int, d: int) -> dict[str, int]:
    """The sizes that a kernel is compiled for."""
    return {"D": d, "PADDED": power_of_two(d), "BLOCK": min(BLOCK_ROWS, power_of_two(n))}


def _flat(rows: Tensor) -> Tensor:
    """Rows ``(*batch, n, d)`` with a single batch axis."""
    return rows.reshape(math.prod(rows.shape[:-2]), *rows.shape[-2:])


def mean(rows: Tensor, layout: Layout) -> Tensor:
    """See ``Loops``."""
    assert isinstance(layout, Dense)
    assert kernels is not None
    x = _flat(rows)
    samples, n, d = x.shape
    out = torch.empty((*rows.shape[:-2], d), dtype=torch.float64, device=x.device)
    mask = out if layout.mask is None else _packed(layout.mask)
    if samples:
        kernels.mean[(samples,)](x, mask, out, n, *x.stride(), **_blocks(n, d), HAS_MASK=layout.mask is not None)
    return out


def pivoted_qr(rows: Rows, special: bool) -> PivotedQR:
    """See ``Loops``. Nothing waits for the device, unless errors need to look at the data."""
    values, layout, precision, longest = rows.values, rows.layout, rows.precision, rows.longest
    assert isinstance(layout, Dense)
    assert kernels is not None
    x, (*batch, n, d) = _flat(values), values.shape
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
        kernels.decompose[(len(x),)](
            x,
            *(work if part is None else _packed(part) for part in given.values()),
            *(work, lengths, pose, basis, positions, peaks, determined, several, n, *x.stride()),
            *(8 * precision.eps, floor if isinstance(floor, float) else 0.0),
            *(qr.FRACTION, *(precision.of_rank or (precision.tolerance, 0.0)), width, qr.MIN_LENGTH, qr.TINY),
            **_blocks(n, d),
            SPECIAL=special,
            **{f"HAS_{name}": part is not None for name, part in given.items()},
        )
    check_finite(peaks[..., :1], precision.name)
    known = determined.view(torch.bool)
    ties = several.view(torch.bool) if longest is True else None
    tied = None if ties is None else qr.tied_samples(ties, known, special)
    return PivotedQR(known, [pose], layout, basis, positions, peaks, tied=tied, zeroed=True, several=ties)


def rest_frame(
    rows: Tensor, least: Tensor | None, time: int, massless: float, max_ratio: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The boost of ``split.rest_frame``, whether it is taken, and the sum of all squares.

    ``rows`` ``(*batch, n, d)`` in float64, padding zero; ``least`` ``(*batch, 1)``: a total that is shorter is
    rounding; ``time``: the axis whose sign no other has; ``massless`` and ``max_ratio``: the bounds of the rule.
    """
    assert kernels is not None
    x, (*batch, n, d) = _flat(rows), rows.shape
    matrix = torch.empty((*batch, d, d), dtype=torch.float64, device=x.device)
    squares = torch.empty(batch, dtype=torch.float64, device=x.device)
    momentum = torch.empty(batch, dtype=torch.int8, device=x.device)
    if len(x):
        kernels.rest_frame[(len(x),)](
            *(x, squares if least is None else _packed(least), matrix, momentum, squares, n, *x.stride()),
            *(massless, max_ratio),
            **_blocks(n, d),
            TIME=time,
            HAS_LEAST=least is not None,
        )
    return matrix, momentum.view(torch.bool), squares


def weigh(y: Tensor, sharpness: float) -> tuple[Tensor, Tensor]:
    """The weights ``(K, n)`` and ``length2`` ``(K,)`` of ``soft.choice``, for what is left of rows ``(K, n, m)``."""
    assert kernels is not None
    count, n, d = y.shape
    weights = torch.empty((count, n), dtype=torch.float64, device=y.device)
    length2 = torch.empty(count, dtype=torch.float64, device=y.device)
    if count:
        kernels.weigh[(count,)](
            *(y, weights, length2, n, *y.stride(), sharpness / 2, qr.TINY),
            **_blocks(n, d),
            FLATNESS=FLATNESS,
            CUT=CUT_WIDTH,
        )
    return weights, length2


def _packed(x: Tensor) -> Tensor:
    """Contiguous, in a dtype that the kernel reads."""
    return (x.view(torch.int8) if x.dtype == torch.bool else x.double()).contiguous()
