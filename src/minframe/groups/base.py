"""The abstract base class of groups: the laws, and the methods that all groups share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from minframe.cloud import Cloud, Input
from minframe.frame import Frame
from minframe.layout import BatchVector, Layout, batch_vector
from minframe.types import Type


class Group(ABC):
    """A symmetry group acting on rows ``x`` of shape ``(*batch, n, d)``.

    A group is a small immutable value: equal to another if they mean the same group, hashable, picklable. An element is
    a tensor with the batch axes in front (of a product, a tuple of them). For all elements g, h and inputs x of any
    type the following laws hold, and ``tests/test_laws.py`` checks them for every row of its table:

    1. *Action*: ``act(g, act(h, x)) = act(compose(g, h), x)`` and ``act(inverse(g), act(g, x)) = x``.
    2. *Membership*: ``random``, ``compose``, ``inverse`` and ``frame(x).element`` give elements that ``contains``
       accepts.
    3. *Invariance*: ``frame(act(g, x)).to_canonical(act(g, x)) = frame(x).to_canonical(x)``: one pose per orbit.
    4. *Idempotence*: the canonical pose is its own canonical pose.
    5. *There and back*: ``frame(x).from_canonical(frame(x).to_canonical(x)) = x``.
    6. *Equivariance of the frame*: ``frame(act(g, x)).from_canonical(y) = act(g, frame(x).from_canonical(y))``.
    7. *Margin*: where the canonical pose jumps, ``frame(x).margin`` is rounding, for every way of choosing frames.
       Bisect a path to a jump, and it is below 1e-9 on both sides. Where frames ignore the order of rows, so does it.
    """

    #: the types that users may give to inputs and outputs
    types: ClassVar[dict[str, Type]]
    #: the types that determine a frame, unless the user names the inputs that do; the type that defines the rows first
    frame_types: ClassVar[tuple[str, ...]]
    #: name and version of the library that frames may depend on, which a trained model should record
    labelling: str | None = None

    @abstractmethod
    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Any:
        """Random elements ``(*batch, ...)``, by the Haar measure where the group is compact.

        ``n`` is the number of rows, for groups that permute them; the others ignore it.
        """

    @property
    def compact(self) -> bool:
        """Whether the group, apart from translations and scale, is compact, so that random elements need no bound."""
        return not self.random_options(torch.float64)

    def random_options(self, dtype: torch.dtype) -> dict[str, float]:
        """Bounds for ``random`` on elements of a group that is not compact; nothing for a compact group.

        Elements within these bounds turn the rounding of inputs of that dtype into an error below the tolerances of
        ``minframe.testing``; beyond them the error would exceed these for every frame.
        """
        return {}

    @abstractmethod
    def act(self, g: Any, x: Tensor, type: str = "point") -> Tensor:
        """``g . x``. The axes of ``x`` begin with the batch axes of ``g``; an element without any moves everything."""

    @abstractmethod
    def inverse(self, g: Any) -> Any:
        """The element that undoes ``g``."""

    @abstractmethod
    def compose(self, g: Any, h: Any) -> Any:
        """The element that does ``h`` first and then ``g``."""

    @abstractmethod
    def contains(self, g: Any, atol: float | None = None) -> Tensor:
        """Whether each tensor is an element, up to ``atol`` (by default what the dtype allows), ``(*batch,)``."""

    @abstractmethod
    def cloud(
        self,
        inputs: Sequence[Input],
        mask: Tensor | None = None,
        batch: Tensor | BatchVector | None = None,
        names: tuple[str, str] = ("mask", "batch"),
    ) -> Cloud:
        """Check inputs that determine a frame, and combine them. ``names``: of mask and batch."""

    @abstractmethod
    def frame_of(self, cloud: Cloud) -> Frame:
        """The minimal frame that the inputs of a cloud determine together."""

    @abstractmethod
    def check(self, x: Tensor, type: str, name: str, layout: Layout) -> None:
        """Raise an error that refers to ``x`` by ``name`` unless it can be of this type in a batch of this layout."""

    def frame(
        self,
        x: Tensor,
        type: str = "point",
        mask: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Frame:
        """The minimal frame of a cloud.

        Args:
            x: ``(*batch, n, d)``, or ``(N, d)`` with a batch vector.
            type: one of the types that determine a frame, such as ``"point"``.
            mask: ``(*batch, n)``, True for real rows.
            batch: ``(N,)``, the sample number of each row.
            batch_size: the number of samples in ``batch``; without it, it is read.
        """
        self.frame_type(type)
        return self.frame_of(self.cloud([Input("x", x, type)], mask, batch_vector(batch, batch_size)))

    def type(self, name: str) -> Type:
        """The type of that name, or a ``ValueError`` that lists the ones this group has."""
        try:
            return self.types[name]
        except (KeyError, TypeError):
            raise ValueError(f"{self} has no type {name!r}: use one of {', '.join(self.types)}") from None

    def frame_type(self, name: str) -> Type:
        """The type of an input that determines the frame."""
        kind = self.type(name)
        if kind.name not in self.frame_types:
            allowed = " or ".join(repr(t) for t in self.frame_types)
            raise ValueError(f"a frame of {self} is taken of a {allowed} input, got type {name!r}")
        self.check_frame_types([kind.name])
        return kind

    def check_frame_types(self, names: Sequence[str]) -> None:
        """Raise a ``ValueError`` unless inputs of these types together can determine a frame."""


def check_dimension(d: object, name: str) -> None:
    """Raise an error unless ``d`` is an integer of at least one."""
    if not isinstance(d, int) or isinstance(d, bool):
        raise TypeError(f"{name} needs an integer dimension, got {d!r}")
    if d < 1:
        raise ValueError(f"{name} needs a dimension of at least 1, got {d}")


def default_atol(g: Tensor) -> float:
    """The tolerance of ``contains``: far above the rounding of composed elements, far below wrong ones."""
    return float(torch.finfo(g.dtype).eps ** (2 / 3))
