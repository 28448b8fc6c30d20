"""The decomposition as an operator of PyTorch, which compilers and transforms call instead of looking into its loops.

A traced loop over rows is several times slower than the compiled one that eager mode calls. So ``torch.compile``,
``torch.export`` and ``torch.func.vmap`` record this operator, and inside it the loops are chosen as in eager mode. It
makes the discrete choices (rows, signs, rank) and has no derivative: ``qr.differentiable_basis`` follows the chosen
rows. Nothing is an error inside of it, as in all compiled code: samples with NaN come out as NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minframe.layout import Dense, Layout, Ragged
from minframe.linalg import qr
from minframe.linalg.rows import PivotedQR, Precision, Rows
from minframe.tracing import with_views

Decomposed = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]

#: the decomposition without checks; filled by ``linalg.loops``, which decides between the implementations
DECOMPOSE: list[Callable[[Rows, bool], PivotedQR]] = []

# Declared by its schema: ``torch.library.custom_op`` takes four times as long for each call.
library = torch.library.Library("minframe", "FRAGMENT")  # type: ignore[no-untyped-call]
library.define(  # type: ignore[no-untyped-call]
    "pivoted_qr(Tensor values, Tensor? mask, Tensor? batch, SymInt samples, Tensor? origin, Tensor? floor, "
    "Tensor? some, Tensor? short, Tensor? row_floor, float eps, float tolerance, float of_longest, float "
    "of_mean, float? constant, bool longest, bool "
    "special) -> (Tensor determined, Tensor coordinates, Tensor basis, Tensor positions, Tensor peaks, Tensor tied)"
)
#: number of leading arguments that are tensors or the number of samples
TENSORS = 9


def unshared(x: Tensor) -> Tensor:
    """``x`` contiguous, in memory of its own: results of operators share none."""
    x = x.resolve_conj().contiguous()
    return x if x.untyped_storage().nbytes() == x.nbytes else x.clone()


def separate(results: Sequence[Tensor]) -> list[Tensor]:
    """The results of an operator, each in memory of its own, though some may be given twice."""
    seen: set[int] = set()
    found = []
    for x in map(unshared, results):
        found.append(x.clone() if x.data_ptr() in seen else x)
        seen.add(x.data_ptr())
    return found


@with_views
def _decompose(
    values: Tensor,
    mask: Tensor | None,
    batch: Tensor | None,
    samples: int,
    origin: Tensor | None,
    floor: Tensor | None,
    some: Tensor | None,
    short: Tensor | None,
    row_floor: Tensor | None,
    eps: float,
    tolerance: float,
    of_longest: float,
    of_mean: float,
    constant: float | None,
    longest: bool,
    special: bool,
) -> Decomposed:
    dense = Dense(tuple(values.shape[:-2]), values.shape[-2], mask)
    layout: Layout = dense if batch is None else Ragged(batch, samples)
    precision = Precision(eps, tolerance, constant if floor is None else floor, of_rank=(of_longest, of_mean))
    rows = Rows(values, layout, precision, origin, longest if some is None else some, short, row_floor)
    found = DECOMPOSE[0](rows, special)
    tied = found.tied
    if tied is None:
        tied = found.determined.new_zeros(found.determined.shape[:-1] if longest else 0)
    if found.renew is not None:  # made by a compiled loop, each result in memory of its own
        return found.determined, found.coordinates[0], found.basis, found.positions, found.peaks, tied
    own, basis = unshared(found.pose(values.dtype)), unshared(found.basis)
    return found.determined, own, basis, found.positions, found.peaks, tied


def _shapes(values: Tensor, mask: Tensor | None, batch: Tensor | None, samples: int, *others: Any) -> Decomposed:
    d = values.shape[-1]
    lead = values.shape[:-2] if batch is None else (samples,)
    wide = torch.promote_types(values.dtype, torch.float64)
    return (
        values.new_empty((*lead, d), dtype=torch.bool),
        values.new_empty(values.shape),
        values.new_empty((*lead, d, d), dtype=wide),
        values.new_empty((*lead, d), dtype=torch.int64),
        values.new_empty((*lead, d), dtype=torch.float64),
        values.new_empty(lead if others[-2] else 0, dtype=torch.bool),
    )


def mapped(operator: Any, tensors: int, size: int, axes: Sequence[Any], args: Sequence[Any]) -> Sequence[Tensor]:
    """An operator under ``vmap``: the axis becomes one more batch axis, in front.

    Its first ``tensors`` arguments may be tensors, the third a batch vector. That has no batch axes, and the operator
    is called for one sample after the other.
    """
    whole = [
        x.movedim(axis, 0) if axis is not None else x.expand(size, *x.shape) if isinstance(x, Tensor) else x
        for x, axis in zip(args[:tensors], axes, strict=False)
    ]
    if args[2] is None:
        return operator(*whole, *args[tensors:])
    each = [operator(*(x[i] if isinstance(x, Tensor) else x for x in whole), *args[tensors:]) for i in range(size)]
    return tuple(torch.stack(parts) for parts in zip(*each, strict=True))


def _mapped(info: Any, axes: Sequence[Any], *args: Any) -> tuple[Sequence[Tensor], tuple[int, ...]]:
    return mapped(torch.ops.minframe.pivoted_qr, TENSORS, info.batch_size, axes, args), (0,) * 6


for device in ("CPU", "CUDA"):
    library.impl("pivoted_qr", _decompose, device)  # type: ignore[no-untyped-call]
torch.library.register_fake("minframe::pivoted_qr", _shapes, lib=library)
torch.library.register_vmap("minframe::pivoted_qr", _mapped, lib=library)

mean = qr.mean  # compilers and transforms are good at sums


def pivoted_qr(rows: Rows, special: bool) -> PivotedQR:
    """See ``Loops``."""
    layout, precision, longest = rows.layout, rows.precision, rows.longest
    batch = layout.index if isinstance(layout, Ragged) else None
    floor = precision.floor
    found = torch.ops.minframe.pivoted_qr(
        *(rows.values, layout.real, batch, 0 if batch is None else layout.batch_shape[0], rows.origin),
        *(floor if isinstance(floor, Tensor) else None, longest if isinstance(longest, Tensor) else None),
        *(rows.short, rows.row_floor, precision.eps, precision.tolerance),
        *(precision.of_rank or (precision.tolerance, 0.0)),
        *(floor if isinstance(floor, float) else None, longest is True, special),
    )
    determined, coordinates, basis, positions, peaks, tied = found
    tied = tied if longest is True else None
    return PivotedQR(determined, [coordinates], layout, basis, positions, peaks, tied=tied, zeroed=True)
