"""Averages over the stabiliser of a canonical pose, in closed form.

A cloud of rank ``d' < d`` is canonical in some axes (*determined*) and zero in the other ``m = d - d'`` (*free*). Of a
group that preserves a form, the elements that fix it are ``h = 1 (+) k`` with ``k`` an isometry of the free axes, and
the average over the frame of ``g . y`` is ``g0 . A y`` with ``A y`` the average of ``h . y``. Write D and F for the
projectors on the determined and the free axes.

**O(m)**, or SO(m) under a determinant constraint: the average is the Haar integral.

* *vector*: ``h v = D v + k F v``. ``-1`` is in O(m), and for m >= 2 the integral of ``k`` over SO(m) commutes with
  every rotation and has the value 0; so ``A v = D v`` (the paper's Q_0). SO(0) and SO(1) are trivial: ``A v = v``.
* *covector*: ``h^-T = h`` for orthogonal ``h``, so it is a vector.
* *tensor*, *cotensor*: ``h T h^T`` has the blocks ``D T D``, ``D T F k^T``, ``k F T D`` and ``k F T F k^T``. The mixed
  ones are linear in ``k`` and vanish. The last is the projection of ``F T F`` on the matrices commuting with K, that is
  (Schur) on multiples of the identity, ``tr(F T F) / m F``; only SO(2), being commutative, fixes one more, the
  antisymmetric part. SO(0) and SO(1) are trivial: ``A T = T``.
* *pseudoscalar*: ``det h = det k`` integrates to 0 over O(m), m >= 1; over SO(m) it is 1.
* *pseudovector*: ``det(k) (D v + k F v)``. The first term vanishes as above. In the second, the integral of ``det(k)
  k`` over O(m) is half that over SO(m) minus half that over its other coset ``s SO(m)``, ``s`` a reflection: for m = 1,
  ``(1 - (-1)) / 2 = 1``, so the free component *survives*; for m >= 2 both are 0.

**O(p', q')**, with both signs among the free axes, is not compact and has no average. What the average does is to
project on the invariants of K, and that projection exists here too: vectors have none; of tensors, ``k T k^T = T`` for
multiples of ``eta_F``, as ``k eta_F k^T = eta_F``, so ``A T = D T D + tr(eta_F T) / m eta_F``; for m = 2 and
determinant one the antisymmetric part, as ``k e k^T = det(k) e``. Nothing else changes; the definite case is ``eta_F =
F``.

**U(m)** contains the phases ``exp(i t)``, under which vectors, covectors, tensors (``h T h^T``, twice the phase),
cotensors and determinants turn and average to 0. **SU(m)** has none of these for m = 1; for m >= 2 the integral of
``k`` is 0 as above, and ``k T k^T`` keeps nothing but, for m = 2, the antisymmetric part. U(p', q') and SU(p', q')
likewise.

**Null spans.** If the form is degenerate on the span W of the cloud (one massless particle), the elements that fix W do
not leave any complement of W in its place, and no projection exists. They do fix every vector *of* W. So outputs are
taken within W: ``A v = P v`` with P the Euclidean projector on W in the canonical pose, which is the same for
the whole orbit; ``A T = P T P^T``; covectors within ``eta W``. An input that is not itself part of the cloud has no
value at all; nor has a quantity with a factor ``det h``, but where no axis is free: then all ``h`` are 1 on W and on
the space modulo W, so that ``det h = 1``. A single null row in two dimensions is fixed by 1 only, if numbers are real;
U(1, 1) has ``M -> M + i t N`` besides, with M its partner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.linalg.action import behind_batch, multiply
from minframe.linalg.form import signs
from minframe.types import Type


@dataclass(frozen=True)
class Stabiliser(ABC):
    """The group elements that fix a canonical pose. ``determined`` ``(*batch, d)``: the axes that the cloud fixes."""

    determined: Tensor

    @property
    def rank(self) -> Tensor:
        return self.determined.sum(-1)

    @property
    @abstractmethod
    def size(self) -> Tensor:
        """Number of elements, ``(*batch,)``."""

    @abstractmethod
    def fold(self, matrix: Tensor, kind: Type) -> Tensor:
        """``g0 A`` for a type with one core axis, ``g0`` given by its ``matrix``; else what acts after ``average``."""

    @abstractmethod
    def average(self, y: Tensor, kind: Type) -> Tensor:
        """``A y`` for ``y`` of shape ``(*batch, *any, *core)``; in null spans ``y``, and the rest is up to ``fold``."""

    @abstractmethod
    def spread(self, to_rows: Callable[[Tensor], Tensor]) -> Stabiliser:
        """The same with an entry for each row."""

    def in_parts(self, kind: Type) -> InParts | None:
        """How the samples with a null span that 1 alone fixes are carried outward; ``None``: there are none."""
        return None

    def undefined(self, kind: Type, inward: bool) -> Tensor | None:
        """The samples, ``(*batch,)``, for which ``A`` does not exist; ``None`` if there can be no such sample.

        ``inward``: for an input that is not part of the cloud.
        """
        return None

    def shortfall(self, kind: Type, inward: bool, sample: int) -> str:
        """Why a sample, numbered as in a flat batch, is among the ``undefined`` ones, and what exists of it."""
        return (
            f"the cloud spans too little (rank {int(self.rank.flatten()[sample])} of {self.determined.shape[-1]}), and "
            "what fixes it is not compact. Invariants and vectors within the span exist"
        )

    def _free_at_most(self, m: int) -> Tensor:
        """Whether at most ``m`` axes are free, ``(*batch, 1)``."""
        return self.determined.sum(-1, keepdim=True) >= self.determined.shape[-1] - m


@dataclass(frozen=True)
class NullSpan:
    """Samples on whose span the form may be degenerate.

    Attributes:
        here: ``(*batch,)``, whether it is.
        loose: ``(*batch,)``, whether, then, more than one isometry fixes the span.
        outward: ``(*batch, d, d)``, ``g0 P``.
        projector: ``(*batch, d, d)``, P.
        rank: ``(*batch,)``, dimension of the span.
    """

    here: Tensor
    loose: Tensor
    outward: Tensor
    projector: Tensor
    rank: Tensor


@dataclass(frozen=True)
class InParts:
    """How vectors are carried outward if the span is null, but fixed by 1 only, so that they need not lie within it.

    A boost that brings null vectors from a scale of 1 to a scale of s multiplies their partners by ``1 / s``. Its
    matrix has both in every entry, and the product with a null vector is the small difference of large numbers. So
    what lies in the span goes by ``outward``, which does not know the partners, and what is left of it by the matrix;
    if that is not more than rounding of the vector, it is nothing.

    Attributes:
        here: ``(*batch,)``, the samples that this is for.
        outward, projector: see ``NullSpan``.
    """

    here: Tensor
    outward: Tensor
    projector: Tensor

    def carry(self, y: Tensor, matrix: Tensor, rounding: float) -> Tensor:
        """``matrix @ v`` for every vector ``v`` of ``y`` ``(*batch, *any, d)``."""
        rest = y - multiply(y, self.projector)
        length = torch.linalg.vector_norm(y.detach(), dim=-1, keepdim=True)
        beside = torch.linalg.vector_norm(rest.detach(), dim=-1, keepdim=True) > rounding * length
        return multiply(y, self.outward) + multiply(torch.where(beside, rest, 0), matrix)


@dataclass(frozen=True)
class IsometryStabiliser(Stabiliser):
    """Isometries of the free axes, of determinant one if ``special``.

    ``metric``: the signs of the form. ``complex``: it is Hermitian, else bilinear. ``null``: see above. ``trivial``: in
    all samples all axes are known to be determined, so that there is nothing to average over. ``span`` ``(*batch,)``:
    dimension of the span, where more axes are determined than that: if time cannot be reversed, all of space determines
    its axis.
    """

    special: bool
    metric: Sequence[int]
    complex: bool = False
    null: NullSpan | None = None
    trivial: bool = False
    span: Tensor | None = None

    @property
    def rank(self) -> Tensor:
        rank = self.determined.sum(-1) if self.span is None else self.span
        return rank if self.null is None else torch.where(self.null.here, self.null.rank, rank)

    @property
    def size(self) -> Tensor:
        """1, 2 or infinity."""
        one = torch.ones(self.determined.shape[:-1], dtype=torch.float64, device=self.determined.device)
        almost, full = self._free_at_most(1).squeeze(-1), self._free_at_most(0).squeeze(-1)
        several = torch.inf if self.complex else 2 * one
        size = torch.where(almost, one if self.special else torch.where(full, one, several), torch.inf)
        return size if self.null is None else torch.where(self.null.loose, torch.inf, size)

    def spread(self, to_rows: Callable[[Tensor], Tensor]) -> IsometryStabiliser:
        null = self.null
        if null is not None:
            null = NullSpan(*map(to_rows, (null.here, null.loose, null.outward, null.projector, null.rank)))
        span = None if self.span is None else to_rows(self.span)
        return replace(self, determined=to_rows(self.determined), null=null, span=span)

    def undefined(self, kind: Type, inward: bool) -> Tensor | None:
        if self.null is None:
            return None
        if inward and kind.core_ndim:
            return self.null.loose
        if kind.parity and not self.special:
            return self.null.loose & ~self.determined.all(-1)
        return None

    def kept_axes(self, kind: Type) -> Tensor:
        """The axes of a type with one core axis that survive the average; the others vanish. ``(*batch, d)``."""
        if self.special:
            return self.determined | self._free_at_most(1)
        if not kind.parity:
            return self.determined
        if self.complex:
            return self.determined & self._free_at_most(0)
        return self._free_at_most(0) | (~self.determined & self._free_at_most(1))

    def fold(self, matrix: Tensor, kind: Type) -> Tensor:
        if self.trivial:
            return matrix
        kept = matrix * self.kept_axes(kind).unsqueeze(-2) if kind.core_ndim == 1 else matrix
        if self.null is None:
            return kept
        return torch.where(self.null.loose[..., None, None], self._of_type(self.null.outward, kind), kept)

    def in_parts(self, kind: Type) -> InParts | None:
        if self.null is None or self.trivial or not kind.core_ndim:
            return None
        here = self.null.here & ~self.null.loose
        if all_true(~here):
            return None
        return InParts(here, self._of_type(self.null.outward, kind), self._of_type(self.null.projector, kind))

    def _of_type(self, matrix: Tensor, kind: Type) -> Tensor:
        """What a matrix for vectors is for covectors."""
        if not kind.dual:
            return matrix
        eta = self._eta(matrix.device)
        return (eta.unsqueeze(-1) * matrix * eta).conj()

    def _eta(self, device: torch.device) -> Tensor:
        return signs(self.metric.count(1), self.metric.count(-1), device)

    def average(self, y: Tensor, kind: Type) -> Tensor:
        if self.trivial:
            return y
        if kind.core_ndim == 2:
            average = self._average_tensor(y)
            return average if self.null is None else torch.where(behind_batch(self.null.loose, y, 0), y, average)
        if kind.core_ndim == 1:
            return y * behind_batch(self.kept_axes(kind), y, 1)
        if kind.parity and not self.special:
            return y * behind_batch(self._free_at_most(0).squeeze(-1), y, 0)
        return y

    def _average_tensor(self, y: Tensor) -> Tensor:
        axes = behind_batch(self.determined, y[..., 0], 1).to(y.real.dtype)
        free = 1 - axes
        m = free.sum(-1)[..., None, None]
        average = y * axes.unsqueeze(-1) * axes.unsqueeze(-2)
        if not self.complex:
            eta = free * self._eta(y.device).to(y.dtype)
            trace = (y.diagonal(dim1=-2, dim2=-1) * eta).sum(-1)[..., None, None]
            average = average + torch.diag_embed(eta) * (trace / m.clamp_min(1))
        if not self.special:
            return average
        turning = (y - y.mT) / 2 * free.unsqueeze(-1) * free.unsqueeze(-2)
        return torch.where(m <= 1, y, torch.where(m == 2, average + turning, average))


@dataclass(frozen=True)
class SpanStabiliser(Stabiliser):
    """All matrices that fix the determined axes, or those of determinant one.

    They move a free axis by anything in the span, so there is no invariant complement and no projection, but they fix
    what lies in the span: vectors and tensors are taken within it. Covectors, factors ``det h`` and inputs that are not
    part of the cloud have a value at full rank only.
    """

    @property
    def size(self) -> Tensor:
        return torch.where(self._free_at_most(0).squeeze(-1), 1.0, torch.inf)

    def spread(self, to_rows: Callable[[Tensor], Tensor]) -> SpanStabiliser:
        return SpanStabiliser(to_rows(self.determined))

    def undefined(self, kind: Type, inward: bool) -> Tensor | None:
        if not (kind.parity or kind.dual or (inward and kind.core_ndim)):
            return None
        return ~self._free_at_most(0).squeeze(-1)

    def fold(self, matrix: Tensor, kind: Type) -> Tensor:
        return matrix * self.determined.unsqueeze(-2) if kind.core_ndim == 1 else matrix

    def average(self, y: Tensor, kind: Type) -> Tensor:
        if kind.core_ndim == 0:
            return y
        axes = behind_batch(self.determined, y[..., 0] if kind.core_ndim == 2 else y, 1)
        return y * axes.unsqueeze(-1) * axes.unsqueeze(-2) if kind.core_ndim == 2 else y * axes
