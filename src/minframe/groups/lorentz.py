"""The Lorentz groups: isometries of space-time, energy and time first, metric (+, -, ..., -).

| group | keeps | parity (det -1) | time reversal |
|---|---|---|---|
| ``Lorentz(d)`` = O(1, d-1) | products ``<p, q>`` | in it | in it |
| ``ProperLorentz(d)`` = SO(1, d-1) | and the orientation of space-time | only together with time reversal | |
| ``OrthochronousLorentz(d)`` = SO+(1, d-1) | and the sign of energies | not in it | not in it |
| ``OrthochronousLorentz(d, parity=True)`` = O+(1, d-1) | products and the sign of energies | in it | not in it |

For components in the order ``(x, y, z, t)`` use ``O(3, 1)``. The sign convention, (+, -, -, -) or (-, +, +, +), does
not affect the groups, whose matrices are the same. It affects products: ``group.inner(p, p)`` is ``+m^2`` here, and
``group.inner(p, p, negate=True)`` follows the other convention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minframe.groups.base import check_dimension
from minframe.groups.isometry import Isometry
from minframe.groups.linear import described
from minframe.groups.orthogonal import SO, O


def Lorentz(d: int = 4) -> O:  # noqa: N802 (a group's name)
    """O(1, d-1): boosts, rotations, parity and time reversal."""
    check_dimension(d, "Lorentz")
    return O(1, d - 1)


def ProperLorentz(d: int = 4) -> SO:  # noqa: N802 (a group's name)
    """SO(1, d-1): the Lorentz transformations of determinant one."""
    check_dimension(d, "ProperLorentz")
    return SO(1, d - 1)


@dataclass(frozen=True, repr=False, init=False)
class OrthochronousLorentz(Isometry):
    """SO+(1, d-1): boosts, rotations and their products; neither parity nor time reversal.

    With ``parity=True``, O+(1, d-1): reflections of space too. The default excludes them, so that a backbone can
    distinguish left from right.
    """

    parity: bool = False
    orthochronous: ClassVar[bool] = True

    def __init__(self, d: int = 4, *, parity: bool = False) -> None:
        check_dimension(d, "OrthochronousLorentz")
        object.__setattr__(self, "parity", parity)
        object.__setattr__(self, "p", 1)
        object.__setattr__(self, "q", d - 1)
        self.__post_init__()

    @property
    def special(self) -> bool:  # type: ignore[override]
        return not self.parity

    def __repr__(self) -> str:
        return described(self, self.d, *(["parity=True"] if self.parity else []))
