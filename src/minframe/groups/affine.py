"""Translations, and the groups made of translations and a linear group: E(d), SE(d), Poincare(d) and Aff(d)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from minframe.checks import check_finite
from minframe.cloud import Cloud, Reduction
from minframe.frame import LinearFrame
from minframe.groups.base import check_dimension, default_atol
from minframe.groups.general import GL
from minframe.groups.linear import LinearGroup, described
from minframe.groups.lorentz import Lorentz
from minframe.groups.orthogonal import SO, O
from minframe.linalg.action import product
from minframe.linalg.stabiliser import IsometryStabiliser


class _Shifting(LinearGroup):
    """The base of groups with translations."""

    def check_frame_types(self, names: Sequence[str]) -> None:
        if "point" not in names:
            raise ValueError(
                f"a frame of {self} needs a 'point' among its inputs: vectors do not say where the origin is"
            )


@dataclass(frozen=True, repr=False)
class Translation(_Shifting):
    """Shifts of ``d``-space; an element is a vector ``(*batch, d)``. The canonical pose has its mean at the origin."""

    d: int

    def __post_init__(self) -> None:
        check_dimension(self.d, "Translation")

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
        """Standard normal: the group is not compact."""
        return torch.randn(*batch, self.d, dtype=dtype, device=device, generator=generator)

    def parts(self, g: Tensor) -> tuple[None, Tensor]:
        return None, g

    def assemble(self, linear: Tensor | None, shift: Tensor | None) -> Tensor:
        assert shift is not None
        return shift

    def inverse(self, g: Tensor) -> Tensor:
        return -g

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return g + h

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        return g.isfinite().all(-1)

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        cloud = cloud.centred()
        shift = cloud.origin
        assert shift is not None
        check_finite(shift.detach().abs().sum(-1), cloud.name)
        trivial = IsometryStabiliser(torch.ones_like(shift, dtype=torch.bool), special=True, metric=(1,) * self.d)
        return LinearFrame(
            group=self,
            linear=None,
            inverse=None,
            stabiliser=trivial,
            cloud=cloud,
            margin=lambda: shift.new_full(shift.shape[:-1], torch.inf),  # nothing discrete is decided
        )

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        return [Reduction(cloud.centred(), None, None)]


class Affine(_Shifting):
    """Translations combined with a ``linear`` group; an element is a homogeneous matrix ``(*batch, d + 1, d + 1)``.

    The frame is that of the linear group on the cloud relative to its mean, followed by the translation to the mean.
    """

    @cached_property
    @abstractmethod
    def linear(self) -> O | SO | GL:
        """The linear group."""

    @property
    def point_order_version(self) -> int:
        return self.linear.point_order_version

    def prepare(self) -> None:
        """Compute ``linear`` now: up to Python 3.11 its cache has a lock, which ``torch.compile`` cannot trace.

        And whether it is ``bounded``, which is that of the linear group.
        """
        object.__setattr__(self, "bounded", self.linear.bounded)

    def __repr__(self) -> str:
        return described(self, self.d)

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
        **options: float,
    ) -> Tensor:
        """A random linear part, drawn with the ``options`` of its group, and a standard normal translation."""
        linear = self.linear.random(*batch, dtype=dtype, device=device, generator=generator, **options)  # type: ignore[arg-type]
        shift = torch.randn(*batch, self.d, dtype=linear.dtype, device=device, generator=generator)
        return self.assemble(linear, shift)

    def random_options(self, dtype: torch.dtype) -> dict[str, float]:
        return self.linear.random_options(dtype)

    def parts(self, g: Tensor) -> tuple[Tensor, Tensor]:
        return g[..., :-1, :-1], g[..., :-1, -1]

    def assemble(self, linear: Tensor | None, shift: Tensor | None) -> Tensor:
        assert linear is not None
        assert shift is not None
        bottom = torch.zeros_like(torch.cat([shift, shift[..., :1]], -1)).unsqueeze(-2)
        bottom[..., -1].fill_(1)
        return torch.cat([torch.cat([linear, shift.unsqueeze(-1)], -1), bottom], -2)

    def determinant(self, linear: Tensor) -> Tensor:
        return self.linear.determinant(linear)

    def inverse(self, g: Tensor) -> Tensor:
        linear, shift = self.parts(g)
        back = self.linear.inverse(linear)
        return self.assemble(back, -product(back, shift.unsqueeze(-1)).squeeze(-1))

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return product(g, h)

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        linear, shift = self.parts(g)
        bottom = torch.zeros_like(g[..., -1, :])
        bottom[..., -1] = 1
        affine = ((g[..., -1, :] - bottom).abs() <= (default_atol(g) if atol is None else atol)).all(-1)
        return self.linear.contains(linear, atol) & affine & shift.isfinite().all(-1)

    def frame_of(self, cloud: Cloud) -> LinearFrame:
        frame = self._frame_about_mean(cloud)
        frame.group = self
        return frame

    def _frame_about_mean(self, cloud: Cloud) -> LinearFrame:
        return self.linear.frame_of(cloud.centred())

    def reduction(self, cloud: Cloud) -> Sequence[Reduction]:
        return self.linear.reduction(cloud.centred())


@dataclass(frozen=True, repr=False)
class E(Affine):
    """Rotations, reflections and translations of ``d``-space."""

    d: int

    def __post_init__(self) -> None:
        check_dimension(self.d, type(self).__name__)
        self.prepare()

    @cached_property
    def linear(self) -> O:
        return O(self.d)

    def _frame_about_mean(self, cloud: Cloud) -> LinearFrame:
        return self.linear.frame_about_mean(cloud)


@dataclass(frozen=True, repr=False)
class SE(E):
    """Rotations and translations of ``d``-space."""

    @cached_property
    def linear(self) -> SO:  # type: ignore[override]
        return SO(self.d)


@dataclass(frozen=True, repr=False)
class Poincare(Affine):
    """Lorentz transformations and translations of space-time, time first."""

    d: int = 4

    def __post_init__(self) -> None:
        check_dimension(self.d, "Poincare")
        self.prepare()

    @cached_property
    def linear(self) -> O:
        return Lorentz(self.d)


@dataclass(frozen=True, repr=False)
class Aff(Affine):
    """Invertible matrices and translations of ``d``-space."""

    d: int
    complex: bool = False

    def __post_init__(self) -> None:
        check_dimension(self.d, "Aff")
        self.prepare()

    def __repr__(self) -> str:
        return described(self, self.d, *(["complex=True"] if self.complex else []))

    @cached_property
    def linear(self) -> GL:
        return GL(self.d, complex=self.complex)
