"""Graphs as users give them: their shapes, and the integer colours that labelling works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.checks import check_mask, check_numbers, check_tensor, data_checks_enabled
from minframe.cloud import Relations
from minframe.labelling.colours import channels, edge_colours, node_colours
from minframe.labelling.rows import node_classes, pair_colours
from minframe.layout import BatchVector, Dense, Layout, Ragged, layout_of
from minframe.types import Type

Named = tuple[str, Tensor]


def edge_rows(
    shape: Sequence[int], name: str, nodes: Sequence[Sequence[int]] = (), mask: Sequence[int] | None = None
) -> tuple[int, ...]:
    """The axes ``(*batch, n)`` of the nodes of edges ``(*batch, n, n)`` or ``(*batch, n, n, c)``.

    Where both can be read into a shape, those of ``nodes`` and ``mask`` settle it if they fit only one. Otherwise
    there are no channels, unless that would leave more than one batch axis.
    """
    shape = tuple(shape)
    plain, hints = len(shape) >= 2 and shape[-1] == shape[-2], bool(nodes) or mask is not None
    readings = [shape[:-1]] if plain else []
    # Conditions that would not matter are not evaluated, so that torch.export does not specialise a batch of n graphs.
    if len(shape) >= 3 and (hints or len(shape) > 3 or not plain) and shape[-2] == shape[-3]:
        readings.append(shape[:-2])
    if not readings:
        raise ValueError(
            f"{name} of type 'edge' must have shape (*batch, n, n) or (*batch, n, n, c), got {shape}: "
            "edges that are listed, (2, E), are of type 'edge_index'"
        )
    known = [(tuple(other), (0, 1)) for other in nodes] + ([(tuple(mask), (0,))] if mask is not None else [])
    for other, extra in known:
        fitting = [rows for rows in readings if len(other) - len(rows) in extra and other[: len(rows)] == rows]
        readings = fitting or readings
    return readings[-1] if len(readings) == 1 or len(shape) > 3 else readings[0]


def rows_layout(
    nodes: Sequence[Named],
    edges: Sequence[Named],
    mask: Tensor | None,
    batch: Tensor | BatchVector | None,
    names: tuple[str, str],
) -> Layout:
    """The layout of the nodes of graphs."""
    if batch is not None:
        if not nodes:
            raise ValueError(f"{names[1]}= needs an input of type 'node' (N, c) to say what the rows are")
        return layout_of(nodes[0][1], mask, batch, names)
    hint = mask.shape if isinstance(mask, Tensor) else None
    if edges:
        rows = edge_rows(edges[0][1].shape, edges[0][0], [x.shape for _, x in nodes], hint)
    else:
        name, x = nodes[0]
        if x.ndim < 2:
            raise ValueError(f"{name} of type 'node' must have shape (*batch, n, c), got {tuple(x.shape)}")
        if x.shape[-2] == 0:
            raise ValueError(f"{name} has no rows, shape {tuple(x.shape)}: there is nothing to put in order")
        rows = tuple(x.shape[: len(hint)]) if hint is not None else tuple(x.shape[:-1])
    if mask is not None:
        check_mask(mask, rows, names[0])
    return Dense(rows[:-1], rows[-1], mask)


def check_rows(x: object, kind: Type, name: str, layout: Layout) -> None:
    """A tensor with one entry for each row, or for each pair of rows."""
    rows = layout.rows_shape
    if kind.nodes == 2 and isinstance(layout, Ragged):
        raise ValueError(
            f"{name} of type 'edge' has no place beside a batch vector: list the edges as 'edge_index' (2, E), "
            "or pad the graphs to one size and give a mask"
        )
    want = (*rows, rows[-1]) if kind.nodes == 2 else rows
    check_tensor(x, name)
    assert isinstance(x, Tensor)
    if tuple(x.shape[: len(want)]) != want or (kind.nodes == 2 and x.ndim > len(want) + 1):
        raise ValueError(
            f"{name} of type {kind.name!r} must have shape ({', '.join(map(str, want))}, ...), got {tuple(x.shape)}"
        )


class Coloured(NamedTuple):
    """A batch of graphs as labelling takes them: ``(B, n)``, ``(B, n, n)`` or no edges, ``(B, n)`` or no padding."""

    colours: Tensor
    edges: Tensor | None
    mask: Tensor | None


def coloured(
    relations: Relations, layout: Layout, rtol: float | None, directed: bool | None = None, name: str = "x"
) -> Coloured:
    """The colours of all nodes and edges of dense graphs."""
    mask = layout.padding_mask()
    nodes, edges = ([layout.pad(x) for x in part] for part in (relations.nodes, relations.edges))
    kinds = pair_colours(edges, rtol, mask) if edges else None
    colours = node_classes(nodes, rtol, mask) if nodes else None
    if (edges and kinds is None) or (nodes and colours is None):
        pairs = None if mask is None else mask.unsqueeze(-1) & mask.unsqueeze(-2)
        for part, real in ((nodes, mask), (edges, pairs)):
            for x in part:
                check_numbers(x, name, real)
        kinds = edge_colours(edges, rtol, mask) if edges else None
        colours = node_colours(nodes, rtol, mask) if nodes else None
    if directed is False and kinds is not None and data_checks_enabled() and not torch.equal(kinds, kinds.mT):
        sample = int((kinds != kinds.mT).flatten(1).any(-1).long().argmax())
        raise ValueError(
            f"{name} is not symmetric in sample {sample} of {kinds.shape[0]}, but directed=False declares graphs "
            "without directions: symmetrise it, for example with edges + edges.mT, or leave directed out"
        )
    if colours is None:
        assert kinds is not None
        colours = kinds.new_zeros(kinds.shape[:2])
    return Coloured(colours, kinds, mask)


def smallest_gap(relations: Relations, layout: Layout) -> Tensor:
    """The smallest difference of two numbers of one channel, relative to the largest magnitude there, ``(B,)``.

    A change by as much may make two numbers equal that were not, and with that another order canonical.
    """
    mask = layout.padding_mask()
    pairs = None if mask is None else mask.unsqueeze(-1) & mask.unsqueeze(-2)
    gaps = []
    for x, real, lead in [*((x, mask, 2) for x in relations.nodes), *((x, pairs, 3) for x in relations.edges)]:
        values = channels(layout.pad(x), lead).flatten(1, -2).mT.double()
        if real is not None:
            values = torch.where(real.flatten(1).unsqueeze(-2), values, torch.nan)
        if lead == 3:  # no edge is a value too
            values = torch.cat([values, torch.zeros_like(values[..., :1])], -1)
        gap = values.sort(-1)[0].diff(dim=-1)
        gap = torch.cat([torch.where(gap > 0, gap, torch.inf), torch.full_like(values[..., :1], torch.inf)], -1)
        scale = values.abs().nan_to_num().amax(-1)
        gaps.append((gap.amin(-1) / torch.where(scale > 0, scale, 1.0)).amin(-1))
    return torch.stack(gaps).amin(0)
