"""Labelling in C, graph by graph: what a batch of small graphs costs in PyTorch is the number of calls.

Refinement, pieces, their order and the orbits are those of ``refine``, ``residual`` and ``pieces``, and so are the
canonical forms. A library is asked only about pieces that are not rigid, as there, and its answers are remembered.
Built on installation where there is a C compiler; without it all is the same, and small graphs take longer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from minframe.labelling.parallel import Move, workers
from minframe.labelling.pieces import generators_of, order_of
from minframe.labelling.residual import Kind
from minframe.tracing import is_plain

try:
    from minframe.labelling import _graphs
except ImportError:
    _graphs = None  # type: ignore[assignment]


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Leave everything to PyTorch in here, to compare the two."""
    global _graphs
    saved, _graphs = _graphs, None  # type: ignore[assignment]
    try:
        yield
    finally:
        _graphs = saved


def serves(colours: Tensor) -> bool:
    """Whether graphs with these colours are labelled here: they can be read from memory, by this process alone."""
    return _graphs is not None and colours.is_cpu and workers() == 1 and is_plain(colours)


class Library:
    """Answers of a library about pieces that are not rigid, each asked for once."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._orders: dict[tuple[bytes, bytes, int], list[int]] = {}

    def order(self, colours: bytes, arcs: bytes, base: int) -> list[int]:
        """The nodes of a piece in canonical order."""
        key = colours, arcs, base
        if key not in self._orders:
            self._orders[key] = order_of(_kind(*key), self._backend)
        return self._orders[key]

    def generators(self, colours: bytes, arcs: bytes, base: int) -> list[Move]:
        """Generators of its automorphism group."""
        return generators_of(_kind(colours, arcs, base), self._backend)


def _kind(colours: bytes, arcs: bytes, base: int) -> Kind:
    return Kind(tuple(memoryview(colours).cast("q")), tuple(memoryview(arcs).cast("q")), base)


def _at(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def label_dense(
    colours: Tensor, edges: Tensor, mask: Tensor | None, library: Library, orbits: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The canonical order, the refined colours and, if asked for, the orbits ``(B, n)``; see ``label.labelling``."""
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
    """The same for listed graphs, ``(N,)`` each; ``None`` if an edge is listed twice. See ``label.label_sparse``."""
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
