"""A frame of several weighted elements per sample, used by smooth frames; see ``frames.smooth``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.frame.base import Frame
from minframe.frame.linear import ActsLinearly, LinearFrame
from minframe.frame.size import Size, counted
from minframe.layout.expand import Expansion, expansion
from minframe.linalg.columns import Columns
from minframe.linalg.stabiliser import Stabiliser
from minframe.types import CONSTANT

Uniform = Callable[..., Tensor]


class WeightedFrame(Frame):
    """``K`` group elements with weights: those of a sample add up to one, and give ``sum_k w_k g_k . f(g_k^-1 . x)``.

    ``to_canonical`` gives tensors with one entry per *pose*, ``(K, ...)``, the batch axes flattened (with a batch
    vector: the rows of all poses, one after the other); ``from_canonical`` takes such tensors, and returns one entry
    per sample.

    Args:
        group: the group it belongs to.
        cloud: the inputs that determined the frame.
        sample: ``(K,)``, the sample that each pose belongs to, ascending, in the flattened batch.
        weights: ``(K,)``, in float64.
        linear: ``(K, d, d)``, the matrices of the elements; ``None`` where the group has none.
        inverse: their inverses.
        own_inverse: the matrices for the rows of the cloud itself, if different from ``inverse``.
        own_columns: gives the coordinates of the rows of the cloud itself where a product is not exact enough.
        stabiliser: of the poses; its averages fade outputs where axes vanish.
        chunk: the largest number of poses that a backbone is shown at once; ``None``: all.
        samples: the number of poses per sample that ``drawn`` takes; ``None``: all.
        uniform: source of random numbers.
        rank_margin: ``(*batch,)``, how far the rank is from changing, if outputs jump there.
    """

    group: ActsLinearly
    _rank_margin: Tensor | None = None
    #: of ``parts``: whether constants, which results of all parts have, are to be taken of another one
    leaves_constants = False
    keeps_scalars = False
    keeps_rows = False

    def __init__(
        self,
        group: ActsLinearly,
        cloud: Cloud,
        sample: Tensor,
        weights: Tensor,
        linear: Tensor | None,
        inverse: Tensor | None,
        stabiliser: Stabiliser,
        own_inverse: Tensor | None = None,
        own_columns: Columns | None = None,
        chunk: int | None = None,
        samples: int | None = None,
        uniform: Uniform | None = None,
        rank_margin: Tensor | None = None,
    ) -> None:
        self._begin(group, cloud, sample, weights, chunk, samples, uniform)
        self._rank_margin = rank_margin
        self.stabiliser = stabiliser
        shift = None if cloud.origin is None else cloud.origin.reshape(-1, cloud.origin.shape[-1])[sample]
        self.elements = LinearFrame(
            group=group,
            linear=linear,
            inverse=inverse,
            own_inverse=own_inverse,
            own_columns=own_columns,
            stabiliser=stabiliser,
            cloud=replace(cloud, layout=self.expansion.layout, origin=shift),
            margin=lambda: torch.full_like(weights, torch.inf),
        )

    def _begin(
        self,
        group: Any,
        cloud: Cloud,
        sample: Tensor,
        weights: Tensor,
        chunk: int | None,
        samples: int | None,
        uniform: Uniform | None,
    ) -> None:
        """Set all attributes except the elements."""
        self.group = group
        self.cloud = cloud
        self.layout = cloud.layout
        self.sample = sample
        self.weights = weights
        self.chunk = chunk
        self.samples = samples
        self._uniform = uniform
        self.expansion: Expansion = expansion(cloud.layout, sample)
        self.shown_layout = self.expansion.layout

    @property
    def poses(self) -> Tensor:
        """The number of poses of each sample, ``(*batch,)``."""
        count = self.layout.batch_shape
        total = torch.zeros(count, dtype=torch.int64, device=self.sample.device).view(-1)
        return total.index_add(0, self.sample, torch.ones_like(self.sample)).view(count)

    @property
    def element(self) -> Tensor:
        """The element of the largest weight in each sample."""
        weight = self.weights.detach()
        count = self.poses.numel()
        largest = weight.new_zeros(count).scatter_reduce(0, self.sample, weight, "amax")
        at = torch.where(weight == largest[self.sample], torch.arange(len(weight), device=weight.device), len(weight))
        first = at.new_full((count,), len(weight)).scatter_reduce(0, self.sample, at, "amin")
        element = self.elements.element[first]
        return element.view((*self.layout.batch_shape, *element.shape[1:]))

    @property
    def rank(self) -> Tensor:
        with torch.no_grad():
            return self.group.frame_of(replace(self.cloud, origin=None)).rank

    @property
    def size(self) -> Size:
        """The number of poses of each sample."""
        return counted(self.poses)

    @property
    def margin(self) -> Tensor:
        """Infinite: nothing is decided, so nothing can flip; but for the rank, where outputs jump with it (GL, SL)."""
        if self._rank_margin is not None:
            return self._rank_margin.reshape(self.layout.batch_shape)
        return torch.full(self.layout.batch_shape, torch.inf, dtype=torch.float64, device=self.sample.device)

    def to_canonical(self, x: Tensor, type: str = "point") -> Tensor:
        return self.elements.to_canonical(self.expand(x, type), type)

    def pose(self, x: Tensor, type: str = "point", own: bool = False) -> Tensor:
        return self.elements.pose(self.expand(x, type), type, own)

    def from_canonical(self, y: Tensor, type: str = "point") -> Tensor:
        return self.expansion.collapse(self.elements.from_canonical(y, type), self.weights, self.group.type(type))

    def expand(self, x: Tensor, type: str) -> Tensor:
        """``x`` unchanged, repeated for each pose."""
        kind = self.group.type(type)
        return x if kind is CONSTANT else self.expansion.expand(x, kind)

    def reorder(self, x: Tensor) -> Tensor:
        return self.expansion.batch_argument(x)

    def parts(self) -> Iterator[WeightedFrame]:
        """The frame, or parts of it of at most ``chunk`` poses, whose results add up."""
        count = len(self.sample)
        if self.chunk is None or count <= self.chunk:
            yield self
            return
        for start in range(0, count, self.chunk):
            part = self._select(torch.arange(start, min(start + self.chunk, count), device=self.sample.device))
            part.leaves_constants = start > 0
            yield part

    def drawn(self) -> WeightedFrame:
        """``samples`` poses of each sample, drawn by weight with replacement: the full frame in expectation.

        Let ``r_i = w_i / stop(w_i)`` be the ratio of a drawn pose, with ``stop`` a constant to autograd: it is one,
        and ``r_i f_i`` is ``sum_k w_k f_k`` in expectation, with all derivatives. But the first derivative,
        ``dw_i f_i / w_i + df_i``, is noisy in proportion to ``f_i`` itself, even if all poses have the same value. With
        ``m > 1`` draws the mean of the others is taken off where the weight changes. This leaves the expectation, as
        draws are independent and ``r`` is one in expectation:

            (1/m) sum_i [r_i f_i - (r_i - 1) mean_{j != i} f_j] = sum_i v_i f_i,
            v_i = (1/m) [r_i - sum_{j != i} (r_j - 1) / (m - 1)].

        The ``v_i`` add up to one wherever the cloud is moved to, so poses that agree in value add no noise.
        """
        if self.samples is None:
            return self
        assert self._uniform is not None
        weight = self.weights.detach()
        before = torch.cat([weight.new_zeros(1), weight.cumsum(0)])
        last = self.poses.view(-1).cumsum(0)
        low, high = before[last - self.poses.view(-1)], before[last]
        at = low + (high - low) * self._uniform(self.samples, len(low), device=weight.device)
        pick = torch.searchsorted(before, at, right=True) - 1
        pick = torch.minimum(torch.maximum(pick, last - self.poses.view(-1)), last - 1).mT.reshape(-1)
        ratio = self.weights[pick] / weight[pick]
        if self.samples > 1:
            change = (ratio - 1).view(-1, self.samples)
            ratio = 1 + (change - (change.sum(-1, keepdim=True) - change) / (self.samples - 1)).view(-1)
        return self._select(pick, ratio / self.samples)

    def _select(self, pick: Tensor, weights: Tensor | None = None) -> WeightedFrame:
        def taken(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[pick]

        columns = self.elements.own_columns
        return WeightedFrame(
            self.group,
            self.cloud,
            self.sample[pick],
            self.weights[pick] if weights is None else weights,
            taken(self.elements.linear),
            taken(self.elements.inverse),
            self.stabiliser.spread(lambda sample: sample[pick]),
            taken(self.elements.own_inverse),
            None if columns is None else columns.take(pick),
            self.chunk,
            self.samples,
            self._uniform,
        )

    def __repr__(self) -> str:
        return f"WeightedFrame(group={self.group}, poses={self.poses.tolist()})"


class WeightedMembers(WeightedFrame):
    """A weighted frame of a finite group, ``Finite`` or ``Discrete``; ``index`` ``(K,)``: numbers of its elements."""

    def __init__(
        self,
        group: Any,
        cloud: Cloud,
        sample: Tensor,
        weights: Tensor,
        index: Tensor,
        chunk: int | None = None,
        samples: int | None = None,
        uniform: Uniform | None = None,
    ) -> None:
        self._begin(group, cloud, sample, weights, chunk, samples, uniform)
        self.index = index
        self.elements = group.members(replace(cloud, layout=self.expansion.layout), index)
        if isinstance(self.elements, LinearFrame):
            self.stabiliser = self.elements.stabiliser

    @property
    def rank(self) -> Tensor:
        with torch.no_grad():
            return self.group.frame_of(self.cloud).rank

    def _select(self, pick: Tensor, weights: Tensor | None = None) -> WeightedMembers:
        return WeightedMembers(
            self.group,
            self.cloud,
            self.sample[pick],
            self.weights[pick] if weights is None else weights,
            self.index[pick],
            self.chunk,
            self.samples,
            self._uniform,
        )
