"""Velocity Verlet for many molecules at once, and what the path conserves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe_lab.experiments.experiment import Advance

Field = Callable[[Tensor], tuple[Tensor, Tensor]]  # positions (B, n, 3) to energies (B,) and forces (B, n, 3)
FEMTOSECOND = 0.09822694788464063  # in ASE's unit of time, in which eV = amu angstrom^2 / time^2
APART = 3.5  # angstrom from an atom to its nearest neighbour, at which it has left the molecule
BLOCKS = 20  # parts of a path whose mean energies tell how sure its drift is: 1 ps each of 20 ps
CHECKED = 5  # steps from one look at that to the next


@dataclass(frozen=True)
class Paths:
    """Total energies ``(steps + 1, B)``, momenta and angular momenta ``(steps + 1, B, 3)``, and the state at the end.

    ``whole`` ``(B,)`` is the number of steps after which each molecule was seen in one piece for the last time. Those
    that have come apart rest where they were then.
    """

    energy: Tensor
    momentum: Tensor
    angular: Tensor
    whole: Tensor
    positions: Tensor
    velocities: Tensor

    @property
    def conserved(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.energy, self.momentum, self.angular


def integrate(
    field: Field,
    positions: Tensor,
    velocities: Tensor,
    masses: Tensor,
    steps: Tensor,
    count: int,
    advance: Advance = lambda _: None,
    mask: Tensor | None = None,
) -> Paths:
    """``count`` steps of length ``steps`` ``(B,)``, in fs, of molecules ``(B, n, 3)`` whose atoms are in ``mask``.

    x' = x + v h + a h^2 / 2,   v' = v + (a + a') h / 2: symplectic and reversible, so that in a smooth potential the
    energy errs by O(h^2) and does not drift; see Hairer, Lubich and Wanner, Geometric Numerical Integration.
    The path ends when all molecules have come apart. An interrupt ends it where it is.
    """
    h = (steps * FEMTOSECOND)[:, None, None]
    real = torch.ones_like(positions[..., 0], dtype=torch.bool) if mask is None else mask
    safe, (energy, force) = positions, field(positions)
    rows = []
    going = torch.ones_like(steps, dtype=torch.bool)
    whole = torch.zeros_like(steps, dtype=torch.int64)

    def note() -> None:
        momenta = masses * velocities
        kinetic = (momenta * velocities).sum((-2, -1)) / 2
        angular = torch.linalg.cross(positions, momenta).sum(-2)
        rows.append(torch.cat([(energy + kinetic).unsqueeze(-1), momenta.sum(-2), angular], -1))

    note()
    try:
        for number in range(1, count + 1):
            velocities = velocities + force / masses * h / 2
            positions = positions + velocities * h
            energy, force = field(positions)
            velocities = velocities + force / masses * h / 2
            note()
            if number % CHECKED == 0 or number == count:
                going = going & _in_one_piece(positions, real)
                whole = torch.where(going, number, whole)
                kept = going[:, None, None]
                safe = positions = torch.where(kept, positions, safe)
                velocities, h = torch.where(kept, velocities, 0.0), torch.where(kept, h, 0.0)
                if not bool(going.any()):
                    break
            if number % 100 == 0:
                advance(100)
    except KeyboardInterrupt:  # a shorter path is worth having, and says how long it is
        whole = torch.where(going, len(rows) - 1, whole)
    table = torch.stack(rows)
    return Paths(table[..., 0], table[..., 1:4], table[..., 4:], whole, positions, velocities)


def _in_one_piece(positions: Tensor, real: Tensor) -> Tensor:
    """Whether every atom has a neighbour within ``APART``."""
    apart = (positions.unsqueeze(-2) - positions.unsqueeze(-3)).square().sum(-1)
    alone = ~real[..., None, :] | torch.eye(real.shape[-1], dtype=torch.bool)
    nearest = apart.masked_fill(alone, torch.inf).amin(-1)
    return ((nearest < APART**2) | ~real).all(-1)  # NaN is in no piece


def line(energy: Tensor) -> tuple[Tensor, Tensor]:
    """The slope per step of the straight line through energies ``(steps + 1,)``, and its standard error.

    Neighbouring energies are correlated, so the error comes from what means over ``BLOCKS`` parts of the path differ by
    from a line through them: var(slope) = residual variance / sum of squared times.
    """
    slope, _ = _fitted(energy)
    size = max(1, len(energy) // BLOCKS)
    blocks = energy[: len(energy) // size * size].view(-1, size).mean(-1)
    _, rest = _fitted(blocks)
    count = len(blocks)
    variance = rest.square().sum() / max(1, count - 2) / (count * (count**2 - 1) / 12)
    return slope, variance.sqrt() / size


def _fitted(y: Tensor) -> tuple[Tensor, Tensor]:
    """The slope of the line of least squares through equally spaced values, and what is left of them."""
    time = torch.arange(len(y), dtype=y.dtype) - (len(y) - 1) / 2
    slope = (time * y).sum() / time.square().sum()
    return slope, y - y.mean() - slope * time


def summary(path: Sequence[Tensor], step: float) -> dict[str, float]:
    """What a path conserves: energy ``(steps + 1,)``, momentum and angular momentum ``(steps + 1, 3)``; ``step`` in fs.

    ``range`` is the difference between the largest and the smallest total energy; ``drift`` the slope of a straight
    line through it, times the length of the path, ``drift_error`` its standard error; ``jump`` its largest change in a
    single step; in eV. ``momentum`` and ``angular`` are the largest distance from the start, in ASE's units, the latter
    also over its size at the start.
    """
    energy, momentum, angular = path
    length = (len(energy) - 1) * step / 1000
    if len(energy) == 1:  # apart at once: nothing is known
        energy, momentum, angular = (torch.cat([x, x * torch.nan]) for x in path)
    slope, error = line(energy)
    turned = (angular - angular[0]).norm(dim=-1).max()
    return {
        "picoseconds": length,
        "range": float(energy.max() - energy.min()),
        "deviation": float(energy.std()),
        "drift": float(slope.abs() * (len(energy) - 1)),
        "drift_error": float(error * (len(energy) - 1)),
        "jump": float(energy.diff().abs().max()),
        "momentum": float((momentum - momentum[0]).norm(dim=-1).max()),
        "angular": float(turned),
        "angular_relative": float(turned / angular[0].norm()),
    }
