"""Snapshots of four molecules with their energies and forces, and the states that trajectories start from."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from minframe_lab.experiments.cache import cached
from minframe_lab.experiments.dynamics import molecules
from minframe_lab.experiments.experiment import Advance, Batch

COUNTS = {
    "train": 1600,
    "validation": 150,
    "test": 200,
}  # snapshots of each molecule; every split has a path of its own


def generate(split: str, count: int, advance: Advance = lambda _: None) -> tuple[Tensor, ...]:
    """Positions, energies and forces ``(4, count, ...)``, padded to one number of atoms."""
    from minframe_lab.experiments.dynamics import potential

    parts = []
    for number, name in enumerate(molecules.NAMES):
        made = potential.sample(name, count, seed=10 * list(COUNTS).index(split) + number)
        parts.append((molecules.padded(made.positions), torch.tensor(made.energies), molecules.padded(made.forces)))
        advance(count)
    positions, energies, forces = (torch.stack(x) for x in zip(*parts, strict=True))
    return positions, energies, forces


def load(split: str, limit: int | None = None, advance: Advance = lambda _: None) -> Batch:
    """Positions, elements, mask, energies and forces in float32, the molecules in turn; ``limit``: of all samples."""
    count = COUNTS[split] if limit is None else min(COUNTS[split], max(1, limit // len(molecules.NAMES)))
    total = count * len(molecules.NAMES)
    stored = cached(f"dynamics-{split}-{count}", total, lambda told: generate(split, count, told), advance)
    positions, energies, forces = (x.transpose(0, 1).flatten(0, 1).float() for x in stored)
    species = molecules.species().float().repeat(count, 1, 1)
    return positions, species, species.sum(-1) > 0, energies, forces


def starts() -> tuple[Tensor, Tensor]:
    """Positions and velocities ``(4, MAX_ATOMS, 3)`` in float64 that all trajectories start from."""
    from minframe_lab.experiments.dynamics import potential

    found = [potential.started(name) for name in molecules.NAMES]
    positions = torch.stack([molecules.padded(x.positions) for x in found])
    return positions, torch.stack([molecules.padded(x.get_velocities()) for x in found])


def reference(step: float, count: int, advance: Advance = lambda _: None) -> list[Batch]:
    """Of each molecule the energy, momentum and angular momentum along its path in the potential, by ASE."""

    def path(name: str, told: Advance) -> tuple[Tensor, ...]:
        from minframe_lab.experiments.dynamics import potential

        found = potential.integrate(name, step, count)
        told(count)
        return tuple(torch.tensor(x) for x in (found.energy, found.momentum, found.angular))

    return [
        cached(f"dynamics-{name}-{step:g}-{count}", count, partial(path, name), advance) for name in molecules.NAMES
    ]
