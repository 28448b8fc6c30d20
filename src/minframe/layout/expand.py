"""A batch in which samples are repeated, once for each of their poses, and the way back by weighted sums."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from minframe.layout.dense import Dense
from minframe.layout.ragged import Ragged
from minframe.layout.segments import Segments, grouped
from minframe.types import EDGE_ATTR, EDGE_INDEX, SCALAR, Type


class DenseExpansion:
    """Tensors ``(*batch, ...)`` as ``(K, ...)``: one entry per pose, copied from its sample."""

    def __init__(self, layout: Dense, sample: Tensor) -> None:
        self.source = layout
        self.sample = sample
        mask = None if layout.mask is None else layout.mask.reshape(-1, layout.n)[sample]
        self.layout = Dense((len(sample),), layout.n, mask)

    def set_edges(self, edge_index: Tensor, name: str) -> None:
        """Set the edges of the graph."""
        raise ValueError(
            f"{name} lists edges between rows, which in a batch of several poses need a batch vector: give batch= "
            "(zeros for a single graph), or an adjacency matrix of type 'edge'"
        )

    def expand(self, x: Tensor, kind: Type) -> Tensor:
        """An entry for each pose, of a tensor that has one for each sample."""
        batch = self.source.batch_shape
        if kind is SCALAR and x.ndim == 0:
            return x
        if kind is EDGE_ATTR:
            self.set_edges(x, "an input of type 'edge_attr'")
        if tuple(x.shape[: len(batch)]) != batch:
            raise ValueError(
                f"an input of type {kind.name!r} must begin with the batch axes {batch}, got shape "
                f"{tuple(x.shape)}: give it type 'constant' if it is the same for all samples"
            )
        return x.reshape(-1, *x.shape[len(batch) :])[self.sample]

    def batch_argument(self, x: Tensor) -> Tensor:
        """The mask, repeated for the poses."""
        return x.reshape(-1, x.shape[-1])[self.sample]

    def collapse(self, y: Tensor, weight: Tensor, kind: Type) -> Tensor:
        """The sum over the poses of each sample, weighted with ``weight`` ``(K,)``."""
        batch = self.source.batch_shape
        if not y.ndim or y.shape[0] != len(self.sample):
            raise ValueError(
                f"an output of type {kind.name!r} must begin with the {len(self.sample)} poses that the backbone was "
                f"shown as one batch, got shape {tuple(y.shape)}: a smooth frame needs a backbone that keeps the "
                "samples of a batch apart"
            )
        return _sums(y, weight, self.sample, math.prod(batch)).view((*batch, *y.shape[1:]))


class RaggedExpansion:
    """Rows ``(N, ...)`` repeated, pose by pose, with their own batch vector; edges likewise."""

    def __init__(self, layout: Ragged, sample: Tensor) -> None:
        self.source = layout
        self.sample = sample
        self._rows = _Repeated(layout.segments(), sample)
        self._edges: _Repeated | None = None
        self._edge_count = -1
        self.layout = Ragged(self._rows.pose, len(sample))

    def set_edges(self, edge_index: Tensor, name: str) -> None:
        if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
            raise ValueError(
                f"{name} must be an integer tensor (2, E), got {edge_index.dtype} of {tuple(edge_index.shape)}"
            )
        self._edges = _Repeated(grouped(self.source.index[edge_index[0]], self.source.count), self.sample)
        self._edge_count = edge_index.shape[1]

    def expand(self, x: Tensor, kind: Type) -> Tensor:
        if kind is SCALAR and x.ndim == 0:
            return x
        rows, samples = self.source.length, self.source.count
        if kind in (EDGE_INDEX, EDGE_ATTR):
            if self._edges is None:
                raise ValueError("an input has type 'edge_attr', but none has type 'edge_index'")
            if kind is EDGE_ATTR:
                return x[self._edges.entry]
            return self._rows.first[self._edges.pose] + self._rows.places(self.source.index)[x[:, self._edges.entry]]
        if x.shape[0] == samples and (kind is SCALAR or samples != rows) and not kind.nodes:
            return x[self.sample]
        if x.shape[0] == rows:
            return x[self._rows.entry]
        raise ValueError(
            f"an input of type {kind.name!r} must begin with one entry for each of {rows} rows or {samples} samples, "
            f"got shape {tuple(x.shape)}: give it type 'constant' if it is the same for all"
        )

    @property
    def entry(self) -> Tensor:
        """Which row each repeated row is a copy of."""
        return self._rows.entry

    @property
    def edge_pose(self) -> Tensor:
        """The pose that each repeated edge belongs to, once ``set_edges`` has been called."""
        assert self._edges is not None
        return self._edges.pose

    def batch_argument(self, x: Tensor) -> Tensor:
        return self.layout.index.to(x.dtype)

    def collapse(self, y: Tensor, weight: Tensor, kind: Type) -> Tensor:
        length = y.shape[0] if y.ndim else -1
        on_edges = self._edges is not None and length == len(self._edges.entry)
        if length == len(self._rows.entry) and not (on_edges and kind is EDGE_ATTR):
            return _sums(y, weight[self._rows.pose], self._rows.entry, self.source.length)
        if length == len(self.sample) and kind is not EDGE_ATTR:
            return _sums(y, weight, self.sample, self.source.count)
        if on_edges:
            assert self._edges is not None
            return _sums(y, weight[self._edges.pose], self._edges.entry, self._edge_count)
        raise ValueError(
            f"an output of type {kind.name!r} must begin with one entry for each of the {len(self._rows.entry)} rows "
            f"or {len(self.sample)} poses that the backbone was shown as one batch, got shape {tuple(y.shape)}"
        )


class _Repeated:
    """Entries that belong to samples, repeated for the poses of each sample.

    Attributes:
        entry: ``(N',)``, which entry each one is a copy of.
        pose: ``(N',)``, the pose it belongs to, ascending.
        first: ``(K,)``, where each pose begins.
    """

    def __init__(self, segments: Segments, sample: Tensor) -> None:
        self.segments = segments
        repeats = segments.sizes[sample]
        self.pose = torch.repeat_interleave(repeats)
        self.first = repeats.cumsum(0) - repeats
        at = torch.arange(len(self.pose), device=sample.device) + (segments.starts[sample] - self.first)[self.pose]
        self.entry = at if segments.order is None else segments.order[at]

    def places(self, owner: Tensor) -> Tensor:
        """The place of each entry within its sample, ``(N,)``; ``owner``: the samples they belong to."""
        assert self.segments.order is not None
        places = torch.empty_like(owner)
        places[self.segments.order] = torch.arange(len(owner), device=owner.device)
        return places - self.segments.starts[owner]


Expansion = DenseExpansion | RaggedExpansion


def expansion(layout: Dense | Ragged, sample: Tensor) -> Expansion:
    """The batch in which the samples with these numbers, ``(K,)`` of the flattened batch, follow each other."""
    return DenseExpansion(layout, sample) if isinstance(layout, Dense) else RaggedExpansion(layout, sample)


def _sums(y: Tensor, weight: Tensor, target: Tensor, count: int) -> Tensor:
    """``sum_k weight_k y_k`` for each of ``count`` targets, in the precision of the weights, and then in that of y."""
    weighted = weight.view(-1, *(1,) * (y.ndim - 1)) * y
    total = weighted.new_zeros((count, *y.shape[1:])).index_add(0, target, weighted)
    return total.to(y.dtype) if y.is_floating_point() or y.is_complex() else total
