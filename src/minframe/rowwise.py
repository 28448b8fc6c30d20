"""A check for arguments with an entry per row but no such type, under frames that reorder rows or depend on them.

``S()`` and its products show a backbone the rows in canonical order, so features of rows have to be reordered too.
Frames that ignore row order leave the rows where they are, but have to decide between rows with equal coordinates, and
need features such as atomic numbers for that. Both errors would be silent, and affect some inputs only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.layout import Dense, Layout
from minframe.signature import Path
from minframe.tracing import is_compiling


def check_rowwise(types: Mapping[str, Any], values: Mapping[str, Any], cloud: Cloud, group: object) -> None:
    """Raise a ``ValueError`` that names an argument with an entry per row whose type does not say so.

    Args:
        types: of the arguments that have any.
        values: of the arguments, without masks and batch vectors.
        cloud: what determines the frame.
        group: for the message.
    """
    layout = cloud.layout
    found = [item for name, x in values.items() for item in _unmoved(types.get(name), x, (name,))]
    found = [(path, x, kind) for path, x, kind in found if layout.is_per_row(x)]
    if not found or _nothing_to_reorder(layout):
        return
    listed = [x for _, x, _ in _tensors(values) if _lists_edges(x)]
    if cloud.relations is not None and cloud.relations.edge_index is not None:
        listed.append(cloud.relations.edge_index)
    rows = layout.rows_shape
    for path, x, kind in found:
        if len(rows) == 1 and ((rows == (2,) and _lists_edges(x)) or any(e.shape[1] == rows[0] for e in listed)):
            continue  # edges, or what belongs to as many edges as there are rows
        name = ".".join(path)
        pairs = x.ndim > len(rows) and x.shape[len(rows)] == rows[-1]
        raise ValueError(
            f"{name} has an entry for each row, shape {tuple(x.shape)}, but {'no type' if kind is None else repr(kind)}"
            f"{' as its type' if kind else ''}: frames of {group} depend on what belongs to rows. Give it a type in "
            f"inputs=, {name}: 'node'{' or, for pairs of rows, ' + repr('edge') if pairs else ''}; or 'constant', if "
            "it has nothing to do with the rows and only happens to be as long"
        )


def _nothing_to_reorder(layout: Layout) -> bool:
    """Whether every sample has a single row."""
    if isinstance(layout, Dense):
        return layout.n == 1
    return not is_compiling() and layout.count == layout.length


def _lists_edges(x: Tensor) -> bool:
    """Whether it could be an ``edge_index``."""
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


def untyped(name: str) -> str:
    """What to say of an argument with a tensor that nobody knows how to repeat for several poses."""
    return (
        f"{name} holds a tensor without a type, and mf.frames.Smooth shows the backbone several poses of each sample: "
        f"say in inputs= how to repeat it: {name!r}: 'scalar' (one entry per sample), 'node' (per row), 'edge' (per "
        "pair of rows), 'edge_index', 'edge_attr', or 'constant' (the same for all)"
    )
