"""Several processes that ask a labelling library about many graphs.

Libraries hold the interpreter's lock, so threads do not help; and sending a small graph to another process takes longer
than labelling it here. So by default there is one process, and more are asked for by ``set_workers``; even then they
are given only what is worth it.
"""

from __future__ import annotations

import functools
import multiprocessing
from array import array
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from minframe.labelling import backend as backends
from minframe.labelling.backend import Backend
from minframe.labelling.residual import Kind

MIN_ARCS_SENT = 50_000  # of a batch; smaller ones are not worth sending to workers
PORTIONS_PER_WORKER = 4  # more than one, as graphs differ in how long they take
MAX_REMEMBERED_ARCS = 128  # of a piece whose answer is kept for later
MAX_REMEMBERED_PIECES = 4096  # whose answers are kept

_pool: ProcessPoolExecutor | None = None
_workers = 1


Move = tuple[list[int], list[int]]  # of a permutation: the nodes that move, and where to
Answer = list[int] | list[Move]


def set_workers(count: int) -> None:
    """Let ``count`` processes label the graphs of a batch; 1, the default, means this one.

    It pays for batches of graphs that colour refinement leaves largely undecided, with hundreds of edges each. Results
    do not depend on it. Processes are started when they are first needed, by importing the main module anew: as for the
    workers of a data loader, a script is to do its work under ``if __name__ == "__main__":``.

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
    """How many there are to be."""
    return _workers


def worth_sending(kinds: Sequence[Kind]) -> bool:
    """Whether workers are to be asked. They have none themselves, and neither have those of a data loader."""
    many = _workers > 1 and len(kinds) > 1 and sum(len(kind.arcs) for kind in kinds) >= MIN_ARCS_SENT
    return many and not multiprocessing.current_process().daemon


def ask_orders(backend: str, kinds: Sequence[Kind]) -> list[list[int]]:
    """The nodes of each piece in the canonical order of a library."""
    return _ask(backend, kinds, "order")  # type: ignore[return-value]


def ask_generators(backend: str, kinds: Sequence[Kind]) -> list[list[Move]]:
    """Generators of the automorphism group of each piece, from a library."""
    return _ask(backend, kinds, "generators")  # type: ignore[return-value]


def _ask(backend: str, kinds: Sequence[Kind], question: str) -> list[Answer]:
    return (send if worth_sending(kinds) else _answers)(backend, kinds, question)


def send(backend: str, kinds: Sequence[Kind], question: str) -> list[Answer]:
    """The same, by other processes."""
    global _pool
    if _pool is None:
        _pool = ProcessPoolExecutor(_workers, mp_context=multiprocessing.get_context("spawn"))
    size = -(-len(kinds) // (_workers * PORTIONS_PER_WORKER))
    portions = [kinds[i : i + size] for i in range(0, len(kinds), size)]
    sent = [
        [(array("q", k.colours).tobytes(), array("q", k.arcs).tobytes(), k.base) for k in part] for part in portions
    ]
    found = [_pool.submit(_answers_to, backend, part, question) for part in sent]
    return [answer for part in found for answer in part.result()]


def _answers_to(backend: str, sent: Sequence[tuple[bytes, bytes, int]], question: str) -> list[Answer]:
    kinds = [Kind(tuple(array("q", colours)), tuple(array("q", arcs)), base) for colours, arcs, base in sent]
    return _answers(backend, kinds, question)


def _answers(backend: str, kinds: Sequence[Kind], question: str) -> list[Answer]:
    if not kinds:  # then no library need be installed
        return []
    library = backends.get(backend)
    return [(_remembered if len(k.arcs) <= MAX_REMEMBERED_ARCS else _answer)(library, k, question) for k in kinds]


def _answer(library: Backend, kind: Kind, question: str) -> Answer:
    if question == "order":
        return library.order(kind.colours, kind.triples())
    return [as_move(g) for g in library.automorphisms(kind.colours, kind.triples())]


def as_move(g: Sequence[int]) -> Move:
    """A permutation without what it leaves in its place."""
    points = [k for k, image in enumerate(g) if k != image]
    return points, [g[k] for k in points]


# The next batch has much the same rings and branches.
_remembered = functools.lru_cache(maxsize=MAX_REMEMBERED_PIECES)(_answer)
