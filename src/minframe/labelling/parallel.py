"""Several processes that call a labelling library for many graphs.

Libraries hold the interpreter's lock, so threads do not help; and sending a small graph to another process takes longer
than labelling it in this one. So one process is the default. ``set_workers`` starts more, which receive only batches
that are large enough to gain from them.
"""

from __future__ import annotations

import functools
import multiprocessing
from array import array
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from minframe.labelling import backend as backends
from minframe.labelling.backend import Backend
from minframe.labelling.residual import Pattern

MIN_ARCS_SENT = 50_000  # arcs of a batch below which it is not sent to workers
PORTIONS_PER_WORKER = 4  # more than one, as graphs differ in how long they take
MAX_REMEMBERED_ARCS = 128  # arcs of a piece above which its result is not cached
MAX_REMEMBERED_PIECES = 4096  # pieces whose results are cached

_pool: ProcessPoolExecutor | None = None
_workers = 1


Move = tuple[list[int], list[int]]  # a permutation as the nodes that it moves, and their images
Answer = list[int] | list[Move]


def set_workers(count: int) -> None:
    """Let ``count`` processes label the graphs of a batch; 1, the default, uses this process alone.

    Several processes are faster for batches of graphs with hundreds of edges each that colour refinement leaves largely
    undecided. Results do not depend on the number. Processes are started when they are first needed and import the main
    module: as for the workers of a data loader, put the work of a script under ``if __name__ == "__main__":``.

    >>> import minframe as mf
    >>> mf.graph.set_workers(1)
    """
    global _pool, _workers
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"the number of workers must be an integer of at least 1, got {count!r}")
    if _pool is not None:
        _pool.shutdown(cancel_futures=True)
        _pool = None
    _workers = count


def workers() -> int:
    """The number of processes that ``set_workers`` asked for."""
    return _workers


def worth_sending(patterns: Sequence[Pattern]) -> bool:
    """Whether to send these pieces to workers. Workers, and those of a data loader, have none of their own."""
    many = _workers > 1 and len(patterns) > 1 and sum(len(pattern.arcs) for pattern in patterns) >= MIN_ARCS_SENT
    return many and not multiprocessing.current_process().daemon


def ask_orders(backend: str, patterns: Sequence[Pattern]) -> list[list[int]]:
    """The nodes of each piece in the canonical order that a library finds."""
    return _ask(backend, patterns, "order")  # type: ignore[return-value]


def ask_generators(backend: str, patterns: Sequence[Pattern]) -> list[list[Move]]:
    """Generators of the automorphism group of each piece, from a library."""
    return _ask(backend, patterns, "generators")  # type: ignore[return-value]


def _ask(backend: str, patterns: Sequence[Pattern], question: str) -> list[Answer]:
    return (send if worth_sending(patterns) else _answers)(backend, patterns, question)


def send(backend: str, patterns: Sequence[Pattern], question: str) -> list[Answer]:
    """Let the worker processes answer."""
    global _pool
    if _pool is None:
        _pool = ProcessPoolExecutor(_workers, mp_context=multiprocessing.get_context("spawn"))
    size = -(-len(patterns) // (_workers * PORTIONS_PER_WORKER))
    portions = [patterns[i : i + size] for i in range(0, len(patterns), size)]
    sent = [
        [(array("q", k.colours).tobytes(), array("q", k.arcs).tobytes(), k.base) for k in part] for part in portions
    ]
    found = [_pool.submit(_answers_to, backend, part, question) for part in sent]
    return [answer for part in found for answer in part.result()]


def _answers_to(backend: str, sent: Sequence[tuple[bytes, bytes, int]], question: str) -> list[Answer]:
    patterns = [Pattern(tuple(array("q", colours)), tuple(array("q", arcs)), base) for colours, arcs, base in sent]
    return _answers(backend, patterns, question)


def _answers(backend: str, patterns: Sequence[Pattern], question: str) -> list[Answer]:
    if not patterns:  # so that no library needs to be installed
        return []
    library = backends.get(backend)
    return [(_remembered if len(k.arcs) <= MAX_REMEMBERED_ARCS else _answer)(library, k, question) for k in patterns]


def _answer(library: Backend, pattern: Pattern, question: str) -> Answer:
    if question == "order":
        return library.order(pattern.colours, pattern.triples())
    return [as_move(g) for g in library.automorphisms(pattern.colours, pattern.triples())]


def as_move(g: Sequence[int]) -> Move:
    """A permutation reduced to the nodes that it moves."""
    points = [k for k, image in enumerate(g) if k != image]
    return points, [g[k] for k in points]


# Batches tend to repeat the same small pieces, such as rings and branches.
_remembered = functools.lru_cache(maxsize=MAX_REMEMBERED_PIECES)(_answer)
