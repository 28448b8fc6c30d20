"""Velocity Verlet for many molecules at once, and what the path conserves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe_lab.experiments.experiment import Advance

Field = Callable[[Tensor], tuple[Tensor, Tensor]]  # positions (B, n, 3) to energies (B,) and forces (B, n, 3)
FEMTOSECOND = 0.09822694788464063  # in ASE's unit of time, in which eV = amu angstrom^2 / time^2
LOST = 100.0  # angstrom in ASE's unit of time: a molecule this fast has come apart, and stays where it is


@dataclass(frozen=True)
class Paths:
    """Total energies ``(steps + 1, B)``, momenta and angular momenta ``(steps + 1, B, 3)``."""

    energy: Tensor
    momentum: Tensor
    angular: Tensor


def integrate(
    field: Field,
    positions: Tensor,
    velocities: Tensor,
    masses: Tensor,
    steps: Tensor,
    count: int,
    advance: Advance = lambda _: None,
) -> Paths:
    """``count`` steps of length ``steps`` ``(B,)``, in fs, of molecules ``(B, n, 3)``.

    x' = x + v h + a h^2 / 2,   v' = v + (a + a') h / 2: symplectic and reversible, so that in a smooth potential the
    energy errs by O(h^2) and does not drift; see Hairer, Lubich and Wanner, Geometric Numerical Integration.
    An interrupt ends the path where it is.
    """
    h = (steps * FEMTOSECOND)[:, None, None]
    energy, force = field(positions)
    rows = []

    def note() -> None:
        momenta = masses * velocities
        kinetic = (momenta * velocities).sum((-2, -1)) / 2
        angular = torch.linalg.cross(positions, momenta).sum(-2)
        rows.append(torch.cat([(energy + kinetic).unsqueeze(-1), momenta.sum(-2), angular], -1))

    note()
    try:
        for number in range(count):
            velocities = velocities + force / masses * h / 2
            velocities = torch.where((velocities.abs() < LOST).all(-1).all(-1)[:, None, None], velocities, 0.0)
            positions = positions + velocities * h
            energy, force = field(positions)
            velocities = velocities + force / masses * h / 2
            note()
            if (number + 1) % 100 == 0:
                advance(100)
    except KeyboardInterrupt:  # a shorter path is worth having, and says how long it is
        pass
    table = torch.stack(rows)
    return Paths(table[..., 0], table[..., 1:4], table[..., 4:])


def summary(path: Sequence[Tensor], step: float) -> dict[str, float]:
    """What a path conserves: energy ``(steps + 1,)``, momentum and angular momentum ``(steps + 1, 3)``; ``step`` in fs.

    ``range`` is the difference between the largest and the smallest total energy; ``drift`` the slope of a straight
    line through it, times the length of the path; ``jump`` its largest change in a single step; in eV. ``momentum`` and
    ``angular`` are the largest distance from the start, in ASE's units, the latter also over its size at the start.
    """
    energy, momentum, angular = path
    time = torch.arange(len(energy), dtype=energy.dtype) - (len(energy) - 1) / 2
    slope = (time * energy).sum() / time.square().sum()
    turned = (angular - angular[0]).norm(dim=-1).max()
    return {
        "picoseconds": (len(energy) - 1) * step / 1000,
        "range": float(energy.max() - energy.min()),
        "deviation": float(energy.std()),
        "drift": float(slope.abs() * (len(energy) - 1)),
        "jump": float(energy.diff().abs().max()),
        "momentum": float((momentum - momentum[0]).norm(dim=-1).max()),
        "angular": float(turned),
        "angular_relative": float(turned / angular[0].norm()),
    }
