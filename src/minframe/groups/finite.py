"""Finite groups given by representations: mirrors of a robot, permutations of legs, and so on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from minframe.checks import check_finite
from minframe.cloud import Cloud, Input
from minframe.constants import beside
from minframe.dtypes import narrow, wide
from minframe.frame import Frame
from minframe.frame.size import Size, counted
from minframe.frame.tied import for_tied
from minframe.groups.base import Group
from minframe.groups.representation import multiplication_table, polished, representation
from minframe.layout import BatchVector, Dense, Layout, layout_of
from minframe.linalg.action import multiply
from minframe.linalg.finite import distances, orbit_scores, set_scores
from minframe.linalg.orbit import Choice, Scores, choose, shares, softened
from minframe.types import SCALAR, Type


class Finite(Group):
    """The finite group whose element number ``g`` acts on each named type by a matrix of its own.

    >>> import torch, minframe as mf
    >>> mirror = mf.Finite({  # left and right legs change places, and what points sideways changes its sign
    ...     "observation": [[1, 2, 3, 4], [2, 1, -3, 4]],  # of each element: y = (x2, x1, -x3, x4)
    ...     "action": [[1, 2], [2, 1]],
    ... })
    >>> policy = mf.Equivariant(torch.nn.Linear(4, 2), mirror, inputs="observation", outputs="action")
    >>> o = torch.randn(5, 4)
    >>> torch.allclose(policy(o[:, [1, 0, 2, 3]] * torch.tensor([1, 1, -1, 1])), policy(o)[:, [1, 0]])
    True

    An element is an integer ``(*batch,)``, the number of its matrices. A tensor of a type has shape ``(*batch, *any,
    k)`` and moves along its last axis. The axes in front of it, in the input that determines the frame, are the batch:
    every index of it has its own frame. For types in ``rows`` the axis in front of the last is an axis of rows instead,
    ``(*batch, n, k)``, which move together; masks and batch vectors refer to these rows.

    ``linalg.orbit`` describes how the canonical pose is found without a pass of the backbone.

    Args:
        representations: for each type the matrices of all elements in one order, ``(G, k, k)``; or ``(G, k)`` signed
            permutations as integers, where ``-3`` says "minus the third component" (from 1).
        rows: the types of tensors with an axis of rows.
    """

    def __init__(self, representations: Mapping[str, Any], rows: str | Sequence[str] = ()) -> None:
        if not isinstance(representations, Mapping) or not representations:
            raise TypeError(f"Finite needs a dict from names of types to matrices, got {representations!r}")
        matrices = {name: representation(given, name) for name, given in representations.items()}
        self._rows = (rows,) if isinstance(rows, str) else tuple(rows)
        for name in self._rows:
            if name not in matrices:
                raise ValueError(f"rows names {name!r}, which has no matrices; there are: {', '.join(matrices)}")
        self._table = multiplication_table(matrices)
        self._identity = int((self._table == torch.arange(len(self._table))).all(-1).long().argmax())
        self._inverse = (self._table == self._identity).long().argmax(-1)
        self._matrices = {name: polished(g, self._table) for name, g in matrices.items()}
        # The invariant form by which sizes are compared: the mean of g^T g.
        self._forms = {name: (g.mT @ g).mean(0) for name, g in self._matrices.items()}

    @property
    def order(self) -> int:
        """The number of elements."""
        return len(self._table)

    @property
    def rows(self) -> tuple[str, ...]:
        """The types of tensors with an axis of rows."""
        return self._rows

    @property
    def table(self) -> Tensor:
        """``(G, G)``, the number of the product ``g h``."""
        return self._table

    def matrices(self, type: str) -> Tensor:
        """The matrices ``(G, k, k)`` of a type, in float64."""
        self.type(type)
        return self._matrices[type]

    @property
    def types(self) -> dict[str, Type]:  # type: ignore[override]
        return {"scalar": SCALAR} | {name: Type(name, 1) for name in self._matrices}

    @property
    def frame_types(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(sorted(self._matrices, key=lambda name: name not in self._rows))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name!r}: {g.shape[-1]} x {g.shape[-1]}" for name, g in self._matrices.items())
        rows = f", rows={self._rows}" if self._rows else ""
        return f"Finite({{{shown}}}{rows}, {self.order} elements)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Finite):
            return NotImplemented
        same = self._rows == other._rows and list(self._matrices) == list(other._matrices)
        return same and all(torch.equal(g, other._matrices[name]) for name, g in self._matrices.items())

    def __hash__(self) -> int:
        return hash((self._rows, tuple((name, tuple(g.shape)) for name, g in self._matrices.items())))

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, "_forms"):
            raise AttributeError(f"cannot assign to {name!r}: groups are immutable")
        super().__setattr__(name, value)

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Uniform; ``dtype`` is ignored, elements are integers."""
        return torch.randint(self.order, batch, device=device, generator=generator)

    def inverse(self, g: Tensor) -> Tensor:
        return beside(self._inverse, g)[g]

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return beside(self._table, g)[g, h]

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        if g.is_floating_point():
            g = torch.where(g == g.round(), g, -1)
        return (g >= 0) & (g < self.order)

    def act(self, g: Tensor, x: Tensor, type: str | None = None) -> Tensor:
        type = self.frame_types[0] if type is None else type
        kind = self.type(type)
        if kind.core_ndim == 0:
            return x
        self._check_core(x, type, "x", tuple(g.shape))
        return narrow(multiply(wide(x), beside(self._matrices[type], x)[g]), x.dtype)

    def frame(
        self,
        x: Tensor,
        type: str | None = None,
        mask: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Frame:
        """The frame of one input, by default of the first type."""
        return super().frame(x, self.frame_types[0] if type is None else type, mask, batch, batch_size)

    def cloud(
        self,
        inputs: Sequence[Input],
        mask: Tensor | None = None,
        batch: Tensor | BatchVector | None = None,
        names: tuple[str, str] = ("mask", "batch"),
    ) -> Cloud:
        for name, x, kind in inputs:
            self._check_core(x, kind, name, ())
        rows = [i for i in inputs if i.type in self._rows]
        layout: Layout
        if rows:
            if rows[0].x.ndim < 2 or rows[0].x.shape[-2] == 0:
                raise ValueError(
                    f"{rows[0].name} must have shape (*batch, n, k) with rows, got {tuple(rows[0].x.shape)}"
                )
            layout = layout_of(rows[0].x, mask, batch, names)
        elif mask is not None or batch is not None:
            raise ValueError(
                f"{names[mask is None]} is for rows, and no input of {[i.type for i in inputs]} has any: name the "
                "types with rows, as in mf.Finite({...}, rows=('point',))"
            )
        else:
            lead = min([i.x.ndim for i in inputs]) - 1
            layout = Dense(tuple(inputs[0].x.shape[:lead]), 1)
        for name, x, kind in inputs:
            self.check(x, kind, name, layout)
        typed = [(layout.clean(x, 1), self.type(kind)) for _, x, kind in inputs]
        return Cloud(typed, layout, name=", ".join(i.name for i in inputs))

    def check(self, x: Tensor, type: str, name: str, layout: Layout) -> None:
        if self.type(type).core_ndim:
            self._check_core(x, type, name, layout.leading)

    def _check_core(self, x: Tensor, type: str, name: str, leading: tuple[int, ...]) -> None:
        k = self._matrices[type].shape[-1]
        if not isinstance(x, Tensor) or not x.is_floating_point():
            got = x.dtype if isinstance(x, Tensor) else x.__class__.__name__
            raise TypeError(f"{name} of type {type!r} must be a real floating tensor, got {got}: convert it first")
        if x.ndim <= len(leading) or x.shape[-1] != k or tuple(x.shape[: len(leading)]) != leading:
            want = ", ".join([*map(str, leading), "...", str(k)])
            raise ValueError(f"{name} of type {type!r} must have shape ({want}), got {tuple(x.shape)}")

    def scores(self, cloud: Cloud) -> list[Scores]:
        """Differentiable scores of the poses of all inputs."""
        return [self._scores(x, kind, cloud) for x, kind in cloud.inputs]

    def _scores(self, x: Tensor, kind: Type, cloud: Cloud) -> Scores:
        values, squares = orbit_scores(x, cloud.layout, self._inverses(kind, x))
        square = (squares * beside(self._forms[kind.name], x)).sum((-2, -1))
        size = torch.where(square > 0, square, 1.0).sqrt() * (square > 0) + 0 * square  # no NaN in the gradient at zero
        check_finite(size.detach(), cloud.name)
        return Scores(values, size, cloud.tolerance)

    def _distances(self, cloud: Cloud, alive: Tensor, leader: Tensor) -> Tensor:
        """``linalg.orbit.Distances``, the largest of all inputs."""
        found = [
            distances(x, cloud.layout, self._inverses(kind, x), alive, leader, beside(self._forms[kind.name], x))
            for x, kind in cloud.inputs
        ]
        return torch.stack(found).amax(0)

    def _inverses(self, kind: Type, x: Tensor) -> Tensor:
        return beside(self._matrices[kind.name], x)[beside(self._inverse, x)]

    def frame_of(self, cloud: Cloud) -> FiniteFrame:
        with torch.no_grad():
            choice = choose(self.scores(cloud), None, for_tied(self._distances, cloud))
        return FiniteFrame(self, cloud, choice)

    def shares(self, cloud: Cloud, sharpness: float = 16.0, unit: float = 0.0) -> tuple[Tensor, Tensor]:
        """All elements ``(G,)`` and weights ``(*batch, G)`` that are continuous in the inputs; most are zero.

        They do not depend on the order of rows. ``unit``: size of inputs below which the weights become equal.
        """
        found = []
        for x, kind in cloud.inputs:
            scores = softened(self._scores(x, kind, cloud), unit)
            if kind.name in self._rows and cloud.layout.is_per_row(x, 1):
                form = beside(self._forms[kind.name], x)
                scores = set_scores(x, cloud.layout, self._inverses(kind, x), form, unit)
            found.append(scores)
        return torch.arange(self.order), shares(found, sharpness=sharpness)

    def members(self, cloud: Cloud, index: Tensor) -> FiniteFrame:
        """The frame of one element for each sample of ``cloud``, given by its number ``(*batch,)``."""
        return FiniteFrame(self, cloud, Choice.of(index, self.order))


class FiniteFrame(Frame):
    """The elements of ``choice``, with equal weights."""

    group: Finite

    def __init__(self, group: Finite, cloud: Cloud, choice: Choice) -> None:
        self.group = group
        self.cloud = cloud
        self.layout = self.shown_layout = cloud.layout
        self.choice = choice

    @property
    def element(self) -> Tensor:
        return self.choice.first

    @property
    def rank(self) -> Tensor:
        """Number of components of the inputs, of which none is free: the stabiliser is finite."""
        total = sum(x.shape[-1] for x, _ in self.cloud.inputs)
        return torch.full_like(self.choice.first, total)

    @property
    def size(self) -> Size:
        return counted(self.choice.count)

    @property
    def margin(self) -> Tensor:
        return self.choice.margin

    def sampled(self, uniform: Tensor) -> FiniteFrame:
        """The frame with one of its elements, the one with the largest of the numbers ``(*batch, G)`` from 0 to 1."""
        first = torch.where(self.choice.weights > 0, uniform, -1.0).argmax(-1)
        weights = torch.nn.functional.one_hot(first, self.group.order).to(self.choice.weights)
        return FiniteFrame(self.group, self.cloud, Choice(weights, first, self.choice.margin))

    def to_canonical(self, x: Tensor, type: str | None = None) -> Tensor:
        type = self.group.frame_types[0] if type is None else type
        back = self.group.inverse(self.choice.first)
        return self._moved(x, type, "x", lambda matrices: matrices[back])

    def pose(self, x: Tensor, type: str | None = None, own: bool = False) -> Tensor:
        type = self.group.frame_types[0] if type is None else type
        back = beside(self.group._inverse, self.choice.weights)
        return self._moved(x, type, "x", lambda matrices: self._mean(matrices[back]))

    def from_canonical(self, y: Tensor, type: str | None = None) -> Tensor:
        type = self.group.frame_types[0] if type is None else type
        return self._moved(y, type, "y", self._mean)

    def _mean(self, matrices: Tensor) -> Tensor:
        return (self.choice.weights @ matrices.flatten(1)).view(*self.choice.first.shape, *matrices.shape[1:])

    def _moved(self, x: Tensor, type: str, name: str, matrix: Any) -> Tensor:
        self.group.check(x, type, name, self.layout)
        if self.group.type(type).core_ndim == 0:
            return self.layout.clean(x, 0)
        x = self.layout.clean(x, 1)
        sample = matrix(beside(self.group.matrices(type), x))
        return narrow(multiply(wide(x), self.layout.for_rows(sample, x)), x.dtype)
