"""What a wrapper is told when it is made: checked at once, so that a mistake is named where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from minframe.frames import Method
from minframe.groups.base import Group
from minframe.signature import Path, Signature, leaves


def check_kinds(backbone: object, group: object, frames: object) -> None:
    """Raise an error unless these are a function, a group and a method."""
    if not callable(backbone):
        raise TypeError(f"backbone must be a module or a function, got {type(backbone).__name__}")
    if isinstance(backbone, type) and issubclass(backbone, nn.Module):
        raise TypeError(f"backbone must be a module, got the class {backbone.__name__}: make one of it")
    if not isinstance(group, Group):
        raise TypeError(f"group must be a group such as mf.E(3), got {group!r}")
    if not isinstance(frames, Method):
        raise TypeError(f"frames must be a method such as mf.frames.Minimal(), got {frames!r}")


def first_argument(signature: Signature, types: object) -> str:
    """The name of the argument that a type is of which is given without a name."""
    if not (signature.positional or signature.any_positional or signature.any_keyword):
        raise ValueError(
            f"backbone has no positional argument to give the type {types!r}: name one, as inputs={{'x': {types!r}}}. "
            f"It has: {signature}"
        )
    return signature.name(0)


def check_names(
    signature: Signature,
    group: Group,
    inputs: dict[str, Any],
    outputs: Any,
    mask: object,
    batch: object,
    batch_size: object,
) -> None:
    """Raise an error unless arguments and types are named that the backbone and the group have."""
    for name in inputs:
        if not signature.accepts(name):
            raise ValueError(f"backbone has no argument {name!r} to give a type to; it has: {signature}")
    if batch_size is not None and batch is None:
        raise ValueError(
            f"batch_size names {batch_size!r}, the number of samples of a batch vector: name that in batch="
        )
    for option, value in (("mask", mask), ("batch", batch), ("batch_size", batch_size)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{option} must be the name of an argument, such as {option!r}, got {type(value).__name__}")
        if value in inputs:
            raise ValueError(
                f"{option} names {value!r}, which inputs gives the type {inputs[value]!r}: name the argument that "
                f"carries the {option}, and give it no type"
            )
    for _, kind in [*leaves(inputs), *leaves(outputs, ("outputs",))]:
        group.type(kind)


def frame_paths(
    inputs: dict[str, Any], frame_on: str | Sequence[str] | None, group: Group, frames: Method
) -> tuple[Path, ...]:
    """The paths of the inputs that determine the frame, in the order of ``frames.frame_types(group)``."""
    typed = dict(leaves(inputs))
    allowed = frames.frame_types(group)
    if frame_on is None:
        paths = [path for path, kind in typed.items() if kind in allowed]
        if not paths:
            wanted = " or a ".join(repr(kind) for kind in allowed)
            raise ValueError(
                f"no input determines a frame of {group}: inputs has {list(typed.values())}, and one of them must be a "
                f"{wanted}"
            )
    else:
        names = [frame_on] if isinstance(frame_on, str) else list(frame_on)
        if not names:
            raise ValueError("frame_on is empty: name at least one input, or leave it out")
        paths = [tuple(name.split(".")) for name in names]
        for name, path in zip(names, paths, strict=True):
            if path not in typed:
                known = ", ".join(".".join(p) for p in typed)
                raise ValueError(f"frame_on names {name!r}, which has no type; inputs gives types to: {known}")
            if typed[path] not in allowed:
                raise ValueError(
                    f"frame_on names {name!r}, got type {typed[path]!r}: a frame of {group} is taken of inputs of type "
                    f"{' or '.join(map(repr, allowed))}"
                )
    group.check_frame_types([typed[path] for path in paths])
    return tuple(sorted(paths, key=lambda path: allowed.index(typed[path])))
