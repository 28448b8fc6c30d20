"""Labelling in C, graph by graph: in PyTorch the cost of a batch of small graphs is the number of calls.

Refinement, pieces, their order and the orbits are those of ``refine``, ``residual`` and ``pieces``, and so are the
canonical forms. As there, a library is called only for pieces that are not rigid, and its results are cached. The
extension is built on installation where there is a C compiler; without it results are the same, and small graphs
slower.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.built import require_current
from minframe.labelling.parallel import Move, workers
from minframe.labelling.pieces import generators_of, order_of
from minframe.labelling.residual import Pattern
from minframe.tracing import is_plain

try:
    from minframe.labelling import _graphs as _graphs
    from minframe.labelling import _rows as _rows

    require_current(_graphs, _rows)
except ImportError:
    _graphs = _rows = None  # type: ignore[assignment]

TIED, PIECES, UNFINISHED, SYMMETRIC = 1, 2, 4, 8  # the bits of a report; see _graphs.c


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Use PyTorch alone inside this context, to compare the two implementations."""
    global _graphs, _rows
    saved, _graphs, _rows = (_graphs, _rows), None, None  # type: ignore[assignment]
    try:
        yield
    finally:
        _graphs, _rows = saved


def serves(colours: Tensor) -> bool:
    """Whether graphs with these colours are labelled in C: they are in memory, and no worker processes are set."""
    return _graphs is not None and colours.is_cpu and workers() == 1 and is_plain(colours)


class Library:
    """Cached results of a library for pieces that are not rigid."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._orders: dict[tuple[bytes, bytes, int], list[int]] = {}

    def order(self, colours: bytes, arcs: bytes, base: int) -> list[int]:
        """The nodes of a piece in canonical order."""
        key = colours, arcs, base
        if key not in self._orders:
            self._orders[key] = order_of(_pattern(*key), self._backend)
        return self._orders[key]

    def generators(self, colours: bytes, arcs: bytes, base: int) -> list[Move]:
        """Generators of the automorphism group of a piece."""
        return generators_of(_pattern(colours, arcs, base), self._backend)


def _pattern(colours: bytes, arcs: bytes, base: int) -> Pattern:
    return Pattern(tuple(memoryview(colours).cast("q")), tuple(memoryview(arcs).cast("q")), base)


def address(x: Tensor | None) -> int:
    """Where the numbers of a tensor are; 0 stands for none."""
    return 0 if x is None else x.data_ptr()


class Labelled(NamedTuple):
    """What is found for a batch of graphs, ``(B, n)`` or ``(N,)`` each.

    Attributes:
        order: the node at each canonical position.
        inverse: the canonical position of each node.
        cells: refined colours.
        orbits: the smallest node of the orbit of each; in some graphs not yet, if the report says ``UNFINISHED``.
        report: bits that say what kinds of graphs were found.
        memory: what the first four are views of. (Inside ``torch.func`` transforms views have no address.)
        edges: ``(2, E)``, of listed graphs: the edges between canonical numbers, sorted.
        columns: ``(E,)``, which edge each of them was.
    """

    order: Tensor
    inverse: Tensor
    cells: Tensor
    orbits: Tensor
    report: int
    memory: Tensor
    edges: Tensor | None = None
    columns: Tensor | None = None

    def completed(self, report: int) -> Labelled:
        """The same, whose orbits have been completed in place, with what was reported then."""
        return self._replace(report=(self.report | report) & ~UNFINISHED)


def label_dense(
    colours: Tensor, edges: Tensor, mask: Tensor | None, library: Library, unfinished: Labelled | None = None
) -> Labelled:
    """See ``label.labelling``; ``unfinished``: an earlier result, whose orbits are completed with the library."""
    colours, edges = colours.contiguous(), edges.contiguous()
    mask = None if mask is None else mask.contiguous()
    results = torch.empty((4, *colours.shape), dtype=torch.int64)
    again = unfinished is not None
    report = _graphs.label_dense(
        *(len(colours), colours.shape[-1], colours.data_ptr(), edges.data_ptr(), address(mask)),
        *(library.order, library.generators if again else None),
        (unfinished.memory if unfinished is not None else results).data_ptr(),
        again,
    )
    if unfinished is not None:
        return unfinished.completed(report)
    order, inverse, cells, orbits = results
    return Labelled(order, inverse, cells, orbits, report, results)


def label_sparse(
    colours: Tensor,
    edge_index: Tensor,
    edges: Tensor | None,
    batch: Tensor | None,
    rounds: int,
    library: Library,
    unfinished: Labelled | None = None,
) -> Labelled | None:
    """``label_dense`` for listed graphs; ``None`` if an edge is listed twice. See ``label.label_sparse``."""
    colours, edge_index = colours.contiguous(), edge_index.contiguous()
    edges, batch = (None if x is None else x.contiguous() for x in (edges, batch))
    n, e = len(colours), edge_index.shape[1]
    count = 1 if batch is None else int(batch.max()) + 1 if n else 0
    nodes = torch.empty((4, n), dtype=torch.int64)
    listed = torch.empty((3, e), dtype=torch.int64)
    again = unfinished is not None
    report = _graphs.label_sparse(
        *(count, n, e, colours.data_ptr(), edge_index.data_ptr(), address(edges), address(batch), rounds),
        *(library.order, library.generators if again else None),
        *((unfinished.memory if unfinished is not None else nodes).data_ptr(), listed.data_ptr()),
        again,
    )
    if unfinished is not None:
        return unfinished.completed(report)
    order, inverse, cells, orbits = nodes
    return None if report < 0 else Labelled(order, inverse, cells, orbits, report, nodes, listed[:2], listed[2])
