"""Cells of copper, and a network that knows no symmetry, for energies of atoms."""

from __future__ import annotations

import numpy as np
import torch
from ase.build import bulk
from torch import Tensor, nn

import minframe as mf
from ase import Atoms

CUTOFF, WIDTH = 4.0, 24


class Network(nn.Module):
    """Messages along vectors, summed over neighbours; an energy for each atom. It is not invariant to anything."""

    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(4, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.energy = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))

    def forward(self, z: Tensor, vectors: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        length = vectors.norm(dim=-1, keepdim=True)
        messages = self.message(torch.cat([vectors / 3, length / 3], -1)) * mf.envelope(vectors, CUTOFF).unsqueeze(-1)
        return self.energy(messages.new_zeros(len(z), WIDTH).index_add(0, edge_index[0], messages)).squeeze(-1)


def cells(count: int, seed: int) -> list[Atoms]:
    """Strained and displaced cells."""
    random = np.random.default_rng(seed)
    found: list[Atoms] = []
    for k in range(count):
        atoms = bulk("Cu", cubic=True, a=3.6 * (1 + 0.04 * random.normal()))
        atoms.set_cell(atoms.cell.array @ (np.eye(3) + 0.02 * random.normal(size=(3, 3))), scale_atoms=True)
        atoms.rattle(0.1, seed=seed + k)
        found.append(atoms)
    return found
