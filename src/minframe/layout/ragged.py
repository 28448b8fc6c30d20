"""Rows of all samples one after the other, with a batch vector. Methods mean what they mean for ``Dense``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from minframe.layout.segments import Segments, grouped


@dataclass(frozen=True, slots=True)
class BatchVector:
    """The sample number of each row ``(N,)``, and the number of samples, which is then not read from it."""

    index: Tensor
    count: int


@dataclass(slots=True)
class Ragged:
    """Rows ``(N,)`` with the sample number of each in ``index``, in any order; ``count`` samples."""

    index: Tensor
    count: int
    _segments: Segments | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return (self.count,)

    @property
    def leading(self) -> tuple[int, ...]:
        return ()  # N for per-row tensors, count for per-sample ones: see for_rows

    def clean(self, x: Tensor, core_ndim: int) -> Tensor:
        return x

    def join(self, parts: Sequence[Tensor]) -> tuple[Tensor, Ragged]:
        rows, index = [], []
        for x in parts:
            channels = math.prod(x.shape[1:-1])
            rows.append(x.reshape(x.shape[0] * channels, x.shape[-1]))
            owner = self.owner(x)
            index.append(owner if channels == 1 else owner.repeat_interleave(channels))
        if len(rows) == 1:
            return rows[0], Ragged(index[0], self.count)
        return torch.cat(rows), Ragged(torch.cat(index), self.count)

    def owner(self, x: Tensor) -> Tensor:
        """The sample that each leading index of ``x`` belongs to: one entry per row or else per sample."""
        if x.shape[0] == self.index.shape[0]:
            return self.index
        if x.shape[0] == self.count:
            return torch.arange(self.count, device=x.device)
        raise ValueError(
            f"with a batch vector of {self.index.shape[0]} rows in {self.count} samples, a typed tensor must start "
            f"with one of these two lengths, got shape {tuple(x.shape)}"
        )

    @property
    def real(self) -> None:
        return None

    @property
    def length(self) -> int:
        return self.index.shape[0]

    def planes(self, rows: Tensor) -> Tensor:
        rows = rows.to(torch.promote_types(rows.dtype, torch.float64))
        eye = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
        return torch.cat([rows.mT, eye.repeat(1, self.count)], -1)

    def with_identity(self, d: int) -> Ragged:
        owner = torch.arange(self.count, device=self.index.device).repeat_interleave(d)
        return Ragged(torch.cat([self.index, owner]), self.count)

    def sizes(self, device: torch.device | None = None) -> Tensor:
        found = self.index.new_zeros(self.count, dtype=torch.int64)  # ``bincount`` would be waited for
        return found.index_add_(0, self.index, torch.ones_like(self.index, dtype=torch.int64)).unsqueeze(-1)

    def as_sample(self, x: Tensor) -> Tensor:
        return x.mT

    def identity(self, planes: Tensor) -> Tensor:
        d = planes.shape[0]
        return planes[:, self.length :].view(d, self.count, d).movedim(0, -1)

    def for_each_row(self, x: Tensor) -> Tensor:
        return x[self.index]

    def amax(self, r: Tensor) -> Tensor:
        return r.new_full((self.count,), -math.inf).scatter_reduce(0, self.index, r, "amax")

    def amin(self, r: Tensor) -> Tensor:
        return r.new_full((self.count,), math.inf).scatter_reduce(0, self.index, r, "amin")

    def count_rows(self, hit: Tensor) -> Tensor:
        return torch.zeros(self.count, dtype=torch.int64, device=hit.device).index_add(0, self.index, hit.long())

    def first(self, hit: Tensor) -> Tensor:
        last = hit.shape[0] - 1
        order = torch.where(hit, self.positions(hit), last)
        return order.new_full((self.count,), last).scatter_reduce(0, self.index, order, "amin")

    def positions(self, like: Tensor) -> Tensor:
        return torch.arange(like.shape[-1], device=like.device)

    def take(self, planes: Tensor, position: Tensor) -> Tensor:
        return planes[..., position]

    def spread(self, sample: Tensor) -> Tensor:
        return sample[..., self.index]

    def collect(self, samples: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(samples), -1)

    def take_rows(self, rows: Tensor, positions: Tensor) -> Tensor:
        return rows[positions]

    def mean(self, rows: Tensor) -> Tensor:
        rows = rows.to(torch.promote_types(rows.dtype, torch.float64))
        return self.total(rows) / self.sizes()

    def total(self, rows: Tensor) -> Tensor:
        return rows.new_zeros((self.count, *rows.shape[1:])).index_add(0, self.index, rows)

    def norm(self, rows: Tensor) -> Tensor:
        return self.total(rows.abs().square().sum(-1, keepdim=True)).sqrt()

    def scatter(self, rows: Tensor) -> Tensor:
        return self.total(rows.unsqueeze(-1) * rows.unsqueeze(-2).conj())

    def for_rows(self, sample: Tensor, x: Tensor) -> Tensor:
        return sample[self.owner(x)]

    def beside(self, sample: Tensor, x: Tensor, core: int) -> Tensor:
        rows = sample[self.owner(x)]
        return rows.reshape((x.shape[0], *(1,) * (x.ndim - 1 - core), *rows.shape[1:]))

    @property
    def rows_shape(self) -> tuple[int, ...]:
        return (self.length,)

    def is_per_row(self, x: object, core_ndim: int = 0) -> bool:
        return isinstance(x, Tensor) and x.ndim > core_ndim and x.shape[0] == self.length

    def reordered(self, order: Tensor) -> Ragged:
        return Ragged(self.index[order], self.count)

    @property
    def padded_length(self) -> int:
        return self.segments().largest

    def segments(self, device: torch.device | None = None) -> Segments:
        if self._segments is None:
            self._segments = grouped(self.index, self.count)
        return self._segments

    def _slots(self) -> tuple[Tensor, Tensor]:
        """The row in each slot of ``pad``, and which slots have one, ``(samples, most)``."""
        segments = self.segments()
        assert segments.order is not None
        place = torch.arange(segments.largest, device=self.index.device)
        real = place < segments.sizes.unsqueeze(-1)
        slots = torch.zeros_like(real, dtype=torch.int64)
        slots[real] = segments.order
        return slots, real

    def pad(self, x: Tensor) -> Tensor:
        return x[self._slots()[0]]

    def padding_mask(self) -> Tensor:
        return self._slots()[1]

    def unpad_order(self, order: Tensor) -> Tensor:
        slots, real = self._slots()
        return slots.gather(-1, order)[real]

    def unpad(self, x: Tensor) -> Tensor:
        slots, real = self._slots()
        rows = x.new_empty((self.length, *x.shape[2:]))
        return rows.index_copy(0, slots[real], x[real])

    def unpad_numbers(self, numbers: Tensor) -> Tensor:
        slots, _ = self._slots()
        return self.unpad(slots.gather(-1, numbers))
