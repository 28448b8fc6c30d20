"""Constant tensors: made once, and kept on every device on which they were needed.

To copy a tensor to a device the host waits for it. The elements of finite groups and other fixed numbers therefore stay
where they were copied to. They are no part of groups or modules: what is pickled, copied or stored does not have them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, wraps
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from minframe.tracing import constant_while_compiling, is_compiling, is_fake

T = TypeVar("T")
#: of each constant, as long as it lives, its copies by their device
_copies: MutableMapping[Tensor, dict[torch.device, Tensor]] = WeakIdKeyDictionary()


def constant(maxsize: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A decorator: results are kept, those of ``maxsize`` arguments, and are the same in whatever context.

    In a graph that is traced they are constants too: no operation of the function is, and all shapes are known.
    """

    def decorator(function: Callable[..., T]) -> Callable[..., T]:
        @lru_cache(maxsize)
        def known(*args: Hashable) -> T:
            return _alone(function, *args)

        @constant_while_compiling
        def boxed(*args: Hashable) -> tuple[T]:
            return (known(*args),)

        @wraps(function)
        def wrapped(*args: Hashable) -> T:
            # Of several constant tensors torch.compile knows one alone, by the name of the function, but not of tuples.
            return boxed(*args)[0] if is_compiling() else known(*args)

        return wrapped

    return decorator


def beside(fixed: Tensor, x: Tensor) -> Tensor:
    """A constant, on the device of ``x``. It has to be an object that lasts: copies live as long as it does."""
    if is_compiling():
        return fixed.to(x.device)
    if is_fake(x):
        return torch.empty(fixed.shape, dtype=fixed.dtype, device=x.device)
    if fixed.device == x.device:
        return fixed
    copies = _copies.setdefault(fixed, {})
    if x.device not in copies:
        copies[x.device] = _alone(fixed.to, x.device)
    return copies[x.device]


def _alone(function: Callable[..., T], *args: object) -> T:
    """The result of a function outside of all contexts, such as inference mode, transforms, modes and default devices.

    All of these belong to a thread, and tensors that are made inside of them may be of no use outside.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *args).result()
