"""Simulated charged particles: the published set of 3,000 + 2,000 + 2,000, regenerated from its seed.

Five particles of charge +1 or -1 and unit mass attract and repel each other by Coulomb's law. Given are positions and
velocities at one time, and asked for are the positions one unit of time later. The set that the literature compares on
(Satorras et al., 2021) is what numpy's legacy generator gives for seed 43, so it need not be downloaded. Charges and
starting points are the same bit by bit. Trajectories agree to the rounding of a sum, about 1e-6, except for a few in
which particles come so near to each other that the motion is chaotic.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from minframe_lab.experiments.cache import cached
from minframe_lab.experiments.experiment import Advance

Array = NDArray[np.float64]

SPLITS = {"train": (0, 3000), "validation": (10_000, 2000), "test": (12_000, 2000)}  # first one, how many
SEED = 43
PARTICLES = 5
STEP = 0.001
START, END = 3100, 4100  # the steps that are input and target
DURATION = (END - START) * STEP
RECORDED = 49  # the published simulation notes that many times
BOX, SPEED, LARGEST_FORCE = 5.0, 0.5, 0.1 / STEP
CHUNK = 250  # simulations that fit in the cache


@dataclass(frozen=True)
class Simulations:
    """Positions and velocities ``(B, n, 3)``, charges ``(B, n, 1)`` and the later positions ``(B, n, 3)``."""

    pos: Tensor
    vel: Tensor
    charge: Tensor
    target: Tensor

    def __len__(self) -> int:
        return len(self.pos)

    def __getitem__(self, index: Tensor | slice) -> Simulations:
        return Simulations(self.pos[index], self.vel[index], self.charge[index], self.target[index])


def initial_states(total: int, seed: int = SEED) -> tuple[Array, Array, Array]:
    """Charges ``(total, n)``, positions and velocities ``(total, 3, n)``, drawn in the published order."""
    random, n = np.random.RandomState(seed), PARTICLES
    charges, pos, vel = np.empty((total, n)), np.empty((total, 3, n)), np.empty((total, 3, n))
    for i in range(total):
        charges[i] = random.choice([-1.0, 0.0, 1.0], size=(n, 1), p=[0.5, 0, 0.5])[:, 0]
        pos[i] = random.randn(3, n)
        v = random.randn(3, n)
        vel[i] = v * SPEED / np.sqrt((v**2).sum(0)).reshape(1, -1)
        random.randn(2 * RECORDED, 3, n)  # noise of strength zero, which only advances the generator
    over, under = pos > BOX, pos < -BOX
    vel = np.where(over, -np.abs(vel), np.where(under, np.abs(vel), vel))
    return charges, np.where(over, 2 * BOX - pos, np.where(under, -2 * BOX - pos, pos)), vel


def _force(products: Array, pos: Array) -> Array:
    """On each particle, ``(B, 3, n)``: the sum over j of q_i q_j (x_i - x_j) / |x_i - x_j|^3, clipped."""
    squares = (pos**2).sum(1)
    distance = squares[:, :, None] + squares[:, None, :] - 2 * np.matmul(pos.transpose(0, 2, 1), pos)
    diagonal = np.arange(pos.shape[-1])
    distance[:, diagonal, diagonal] = 1.0
    size = products / np.power(distance, 1.5)
    size[:, diagonal, diagonal] = 0.0
    force = (size[:, None] * (pos[:, :, :, None] - pos[:, :, None, :])).sum(-1)
    return np.clip(force, -LARGEST_FORCE, LARGEST_FORCE)


def simulate(charges: Array, pos: Array, vel: Array, steps: int = END) -> dict[int, tuple[Array, Array]]:
    """Leapfrog steps; positions and velocities at every hundredth."""
    products = charges[:, :, None] * charges[:, None, :]
    pos = pos.copy()
    vel = vel + STEP * _force(products, pos)
    recorded = {}
    for i in range(1, steps + 1):
        pos += STEP * vel
        if i % 100 == 0:
            recorded[i] = pos.copy(), vel.copy()
        vel += STEP * _force(products, pos)
    return recorded


def generate(split: str, limit: int | None = None, seed: int = SEED, advance: Advance = lambda _: None) -> Simulations:
    """The first ``limit`` simulations of a split, or all of it; ``advance`` is told how many more are done."""
    first, count = SPLITS[split]
    count = min(count, limit or count)
    charges, pos, vel = (x[first:] for x in initial_states(first + count, seed))
    inputs, velocities, targets = [], [], []
    for i in range(0, count, CHUNK):
        part = slice(i, i + CHUNK)
        recorded = simulate(charges[part], pos[part], vel[part])
        inputs.append(recorded[START][0])
        velocities.append(recorded[START][1])
        targets.append(recorded[END][0])
        advance(len(inputs[-1]))

    def rows(parts: list[Array]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(np.concatenate(parts).transpose(0, 2, 1))).float()

    return Simulations(rows(inputs), rows(velocities), torch.from_numpy(charges[..., None]).float(), rows(targets))


def load(split: str, path: Path | None = None, advance: Advance = lambda _: None) -> Simulations:
    """A split, from a file if there is one, else generated and kept in the user's cache.

    The file holds ``loc0``, ``vel0``, ``loc1`` ``(B, n, 3)``, ``charges`` ``(B, n)`` and ``split``, which is 0, 1, 2.
    """
    if path is not None:
        with np.load(path) as stored:
            chosen = stored["split"] == list(SPLITS).index(split)
            pos, vel, target, charge = (
                torch.from_numpy(stored[k][chosen]) for k in ("loc0", "vel0", "loc1", "charges")
            )
        return Simulations(pos.float(), vel.float(), charge.float().unsqueeze(-1), target.float())

    def make(told: Advance) -> tuple[Tensor, ...]:
        made = generate(split, advance=told)
        return made.pos, made.vel, made.charge, made.target

    return Simulations(*cached(f"nbody-{SEED}-{split}", SPLITS[split][1], make, advance))
