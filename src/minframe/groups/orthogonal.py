"""The orthogonal groups O(d), SO(d), O(p, q) and SO(p, q)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minframe.groups.isometry import Isometry


@dataclass(frozen=True, repr=False)
class O(Isometry):  # noqa: E742 (the group's name)
    """Rotations and reflections of ``d``-space, ``g^T g = 1``; ``O(p, q)``: ``g^T eta g = eta``, p signs + and q -."""


@dataclass(frozen=True, repr=False)
class SO(Isometry):
    """The matrices of O(d) or O(p, q) with determinant one."""

    special: ClassVar[bool] = True
