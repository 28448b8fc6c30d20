"""Pickles of plain data, and of nothing else: what an attacker could make them call is refused by name.

A pickle is a program: it may call anything that can be imported. Published datasets come as pickles all the same, so
they are read here by an interpreter that knows only the few names of which tensors, arrays and plain containers are
made. Everything else, also what a later opcode would do with a name that is admitted, ends in ``RefusedPickleError``.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Maker = Callable[..., Any]


class RefusedPickleError(ValueError):
    """A pickle asks for something that is no plain data."""


class Fields(dict[str, Any]):
    """What an object of a class that is not imported was made of: its attributes."""

    def __setstate__(self, state: Any) -> None:
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:
            if part is not None:
                self.update(part)


def _tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Tensor:
    """A tensor of a storage that holds all of it; sizes and strides are the file's, and may lie."""
    if not isinstance(storage, Tensor):
        raise RefusedPickleError("a tensor is made of something that is no storage")
    if len(size) != len(stride) or offset < 0 or any(s < 0 for s in (*size, *stride)):
        raise RefusedPickleError(f"a tensor has size {size}, stride {stride} and offset {offset}")
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and last >= storage.numel():
        raise RefusedPickleError(f"a tensor reaches over the end of its storage of {storage.numel()} numbers")
    return storage.as_strided(size, stride, offset).clone()


def _storage(content: bytes) -> Tensor:
    """A storage that lies in the pickle as a file of its own, which PyTorch reads as data only."""
    if not isinstance(content, bytes):
        raise RefusedPickleError("a storage is made of something that is no bytes")
    try:
        loaded = torch.load(io.BytesIO(content), weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        raise RefusedPickleError(f"a storage cannot be read ({next(iter(str(error).splitlines()), error)})") from None
    if isinstance(loaded, Tensor):
        return loaded.flatten()
    if isinstance(loaded, torch.storage.TypedStorage):
        return torch.tensor([], dtype=loaded.dtype).set_(loaded)
    if isinstance(loaded, torch.storage.UntypedStorage):
        return torch.tensor([], dtype=torch.uint8).set_(loaded)
    raise RefusedPickleError(f"a storage holds {type(loaded).__name__}")


def _dtype(name: Any, *_: Any) -> np.dtype[Any]:
    """A type of numbers; those of objects would be pickles again."""
    made = np.dtype(name) if isinstance(name, str) else None
    if made is None or made.hasobject:
        raise RefusedPickleError(f"an array has elements of type {name!r}")
    return made


class _Array(np.ndarray[Any, Any]):
    """An array while it is read; its elements must be plain, and as many as it claims."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, _, content = state
        if not isinstance(dtype, np.dtype) or dtype.hasobject:
            raise RefusedPickleError("an array has elements that are objects")
        if not isinstance(content, bytes) or len(content) != int(np.prod(shape, dtype=np.int64)) * dtype.itemsize:
            raise RefusedPickleError(f"an array of shape {shape} has another number of bytes")
        super().__setstate__(state)


def _array(_: Any, shape: tuple[int, ...], kind: Any) -> _Array:
    """An array that is filled afterwards; it begins empty, whatever shape is claimed."""
    return np.ndarray.__new__(_Array, (0,), dtype=np.uint8)


def _scalar(dtype: Any, content: bytes = b"") -> Any:
    """One number of numpy."""
    if not isinstance(dtype, np.dtype) or dtype.hasobject or len(content) != dtype.itemsize:
        raise RefusedPickleError("a number of numpy is not plain")
    return np.frombuffer(content, dtype)[0]


def _data(*_: Any) -> Fields:
    """An object of PyTorch Geometric: its attributes as a dictionary, without its class."""
    return Fields()


def _marker(*_: Any) -> Any:
    raise RefusedPickleError("a class is called that only stands for a type")


ADMITTED: dict[tuple[str, str], Maker] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch.storage", "_load_from_bytes"): _storage,
    ("torch", "Size"): tuple,
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): _marker,
    **{("numpy." + core + ".multiarray", "_reconstruct"): _array for core in ("core", "_core")},
    **{("numpy." + core + ".multiarray", "scalar"): _scalar for core in ("core", "_core")},
    ("torch_geometric.data.data", "Data"): _data,
    ("torch_geometric.data", "Data"): _data,
    ("torch_geometric.data.storage", "GlobalStorage"): _data,
    ("torch_geometric.data.data", "DataEdgeAttr"): _data,
    ("torch_geometric.data.data", "DataTensorAttr"): _data,
    ("copyreg", "_reconstructor"): _data,
    ("builtins", "object"): _marker,
    ("builtins", "dict"): _marker,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
}
ADMITTED |= {("__builtin__", name): make for (module, name), make in ADMITTED.items() if module == "builtins"}
ADMITTED |= {("copy_reg", name): make for (module, name), make in ADMITTED.items() if module == "copyreg"}


class _Unpickler(pickle.Unpickler):
    """Admits the names above; persistent identifiers and extension codes come to nothing."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[module, name]
        except KeyError:
            raise RefusedPickleError(f"the pickle asks for {module}.{name}, which is no plain data") from None

    def persistent_load(self, pid: Any) -> Any:
        raise RefusedPickleError(f"the pickle refers to something outside of it ({pid!r})")


def loads(content: bytes) -> Any:
    """The tensors, arrays and plain containers that a pickle holds.

    Raises:
        RefusedPickleError: if it is damaged, or asks for anything else.
    """
    try:
        return _plain(_Unpickler(io.BytesIO(content)).load())
    except RefusedPickleError:
        raise
    except Exception as error:  # the machine of pickles raises whatever a wrong opcode leads to
        raise RefusedPickleError(f"the pickle is damaged ({type(error).__name__}: {error})") from None


def _plain(value: Any) -> Any:
    """The same without our own types of arrays, and without names that were never called."""
    if isinstance(value, _Array):
        return np.array(value)
    if isinstance(value, dict):
        return type(value)((_plain(k), _plain(v)) for k, v in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_plain(v) for v in value)
    if value is None or isinstance(
        value, bool | int | float | complex | str | bytes | Tensor | np.generic | np.ndarray
    ):
        return value
    raise RefusedPickleError(f"the pickle holds {type(value).__name__}, which is no plain data")
