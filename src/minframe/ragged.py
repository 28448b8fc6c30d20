"""Where rows live: dense, masked or with a batch vector. The only file that knows.

Algorithms see *planes*: a tensor ``(d, *rows)`` whose ``rows`` axes are ``(*batch, n)`` when dense and ``(N,)`` with a
batch vector, and *sample* tensors, which have one entry per sample and broadcast against rows: ``(*batch, 1)`` or
``(B,)``. The two classes below have the same methods on these shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.errors import check_batch, check_mask
from minframe.linalg.action import wide


@dataclass(slots=True)
class Dense:
    """Rows ``(*batch, n)``, all real or chosen by a boolean ``mask`` of the same shape."""

    batch_shape: tuple[int, ...]
    n: int
    mask: Tensor | None = None

    @property
    def leading(self) -> tuple[int, ...]:
        """The axes that every typed tensor starts with."""
        return self.batch_shape

    def flatten(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """``(*batch, *any, d)`` as rows ``(*batch, k, d)``, and which of them are real (``None``: all)."""
        b = len(self.batch_shape)
        mask = self.mask if self._per_row(x) else None
        if x.ndim == b + 2:
            return x, mask
        rows = x.reshape(*self.batch_shape, math.prod(x.shape[b:-1]), x.shape[-1])
        return rows, None if mask is None else mask.repeat_interleave(math.prod(x.shape[b + 1 : -1]), -1)

    def _per_row(self, x: Tensor) -> bool:
        b = len(self.batch_shape)
        return x.ndim > b + 1 and x.shape[b] == self.n

    def clean(self, x: Tensor, order: int) -> Tensor:
        """Padding set to zero, whatever it held, in a tensor with ``order`` core axes that has one entry per row.

        It has if the axes in front of the core begin with those of the mask.
        """
        if self.mask is None or x.ndim < self.mask.ndim + order or x.shape[: self.mask.ndim] != self.mask.shape:
            return x
        shape = self.mask.shape + (1,) * (x.ndim - self.mask.ndim)
        return torch.where(self.mask.view(shape), x, torch.zeros((), dtype=x.dtype, device=x.device))

    def join(self, parts: Sequence[Tensor]) -> tuple[Tensor, Dense]:
        """The rows of several typed tensors as one cloud, with the layout of that cloud."""
        rows, masks = zip(*(self.flatten(x) for x in parts), strict=True)
        if len(rows) == 1:
            return rows[0], Dense(self.batch_shape, rows[0].shape[-2], masks[0])
        mask = None
        if any(m is not None for m in masks):
            whole = (torch.ones(r.shape[:-1], dtype=torch.bool, device=r.device) for r in rows)
            mask = torch.cat([m if m is not None else w for m, w in zip(masks, whole, strict=True)], -1)
        joined = torch.cat(rows, -2)
        return joined, Dense(self.batch_shape, joined.shape[-2], mask)

    @property
    def real(self) -> Tensor | None:
        """Which rows count, or ``None`` when all do."""
        return self.mask

    @property
    def length(self) -> int:
        """Length of the row axis, which ``positions`` count along."""
        return self.n

    def planes(self, rows: Tensor) -> Tensor:
        """A float64 copy of ``rows`` ``(*batch, n, d)`` as planes, followed by the identity: ``(d, *batch, n + d)``.

        Of complex rows, a complex128 one; so it is wherever float64 is spoken of.
        """
        d = rows.shape[-1]
        dtype = torch.promote_types(rows.dtype, torch.float64)
        values = rows.new_zeros((d, *self.batch_shape, self.n + d), dtype=dtype)
        values[..., : self.n].copy_(rows.movedim(-1, 0))
        values[..., self.n :].diagonal(dim1=0, dim2=-1).fill_(1)
        return values

    def with_identity(self, d: int) -> Dense:
        """The layout of what ``planes`` returns."""
        return Dense(self.batch_shape, self.n + d)

    def sizes(self) -> Tensor:
        """Number of real rows, ``(*batch, 1)``."""
        if self.mask is None:
            return torch.full((*self.batch_shape, 1), self.n)
        return self.mask.sum(-1, keepdim=True)

    def as_sample(self, x: Tensor) -> Tensor:
        """``(*batch, d)`` as a sample tensor per coordinate, ``(d, *sample)``."""
        return x.movedim(-1, 0).unsqueeze(-1)

    def identity(self, planes: Tensor) -> Tensor:
        """What became of the identity in ``planes``, ``(*batch, d, d)``, coordinates last."""
        return planes[..., self.n :].movedim(0, -1)

    def for_each_row(self, x: Tensor) -> Tensor:
        """``(*batch, d)``, broadcastable to rows ``(*rows, d)``."""
        return x.unsqueeze(-2)

    def amax(self, r: Tensor) -> Tensor:
        return r.amax(-1, keepdim=True)

    def amin(self, r: Tensor) -> Tensor:
        return r.amin(-1, keepdim=True)

    def count_rows(self, hit: Tensor) -> Tensor:
        """Number of True rows of each sample."""
        return hit.sum(-1, keepdim=True)

    def first(self, hit: Tensor) -> Tensor:
        """Position of the first True row of each sample; any position if there is none."""
        return hit.max(-1, keepdim=True)[1]  # of equal values the first is returned

    def positions(self, like: Tensor) -> Tensor:
        """Position of every row, comparable with what ``first`` returns."""
        return torch.arange(like.shape[-1], device=like.device)

    def take(self, planes: Tensor, position: Tensor) -> Tensor:
        """The chosen row of each sample, ``(d, *sample)``; of a single plane its entry, ``sample``."""
        if planes.ndim > position.ndim:
            position = position.expand(planes.shape[0], *position.shape)
        return planes.gather(-1, position)

    def spread(self, sample: Tensor) -> Tensor:
        """A sample tensor, broadcastable to rows."""
        return sample

    def collect(self, samples: Sequence[Tensor]) -> Tensor:
        """``k`` sample tensors as ``(*batch, k)``."""
        return torch.cat(list(samples), -1)

    def take_rows(self, rows: Tensor, positions: Tensor) -> Tensor:
        """Rows ``(*batch, k, d)`` at ``positions`` ``(*batch, k)``; differentiable."""
        return rows.gather(-2, positions.unsqueeze(-1).expand(*positions.shape, rows.shape[-1]))

    def mean(self, rows: Tensor) -> Tensor:
        """Mean of the real rows in float64, ``(*batch, d)``."""
        if self.mask is None:
            return rows.mean(-2, dtype=torch.promote_types(rows.dtype, torch.float64))
        weight = self.mask.to(torch.float64)
        return (rows * weight.unsqueeze(-1)).sum(-2) / weight.sum(-1, keepdim=True)

    def total(self, rows: Tensor) -> Tensor:
        """Sum of the rows ``(*batch, n, d)``, whose padding is zero, ``(*batch, d)``."""
        return rows.sum(-2)

    def scatter(self, rows: Tensor) -> Tensor:
        """Sum of ``x x^*`` over the rows, whose padding is zero, ``(*batch, d, d)``."""
        return rows.mT @ rows.conj()

    def for_rows(self, sample: Tensor, x: Tensor) -> Tensor:
        """A tensor ``(*batch, ...)`` with one entry per leading index of ``x``."""
        return sample

    @property
    def rows_shape(self) -> tuple[int, ...]:
        """The axes that a tensor with one entry per row begins with."""
        return (*self.batch_shape, self.n)

    @property
    def padded_length(self) -> int:
        """Number of rows of each sample of ``pad``."""
        return self.n

    def pad(self, x: Tensor) -> Tensor:
        """A tensor with one entry per row as ``(samples, n, ...)``; which rows are real says ``padding_mask``."""
        return x.reshape(math.prod(self.batch_shape), self.n, *x.shape[len(self.batch_shape) + 1 :])

    def padding_mask(self) -> Tensor | None:
        """Which rows of ``pad`` are real, ``(samples, n)``; ``None``: all."""
        return None if self.mask is None else self.mask.reshape(-1, self.n)

    def unpad_order(self, order: Tensor) -> Tensor:
        """The row at each position, from what it is within each sample of ``pad``."""
        return order.view(self.rows_shape)

    def unpad(self, x: Tensor) -> Tensor:
        """The inverse of ``pad``."""
        return x.view(*self.rows_shape, *x.shape[2:])

    def unpad_numbers(self, numbers: Tensor) -> Tensor:
        """Numbers of rows within their sample of ``pad``, one for each row, as numbers of rows of the whole."""
        return self.unpad(numbers)


@dataclass(slots=True)
class Ragged:
    """Rows ``(N,)`` with the sample number of each in ``index``, in any order; ``count`` samples."""

    index: Tensor
    count: int

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return (self.count,)

    @property
    def leading(self) -> tuple[int, ...]:
        return ()  # N for per-row tensors, count for per-sample ones: see for_rows

    def clean(self, x: Tensor, order: int) -> Tensor:
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
        """The sample that each leading index of ``x`` belongs to: one entry per row or, failing that, per sample."""
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
        rows = wide(rows)
        eye = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
        return torch.cat([rows.mT, eye.repeat(1, self.count)], -1)

    def with_identity(self, d: int) -> Ragged:
        owner = torch.arange(self.count, device=self.index.device).repeat_interleave(d)
        return Ragged(torch.cat([self.index, owner]), self.count)

    def sizes(self) -> Tensor:
        return torch.bincount(self.index, minlength=self.count).unsqueeze(-1)

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
        return self.total(wide(rows)) / torch.bincount(self.index, minlength=self.count).unsqueeze(-1)

    def total(self, rows: Tensor) -> Tensor:
        return rows.new_zeros((self.count, *rows.shape[1:])).index_add(0, self.index, rows)

    def scatter(self, rows: Tensor) -> Tensor:
        return self.total(rows.unsqueeze(-1) * rows.unsqueeze(-2).conj())

    def for_rows(self, sample: Tensor, x: Tensor) -> Tensor:
        return sample[self.owner(x)]

    @property
    def rows_shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def padded_length(self) -> int:
        return int(torch.bincount(self.index).max()) if self.count else 0

    def _slots(self) -> tuple[Tensor, Tensor]:
        """The row in each slot of ``pad``, and which slots have one, ``(samples, most)``."""
        sizes = torch.bincount(self.index, minlength=self.count)
        place = torch.arange(int(sizes.max()) if self.count else 0, device=self.index.device)
        real = place < sizes.unsqueeze(-1)
        slots = torch.zeros_like(real, dtype=torch.int64)
        slots[real] = self.index.argsort(stable=True)
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


Layout = Dense | Ragged


def layout_of(
    x: Tensor, mask: Tensor | None, batch: Tensor | None, names: tuple[str, str] = ("mask", "batch")
) -> Layout:
    """The layout of a cloud ``x``: ``(*batch, n, d)``, or ``(N, d)`` with a batch vector.

    With a batch vector, ``x`` may also have channels, ``(N, c, d)``.
    """
    if mask is not None and batch is not None:
        raise ValueError(f"give {names[0]}= or {names[1]}=, not both: a batch vector has no padding")
    if batch is not None:
        check_batch(batch, x, names[1])
        return Ragged(batch.long(), int(batch.max()) + 1 if batch.shape[0] else 0)
    if mask is not None:
        check_mask(mask, x, names[0])
    return Dense(tuple(x.shape[:-2]), x.shape[-2], mask)
