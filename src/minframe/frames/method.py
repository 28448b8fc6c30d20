"""The base of the methods: their source of randomness, and their representation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.frame import Frame
from minframe.groups.base import Group


@dataclass(frozen=True, repr=False)
class Method(ABC):
    """A way to choose frames: ``method(group, cloud)`` gives one frame, or several whose results are averaged.

    Args:
        seed: makes the sequence of random choices reproducible. Each call continues the sequence.
        generator: a generator to use instead of a seed. Without either, the default generator of PyTorch is used.
    """

    seed: int | None = field(default=None, kw_only=True)
    generator: torch.Generator | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        if self.seed is None:
            return
        if self.generator is not None:
            raise ValueError("give seed= or generator=, not both")
        object.__setattr__(self, "generator", torch.Generator().manual_seed(self.seed))

    def frame_types(self, group: Group) -> tuple[str, ...]:
        """The types of inputs that determine the choice; the type that defines the rows first."""
        return group.frame_types

    def labelling(self, group: Group) -> str | None:
        """Name and version of the library that the choice may depend on."""
        return group.labelling

    @abstractmethod
    def __call__(self, group: Group, cloud: Cloud) -> Frame | Sequence[Frame]:
        """The frame of a cloud, or several."""

    def needs_features(self, found: Frame | Sequence[Frame]) -> bool:
        """Whether features of rows, such as atomic numbers, would change what was found without them."""
        return False

    def __repr__(self) -> str:
        shown = [f for f in fields(self) if f.name != "generator" and getattr(self, f.name) != f.default]
        shown.sort(key=lambda f: f.name == "seed")
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def _source(self, device: torch.device) -> torch.device:
        """The device on which random numbers for ``device`` are drawn."""
        return device if self.generator is None else self.generator.device

    def _uniform(self, *shape: int, device: torch.device) -> Tensor:
        """Random numbers from 0 to 1, in float64."""
        drawn = torch.rand(*shape, dtype=torch.float64, device=self._source(device), generator=self.generator)
        return drawn.to(device)

    def _normal(self, *shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(*shape, dtype=dtype, device=self._source(device), generator=self.generator).to(device)

    def _unable(self, group: Group, serves: str) -> ValueError:
        """The error for a group that this method does not support."""
        return ValueError(f"mf.frames.{self!r} serves {serves}, not {group}: use mf.frames.Minimal(), which serves all")


def check_samples(samples: object, name: str) -> None:
    """Raise an error unless ``samples`` is an integer of at least one."""
    if not isinstance(samples, int) or isinstance(samples, bool):
        raise TypeError(f"{name} needs an integer number of samples, got {samples!r}")
    if samples < 1:
        raise ValueError(f"{name} needs at least one sample, got {samples}")
