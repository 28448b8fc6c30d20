"""Features and weights of any dtype as integer colours of nodes and edges.

Permutations move numbers without changing them, so numbers are compared exactly and no tolerance is needed. ``rtol`` is
for floating-point numbers that were computed or measured, where equal quantities may differ by rounding. ``None``
stands for ``EQUAL_EPSILONS`` times the epsilon of the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from minframe.checks import data_checks_enabled
from minframe.labelling.cluster import cluster, cluster_edges, combine

EQUAL_EPSILONS = 32  # machine epsilons of the dtype; numbers that differ by less are equal
MAX_INTEGER_COLOUR = 1 << 20  # integer weights up to this magnitude are used as colours directly


def tolerance(x: Tensor, rtol: float | None) -> float:
    """The relative tolerance for a tensor; zero for integers, which are compared exactly."""
    if not (x.is_floating_point() or x.is_complex()):
        return 0.0
    return EQUAL_EPSILONS * torch.finfo(x.dtype).eps if rtol is None else rtol


def channels(x: Tensor, lead: int) -> Tensor:
    """``x`` with the axes behind the first ``lead`` as one axis of real channels, whose differences do not overflow."""
    x = x.detach()
    if x.is_complex():
        x = torch.view_as_real(x)
    if x.is_floating_point():
        return x.reshape(*x.shape[:lead], math.prod(x.shape[lead:]))
    wide = x.dtype in (torch.int64, torch.uint64)
    x = x.long().reshape(*x.shape[:lead], math.prod(x.shape[lead:]))
    return torch.cat([x >> 32, x & 0xFFFFFFFF], -1) if wide else x


def node_colours(nodes: Sequence[Tensor], rtol: float | None, mask: Tensor | None = None) -> Tensor:
    """Colours ``(B, n)`` of features ``(B, n, ...)``: the rank of a node's features in lexicographic order."""
    hidden = None if mask is None else mask.unsqueeze(-2)
    none = nodes[0].new_zeros((*nodes[0].shape[:2], 1), dtype=torch.int64)  # for features without channels
    classes = [cluster(channels(x, 2).mT, tolerance(x, rtol), hidden).mT for x in nodes if math.prod(x.shape[2:])]
    return combine(torch.cat(classes or [none], -1), mask)


def edge_colours(edges: Sequence[Tensor], rtol: float | None, mask: Tensor | None = None) -> Tensor:
    """Colours ``(B, m, n)`` of weights ``(B, m, n, ...)``; 0, in all channels, is no edge and has colour 0.

    A sample of small integers in one channel, such as an adjacency matrix, is used as it is. ``mask`` ``(B, n)`` marks
    the real nodes.
    """
    if len(edges) > 1:
        return cluster_edges(torch.stack([edge_colours([x], rtol, mask) for x in edges], -1), 0.0, mask)
    x = edges[0]
    if x.is_complex() or math.prod(x.shape[3:]) != 1:
        if math.prod(x.shape[3:]) == 0:
            return x.new_zeros(x.shape[:3], dtype=torch.int64)
        return cluster_edges(channels(x, 3), tolerance(x, rtol), mask)
    weights = x.detach().reshape(x.shape[:3])
    if mask is not None:
        weights = torch.where(mask.unsqueeze(-1) & mask.unsqueeze(-2), weights, 0)
    whole = weights.to(torch.int64)
    if not weights.is_floating_point():
        return whole
    plain = ((whole == weights) & (whole.abs() <= MAX_INTEGER_COLOUR)).flatten(1).all(-1)
    if data_checks_enabled() and bool(plain.all()):
        return whole
    clustered = cluster_edges(weights.unsqueeze(-1), tolerance(x, rtol), mask)
    return torch.where(plain[:, None, None], whole, clustered)
