"""Pose and basis of rows as operators, for compiled frames without derivatives.

Of what ``operators.pivoted_qr`` returns such a frame needs half. For a batch of small clouds, where each result costs
as much as some samples, this decides what compiled code takes compared with eager mode. So does the mean: an operator
of its own is a call more, and the loops that compilers make of sums over rows take twice as long for large clouds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minframe.layout import Dense
from minframe.linalg import gpu, native, qr
from minframe.linalg.operators import DECOMPOSE, library, unshared
from minframe.linalg.rows import Oriented, Precision, Rows
from minframe.tracing import with_views

#: whether the loops in C serve a tensor; filled by ``linalg.loops``, which decides
IS_NATIVE: list[Callable[[Tensor], bool]] = []

for name, result in (("oriented", ""), ("centred", ", Tensor mean")):
    library.define(  # type: ignore[no-untyped-call]
        f"{name}(Tensor values, Tensor? mask, Tensor? origin, float eps, float tolerance, float of_longest, "
        f"float of_mean, bool special) -> (Tensor pose, Tensor basis, Tensor determined{result})"
    )


def _found(
    about_mean: bool,
    values: Tensor,
    mask: Tensor | None,
    origin: Tensor | None,
    eps: float,
    tolerance: float,
    of_longest: float,
    of_mean: float,
    special: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    if gpu.kernels is None and IS_NATIVE[0](values):
        return native.oriented(values, mask, origin, eps, (of_longest, of_mean), special, about_mean)
    layout = Dense(tuple(values.shape[:-2]), values.shape[-2], mask)
    origin = qr.mean(values, layout) if about_mean else origin
    rows = Rows(values, layout, Precision(eps, tolerance, of_rank=(of_longest, of_mean)), origin)
    found = DECOMPOSE[0](rows, special)
    return unshared(found.pose(values.dtype)), unshared(found.basis), found.determined, origin


@with_views
def _orient(*args: Any) -> tuple[Tensor, ...]:
    pose, basis, determined, _ = _found(False, *args)
    return pose, basis, determined


@with_views
def _centre(*args: Any) -> tuple[Tensor, ...]:
    pose, basis, determined, mean = _found(True, *args)
    assert mean is not None
    return pose, basis, determined, mean


def _shapes(values: Tensor, *_: Any) -> tuple[Tensor, ...]:
    lead, d = values.shape[:-2], values.shape[-1]
    wide = torch.promote_types(values.dtype, torch.float64)
    return (
        values.new_empty(values.shape),
        values.new_empty((*lead, d, d), dtype=wide),
        values.new_empty((*lead, d), dtype=torch.bool),
    )


def _centred_shapes(values: Tensor, *others: Any) -> tuple[Tensor, ...]:
    found = _shapes(values, *others)
    return *found, found[1].new_empty(found[2].shape)


def _mapped(name: str) -> Callable[..., tuple[Sequence[Tensor], tuple[int, ...]]]:
    """An operator under ``vmap``: the axis becomes one more batch axis, in front."""

    def call(info: Any, axes: Sequence[Any], *args: Any) -> tuple[Sequence[Tensor], tuple[int, ...]]:
        whole = [
            x if x is None else x.expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
            for x, axis in zip(args[:3], axes, strict=False)
        ]
        found = getattr(torch.ops.minframe, name)(*whole, *args[3:])
        return found, (0,) * len(found)

    return call


for name, run, shapes in (("oriented", _orient, _shapes), ("centred", _centre, _centred_shapes)):
    for device in ("CPU", "CUDA"):
        library.impl(name, run, device)  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"minframe::{name}", shapes, lib=library)
    torch.library.register_vmap(f"minframe::{name}", _mapped(name), lib=library)


def serves(rows: Rows) -> bool:
    """Whether rows are such as the operators take: in batches, the first that is long enough chosen."""
    precision = rows.precision
    return (
        isinstance(rows.layout, Dense)
        and rows.longest is False
        and rows.row_floor is None
        and precision.floor is None
        and precision.of_rank is not None
    )


def oriented(rows: Rows, special: bool, about_mean: bool = False) -> tuple[Oriented, Tensor | None]:
    """See ``loops.oriented``."""
    precision, layout = rows.precision, rows.layout
    assert isinstance(layout, Dense)
    assert precision.of_rank is not None
    operator = torch.ops.minframe.centred if about_mean else torch.ops.minframe.oriented
    pose, basis, determined, *mean = operator(
        *(rows.values, layout.mask, rows.origin, precision.eps, precision.tolerance, *precision.of_rank, special)
    )
    return Oriented(determined, [pose], layout, basis, zeroed=True), mean[0] if mean else None
