"""Frames of products of permutations with a linear group, and frames of linear groups that ignore row order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.dtypes import wide
from minframe.frame.base import Acts, Frame
from minframe.frame.linear import LinearFrame
from minframe.frame.pairs import Pairs
from minframe.frame.permutation import slots
from minframe.frame.record import Known
from minframe.frame.size import Size, nested
from minframe.labelling.action import inverse, take_edges, take_nodes
from minframe.labelling.orbits import orbit_mean, orbital_mean
from minframe.labelling.symmetry import RowSymmetry
from minframe.layout import Layout, Ragged
from minframe.linalg.action import transform
from minframe.types import CONSTANT, UNTOUCHED, Type


class Pair(NamedTuple):
    """An element of a product: ``permutation`` ``(*batch, n)``, and an element of the linear group."""

    permutation: Tensor
    linear: Tensor


def _ordered(x: Tensor, nodes: int, index: Tensor) -> Tensor:
    """``x`` with that many axes of nodes, at ``index``."""
    return x if nodes == 0 else take_nodes(x, index) if nodes == 1 else take_edges(x, index)


class ProductFrame(Frame):
    """Pairs of a permutation and an element of a linear group.

    Args:
        group: the product.
        cloud: the inputs that determined the frame.
        order: the row at each position, ``(*batch, n)`` or ``(N,)``.
        linear: the frame of the rows in that order.
        twins: ``(B, n)``, equal for positions whose rows coincide; ``None``: no two do.
        pairs: the symmetry of the samples that have any, besides that.
        shown: whether a backbone sees the rows in that order, or in their own.
        margin: computes the margin of the order on demand.
    """

    def __init__(
        self,
        group: Acts,
        cloud: Cloud,
        order: Tensor,
        linear: LinearFrame,
        twins: Tensor | None,
        pairs: Sequence[Pairs],
        shown: bool,
        margin: Callable[[], Tensor],
    ) -> None:
        self.group = group
        self.cloud = cloud
        self.layout = self.shown_layout = cloud.layout
        self.order = order
        self._positions: Tensor | None = None
        self.linear = linear
        self.pairs = pairs
        self.twins = twins
        self._twins = None if twins is None else RowSymmetry(twins)
        self._shown = shown
        self.keeps_rows = not shown
        self.keeps_scalars = shown  # of a product they are of the whole sample
        self._margin = margin

    def with_symmetry(self, twins: Tensor | None, pairs: Sequence[Pairs]) -> ProductFrame:
        """The same frame with another symmetry of the clouds."""
        order, linear, margin = self.order, self.linear, self._margin
        return ProductFrame(self.group, self.cloud, order, linear, twins, pairs, self._shown, margin)

    def with_rows(self, cloud: Cloud, order: Tensor) -> ProductFrame:
        """The same frame of a cloud whose rows have another order, in which ``order`` finds them."""
        linear, margin = self.linear, self._margin
        return ProductFrame(self.group, cloud, order, linear, self.twins, self.pairs, self._shown, margin)

    def for_other_inputs(self) -> ProductFrame:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, linear=self.linear.for_other_inputs())
        return made

    def stored(self) -> dict[str, Any]:
        return super().stored() | {"cloud": replace(self.cloud, inputs=(), relations=None)}

    def collated(self, frames: Sequence[Frame], layout: Layout) -> ProductFrame:
        device = self.order.device
        places = slots(frames, layout, device)
        count, n = places.shape
        rest = torch.arange(n, device=device)
        order, twins, pairs, linear, margins = rest.repeat(count, 1), rest.repeat(count, 1), [], [], []
        for sample, frame in enumerate(frames):
            if not isinstance(frame, ProductFrame):  # it ignores the order of rows, which have no symmetry
                assert isinstance(frame, LinearFrame)
                linear.append(frame)
                margins.append(frame.margin.view(()))
                continue
            m = frame.order.numel()
            order[sample, :m] = frame.order.view(-1)
            if frame.twins is not None:
                twins[sample, :m] = frame.twins.view(-1)
            pairs += [part.padded(n, sample) for part in frame.pairs]
            linear.append(frame.linear)
            margins.append(frame.margin.view(()))
        rows = layout.unpad_order(places.gather(-1, order))
        whole = linear[0].collated(linear, layout.reordered(rows))
        doubled = None if all(f.twins is None for f in frames if isinstance(f, ProductFrame)) else twins
        cloud = replace(self.cloud, inputs=(), layout=layout, origin=None, relations=None)
        margin = Known(torch.stack(margins))
        return ProductFrame(self.group, cloud, rows, whole, doubled, pairs, self._shown, margin)

    @property
    def symmetric(self) -> bool:
        """Whether some sample may have a symmetry besides points that coincide."""
        return bool(self.pairs)

    @property
    def element(self) -> Any:
        return Pair(self.order, self.linear.element) if self._shown else self.linear.element

    @property
    def rank(self) -> Tensor:
        return self.linear.rank

    @property
    def size(self) -> Size:
        finite = [1] * math.prod(self.layout.batch_shape) if self._twins is None else self._twins.sizes()
        for pairs in self.pairs:
            finite[pairs.sample] *= pairs.order
        linear = self.linear.stabiliser.size.flatten().tolist()
        sizes = [s if math.isinf(s) else int(s) * k for s, k in zip(linear, finite, strict=True)]
        size: Size = nested(sizes, self.layout.batch_shape)
        return size

    @property
    def margin(self) -> Tensor:
        return torch.minimum(self.linear.margin, self._margin().view(self.layout.batch_shape))

    def _nodes(self, x: Tensor, kind: Type) -> int:
        """Number of axes that permutations reorder."""
        if kind in UNTOUCHED or (kind.name == "scalar" and self.keeps_scalars):
            return 0
        return kind.nodes or int(self.layout.is_per_row(x, kind.core_ndim))

    def to_canonical(self, x: Tensor, type: str = "point") -> Tensor:
        kind = self._checked(x, type, "x")
        return x if kind is CONSTANT else self._to_canonical(x, kind, lambda y: self.linear.to_canonical(y, kind.name))

    def pose(self, x: Tensor, type: str = "point", own: bool = False) -> Tensor:
        return self.shown(x, self._checked(x, type, "x"), own)

    def from_canonical(self, y: Tensor, type: str = "point") -> Tensor:
        return self.carried_back(y, self._checked(y, type, "y"))

    def _checked(self, x: Tensor, type: str, name: str) -> Type:
        """The type of that name, after checking that ``x`` is of it."""
        kind = self.group.type(type)
        if kind is not CONSTANT:
            self.group.check(x, type, name, self.layout)
        return kind

    def shown(self, x: Tensor, kind: Type, own: bool) -> Tensor:
        if kind is CONSTANT:
            return x
        if own and kind.core_ndim:
            for original, (moved, _) in zip(self.cloud.inputs, self.linear.cloud.inputs, strict=True):
                if original[0] is x:
                    y = self.linear.shown(moved, kind, own=True)
                    return y if self._shown else _ordered(y, self._nodes(y, kind), self._back)
        if own:
            return self._to_canonical(x, kind, lambda y: self.linear.shown(y, kind, own=True))
        x = self.layout.clean(x, kind.core_ndim)
        nodes = self._nodes(x, kind)
        y = self._average(_ordered(x, nodes, self.order), kind, nodes, inward=True)
        return y if self._shown else _ordered(y, nodes, self._back)

    def carried_back(self, y: Tensor, kind: Type) -> Tensor:
        nodes = self._nodes(y, kind)
        if not self._shown:
            y = _ordered(y, nodes, self.order)
        y = self._average(y, kind, nodes, inward=False)
        if not kind.nodes:
            y = self.linear.carried_back(y, kind)
        if nodes == 0:
            return y
        if self._positions is None:
            self._positions = inverse(self.order)
        return take_nodes(y, self._positions) if nodes == 1 else take_edges(y, self._positions)

    @property
    def _back(self) -> Tensor:
        """The position of each row."""
        if self._positions is None:
            self._positions = inverse(self.order)
        return self._positions

    def reorder(self, x: Tensor) -> Tensor:
        return take_nodes(x, self.order) if self._shown else x

    def _to_canonical(self, x: Tensor, kind: Type, linear: Callable[[Tensor], Tensor]) -> Tensor:
        x = self.layout.clean(x, kind.core_ndim)
        nodes = self._nodes(x, kind)
        x = _ordered(x, nodes, self.order)
        x = x if kind.nodes else linear(x)
        return x if self._shown else _ordered(x, nodes, self._back)

    def _average(self, y: Tensor, kind: Type, nodes: int, inward: bool) -> Tensor:
        """The mean over the symmetry, of ``y`` with its rows in canonical order; of ``g^-1 . y`` if ``inward``."""
        if not kind.nodes:
            if inward:  # to the canonical pose first, where the symmetry is known
                y = self.linear.shown(y, kind, own=False)
            elif self.symmetric and (kind.core_ndim or kind.parity):
                y = self.linear.averaged(y, kind)
        if nodes and self._twins is not None:
            if nodes == 1:
                y = orbit_mean(y, self._numbers(self._twins.orbits()))
            else:
                y = orbital_mean(y, self._twins.orbitals().view(*self.layout.rows_shape, -1))
        if not self.symmetric or not (nodes or kind.core_ndim or kind.parity):
            return y
        return self.over_pairs(y, kind, nodes)

    def _numbers(self, orbits: Tensor) -> Tensor:
        return self.linear.layout.unpad_numbers(orbits)

    def over_pairs(self, y: Tensor, kind: Type, nodes: int, adjoint: bool = False) -> Tensor:
        """The mean of ``(p, O) . y`` over the symmetry of each sample, or the adjoint of this."""
        dtype = y.dtype if y.is_floating_point() or y.is_complex() else torch.get_default_dtype()
        layout = self.layout
        if isinstance(layout, Ragged) and nodes:
            sizes = layout.sizes().flatten().tolist()
            samples = list(torch.split(y, sizes))  # in canonical order they stand together
        else:
            flat = y.reshape(-1, *y.shape[len(layout.batch_shape) :])
            samples = list(flat.unbind(0))

        def mean(permutations: Tensor, matrices: Tensor, x: Tensor) -> Tensor:
            matrices = torch.linalg.inv(matrices).mH if adjoint else matrices
            return mean_of_pairs(permutations[:, : x.shape[0]] if nodes else permutations, matrices, x, kind, nodes)

        for pairs in self.pairs:
            samples[pairs.sample] = pairs.average(wide(samples[pairs.sample]), mean).to(dtype)
        if isinstance(layout, Ragged) and nodes:
            return torch.cat([s.to(dtype) for s in samples])
        return torch.stack([s.to(dtype) for s in samples]).view(y.shape)


def mean_of_pairs(permutations: Tensor, matrices: Tensor, y: Tensor, kind: Type, nodes: int) -> Tensor:
    """The mean of ``(p, O) . y`` over permutations ``(t, n)`` and matrices ``(t, d, d)``; ``y`` is of one sample."""
    t = len(permutations)
    permutations, matrices = permutations.to(y.device), matrices.to(y.device)
    terms = y.expand(t, *y.shape)
    if kind.core_ndim or kind.parity:
        matrix = torch.linalg.inv(matrices).mT if kind.dual else matrices
        terms = transform(terms, kind, matrix, torch.linalg.det(matrices) if kind.parity else None)
    if nodes == 0:
        return terms.mean(0)
    target = permutations
    if nodes == 2:
        n = permutations.shape[-1]
        target = (permutations.unsqueeze(-1) * n + permutations.unsqueeze(-2)).flatten(1)
    flat = terms.reshape(t * target.shape[-1], *y.shape[nodes:])
    total = torch.zeros((target.shape[-1], *y.shape[nodes:]), dtype=flat.dtype, device=flat.device)
    return (total.index_add(0, target.flatten(), flat) / t).view(y.shape)
