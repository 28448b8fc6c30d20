"""Poses as smooth functions of the rows, with first and second derivatives in C (``_slopes.c``), and any others from
``soft_derivatives``.

Values are those of ``soft_poses``: nothing is computed until a derivative is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function

from minframe.built import require_current
from minframe.layout import Layout
from minframe.layout.segments import Segments
from minframe.linalg import soft_derivatives
from minframe.linalg.qr import TINY
from minframe.linalg.ramp import CUT_WIDTH, FLATNESS
from minframe.linalg.soft import SIGN_SLOPE, Rule
from minframe.linalg.soft_poses import Poses
from minframe.tracing import is_plain

try:
    from minframe.linalg import _slopes

    require_current(_slopes)
    library: ModuleType | None = _slopes
except ImportError:
    library = None


@dataclass(frozen=True, slots=True)
class _Tables:
    """What does not depend on where derivatives are taken: poses, and where the rows of their samples are."""

    found: Poses
    layout: Layout
    segments: Segments
    rule: Rule
    shape: torch.Size

    def given(self, rows: Tensor, weight: Tensor, basis: Tensor) -> tuple[Any, ...]:
        """The arguments that both functions of the library begin with: addresses of what is kept here, and of these."""
        found, rule, segments, order = self.found, self.rule, self.segments, self.segments.order
        tables = segments.starts, segments.sizes, found.sample, found.chosen, found.gone
        tensors = *tables, found.basis, found.weight, found.scale, weight, basis
        constants = rule.sharpness, rule.special, TINY, SIGN_SLOPE, FLATNESS, CUT_WIDTH
        return (
            *(rows.data_ptr(), 0 if order is None else order.data_ptr(), *(t.data_ptr() for t in tensors)),
            *(len(found.sample), rows.shape[-1], segments.largest, constants),
        )

    def slow(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and bases by PyTorch's own operations."""
        found = soft_derivatives.differentiable_poses(rows.view(self.shape), self.layout, self.rule, self.found, None)
        return found.weight, found.basis


class _Poses(Function):
    """Weights and bases as functions of the rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, tables: _Tables) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(rows)
        ctx.tables = tables
        return tables.found.weight.detach(), tables.found.basis.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        if all(map(_is_plain, gradients)):
            return _Slope.apply(rows, *gradients, ctx.tables), None  # type: ignore[no-untyped-call]
        return _slow_slope(rows, gradients, ctx.tables), None


class _Slope(Function):
    """The gradient of the sum of weights and bases, times what is given for each, as a function of all three."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, basis: Tensor, tables: _Tables) -> Tensor:
        ctx.save_for_backward(rows, weight, basis)
        ctx.tables = tables
        rows, weight, basis = rows.contiguous(), weight.contiguous(), basis.contiguous()
        found = torch.zeros_like(rows)
        assert library is not None
        library.slopes(*tables.given(rows, weight, basis), found.data_ptr())
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, basis = ctx.saved_tensors
        (direction,) = gradients
        if torch.is_grad_enabled() or not _is_plain(direction):  # a third derivative, or many directions at once
            # Gradients that are given may depend on the rows in turn; the aliases hold only how the slope itself does.
            with torch.enable_grad():
                aliases = [t.view_as(t) if t.requires_grad else t for t in (rows, weight, basis)]
                slope = _slow_slope(aliases[0], tuple(aliases[1:]), ctx.tables)
                wanted = [t for t in aliases if t.requires_grad]
                if not slope.requires_grad:
                    return None, None, None, None
                found = iter(torch.autograd.grad(slope, wanted, direction, create_graph=True, allow_unused=True))
            return *(next(found) if t.requires_grad else None for t in aliases), None
        rows, weight, basis, direction = (t.contiguous() for t in (rows, weight, basis, direction))
        changes = torch.zeros_like(rows), torch.empty_like(weight), torch.empty_like(basis)
        given = ctx.tables.given(rows, weight, basis)
        assert library is not None
        library.curvatures(*given, len(rows), direction.data_ptr(), *(change.data_ptr() for change in changes))
        return *changes, None


def _is_plain(x: Tensor) -> bool:
    with torch.no_grad():
        return is_plain(x)


def _slow_slope(rows: Tensor, gradients: tuple[Tensor, ...], tables: _Tables) -> Tensor:
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        rows = rows if again and rows.requires_grad else rows.detach().requires_grad_()
        used = [(y, g) for y, g in zip(tables.slow(rows), gradients, strict=True) if y.requires_grad]
        if not used:
            return torch.zeros_like(rows)
        (slope,) = torch.autograd.grad(
            [y for y, _ in used], rows, [g for _, g in used], create_graph=again, materialize_grads=True
        )
    return slope


def differentiable_poses(rows: Tensor, layout: Layout, rule: Rule, found: Poses, short: Tensor | None) -> Poses:
    """See ``soft_derivatives``, which differentiates the lengths of ``short`` axes here too; these are few."""
    parts = {name: getattr(found, name).contiguous() for name in ("basis", "weight", "chosen", "gone")}
    found, flat = replace(found, **parts), rows.reshape(-1, rows.shape[-1])
    tables = _Tables(found, layout, layout.segments(rows.device), rule, rows.shape)
    weight, basis = _Poses.apply(flat, tables)  # type: ignore[no-untyped-call]
    length2 = found.length2
    if short is not None:
        at = short.nonzero().squeeze(-1)
        parts = {name: getattr(found, name)[at] for name in ("sample", "basis", "weight", "chosen", "gone", "length2")}
        some = soft_derivatives.differentiable_poses(rows, layout, rule, replace(found, **parts), short[at])
        length2 = length2.index_copy(0, at, some.length2)
    return replace(found, weight=weight, basis=basis, length2=length2)
