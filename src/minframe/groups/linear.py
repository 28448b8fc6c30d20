"""The base of groups of matrices and shifts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import check_cloud, check_core, check_edge_index, check_tensor
from minframe.cloud import Cloud, Input, Reduction, Relations
from minframe.frame import LinearFrame
from minframe.groups.base import Group
from minframe.layout import BatchVector, Layout, layout_of
from minframe.linalg.action import behind_batch, transform
from minframe.relations import check_rows
from minframe.types import COORDINATE_TYPES, LINEAR_TYPES, Type

#: the implementation of ``+``; filled by ``groups.sum``, which extends ``LinearGroup``
SUM_MAKERS: list[Callable[..., LinearGroup]] = []


class _Coordinates(Group):
    """The attributes of coordinates, declared without fields because some groups compute them."""

    #: length of the coordinate axis
    d: int
    #: whether the group acts on complex numbers
    complex: bool = False


@dataclass(frozen=True)
class LinearGroup(_Coordinates):
    """A group that acts on coordinates, by a matrix, by a shift or by both.

    Features of rows or of pairs of rows without coordinates, such as atomic numbers, have the type ``"node"`` or
    ``"edge"``. The group does not change them; frames that do not depend on the order of the rows
    (``frames.Unordered``) use them to distinguish rows.
    """

    types = COORDINATE_TYPES
    frame_types = ("point", "vector")
    #: whether the matrices of elements have a bounded condition number, so that none enlarges rounding
    bounded = True

    @property
    def point_order_version(self) -> int:
        """Raised whenever the canonical order of points under this group changes; checkpoints record it."""
        return 2

    def __add__(self, other: object) -> LinearGroup:
        if not isinstance(other, LinearGroup):
            raise TypeError(f"{self} can be added to a group that acts on coordinates, such as mf.O(2), got {other!r}")
        return SUM_MAKERS[0](self, other)

    @abstractmethod
    def parts(self, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The matrix and the shift by which an element acts on points; ``None`` for one that the group lacks."""

    @abstractmethod
    def assemble(self, linear: Tensor | None, shift: Tensor | None) -> Tensor:
        """The element with these parts."""

    @abstractmethod
    def frame_of(self, cloud: Cloud) -> LinearFrame:
        """The minimal frame that the inputs of a cloud determine together, rows taken in the order they have."""

    @abstractmethod
    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        """The cloud in a form in which only compact groups still act, term by term; without derivatives."""

    def act(self, g: Tensor, x: Tensor, type: str = "point") -> Tensor:
        kind = self.type(type)
        linear, shift = self.parts(g)
        if kind.core_ndim or kind.parity:
            batch = tuple(linear.shape[:-2] if linear is not None else g.shape[:-1])
            self._check_element(linear, shift)
            check_core(x, kind.core_ndim, self.d, type, "x", batch, self.complex)
        det = self.determinant(linear) if kind.parity and linear is not None else None
        matrix = torch.linalg.inv(linear).mT if kind.dual and linear is not None else linear
        shift = behind_batch(shift, x, 1) if shift is not None and kind.affine else None
        return transform(x, kind, matrix, det, shift, x.dtype)

    def determinant(self, linear: Tensor) -> Tensor:
        """``(*batch,)``, of the matrix of an element, as exactly as the group allows."""
        return torch.linalg.det(linear)

    def _check_element(self, linear: Tensor | None, shift: Tensor | None) -> None:
        fits = linear is None or tuple(linear.shape[-2:]) == (self.d, self.d)
        if not (fits and (shift is None or shift.shape[-1] == self.d)):
            part = linear if linear is not None else shift
            assert part is not None
            raise ValueError(f"g is no element of {self}: the shape of its action is {tuple(part.shape)}")

    def cloud(
        self,
        inputs: Sequence[Input],
        mask: Tensor | None = None,
        batch: Tensor | BatchVector | None = None,
        names: tuple[str, str] = ("mask", "batch"),
    ) -> Cloud:
        moving = [i for i in inputs if COORDINATE_TYPES[i.type].core_ndim]
        if not moving:
            raise ValueError(f"a frame of {self} needs a 'point' or a 'vector' among its inputs")
        joined = ", ".join([i.name for i in inputs])
        reference = moving[0].x
        for name, x, _ in moving:
            if x is reference or not isinstance(x, Tensor) or x.ndim >= reference.ndim:  # else one vector per sample
                check_cloud(x, self.d, self, name, self.complex)
        layout = layout_of(reference, mask, batch, names)
        typed: list[tuple[Tensor, Type]] = []
        for name, x, kind in inputs:
            if x is not reference:
                self.check(x, kind, name, layout)
        for _, x, kind in moving:
            typed.append((x if mask is None else layout.clean(x, 1), LINEAR_TYPES[kind]))
        cloud = Cloud(typed, layout, name=joined)
        if len(moving) < len(inputs):
            nodes = [i.x for i in inputs if COORDINATE_TYPES[i.type].nodes == 1]
            edges = [i.x for i in inputs if COORDINATE_TYPES[i.type].nodes == 2]
            cloud.relations = Relations(nodes, edges)
            if any(i.type in ("edge_index", "edge_attr") for i in inputs):
                cloud.relations = self._listed(inputs, nodes, bool(edges), layout)
        return cloud

    def _listed(self, inputs: Sequence[Input], nodes: Sequence[Tensor], dense: bool, layout: Layout) -> Relations:
        """Relations with edges that are listed."""
        listed = [i for i in inputs if i.type == "edge_index"]
        attributes = [i for i in inputs if i.type == "edge_attr"]
        if len(listed) != 1 or dense:
            raise ValueError(
                f"edges that determine a frame of {self} are listed by one input of type 'edge_index', or given as one "
                f"of "
                f"type 'edge', got {[f'{i.name}: {i.type}' for i in inputs]}: name others than these in frame_on="
            )
        name, edge_index, _ = listed[0]
        check_tensor(edge_index, name)
        check_edge_index(edge_index, name, layout.length)
        if len(layout.rows_shape) != 1:
            raise ValueError(
                f"{name} lists edges between rows, which in a batch need a batch vector, batch=; or give an adjacency "
                "matrix of type 'edge'"
            )
        for i in attributes:
            check_tensor(i.x, i.name)
            if not i.x.ndim or len(i.x) != edge_index.shape[1]:
                raise ValueError(
                    f"{i.name} of type 'edge_attr' must have an entry for each of {edge_index.shape[1]} edges, got "
                    f"shape "
                    f"{tuple(i.x.shape)}"
                )
        return Relations(nodes, [i.x for i in attributes], edge_index)

    def check(self, x: Tensor, type: str, name: str, layout: Layout) -> None:
        kind = COORDINATE_TYPES[type]
        if kind.nodes:
            check_rows(x, kind, name, layout)
        elif kind.core_ndim or kind.parity:
            check_core(x, kind.core_ndim, self.d, type, name, layout.leading, self.complex)


def described(group: LinearGroup, *arguments: object) -> str:
    """The name of a group, with its arguments."""
    return f"{type(group).__name__}({', '.join(map(str, arguments))})"
