"""Integers for whatever tells nodes and edges apart: features and weights of any dtype as colours.

Permutations move numbers without changing them, so two numbers are the same if they are equal, and no tolerance is
needed; ``rtol`` is for weights that were computed, and differ by rounding where they mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from minframe.errors import check_finite, data_checks_enabled
from minframe.permutation.cluster import cluster, cluster_edges, combine

SMALL = 1 << 20  # weights that are integers up to this are colours themselves


def channels(x: Tensor, lead: int) -> Tensor:
    """``x`` with the axes behind the first ``lead`` as one axis of real channels."""
    if x.is_complex():
        x = torch.view_as_real(x)
    if x.dtype == torch.bool:
        x = x.long()
    return x.detach().reshape(*x.shape[:lead], -1)


def node_colours(nodes: Sequence[Tensor], rtol: float, mask: Tensor | None = None) -> Tensor:
    """Colours ``(B, n)`` of features ``(B, n, ...)``: the rank of a node's features in lexicographic order."""
    hidden = None if mask is None else mask.unsqueeze(-2)
    classes = [cluster(channels(x, 2).mT, rtol, hidden).mT for x in nodes]
    return combine(torch.cat(classes, -1), mask)


def edge_colours(edges: Sequence[Tensor], rtol: float, mask: Tensor | None = None) -> Tensor:
    """Colours ``(B, n, n)`` of weights ``(B, n, n, ...)``; 0, in all channels, is no edge and has colour 0.

    A sample of small integers in one channel, such as an adjacency matrix, is its own colours.
    """
    parts = [channels(x, 3) for x in edges]
    if len(parts) > 1 or parts[0].shape[-1] != 1:
        dtype = parts[0].dtype
        for x in parts[1:]:
            dtype = torch.promote_types(dtype, x.dtype)
        return cluster_edges(torch.cat([x.to(dtype) for x in parts], -1), rtol, mask)
    weights = parts[0].squeeze(-1)
    if mask is not None:
        weights = torch.where(mask.unsqueeze(-1) & mask.unsqueeze(-2), weights, 0)
    whole = weights.to(torch.int64)
    if not weights.is_floating_point():
        return whole
    plain = ((whole == weights) & (whole.abs() <= SMALL)).flatten(1).all(-1)
    if data_checks_enabled() and bool(plain.all()):
        return whole
    return torch.where(plain[:, None, None], whole, cluster_edges(weights.unsqueeze(-1), rtol, mask))


def check_numbers(x: Tensor, name: str, mask: Tensor | None) -> None:
    """Raise a ``ValueError`` if ``x`` ``(B, ...)`` has NaN or infinity; ``mask`` broadcasts against it."""
    if x.is_floating_point() or x.is_complex():
        size = x.detach().abs()
        if mask is not None:
            size = torch.where(mask.view(*mask.shape, *(1,) * (x.ndim - mask.ndim)), size, 0)
        check_finite(size.flatten(1).amax(-1) if size[0].numel() else size.new_zeros(size.shape[0]), name)
