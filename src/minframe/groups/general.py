"""The general and special linear groups GL(d) and SL(d), real and complex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.cloud import Cloud, Reduction
from minframe.dtypes import wide
from minframe.frame import LinearFrame
from minframe.frame.linear_operator import linear_frame, serves
from minframe.groups.base import check_dimension, default_atol
from minframe.groups.linear import described
from minframe.groups.matrix import MatrixGroup, haar
from minframe.layout import Layout
from minframe.linalg import loops
from minframe.linalg.choice import choice_margin
from minframe.linalg.columns import Columns
from minframe.linalg.determinant import det
from minframe.linalg.loops import pivoted_qr
from minframe.linalg.qr import differentiable_basis
from minframe.linalg.rows import CanonicalRows, Precision, Rows
from minframe.linalg.solvers import inv
from minframe.linalg.stabiliser import SpanStabiliser
from minframe.linalg.whiten import MAX_STRETCH, Whitening, equal_white, smooth, white_rounding, whiten


@dataclass(frozen=True, repr=False)
class GL(MatrixGroup):
    """All invertible matrices, acting as ``x @ g.mT``.

    The canonical pose of a cloud of full rank is white, ``sum_i y_i y_i^* = n``, and has no scale: clouds that differ
    by a factor are in one orbit of this group.
    """

    d: int
    complex: bool = False
    bounded = False
    special: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_dimension(self.d, type(self).__name__)

    def __repr__(self) -> str:
        return described(self, self.d, *(["complex=True"] if self.complex else []))

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
        max_condition: float = 10.0,
    ) -> Tensor:
        """``u s v`` with Haar random ``u`` and ``v``, and ``s`` log-uniform around one.

        The group is not compact: the largest singular value is at most ``max_condition`` times the smallest.
        """
        if not max_condition >= 1:
            raise ValueError(f"max_condition must be at least 1, got {max_condition}")
        q = haar(2, *batch, self.d, self.d, dtype=self.number, device=device, generator=generator)
        s = torch.rand(*batch, self.d, dtype=torch.float64, device=device, generator=generator) - 0.5
        if self.special:
            s = s - s.mean(-1, keepdim=True)
        g = q[0] * (max_condition**s).unsqueeze(-2) @ q[1]
        if self.special:
            g[..., -1] *= torch.linalg.det(g).sgn().conj().unsqueeze(-1)
        return g.to(dtype or self.default_dtype())

    def random_options(self, dtype: torch.dtype) -> dict[str, float]:
        return {"max_condition": 10.0}

    @property
    def point_order_version(self) -> int:
        return 6

    def inverse(self, g: Tensor) -> Tensor:
        return torch.linalg.inv(wide(g)).to(g.dtype)

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        """Whether a matrix is invertible, up to rounding; for SL, whether its determinant is one.

        The tolerance is ``atol`` times the product of the lengths of the columns, which bounds a determinant
        (Hadamard).
        """
        atol = default_atol(g) if atol is None else atol
        eps = torch.finfo(g.dtype).eps
        g = wide(g)
        finite = g.isfinite().all(-1).all(-1)
        g = torch.where(finite[..., None, None], g, 0)
        if not self.special:
            singular = torch.linalg.svdvals(g)
            return finite & (singular[..., -1] > eps * self.d * singular[..., 0])
        largest = torch.linalg.vector_norm(g, dim=-2).prod(-1).clamp_min(1)
        return finite & ((det(g) - 1).abs() <= atol * largest)

    def determinant(self, linear: Tensor) -> Tensor:
        return linear.new_ones(linear.shape[:-2]) if self.special else det(linear)

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        return linear_frame(self, cloud, lambda: self._frame(cloud)) if serves(cloud) else self._frame(cloud)

    def _frame(self, cloud: Cloud) -> LinearFrame:
        given = cloud.rows_as_given(Precision(cloud.eps, cloud.tolerance, name=cloud.name))
        if cloud.longest is not False:
            given.precision.floor = equal_white(given)
        direct = loops.white_qr(given, self.special, cloud.centred_twice)
        columns = poison = None
        if direct is not None:
            t, inverse, found = direct.matrix, direct.inverse, direct.found
            determined, layout, q = found.determined, found.layout, found.basis
            pose: CanonicalRows = found
            if cloud.needs_grad:
                rows, layout, _ = cloud.tame_rows()
        else:
            rows, layout, poison = cloud.tame_rows()
            with torch.no_grad():
                white = whiten(rows.detach(), layout, cloud.precision, cloud.is_centred)
                precision = self._precision(cloud, layout, white)
            t, inverse, determined = white.matrix, white.inverse, white.determined
            decomposed = Rows(white.rows, layout, precision, longest=cloud.longest, spare=True)
            found = pivoted_qr(decomposed, self.special)
            pose, q = CanonicalRows(determined, found.coordinates, layout), found.basis
        if cloud.needs_grad:
            correction = smooth(rows, layout, inverse, determined)
            t, inverse = t @ correction, inv(correction) @ inverse
            y = loops.multiply(rows, layout, inverse) * layout.for_each_row(determined)
            chosen = layout.take_rows(y, found.positions)
            q = differentiable_basis(chosen, found, direct is not None and self.special)

        linear, inverse = t @ q, q.mH @ inverse
        if self.special:
            factors = self.volume_factors(det(linear), determined)
            linear, inverse = linear * factors.unsqueeze(-2), inverse / factors.unsqueeze(-1)
            if direct is None:
                pose.coordinates = [part / layout.for_each_row(factors.detach()) for part in pose.coordinates]
        if poison is not None:
            linear, inverse = linear + poison[..., None, None], inverse + poison[..., None, None]
            pose.coordinates = [part + layout.for_each_row(poison.unsqueeze(-1)) for part in pose.coordinates]
        if direct is None and not all_true(white.stretch <= MAX_STRETCH):
            columns = Columns.of(linear, determined, white.stretch > MAX_STRETCH)

        return LinearFrame(
            group=self,
            linear=linear,
            inverse=inverse,
            own_inverse=inverse * determined.unsqueeze(-1),  # on free axes there is rounding, in units of their volume
            own_columns=columns,
            stabiliser=SpanStabiliser(determined),
            cloud=cloud,
            decomposition=pose,
            margin=lambda: self._margin(cloud, determined),
            tied=found.tied,
        )

    def _precision(self, cloud: Cloud, layout: Layout, white: Whitening) -> Precision:
        """The precision of the white rows. Where longest ones are asked for, lengths below a floor are equal."""
        precision = Precision(cloud.eps, cloud.tolerance, name=cloud.name)
        if cloud.longest is not False:
            precision.floor = equal_white(Rows(white.rows, layout, precision))
        return precision

    def _margin(self, cloud: Cloud, determined: Tensor) -> Tensor:
        """How far the choice of rows and the rank are from changing, ``(*batch,)``."""
        with torch.no_grad():
            rows, layout, _ = cloud.tame_rows()
            white = whiten(rows, layout, cloud.precision, cloud.is_centred)
            precision = self._precision(cloud, layout, white)
            white_rows = Rows(white.rows, layout, precision, longest=cloud.longest)
            unit = layout.collect([layout.amax(torch.linalg.vector_norm(white.rows, dim=-1))]).squeeze(-1)
            if self.special:  # the last axis follows from the determinant
                determined = torch.cat([determined[..., :-1], torch.zeros_like(determined[..., -1:])], -1)
            choice = choice_margin(white_rows, determined, unit * white.stretch)
            return torch.minimum(choice, white.margin)

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        with torch.no_grad():
            rows, layout, _ = cloud.tame_rows()
            white = whiten(rows, layout, cloud.precision, cloud.is_centred)
            matrix = white.inverse * white.determined.unsqueeze(-1)
            squares = cloud.rounded_squares(rows)
            rounding, of_zeros = white_rounding(squares, white, layout, cloud.precision, cloud.is_centred)
        return [Reduction(cloud, matrix, [slice(0, self.d)], rounding, white.rows, of_zeros)]

    def volume_factors(self, volume: Tensor, determined: Tensor) -> Tensor:
        """The factor of each axis that makes the determinant one, ``(*batch, d)``.

        At full rank all axes share the size of the volume, and its sign or phase goes into the last one, because a
        factor of ``-1`` on all axes has no effect in even dimensions. Otherwise the free axes share it, and the pose
        does not change.
        """
        volume = volume.unsqueeze(-1)
        shared = determined[..., -1:] | ~determined
        share = -1 / shared.sum(-1, keepdim=True).to(volume.abs().dtype)
        size = torch.where(shared, volume.abs() ** share, 1.0).to(volume.dtype)
        return torch.cat([size[..., :-1], size[..., -1:] * volume.sgn().conj()], -1)


@dataclass(frozen=True, repr=False)
class SL(GL):
    """The matrices of determinant one. The canonical pose is white up to the scale, which the volume sets."""

    special: ClassVar[bool] = True
