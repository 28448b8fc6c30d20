"""Snapshots of four molecules with their energies and forces, and the states that trajectories start from."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from minframe_lab.experiments.cache import cached
from minframe_lab.experiments.dynamics import molecules
from minframe_lab.experiments.experiment import Advance, Batch

STRIDE = 12.0  # fs from one snapshot to the next
COUNTS = {"train": 4000, "validation": 200, "test": 400}  # snapshots; every split has a path of its own
TRAINED = {"methane": 1500, "CHFClBr": 1500, "ethylene": 1500, "ethanol": 4000}  # flexible molecules need more


def generate(name: str, split: str, count: int) -> tuple[Tensor, ...]:
    """Positions, energies and forces of one molecule, ``(count, ...)``, padded to one number of atoms."""
    from minframe_lab.experiments.dynamics import potential

    seed = 10 * list(COUNTS).index(split) + molecules.NAMES.index(name)
    made = potential.sample(name, count, seed, STRIDE)
    return molecules.padded(made.positions), torch.tensor(made.energies), molecules.padded(made.forces)


def load(split: str, limit: int | None = None, advance: Advance = lambda _: None) -> Batch:
    """Positions, kinds of atoms, mask, energies and forces in float32; ``limit``: of all samples.

    For validation and test there are equally many snapshots of all molecules, which take turns.
    """
    share = COUNTS[split] if limit is None else max(1, limit // len(molecules.NAMES))
    parts = []
    for name, kinds in zip(molecules.NAMES, molecules.species().float(), strict=True):
        count = min(share, TRAINED[name] if split == "train" else COUNTS[split])

        def made(told: Advance, name: str = name, count: int = count) -> tuple[Tensor, ...]:
            found = generate(name, split, count)
            told(count)
            return found

        found = cached(f"dynamics-{split}-{name}-{STRIDE:g}fs-{count}", count, made, advance)
        positions, energies, forces = (x.float() for x in found)
        parts.append((positions, kinds.expand(count, -1, -1), energies, forces))
    if split == "train":
        positions, species, energies, forces = (torch.cat(x) for x in zip(*parts, strict=True))
    else:
        positions, species, energies, forces = (torch.stack(x, 1).flatten(0, 1) for x in zip(*parts, strict=True))
    return positions, species, species.sum(-1) > 0, energies, forces


def starts(repeats: int) -> tuple[Tensor, Tensor]:
    """Positions and velocities ``(4 repeats, MAX_ATOMS, 3)`` in float64 that all trajectories start from."""
    from minframe_lab.experiments.dynamics import potential

    found = [potential.started(name, repeat) for repeat in range(repeats) for name in molecules.NAMES]
    positions = torch.stack([molecules.padded(x.positions) for x in found])
    return positions, torch.stack([molecules.padded(x.get_velocities()) for x in found])


def reference(step: float, count: int, repeat: int = 0, advance: Advance = lambda _: None) -> list[Batch]:
    """Of each molecule the energy, momentum and angular momentum along its path in the potential, by ASE."""
    number = f"-{repeat}" if repeat else ""

    def path(name: str, told: Advance) -> tuple[Tensor, ...]:
        from minframe_lab.experiments.dynamics import potential

        found = potential.integrate(name, step, count, repeat)
        told(count)
        return tuple(torch.tensor(x) for x in (found.energy, found.momentum, found.angular))

    return [
        cached(f"dynamics-{name}-{step:g}-{count}{number}", count, partial(path, name), advance)
        for name in molecules.NAMES
    ]
