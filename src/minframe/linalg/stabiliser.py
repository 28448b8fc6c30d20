"""Averages over the stabiliser of a canonical pose, in closed form.

A cloud of rank ``d' < d`` is canonical in the first ``d'`` axes (*determined*) and zero in the other ``m = d - d'``
(*free*). The group elements that fix it are ``h = 1 (+) k`` with ``k`` in ``K = O(m)``, or ``SO(m)`` under a
determinant constraint, and the average over the frame of ``g . y`` is ``g0 . A y`` with ``A y`` the Haar integral of
``h . y`` over ``K``. Write D and F for the projectors on the determined and the free axes.

* **vector**: ``h v = D v + k F v``. ``-1`` is in O(m), and for m >= 2 the integral of ``k`` over SO(m) commutes with
  every rotation and has the value 0; so ``A v = D v`` (the paper's Q_0). SO(0) and SO(1) are trivial: ``A v = v``.
* **covector**: ``h^-T = h`` for orthogonal ``h``, so it is a vector.
* **tensor**: ``h T h^T`` has the blocks ``D T D``, ``D T F k^T``, ``k F T D`` and ``k F T F k^T``. The mixed ones are
  linear in ``k`` and vanish. The last is the projection of ``F T F`` on the matrices commuting with K, that is (Schur)
  on multiples of the identity, ``tr(F T F) / m F``; only SO(2), being commutative, fixes one more, the antisymmetric
  part. SO(0) and SO(1) are trivial: ``A T = T``.
* **pseudoscalar**: ``det h = det k`` integrates to 0 over O(m), m >= 1; over SO(m) it is 1.
* **pseudovector**: ``det(k) (D v + k F v)``. The first term vanishes as above. In the second, the integral of
  ``det(k) k`` over O(m) is half that over SO(m) minus half that over its other coset ``s SO(m)``, ``s`` a reflection:
  for m = 1, ``(1 - (-1)) / 2 = 1``, so the free component *survives*; for m >= 2 both are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.linalg.action import behind_batch
from minframe.types import Type


@dataclass(frozen=True)
class OrthogonalStabiliser:
    """O(m), or SO(m) if ``special``, on the last ``m`` axes: those where ``determined`` ``(*batch, d)`` is False."""

    determined: Tensor
    special: bool

    @property
    def rank(self) -> Tensor:
        return self.determined.sum(-1)

    @property
    def size(self) -> Tensor:
        """Number of elements, ``(*batch,)``: 1, 2 or infinity."""
        one = torch.ones(self.determined.shape[:-1], dtype=torch.float64, device=self.determined.device)
        almost, full = self._free_at_most(1).squeeze(-1), self._free_at_most(0).squeeze(-1)
        finite = one if self.special else torch.where(full, one, 2 * one)
        return torch.where(almost, finite, torch.inf)

    def _free_at_most(self, m: int) -> Tensor:
        """Whether at most ``m`` axes are free, ``(*batch, 1)``: read off the mask, whose True entries come first."""
        last = self.determined.shape[-1] - m
        return self.determined[..., last - 1 : last] if last > 0 else torch.ones_like(self.determined[..., :1])

    def spread(self, to_rows: Callable[[Tensor], Tensor]) -> OrthogonalStabiliser:
        return OrthogonalStabiliser(to_rows(self.determined), self.special)

    def kept_axes(self, type: Type) -> Tensor:
        """The axes of a type of order one that survive the average; the others vanish. ``(*batch, d)``."""
        if self.special:
            return self.determined | self._free_at_most(1)
        if not type.parity:
            return self.determined
        return self._free_at_most(0) | (~self.determined & self._free_at_most(1))

    def average(self, y: Tensor, type: Type) -> Tensor:
        """``A y`` for ``y`` of shape ``(*batch, *any, *core)``."""
        if type.order == 2:
            return self._average_tensor(y)
        if type.order == 1:
            return y * behind_batch(self.kept_axes(type), y, 1)
        if type.parity and not self.special:
            return y * behind_batch(self._free_at_most(0).squeeze(-1), y, 0)
        return y

    def _average_tensor(self, y: Tensor) -> Tensor:
        axes = behind_batch(self.determined, y[..., 0], 1).to(y.dtype)
        free = 1 - axes
        m = free.sum(-1)[..., None, None]
        trace = (y.diagonal(dim1=-2, dim2=-1) * free).sum(-1)[..., None, None]
        average = y * axes.unsqueeze(-1) * axes.unsqueeze(-2) + torch.diag_embed(free) * (trace / m.clamp_min(1))
        if not self.special:
            return average
        turning = (y - y.mT) / 2 * free.unsqueeze(-1) * free.unsqueeze(-2)
        return torch.where(m <= 1, y, torch.where(m == 2, average + turning, average))
