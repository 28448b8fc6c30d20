"""The published IS2RE files: LMDB with one pickled graph of PyTorch Geometric under each number.

Pickles go through ``minframe_lab.data.plain``, which calls nothing. LMDB itself maps the file into memory and trusts
what is there: a file that is cut off is refused by its size before anything is read, and pages, which have no checksum,
are read by another process, so that damage to them is an error here and no crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from minframe_lab.data import plain
from minframe_lab.data.slabs import store
from minframe_lab.data.slabs.build import TAGS, Slab

FIELDS = {"atomic_numbers": (-1,), "pos": (-1, 3), "cell": (3, 3), "tags": (-1,), "fixed": (-1,), "y_relaxed": ()}


def read(path: Path, limit: int | None = None) -> store.Slabs:
    """The first ``limit`` graphs of a file, or all.

    Raises:
        ValueError: if the file or one of its graphs is damaged, lacks something, or is not plain data.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(_gathered, path, limit).result()
        except BrokenProcessPool:
            raise ValueError(f"{path} is damaged: reading it ended the process that did") from None


def _gathered(path: Path, limit: int | None) -> store.Slabs:
    found = store.gather(samples(path, limit))
    store.check(found, path)
    return found


def samples(path: Path, limit: int | None = None) -> Iterator[Slab]:
    """The graphs of a file, one after the other; in a process that damage may end."""
    lmdb = _library()
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    try:
        database = lmdb.open(str(path), subdir=False, readonly=True, lock=False, readahead=False, max_dbs=0)
    except lmdb.Error as error:
        raise ValueError(f"{path} is no whole LMDB file ({error})") from None
    with database, database.begin() as transaction:
        needed = (database.info()["last_pgno"] + 1) * database.stat()["psize"]
        if path.stat().st_size < needed:
            raise ValueError(f"{path} is cut off: it has {path.stat().st_size} bytes of {needed}")
        count = _count(transaction, database.stat()["entries"], path)
        for row in range(min(count, limit or count)):
            content = _entry(transaction, str(row).encode(), f"{path}: row {row}")
            if content is None:
                raise ValueError(f"{path}: row {row} of {count} is missing")
            try:
                yield slab(plain.loads(content))
            except ValueError as error:
                raise ValueError(f"{path}: row {row}: {error}") from None


def _library() -> Any:
    try:
        import lmdb
    except ImportError:
        raise ValueError('published slabs are read with lmdb: pip install -e "lab[is2re]"') from None
    return lmdb


def _entry(transaction: Any, key: bytes, what: str) -> bytes | None:
    try:
        content = transaction.get(key)
    except _library().Error as error:
        raise ValueError(f"{what} cannot be read ({error})") from None
    return None if content is None else bytes(content)


def _count(transaction: Any, entries: int, path: Path) -> int:
    """How many graphs a file says it has, or how many entries."""
    said = _entry(transaction, b"length", f"{path}: its length")
    if said is None:
        return entries
    try:
        count = plain.loads(said)
    except ValueError as error:
        raise ValueError(f"{path}: its length: {error}") from None
    if not isinstance(count, int) or not 0 <= count <= entries:
        raise ValueError(f"{path} says that it has {count!r} graphs, and has {entries} entries")
    return count


def slab(graph: Any) -> Slab:
    """A sample of the attributes of a published graph; raises a ``ValueError`` that names what is missing."""
    attributes = _attributes(graph)
    arrays = {}
    for name, shape in FIELDS.items():
        if name not in attributes:
            raise ValueError(f"it lacks {name}")
        value = attributes[name]
        array = np.asarray(value.numpy() if isinstance(value, Tensor) else value, dtype=np.float64)
        try:
            arrays[name] = array.reshape(shape)
        except ValueError:
            raise ValueError(f"its {name} has shape {array.shape}") from None
    sizes = {name: len(arrays[name]) for name in ("atomic_numbers", "pos", "tags", "fixed")}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"its atoms are counted differently: {sizes}")
    numbers, tags = arrays["atomic_numbers"].astype(np.int64), arrays["tags"].astype(np.int64)
    relaxed = attributes.get("pos_relaxed", arrays["pos"])
    adsorbed = numbers[tags == TAGS["adsorbate"]]
    return Slab(
        numbers=numbers,
        positions=arrays["pos"],
        cell=arrays["cell"],
        tags=tags,
        fixed=arrays["fixed"] != 0,
        energy=float(arrays["y_relaxed"]),
        relaxed=np.asarray(relaxed, dtype=np.float64).reshape(-1, 3),
        adsorbate=int(adsorbed[0]) if len(adsorbed) else 0,
    )


def _attributes(graph: Any) -> dict[str, Any]:
    """What a graph holds, of the older kind, which has attributes, and of the newer, which has a storage of them."""
    if not isinstance(graph, dict):
        raise ValueError(f"it is a {type(graph).__name__} and no graph")
    held = graph.get("_store", graph)
    held = held.get("_mapping", held) if isinstance(held, dict) else held
    if not isinstance(held, dict):
        raise ValueError("it is no graph")
    return held
