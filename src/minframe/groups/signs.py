"""Signs and permutations of coordinates: Signs(k) and SignedPermutations(k), neither of them enumerated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.cloud import Cloud, Reduction
from minframe.frame import LinearFrame
from minframe.groups.base import check_dimension, default_atol
from minframe.groups.linear import described
from minframe.groups.matrix import MatrixGroup
from minframe.groups.orthogonal import O
from minframe.groups.sum import Sum
from minframe.labelling.cluster import cluster_rows
from minframe.linalg.action import multiply
from minframe.linalg.signed_columns import ColumnStabiliser


@dataclass(frozen=True, repr=False)
class Signs(MatrixGroup):
    """The ``2^k`` changes of sign of ``k`` coordinates, such as those of eigenvectors; an element is a diagonal matrix.

    It is the direct sum of ``k`` groups O(1): the sign of each coordinate is determined by its own column.

    >>> import torch, minframe as mf
    >>> vectors = torch.randn(2, 10, 4, dtype=torch.float64)  # four eigenvectors of graphs with ten nodes
    >>> flipped = vectors * torch.tensor([1, -1, -1, 1])
    >>> torch.equal(mf.canonicalize(vectors, mf.Signs(4))[0], mf.canonicalize(flipped, mf.Signs(4))[0])
    True
    """

    d: int

    def __post_init__(self) -> None:
        check_dimension(self.d, "Signs")

    def __repr__(self) -> str:
        return described(self, self.d)

    @property
    def point_order_version(self) -> int:
        return self.as_sum.point_order_version

    @property
    def as_sum(self) -> Sum:
        """``O(1) + ... + O(1)``."""
        return Sum((O(1),) * self.d)

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Uniform."""
        drawn = torch.randint(2, (*batch, self.d), device=device, generator=generator)
        return torch.diag_embed((2 * drawn - 1).to(dtype or self.default_dtype()))

    def inverse(self, g: Tensor) -> Tensor:
        return g

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        off = (g.abs() - torch.eye(self.d, dtype=g.dtype, device=g.device)).abs()
        return (off <= (default_atol(g) if atol is None else atol)).flatten(-2).all(-1)

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        frame = self.as_sum.frame_of(cloud)
        frame.group = self
        return frame

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        return self.as_sum.reduction(cloud)


@dataclass(frozen=True, repr=False)
class SignedPermutations(MatrixGroup):
    """The ``2^k k!`` permutations of ``k`` coordinates with signs; an element is a matrix with one +1 or -1 per row.

    Columns get the signs of ``Signs(k)`` and are then sorted lexicographically. Elements change numbers by a sign only,
    so that columns are compared exactly, and all clouds of an orbit have the same pose, bit by bit.

    >>> import torch, minframe as mf
    >>> x = torch.randn(7, 12, dtype=torch.float64)
    >>> group = mf.SignedPermutations(12)
    >>> torch.equal(mf.canonicalize(group.act(group.random(dtype=x.dtype), x), group)[0], mf.canonicalize(x, group)[0])
    True
    """

    d: int

    def __post_init__(self) -> None:
        check_dimension(self.d, "SignedPermutations")

    def __repr__(self) -> str:
        return described(self, self.d)

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Uniform."""
        order = torch.rand(*batch, self.d, dtype=torch.float64, device=device, generator=generator).argsort(-1)
        signs = 2 * torch.randint(2, (*batch, self.d), device=device, generator=generator) - 1
        g = torch.nn.functional.one_hot(order, self.d) * signs.unsqueeze(-1)
        return g.to(dtype or self.default_dtype())

    def inverse(self, g: Tensor) -> Tensor:
        return g.mT

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        atol = default_atol(g) if atol is None else atol
        whole = ((g - g.round()).abs() <= atol).flatten(-2).all(-1)
        size = g.round().abs()
        return whole & (size.sum(-1) == 1).all(-1) & (size.sum(-2) == 1).all(-1)

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        if cloud.longest is not False:
            raise ValueError(f"{self} has no frames that ignore the order of rows: columns are sorted by their rows")
        signed = Signs(self.d).frame_of(cloud)
        assert signed.inverse is not None
        with torch.no_grad():
            rows, layout = cloud.rows()
            columns = layout.pad(multiply(rows, layout.for_rows(signed.inverse, rows))).mT  # (B, d, n)
            mask = layout.padding_mask()
            if mask is not None:
                columns = columns * mask.unsqueeze(-2)
            classes = cluster_rows(columns, 0.0)
            order = classes.argsort(dim=-1, descending=True, stable=True)
            columns = columns.gather(-2, order.unsqueeze(-1).expand_as(columns))
            lead = cloud.layout.batch_shape
            linear = signed.inverse.gather(-1, order.view(*lead, 1, -1).expand_as(signed.inverse))
            determined = columns.any(-1).view(*lead, -1)
        return LinearFrame(
            group=self,
            linear=linear,
            inverse=linear.mT,
            stabiliser=ColumnStabiliser(determined, classes.gather(-1, order).view(*lead, -1)),
            cloud=cloud,
            margin=lambda: torch.minimum(signed.margin, _smallest_lead(columns, mask).view(lead)),
        )

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        raise ValueError(
            f"mf.S() and {self} together would permute rows and columns alike, which has no frame here: use mf.Signs("
            f"{self.d}), or one of the two alone"
        )


def _smallest_lead(columns: Tensor, mask: Tensor | None) -> Tensor:
    """The distance of sorted columns ``(B, d, n)`` from changing places, relative to the largest number, ``(B,)``.

    Columns that differ, and not in their first number, change places with any change of that. ``mask`` ``(B, n)``.
    """
    if columns.shape[-2] == 1:
        return columns.new_full(columns.shape[:1], torch.inf)
    step = (columns[:, :-1] - columns[:, 1:]).abs()
    first = torch.zeros_like(columns[:, 0, 0], dtype=torch.int64) if mask is None else mask.long().argmax(-1)
    lead = step.gather(-1, first.view(-1, 1, 1).expand(*step.shape[:2], 1)).squeeze(-1)
    size = columns.abs().flatten(1).amax(-1).clamp_min(torch.finfo(columns.dtype).tiny)
    return torch.where((step > 0).any(-1), lead, torch.inf).amin(-1) / size
