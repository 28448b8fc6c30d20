"""Coordinates of rows in the columns of a matrix, such that the way back loses nothing, however strong a boost it is.

Let L be an isometry with entries as large as gamma, and ``y`` the pose of rows ``x``; in the rest frame of a jet of
mass M and energy E, ``gamma = E / M`` and ``|y| = |x| / gamma``. The product ``y = L^-1 x`` has an error of ``eps gamma
|x|``, as large as its entries times x. The way back, ``L y``, makes that ``eps gamma^2 |x|``: nothing is left of the
jet at an opening of 1e-8. The product is at fault and not the pose: with ``L = Q R``, R triangular, and

    y = R^-1 (Q^* x)      by substitution,

the computed y solves ``(L + dL) y = x + dx`` with ``|dL| <= c eps |L|`` and ``|dx| <= c eps |x|`` (Higham, *Accuracy
and Stability of Numerical Algorithms*, theorems 8.5 and 19.5). So ``|L y - x| <= c eps (|L| |y| + |x|) = 2 c eps |x|``,
whatever the condition number is, and y is the pose of an input that differs from x by rounding: as exact as x itself.

Columns that the rows do not determine are left out, and y is the least-squares solution in the others. What is lost
then is the Euclidean distance of x from their span: where L without substitution would turn the rounding of dropped
coordinates, ``eps gamma |x|``, into ``eps gamma^2 |x|``, this leaves it at that. Rows ``x_i = a_i P``, for example,
have the coordinates ``a_i M``, exactly, and not ``<P, x_i> / M``.

On a null span, the columns are a basis of it, as long as rows: beside a null vector, the other axes of a thin cloud are
as strongly boosted. What has the coordinates z in them has the pose ``C z``, and C is harmless (``linalg.spectral``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minframe.dtypes import wide
from minframe.linalg.action import behind_batch, multiply
from minframe.linalg.at_need import factor, substitute

MAX_PRODUCT_NORM2 = 50.0  # squared norm of a matrix above which a product with its inverse loses promised digits


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a matrix that are determined, factored.

    Attributes:
        here: ``(*batch,)``, the samples that use substitution instead of a product.
        adjoint: ``(*batch, d, d)``, ``Q^*``, rows of zeros where a column is left out.
        triangle: ``(*batch, d, d)``, R; 1 where a column is left out.
        place: ``(*batch, d)``, the position in the triangle of each coordinate.
        after: ``(*batch, d, d)``, C; ``None``: 1.
    """

    here: Tensor
    adjoint: Tensor
    triangle: Tensor
    place: Tensor
    after: Tensor | None = None

    @staticmethod
    def of(matrix: Tensor, determined: Tensor, here: Tensor, after: Tensor | None = None) -> Columns:
        """Factor a matrix ``(*batch, d, d)``; differentiable."""
        order = torch.argsort(~determined, dim=-1, stable=True)
        kept = determined.gather(-1, order)
        q, r = factor(matrix.gather(-1, order.unsqueeze(-2).expand(matrix.shape)), here)
        one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        triangle = torch.where(kept.unsqueeze(-1) & kept.unsqueeze(-2), r, one)
        return Columns(here, (q * kept.unsqueeze(-2)).mH, triangle, order.argsort(-1), after)

    def take(self, samples: Tensor) -> Columns:
        """Those of some samples, numbered in a batch of one axis."""
        after = None if self.after is None else self.after[samples]
        return Columns(self.here[samples], self.adjoint[samples], self.triangle[samples], self.place[samples], after)

    def where(self, condition: Tensor, other: Columns) -> Columns:
        """These columns where the condition ``(*batch,)`` holds, and ``other`` elsewhere."""
        none = self.after is None and other.after is None
        one = torch.eye(self.triangle.shape[-1], dtype=self.triangle.dtype, device=self.triangle.device)
        mine, theirs = (
            (c.here, c.adjoint, c.triangle, c.place, one.expand_as(c.triangle) if c.after is None else c.after)
            for c in (self, other)
        )
        here, adjoint, triangle, place, after = (
            torch.where(behind_batch(condition, a, 0), a, b) for a, b in zip(mine, theirs, strict=True)
        )
        return Columns(here, adjoint, triangle, place, None if none else after)

    def replace(self, y: Tensor, x: Tensor, to_rows: Callable[[Tensor], Tensor]) -> Tensor:
        """Coordinates ``y`` of vectors ``x`` ``(*any, d)`` that a product gave, by substitution where it is needed."""
        here, triangle, place = to_rows(self.here), to_rows(self.triangle), to_rows(self.place)
        after = None if self.after is None else to_rows(self.after)
        return substitute(y, x, here, to_rows(self.adjoint), triangle, place, after)

    def outside(self, x: Tensor, tolerance: float, to_rows: Callable[[Tensor], Tensor]) -> Tensor:
        """The part of vectors ``x`` ``(*any, d)`` outside of the span of the columns; zero, if it is rounding of x."""
        adjoint, x = to_rows(self.adjoint), wide(x)
        rest = x - multiply(multiply(x, adjoint), adjoint.mH)
        rounding = tolerance * torch.linalg.vector_norm(x.detach(), dim=-1, keepdim=True)
        beside = torch.linalg.vector_norm(rest.detach(), dim=-1, keepdim=True) > rounding
        return torch.where(beside & behind_batch(to_rows(self.here), x, 0), rest, 0.0)


def with_columns(given: Sequence[Columns | None], like: Tensor | None) -> Sequence[Columns | None]:
    """The columns of several samples, with unused ones where there are none, if any sample has them."""
    if like is None or all(columns is None for columns in given):
        return given
    d = like.shape[-1]
    eye = torch.eye(d, dtype=like.dtype, device=like.device).expand(like.shape)
    place = torch.arange(d, device=like.device).expand(like.shape[:-1])
    here = torch.zeros(like.shape[:-2], dtype=torch.bool, device=like.device)
    after = eye if any(columns is not None and columns.after is not None for columns in given) else None
    unused = Columns(here, eye, eye, place, after)
    return [
        unused if columns is None else replace(columns, after=after if columns.after is None else columns.after)
        for columns in given
    ]
