"""The canonical order of a batch of graphs or sets of rows, and the permutations that leave them as they are.

``order`` is computed at once; orbits, orbitals and group sizes only on demand, as invariant outputs do not need them.
All tensors have one batch axis, ``(B, n)``; padding comes last in the order and is alone in its orbit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.labelling import ops
from minframe.labelling import orbits as _orbits
from minframe.labelling.action import inverse
from minframe.labelling.arcs import Arcs
from minframe.labelling.counting import count_automorphisms
from minframe.labelling.label import Labelling, labelling
from minframe.tracing import is_compiling


class Symmetry(ABC):
    """``order`` ``(B, n)``: the node at each canonical position."""

    order: Tensor

    def inverse(self) -> Tensor:
        """The canonical position of each node, ``(B, n)``."""
        return inverse(self.order)

    @abstractmethod
    def orbits(self) -> Tensor:
        """A number for each node, ``(B, n)``, below n, equal for nodes of one orbit."""

    @abstractmethod
    def orbitals(self) -> Tensor:
        """A number for each ordered pair of nodes, ``(B, n, n)``, below n^2, equal for pairs of one orbit."""

    @abstractmethod
    def trivial(self) -> bool:
        """Whether the symmetry is known to be trivial."""

    @abstractmethod
    def sizes(self) -> list[int]:
        """The exact number of permutations that leave each sample as it is."""


class Stacked(Symmetry):
    """The symmetries of single samples, with their nodes in ``slots`` ``(B, n)``: first the real ones, then padding."""

    def __init__(self, parts: Sequence[Symmetry], slots: Tensor) -> None:
        self.parts = parts
        self.slots = slots
        self.order = slots.gather(-1, self._padded([part.order for part in parts]))

    def _padded(self, numbers: Sequence[Tensor]) -> Tensor:
        """Numbers ``(1, m)`` of nodes as ``(B, n)``, those of padding its own."""
        rest = torch.arange(self.slots.shape[-1], device=self.slots.device)
        return torch.stack([torch.cat([x.view(-1), rest[x.numel() :]]) for x in numbers])

    def orbits(self) -> Tensor:
        found = self.slots.gather(-1, self._padded([part.orbits() for part in self.parts]))
        return torch.empty_like(found).scatter(-1, self.slots, found)

    def orbitals(self) -> Tensor:
        n = self.slots.shape[-1]
        whole = torch.arange(n * n, device=self.slots.device).view(n, n).repeat(len(self.parts), 1, 1)
        for part, slots, pairs in zip(self.parts, self.slots, whole, strict=True):
            m = part.order.shape[-1]
            found, real = part.orbitals()[0], slots[:m]
            pairs[real.unsqueeze(-1), real] = slots[found // m] * n + slots[found % m]
        return whole

    def trivial(self) -> bool:
        return all(part.trivial() for part in self.parts)

    def sizes(self) -> list[int]:
        return [size for part in self.parts for size in part.sizes()]


class RowSymmetry(Symmetry):
    """The symmetry of rows without edges, sorted by their ``classes`` ``(B, n)``; equal rows may be exchanged."""

    def __init__(self, classes: Tensor, mask: Tensor | None = None) -> None:
        self.number = torch.arange(classes.shape[-1], device=classes.device).expand(classes.shape)
        if mask is not None:  # classes are below the number of real rows
            classes = torch.where(mask, classes, self.number + classes.shape[-1])
        self.classes = classes
        self.order = classes.argsort(dim=-1, stable=True)

    def _smallest(self, numbers: Tensor) -> Tensor:
        """The smallest of ``numbers`` ``(B, n)`` in the class of each row."""
        least = torch.full((*numbers.shape[:-1], 2 * numbers.shape[-1]), numbers.shape[-1], device=numbers.device)
        return least.scatter_reduce(-1, self.classes, numbers, "amin").gather(-1, self.classes)

    def orbits(self) -> Tensor:
        return self._smallest(self.number)

    def orbitals(self) -> Tensor:
        return _orbits.loose_orbitals(self.orbits())

    def trivial(self) -> bool:
        return all_true(self.orbits() == self.number)

    def sizes(self) -> list[int]:
        first = self.orbits()
        counts = torch.zeros_like(first).scatter_add(-1, first, torch.ones_like(first))
        return [math.prod(math.factorial(c) for c in row if c > 1) for row in counts.tolist()]


class GraphSymmetry(Symmetry):
    """The symmetry of graphs with colours ``(B, n)`` and ``edges`` ``(B, n, n)``, as ``labelling`` takes them."""

    #: of what was pickled: whether the symmetry is trivial
    _trivial: bool | None = None

    def __init__(self, colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> None:
        self._graph = colours, edges, mask, backend
        if is_compiling():  # one operator finds all that may be needed
            self.order, self._inverse, _, self._orbits = ops.labelled(*self._graph)
        else:
            self.order = self._found.order.to(self.device)

    def __getstate__(self) -> dict[str, Any]:
        """The order and the orbits; the graph only where it has a symmetry, as orbits of pairs are found on demand."""
        trivial = self.trivial()
        graph = *(None if trivial else x for x in self._graph[:3]), self._graph[3]
        found = {"order": self.order, "_inverse": self.inverse(), "_orbits": self.orbits()}
        return found | {"_graph": graph, "_trivial": trivial}

    @property
    def device(self) -> torch.device:
        return self.order.device if "order" in self.__dict__ else self._graph[0].device

    @cached_property
    def _found(self) -> Labelling:
        return labelling(*self._graph)

    @property
    def _is_known(self) -> bool:
        """Whether the inverse and the orbits are held: of what was pickled, and in a graph that is being traced."""
        return self._trivial is not None or is_compiling()

    def inverse(self) -> Tensor:
        return self._inverse if self._is_known else self._found.inverse.to(self.device)

    def orbits(self) -> Tensor:
        return self._orbits if self._is_known else self._found.orbits.to(self.device)

    def orbitals(self) -> Tensor:
        if self._trivial:
            n = self.order.shape[-1]
            return torch.arange(n * n, device=self.device).view(n, n).expand(len(self.order), n, n)
        if is_compiling():
            return ops.pair_orbits(*self._graph)
        return self._found.orbitals.to(self.device)

    def trivial(self) -> bool:
        if self._trivial is not None:
            return self._trivial
        return not is_compiling() and self._found.trivial

    def sizes(self) -> list[int]:
        colours, edges, mask, backend = self._graph
        sizes = [1] * len(self.order)
        if self.trivial():
            return sizes
        symmetric = torch.unique(self._found.owner)
        if len(symmetric):
            chosen = symmetric.to(self.device)
            n, orbits = colours.shape[-1], self.orbits()[chosen].cpu()
            graph = torch.arange(len(symmetric)).unsqueeze(-1)
            arcs = Arcs.of_dense(edges[chosen].cpu(), None if mask is None else mask[chosen].cpu())
            counts = count_automorphisms(
                (orbits + n * graph).flatten(), arcs, graph.repeat_interleave(n), len(symmetric), backend
            )
            for sample, size in zip(symmetric.tolist(), counts, strict=True):
                sizes[sample] = size
        return sizes
