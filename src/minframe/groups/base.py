"""What a group is: the laws, and the little that all groups share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.errors import check_cloud, check_core
from minframe.frame import Frame
from minframe.linalg.action import behind_batch, narrow, transform
from minframe.ragged import layout_of
from minframe.types import LINEAR_TYPES, Type


class Group(ABC):
    """A symmetry group acting on rows ``x`` of shape ``(*batch, n, d)``.

    A group is a small immutable value: equal to another if they mean the same group, hashable, picklable. An element is
    a tensor with the batch axes in front. For all elements g, h and inputs x of any type the following laws hold, and
    ``tests/test_laws.py`` checks them for every row of its table:

    1. *Action*: ``act(g, act(h, x)) = act(compose(g, h), x)`` and ``act(inverse(g), act(g, x)) = x``.
    2. *Membership*: ``random``, ``compose``, ``inverse`` and ``frame(x).element`` give elements that ``contains``
       accepts.
    3. *Invariance*: ``frame(act(g, x)).to_canonical(act(g, x)) = frame(x).to_canonical(x)``: one pose per orbit.
    4. *Idempotence*: the canonical pose is its own canonical pose.
    5. *There and back*: ``frame(x).from_canonical(frame(x).to_canonical(x)) = x``.
    6. *Equivariance of the frame*: ``frame(act(g, x)).from_canonical(y) = act(g, frame(x).from_canonical(y))``.
    """

    #: length of the coordinate axis
    d: int
    #: whether it acts on complex numbers
    complex: bool = False

    @abstractmethod
    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Random elements ``(*batch, ...)``, by the Haar measure where the group is compact.

        ``n`` is the number of rows, for groups that permute them; the others ignore it.
        """

    @abstractmethod
    def parts(self, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The matrix and the shift by which an element acts on points; ``None`` for one that the group lacks."""

    @abstractmethod
    def assemble(self, linear: Tensor | None, shift: Tensor | None) -> Tensor:
        """The element with these parts."""

    @abstractmethod
    def inverse(self, g: Tensor) -> Tensor:
        """The element that undoes ``g``."""

    @abstractmethod
    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The element that does ``h`` first and then ``g``."""

    @abstractmethod
    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        """Whether each tensor is an element, up to ``atol`` (by default what the dtype allows), ``(*batch,)``."""

    @abstractmethod
    def frame_of(self, cloud: Cloud) -> Frame:
        """The minimal frame that the inputs of a cloud determine together."""

    def frame(self, x: Tensor, type: str = "point", mask: Tensor | None = None, batch: Tensor | None = None) -> Frame:
        """The minimal frame of a cloud.

        Args:
            x: ``(*batch, n, d)``, or ``(N, d)`` with a batch vector.
            type: ``"point"`` or ``"vector"``.
            mask: ``(*batch, n)``, True for real rows.
            batch: ``(N,)``, the sample number of each row.
        """
        kind = self.frame_type(type)
        self.check_frame_types([type])
        check_cloud(x, self.d, self, "x", self.complex)
        layout = layout_of(x, mask, batch)
        return self.frame_of(Cloud([(layout.clean(x, kind.order), kind)], layout))

    def act(self, g: Tensor, x: Tensor, type: str = "point") -> Tensor:
        """``g . x``. The axes of ``x`` begin with the batch axes of ``g``; an element without any moves everything."""
        kind = self.type(type)
        linear, shift = self.parts(g)
        if kind.order or kind.parity:
            batch = tuple(linear.shape[:-2] if linear is not None else g.shape[:-1])
            self._check_element(linear, shift)
            check_core(x, kind.order, self.d, type, "x", batch, self.complex)
        det = torch.linalg.det(linear) if kind.parity and linear is not None else None
        matrix = torch.linalg.inv(linear).mT if kind.dual and linear is not None else linear
        y = transform(x, kind, matrix, det)
        if shift is not None and kind.affine:
            y = y + behind_batch(shift, y, 1)
        return narrow(y, x.dtype)

    def _check_element(self, linear: Tensor | None, shift: Tensor | None) -> None:
        fits = linear is None or tuple(linear.shape[-2:]) == (self.d, self.d)
        if not (fits and (shift is None or shift.shape[-1] == self.d)):
            part = linear if linear is not None else shift
            assert part is not None
            raise ValueError(f"g is no element of {self}: the shape of its action is {tuple(part.shape)}")

    def type(self, name: str) -> Type:
        """The type of that name, or a ``ValueError`` that lists the ones this group has."""
        try:
            return LINEAR_TYPES[name]
        except (KeyError, TypeError):
            raise ValueError(f"{self} has no type {name!r}: use one of {', '.join(LINEAR_TYPES)}") from None

    def frame_type(self, name: str) -> Type:
        """The type of an input that determines the frame."""
        kind = self.type(name)
        if kind.name not in ("point", "vector"):
            raise ValueError(f"a frame of {self} is taken of a 'point' or 'vector' input, got type {name!r}")
        return kind

    def check_frame_types(self, names: Sequence[str]) -> None:
        """Raise a ``ValueError`` unless inputs of these types together can determine a frame."""


def check_dimension(d: object, name: str) -> None:
    """A dimension is an integer, at least one."""
    if not isinstance(d, int) or isinstance(d, bool):
        raise TypeError(f"{name} needs an integer dimension, got {d!r}")
    if d < 1:
        raise ValueError(f"{name} needs a dimension of at least 1, got {d}")


def default_atol(g: Tensor) -> float:
    """What ``contains`` allows: far above the rounding of a composed element, far below a wrong one."""
    return float(torch.finfo(g.dtype).eps ** (2 / 3))
