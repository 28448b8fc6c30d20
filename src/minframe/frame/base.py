"""The result of ``group.frame(x)``: the canonical pose of a cloud, and the maps to it and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from minframe.checks import data_checks_enabled
from minframe.cloud import Cloud
from minframe.frame.record import Known, Stored, mapped
from minframe.frame.size import Size, shown
from minframe.layout import Layout, described, same_rows
from minframe.types import Type


class Acts(Protocol):
    """The interface of a group that a frame uses."""

    def type(self, name: str, /) -> Type:
        """The type of that name, or a ``ValueError``."""

    def check(self, x: Tensor, type: str, name: str, layout: Layout, /) -> None:
        """Raise an error that calls ``x`` by its ``name`` unless it can be of this type in a batch of this layout."""

    def frame_of(self, cloud: Cloud, /) -> Frame:
        """The minimal frame that the inputs of a cloud determine together."""


class Frame(Stored, ABC):
    """The minimal frame of a batch of clouds: the cosets ``g0 Stab(canonical pose)``, held as elements ``g0``.

    ``rank`` and ``margin`` are tensors with one entry per sample, ``(*batch,)``; ``size`` holds Python numbers.

    Frames can be pickled, and so come from the workers of a loader or from a file. They are then constants, without the
    inputs that determined them; a wrapped model takes them as ``model(x, frame=frame)``.
    """

    group: Acts
    layout: Layout
    #: layout of the inputs and outputs of a backbone
    shown_layout: Layout
    #: whether scalars, including those of rows, are the same in every frame
    keeps_scalars: bool = True
    #: whether a backbone sees the rows in their own order, and so masks and batch vectors unchanged
    keeps_rows: bool = True
    #: of a frame that was pickled: the labelling library that its order depends on
    labelling: str | None = None

    @property
    @abstractmethod
    def element(self) -> Tensor:
        """``g0``, in the group, in the dtype of the cloud."""

    @property
    @abstractmethod
    def rank(self) -> Tensor:
        """Dimension of the span of the cloud."""

    @property
    @abstractmethod
    def size(self) -> Size:
        """The number of elements as a Python integer, or ``inf`` where the stabiliser is continuous.

        For a batch, nested lists of them in the shape of the batch axes. Permutations are counted exactly, however many
        there are.
        """

    @property
    @abstractmethod
    def margin(self) -> Tensor:
        """Relative distance of the nearest discrete decision from flipping.

        Where it is small, the canonical pose jumps nearby. Every frame of finite size has such places.
        """

    @abstractmethod
    def to_canonical(self, x: Tensor, type: str = "point") -> Tensor:
        """``g0^-1 . x``."""

    @abstractmethod
    def from_canonical(self, y: Tensor, type: str = "point") -> Tensor:
        """The average of ``g . y`` over the frame, exact."""

    @abstractmethod
    def pose(self, x: Tensor, type: str = "point", own: bool = False) -> Tensor:
        """The input of a backbone: the average of ``g^-1 . x`` over the frame, which does not depend on ``g0``.

        ``own``: ``x`` is one of the inputs that determined the frame. It then lies in the span of the frame, and
        components outside of the span, which are rounding, are set to zero.
        """

    def shown(self, x: Tensor, kind: Type, own: bool) -> Tensor:
        """``pose`` of a tensor whose type has been checked."""
        return self.pose(x, kind.name, own)

    def carried_back(self, y: Tensor, kind: Type) -> Tensor:
        """``from_canonical`` of a tensor whose type has been checked."""
        return self.from_canonical(y, kind.name)

    def reorder(self, x: Tensor) -> Tensor:
        """A mask or a batch vector in the order of the rows that a backbone is shown."""
        return x

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The frame as a constant, with its tensors on another device."""
        made = object.__new__(type(self))
        made.__dict__.update(mapped(lambda x: x.to(device, non_blocking=non_blocking), self.__getstate__()))
        return made

    def for_other_inputs(self) -> Frame:
        """The frame for inputs that may not be those that determined it, whose pose it may remember."""
        return self

    def check_inputs(self, cloud: Cloud) -> None:
        """Raise an error unless this may be the frame of these inputs."""
        mine, given = self.layout, cloud.layout
        if described(mine) != described(given):
            raise ValueError(f"frame is that of {described(mine)}, but the inputs are {described(given)}")
        if data_checks_enabled() and not same_rows(mine, given):
            raise ValueError("frame is that of another batch: its mask or batch vector differs from the one given")

    def collated(self, frames: Sequence[Frame], layout: Layout) -> Frame:
        """Frames of single samples, this one among them, as the frame of a batch with this layout."""
        raise self.not_combined()

    def not_combined(self) -> TypeError:
        """The error for frames that cannot be combined."""
        return TypeError(
            f"frames of {self.group} by {type(self).__name__} are not combined sample by sample: find the frame of the "
            "whole batch at once, for example in collate_fn: model.frame(batch)"
        )

    def stored(self) -> dict[str, Any]:
        state = super().stored()
        if "_margin" in state:  # what is left to compute then would need the inputs
            state["_margin"] = Known(state["_margin"]())
        return state | {"labelling": self.labelling or getattr(self.group, "labelling", None)}

    def __repr__(self) -> str:
        return f"Frame(group={self.group}, rank={self.rank.tolist()}, size={shown(self.size)})"
