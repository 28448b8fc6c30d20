"""Frames in the plane of a slab, taken of neighbour vectors.

The rows that a frame is taken of are two for each atom: sums over its neighbours of the vectors to them, with weights
that fade out at the cutoff, the second also by the atomic number of the neighbour. They do not know which image of an
atom is stored, which basis the lattice has, or where the origin is, and they turn with the slab. The symmetry of these
rows, with the kinds and heights of their atoms, is that of the structure but for coincidences; where a structure has
no row of any length in the plane, such as a clean unstrained (100) face, there is no frame to be had of it.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

import minframe as mf

GROUP = mf.O(2) + mf.Trivial(1)  # what mf.E(2) + mf.Trivial(1) does to vectors
FRAMES = {"minimal": mf.frames.Minimal(), "unordered": mf.frames.Unordered()}
METHODS = ("minimal", "unordered", "pca", "stochastic", "augmented", "plain")
SIGNS = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))


def rows(numbers: Tensor, vectors: Tensor, index: Tensor, cutoff: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rows ``(B, 2 n, 3)``, what they belong to, ``(B, 2 n, 2)``, and which are there, ``(B, 2 n)``.

    The third coordinate, which the group leaves alone, is the sum of the vectors along the normal; the kind of row and
    the atomic number tell rows apart where coordinates do not.
    """
    x, y, z = vectors.unbind(-1)
    fade = (1 - (x * x + y * y + z * z) / cutoff**2).clamp_min(0).square() * (index >= 0)
    kind = numbers.gather(1, index.clamp_min(0).flatten(1)).view_as(index).to(vectors.dtype) / 100
    found = (torch.stack([fade, fade * kind], 2) @ vectors).unbind(2)
    belongs = [torch.stack([numbers, torch.full_like(numbers, i)], -1).to(vectors.dtype) for i in range(2)]
    there = numbers > 0
    return torch.cat(found, 1), torch.cat(belongs, 1), torch.cat([there, there], 1)


def _shown(row: Tensor, atom: Tensor, mask: Tensor) -> Tensor:
    return row


WRAPPED = {
    name: mf.Invariant(_shown, GROUP, {"row": "vector", "atom": "node"}, mask="mask", frames=frames)
    for name, frames in FRAMES.items()
}  # of which frames alone are asked


def poses(method: str, numbers: Tensor, vectors: Tensor, index: Tensor, cutoff: float) -> Tensor:
    """Matrices ``(B, p, 3, 3)`` in float64 that take vectors, as columns, to their canonical poses."""
    row, atom, mask = rows(numbers, vectors.double(), index, cutoff)
    if method in FRAMES:
        return WRAPPED[method].frame(row, atom, mask=mask).element.mT.unsqueeze(1)
    # FA: the principal axes of the rows in the plane, with all signs.
    plane = row[..., :2] * mask.unsqueeze(-1)
    axes = torch.linalg.eigh(plane.mT @ plane)[1].mT
    signs = torch.tensor(SIGNS, dtype=axes.dtype, device=axes.device)
    found = torch.zeros(len(row), len(SIGNS), 3, 3, dtype=axes.dtype, device=axes.device)
    found[:, :, :2, :2] = signs[None, :, :, None] * axes[:, None]
    found[:, :, 2, 2] = 1
    return found


def turned(vectors: Tensor, pose: Tensor) -> Tensor:
    """Vectors ``(B, n, k, 3)`` moved by one matrix ``(B, 3, 3)`` each; in double precision."""
    return vectors.double() @ pose.double().mT.unsqueeze(1)


class InPlane(nn.Module):
    """A network of slabs in frames of its plane; an energy ``(B,)``."""

    def __init__(self, network: nn.Module, method: str, cutoff: float) -> None:
        super().__init__()
        self.network, self.method, self.cutoff = network, method, cutoff

    def pose(self, numbers: Tensor, vectors: Tensor, index: Tensor) -> Tensor:
        """What the network is shown of a minimal frame, in single precision."""
        return turned(vectors, poses(self.method, numbers, vectors, index, self.cutoff)[:, 0]).float()

    def forward(self, numbers: Tensor, tags: Tensor, vectors: Tensor, index: Tensor) -> Tensor:
        if self.method == "augmented" and self.training:
            return self._passed(numbers, tags, turned(vectors, GROUP.random(len(vectors), dtype=torch.float64)), index)
        if self.method in ("plain", "augmented"):
            return self._passed(numbers, tags, vectors, index)
        found = poses(self.method, numbers, vectors, index, self.cutoff)
        if self.method == "stochastic":
            drawn = torch.randint(len(SIGNS), (len(found),), device=found.device)
            found = found[torch.arange(len(found), device=found.device), drawn].unsqueeze(1)
        answers = [self._passed(numbers, tags, turned(vectors, pose), index) for pose in found.unbind(1)]
        return torch.stack(answers).mean(0)

    def _passed(self, numbers: Tensor, tags: Tensor, vectors: Tensor, index: Tensor) -> Tensor:
        return cast(Tensor, self.network(numbers, tags, vectors, index))
