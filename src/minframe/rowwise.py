"""A check for arguments of rows or edges whose type does not say so, under frames that reorder rows or depend on them.

``S()`` and its products show a backbone the rows in canonical order, so features of rows have to be reordered too, and
edges renumbered. Frames that ignore row order leave the rows where they are, but have to decide between rows with equal
coordinates, and need atomic numbers, say, or bonds for that. These errors would be silent, and affect some inputs only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.groups.base import Group
from minframe.layout import Dense, Layout
from minframe.signature import Path
from minframe.tracing import is_compiling


def check_rowwise(types: Mapping[str, Any], values: Mapping[str, Any], cloud: Cloud, group: Group) -> None:
    """Raise a ``ValueError`` that names an argument of rows or edges whose type does not say so.

    Args:
        types: of the arguments that have any.
        values: of the arguments, without masks and batch vectors.
        cloud: what determines the frame.
        group: that the frame is of.
    """
    layout = cloud.layout
    unmoved = [item for name, x in values.items() for item in _unmoved(types.get(name), x, (name,))]
    edges = {x.shape[1] for _, x, _ in _tensors(values) if _lists_edges(x)}
    entries = [(item, _belongs_to(*item, layout, edges)) for item in unmoved]
    found = [(item, words) for item, words in entries if words is not None]
    if not found or _nothing_to_reorder(layout):
        return
    (path, x, kind), (what, type) = found[0]
    name = ".".join(path)
    remedy = f"Give it a type in inputs=, {name}: {type}; or 'constant', if it has nothing to do with them"
    if type == "'edge_index'" and "edge_index" not in group.types:
        remedy = (
            f"{group} has no type for a list of edges: give an adjacency matrix of type 'edge', or wrap a network of "
            f"graphs in {getattr(group, 'linear', group)} with frames=mf.frames.Unordered(), which leaves rows where "
            f"they are; or say {name}: 'constant', if it is no list of edges"
        )
    raise ValueError(
        f"{name} has {what}, shape {tuple(x.shape)}, but {'no type' if kind is None else repr(kind) + ' as its type'}: "
        f"frames of {group} depend on what belongs to rows. {remedy}"
    )


def _belongs_to(
    path: Path, x: Tensor, kind: str | None, layout: Layout, edges: Collection[int]
) -> tuple[str, str] | None:
    """What a tensor has entries for, in words, and the type that it should have; ``None``: not for rows or edges.

    Args:
        path: of the tensor.
        x: the tensor.
        kind: its type, if it has any.
        layout: of the rows.
        edges: how many there are in each list of edges.
    """
    rows, batch = layout.rows_shape, layout.batch_shape
    if kind is None and _lists_edges(x) and (path[-1] == "edge_index" or batch != (2,)):
        return "numbers of rows, as of edges", "'edge_index'"
    per_row = layout.is_per_row(x)
    if x.ndim and x.shape[0] in edges and (per_row or x.shape[:1] != batch):
        return None if per_row or kind else ("an entry for each edge", "'edge_attr'")
    if per_row:
        pairs = x.ndim > len(rows) and x.shape[len(rows)] == rows[-1]
        return "an entry for each row", "'node'" + (" or, for pairs of rows, 'edge'" if pairs else "")
    if isinstance(layout, Dense) and _is_shared(tuple(x.shape), layout):
        expanded = ", ".join(map(str, (*rows, "...")))
        return "an entry for each row, the same for all samples", f"'node', expanded to the shape ({expanded})"
    return None


def _is_shared(shape: tuple[int, ...], layout: Dense) -> bool:
    """Whether there are entries for rows, ``(n, ...)`` or ``(1, n, ...)``, which PyTorch repeats for the samples."""
    batch = layout.batch_shape
    if not batch or layout.n == 1 or shape[: len(batch)] == batch:
        return False
    while shape and shape[0] == 1:
        shape = shape[1:]
    return bool(shape) and shape[0] == layout.n


def _nothing_to_reorder(layout: Layout) -> bool:
    """Whether every sample has a single row."""
    if isinstance(layout, Dense):
        return layout.n == 1
    return not is_compiling() and layout.count == layout.length


def _lists_edges(x: Tensor) -> bool:
    """Whether it could be an ``edge_index``. Of two samples it could also be a feature."""
    return x.ndim == 2 and x.shape[0] == 2 and not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def _unmoved(types: Any, values: Any, path: Path) -> Iterator[tuple[Path, Tensor, str | None]]:
    """The tensors with no type, or with the type ``"scalar"``."""
    if types is None:
        yield from _tensors(values, path)
    elif types == "scalar":
        if isinstance(values, Tensor):
            yield path, values, "scalar"
    elif isinstance(types, Mapping) and isinstance(values, Mapping):
        named = {str(key): value for key, value in types.items()}
        for key, value in values.items():
            yield from _unmoved(named.get(str(key)), value, (*path, str(key)))
    elif isinstance(types, (tuple, list)) and isinstance(values, (tuple, list)):
        for i, (kind, value) in enumerate(zip(types, values, strict=False)):
            yield from _unmoved(kind, value, (*path, str(i)))


def _tensors(values: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor, None]]:
    """All tensors of a nested structure."""
    if isinstance(values, Tensor):
        yield path, values, None
    elif isinstance(values, Mapping):
        for key, value in values.items():
            yield from _tensors(value, (*path, str(key)))
    elif isinstance(values, (tuple, list)):
        for i, value in enumerate(values):
            yield from _tensors(value, (*path, str(i)))
    elif hasattr(values, "__array_interface__"):  # of NumPy
        with contextlib.suppress(TypeError):  # numbers alone
            yield path, torch.as_tensor(values), None


def untyped(name: str) -> str:
    """What to say of an argument with a tensor that nobody knows how to repeat for several poses."""
    return (
        f"{name} holds a tensor without a type, and mf.frames.Smooth shows the backbone several poses of each sample: "
        f"say in inputs= how to repeat it: {name!r}: 'scalar' (one entry per sample), 'node' (per row), 'edge' (per "
        "pair of rows), 'edge_index', 'edge_attr', or 'constant' (the same for all)"
    )
