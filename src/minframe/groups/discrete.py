"""Finite groups of orthogonal matrices, which act on coordinates and, where they map a grid to itself, on grids."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor

from minframe.checks import all_true, check_finite, readable
from minframe.cloud import Cloud, Input, Reduction
from minframe.constants import beside, constant
from minframe.dtypes import wide
from minframe.frame import LinearFrame
from minframe.frame.tied import for_tied
from minframe.groups.base import default_atol
from minframe.groups.matrix import MatrixGroup
from minframe.layout import BatchVector, Dense, Layout
from minframe.linalg.finite import FiniteStabiliser, distances, orbit_scores, set_scores
from minframe.linalg.grid import Matrices, grid_distances, grid_scores, moved_grid, moved_shapes, tables, transformed
from minframe.linalg.orbit import Choice, Scores, choose, shares, softened
from minframe.tracing import is_compiling
from minframe.types import Type

GRIDS = {2: Type("image", 2), 3: Type("voxels", 3)}
UNIT_ENTRY_ERROR = 1e-9  # an entry of a given matrix that differs from 1 or -1 by less is that


@dataclass(slots=True)
class GridCloud(Cloud):
    """A cloud with grids ``(*batch, *any, *grid)``, which help to determine the frame."""

    grids: Sequence[Tensor] = field(default=(), kw_only=True)

    @property
    def dtype(self) -> torch.dtype:
        return (self.inputs[0][0] if self.inputs else self.grids[0]).dtype

    @property
    def eps(self) -> float:
        return max(torch.finfo(x.dtype).eps for x in (*(x for x, _ in self.inputs), *self.grids))

    def select(self, samples: Tensor) -> GridCloud:
        lead = len(self.layout.batch_shape)
        grids = [x.reshape(-1, *x.shape[lead:])[samples] for x in self.grids]
        return replace(cast(GridCloud, Cloud.select(self, samples)), grids=grids)


class Discrete(MatrixGroup):
    """A finite group of orthogonal matrices, ``matrices`` ``(G, d, d)``; an element is one of them.

    Besides the types of all linear groups there is ``"image"`` ``(*batch, *channels, H, W)`` for d = 2, or ``"voxels"``
    ``(*batch, *channels, D, H, W)`` for d = 3, if all matrices are signed permutations: values on a grid around the
    origin, x along W, y along H, z along D. Grids of unequal lengths are shown with these in ascending order. An
    ``"image"`` that determines the frame by itself has one axis of channels, as is usual.

    The canonical pose is found by ``linalg.orbit``.
    """

    @property
    @abstractmethod
    def matrices(self) -> Tensor:
        """All elements, ``(G, d, d)``, in float64; the identity first."""

    @property
    def order(self) -> int:
        """The number of elements."""
        return len(self.matrices)

    @property
    def grid(self) -> Type | None:
        """The type of grids that the group acts on."""
        return GRIDS.get(self.d) if self.maps_grids else None

    @property
    def maps_grids(self) -> bool:
        """Whether all elements are signed permutations."""
        return _are_signed_permutations(self)

    @property
    def types(self) -> dict[str, Type]:  # type: ignore[override]
        grid = self.grid
        return MatrixGroup.types | ({} if grid is None else {grid.name: grid})

    @property
    def frame_types(self) -> tuple[str, ...]:  # type: ignore[override]
        grid = self.grid
        return MatrixGroup.frame_types + (() if grid is None else (grid.name,))

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Uniform."""
        index = torch.randint(self.order, batch, device=device, generator=generator)
        return beside(self.matrices, index)[index].to(dtype or self.default_dtype())

    def inverse(self, g: Tensor) -> Tensor:
        return g.mT

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        product = wide(g) @ wide(h)
        return beside(self.matrices, g)[self.index(product)].to(g.dtype)  # rounding does not accumulate

    def index(self, g: Tensor) -> Tensor:
        """The number of the nearest element, ``(*batch,)``."""
        elements = beside(self.matrices, g).flatten(1)
        return (wide(g).flatten(-2) @ elements.mT).argmax(-1)

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        atol = default_atol(g) if atol is None else atol
        finite = g.isfinite().flatten(-2).all(-1)
        g = torch.where(finite[..., None, None], wide(g), 0)
        return finite & ((g - beside(self.matrices, g)[self.index(g)]).abs() <= atol).flatten(-2).all(-1)

    def act(self, g: Tensor, x: Tensor, type: str = "point") -> Tensor:
        kind = self.type(type)
        if kind is not self.grid:
            return super().act(g, x, type)
        index = self.index(g)
        if index.ndim == 0:
            return transformed(x, self.matrices[int(index)].tolist()).contiguous()
        if tuple(x.shape[: index.ndim]) != tuple(index.shape):
            raise ValueError(f"x of type {type!r} must begin with the batch axes of g, {tuple(index.shape)}")
        flat = x.reshape(-1, *x.shape[index.ndim :])
        samples = [
            transformed(y, self.matrices[i].tolist()) for y, i in zip(flat, index.flatten().tolist(), strict=True)
        ]
        if len({y.shape for y in samples}) > 1:
            raise ValueError(
                f"x of type {type!r} and shape {tuple(x.shape)} cannot be moved by elements of which only some "
                "exchange its axes: the results differ in shape. Move samples one by one"
            )
        return torch.stack(samples).view(*index.shape, *samples[0].shape)

    def cloud(
        self,
        inputs: Sequence[Input],
        mask: Tensor | None = None,
        batch: Tensor | BatchVector | None = None,
        names: tuple[str, str] = ("mask", "batch"),
    ) -> Cloud:
        grid = self.grid
        grids = [i for i in inputs if grid is not None and i.type == grid.name]
        others = [i for i in inputs if i not in grids] if grids else list(inputs)
        if not grids:
            return super().cloud(inputs, mask, batch, names)
        assert grid is not None
        layout: Layout
        if others:
            cloud = super().cloud(others, mask, batch, names)
            layout, typed, relations = cloud.layout, cloud.inputs, cloud.relations
        else:
            if mask is not None or batch is not None:
                raise ValueError(f"{names[mask is None]} is for rows, and there are only grids among the inputs")
            lead = min([i.x.ndim for i in grids]) - grid.core_ndim - 1
            layout, typed, relations = Dense(tuple(grids[0].x.shape[: max(lead, 0)]), 1), [], None
        for i in grids:
            self.check(i.x, grid.name, i.name, layout)
        name = ", ".join(i.name for i in inputs)
        return GridCloud(typed, layout, name=name, relations=relations, grids=[i.x for i in grids])

    def check(self, x: Tensor, type: str, name: str, layout: Layout) -> None:
        grid = self.grid
        if grid is None or type != grid.name:
            return super().check(x, type, name, layout)
        if not isinstance(x, Tensor) or not x.is_floating_point():
            got = x.dtype if isinstance(x, Tensor) else x.__class__.__name__
            raise TypeError(f"{name} of type {type!r} must be a real floating tensor, got {got}: convert it first")
        lead = layout.batch_shape
        if x.ndim < len(lead) + grid.core_ndim or tuple(x.shape[: len(lead)]) != lead or 0 in x.shape:
            axes = ", ".join([*map(str, lead), "...", *"DHW"[-grid.core_ndim :]])
            raise ValueError(f"{name} of type {type!r} must have shape ({axes}), got {tuple(x.shape)}")
        return None

    def scores(self, cloud: Cloud) -> tuple[list[Scores], Tensor | None]:
        """Differentiable scores of the poses of all inputs, and the elements to choose from ``(G,)``; ``None``: all."""
        found = []
        for x, _ in cloud.inputs:
            values, squares = orbit_scores(x, cloud.layout, beside(self.matrices, x).mT)
            square = squares.diagonal(dim1=-2, dim2=-1).sum(-1)
            size = (
                torch.where(square > 0, square, 1.0).sqrt() * (square > 0) + 0 * square
            )  # no NaN in the gradient at zero
            check_finite(size.detach(), cloud.name)
            found.append(Scores(values, size, cloud.tolerance))
        allowed: tuple[bool, ...] | None = None
        for x in getattr(cloud, "grids", ()):
            _, here, inward, _ = self.tables(x)
            allowed = here if allowed is None else tuple(a and b for a, b in zip(allowed, here, strict=True))
            values, size = grid_scores(_channels(x, cloud.layout, self.d), inward)
            check_finite(size.detach(), cloud.name)
            found.append(Scores(values, size, cloud.tolerance))
        if allowed is not None and not any(allowed):
            shapes = [tuple(x.shape[-self.d :]) for x in cloud.grids]  # type: ignore[attr-defined]
            raise ValueError(f"no element of {self} brings grids of the shapes {shapes} into ascending order together")
        return found, None if allowed is None or all(allowed) else beside(_as_tensor(allowed), found[0].values)

    def _distances(self, cloud: Cloud, alive: Tensor, leader: Tensor) -> Tensor:
        """``linalg.orbit.Distances``, the largest of all inputs."""
        inputs = [x for x, _ in cloud.inputs]
        found = [distances(x, cloud.layout, beside(self.matrices, x).mT, alive, leader) for x in inputs]
        for x in getattr(cloud, "grids", ()):
            inward = self.tables(x)[2]
            found.append(grid_distances(_channels(x, cloud.layout, self.d), inward, alive, leader))
        return torch.stack(found).amax(0)

    def tables(self, x: Tensor) -> tuple[tuple[int, ...], tuple[bool, ...], Tensor, Tensor]:
        """The tables of ``linalg.grid`` for grids of the shape of ``x``."""
        return tables(_as_tuples(self), _lengths(x, self.d))

    def frame_of(self, cloud: Cloud) -> DiscreteFrame:
        if cloud.longest is not False:
            raise ValueError(f"{self} has no frames that ignore the order of rows inside a direct sum")
        with torch.no_grad():
            choice = choose(*self.scores(cloud), for_tied(self._distances, cloud))
        return DiscreteFrame(self, cloud, choice)

    def shares(self, cloud: Cloud, sharpness: float = 16.0, unit: float = 0.0) -> tuple[Tensor, Tensor]:
        """All elements ``(G, d, d)`` and weights ``(*batch, G)`` that are continuous in the inputs; most are zero.

        They do not depend on the order of rows. ``unit``: size of inputs below which the weights become equal.
        """
        scores, allowed = self.scores(cloud)
        found = [softened(s, unit) for s in scores]
        for i, (x, kind) in enumerate(cloud.inputs):
            if cloud.layout.is_per_row(x, kind.core_ndim):
                found[i] = set_scores(
                    x,
                    cloud.layout,
                    beside(self.matrices, x).mT,
                    torch.eye(self.d, dtype=torch.float64, device=x.device),
                    unit,
                )
        return self.matrices, shares(found, allowed, sharpness)

    def members(self, cloud: Cloud, index: Tensor) -> DiscreteFrame:
        """The frame of one element for each sample of ``cloud``, given by its number ``(*batch,)``."""
        return DiscreteFrame(self, cloud, Choice.of(index, self.order))

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        raise ValueError(
            f"a direct sum with {self} cannot be multiplied with mf.S(): inner products of points do not tell what its "
            f"elements leave in place. mf.S() * {self}, without the sum, can be had"
        )


@constant(maxsize=64)
def _are_signed_permutations(group: Discrete) -> bool:
    return bool(((group.matrices.abs() - 1).abs() < UNIT_ENTRY_ERROR).any(-1).all())


@constant(maxsize=64)
def _as_tuples(group: Discrete) -> Matrices:
    return tuple(tuple(tuple(map(float, row)) for row in g) for g in group.matrices.round().tolist())


@constant(maxsize=64)
def _as_tensor(allowed: tuple[bool, ...]) -> Tensor:
    return torch.tensor(allowed)


def _lengths(x: Tensor, d: int) -> tuple[int, ...]:
    """The shape of a grid, as numbers: compiled code has a graph for each, as tables differ."""
    return tuple(operator.index(length) for length in x.shape[-d:])


def _channels(x: Tensor, layout: Layout, d: int) -> Tensor:
    """A grid as ``(*batch, C, P)``."""
    lead = x.shape[: len(layout.batch_shape)]
    return x.reshape(*lead, -1, torch.Size(x.shape[x.ndim - d :]).numel())


class DiscreteFrame(LinearFrame):
    """The elements of ``choice``."""

    group: Discrete
    per_sample = (*LinearFrame.per_sample, "choice", "_single")

    def __init__(self, group: Discrete, cloud: Cloud, choice: Choice) -> None:
        matrices = beside(group.matrices, choice.weights)
        linear = matrices[choice.first]
        # The elements h = g0^-1 g of the stabiliser that correspond to the elements g of the frame.
        of_stabiliser = group.index(linear.mT.unsqueeze(-3) @ matrices)
        weights = torch.zeros_like(choice.weights).scatter(-1, of_stabiliser, choice.weights)
        super().__init__(
            group=group,
            linear=linear,
            inverse=linear.mT,
            own_inverse=(choice.weights @ matrices.mT.flatten(1)).view(*choice.first.shape, *matrices.shape[1:]),
            stabiliser=FiniteStabiliser.of(weights, matrices),
            cloud=cloud,
            margin=lambda: choice.margin,
        )
        self.choice = choice
        self._single = all_true(choice.count == 1)

    def to_canonical(self, x: Tensor, type: str = "point") -> Tensor:
        if self._checked(x, type, "x") is not self.group.grid:
            return super().to_canonical(x, type)
        return self._moved(x, inward=True, alone=True)

    def _checked(self, x: Tensor, type: str, name: str) -> Type:
        kind = self.group.type(type)
        if kind is not self.group.grid:
            return super()._checked(x, type, name)
        self.group.check(x, type, name, self.layout)
        return kind

    def shown(self, x: Tensor, kind: Type, own: bool) -> Tensor:
        return super().shown(x, kind, own) if kind is not self.group.grid else self._moved(x, inward=True)

    def carried_back(self, y: Tensor, kind: Type) -> Tensor:
        return super().carried_back(y, kind) if kind is not self.group.grid else self._moved(y, inward=False)

    def _moved(self, x: Tensor, inward: bool, alone: bool = False) -> Tensor:
        grid: Any = self.group.grid
        d = grid.core_ndim
        shape = _lengths(x, d) if inward else self._original_shape(x)
        canonical, allowed, table_in, table_out = tables(_as_tuples(self.group), shape)
        if inward and not all(allowed) and not self._brings(allowed):
            raise ValueError(
                f"x of type {grid.name!r} has the shape {shape} of its grid, which the elements of its frame do not "
                "bring into ascending order: let it take part in determining the frame, or make it square"
            )
        flat = x.reshape(*x.shape[:-d], -1)
        table = table_in if inward else table_out
        y = moved_grid(flat, table, self.choice.weights, self.choice.first, self._single or alone)
        return y.reshape(*x.shape[:-d], *(canonical if inward else shape))

    def _brings(self, allowed: tuple[bool, ...]) -> bool:
        """Whether the elements are all among those that are allowed; True if that may not be read now."""
        inside = beside(_as_tensor(allowed), self.choice.first)[self.choice.first]
        return not readable(inside) or bool(inside.all())

    def _original_shape(self, y: Tensor) -> tuple[int, ...]:
        """The shape of a canonical output ``y`` in the pose of the input: all elements exchange the same axes."""
        d = self.group.d
        lengths = _lengths(y, d)
        if len(set(lengths)) == 1:
            return lengths
        # Those that could be chosen, by the shapes of the grids that did: often that is enough to know.
        grids = getattr(self.cloud, "grids", ())
        allowed = [tables(_as_tuples(self.group), _lengths(x, d))[1] for x in grids]
        shapes = {
            shape
            for g, shape in enumerate(moved_shapes(_as_tuples(self.group), lengths))
            if all(some[g] for some in allowed)
        }
        if len(shapes) > 1 and is_compiling():
            raise NotImplementedError(
                f"a grid of the shape {lengths} is carried back to one of {sorted(shapes)}, which depends on the data: "
                "in compiled code, let a grid of unequal lengths determine the frame, or make grids square"
            )
        if len(shapes) > 1:
            first = int(self.choice.first.flatten()[0])
            return moved_shapes(_as_tuples(self.group), lengths)[first]
        (shape,) = shapes
        return shape
