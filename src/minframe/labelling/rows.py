"""Rows of features in C: classes of equal ones, moves by a permutation, means over orbits, and checks of lists.

The results are those of ``colours``, ``action``, ``orbits`` and ``checks``, bit by bit. In PyTorch each takes several
operations, and for a small graph the number of operations is the cost. A function returns ``None`` where it does not
serve: without the extension, for tensors that have to be differentiated or traced, on other devices, for rare dtypes,
and for numbers that are not finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from minframe.labelling import native
from minframe.labelling.colours import tolerance
from minframe.tracing import is_plain, is_transformed

# The storage of numbers; see _rows.c. Numbers of 64 bits are split in two channels, as by ``colours.channels``.
FLOAT, DOUBLE, WIDE, LONG, OTHER = 0, 1, 2, 3, 8
KINDS = {torch.float32: FLOAT, torch.float64: DOUBLE, torch.int64: WIDE, torch.int32: 4, torch.int16: 5}
KINDS |= {torch.int8: 6, torch.uint8: 7, torch.bool: 7}
WIDENED = (torch.float16, torch.bfloat16)

Feature = tuple[int, int, int, float]


def serves(x: Tensor) -> bool:
    """Whether memory of this tensor is read and written in C."""
    return native._rows is not None and x.is_cpu and is_plain(x)


def _stored(x: Tensor) -> Tensor | None:
    """The numbers of a tensor as real numbers that C can read, or ``None``."""
    x = x.detach() if x.requires_grad else x
    if not serves(x):
        return None
    if x.is_complex():
        x = torch.view_as_real(x.resolve_conj())
    elif x.dtype in WIDENED:
        x = x.float()
    return x.contiguous() if x.dtype in KINDS else None


def _features(
    given: Sequence[Tensor], lead: int, rtol: float | None
) -> tuple[list[Tensor], tuple[Feature, ...]] | None:
    """Tensors to keep in memory, and how C reads them: address, kind, channels, tolerance."""
    kept, features = [], []
    for x in given:
        stored = _stored(x)
        if stored is None:
            return None
        kept.append(stored)
        channels = math.prod(stored.shape[lead:])
        features.append((stored.data_ptr(), KINDS[stored.dtype], channels, tolerance(x, rtol)))
    return kept, tuple(features)


def _mask(mask: Tensor | None) -> tuple[Tensor | None, int]:
    """A mask to keep in memory, and its address."""
    mask = None if mask is None else mask.contiguous()
    return mask, native.address(mask)


def node_classes(nodes: Sequence[Tensor], rtol: float | None, mask: Tensor | None) -> Tensor | None:
    """``colours.node_colours``: classes ``(B, n)`` of features ``(B, n, ...)``."""
    found = _features(nodes, 2, rtol)
    if found is None:
        return None
    (samples, n), (mask, real) = nodes[0].shape[:2], _mask(mask)
    result = torch.empty((samples, n), dtype=torch.int64)
    finite = native._rows.classes_dense(samples, n, real, found[1], result.data_ptr())
    return result if finite else None


def pair_colours(edges: Sequence[Tensor], rtol: float | None, mask: Tensor | None) -> Tensor | None:
    """``colours.edge_colours``: colours ``(B, n, n)`` of weights ``(B, n, n, ...)``."""
    found = _features(edges, 3, rtol)
    if found is None:
        return None
    (samples, n), (mask, real) = edges[0].shape[:2], _mask(mask)

    def colours(feature: Feature) -> Tensor | None:
        result = torch.empty((samples, n, n), dtype=torch.int64)
        finite = native._rows.colours_of_pairs(samples, n, real, (feature,), result.data_ptr())
        return result if finite else None

    each: list[Tensor] = []
    for address, kind, channels, gap in found[1]:
        # A single channel of integers is used as it is.
        one = colours((address, LONG if kind == WIDE and channels == 1 else kind, channels, gap))
        if one is None:
            return None
        each.append(one)
    if len(each) == 1:
        return each[0]
    together = torch.stack(each, -1)
    return colours((together.data_ptr(), LONG, len(each), 0.0))


def listed_classes(features: Sequence[Tensor], owner: Tensor | None, samples: int, rtol: float | None) -> Tensor | None:
    """Classes ``(m,)`` of rows ``(m, ...)``, counted from 0 within the ``owner`` ``(m,)`` of each; ``None``: all."""
    found = _features(features, 1, rtol)
    if found is None:
        return None
    m = features[0].shape[0]
    result = torch.empty(m, dtype=torch.int64)
    finite = native._rows.classes_listed(samples, m, native.address(owner), found[1], result.data_ptr())
    return result if finite else None


def take(x: Tensor, index: Tensor, axes: int = 1, mask: Tensor | None = None, positive: bool = False) -> Tensor | None:
    """Rows ``(*batch, n, ...)`` or pairs of rows at ``index`` ``(*batch, n)``, padding replaced by zeros.

    ``positive``: -0.0 becomes 0.0.
    """
    if not serves(x) or x.is_conj() or is_transformed(index):
        return None
    kind = OTHER
    if positive and x.is_floating_point():
        kind = KINDS.get(x.dtype, OTHER)
        if kind == OTHER:
            return None
    x, index, (mask, real) = x.contiguous(), index.contiguous(), (None, 0) if mask is None else _mask(mask)
    n = index.shape[-1]
    samples = index.numel() // n if n else 0
    result = torch.empty_like(x)
    size = x.nbytes // (index.numel() * n ** (axes - 1)) if samples else 0
    native._rows.take(
        *(samples, n, size, axes, kind),
        *(index.data_ptr(), real, x.data_ptr(), result.data_ptr()),
    )
    return result


def mean(y: Tensor, numbers: Tensor) -> Tensor | None:
    """``orbits.orbit_mean``: means of ``y`` ``(*batch, m, ...)`` over equal ``numbers`` ``(*batch, m)``."""
    kind = KINDS.get(y.dtype)
    if kind not in (FLOAT, DOUBLE) or not serves(y) or is_transformed(numbers):
        return None
    y, numbers = y.contiguous(), numbers.contiguous()
    m = numbers.shape[-1]
    samples = numbers.numel() // m if m else 0
    channels = y.numel() // numbers.numel() if samples else 0
    result = torch.empty_like(y)
    native._rows.mean(samples, m, channels, kind, numbers.data_ptr(), y.data_ptr(), result.data_ptr())
    return result


def separated(values: Tensor, cells: Tensor, tolerance: Tensor) -> tuple[Tensor, Tensor] | None:
    """``separate.separate_with_margin`` of few points: cells cut at every gap, and how far that is from changing."""
    if values.dtype != torch.float64 or not serves(values) or is_transformed(cells):
        return None
    values, tolerance = values.contiguous(), tolerance.to(torch.float64).contiguous()
    cells = cells.clone(memory_format=torch.contiguous_format)
    margin = values.new_empty(len(cells))
    native._rows.separate(*values.shape, *(x.data_ptr() for x in (values, tolerance, cells, margin)))
    return cells, margin


def count_samples(batch: Tensor) -> int:
    """The number of samples of a batch vector ``(N,)``, int64, or -1: it is not valid, or not read here."""
    if batch.dtype != torch.int64 or not batch.is_contiguous() or not serves(batch):
        return -1
    return native._rows.count_samples(len(batch), batch.data_ptr())


def joins_nodes(edge_index: Tensor, n: int, batch: Tensor | None) -> bool:
    """Whether edges ``(2, E)`` are known to join nodes below ``n``, each within a sample of the batch vector."""
    if edge_index.dtype != torch.int64 or edge_index.ndim != 2 or edge_index.shape[0] != 2 or not serves(edge_index):
        return False
    if batch is not None and not batch.is_contiguous():
        return False
    edge_index = edge_index.contiguous()
    return native._rows.joins_nodes(n, edge_index.shape[1], edge_index.data_ptr(), native.address(batch))
