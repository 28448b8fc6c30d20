"""Orders of the rows that are drawn or computed, rather than canonical: frames of permutations with one element."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from minframe.cloud import Cloud, Relations
from minframe.frame.permutation import PermutationFrame
from minframe.labelling.action import take_edges, take_nodes
from minframe.labelling.symmetry import Symmetry
from minframe.layout import Layout

if TYPE_CHECKING:
    from minframe.groups.permutation import S


class Alone(Symmetry):
    """An order ``(B, n)`` without any symmetry to average over."""

    def __init__(self, order: Tensor) -> None:
        self.order = order

    def orbits(self) -> Tensor:
        return torch.arange(self.order.shape[-1], device=self.order.device).expand(self.order.shape)

    def orbitals(self) -> Tensor:
        n = self.order.shape[-1]
        return torch.arange(n * n, device=self.order.device).view(n, n).expand(self.order.shape[0], n, n)

    def trivial(self) -> bool:
        return True

    def sizes(self) -> list[int]:
        return [1] * self.order.shape[0]


def random_order(layout: Layout, uniform: Callable[..., Tensor], device: torch.device) -> Tensor:
    """Uniform among all orders of the rows of each sample of ``layout.pad``, ``(B, n)``, padding last."""
    mask = layout.padding_mask()
    n = layout.rows_shape[-1] if mask is None else mask.shape[-1]
    key = uniform(math.prod(layout.batch_shape), n, device=device)
    return (key if mask is None else torch.where(mask, key, 2.0)).argsort(dim=-1, stable=True)


def relabelled(cloud: Cloud, order: Tensor) -> Cloud:
    """The cloud, and all that tells its rows apart, in another order of the rows."""
    moved = cloud.reordered(order)
    if cloud.relations is None:
        return moved
    nodes = [take_nodes(x, order) for x in cloud.relations.nodes]
    return replace(moved, relations=Relations(nodes, [take_edges(x, order) for x in cloud.relations.edges]))


def ordered_frame(group: S, layout: Layout, order: Tensor, margin: Callable[[], Tensor]) -> PermutationFrame:
    """The frame with this one element: ``order`` ``(B, n)``, the row of ``layout.pad`` at each position."""
    return PermutationFrame(group, layout, Alone(order), margin)


def no_margin(layout: Layout, device: torch.device) -> Callable[[], Tensor]:
    """Nothing is decided."""
    return lambda: torch.full(layout.batch_shape, torch.inf, dtype=torch.float64, device=device)
