"""Minimal frames that do not depend on the order of the rows, for backbones on sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minframe.cloud import Cloud
from minframe.frame import Frame, LinearFrame
from minframe.frame.invariant import unordered_frame
from minframe.frame.product import ProductFrame
from minframe.frames.minimal import Minimal
from minframe.groups.base import Group
from minframe.groups.finite import Finite
from minframe.groups.linear import LinearGroup
from minframe.labelling.backend import installed_point_version

RELATIONS = ("node", "edge", "edge_index", "edge_attr")  # types that distinguish rows


@dataclass(frozen=True, repr=False)
class Unordered(Minimal):
    """Exact, at the cost of one forward pass, and independent of the order of the rows.

    A backbone that respects permutations (a GNN, a transformer) keeps doing so inside ``Equivariant``: its outputs move
    with the rows. Features that distinguish rows besides their coordinates, such as atomic numbers, must be given as
    inputs of type ``"node"``, ``"edge"``, ``"edge_index"`` or ``"edge_attr"``; they decide where the coordinates leave
    a choice.

    >>> import torch, minframe as mf
    >>> on_sets = lambda x: torch.tanh(x) + x.mean(-2, keepdim=True)
    >>> model = mf.Equivariant(on_sets, mf.O(3), frames=mf.frames.Unordered())
    >>> x, p = torch.randn(9, 3, dtype=torch.float64), torch.randperm(9)
    >>> torch.allclose(model(x[p]), model(x)[p])
    True

    ``S()`` and its products order the rows themselves; for them it is the same as ``Minimal``.
    """

    ignores_row_order: ClassVar[bool] = True

    def frame_types(self, group: Group) -> tuple[str, ...]:
        return (*group.frame_types, *RELATIONS) if isinstance(group, LinearGroup) else group.frame_types

    def labelling(self, group: Group) -> str | None:
        return installed_point_version(group.point_order_version) if isinstance(group, LinearGroup) else group.labelling

    def __call__(self, group: Group, cloud: Cloud) -> Frame:
        return self._frame(group, cloud) if self.mode == "average" else super().__call__(group, cloud)

    def needs_features(self, found: Frame | Sequence[Frame]) -> bool:
        """Only between rows that the coordinates leave equivalent; see ``frame.invariant``."""
        if self.mode != "average":
            return True
        return not (isinstance(found, LinearFrame) or (isinstance(found, ProductFrame) and not found.symmetric))

    def _frame(self, group: Group, cloud: Cloud) -> Frame:
        if isinstance(group, Finite) and any(kind.name in group.rows for _, kind in cloud.inputs):
            raise ValueError(
                f"{group} has no frames of one pose that ignore the order of rows: use mf.frames.Smooth(), which do "
                "not depend on it, or, where rows are points, mf.Cyclic, mf.Dihedral or mf.Octahedral"
            )
        return unordered_frame(group, cloud) if isinstance(group, LinearGroup) else group.frame_of(cloud)
