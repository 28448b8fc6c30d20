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
        for part in state if isinstance(state, tuple) else (state,):
            if part is not None:
                # Left out: what refers back to the whole, and names of classes that stand for nothing.
                self.update((k, v) for k, v in dict(part).items() if k != "_parent" and v is not Fields)


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


def _from_buffer(content: Any, dtype: Any, shape: tuple[int, ...], order: str) -> np.ndarray[Any, Any]:
    """An array that newer pickles hold as its bytes."""
    if not isinstance(dtype, np.dtype) or dtype.hasobject or not isinstance(content, bytes | bytearray):
        raise RefusedPickleError("an array has elements that are objects")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if order == "F" else "C").copy()


def _encoded(text: str, encoding: str) -> bytes:
    """Bytes, which the oldest pickles hold as text."""
    if not isinstance(text, str) or encoding != "latin1":
        raise RefusedPickleError(f"bytes are encoded as {encoding!r}")
    return text.encode("latin1")


def _scalar(dtype: Any, content: bytes = b"") -> Any:
    """One number of numpy."""
    if not isinstance(dtype, np.dtype) or dtype.hasobject or len(content) != dtype.itemsize:
        raise RefusedPickleError("a number of numpy is not plain")
    return np.frombuffer(content, dtype)[0]


def _reconstructed(kind: Any, *_: Any) -> Fields:
    """An object of a class that stands for its attributes, as the oldest pickles make it."""
    if kind is not Fields:
        raise RefusedPickleError("an object is made of a class that is no plain data")
    return Fields()


class _Function:
    """A function that a pickle may call, and nothing else: it has no state that could be set, and no attributes."""

    __slots__ = ("_call",)
    _call: Maker

    def __init__(self, call: Maker) -> None:
        object.__setattr__(self, "_call", call)

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RefusedPickleError("the pickle would change a function")

    def __setstate__(self, state: Any) -> None:
        raise RefusedPickleError("the pickle would change a function")


def _never(*_: Any) -> Any:
    raise RefusedPickleError("a class is called that only stands for a type")


# Types are admitted as such where pickles make objects of them without a call: none of them has a state that can be
# set on the type itself.
ADMITTED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): tuple,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("torch_geometric.data.data", "Data"): Fields,
    ("torch_geometric.data", "Data"): Fields,
    ("torch_geometric.data.storage", "GlobalStorage"): Fields,
    ("torch_geometric.data.data", "DataEdgeAttr"): Fields,
    ("torch_geometric.data.data", "DataTensorAttr"): Fields,
    ("torch._utils", "_rebuild_tensor_v2"): _Function(_tensor),
    ("torch._utils", "_rebuild_tensor"): _Function(_tensor),
    ("torch.storage", "_load_from_bytes"): _Function(_storage),
    ("numpy", "dtype"): _Function(_dtype),
    ("copyreg", "_reconstructor"): _Function(_reconstructed),
    ("_codecs", "encode"): _Function(_encoded),
    **{(module, name): _Function(_never) for module, name in (("numpy", "ndarray"), ("builtins", "object"))},
}
for core in ("numpy.core", "numpy._core"):
    ADMITTED |= {
        (f"{core}.multiarray", "_reconstruct"): _Function(_array),
        (f"{core}.multiarray", "scalar"): _Function(_scalar),
        (f"{core}.numeric", "_frombuffer"): _Function(_from_buffer),
    }
OLD_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # of modules, in Python 2


class _Unpickler(pickle.Unpickler):
    """Admits the names above; persistent identifiers and extension codes come to nothing."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[OLD_NAMES.get(module, module), name]
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
