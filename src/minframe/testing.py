"""Measure and assert the equivariance of any model, yours included.

>>> import torch, minframe as mf
>>> model = mf.Equivariant(torch.nn.Linear(3, 3), mf.SE(3))
>>> mf.testing.assert_equivariant(model, mf.SE(3), torch.randn(4, 10, 3))
>>> bool(mf.testing.equivariance_error(torch.nn.Linear(3, 3), mf.SE(3), torch.randn(4, 10, 3)).min() > 0.01)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from minframe.degenerate import DEGENERATIONS, particles, polytopes
from minframe.groups.base import Group
from minframe.linalg.action import wide
from minframe.ragged import Dense, Layout, layout_of
from minframe.signature import Path, Signature, leaves, map_typed
from minframe.wrap import Equivariant

RTOL = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}
RTOL |= {torch.complex128: 1e-11, torch.complex64: 1e-5}

__all__ = ["DEGENERATIONS", "RTOL", "assert_equivariant", "equivariance_error", "particles", "polytopes"]


def equivariance_error(
    model: Callable[..., Any],
    group: Group,
    *args: Any,
    inputs: Any = None,
    outputs: Any = None,
    elements: int = 8,
    permute: bool = False,
    generator: torch.Generator | None = None,
    element_options: dict[str, float] | None = None,
    **kwargs: Any,
) -> Tensor:
    """``|f(g x) - g f(x)| / |g f(x)|`` of each sample, the worst over random group elements and over the outputs.

    Inputs are moved in float64 and rounded to their dtype once; outputs are compared in float64. Translations are drawn
    in units of the size of the cloud, and what is relative to a point is the larger of its distance from the origin and
    of that translation.

    Args:
        model: any callable; an ``Equivariant`` knows its own types.
        group: the group to test against, whatever the model was made for.
        *args: arguments of the model, as in a call.
        inputs: their types, as for ``Equivariant``.
        outputs: types of what the model returns, as for ``Equivariant``.
        elements: number of random elements for each sample.
        permute: reorder the rows as well, and ask for outputs reordered in the same way.
        generator: source of randomness.
        element_options: for ``group.random``, for example ``{"max_rapidity": 3.0}``.
        **kwargs: keyword arguments of the model. Of a model that is no ``Equivariant``, arguments called ``mask`` and
            ``batch`` are taken for what ``Equivariant`` means by them.

    Returns:
        Errors ``(*batch,)`` in float64; 0 where both sides are zero.
    """
    call = _Call(model, group, args, kwargs, inputs, outputs)
    worst = torch.zeros(call.layout.batch_shape, dtype=torch.float64, device=call.cloud.device)
    plain = call.run(None, None)
    for _ in range(elements):
        g = call.random_element(generator, element_options or {})
        order = torch.randperm(call.rows, generator=generator) if permute else None
        moved = call.run(g, order)
        worst = torch.maximum(worst, call.compare(plain, moved, g, order))
    return worst


def assert_equivariant(
    model: Callable[..., Any],
    group: Group,
    *args: Any,
    rtol: float | None = None,
    degenerate: bool = False,
    **options: Any,
) -> None:
    """Raise an ``AssertionError`` that names the worst sample unless every error is at most ``rtol``.

    Args:
        model: as for ``equivariance_error``, and so are the other arguments.
        group: the group to test against.
        *args: arguments of the model.
        rtol: bound on the relative error; by default that of ``RTOL`` for the dtype of the inputs, 1e-5 in float32.
        degenerate: try the inputs in every degenerate form as well (planar, collinear, coincident, ...).
        **options: options of ``equivariance_error`` and keyword arguments of the model.
    """
    own = ("inputs", "outputs", "elements", "permute", "generator", "element_options")
    kwargs = {k: v for k, v in options.items() if k not in own}
    call = _Call(model, group, args, kwargs, options.get("inputs"), options.get("outputs"))
    if rtol is None:
        rtol = RTOL[call.cloud.dtype]
    for name, change in DEGENERATIONS.items() if degenerate else [("given", lambda x: x)]:
        new_args, new_kwargs = call.with_clouds(change)
        error = equivariance_error(model, group, *new_args, **{**options, **new_kwargs})
        if not bool((error <= rtol).all()):
            flat = error.flatten().nan_to_num(nan=torch.inf)
            worst = int(flat.argmax())
            where = [int(i) for i in torch.unravel_index(torch.tensor(worst), error.shape)]
            raise AssertionError(
                f"not equivariant to {group} on {name} inputs: relative error {flat[worst]:.3g} > {rtol:.3g} "
                f"in sample {where[0] if len(where) == 1 else tuple(where)}; "
                f"{int((flat > rtol).sum())} of {flat.numel()} samples fail, median error {flat.median():.3g}"
            )


class _Call:
    """One call of a model, with the types of everything that goes in and comes out."""

    def __init__(
        self,
        model: Callable[..., Any],
        group: Group,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: Any,
        outputs: Any,
    ) -> None:
        wrapped = model if isinstance(model, Equivariant) else None
        signature = wrapped.signature if wrapped else Signature.of(model)
        names = [signature.name(i) for i in range(len(args))]
        self.model, self.group, self.positional = model, group, names
        self.values = dict(zip(names, args, strict=True)) | kwargs
        inputs = (wrapped.inputs if wrapped else "point") if inputs is None else inputs
        self.inputs = inputs if isinstance(inputs, dict) else {signature.name(0): inputs}
        self.outputs = (wrapped.outputs if wrapped else "point") if outputs is None else outputs
        self.ragged = (wrapped.mask, wrapped.batch) if wrapped else ("mask", "batch")
        self.cloud = self._first_cloud()
        self._wide = torch.promote_types(self.cloud.dtype, torch.float64)
        mask, batch = (self.values.get(name) if name else None for name in self.ragged)
        self.layout: Layout = layout_of(self.cloud, mask, batch)
        self.rows = self.layout.length

    def _first_cloud(self) -> Tensor:
        found: list[tuple[str, Tensor]] = []
        for name, types in self.inputs.items():
            map_typed(lambda _, type, x: found.append((type, x)), types, self.values.get(name), (name,), strict=False)
        clouds = [x for wanted in ("point", "vector") for type, x in found if type == wanted]
        if not clouds:
            raise ValueError(f"no 'point' or 'vector' among the inputs to move: {dict(leaves(self.inputs))}")
        return clouds[0]

    def random_element(self, generator: torch.Generator | None, options: dict[str, Any]) -> Tensor:
        """One element per sample, its translation in units of the size of the cloud, which an outlier does not set."""
        g = self.group.random(
            *self.layout.batch_shape, dtype=self._wide, device=self.cloud.device, generator=generator, **options
        )
        linear, shift = self.group.parts(g)
        if shift is None:
            return g
        rows, layout = self.layout.join([self.layout.clean(self.cloud.detach(), 1)])
        length = torch.linalg.vector_norm(wide(rows), dim=-1)
        log = torch.where(length > 0, length, 1.0).log()
        log, share = layout.mean(torch.stack([log, (length > 0).double()], -1)).unbind(-1)
        size = (log / share.clamp_min(1e-300)).exp()  # geometric mean of the lengths; 1 for a cloud at the origin
        return self.group.assemble(linear, shift * size.unsqueeze(-1))

    def act(self, g: Tensor, x: Tensor, type: str) -> Tensor:
        return self.group.act(self.layout.for_rows(g, x), wide(x), type) if type != "scalar" else x

    def with_clouds(self, change: Callable[[Tensor], Tensor]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with every cloud of points or vectors changed, unless the change does not fit in its dtype."""

        def changed(_: Path, type: str, x: Any) -> Any:
            if type not in ("point", "vector") or x.ndim < len(self.layout.leading) + 2:
                return x
            y = change(self.layout.clean(x, 1))
            return y if y.isfinite().all() else x

        values = self._map(changed)
        return [values[n] for n in self.positional], {k: v for k, v in values.items() if k not in self.positional}

    def _map(self, function: Callable[[Path, str, Any], Any]) -> dict[str, Any]:
        changed = {
            name: map_typed(function, types, self.values[name], (name,), strict=False)
            for name, types in self.inputs.items()
            if name in self.values
        }
        return self.values | changed

    def run(self, g: Tensor | None, order: Tensor | None) -> Any:
        """What the model returns for the inputs moved by ``g`` and with their rows in another ``order``."""

        def moved(_: Path, type: str, x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            moved = x if g is None else self.act(g, x, type).to(x.dtype)
            return self._reorder(moved, order, self.group.type(type).order)

        values = self._map(moved)
        for name in self.ragged:
            if name is not None and values.get(name) is not None:
                values[name] = self._reorder(values[name], order, 0)
        return self.model(
            *(values[n] for n in self.positional), **{k: v for k, v in values.items() if k not in self.positional}
        )

    def _reorder(self, x: Tensor, order: Tensor | None, core: int) -> Tensor:
        axis = len(self.layout.batch_shape) if isinstance(self.layout, Dense) else 0
        if order is None or x.ndim <= axis + core or x.shape[axis] != self.rows:
            return x
        return x.index_select(axis, order.to(x.device))

    def compare(self, plain: Any, moved: Any, g: Tensor, order: Tensor | None) -> Tensor:
        """The largest relative error of the outputs of two runs."""
        left: list[tuple[str, Tensor]] = []
        right: list[tuple[str, Tensor]] = []

        def collect(path: Path, type: str, y: Any, into: list[tuple[str, Tensor]]) -> None:
            if not isinstance(y, Tensor):
                name = ".".join(path)
                raise TypeError(
                    f"{name} has type {type!r} but is a {y.__class__.__name__}: give outputs= of its structure"
                )
            into.append((type, y))

        map_typed(partial(collect, into=left), self.outputs, plain, ("output",), strict=True)
        map_typed(partial(collect, into=right), self.outputs, moved, ("output",), strict=True)
        back = None if order is None else order.argsort()
        errors = [
            self._relative(type, y.detach(), self._reorder(z.detach(), back, self.group.type(type).order), g)
            for (type, y), (_, z) in zip(left, right, strict=True)
        ]
        return torch.stack(errors).amax(0)

    def _relative(self, type: str, plain: Tensor, moved: Tensor, g: Tensor) -> Tensor:
        kind = self.group.type(type)
        expected = wide(self.act(g, plain, type))
        difference, scale = self._norm(wide(moved) - expected, kind.order), self._norm(expected, kind.order)
        if kind.affine:  # a point near the origin by accident is not a small output
            scale = torch.maximum(scale, self._norm(self.act(g, torch.zeros_like(plain), type), 1))
        return torch.where(difference == 0, 0.0, difference / torch.where(scale > 0, scale, difference))

    def _norm(self, y: Tensor, order: int) -> Tensor:
        """Norm of what belongs to each sample, without padding."""
        if isinstance(self.layout, Dense):
            batch = self.layout.batch_shape
            flat = self.layout.clean(y, order).reshape(*batch, math.prod(y.shape[len(batch) :]))
            return torch.linalg.vector_norm(flat, dim=-1)
        squares = y.abs().square().reshape(len(y), math.prod(y.shape[1:])).sum(1)
        return squares.new_zeros(self.layout.count).index_add(0, self.layout.owner(y), squares).sqrt()
