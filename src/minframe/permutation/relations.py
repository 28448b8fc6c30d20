"""Graphs as users give them: their shapes, and the integer colours that labelling works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.cloud import Relations
from minframe.errors import check_mask, data_checks_enabled
from minframe.permutation.colours import channels, check_numbers, edge_colours, node_colours
from minframe.ragged import Dense, Layout, layout_of


def edge_rows(x: Tensor, name: str, known: Sequence[tuple[int, ...]] = ()) -> tuple[int, ...]:
    """The axes ``(*batch, n)`` of the nodes of edges ``(*batch, n, n)`` or ``(*batch, n, n, c)``.

    Where both can be read into a shape, axes that are ``known`` to begin with those of the nodes decide. Failing that
    it is read without channels, unless it would then have more than one batch axis.
    """
    shape = tuple(x.shape)
    readings = [shape[:-1]] if x.ndim >= 2 and shape[-1] == shape[-2] else []
    if x.ndim >= 3 and shape[-2] == shape[-3]:
        readings.append(shape[:-2])
    fitting = [rows for rows in readings if all(other[: len(rows)] == rows for other in known)]
    if not fitting:
        beside = f" beside a tensor of shape {known[0]}" if readings else ""
        raise ValueError(
            f"{name} of type 'edge' must have shape (*batch, n, n) or (*batch, n, n, c), got {shape}{beside}"
        )
    return fitting[-1] if len(fitting) == 1 or len(fitting[0]) > 2 else fitting[0]


def rows_layout(
    nodes: Sequence[tuple[str, Tensor]],
    edges: Sequence[tuple[str, Tensor]],
    mask: Tensor | None,
    batch: Tensor | None,
    names: tuple[str, str],
) -> Layout:
    """The layout of the nodes of graphs."""
    if batch is not None:
        if not nodes:
            raise ValueError(f"{names[1]}= needs an input of type 'node' (N, c) to say what the rows are")
        return layout_of(nodes[0][1], mask, batch, names)
    if not edges:
        name, x = nodes[0]
        if x.ndim < 2:
            raise ValueError(f"{name} of type 'node' must have shape (*batch, n, c), got {tuple(x.shape)}")
        rows = tuple(x.shape[:-1]) if mask is None else tuple(mask.shape)
    else:
        known = [tuple(x.shape) for _, x in nodes] + ([tuple(mask.shape)] if mask is not None else [])
        rows = edge_rows(edges[0][1], edges[0][0], known)
    if mask is not None:
        check_mask(mask, torch.empty((*rows, 1), device="meta"), names[0])
    return Dense(rows[:-1], rows[-1], mask)


class Coloured(NamedTuple):
    """A batch of graphs as labelling takes them: ``(B, n)``, ``(B, n, n)`` or no edges, ``(B, n)`` or no padding."""

    colours: Tensor
    edges: Tensor | None
    mask: Tensor | None


def coloured(relations: Relations, layout: Layout, rtol: float, directed: bool | None, name: str) -> Coloured:
    """The colours of all nodes and edges of dense graphs."""
    mask = layout.padding_mask()
    nodes = [layout.pad(x) for x in relations.nodes]
    for x in nodes:
        check_numbers(x, name, mask)
    edges = None
    if relations.edges:
        padded = [layout.pad(x) for x in relations.edges]
        pairs = None if mask is None else mask.unsqueeze(-1) & mask.unsqueeze(-2)
        for x in padded:
            check_numbers(x, name, pairs)
        edges = edge_colours(padded, rtol, mask)
        if directed is False and data_checks_enabled() and not torch.equal(edges, edges.mT):
            sample = int((edges != edges.mT).flatten(1).any(-1).nonzero()[0])
            raise ValueError(
                f"{name} was declared undirected but is not symmetric in sample {sample} of {edges.shape[0]}: "
                "symmetrise it, or leave directed= out"
            )
    if nodes:
        colours = node_colours(nodes, rtol, mask)
    else:
        assert edges is not None
        colours = edges.new_zeros(edges.shape[:2])
    return Coloured(colours, edges, mask)


def smallest_gap(relations: Relations, layout: Layout) -> Tensor:
    """The smallest difference of two numbers of one channel, relative to the largest magnitude there, ``(B,)``.

    A change by as much may make two numbers equal that were not, and with that another order canonical.
    """
    mask = layout.padding_mask()
    pairs = None if mask is None else mask.unsqueeze(-1) & mask.unsqueeze(-2)
    gaps = []
    for x, real, lead in [*((x, mask, 2) for x in relations.nodes), *((x, pairs, 3) for x in relations.edges)]:
        values = channels(layout.pad(x), lead).flatten(1, -2).mT.double()
        if lead == 3:  # no edge is a value too
            values = torch.cat([values, torch.zeros_like(values[..., :1])], -1)
        if real is not None:
            real = torch.cat([real.flatten(1), real.new_ones((len(real), values.shape[-1] - real[0].numel()))], -1)
            values = torch.where(real.unsqueeze(-2), values, torch.nan)
        ascending = values.sort(-1)[0]
        gap = ascending.diff(dim=-1)
        gap = (
            torch.where(gap > 0, gap, torch.inf).amin(-1)
            if gap.shape[-1]
            else torch.full_like(values[..., 0], torch.inf)
        )
        scale = values.abs().nan_to_num().amax(-1)
        gaps.append((gap / torch.where(scale > 0, scale, 1.0)).amin(-1))
    return torch.stack(gaps).amin(0)
