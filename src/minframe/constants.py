"""Constant tensors: made once, and kept on every device on which they were needed.

To copy a tensor to a device the host waits for it. The elements of finite groups and other fixed numbers therefore stay
where they were copied to. They are no part of groups or modules: what is pickled, copied or stored does not have them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from minframe.tracing import is_compiling, is_fake

P = ParamSpec("P")
T = TypeVar("T")
_copies = WeakIdKeyDictionary()  # of each constant, as long as it lives, its copies by their device


def constant(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: results are kept, those of ``maxsize`` arguments, and are the same in whatever context."""

    def decorator(function: Callable[P, T]) -> Callable[P, T]:
        @lru_cache(maxsize)
        def known(*args: P.args, **kwargs: P.kwargs) -> T:
            return _alone(function, *args, **kwargs)

        @wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
            if is_compiling():
                return function(*args, **kwargs)
            return known(*args, **kwargs)

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
    copies: dict[torch.device, Tensor] = _copies.setdefault(fixed, {})
    if x.device not in copies:
        copies[x.device] = _alone(fixed.to, x.device)
    return copies[x.device]


def _alone(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a function outside of all contexts, such as inference mode, transforms, modes and default devices.

    All of these belong to a thread, and tensors that are made inside of them may be of no use outside.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *args, **kwargs).result()
