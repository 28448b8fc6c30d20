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
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minframe.checks import not_a_tensor
from minframe.cloud import Input
from minframe.degenerate import DEGENERATIONS, particles, polytopes
from minframe.dtypes import wide
from minframe.groups.base import Group
from minframe.groups.linear import LinearGroup
from minframe.groups.permutation import S
from minframe.groups.product import Product
from minframe.labelling.action import inverse, move
from minframe.layout import Dense, Layout
from minframe.signature import Path, Signature, leaves, map_typed
from minframe.types import CONSTANT, EDGE_ATTR, EDGE_INDEX
from minframe.wrap import Equivariant

RTOL = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}
RTOL |= {torch.complex128: 1e-11, torch.complex64: 1e-5}

__all__ = [
    "DEGENERATIONS",
    "RTOL",
    "Errors",
    "assert_equivariant",
    "bound",
    "equivariance_error",
    "equivariance_errors",
    "particles",
    "polytopes",
]


class Errors(NamedTuple):
    """How far a model is from equivariance, for each sample ``(*batch,)``, in float64.

    Attributes:
        relative: ``|f(g x) - g f(x)| / |g f(x)|``.
        absolute: the mean of ``|f(g x) - g f(x)|`` over all numbers of the output.
    """

    relative: Tensor
    absolute: Tensor


def bound(group: Group, dtype: torch.dtype) -> float:
    """The relative error that frames stay under for elements drawn with ``group.random_options(dtype)``."""
    double = torch.finfo(dtype).eps < torch.finfo(torch.float32).eps
    return 10 * RTOL[dtype] if double and not group.compact else RTOL[dtype]


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
    settings: dict[str, Any] = {"inputs": inputs, "outputs": outputs, "elements": elements, "permute": permute}
    settings |= {"generator": generator, "element_options": element_options}
    return equivariance_errors(model, group, *args, **settings, **kwargs).relative


def equivariance_errors(
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
) -> Errors:
    """The relative error of ``equivariance_error``, whose arguments it has, and the absolute one."""
    call = _Call(model, group, args, kwargs, inputs, outputs)
    zero = torch.zeros(call.layout.batch_shape, dtype=torch.float64, device=call.cloud.device)
    worst = Errors(zero, zero)
    plain = call.run(None, None)
    for _ in range(elements):
        permutation, g = call.random_element(generator, element_options or {}, permute)
        found = call.compare(plain, call.run(g, permutation), g, permutation)
        worst = Errors(*map(torch.maximum, worst, found))
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
        rtol = RTOL[call.dtype]
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
        self.linear: Group | None = None if isinstance(group, S) else group
        if isinstance(group, Product):
            self.linear = group.linear
        self.permutes = isinstance(group, S | Product)
        self.values = dict(zip(names, args, strict=True)) | kwargs
        inputs = (wrapped.inputs if wrapped else "point") if inputs is None else inputs
        self.inputs = inputs if isinstance(inputs, dict) else {signature.name(0): inputs}
        self.outputs = (wrapped.outputs if wrapped else "point") if outputs is None else outputs
        self.ragged = (wrapped.mask, wrapped.batch) if wrapped else ("mask", "batch")
        found = self._determining()
        self.cloud = found[0].x
        numbers = [i.x.dtype for i in found if i.x.is_floating_point() or i.x.is_complex()]
        self.dtype = numbers[0] if numbers else torch.get_default_dtype()
        self._wide = torch.promote_types(self.dtype, torch.float64)
        mask, batch = (self.values.get(name) if name else None for name in self.ragged)
        self.layout: Layout = group.cloud(found, mask, batch).layout

    def _determining(self) -> list[Input]:
        """The inputs that a frame would be taken of."""
        found: list[Input] = []
        for name, types in self.inputs.items():
            map_typed(
                lambda path, type, x: found.append(Input(".".join(path), x, type)),
                types,
                self.values.get(name),
                (name,),
                strict=False,
            )
        wanted = self.group.frame_types
        clouds = sorted((i for i in found if i.type in wanted), key=lambda i: wanted.index(i.type))
        if not clouds:
            kinds = " or ".join(repr(t) for t in wanted)
            raise ValueError(f"no {kinds} among the inputs to move: {dict(leaves(self.inputs))}")
        for name, x, _ in clouds:
            if not isinstance(x, Tensor):
                raise not_a_tensor(x, name)
        return clouds

    def random_element(
        self, generator: torch.Generator | None, options: dict[str, Any], permute: bool
    ) -> tuple[Tensor | None, Tensor | None]:
        """One element per sample, as a permutation and one of the linear group.

        Its translation is in units of the size of the cloud, which an outlier does not set. Without a group of
        permutations all samples are permuted in the same way.
        """
        permutation = None
        shape, device = self.layout.rows_shape, self.cloud.device
        if self.permutes:
            permutation = S().random(*shape[:-1], n=shape[-1], device=device, generator=generator)
        elif permute:
            permutation = torch.randperm(shape[-1], generator=generator).to(device).expand(shape)
        if self.linear is None:
            return permutation, None
        g = self.linear.random(
            *self.layout.batch_shape, dtype=self._wide, device=device, generator=generator, **options
        )
        linear, shift = self.linear.parts(g) if isinstance(self.linear, LinearGroup) else (None, None)
        if shift is None or not isinstance(self.linear, LinearGroup):
            return permutation, g
        rows, layout = self.layout.join([self.layout.clean(self.cloud.detach(), 1)])
        length = torch.linalg.vector_norm(wide(rows), dim=-1)
        log = torch.where(length > 0, length, 1.0).log()
        log, share = layout.mean(torch.stack([log, (length > 0).double()], -1)).unbind(-1)
        size = (log / share.clamp_min(1e-300)).exp()  # geometric mean of the lengths; 1 for a cloud at the origin
        return permutation, self.linear.assemble(linear, shift * size.unsqueeze(-1))

    def act(self, g: Tensor | None, x: Tensor, type: str) -> Tensor:
        """``x`` moved by an element of the linear group."""
        kind = self.group.type(type)
        if g is None or self.linear is None or not (kind.core_ndim or kind.parity):
            return x
        return self.linear.act(self.layout.for_rows(g, x), wide(x), type)

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

    def run(self, g: Tensor | None, permutation: Tensor | None) -> Any:
        """What the model returns for the inputs moved by ``g`` and with their rows permuted."""

        def moved(_: Path, type: str, x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            return self._permute(self.act(g, x, type).to(x.dtype), type, permutation)

        values = self._map(moved)
        for name in self.ragged:
            if permutation is not None and name is not None and values.get(name) is not None:
                values[name] = move(permutation, values[name], 1)
        return self.model(
            *(values[n] for n in self.positional), **{k: v for k, v in values.items() if k not in self.positional}
        )

    def _permute(self, x: Tensor, type: str, permutation: Tensor | None) -> Tensor:
        kind, rows = self.group.type(type), self.layout.rows_shape
        if permutation is None or kind is CONSTANT or (self.permutes and kind.name == "scalar"):
            return x
        if kind is EDGE_INDEX:
            return permutation[x]
        per_row = x.ndim >= len(rows) + kind.core_ndim and tuple(x.shape[: len(rows)]) == rows
        return move(permutation, x, kind.nodes or int(per_row and kind is not EDGE_ATTR))

    def compare(self, plain: Any, moved: Any, g: Tensor | None, permutation: Tensor | None) -> Errors:
        """The largest errors of the outputs of two runs."""
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
        back = None if permutation is None else inverse(permutation)
        errors = [
            self._errors(kind, y.detach(), self._permute(z.detach(), kind, back), g)
            for (kind, y), (_, z) in zip(left, right, strict=True)
        ]
        return Errors(*(torch.stack(kind).amax(0) for kind in zip(*errors, strict=True)))

    def _errors(self, type: str, plain: Tensor, moved: Tensor, g: Tensor | None) -> Errors:
        kind = self.group.type(type)
        expected = wide(self.act(g, plain, type))
        off = wide(moved) - expected
        difference, scale = self._norm(off, kind.core_ndim), self._norm(expected, kind.core_ndim)
        if kind.affine:  # a point near the origin by accident is not a small output
            scale = torch.maximum(scale, self._norm(self.act(g, torch.zeros_like(plain), type), 1))
        relative = torch.where(difference == 0, 0.0, difference / torch.where(scale > 0, scale, difference))
        numbers = self._norm(torch.ones_like(off), kind.core_ndim).square().clamp_min(1)
        return Errors(relative, self._norm(off.abs().sqrt(), kind.core_ndim).square() / numbers)

    def _norm(self, y: Tensor, core_ndim: int) -> Tensor:
        """Norm of the entries of each sample, without padding."""
        if isinstance(self.layout, Dense):
            batch = self.layout.batch_shape
            flat = self.layout.clean(y, core_ndim).reshape(*batch, math.prod(y.shape[len(batch) :]))
            return torch.linalg.vector_norm(flat, dim=-1)
        squares = y.abs().square().reshape(len(y), math.prod(y.shape[1:])).sum(1)
        if len(y) not in (self.layout.length, self.layout.count):  # of edges: all samples together
            return squares.sum().sqrt().expand(self.layout.count)
        return squares.new_zeros(self.layout.count).index_add(0, self.layout.owner(y), squares).sqrt()
