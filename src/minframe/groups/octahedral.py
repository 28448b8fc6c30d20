"""The symmetries of the cube."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product

import torch
from torch import Tensor

from minframe.constants import constant
from minframe.groups.discrete import Discrete
from minframe.groups.linear import described


@dataclass(frozen=True, repr=False)
class Octahedral(Discrete):
    """The 24 rotations of space that map a cube to itself; with ``reflections`` all 48 such isometries.

    They act on points about the origin and on ``"voxels"``.

    >>> import torch, minframe as mf
    >>> voxels = torch.randn(2, 1, 5, 5, 5)
    >>> pose, frame = mf.canonicalize(voxels, mf.Octahedral(), type="voxels")
    >>> turned, _ = mf.canonicalize(voxels.rot90(1, (-1, -3)).flip(-2, -1), mf.Octahedral(), type="voxels")
    >>> torch.equal(pose, turned), frame.size
    (True, [1, 1])
    """

    reflections: bool = False
    d = 3

    def __post_init__(self) -> None:
        if not isinstance(self.reflections, bool):
            raise TypeError(f"reflections must be True or False, got {self.reflections!r}")

    def __repr__(self) -> str:
        return described(self, *(["reflections=True"] if self.reflections else []))

    @property
    def matrices(self) -> Tensor:
        return _signed_permutations(self.reflections)

    @property
    def maps_grids(self) -> bool:
        return True


@constant(maxsize=2)
def _signed_permutations(reflections: bool) -> Tensor:
    """All signed permutation matrices, or those of determinant one; the identity first."""
    eye = torch.eye(3, dtype=torch.float64)
    signs = torch.tensor(list(product((1.0, -1.0), repeat=3)), dtype=torch.float64)
    all_ = torch.cat([eye[list(p)] * signs.unsqueeze(-1) for p in permutations(range(3))])
    return all_ if reflections else all_[torch.linalg.det(all_) > 0]
