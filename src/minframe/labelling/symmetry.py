"""The canonical order of a batch of graphs or sets of rows, and the permutations that leave them as they are.

``order`` is computed at once; orbits, orbitals and group sizes only on demand, as invariant outputs do not need them.
All tensors have one batch axis, ``(B, n)``; padding comes last in the order and is alone in its orbit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.labelling import ops
from minframe.labelling import orbits as _orbits
from minframe.labelling.arcs import Arcs
from minframe.labelling.counting import count_automorphisms
from minframe.labelling.label import Labelling, labelling
from minframe.tracing import is_compiling


class Symmetry(ABC):
    """``order`` ``(B, n)``: the node at each canonical position."""

    order: Tensor

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
        # Pairs of rows from two classes make up one orbit, those from one class two: a row with itself, and the rest,
        # which is represented by the first row of the class and the second.
        n, first = self.number.shape[-1], self.orbits()
        second = self._smallest(torch.where(self.number == first, n, self.number))
        within = (first.unsqueeze(-1) == first.unsqueeze(-2)) & ~torch.eye(n, dtype=torch.bool, device=first.device)
        return first.unsqueeze(-1) * n + torch.where(within, second.unsqueeze(-2), first.unsqueeze(-2))

    def trivial(self) -> bool:
        return all_true(self.orbits() == self.number)

    def sizes(self) -> list[int]:
        first = self.orbits()
        counts = torch.zeros_like(first).scatter_add(-1, first, torch.ones_like(first))
        return [math.prod(math.factorial(c) for c in row if c > 1) for row in counts.tolist()]


class GraphSymmetry(Symmetry):
    """The symmetry of graphs with colours ``(B, n)`` and ``edges`` ``(B, n, n)``, as ``labelling`` takes them."""

    def __init__(self, colours: Tensor, edges: Tensor, mask: Tensor | None, backend: str) -> None:
        self._graph = colours, edges, mask, backend
        self.device = colours.device
        if is_compiling():
            self.order = ops.canonical_order(*self._graph)[0]
        else:
            self.order = self._found.order.to(self.device)

    @cached_property
    def _found(self) -> Labelling:
        return labelling(*self._graph)

    def orbits(self) -> Tensor:
        if is_compiling():
            return ops.node_orbits(*self._graph)
        return self._found.orbits.to(self.device)

    def orbitals(self) -> Tensor:
        if is_compiling():
            return ops.pair_orbits(*self._graph)
        return _orbits.orbitals(self._found.generators, self._found.owner, len(self.order)).to(self.device)

    def trivial(self) -> bool:
        return not is_compiling() and self._found.trivial

    def sizes(self) -> list[int]:
        colours, edges, mask, backend = self._graph
        sizes = [1] * len(self.order)
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
