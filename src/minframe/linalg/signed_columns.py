"""Averages over signed permutations of coordinates that leave a cloud as it is.

Let the columns of the pose be sorted into classes of equal ones, every column with its sign chosen so that no column is
the negative of another. The stabiliser is then the product over the classes: all permutations of a class of ``m`` equal
columns that are not zero, and all signed permutations of the zero columns. With independent factors h:

- *vectors*: the mean over its class; zero for a zero column, whose sign is free.
- *tensors*: pairs of columns from two classes average to the mean of the block; those from one class to the mean of the
  diagonal or of the rest. Blocks of zero columns keep the mean of their diagonal only.
- *with det h*: a class of two or more, and a zero column, has elements of either determinant, so a pseudoscalar
  vanishes unless no class is like that. A pseudovector survives in a class whose *other* factors are trivial: as it is
  where the class is one column (if that is zero, ``h = det h`` and the two signs cancel), as ``(y_1 - y_2) / 2`` where
  it is two columns that are not zero, and not at all in larger ones, where odd elements fix any column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.dtypes import wide
from minframe.linalg.action import behind_batch, multiply
from minframe.linalg.stabiliser import Stabiliser
from minframe.types import Type


@dataclass(frozen=True)
class ColumnStabiliser(Stabiliser):
    """``classes`` ``(*batch, d)``: equal numbers for equal columns; ``determined``: those that are not zero."""

    classes: Tensor

    @property
    def _same(self) -> Tensor:
        return (self.classes.unsqueeze(-1) == self.classes.unsqueeze(-2)).double()

    @property
    def _count(self) -> Tensor:
        """Number of columns in the class of each."""
        return self._same.sum(-1)

    @property
    def size(self) -> Tensor:
        factorial = self._same.tril().sum(-1)  # 1, 2, ..., m within each class
        return (factorial * torch.where(self.determined, 1.0, 2.0)).prod(-1)

    def spread(self, to_rows: Callable[[Tensor], Tensor]) -> ColumnStabiliser:
        return ColumnStabiliser(to_rows(self.determined), to_rows(self.classes))

    def fold(self, matrix: Tensor, kind: Type) -> Tensor:
        return matrix @ self._matrix(kind) if kind.core_ndim == 1 else matrix

    def average(self, y: Tensor, kind: Type) -> Tensor:
        if kind.core_ndim == 0:
            return y * behind_batch(~self._odd.any(-1), y, 0) if kind.parity else y
        if kind.core_ndim == 1:
            return multiply(wide(y), self._matrix(kind))
        return self._average_tensor(wide(y))

    @property
    def _odd(self) -> Tensor:
        """Whether the factor of the stabiliser that acts on each column has elements of determinant -1."""
        return (self._count > 1) | ~self.determined

    def _matrix(self, kind: Type) -> Tensor:
        same, count = self._same, self._count.unsqueeze(-1)
        if not kind.parity:
            return same / count * self.determined.unsqueeze(-1)
        eye = torch.eye(same.shape[-1], dtype=same.dtype, device=same.device)
        others = (self._odd.unsqueeze(-2) & (same == 0)).any(-1, keepdim=True)
        pair = (count == 2) & self.determined.unsqueeze(-1)
        kept = torch.where(count == 1, eye, torch.where(pair, eye - same / 2, 0.0))
        return torch.where(others, 0.0, kept)

    def _average_tensor(self, y: Tensor) -> Tensor:
        same, count = (behind_batch(x, y, 2) for x in (self._same, self._count.unsqueeze(-1)))
        known = behind_batch(self.determined, y[..., 0], 1)
        eye = torch.eye(same.shape[-1], dtype=y.dtype, device=y.device)
        mean = same / count
        blocks = mean @ y @ mean.mT
        diagonal = (mean @ y.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)).expand_as(y)
        rest = (blocks * count - diagonal) / (count - 1).clamp_min(1)
        blocks = torch.where(same > 0, rest, blocks) * known.unsqueeze(-1) * known.unsqueeze(-2)
        return torch.where(eye > 0, diagonal, blocks)
