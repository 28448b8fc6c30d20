"""Frames as data: constants that can be pickled, moved to a device, and combined sample by sample.

A stored frame holds what leads to the canonical pose and back, and not the inputs that determined it. Frames and the
symmetries in them say by ``__getstate__`` what that is; whatever they compute on demand and could not compute later is
then computed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor


class UnlikeError(Exception):
    """Records have different fields set."""


class Known:
    """A function that returns a value: what was a computation on demand."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    def __call__(self) -> Tensor:
        return self.value


def combined(function: Callable[[Sequence[Tensor]], Tensor], values: Sequence[Any]) -> Any:
    """Tensors, or records of tensors, that belong to several samples, as one; ``function`` combines tensors.

    Fields of records that are the same for all samples have ``{"shared": True}`` as metadata.
    """
    first = values[0]
    if all(isinstance(value, Tensor) for value in values):
        return function(values)
    if is_dataclass(first) and all(type(value) is type(first) for value in values):
        parts = {
            f.name: combined(function, [getattr(value, f.name) for value in values])
            for f in fields(first)
            if not f.metadata.get("shared")
        }
        return replace(first, **parts)  # type: ignore[type-var]
    if isinstance(first, list | tuple) and all(type(x) is type(first) and len(x) == len(first) for x in values):
        return _like(first, [combined(function, parts) for parts in zip(*values, strict=True)])
    if all(isinstance(value, bool) for value in values):  # known to hold for all samples
        return all(values)
    if all(value is first or (not isinstance(value, Tensor) and value == first) for value in values):
        return first
    raise UnlikeError


def _like(sequence: Any, items: list[Any]) -> Any:
    """The items in a sequence of the same kind."""
    return type(sequence)(*items) if hasattr(sequence, "_fields") else type(sequence)(items)


def mapped(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """A record with a function applied to all of its tensors; groups stay as they are."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, list | tuple):
        return _like(value, [mapped(function, item) for item in value])
    if isinstance(value, dict):
        return {key: item if key == "group" else mapped(function, item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
        for f in fields(value):
            object.__setattr__(made, f.name, mapped(function, getattr(value, f.name)))
        return made
    if type(value).__module__.split(".")[0] == __name__.split(".")[0] and hasattr(value, "__dict__"):
        made = object.__new__(type(value))
        made.__dict__.update(mapped(function, value.__getstate__()))
        return made
    return value


def constant(x: Tensor) -> Tensor:
    """A tensor without derivatives, in memory of its own size: a view would be stored with all that it is a view of."""
    x = x.detach()
    return x.clone() if x.untyped_storage().nbytes() > x.nbytes else x


class Stored:
    """An object that is pickled as constants."""

    def stored(self) -> dict[str, Any]:
        """The attributes to pickle: by default all."""
        return dict(self.__dict__)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = mapped(constant, self.stored())
        return state
