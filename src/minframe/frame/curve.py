"""Rows in the order of a space-filling curve, instead of the canonical order that a product with ``S()`` finds.

The canonical pose is the same for all clouds of an orbit, and so is any order that is computed from it. Along a
Hilbert curve, rows that are close in the order are close in space, which a lexicographic order promises of its first
coordinate only.

The cell of a row is, along each axis, the rank of its coordinate among those of the cloud, equal ones counted once.
Ranks depend on comparisons of coordinates alone: no row is near the boundary of a cell, where rounding could move it to
the next. Numbers that differ by less than the tolerance of the cloud, relative to its size, are equal along every axis:
coordinates along an axis that the cloud hardly extends along are known no better. Rows in one cell keep their order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.dtypes import wide
from minframe.frame.base import Frame
from minframe.frame.product import Pair
from minframe.frame.size import Size
from minframe.labelling.action import inverse, take_edges, take_nodes
from minframe.labelling.cluster import cluster
from minframe.layout import Layout, Ragged
from minframe.linalg.hilbert import bits_per_axis, hilbert_position
from minframe.types import Type


class CurveFrame(Frame):
    """The frame ``inner`` of a product with ``S()``, its canonical rows in the order of a Hilbert curve."""

    keeps_rows = False

    def __init__(self, inner: Any, cloud: Cloud) -> None:
        self.inner = inner
        self.keeps_scalars = inner.keeps_scalars
        self.group = inner.group
        self.layout = self.shown_layout = cloud.layout
        self._tolerance = cloud.tolerance
        layout = self.layout
        canonical: Layout = layout
        if isinstance(layout, Ragged):  # in canonical order the rows of a sample stand together
            canonical = Ragged(layout.index.sort()[0], layout.count)
        mask = layout.padding_mask()
        with torch.no_grad():
            x, kind = next((x, t) for x, t in cloud.inputs if layout.is_per_row(x, t.core_ndim))
            rows = canonical.pad(wide(inner.pose(x.detach(), kind.name, own=True)))
            self._rows = rows.reshape(*rows.shape[:2], -1)
            if mask is not None:  # padding is last
                mask = torch.arange(mask.shape[-1], device=mask.device) < mask.sum(-1, keepdim=True)
            real = self._rows if mask is None else self._rows * mask.unsqueeze(-1)
            self._size = torch.linalg.vector_norm(real, torch.inf, (1, 2), keepdim=True)
            order = self._along(mask)
        self.order = canonical.unpad_order(order)
        self._back = inverse(self.order)

    def _along(self, mask: Tensor | None) -> Tensor:
        hidden = None if mask is None else mask.unsqueeze(-2)
        ranks = cluster(self._rows.mT, self._tolerance, hidden, self._size).mT.clamp_min(0)
        top, cells = ranks.amax(1, keepdim=True) + 1, 1 << bits_per_axis(ranks.shape[-1])
        ranks = torch.where(top > cells, ranks * cells // top, ranks)
        position = hilbert_position(ranks)
        if mask is not None:
            position = torch.where(mask, position, torch.iinfo(torch.int64).max)
        return position.argsort(dim=-1, stable=True)

    @property
    def element(self) -> Any:
        permutation, linear = self.inner.element
        return Pair(take_nodes(permutation, self.order), linear)

    @property
    def rank(self) -> Tensor:
        return self.inner.rank

    @property
    def size(self) -> Size:
        size: Size = self.inner.size
        return size

    @property
    def margin(self) -> Tensor:
        """The margin of the inner frame, or the distance of a coordinate gap from the tolerance, if that is smaller."""
        step = (self._rows / torch.where(self._size > 0, self._size, 1.0)).sort(1)[0].diff(dim=1)
        if not step.numel():
            return self.inner.margin
        gap = (step - self._tolerance).abs().flatten(1).amin(-1).view(self.layout.batch_shape)
        return torch.minimum(self.inner.margin, gap)

    def to_canonical(self, x: Tensor, type: str = "point") -> Tensor:
        return self._take(self.inner.to_canonical(x, type), x, type, self.order)

    def pose(self, x: Tensor, type: str = "point", own: bool = False) -> Tensor:
        return self._take(self.inner.pose(x, type, own), x, type, self.order)

    def from_canonical(self, y: Tensor, type: str = "point") -> Tensor:
        return self.inner.from_canonical(self._take(y, y, type, self._back), type)

    def reorder(self, x: Tensor) -> Tensor:
        return take_nodes(self.inner.reorder(x), self.order)

    def _take(self, y: Tensor, like: Tensor, type: str, order: Tensor) -> Tensor:
        kind: Type = self.group.type(type)
        nodes = self.inner._nodes(like, kind)
        return y if nodes == 0 else take_nodes(y, order) if nodes == 1 else take_edges(y, order)
