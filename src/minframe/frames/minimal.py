"""The minimal frame: one canonical pose, one forward pass, the stabiliser averaged in closed form."""

from __future__ import annotations

from dataclasses import dataclass

from minframe.cloud import Cloud
from minframe.frame import Frame
from minframe.groups.base import Group


@dataclass(frozen=True)
class Minimal:
    """The default of ``Equivariant``: exact, at the cost of one forward pass."""

    def __call__(self, group: Group, cloud: Cloud) -> Frame:
        return group.frame_of(cloud)
