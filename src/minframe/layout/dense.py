"""Rows in samples of equal length, all real or chosen by a mask. The methods of both layouts are documented here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.layout.segments import Segments


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

    def clean(self, x: Tensor, core_ndim: int) -> Tensor:
        """``x`` with padding set to zero, if this tensor with ``core_ndim`` core axes has one entry per row.

        It has one if the axes in front of the core begin with those of the mask.
        """
        if self.mask is None or x.ndim < self.mask.ndim + core_ndim or x.shape[: self.mask.ndim] != self.mask.shape:
            return x
        shape = self.mask.shape + (1,) * (x.ndim - self.mask.ndim)
        return torch.where(self.mask.view(shape), x, torch.zeros((), dtype=x.dtype, device=x.device))

    def join(self, parts: Sequence[Tensor]) -> tuple[Tensor, Dense]:
        """The rows of several typed tensors as one cloud, with the layout of that cloud."""
        if len(parts) == 1:
            only, real = self.flatten(parts[0])
            return only, Dense(self.batch_shape, only.shape[-2], real)
        rows, masks = zip(*(self.flatten(x) for x in parts), strict=True)
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

        For complex rows the copy is complex128; in general, float64 stands for complex128 if rows are complex.
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

    def sizes(self, device: torch.device | None = None) -> Tensor:
        """Number of real rows, ``(*batch, 1)``; ``device``: that of the rows, if it matters."""
        if self.mask is None:
            return torch.full((*self.batch_shape, 1), self.n, device=device)
        return self.mask.sum(-1, keepdim=True)

    def as_sample(self, x: Tensor) -> Tensor:
        """``(*batch, d)`` as a sample tensor per coordinate, ``(d, *sample)``."""
        return x.movedim(-1, 0).unsqueeze(-1)

    def identity(self, planes: Tensor) -> Tensor:
        """The transformed identity in ``planes``, ``(*batch, d, d)``, coordinates last."""
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
        """Rows ``(*batch, k, d)`` at ``positions`` ``(*batch, k)``, any where that is behind them; differentiable."""
        inside = positions.clamp_max(rows.shape[-2] - 1).unsqueeze(-1)
        return rows.gather(-2, inside.expand(*positions.shape, rows.shape[-1]))

    def mean(self, rows: Tensor) -> Tensor:
        """Mean of the real rows in float64, ``(*batch, d)``."""
        if self.mask is None:
            return rows.mean(-2, dtype=torch.promote_types(rows.dtype, torch.float64))
        weight = self.mask.to(torch.float64)
        return (rows * weight.unsqueeze(-1)).sum(-2) / weight.sum(-1, keepdim=True)

    def total(self, rows: Tensor) -> Tensor:
        """Sum of the rows ``(*batch, n, d)``, whose padding is zero, ``(*batch, d)``."""
        return rows.sum(-2)

    def norm(self, rows: Tensor) -> Tensor:
        """Root of the sum of all squares of the rows ``(*batch, n, d)``, whose padding is zero, ``(*batch, 1)``."""
        return torch.linalg.vector_norm(rows, dim=(-2, -1)).unsqueeze(-1)

    def scatter(self, rows: Tensor) -> Tensor:
        """Sum of ``x x^*`` over the rows, whose padding is zero, ``(*batch, d, d)``."""
        return rows.mT @ rows.conj()

    def for_rows(self, sample: Tensor, x: Tensor) -> Tensor:
        """A tensor ``(*batch, ...)`` with one entry per leading index of ``x``."""
        return sample

    def beside(self, sample: Tensor, x: Tensor, core: int) -> Tensor:
        """``(*batch, *core)``, with ``core`` axes behind, broadcastable to ``x`` ``(*batch, *any, *core)``."""
        batch = self.batch_shape
        return sample.reshape((*batch, *(1,) * (x.ndim - len(batch) - core), *sample.shape[sample.ndim - core :]))

    @property
    def rows_shape(self) -> tuple[int, ...]:
        """The axes that a tensor with one entry per row begins with."""
        return (*self.batch_shape, self.n)

    def is_per_row(self, x: object, core_ndim: int = 0) -> bool:
        """Whether a tensor with ``core_ndim`` core axes has an entry for each row: it begins with their axes."""
        rows = (*self.batch_shape, self.n)
        return isinstance(x, Tensor) and x.ndim >= len(rows) + core_ndim and tuple(x.shape[: len(rows)]) == rows

    def reordered(self, order: Tensor) -> Dense:
        """The layout of the rows in another order, ``(*batch, n)``, the row at each position."""
        return Dense(self.batch_shape, self.n, None if self.mask is None else self.mask.gather(-1, order))

    @property
    def padded_length(self) -> int:
        """Number of rows of each sample of ``pad``."""
        return self.n

    def pad(self, x: Tensor) -> Tensor:
        """A tensor with one entry per row as ``(samples, n, ...)``; ``padding_mask`` says which rows are real."""
        return x.reshape(math.prod(self.batch_shape), self.n, *x.shape[len(self.batch_shape) + 1 :])

    def padding_mask(self) -> Tensor | None:
        """Which rows of ``pad`` are real, ``(samples, n)``; ``None``: all."""
        return None if self.mask is None else self.mask.reshape(-1, self.n)

    def unpad_order(self, order: Tensor) -> Tensor:
        """The row at each position of the whole, from the row within each sample of ``pad``."""
        return order.view(self.rows_shape)

    def unpad(self, x: Tensor) -> Tensor:
        """The inverse of ``pad``."""
        return x.view(*self.rows_shape, *x.shape[2:])

    def unpad_numbers(self, numbers: Tensor) -> Tensor:
        """Numbers of rows within their sample of ``pad``, one for each row, as numbers of rows of the whole."""
        return self.unpad(numbers)

    def segments(self, device: torch.device) -> Segments:
        """Where the rows of each sample are, in the rows ``(N, d)`` of all samples one after the other."""
        count = math.prod(self.batch_shape)
        starts = torch.arange(count, device=device) * self.n
        return Segments(starts, torch.full_like(starts, self.n), self.n, None)
