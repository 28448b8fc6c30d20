"""Frames of permutations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import torch
from torch import Tensor

from minframe.frame.base import Acts, Frame
from minframe.frame.record import Known
from minframe.frame.size import Size, nested
from minframe.labelling import rows
from minframe.labelling.action import inverse, take_edges, take_nodes
from minframe.labelling.orbits import orbit_mean, orbital_mean
from minframe.labelling.symmetry import Stacked, Symmetry
from minframe.layout import Dense, Layout
from minframe.types import Type


class Permutes(Acts, Protocol):
    """The interface of a group of permutations; see ``S``."""

    @property
    def backend(self) -> str:
        """The library for canonical labelling."""

    @property
    def rtol(self) -> float:
        """Numbers that differ by less, relative to the largest, are equal."""

    @property
    def directed(self) -> bool | None:
        """``False``: edges have no direction."""


def slots(frames: Sequence[Frame], layout: Layout, device: torch.device) -> Tensor:
    """The places ``(B, n)``, in the samples of ``layout.pad``, of the rows that frames of single samples count.

    These are the real rows, and padding last; or all rows, if the frames know the padding themselves.
    """
    mask, n = layout.padding_mask(), layout.padded_length
    if mask is None or all(frame.layout.length == n for frame in frames):
        return torch.arange(n, device=device).expand(len(frames), -1)
    return mask.logical_not().to(torch.uint8).argsort(dim=-1, stable=True)


class PermutationFrame(Frame):
    """The permutations that bring rows or a graph into canonical order.

    ``rank`` is the number of orbits of the rows: how many of them are distinguishable.

    Args:
        group: the permutations.
        layout: of the rows.
        symmetry: the canonical order of each sample, and the permutations that preserve the sample.
        margin: computes the margin on demand.
    """

    group: Permutes
    keeps_rows = False

    def __init__(self, group: Permutes, layout: Layout, symmetry: Symmetry, margin: Callable[[], Tensor]) -> None:
        self.group = group
        self.layout = self.shown_layout = layout
        self.symmetry = symmetry
        self.order = layout.unpad_order(symmetry.order)
        self._orbits: dict[int, Tensor] = {}
        self._margin = margin

    @property
    def _back(self) -> Tensor:
        """The inverse of ``order``."""
        dense = isinstance(self.layout, Dense)
        return self.symmetry.inverse().view(self.order.shape) if dense else inverse(self.order)

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
        return self._in_order(x, self._checked(x, type, "x"))

    def pose(self, x: Tensor, type: str = "node", own: bool = False) -> Tensor:
        return self.shown(x, self._checked(x, type, "x"), own)

    def shown(self, x: Tensor, kind: Type, own: bool) -> Tensor:
        if own:
            return self._in_order(x, kind, positive=True)
        return self._take(self._average(self._clean(x, kind), kind), kind, self.order)

    def from_canonical(self, y: Tensor, type: str = "node") -> Tensor:
        return self.carried_back(y, self._checked(y, type, "y"))

    def carried_back(self, y: Tensor, kind: Type) -> Tensor:
        # In canonical order all relabelled graphs are the same, so their sums have the same order of terms, bit by bit.
        return self._take(self._average(y, kind, canonical=True), kind, self._back)

    def reorder(self, x: Tensor) -> Tensor:
        found = rows.take(x, self.order)
        return take_nodes(x, self.order) if found is None else found

    def collated(self, frames: Sequence[Frame], layout: Layout) -> PermutationFrame:
        mine = cast(Sequence[PermutationFrame], frames)
        symmetry = Stacked([frame.symmetry for frame in mine], slots(frames, layout, self.order.device))
        margin = Known(torch.stack([frame.margin.view(()) for frame in mine]))
        return PermutationFrame(self.group, layout, symmetry, margin)

    def _checked(self, x: Tensor, type: str, name: str) -> Type:
        kind = self.group.type(type)
        self.group.check(x, type, name, self.layout)
        return kind

    def _in_order(self, x: Tensor, kind: Type, positive: bool = False) -> Tensor:
        """``x`` in canonical order, padding zero; ``positive``: -0.0 equals 0.0, and is shown as 0.0."""
        if kind.nodes == 0:
            return x
        found = rows.take(x, self.order, kind.nodes, self.layout.real, positive)
        if found is None:
            found = self._take(self._clean(x, kind), kind, self.order)
            found = found + 0.0 if positive and found.is_floating_point() else found
        return found

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
        found = rows.take(x, index, kind.nodes)
        if found is not None:
            return found
        return take_nodes(x, index) if kind.nodes == 1 else take_edges(x, index)

    def _average(self, y: Tensor, kind: Type, canonical: bool = False) -> Tensor:
        """The mean over each orbit, which is the average over all permutations that preserve the sample."""
        if kind.nodes == 0 or self.symmetry.trivial():
            return y
        numbers = self._numbers(kind.nodes)
        numbers = self._take(numbers, kind, self.order) if canonical else numbers
        return (orbit_mean if kind.nodes == 1 else orbital_mean)(y, numbers)
