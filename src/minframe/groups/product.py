"""Products of permutations with a linear group: S() * O(3) and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from minframe.cloud import Cloud, Input
from minframe.frame import Frame
from minframe.frame.curve import CurveFrame
from minframe.frame.invariant import product_frame
from minframe.frame.product import Pair
from minframe.groups.base import Group
from minframe.groups.linear import LinearGroup
from minframe.labelling.action import move
from minframe.labelling.backend import installed_point_version
from minframe.layout import BatchVector, Layout
from minframe.types import CONSTANT, PRODUCT_TYPES, SCALAR


class Permutations(Group):
    """The interface of ``S()`` that a product uses."""

    backend: str
    rtol: float
    directed: bool | None
    curve: str | None


@dataclass(frozen=True, repr=False)
class Product(Group):
    """Permutations of the rows together with a ``linear`` group; an element is a pair ``(permutation, linear)``.

    A product has all types of both groups. The axis behind the batch axes is an axis of rows, and permuted, if its
    length is the number of rows; ``"scalar"`` belongs to the whole sample and is not permuted, ``"node"`` and
    ``"edge"`` belong to rows and pairs of rows.
    """

    permutations: Permutations
    linear: LinearGroup

    types = PRODUCT_TYPES
    frame_types = ("point", "vector", "node", "edge")

    def __repr__(self) -> str:
        linear = f"({self.linear})" if " + " in repr(self.linear) else f"{self.linear}"
        return f"{self.permutations} * {linear}"

    @property
    def labelling(self) -> str | None:  # type: ignore[override]
        return installed_point_version(self.linear.point_order_version, self.permutations.backend)

    @property
    def d(self) -> int:
        """Length of the coordinate axis."""
        return self.linear.d

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
        **options: float,
    ) -> Pair:
        permutation = self.permutations.random(*batch, n=n, device=device, generator=generator)
        linear = self.linear.random(*batch, dtype=dtype, device=device, generator=generator, **options)  # type: ignore[arg-type]
        return Pair(permutation, linear)

    def random_options(self, dtype: torch.dtype) -> dict[str, float]:
        return self.linear.random_options(dtype)

    def act(self, g: Any, x: Tensor, type: str = "point") -> Tensor:
        permutation, linear = g
        kind = self.type(type)
        if kind.nodes:
            return self.permutations.act(permutation, x, type)
        y = self.linear.act(linear, x, type)
        if kind in (SCALAR, CONSTANT):
            return y
        if permutation.ndim == 1 and x.ndim >= 2 + kind.core_ndim - 1:  # one permutation for all
            axis = x.ndim - kind.core_ndim - 1
            if x.shape[axis] == permutation.shape[0] and x.shape[0] != permutation.shape[0]:
                permutation = permutation.expand(*x.shape[:axis], -1)
        per_row = x.ndim >= permutation.ndim + kind.core_ndim and x.shape[: permutation.ndim] == permutation.shape
        return move(permutation, y, 1) if per_row else y

    def inverse(self, g: Any) -> Pair:
        return Pair(self.permutations.inverse(g[0]), self.linear.inverse(g[1]))

    def compose(self, g: Any, h: Any) -> Pair:
        return Pair(self.permutations.compose(g[0], h[0]), self.linear.compose(g[1], h[1]))

    def contains(self, g: Any, atol: float | None = None) -> Tensor:
        return self.permutations.contains(g[0]) & self.linear.contains(g[1], atol)

    def cloud(
        self,
        inputs: Sequence[Input],
        mask: Tensor | None = None,
        batch: Tensor | BatchVector | None = None,
        names: tuple[str, str] = ("mask", "batch"),
    ) -> Cloud:
        return self.linear.cloud(inputs, mask, batch, names)

    def check(self, x: Tensor, type: str, name: str, layout: Layout) -> None:
        self.linear.check(x, type, name, layout)

    def check_frame_types(self, names: Sequence[str]) -> None:
        moving = [name for name in names if not self.type(name).nodes]
        if not moving:
            raise ValueError(f"a frame of {self} needs a 'point' or a 'vector' among its inputs, got {list(names)}")
        self.linear.check_frame_types(moving)

    def frame_of(self, cloud: Cloud) -> Frame:
        frame = product_frame(self, cloud)
        return frame if self.permutations.curve is None else CurveFrame(frame, cloud)
