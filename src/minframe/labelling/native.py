"""Labelling in C, graph by graph: in PyTorch the cost of a batch of small graphs is the number of calls.

Refinement, pieces, their order and the orbits are those of ``refine``, ``residual`` and ``pieces``, and so are the
canonical forms. As there, a library is called only for pieces that are not rigid, and its results are cached. The
extension is built on installation where there is a C compiler; without it results are the same, and small graphs
slower.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from minframe.labelling.parallel import Move, workers
from minframe.labelling.pieces import generators_of, order_of
from minframe.labelling.residual import Pattern
from minframe.tracing import is_plain

try:
    from minframe.labelling import _graphs
except ImportError:
    _graphs = None  # type: ignore[assignment]


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Use PyTorch alone inside this context, to compare the two implementations."""
    global _graphs
    saved, _graphs = _graphs, None  # type: ignore[assignment]
    try:
        yield
    finally:
        _graphs = saved


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


def _at(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def label_dense(
    colours: Tensor, edges: Tensor, mask: Tensor | None, library: Library, orbits: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The canonical order, the refined colours and, on request, the orbits ``(B, n)``; see ``label.labelling``."""
    colours, edges = colours.contiguous(), edges.contiguous()
    mask = None if mask is None else mask.contiguous()
    order, cells = torch.empty_like(colours), torch.empty_like(colours)
    found = torch.empty_like(colours) if orbits else None
    _graphs.label_dense(
        *(len(colours), colours.shape[-1], _at(colours), _at(edges), _at(mask)),
        *(library.order, library.generators if orbits else None),
        *(_at(order), _at(cells), _at(found)),
    )
    return order, cells, found


def label_sparse(
    colours: Tensor,
    edge_index: Tensor,
    edges: Tensor | None,
    batch: Tensor | None,
    rounds: int,
    library: Library,
    orbits: bool,
) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """``label_dense`` for listed graphs, ``(N,)``; ``None`` if an edge is listed twice. See ``label.label_sparse``."""
    colours = colours.contiguous()
    source, target = (x.contiguous() for x in edge_index)
    edges, batch = (None if x is None else x.contiguous() for x in (edges, batch))
    count = 1 if batch is None else int(batch.max()) + 1 if len(batch) else 0
    order, cells = torch.empty_like(colours), torch.empty_like(colours)
    found = torch.empty_like(colours) if orbits else None
    once = _graphs.label_sparse(
        *(count, len(colours), len(source), _at(colours), _at(source), _at(target), _at(edges), _at(batch), rounds),
        *(library.order, library.generators if orbits else None),
        *(_at(order), _at(cells), _at(found)),
    )
    return (order, cells, found) if once else None
