"""The symmetry of a cloud of points: which matrices permute them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.cloud import Input
from minframe.frame.product import ProductFrame
from minframe.groups.linear import LinearGroup
from minframe.groups.orthogonal import O
from minframe.groups.permutation import S
from minframe.labelling.action import inverse
from minframe.labelling.orbits import orbits as _orbits

MAX_LISTED_ELEMENTS = 100_000  # elements that are listed


@dataclass(frozen=True)
class PointGroup:
    """The symmetry of one cloud, as far as it moves points.

    A reflection that leaves every point in its place, such as one in the plane of a planar molecule, does not count,
    and neither does an exchange of points that coincide; ``(S() * group).frame(x).size`` counts both.

    Attributes:
        order: number of elements, exact.
        permutations: ``(k, n)``, generators: point ``i`` goes to ``p[i]``.
        generators: ``(k, d, d)``, matrices that do the same, and leave directions without points as they are
            (of SO(d) and the like, up to a sign).
    """

    order: int
    permutations: Tensor
    generators: Tensor
    _levels: tuple[tuple[Tensor, Tensor], ...]

    def __repr__(self) -> str:
        return f"PointGroup(order={self.order}, points={self.permutations.shape[-1]})"

    @functools.cached_property
    def orbits(self) -> Tensor:
        """For each point the first that it can be taken to, ``(n,)``."""
        owner = torch.zeros(len(self.permutations), dtype=torch.int64, device=self.permutations.device)
        return _orbits(self.permutations, owner, 1)[0]

    @functools.cached_property
    def matrices(self) -> Tensor:
        """All elements ``(order, d, d)``, the identity first."""
        return torch.stack([matrix for _, matrix in self.elements()])

    def elements(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All elements as a permutation ``(n,)`` and a matrix ``(d, d)``, one after the other, the identity first."""
        if self.order > MAX_LISTED_ELEMENTS:
            raise ValueError(f"the group has {self.order} elements, too many to list: use generators")
        n, d = self.permutations.shape[-1], self.generators.shape[-1]
        one = torch.arange(n), torch.eye(d, dtype=self.generators.dtype)
        yield from self._products(one, 0)

    def _products(self, left: tuple[Tensor, Tensor], level: int) -> Iterator[tuple[Tensor, Tensor]]:
        if level == len(self._levels):
            yield left
            return
        for permutation, matrix in zip(*self._levels[level], strict=True):
            yield from self._products((left[0][permutation], left[1] @ matrix), level + 1)


def point_group(
    x: Tensor, group: LinearGroup | None = None, nodes: Tensor | None = None
) -> PointGroup | list[PointGroup]:
    """The elements of a linear group that permute the points of a cloud; for a batch a list, flattened.

    >>> import torch, minframe as mf
    >>> square = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    >>> symmetry = mf.point_group(square)
    >>> symmetry
    PointGroup(order=8, points=4)
    >>> symmetry.matrices.shape, mf.point_group(square, mf.SO(2)).order
    (torch.Size([8, 2, 2]), 4)

    Args:
        x: ``(*batch, n, d)``.
        group: by default ``O(d)``. With ``E(d)`` the symmetry is about the mean of the points.
        nodes: ``(*batch, n)`` or ``(*batch, n, c)``, features that have to agree, such as the kinds of atoms.
    """
    group = O(x.shape[-1]) if group is None and x.ndim else group
    product = S() * group
    inputs = [Input("x", x, "point")] + ([] if nodes is None else [Input("nodes", nodes, "node")])
    frame = product.frame_of(product.cloud(inputs))
    assert isinstance(frame, ProductFrame)
    groups = _groups(frame, *x.shape[-2:])
    return groups if x.ndim > 2 else groups[0]


def _groups(frame: ProductFrame, n: int, d: int) -> list[PointGroup]:
    special = getattr(getattr(frame.linear.group, "linear", frame.linear.group), "special", False)
    order = frame.order.reshape(-1, n).cpu()
    linear = frame.linear.linear
    axes = torch.eye(d, dtype=torch.float64) if linear is None else linear.detach().cpu().reshape(-1, d, d)
    axes = axes.expand(len(order), d, d)
    determined = frame.linear.stabiliser.determined.reshape(-1, d).cpu()
    no_matrix, no_permutation = axes[0, :0].view(0, d, d), order[:0]
    groups = [PointGroup(1, no_permutation, no_matrix, ()) for _ in order]
    for pairs in frame.pairs:
        k = pairs.sample
        to_rows, q, span = order[k], axes[k], determined[k]
        levels = [
            (
                to_rows[level.permutations][:, inverse(to_rows)],
                q @ _within(level.matrices, span, special) @ torch.linalg.inv(q),
            )
            for level in pairs.levels
        ]
        permutations = torch.cat([p for p, _ in levels])
        moves = (permutations != torch.arange(n)).any(-1)
        matrices = torch.cat([m for _, m in levels])
        groups[k] = PointGroup(pairs.order, permutations[moves], matrices[moves], tuple(levels))
    return groups


def _within(matrices: Tensor, span: Tensor, special: bool) -> Tensor:
    """Matrices that act on the axes of the ``span`` ``(d,)`` alone, but for a determinant of one if it has to be."""
    inside = span.unsqueeze(-1) & span
    matrices = torch.where(inside, matrices, torch.eye(len(span), dtype=matrices.dtype))
    if special and not bool(span[-1]):
        matrices[..., -1, -1] = 1 / torch.linalg.det(matrices)
    return matrices
