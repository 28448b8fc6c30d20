"""Averages over the stabiliser that set in gradually, as axes of a cloud vanish.

Where the rank of a cloud drops, the axes behind it turn arbitrarily fast, and an equivariant output would jump. A hard
frame averages over the isometries of the axes that are gone. Here this average comes in by degrees. Let ``K_m`` be the
group of isometries of the axes ``m, m + 1, ...`` (of determinant one, if the group says so), so that ``K_d = 1`` and
``K_m`` contains ``K_(m+1)``. Let ``A_m`` be the average over ``K_m`` (``linalg.stabiliser``), and ``f_j`` in [0, 1] a
smooth function of the length of axis ``j`` over that of the longest row, zero at zero. Then

    A = sum_m  c_m A_m,      c_m = f_0 f_1 ... f_(m-1) (1 - f_m)    for m < d,      c_d = f_0 ... f_(d-1),

is a convex combination, as the sum telescopes to one.

*Exact.* The lengths are invariant, so A is the same linear map for the whole orbit, and ``g A y`` moves with g.

*Continuous.* Let axis ``j`` be the first that vanishes. Then ``f_j`` goes to 0, and so do all ``c_m`` with ``m > j``.
The others multiply ``A_m`` with ``m <= j``, and ``h A_m = A_m`` for all ``h`` in ``K_m``, hence for all in ``K_j``.
In the limit ``g A y`` depends on the coset ``g K_j`` only: on the axes before ``j``, which are continuous there, and
not on those behind, wherever they turn. What is averaged, ``y = f(pose)``, is continuous as well, because the
coordinates along axes that vanish do. And so is the sum over poses: those that share the steps before ``j`` have one
limit, and their weights add up to the weight of these steps.

Where no axis is short, A is 1. Inputs that are no part of the cloud fade in the same way: they are shown to the
backbone as ``A g^-1 x``, and ``A_m h^-1 g^-1 = A_m g^-1`` for ``h`` in ``K_m``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from minframe.linalg.action import behind_batch
from minframe.linalg.stabiliser import IsometryStabiliser, Stabiliser
from minframe.types import Type

SHARED = {"shared": True}  # a field that is no part of what samples are combined from


@dataclass(frozen=True)
class FadingStabiliser(Stabiliser):
    """The average ``A``. ``determined`` is True for all axes, as short axes fade by their coefficients.

    Attributes:
        coefficients: ``(K, d + 1)``, ``c_m``; ``None``: all axes of all samples are long.
        levels: ``A_m``, the last of which is trivial.
    """

    coefficients: Tensor | None
    levels: Sequence[IsometryStabiliser]
    _factors: dict[tuple[str, bool], Tensor] = field(default_factory=dict, init=False, repr=False, metadata=SHARED)

    @property
    def size(self) -> Tensor:
        return torch.ones(self.determined.shape[:-1], dtype=torch.float64, device=self.determined.device)

    def spread(self, to_rows: Callable[[Tensor], Tensor]) -> FadingStabiliser:
        coefficients = None if self.coefficients is None else to_rows(self.coefficients)
        return replace(self, determined=to_rows(self.determined), coefficients=coefficients)

    def fold(self, matrix: Tensor, kind: Type) -> Tensor:
        if self.coefficients is None or kind.core_ndim != 1:
            return matrix
        return matrix * self._kept(kind).unsqueeze(-2)

    def _kept(self, kind: Type) -> Tensor:
        """The factors of the axes for a type with one core axis, ``(K, d)``; computed once, as layers share frames."""
        assert self.coefficients is not None
        key = kind.name, torch.is_grad_enabled()
        if key not in self._factors:
            kept = torch.stack([level.kept_axes(kind).expand(self.determined.shape[-1]) for level in self.levels])
            self._factors[key] = self.coefficients @ kept.to(self.coefficients.dtype)
        return self._factors[key]

    def average(self, y: Tensor, kind: Type) -> Tensor:
        if self.coefficients is None or not (kind.core_ndim or kind.parity):
            return y
        if kind.core_ndim == 1:
            return y * behind_batch(self._kept(kind), y, 1)
        averages = [level.average(y, kind) for level in self.levels]
        return sum(
            (behind_batch(c, y, 0) * a for c, a in zip(self.coefficients.unbind(-1), averages, strict=True)),
            torch.zeros((), dtype=y.dtype, device=y.device),
        )


def coefficients(fades: Tensor) -> Tensor:
    """``c_m`` ``(K, d + 1)`` for ``f_j`` ``(K, d)``."""
    found, before = [], torch.ones_like(fades[:, 0])
    for f in fades.unbind(-1):
        found.append(before * (1 - f))
        before = before * f
    return torch.stack([*found, before], -1)
