"""The unitary groups U(d), SU(d), U(p, q) and SU(p, q), on complex tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minframe.groups.isometry import Isometry


@dataclass(frozen=True, repr=False)
class U(Isometry):
    """Complex matrices with ``g^* g = 1``; ``U(p, q)``: ``g^* eta g = eta`` with p signs + and q -."""

    complex = True


@dataclass(frozen=True, repr=False)
class SU(U):
    """The matrices of U(d) or U(p, q) with determinant one."""

    special: ClassVar[bool] = True
