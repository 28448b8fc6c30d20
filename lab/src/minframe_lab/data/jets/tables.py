"""Jets in HDF5, in the layout of the reference set: a table that pandas wrote with PyTables, read without either.

The group ``/table`` holds a dataset ``table`` of compound rows: ``index``, and blocks ``values_block_0``, ... of
columns that have one type. Which columns a block has is an attribute of the dataset, a pickled list of names. They are
E_0, PX_0, PY_0, PZ_0, E_1, ... PZ_199, zero behind the last constituent, the top quark as truthE, ..., truthPZ, then
``ttv`` (0, 1, 2 for training, validation and test) and ``is_signal_new``.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minframe_lab.data import plain
from minframe_lab.data.parts import whole_file

KEY = "table"
LABEL = "is_signal_new"
COMPONENTS = ("E", "PX", "PY", "PZ")
TRUTH = tuple(f"truth{c}" for c in COMPONENTS)
ROWS_AT_ONCE = 4096


def columns(constituents: int) -> list[str]:
    """The names of all momenta, in their order."""
    return [f"{c}_{i}" for i in range(constituents) for c in COMPONENTS]


def h5py() -> Any:
    """The library, with the filters of ``hdf5plugin`` where that is installed."""
    try:
        import h5py
    except ImportError:
        raise ValueError('files of jets are read with h5py: pip install -e "lab[toptag]"') from None
    with suppress(ImportError):
        import hdf5plugin  # noqa: F401
    return h5py


def write(path: Path, blocks: Iterable[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]], split: int) -> int:
    """Write jets all at once and return how many: pandas reads the file as well.

    Args:
        path: of the file; it appears when everything is in it.
        blocks: momenta ``(n, m, 4)``, top quarks ``(n, 4)`` and labels ``(n,)``, some jets at a time.
        split: what stands in the column ``ttv``.
    """
    rows = 0
    with whole_file(path) as partial, h5py().File(partial, "w") as file:
        table = None
        for momenta, truth, label in blocks:
            if table is None:
                table = _begin(file, momenta.shape[1])
            block = np.zeros(len(momenta), table.dtype)
            block["index"] = np.arange(rows, rows + len(momenta))
            block["values_block_0"] = np.concatenate([momenta.reshape(len(momenta), -1), truth], 1)
            block["values_block_1"] = np.stack([np.full(len(label), split), label], 1)
            table.resize((rows + len(block),))
            table[rows:] = block
            rows += len(block)
        if table is None:
            raise ValueError(f"{path}: there are no jets to write")
        table.attrs["NROWS"] = np.int64(rows)
    return rows


def _begin(file: Any, constituents: int) -> Any:
    """The empty table, and the attributes by which PyTables and pandas know it."""
    numbers, marks = [*columns(constituents), *TRUTH], ["ttv", LABEL]
    rows = np.dtype(
        [("index", "<i8"), ("values_block_0", "<f4", (len(numbers),)), ("values_block_1", "<i8", (len(marks),))]
    )
    group = file.create_group(KEY)
    table = group.create_dataset(
        KEY, (0,), rows, maxshape=(None,), chunks=(128,), compression="gzip", compression_opts=1, shuffle=True
    )
    blocks = {"values_block_0": numbers, "values_block_1": marks}
    _mark(file, CLASS="GROUP", PYTABLES_FORMAT_VERSION="2.1", TITLE="", VERSION="1.0")
    _mark(group, CLASS="GROUP", TITLE="", VERSION="1.0", pandas_type="frame_table", pandas_version="0.15.2")
    _mark(group, table_type="appendable_frame", encoding="UTF-8", errors="strict", nan_rep="nan", levels=np.int64(1))
    _mark(group, data_columns=[], index_cols=[(0, "index")], non_index_axes=[(1, numbers + marks)])
    _mark(
        group,
        values_cols=list(blocks),
        info={1: {"names": [None], "type": "Index"}, "index": {}, **{b: {} for b in blocks}},
    )
    _mark(table, CLASS="TABLE", TITLE="", VERSION="2.7", index_kind="integer", NROWS=np.int64(0))
    for i, name in enumerate(rows.names or ()):
        _mark(table, **{f"FIELD_{i}_NAME": name, f"FIELD_{i}_FILL": np.zeros((), rows[name].base)[()]})
    for name, held in blocks.items():
        kind = str(rows[name].base)
        _mark(table, **{f"{name}_kind": held, f"{name}_dtype": kind, f"{name}_meta": None})
    return table


def _mark(target: Any, **attributes: Any) -> None:
    """Attributes as PyTables has them: texts as bytes, numbers as they are, all else as pickles of the oldest kind."""
    for name, value in attributes.items():
        if isinstance(value, str):
            value = np.bytes_(value) if value else h5py().Empty("S1")
        elif not isinstance(value, np.generic):
            value = np.bytes_(pickle.dumps(value, 0))
        target.attrs[name] = value


class JetFile:
    """The jets of a file, read some at a time.

    Every error is a ``ValueError`` that names the file, and the row where there is one.
    """

    def __init__(self, path: Path, constituents: int) -> None:
        self.path = Path(path)
        self.constituents = constituents
        wanted = [*columns(constituents), LABEL]
        with self._open() as file:
            table = self._table(file)
            self.rows = int(table.shape[0])
            places = self._places(table)
        lacking = [name for name in wanted if name not in places]
        if lacking:
            raise ValueError(f"{self.path} lacks {len(lacking)} columns of {len(wanted)}, first {lacking[0]}")
        truth = [name for name in TRUTH if name in places]  # not every file of this layout has the top quark
        self.truth = len(truth) == len(TRUTH)
        self.places = [places[name] for name in [*wanted, *(truth if self.truth else [])]]

    def __len__(self) -> int:
        return self.rows

    def blocks(self, start: int = 0, stop: int | None = None, size: int = ROWS_AT_ONCE) -> Iterator[Any]:
        """Momenta ``(n, constituents, 4)`` in float64, top quarks ``(n, 4)``, labels ``(n,)``; some rows at a time."""
        stop = self.rows if stop is None else stop
        if not 0 <= start <= stop <= self.rows:
            raise ValueError(f"{self.path} has {self.rows} rows, of which {start} to {stop} are asked for")
        with self._open() as file:
            table = self._table(file)
            for first in range(start, stop, size):
                last = min(first + size, stop)
                try:
                    rows = table[first:last]
                except (OSError, RuntimeError) as error:
                    raise ValueError(
                        f"{self.path}: rows {first} to {last - 1} cannot be read ({_hint(error)})"
                    ) from None
                yield self._check(rows, first)

    def _check(self, rows: NDArray[Any], first: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        values = np.stack([rows[field][:, i] for field, i in self.places], 1).astype(np.float64)
        momenta, label, truth = np.split(values, [4 * self.constituents, 4 * self.constituents + 1], 1)
        momenta, label = momenta.reshape(len(rows), -1, 4), label[:, 0]
        wrong = {
            "has a number that is not finite": ~np.isfinite(momenta).all((1, 2)),
            f"has {LABEL} other than 0 and 1": (label != 0) & (label != 1),
            "has a negative energy": (momenta[..., 0] < 0).any(1),
            "has no constituents": ~(momenta[..., 0] > 0).any(1),
        }
        for what, rows_wrong in wrong.items():
            if rows_wrong.any():
                raise ValueError(f"{self.path}: row {first + int(rows_wrong.argmax())} {what}")
        return momenta, truth if self.truth else np.zeros((len(rows), 4)), label.astype(bool)

    def _open(self) -> Any:
        library = h5py()
        if not self.path.exists():
            raise ValueError(f"{self.path} does not exist")
        try:
            return library.File(self.path, "r")
        except OSError as error:
            raise ValueError(f"{self.path} is no whole HDF5 file ({_hint(error)})") from None

    def _table(self, file: Any) -> Any:
        try:
            table = file[KEY][KEY]
        except (KeyError, TypeError, RuntimeError) as error:
            raise ValueError(f"{self.path} has no table {KEY}/{KEY} ({_hint(error)})") from None
        if getattr(table, "dtype", None) is None or table.dtype.names is None or len(table.shape) != 1:
            raise ValueError(f"{self.path}: {KEY}/{KEY} is no table of rows")
        return table

    def _places(self, table: Any) -> dict[str, tuple[str, int]]:
        """Of each column the block that it is in, and where there."""
        places: dict[str, tuple[str, int]] = {}
        for field in table.dtype.names:
            kind = table.attrs.get(f"{field}_kind")
            if field == "index" or kind is None:
                continue
            try:
                names = plain.loads(bytes(kind))
            except plain.RefusedPickleError as error:
                raise ValueError(f"{self.path}: the names of columns in {field} cannot be read ({error})") from None
            shape = table.dtype[field].shape
            if not isinstance(names, list | np.ndarray) or shape != (len(names),):
                raise ValueError(f"{self.path}: {field} has not as many columns as names")
            places.update({str(name): (field, i) for i, name in enumerate(names)})
        return places


def _hint(error: Exception) -> str:
    """The first line of what the library says, and what to do about a filter that is missing."""
    said = next(iter(str(error).splitlines()), type(error).__name__)
    missing = "plugin" in said or "not registered" in said  # a filter that is there and fails met damaged rows
    return f"{said}; a compression that needs: pip install hdf5plugin" if missing else said
