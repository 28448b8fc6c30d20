"""Frames that depend on values of the data, as operators that ``torch.compile`` and ``torch.export`` do not trace.

While a graph is traced the order of the rows and the average over the symmetry are calls of the operators below; under
finite groups, whatever the frame does to a tensor. They build the frame of their inputs, as in eager mode, and return
the requested part of it. The group is passed by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minframe.checks import unchecked
from minframe.cloud import Cloud, Relations
from minframe.frame.base import Acts, Frame
from minframe.frame.linear import ActsLinearly
from minframe.frame.orbit import OrbitFrame
from minframe.frame.product import Pair, ProductFrame
from minframe.frame.size import Size
from minframe.labelling.action import take_nodes
from minframe.layout import Dense, Ragged
from minframe.tracing import constant_while_compiling
from minframe.types import PRODUCT_TYPES, Type

Arguments = tuple[list[Tensor], list[Tensor], list[Tensor], Tensor | None, str, str, str]
_GROUPS: dict[str, Acts] = {}
#: groups by name; filled by ``minframe.groups``
NAMES: dict[str, Any] = {}
#: how a frame is built eagerly, by the name of the choice; filled where these functions stand
FRAME_MAKERS: dict[str, Callable[[Any, Cloud], Frame]] = {}


def named_group(name: str) -> Acts:
    """The group of this name."""
    if name not in _GROUPS:  # in a process that loads what another one exported
        _GROUPS[name] = eval(name, {"__builtins__": {}}, NAMES)
    return _GROUPS[name]


@constant_while_compiling
def name_of(group: Acts) -> str:
    """The name by which ``named_group`` finds a group."""
    _GROUPS[repr(group)] = group
    return repr(group)


def _arguments(group: Acts, cloud: Cloud, maker: str) -> Arguments:
    if isinstance(cloud.layout, Ragged):
        raise NotImplementedError("frames in a canonical order are not compiled with a batch vector: give a mask")
    name = name_of(group)
    relations = cloud.relations or Relations()
    if relations.edge_index is not None:
        only = torch.zeros(1, dtype=torch.int64, device=relations.edge_index.device)
        relations = Relations(relations.nodes, [relations.dense(cloud.layout, only).squeeze(0)])
    types = ",".join(kind.name for _, kind in cloud.inputs)
    inputs = [x.detach() for x, _ in cloud.inputs]
    nodes, edges = ([x.detach() for x in part] for part in (relations.nodes, relations.edges))
    return inputs, nodes, edges, cloud.layout.mask, types, name, maker


def _frame(
    inputs: list[Tensor],
    nodes: list[Tensor],
    edges: list[Tensor],
    mask: Tensor | None,
    types: str,
    group: str,
    maker: str,
) -> Frame:
    typed = [(x, PRODUCT_TYPES[kind]) for x, kind in zip(inputs, types.split(","), strict=True)]
    rows = inputs[0].shape[:-1]
    layout = Dense(tuple(rows[:-1]), rows[-1], mask)
    # Samples with NaN get any order; the rows themselves make them NaN, as everywhere in compiled code.
    with unchecked():
        cloud = Cloud(typed, layout, relations=Relations(nodes, edges)).tamed()
    return FRAME_MAKERS[maker](named_group(group), cloud)


@torch.library.custom_op("minframe::product_order", mutates_args=())
def _product_order(
    inputs: list[Tensor],
    nodes: list[Tensor],
    edges: list[Tensor],
    mask: Tensor | None,
    types: str,
    group: str,
    maker: str,
) -> tuple[Tensor, Tensor]:
    frame = _frame(inputs, nodes, edges, mask, types, group, maker)
    rows = inputs[0].shape[:-1]
    number = torch.arange(rows[-1], device=inputs[0].device)
    order, twins = number.repeat(*rows[:-1], 1), number.repeat(math.prod(rows[:-1]), 1)
    if isinstance(frame, ProductFrame):
        order = frame.order.clone()
        twins = twins if frame.twins is None else frame.twins.clone()
    return order, twins


@_product_order.register_fake
def _(
    inputs: list[Tensor],
    nodes: list[Tensor],
    edges: list[Tensor],
    mask: Tensor | None,
    types: str,
    group: str,
    maker: str,
) -> tuple[Tensor, Tensor]:
    rows = inputs[0].shape[:-1]
    order = inputs[0].new_empty(rows, dtype=torch.int64)
    return order, order.new_empty((math.prod(rows[:-1]), rows[-1]))


@torch.library.custom_op("minframe::pair_average", mutates_args=())
def _pair_average(
    y: Tensor,
    type: str,
    rows: int,
    adjoint: bool,
    inputs: list[Tensor],
    nodes: list[Tensor],
    edges: list[Tensor],
    mask: Tensor | None,
    types: str,
    group: str,
    maker: str,
) -> Tensor:
    frame = _frame(inputs, nodes, edges, mask, types, group, maker)
    if not isinstance(frame, ProductFrame) or not frame.pairs:
        return y.clone()
    return frame.over_pairs(y, PRODUCT_TYPES[type], rows, adjoint).contiguous()


@_pair_average.register_fake
def _(
    y: Tensor,
    type: str,
    rows: int,
    adjoint: bool,
    inputs: list[Tensor],
    nodes: list[Tensor],
    edges: list[Tensor],
    mask: Tensor | None,
    types: str,
    group: str,
    maker: str,
) -> Tensor:
    return torch.empty_like(y, memory_format=torch.contiguous_format)


def _setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    _, *ctx.rest = inputs


def _backward(ctx, gradient: Tensor):  # type: ignore[no-untyped-def]
    # The mean of the adjoints of g . y over all g is the mean over the same group in the dual representation.
    kind, rows, adjoint, *cloud = ctx.rest
    nothing = [[None] * len(x) if isinstance(x, list) else None for x in ctx.rest]
    return _pair_average(gradient.contiguous(), kind, rows, not adjoint, *cloud), *nothing


_pair_average.register_autograd(_backward, setup_context=_setup)


class CompiledFrame(ProductFrame):
    """A frame of permutations and a linear group in a graph that is being traced."""

    def __init__(self, group: Acts, linear: ActsLinearly, cloud: Cloud, maker: str) -> None:
        shown = maker == "product"
        self._arguments = _arguments(group, cloud, maker)
        order, twins = _product_order(*self._arguments)
        frame = linear.frame_of(cloud.reordered(order))
        super().__init__(group, cloud, order, frame, twins if shown else None, (), shown, lambda: frame.margin)

    @property
    def symmetric(self) -> bool:
        return True

    def over_pairs(self, y: Tensor, kind: Type, nodes: int, adjoint: bool = False) -> Tensor:
        return _pair_average(y.contiguous(), kind.name, nodes, adjoint, *self._arguments)


@torch.library.custom_op("minframe::orbit_choice", mutates_args=())
def _orbit_choice(
    inputs: list[Tensor],
    nodes: list[Tensor],
    edges: list[Tensor],
    mask: Tensor | None,
    types: str,
    group: str,
    maker: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The number of one element and the order of the rows under it, and the margin."""
    frame = _frame(inputs, nodes, edges, mask, types, group, maker)
    assert isinstance(frame, OrbitFrame)
    order = frame.layout.unpad_order(frame._order)
    return frame.choice.first.clone(), order.contiguous().clone(), frame.margin.contiguous().clone()


@_orbit_choice.register_fake
def _(inputs: list[Tensor], *others: object) -> tuple[Tensor, Tensor, Tensor]:
    rows = inputs[0].shape[:-1]
    order = inputs[0].new_empty(rows, dtype=torch.int64)
    return order.new_empty(math.prod(rows[:-1])), order, order.new_empty(rows[:-1], dtype=torch.float64)


@torch.library.custom_op("minframe::orbit_moved", mutates_args=())
def _orbit_moved(
    x: Tensor,
    type: str,
    rows: int,
    inward: bool,
    alone: bool,
    inputs: list[Tensor],
    nodes: list[Tensor],
    edges: list[Tensor],
    mask: Tensor | None,
    types: str,
    group: str,
    maker: str,
) -> Tensor:
    frame = _frame(inputs, nodes, edges, mask, types, group, maker)
    assert isinstance(frame, OrbitFrame)
    return frame.moved(x, PRODUCT_TYPES[type], rows, inward, alone).contiguous()


@_orbit_moved.register_fake
def _(x: Tensor, *others: object) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _orbit_backward(ctx, gradient: Tensor):  # type: ignore[no-untyped-def]
    kind, rows, inward, alone, *cloud = ctx.rest
    nothing = [[None] * len(x) if isinstance(x, list) else None for x in ctx.rest]
    return _orbit_moved(gradient.contiguous(), kind, rows, not inward, alone, *cloud), *nothing


_orbit_moved.register_autograd(_orbit_backward, setup_context=_setup)


class CompiledOrbitFrame(OrbitFrame):
    """A frame of a finite group in any order of the rows, in a graph that is being traced."""

    def __init__(self, group: Acts, matrices: Tensor, cloud: Cloud, shown: bool) -> None:
        self._prepare(group, matrices, cloud, shown)
        self._arguments = _arguments(group, cloud, "product" if shown else "unordered")

    def moved(self, x: Tensor, kind: Type, nodes: int, inward: bool, alone: bool) -> Tensor:
        return _orbit_moved(x.contiguous(), kind.name, nodes, inward, alone, *self._arguments)

    @property
    def element(self) -> Any:
        first, order, _ = _orbit_choice(*self._arguments)
        linear = self.matrices[first].to(self.cloud.dtype).view(*self.layout.batch_shape, *self.matrices.shape[1:])
        return Pair(order, linear) if self._shown else linear

    @property
    def rank(self) -> Tensor:
        first, _, _ = _orbit_choice(*self._arguments)
        return torch.full_like(first, self.matrices.shape[-1]).view(self.layout.batch_shape)

    @property
    def size(self) -> Size:
        raise NotImplementedError(f"the size of a frame of {self.group} is no tensor: ask for it outside of a graph")

    @property
    def margin(self) -> Tensor:
        return _orbit_choice(*self._arguments)[2]

    def reorder(self, x: Tensor) -> Tensor:
        return take_nodes(x, _orbit_choice(*self._arguments)[1]) if self._shown else x
