"""Frames of permutations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from minframe.frame.base import Acts, Frame
from minframe.frame.size import Size, nested
from minframe.labelling.action import inverse, take_edges, take_nodes
from minframe.labelling.orbits import orbit_mean, orbital_mean
from minframe.labelling.symmetry import Symmetry
from minframe.layout import Layout
from minframe.types import Type


class Permutes(Acts, Protocol):
    """What a frame needs to know of a group of permutations; see ``S``."""

    @property
    def backend(self) -> str:
        """The library for canonical labelling."""

    @property
    def rtol(self) -> float:
        """Numbers that differ by less, relative to the largest, are equal."""

    @property
    def directed(self) -> bool | None:
        """``False``: edges have no direction."""


class PermutationFrame(Frame):
    """The permutations that bring rows or a graph into canonical order.

    ``rank`` is the number of orbits of the rows: how many of them can be told apart.

    Args:
        group: the permutations.
        layout: of the rows.
        symmetry: the canonical order of each sample and what may be exchanged in it.
        margin: computes the margin when it is asked for.
    """

    keeps_rows = False

    def __init__(self, group: Permutes, layout: Layout, symmetry: Symmetry, margin: Callable[[], Tensor]) -> None:
        self.group = group
        self.layout = self.shown_layout = layout
        self.symmetry = symmetry
        self.order = layout.unpad_order(symmetry.order)
        self._back = inverse(self.order)
        self._orbits: dict[int, Tensor] = {}
        self._margin = margin

    def _numbers(self, nodes: int) -> Tensor:
        """Orbits of nodes or of pairs of them, computed once."""
        if nodes not in self._orbits:
            n = self.order.shape[-1]
            self._orbits[nodes] = (
                self.layout.unpad_numbers(self.symmetry.orbits())
                if nodes == 1
                else self.symmetry.orbitals().view(*self.layout.rows_shape, n)
            )
        return self._orbits[nodes]

    @property
    def element(self) -> Tensor:
        return self.order

    @property
    def rank(self) -> Tensor:
        orbits = self.symmetry.orbits()
        own = orbits == torch.arange(orbits.shape[-1], device=orbits.device)
        mask = self.layout.padding_mask()
        return (own if mask is None else own & mask).sum(-1).view(self.layout.batch_shape)

    @property
    def size(self) -> Size:
        size: Size = nested(self.symmetry.sizes(), self.layout.batch_shape)
        return size

    @property
    def margin(self) -> Tensor:
        return self._margin().view(self.layout.batch_shape)

    def to_canonical(self, x: Tensor, type: str = "node") -> Tensor:
        kind = self._checked(x, type, "x")
        return self._take(self._clean(x, kind), kind, self.order)

    def pose(self, x: Tensor, type: str = "node", own: bool = False) -> Tensor:
        kind = self._checked(x, type, "x")
        x = self._clean(x, kind)
        if not own:
            return self._take(self._average(x, kind), kind, self.order)
        x = self._take(x, kind, self.order)
        return x + 0.0 if kind.nodes and x.is_floating_point() else x  # -0.0 equals 0.0, and is shown as that

    def from_canonical(self, y: Tensor, type: str = "node") -> Tensor:
        # Averaged where all relabelled graphs look the same, sums are added up in the same order, bit by bit.
        kind = self._checked(y, type, "y")
        return self._take(self._average(y, kind, canonical=True), kind, self._back)

    def reorder(self, x: Tensor) -> Tensor:
        return take_nodes(x, self.order)

    def _checked(self, x: Tensor, type: str, name: str) -> Type:
        kind = self.group.type(type)
        self.group.check(x, type, name, self.layout)
        return kind

    def _clean(self, x: Tensor, kind: Type) -> Tensor:
        if kind.nodes == 0:
            return x
        x = self.layout.clean(x, 0)
        if kind.nodes == 2 and self.layout.real is not None:
            axis = x.ndim - self.layout.real.ndim - 1
            real = self.layout.real.unsqueeze(-2)
            x = torch.where(real.view(*real.shape, *(1,) * axis), x, torch.zeros((), dtype=x.dtype, device=x.device))
        return x

    def _take(self, x: Tensor, kind: Type, index: Tensor) -> Tensor:
        if kind.nodes == 0:
            return x
        return take_nodes(x, index) if kind.nodes == 1 else take_edges(x, index)

    def _average(self, y: Tensor, kind: Type, canonical: bool = False) -> Tensor:
        """The mean over each orbit, which is the average over all permutations that change nothing."""
        if kind.nodes == 0 or self.symmetry.trivial():
            return y
        numbers = self._numbers(kind.nodes)
        numbers = self._take(numbers, kind, self.order) if canonical else numbers
        return (orbit_mean if kind.nodes == 1 else orbital_mean)(y, numbers)
