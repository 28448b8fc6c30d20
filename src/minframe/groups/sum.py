"""Direct sums of linear groups: E(2) + Trivial(1) and so on."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from minframe.cloud import Cloud, Reduction
from minframe.dtypes import wide
from minframe.frame import LinearFrame
from minframe.groups.affine import Translation
from minframe.groups.base import default_atol
from minframe.groups.linear import SUM_MAKERS, LinearGroup
from minframe.groups.trivial import Trivial
from minframe.linalg.action import product
from minframe.linalg.blocks import BlockStabiliser, block_columns, block_diagonal, slices_of
from minframe.linalg.rows import CanonicalRows


@dataclass(frozen=True, repr=False)
class Sum(LinearGroup):
    """``groups`` that act side by side, each on its own block of the coordinate axis, the first one first.

    An element is a matrix ``(*batch, d, d)`` with the elements of the groups along its diagonal, or, if any of them has
    translations, a homogeneous one ``(*batch, d + 1, d + 1)``. The frame is the tuple of the frames of the blocks, each
    determined by its own coordinates. All types are supported; a tensor has blocks.

    >>> import torch, minframe as mf
    >>> slab = mf.E(2) + mf.Trivial(1)
    >>> x = torch.randn(8, 20, 3, dtype=torch.float64)
    >>> gx = slab.act(slab.random(8, dtype=x.dtype), x)
    >>> torch.equal(gx[..., 2], x[..., 2]), torch.equal(gx[..., :2], x[..., :2])
    (True, False)
    >>> torch.allclose(mf.canonicalize(gx, slab)[0], mf.canonicalize(x, slab)[0])
    True
    """

    groups: tuple[LinearGroup, ...]
    d: int = field(init=False, repr=False, compare=False)
    complex: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.groups or not all(isinstance(g, LinearGroup) for g in self.groups):
            raise TypeError(
                f"a direct sum is one of groups that act on coordinates, such as mf.E(2), got {self.groups}"
            )
        if len({g.complex for g in self.groups}) > 1:
            raise TypeError(
                f"{self} mixes groups that act on real and on complex numbers: a direct sum acts on one coordinate "
                "axis. mf.Trivial(d, complex=True) does nothing to complex ones"
            )
        object.__setattr__(self, "d", sum(g.d for g in self.groups))
        object.__setattr__(self, "complex", self.groups[0].complex)
        object.__setattr__(self, "bounded", all(g.bounded for g in self.groups))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.groups))

    @property
    def point_order_version(self) -> int:
        return 1 + max(g.point_order_version for g in self.groups)

    @property
    def blocks(self) -> list[slice]:
        """The coordinates that each group acts on."""
        return slices_of([g.d for g in self.groups])

    @property
    def shifts(self) -> bool:
        """Whether any of the groups has translations."""
        return any(g.parts(self._identity(g))[1] is not None for g in self.groups)

    @staticmethod
    def _identity(group: LinearGroup) -> Tensor:
        eye = torch.eye(group.d, dtype=torch.complex128 if group.complex else torch.float64)
        return group.assemble(eye, eye[0] * 0)

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
        **options: float,
    ) -> Tensor:
        """Independent random elements of the groups, each drawn with those of the ``options`` that it has."""
        known = [_options(g) for g in self.groups]
        for option in options:
            if not any(option in names for names in known):
                raise TypeError(f"no group of {self} has the option {option!r} for random elements")
        return self._joined(
            [
                g.random(
                    *batch,
                    dtype=dtype,
                    device=device,
                    generator=generator,
                    **{k: v for k, v in options.items() if k in names},  # type: ignore[arg-type]
                )
                for g, names in zip(self.groups, known, strict=True)
            ]
        )

    def random_options(self, dtype: torch.dtype) -> dict[str, float]:
        chosen: dict[str, float] = {}
        for group in self.groups:
            chosen |= group.random_options(dtype)
        return chosen

    def parts(self, g: Tensor) -> tuple[Tensor, Tensor | None]:
        return (g[..., :-1, :-1], g[..., :-1, -1]) if self.shifts else (g, None)

    def assemble(self, linear: Tensor | None, shift: Tensor | None) -> Tensor:
        assert linear is not None
        if not self.shifts:
            return linear
        assert shift is not None
        bottom = torch.zeros_like(torch.cat([shift, shift[..., :1]], -1)).unsqueeze(-2)
        bottom[..., -1] = 1
        return torch.cat([torch.cat([linear, shift.unsqueeze(-1)], -1), bottom], -2)

    def elements(self, g: Tensor) -> list[Tensor]:
        """The elements of the groups that ``g`` is made of."""
        linear, shift = self.parts(g)
        shift = linear.new_zeros(linear.shape[:-1]) if shift is None else shift
        return [
            group.assemble(linear[..., s, s], shift[..., s]) for group, s in zip(self.groups, self.blocks, strict=True)
        ]

    def _joined(self, elements: Sequence[Tensor]) -> Tensor:
        linears, shifts = [], []
        for group, g in zip(self.groups, elements, strict=True):
            linear, shift = group.parts(g)
            if linear is None:
                assert shift is not None
                linear = torch.eye(group.d, dtype=g.dtype, device=g.device).expand(*shift.shape[:-1], -1, -1)
            linears.append(linear)
            shifts.append(linear.new_zeros(linear.shape[:-1]) if shift is None else shift)
        return self.assemble(block_diagonal(linears), torch.cat(shifts, -1))

    def inverse(self, g: Tensor) -> Tensor:
        return self._joined([group.inverse(h) for group, h in zip(self.groups, self.elements(g), strict=True)])

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return product(g, h)

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        inside = [group.contains(h, atol) for group, h in zip(self.groups, self.elements(g), strict=True)]
        off = (wide(g) - wide(self._joined(self.elements(g)))).abs().flatten(-2).amax(-1)
        return torch.stack(inside).all(0) & (off <= (default_atol(g) if atol is None else atol))

    def check_frame_types(self, names: Sequence[str]) -> None:
        for group in self.groups:
            group.check_frame_types(names)

    def clouds(self, cloud: Cloud) -> list[Cloud]:
        """The part of the cloud that each group acts on."""

        def seen(block: slice) -> Cloud:
            origin, distance = (None if x is None else x[..., block] for x in (cloud.origin, cloud.distance))
            inputs = [(x[..., block], kind) for x, kind in cloud.inputs]
            return replace(cloud, inputs=inputs, origin=origin, distance=distance)

        return [seen(block) for block in self.blocks]

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        frames = [g.frame_of(part) for g, part in zip(self.groups, self.clouds(cloud), strict=True)]
        stabiliser = BlockStabiliser.of([f.stabiliser for f in frames], [g.d for g in self.groups])
        shift = side_by_side([f.shift for f in frames], self.groups) if self.shifts else None
        tied = [f.tied for f in frames if f.tied is not None]
        found = [f._decomposition for f in frames]
        pose = None
        if all(part is not None for part in found):
            coordinates = [c for part in found if part is not None for c in part.coordinates]
            layout = next(part.layout for part in found if part is not None)
            pose = CanonicalRows(stabiliser.determined, coordinates, layout)
        number, device = torch.complex128 if self.complex else torch.float64, stabiliser.determined.device
        eye = torch.eye(self.d, dtype=number, device=device).expand(*stabiliser.determined.shape, -1)

        def joined(matrices: Sequence[Tensor | None]) -> Tensor:
            blocks = zip(self.blocks, matrices, strict=True)
            return block_diagonal([eye[..., s, s] if m is None else m for s, m in blocks])

        return LinearFrame(
            group=self,
            linear=joined([f.linear for f in frames]),
            inverse=joined([f.inverse for f in frames]),
            own_inverse=joined([f.own_inverse for f in frames]),
            own_columns=block_columns(
                [f.own_columns for f in frames],
                [eye[..., s, s] if f.linear is None else f.linear for f, s in zip(frames, self.blocks, strict=True)],
                [f.stabiliser.determined for f in frames],
            ),
            stabiliser=stabiliser,
            cloud=replace(cloud, origin=shift),
            margin=lambda: torch.stack([f.margin for f in frames]).amin(0),
            decomposition=pose,
            tied=torch.stack(tied).any(0) if tied else None,
            ties_loosely=any(f.ties_loosely for f in frames),
        )

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        terms = zip(self.groups, self.clouds(cloud), strict=True)
        return [reduced for group, part in terms for reduced in group.reduction(part)]


def direct_sum(*groups: LinearGroup) -> LinearGroup:
    """The direct sum, nested sums flattened and trivial neighbours joined, so that equal groups are equal values."""
    parts: list[LinearGroup] = []
    for group in (part for g in groups for part in (g.groups if isinstance(g, Sum) else [g])):
        last = parts[-1] if parts else None
        if (isinstance(last, Trivial) and isinstance(group, Trivial) and last.complex == group.complex) or (
            isinstance(last, Translation) and isinstance(group, Translation)
        ):
            parts[-1] = replace(last, d=last.d + group.d)
        else:
            parts.append(group)
    return parts[0] if len(parts) == 1 else Sum(tuple(parts))


SUM_MAKERS.append(direct_sum)


def side_by_side(parts: Sequence[Tensor | None], groups: Sequence[LinearGroup]) -> Tensor:
    """Vectors of the blocks as one; zero where there is none."""
    like = next(p for p in parts if p is not None)
    blocks = zip(parts, groups, strict=True)
    return torch.cat([like.new_zeros((*like.shape[:-1], g.d)) if p is None else p for p, g in blocks], -1)


def _options(group: Any) -> set[str]:
    """Names of the options of ``group.random`` beside those that all groups have."""
    own = inspect.signature(group.random).parameters
    if "options" not in own:
        return set(own) - {"batch", "n", "dtype", "device", "generator"}
    inner = group.groups if isinstance(group, Sum) else [group.linear]
    return set().union(*(_options(g) for g in inner))
