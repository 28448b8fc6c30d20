"""The names of a backbone's arguments, and nested values addressed by a path."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from minframe.tracing import tree_map

Path = tuple[str, ...]


@dataclass(frozen=True)
class Signature:
    """What a backbone accepts. Positional arguments without a name of their own are called ``arg0``, ``arg1``, ..."""

    positional: tuple[str, ...]
    keyword: frozenset[str]
    any_positional: bool
    any_keyword: bool

    @classmethod
    def of(cls, backbone: Callable[..., Any]) -> Signature:
        while isinstance(backbone, nn.Module):  # look through torch.compile and data parallelism
            inner = getattr(backbone, "_orig_mod", None)
            if isinstance(backbone, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
                inner = backbone.module
            if inner is None:
                break
            backbone = inner
        function = backbone.forward if isinstance(backbone, nn.Module) else backbone
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # a builtin without a signature, such as torch.tanh
            return cls((), frozenset(), True, True)
        by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        kinds = [p.kind for p in parameters]
        return cls(
            tuple(p.name for p in parameters if p.kind in by_position),
            frozenset(p.name for p in parameters if p.kind in by_name),
            inspect.Parameter.VAR_POSITIONAL in kinds,
            inspect.Parameter.VAR_KEYWORD in kinds,
        )

    def name(self, position: int) -> str:
        return self.positional[position] if position < len(self.positional) else f"arg{position}"

    def names(self, name: str) -> bool:
        """Whether there is an argument of this name."""
        return name in self.positional or name in self.keyword

    def accepts(self, name: str) -> bool:
        extra = self.any_positional and name.startswith("arg") and name[3:].isdigit()
        return self.any_keyword or extra or self.names(name)

    def accepts_keyword(self, name: str) -> bool:
        return self.any_keyword or name in self.keyword

    def __str__(self) -> str:
        return ", ".join([*self.positional, *sorted(self.keyword - set(self.positional))]) or "none by name"


def leaves(types: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every type in a nested structure of types, with its path."""
    if isinstance(types, str):
        yield path, types
    elif isinstance(types, Mapping):
        for key, value in types.items():
            yield from leaves(value, (*path, str(key)))
    elif isinstance(types, (tuple, list)):
        for i, value in enumerate(types):
            yield from leaves(value, (*path, str(i)))
    else:
        where = ".".join(path) or "the types"
        raise TypeError(
            f"{where} must be a type name such as 'vector', or a dict, tuple or list of them, got {types!r}"
        )


def map_typed(function: Callable[[Path, str, Any], Any], types: Any, values: Any, path: Path, strict: bool) -> Any:
    """Apply ``function(path, type, value)`` along a structure of types; ``strict``: the values hold nothing else."""
    if values is None:
        return None
    if isinstance(types, str):
        return function(path, types, values)
    where = ".".join(path)
    if isinstance(types, Mapping):
        if not isinstance(values, Mapping):
            raise TypeError(f"{where} must be a dict with {list(types)}, as its types say, got {type(values).__name__}")
        if (strict and set(values) != set(types)) or not set(types) <= set(values):
            raise ValueError(f"{where} has the entries {list(values)}, but its types name {list(types)}")
        changed: MutableMapping[Any, Any] = dict(values)  # torch.compile supports dict(), but not copy
        if isinstance(values, MutableMapping) and type(values) is not dict:
            changed = copy.copy(values)
        changed.update({k: map_typed(function, t, values[k], (*path, str(k)), strict) for k, t in types.items()})
        return changed
    if not isinstance(values, (tuple, list)) or len(values) != len(types):
        got = f"{type(values).__name__}" + (f" of {len(values)}" if isinstance(values, (tuple, list)) else "")
        raise TypeError(f"{where} must be a tuple of {len(types)}, as its types say, got {got}")
    items = [
        map_typed(function, t, v, (*path, str(i)), strict) for i, (t, v) in enumerate(zip(types, values, strict=True))
    ]
    return type(values)(*items) if hasattr(values, "_fields") else type(values)(items)


def total(results: Sequence[Any], divisor: int = 1) -> Any:
    """The sum of every tensor in results of one structure, divided by a number."""
    if len(results) == 1:
        return results[0]

    def added(*x: Any) -> Any:
        if not isinstance(x[0], Tensor):
            return x[0]
        return sum(x[1:], x[0]) if divisor == 1 else sum(x[1:], x[0]) / divisor

    return tree_map(added, *results)
