"""Which floats are equal: classes of values that rounding alone separates.

Sort the values of a sample and cut wherever the gap between neighbours exceeds ``rtol`` times the largest magnitude of
the sample. A class is a run without a cut. Nothing depends on where a value stands relative to a decimal boundary, so
two numbers that agree to rounding are never told apart by one (as ``round`` does to 0.05 - 1e-17 and 0.05 + 1e-17), and
multiplying all values by a number changes nothing. Classes are numbered from zero in increasing order of the values:
the number is a function of the set of values of the sample, not of the order they come in.

A run may be longer than the tolerance if values are dense enough to chain. It is still a function of the set, so what
is built on it stays exactly invariant; it only separates less.
"""

from __future__ import annotations

import torch
from torch import Tensor


def classes_of(values: Tensor, tolerance: Tensor | float) -> Tensor:
    """Number of gaps above ``tolerance`` (broadcastable to ``(*batch, 1)``) below each value ``(*batch, m)``."""
    ascending, position = values.sort(-1)
    cut = torch.zeros_like(ascending, dtype=torch.int64)
    cut[..., 1:] = (ascending[..., 1:] - ascending[..., :-1]) > tolerance
    return torch.empty_like(position).scatter_(-1, position, cut.cumsum(-1))


def _hide(values: Tensor, mask: Tensor | None) -> Tensor:
    """``values`` with padding replaced by the smallest real value, which neither bridges a gap nor adds a class."""
    if mask is None or not values.shape[-1]:
        return values
    top = torch.inf if values.is_floating_point() else torch.iinfo(values.dtype).max
    lowest = torch.where(mask, values, top).amin(-1, keepdim=True)
    return torch.where(mask, values, torch.where(mask.any(-1, keepdim=True), lowest, 0))


def cluster(values: Tensor, rtol: float, mask: Tensor | None = None, scale: Tensor | None = None) -> Tensor:
    """Class numbers ``(*batch, m)``, int64, of real ``values`` ``(*batch, m)``.

    Equal numbers get equal classes for every ``rtol``; with ``rtol = 0`` only equal numbers do. A value whose ``mask``
    is False is ignored, and its class is -1. Not differentiable, as classes jump. ``scale`` ``(*batch, 1)``: what the
    tolerance is relative to, if not to the largest magnitude.
    """
    values = _hide(values.detach(), mask)
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    if scale is None:
        scale = values.abs().amax(-1, keepdim=True) if values.shape[-1] else values.new_zeros(())
    classes = classes_of(values, scale * rtol)
    return classes if mask is None else torch.where(mask, classes, -1)


def combine(classes: Tensor, mask: Tensor | None = None) -> Tensor:
    """Classes ``(*batch, m)`` of the rows of ``classes`` ``(*batch, m, c)``, each channel numbered as by ``cluster``.

    Two rows are in one class if they agree in every channel; classes are numbered in lexicographic order. Channels
    come in one by one: with at most m classes so far and m in the next channel, ``so_far * m + next`` is below m^2 and
    orders pairs lexicographically, and its ranks are the classes of the pairs. Exact, without hashing.
    """
    m = classes.shape[-2]
    first, *others = classes.unbind(-1)
    for channel in others:
        first = classes_of(_hide(first * m + channel, mask), 0.0)
    return first if mask is None else torch.where(mask, first, -1)


def cluster_rows(values: Tensor, rtol: float, mask: Tensor | None = None, scale: Tensor | None = None) -> Tensor:
    """Classes ``(*batch, m)`` of the rows of ``values`` ``(*batch, m, c)``, in lexicographic order.

    The tolerance is relative to the largest magnitude of a *channel*, as channels have units of their own, unless they
    have one ``scale`` ``(*batch, 1, 1)``: coordinates, in which a direction without extent is rounding.
    """
    return combine(cluster(values.mT, rtol, None if mask is None else mask.unsqueeze(-2), scale).mT, mask)


def cluster_edges(values: Tensor, rtol: float, mask: Tensor | None = None) -> Tensor:
    """Edge colours ``(*batch, n, n)`` of weights ``(*batch, n, n, c)``: zero, in all channels, is no edge and colour 0.

    Other weights have colours above zero or below it, in lexicographic order. ``mask`` ``(*batch, n)`` marks the real
    nodes; pairs that include padding have colour 0.
    """
    rows = values.flatten(-3, -2)
    rows = torch.cat([rows.new_zeros((*rows.shape[:-2], 1, rows.shape[-1])), rows], -2)
    if mask is not None:
        pairs = (mask.unsqueeze(-1) & mask.unsqueeze(-2)).flatten(-2)
        mask = torch.cat([pairs.new_ones((*pairs.shape[:-1], 1)), pairs], -1)
    classes = cluster_rows(rows, rtol, mask)
    colours = classes[..., 1:] - classes[..., :1]
    if mask is not None:
        colours = torch.where(mask[..., 1:], colours, 0)
    return colours.reshape(values.shape[:-1])
