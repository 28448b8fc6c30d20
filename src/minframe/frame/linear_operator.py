"""Linear frames that take many cases, as an operator that ``torch.compile`` and ``torch.export`` do not look into.

Frames of general linear groups and of indefinite forms are found by reading which of several ways serves all samples.
A compiler reads nothing, and would trace all of them. The operator builds the frame of its inputs as eager mode does
and returns its tensors; samples without a frame are NaN, and nothing is an error. It has no derivative: frames that
need one are traced, and call the operators of ``linalg`` for their choices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from minframe.checks import READING, limited
from minframe.cloud import Cloud
from minframe.frame.compiled import name_of, named_group
from minframe.frame.components import PreservesForm
from minframe.frame.indefinite import found_at_rest
from minframe.frame.linear import ActsLinearly, LinearFrame
from minframe.layout import Dense, Layout, Ragged
from minframe.linalg.at_rest import AtRest
from minframe.linalg.columns import Columns
from minframe.linalg.operators import library, unshared
from minframe.linalg.rows import CanonicalRows
from minframe.linalg.stabiliser import IsometryStabiliser, NullSpan, SpanStabiliser
from minframe.tracing import is_compiling, with_views
from minframe.types import LINEAR_TYPES

library.define(  # type: ignore[no-untyped-call]
    "linear_frame(Tensor[] inputs, Tensor? mask, Tensor? batch, SymInt samples, Tensor? origin, Tensor? distance, "
    "Tensor? some, str types, float? rounding, bool longest, str group) -> Tensor[]"
)


def serves(cloud: Cloud) -> bool:
    """Whether the operator is to be called for a cloud."""
    return is_compiling() and not cloud.needs_grad and cloud.inputs[0][0].is_cpu


def _layout(inputs: Sequence[Tensor], mask: Tensor | None, batch: Tensor | None, samples: int) -> Layout:
    shape = inputs[0].shape
    return Dense(tuple(shape[:-2]), shape[-2], mask) if batch is None else Ragged(batch, samples)


@with_views
def _frame(
    inputs: list[Tensor],
    mask: Tensor | None,
    batch: Tensor | None,
    samples: int,
    origin: Tensor | None,
    distance: Tensor | None,
    some: Tensor | None,
    types: str,
    rounding: float | None,
    longest: bool,
    group: str,
) -> list[Tensor]:
    typed = [(x, LINEAR_TYPES[kind]) for x, kind in zip(inputs, types.split(","), strict=True)]
    cloud = Cloud(
        typed,
        _layout(inputs, mask, batch, samples),
        origin,
        rounding=rounding,
        distance=distance,
        longest=longest if some is None else some,
    )
    acts = named_group(group)
    if hasattr(acts, "metric"):
        ordinary = limited(READING, found_at_rest, cast(PreservesForm, acts), cloud)
        if ordinary is not None and ordinary.matrices is not None and ordinary.missing is None:
            return _of_ordinary(ordinary)
    with torch.inference_mode():  # nothing is recorded, which takes a fifth less; results are made outside of it
        frame = limited(READING, acts.frame_of, cloud)
    assert isinstance(frame, LinearFrame)
    known, linear, inverse, own = frame.stabiliser.determined, frame.linear, frame.inverse, frame.own_inverse
    assert linear is not None
    assert inverse is not None
    assert own is not None
    pose = frame.canonical_rows(inputs[0].dtype)
    matrices, flags, numbers = _details(frame, linear)
    return [
        pose.clone() if pose.is_inference() else unshared(pose),
        known.clone(),
        torch.stack([linear, inverse.mT, *matrices[:2]]),
        torch.stack([own, *matrices[2:]]),
        flags,
        numbers,
    ]


def _of_ordinary(found: AtRest) -> list[Tensor]:
    """The same of samples that are ordinary, all of them, without a frame in between. What nobody asks for is zero."""
    assert found.matrices is not None
    linear, columns = found.linear, found.columns
    lead, d = linear.shape[:-2], linear.shape[-1]
    flags = torch.zeros((4, *lead), dtype=torch.bool, device=linear.device)
    others = torch.zeros((4, *linear.shape), dtype=linear.dtype, device=linear.device)
    others[0] = found.inverse
    if columns is not None:
        flags[1] = columns.here
        others[1].diagonal(dim1=-2, dim2=-1).fill_(1)
    return [
        found.pose,
        torch.ones((*lead, d), dtype=torch.bool, device=linear.device),
        found.matrices,
        others,
        flags,
        _places(d).repeat(*lead, 1),
    ]


@functools.cache
def _places(d: int) -> Tensor:
    """The places of all columns, the dimension of the span, and no rank of a null one."""
    return torch.tensor([*range(d), d, 0], device="cpu")


def _details(frame: LinearFrame, linear: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
    """What thin, null and tied samples need: five matrices, four flags and ``d + 2`` numbers for each sample."""
    known, d = frame.stabiliser.determined, linear.shape[-1]
    lead = known.shape[:-1]
    one = torch.eye(d, dtype=linear.dtype, device=linear.device).expand(linear.shape)
    columns, tied, null, span = frame.own_columns, frame.tied, None, None
    if isinstance(frame.stabiliser, IsometryStabiliser):
        null, span = frame.stabiliser.null, frame.stabiliser.span
    if columns is None and tied is None and null is None and span is None:  # any will do where no flag is set
        flags = torch.zeros((4, *lead), dtype=torch.bool, device=linear.device)
        numbers = torch.zeros((*lead, d + 2), dtype=torch.int64, device=linear.device)
        return [linear, one, one, linear, linear], flags, numbers
    no, none = known.new_zeros(lead), known.new_zeros(known.shape, dtype=torch.int64)
    columns = columns or Columns(no, linear, one, none, linear)
    null = null or NullSpan(no, no, linear, linear, none[..., 0])
    return (
        [
            columns.adjoint,
            columns.triangle,
            one if columns.after is None else columns.after,
            null.outward,
            null.projector,
        ],
        torch.stack([no if tied is None else tied, columns.here, null.here, null.loose]),
        torch.cat(
            [columns.place, (none[..., :1] if span is None else span.unsqueeze(-1)), null.rank.unsqueeze(-1)], -1
        ),
    )


def _shapes(inputs: list[Tensor], mask: Tensor | None, batch: Tensor | None, samples: int, *_: Any) -> list[Tensor]:
    layout = _layout(inputs, mask, batch, samples)
    rows = layout.join(inputs)[0]
    lead, d = layout.batch_shape, rows.shape[-1]
    wide = torch.promote_types(rows.dtype, torch.float64)
    return [
        rows.new_empty(rows.shape, dtype=inputs[0].dtype),
        rows.new_empty((*lead, d), dtype=torch.bool),
        rows.new_empty((4, *lead, d, d), dtype=wide),
        rows.new_empty((4, *lead, d, d), dtype=wide),
        rows.new_empty((4, *lead), dtype=torch.bool),
        rows.new_empty((*lead, d + 2), dtype=torch.int64),
    ]


def _mapped(info: Any, axes: Sequence[Any], *args: Any) -> tuple[list[Tensor], list[int]]:
    """Under ``vmap``: for one sample after the other."""

    def part(x: Any, axis: Any, i: int) -> Any:
        if isinstance(x, list | tuple):
            return [part(y, a, i) for y, a in zip(x, axis, strict=True)]
        return x if axis is None else x.select(axis, i)

    each = [
        torch.ops.minframe.linear_frame(*(part(x, axis, i) for x, axis in zip(args, axes, strict=True)))
        for i in range(info.batch_size)
    ]
    axis = [0, 0, 1, 1, 1, 0]  # matrices and flags are stacked in front of the samples
    return [torch.stack(parts, at) for parts, at in zip(zip(*each, strict=True), axis, strict=True)], axis


for device in ("CPU", "CUDA"):
    library.impl("linear_frame", _frame, device)  # type: ignore[no-untyped-call]
torch.library.register_fake("minframe::linear_frame", _shapes, lib=library)
torch.library.register_vmap("minframe::linear_frame", _mapped, lib=library)


def linear_frame(
    group: ActsLinearly,
    cloud: Cloud,
    traced: Callable[[], LinearFrame],
    special: bool = False,
    metric: Sequence[int] | None = None,
    orthochronous: bool = False,
) -> LinearFrame:
    """The frame of a cloud in a graph that is being traced.

    ``traced`` traces all ways, which the margin needs; ``metric``: the signs of a form that the group preserves, and
    ``orthochronous``: the group cannot reverse time.
    """
    layout, longest = cloud.layout, cloud.longest
    batch = layout.index if isinstance(layout, Ragged) else None
    found = torch.ops.minframe.linear_frame(
        *([x.detach() for x, _ in cloud.inputs], layout.real, batch, 0 if batch is None else layout.batch_shape[0]),
        *(None if cloud.origin is None else cloud.origin.detach(), cloud.distance),
        *(longest if isinstance(longest, Tensor) else None, ",".join(kind.name for _, kind in cloud.inputs)),
        *(cloud.rounding, longest is True, name_of(group)),
    )
    pose, known, matrices, others, flags, numbers = found
    linear, inverse, adjoint, triangle = matrices.unbind()
    inverse = inverse.mT
    own, after, outward, projector = others.unbind()
    tied, here, null, loose = flags.unbind()
    place, span, rank = numbers[..., : group.d], numbers[..., group.d], numbers[..., group.d + 1]
    stabiliser: IsometryStabiliser | SpanStabiliser = SpanStabiliser(known)
    if metric is not None:
        in_span = NullSpan(null, loose, outward, projector, rank)
        stabiliser = IsometryStabiliser(
            known, special, metric, group.complex, in_span, span=span if orthochronous and not special else None
        )
    _, whole = layout.join([x.detach() for x, _ in cloud.inputs])

    return LinearFrame(
        group=group,
        linear=linear,
        inverse=inverse,
        own_inverse=own,
        own_columns=Columns(here, adjoint, triangle, place, after),
        stabiliser=stabiliser,
        cloud=cloud,
        decomposition=CanonicalRows(known, [pose], whole, zeroed=True),
        margin=lambda: traced().margin,
        tied=None if longest is False else tied,
    )
