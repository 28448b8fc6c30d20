"""Methanol in random geometries, and a network of positions that knows no symmetry."""

from __future__ import annotations

import numpy as np
import torch
from ase.build import molecule
from ase.calculators.emt import EMT
from torch import Tensor, nn


class Network(nn.Module):
    """Messages between all atoms of a molecule; an energy for each atom."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.kinds = nn.Embedding(10, 8)
        self.message = nn.Sequential(nn.Linear(22, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.energy = nn.Sequential(nn.Linear(width + 8, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, z: Tensor, pos: Tensor, batch: Tensor) -> Tensor:
        i, j = ((batch[:, None] == batch) & ~torch.eye(len(z), dtype=torch.bool)).nonzero().mT
        h = self.kinds(z)
        messages = self.message(torch.cat([pos[i], pos[j], h[i], h[j]], -1))
        h = torch.cat([h, messages.new_zeros(len(z), messages.shape[1]).index_add(0, i, messages)], -1)
        return self.energy(h).squeeze(-1)


def sample(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Positions ``(count, 6, 3)``, energies less that of the molecule at rest, and forces."""
    found = []
    for k in range(count):
        atoms = molecule("CH3OH", calculator=EMT())
        rest = atoms.get_potential_energy()
        atoms.rattle(0.06, seed=1000 * seed + k)
        found.append((atoms.positions.copy(), atoms.get_potential_energy() - rest, atoms.get_forces()))
    return tuple(torch.tensor(np.stack(x)) for x in zip(*found, strict=True))
