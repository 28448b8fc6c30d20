"""Four molecules: a symmetric, a chiral, a planar and a flexible one, padded to one number of atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from ase import Atoms

NAMES = ("methane", "CHFClBr", "ethylene", "ethanol")
KINDS = {"methane": "symmetric", "CHFClBr": "chiral", "ethylene": "planar", "ethanol": "flexible"}
# Kinds of atoms: those with equal letters are bonded to the same others.
ROLES = {"methane": "abbbb", "CHFClBr": "abcde", "ethylene": "abccdd", "ethanol": "abcdeefff"}
KINDS_OF_ATOMS = tuple((name, role) for name, roles in ROLES.items() for role in sorted(set(roles)))
MAX_ATOMS = 9


def atoms(name: str) -> Atoms:
    """A molecule near its equilibrium."""
    from ase.build import molecule

    from ase import Atoms

    if name == "CHFClBr":
        corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)
        bonds = np.array([1.09, 1.36, 1.76, 1.94])[:, None]
        return Atoms("CHFClBr", positions=np.concatenate([np.zeros((1, 3)), bonds * corners]))
    return molecule({"methane": "CH4", "ethylene": "C2H4", "ethanol": "CH3CH2OH"}[name])


def padded(rows: Any) -> Tensor:
    """Rows ``(..., n, c)`` of the atoms of a molecule, with zeros up to ``(..., MAX_ATOMS, c)``."""
    x = torch.as_tensor(np.asarray(rows))
    return torch.nn.functional.pad(x, (0, 0, 0, MAX_ATOMS - x.shape[-2]))


def species() -> Tensor:
    """The kind of each atom of each molecule, ``(4, MAX_ATOMS, 17)``, one-hot; zero for padding."""
    return torch.stack(
        [padded([[float((name, role) == kind) for kind in KINDS_OF_ATOMS] for role in ROLES[name]]) for name in NAMES]
    )


def masses() -> Tensor:
    """In atomic mass units, ``(4, MAX_ATOMS, 1)``; one for padding, which no force acts on."""
    found = torch.stack([padded(atoms(name).get_masses()[:, None]) for name in NAMES])
    return torch.where(found > 0, found, 1.0)
