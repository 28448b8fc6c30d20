"""``split`` as an operator, which compilers and transforms call instead of looking into its many cases.

Where the rows have a rest frame a few operations are enough, and eager mode reads that they have. A compiler reads
nothing and would trace all cases for all samples: thousands of operations. Inside the operator the case is chosen as in
eager mode. It has no derivative: ``split.smooth`` follows the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from minframe.checks import READING, limited
from minframe.layout import Dense, Layout, Ragged
from minframe.linalg.null import Null
from minframe.linalg.operators import library, mapped, separate
from minframe.linalg.rows import Precision
from minframe.linalg.split import Split, split
from minframe.tracing import is_compiling, is_transformed, with_views

# What it returns: the matrix, whether the momentum was taken, axes, those that are spanned, and the fields of ``Null``.
library.define(  # type: ignore[no-untyped-call]
    "split(Tensor rows, Tensor? mask, Tensor? batch, SymInt samples, Tensor? floor, float eps, float tolerance, "
    "float? constant, int p, int q) -> Tensor[]"
)
TENSORS = 5


@with_views
def _split(
    rows: Tensor,
    mask: Tensor | None,
    batch: Tensor | None,
    samples: int,
    floor: Tensor | None,
    eps: float,
    tolerance: float,
    constant: float | None,
    p: int,
    q: int,
) -> list[Tensor]:
    dense = Dense(tuple(rows.shape[:-2]), rows.shape[-2], mask)
    layout: Layout = dense if batch is None else Ragged(batch, samples)
    precision = Precision(eps, tolerance, constant if floor is None else floor)
    found = limited(READING, split, rows, layout, precision, p, q)
    matrix = found.matrix
    no = matrix.new_zeros(matrix.shape[:-2], dtype=torch.bool)
    momentum = no if found.momentum is None else found.momentum
    none = matrix.new_zeros(matrix.shape[:-1], dtype=torch.bool)
    axes, spanned = (none if known is None else known for known in (found.axes, found.spanned))
    null = regular(matrix) if found.null is None else found.null
    return separate([matrix, momentum, axes, spanned, *parts_of(null)])


def parts_of(null: Null) -> list[Tensor]:
    """The tensors of a record, in their order."""
    return [getattr(null, f.name) for f in fields(null)]


def regular(matrix: Tensor) -> Null:
    """What ``Null`` is where the form is degenerate nowhere."""
    lead = matrix.shape[:-2]
    no = matrix.new_zeros(lead, dtype=torch.bool)
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand(matrix.shape)
    zero, rank = torch.zeros_like(matrix), matrix.new_zeros(lead, dtype=torch.int64)
    return Null(no, no, one, one, rank, zero, zero, zero, zero)


def _shapes(rows: Tensor, mask: Tensor | None, batch: Tensor | None, samples: int, *_: Any) -> list[Tensor]:
    d, lead = rows.shape[-1], rows.shape[:-2] if batch is None else (samples,)
    matrices = [rows.new_empty((*lead, d, d)) for _ in range(7)]
    no = [rows.new_empty(lead, dtype=torch.bool) for _ in range(3)]
    rank = rows.new_empty(lead, dtype=torch.int64)
    axes, spanned = (rows.new_empty((*lead, d), dtype=torch.bool) for _ in range(2))
    return [matrices[0], no[0], axes, spanned, *no[1:], *matrices[1:3], rank, *matrices[3:]]


def _mapped(info: Any, axes: Sequence[Any], *args: Any) -> tuple[list[Tensor], list[int]]:
    found = mapped(torch.ops.minframe.split, TENSORS, info.batch_size, axes, args)
    return list(found), [0] * len(found)


for device in ("CPU", "CUDA"):
    library.impl("split", _split, device)  # type: ignore[no-untyped-call]
torch.library.register_fake("minframe::split", _shapes, lib=library)
torch.library.register_vmap("minframe::split", _mapped, lib=library)


def split_anywhere(rows: Tensor, layout: Layout, precision: Precision, p: int, q: int) -> Split:
    """``split``, or the operator where a compiler or a transform looks on."""
    if not (is_compiling() or is_transformed(rows)):
        return split(rows, layout, precision, p, q)
    batch = layout.index if isinstance(layout, Ragged) else None
    floor = precision.floor
    matrix, momentum, axes, spanned, *null = torch.ops.minframe.split(
        *(rows, layout.real, batch, 0 if batch is None else layout.batch_shape[0]),
        *(floor if isinstance(floor, Tensor) else None, precision.eps, precision.tolerance),
        *(floor if isinstance(floor, float) else None, p, q),
    )
    return Split(
        matrix,
        momentum if min(p, q) == 1 else None,
        axes,
        spanned,
        Null(*null),
        lambda at_most: split(rows, layout, precision, p, q).margin(at_most),
    )
