"""Counts what a GPU would be asked to do: kernels, views, and waits of the host for the device.

On a CPU nothing is copied to a device. ``on_another_device`` has tensors that are said to be on one, and have no
values: to read one is an error, and copies are counted as waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

#: operations whose result, or its shape, the host has to wait for
WAITING = {
    "_local_scalar_dense",
    "lift_fresh",  # Python numbers are copied to the device
    "nonzero",
    "nonzero_static",
    "is_nonzero",
    "item",
    "equal",
    "masked_select",
    "unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "bincount",
    "repeat_interleave",
    "linalg_eig",
    "_linalg_eigh",
    "_linalg_eigvals",
    "_linalg_svd",
    "_linalg_check_errors",
}

#: operations that launch nothing: memory is set aside, or a question of dtypes and devices answered
FREE = {"device", "empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "promote_types"}


class Operations(TorchDispatchMode):
    """What was done inside the context.

    Attributes:
        kernels: operations that write memory, by name; each is at least one launch.
        views: operations that only describe memory anew, which cost the host alone.
        waits: operations that the host waits for, by name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()
        self.views: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """All operations, views too."""
        return self.kernels.total() + self.views.total()

    def __torch_dispatch__(
        self, function: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name not in FREE:
            (self.views if _is_view(function, args, result) else self.kernels)[name] += 1
        if name in WAITING or _reads_mask(name, args) or _crosses(name, args, result):
            self.waits[name] += 1
        return result


def _is_view(function: Any, args: Sequence[Any], result: Any) -> bool:
    """Whether the result is memory of an argument, unchanged."""
    if function._schema.is_mutable:
        return False
    if function.is_view:  # without values there is no memory to look at
        return True
    mine = {x.untyped_storage()._cdata for x in tree_leaves(list(args)) if isinstance(x, Tensor)}
    made = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
    return bool(made) and all(x.untyped_storage()._cdata in mine for x in made)


def _reads_mask(name: str, args: Sequence[Any]) -> bool:
    """Indexing with a mask: the shape of the result depends on the data."""
    if name not in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return False
    return any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in args[1])


def _crosses(name: str, args: Sequence[Any], result: Any) -> bool:
    """A copy from one device to another."""
    if name not in ("_to_copy", "copy_"):
        return False
    return len({x.device.type for x in tree_leaves([args, result]) if isinstance(x, Tensor)}) > 1


@contextmanager
def on_another_device() -> Iterator[torch.device]:
    """Where tensors have no values, and those on the device given are on no CPU.

    It is a device that every build of PyTorch knows; others want a driver where a tensor is sliced.
    """
    with FakeTensorMode():
        yield torch.device("lazy")


def counted(run: Callable[[], object]) -> Operations:
    with Operations() as mode:
        run()
    return mode
