"""Averages for direct sums: the coordinate axis is cut into blocks, and each block has a group of its own.

The stabiliser of a pair of clouds under ``G + H`` is the product of the two stabilisers, and its Haar measure the
product of theirs. So each block is averaged by itself, and

- the block of a tensor that mixes two parts, ``T_ij -> h_i T_ij h_j^T``, averages to ``A_i T_ij A_j^T`` with ``A_i``
  the average of vectors of part i, as ``h_i`` and ``h_j`` are independent;
- ``det h`` is the product of the determinants of the parts. A pseudovector of part i is averaged with ``det h_i`` there
  and multiplied with the average of ``det h_j`` for every other part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minframe.linalg.action import behind_batch
from minframe.linalg.columns import Columns
from minframe.linalg.stabiliser import IsometryStabiliser, Stabiliser
from minframe.types import LINEAR_TYPES, Type

PSEUDOSCALAR = LINEAR_TYPES["pseudoscalar"]


def slices_of(sizes: Sequence[int]) -> list[slice]:
    """Blocks of these lengths, one after the other."""
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def block_diagonal(blocks: Sequence[Tensor]) -> Tensor:
    """Matrices ``(*batch, k, k)`` along the diagonal of one."""
    total = sum(b.shape[-1] for b in blocks)
    rows, start = [], 0
    for block in blocks:
        k = block.shape[-1]
        rows.append(torch.nn.functional.pad(block, (start, total - start - k)))
        start += k
    return torch.cat(rows, -2)


def block_columns(
    parts: Sequence[Columns | None], matrices: Sequence[Tensor], determined: Sequence[Tensor]
) -> Columns | None:
    """The columns of a block-diagonal matrix; ``None`` if no part needs any.

    ``matrices`` ``(*batch, k, k)`` and their columns that are ``determined`` ``(*batch, k)``. In the samples where one
    part needs a substitution, all use it.
    """
    if all(part is None for part in parts):
        return None
    found, start = [], 0
    here = torch.stack([part.here for part in parts if part is not None]).any(0)
    for part, matrix, known in zip(parts, matrices, determined, strict=True):
        own = Columns.of(matrix, known, here)
        own = own if part is None else part.where(part.here, own)
        found.append(replace(own, place=own.place + start))
        start += matrix.shape[-1]
    one = [torch.eye(m.shape[-1], dtype=m.dtype, device=m.device).expand(m.shape) for m in matrices]
    after = None
    if any(own.after is not None for own in found):
        after = block_diagonal([e if own.after is None else own.after for e, own in zip(one, found, strict=True)])
    return Columns(
        here,
        block_diagonal([own.adjoint for own in found]),
        block_diagonal([own.triangle for own in found]),
        torch.cat([own.place for own in found], -1),
        after,
    )


@dataclass(frozen=True)
class BlockStabiliser(Stabiliser):
    """The product of the stabilisers of ``parts``, which have ``sizes`` coordinates each."""

    parts: Sequence[Stabiliser]
    sizes: Sequence[int]

    @staticmethod
    def of(parts: Sequence[Stabiliser], sizes: Sequence[int]) -> BlockStabiliser:
        return BlockStabiliser(torch.cat([p.determined for p in parts], -1), parts, sizes)

    @property
    def rank(self) -> Tensor:
        return torch.stack([p.rank for p in self.parts]).sum(0)

    @property
    def size(self) -> Tensor:
        return torch.stack([p.size for p in self.parts]).prod(0)

    def spread(self, to_rows: Callable[[Tensor], Tensor]) -> BlockStabiliser:
        return BlockStabiliser.of([p.spread(to_rows) for p in self.parts], self.sizes)

    def undefined(self, kind: Type, inward: bool) -> Tensor | None:
        found = [u for u in (p.undefined(kind, inward) for p in self.parts) if u is not None]
        return torch.stack(found).any(0) if found else None

    def shortfall(self, kind: Type, inward: bool, sample: int) -> str:
        for part in self.parts:
            undefined = part.undefined(kind, inward)
            if undefined is not None and bool(undefined.flatten()[sample]):
                return part.shortfall(kind, inward, sample)
        return super().shortfall(kind, inward, sample)

    def fold(self, matrix: Tensor, kind: Type) -> Tensor:
        blocks = [p.fold(matrix[..., s, s], kind) for p, s in self._blocks()]
        if kind.core_ndim == 1 and kind.parity:
            blocks = [b * self._others(i)[..., None, None] for i, b in enumerate(blocks)]
        return block_diagonal(blocks)

    def average(self, y: Tensor, kind: Type) -> Tensor:
        if kind.core_ndim == 0:
            for part in self.parts:
                y = part.average(y, kind)
            return y
        if kind.core_ndim == 1:
            blocks = [p.average(y[..., s], kind) for p, s in self._blocks()]
            if kind.parity:
                blocks = [b * behind_batch(self._others(i), b, 0) for i, b in enumerate(blocks)]
            return torch.cat(blocks, -1)
        return torch.cat([torch.cat(row, -1) for row in self._tensor_blocks(y, kind)], -2)

    def _tensor_blocks(self, y: Tensor, kind: Type) -> list[list[Tensor]]:
        vector = LINEAR_TYPES["covector" if kind.dual else "vector"]
        rows = []
        for p, s in self._blocks():
            row = []
            for q, t in self._blocks():
                block = y[..., s, t]
                if p is q:
                    row.append(p.average(block, kind))
                else:
                    row.append(_vectors(q, _vectors(p, block.mT, vector).mT, vector))
            rows.append(row)
        return rows

    def _blocks(self) -> list[tuple[Stabiliser, slice]]:
        return list(zip(self.parts, slices_of(self.sizes), strict=True))

    def _others(self, i: int) -> Tensor:
        """The average of ``det h`` over the other parts, ``(*batch,)``."""
        one = torch.ones(self.determined.shape[:-1], dtype=torch.float64, device=self.determined.device)
        averages = [p.average(one, PSEUDOSCALAR) for j, p in enumerate(self.parts) if j != i]
        return math.prod(averages, start=one)


def _vectors(part: Stabiliser, y: Tensor, kind: Type) -> Tensor:
    """Vectors averaged, except in null spans, where ``fold`` does all of it."""
    average = part.average(y, kind)
    null = part.null if isinstance(part, IsometryStabiliser) else None
    return average if null is None else torch.where(behind_batch(null.loose, y, 0), y, average)
