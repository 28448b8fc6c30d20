"""A crystal potential from a network that knows no symmetry: energies, forces and stress, exact under rotations.

Copper cells of four atoms, strained and displaced, with energies and forces of a Morse potential. The network sees the
vectors from each atom to its neighbours as they are; ``mf.ase.Energy`` makes it invariant, and ``mf.ase.Calculator``
gives forces and stress. At the end: energy against volume, learned and true.
"""

from __future__ import annotations

import numpy as np
import torch
from ase.build import bulk
from ase.calculators.calculator import Calculator
from ase.calculators.morse import MorsePotential
from ase.neighborlist import neighbor_list
from common import arguments, picture, save, show, spread, track
from copper import CUTOFF, Network, cells
from matplotlib.figure import Figure

import minframe as mf
import minframe.ase
from ase import Atoms

MORSE = MorsePotential(epsilon=0.34, r0=2.55, rho0=4.0, rcut1=3.2, rcut2=CUTOFF)


def properties(atoms: Atoms, calculator: Calculator) -> tuple[float, np.ndarray, np.ndarray]:
    """Energy of an atom, forces and stress."""
    atoms.calc = calculator
    return atoms.get_potential_energy() / len(atoms), atoms.get_forces(), atoms.get_stress()


def train(structures: list[Atoms], epochs: int, what: str) -> mf.ase.Energy:
    """A network in smooth frames of neighbour vectors: all poses, as a loss of forces is biased by drawn ones."""
    energy = mf.ase.Energy(Network().double(), CUTOFF)
    graphs = []
    for atoms in structures:
        i, j, vectors = map(torch.tensor, neighbor_list("ijD", atoms, CUTOFF))
        value, forces, _ = properties(atoms, MORSE)
        graphs.append((torch.tensor(atoms.numbers), torch.stack([i, j]), vectors, value, torch.tensor(forces)))
    optimizer = torch.optim.Adam(energy.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(graphs))
    for _ in track(range(epochs), what):
        for k in torch.randperm(len(graphs)).tolist():
            z, edge_index, vectors, value, forces = graphs[k]
            v = vectors.clone().requires_grad_()
            found = energy(z, torch.zeros_like(z), vectors=v, edge_index=edge_index).squeeze() / len(z)
            (slope,) = torch.autograd.grad(found * len(z), v, create_graph=True)
            pulls = torch.zeros_like(forces).index_add(0, edge_index[0], slope).index_add(0, edge_index[1], -slope)
            optimizer.zero_grad()
            ((found - value).square() + (pulls - forces).square().mean()).backward()
            optimizer.step()
            schedule.step()
    return energy.eval()


def main() -> None:
    """Train, test on other cells, also turned, and draw energy against volume."""
    options = arguments(__doc__ or "")
    count, epochs, seeds = (2, 1, 1) if options.quick else (16, 20, options.seeds or 3)
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axis, found = figure.add_subplot(xlabel="volume of an atom, Å$^3$", ylabel="energy of an atom, eV"), []
    wide = [bulk("Cu", cubic=True, a=a) for a in np.linspace(3.4, 3.8, 3 if options.quick else 15)]
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = mf.ase.Calculator(train(cells(count, seed), epochs, f"copper, seed {seed}"))
        errors = []
        for atoms in cells(max(count // 3, 1), 1000 + seed):
            learned, true = (properties(atoms, m) for m in (model, MORSE))
            errors.append([float(np.abs(a - b).mean()) for a, b in zip(learned, true, strict=True)])
            atoms.rotate(40, (1, 2, 3), rotate_cell=True)
            errors[-1].append(abs(properties(atoms, model)[0] - learned[0]))
        found.append([*np.mean(errors, 0)[:3].tolist(), max(e[3] for e in errors)])
        axis.plot(
            [a.get_volume() / 4 for a in wide], [properties(a, model)[0] for a in wide], "o", label=f"seed {seed}"
        )
    axis.plot([a.get_volume() / 4 for a in wide], [properties(a, MORSE)[0] for a in wide], "k-", label="true")
    axis.legend(frameon=False)
    columns = ("energy of an atom, eV", "forces, eV/Å", "stress, eV/Å^3", "change by turning, eV")
    show("Copper: errors on other cells", columns, [tuple(spread([f[k] for f in found]) for k in range(4))])
    save("crystal", {"cells": count, "epochs": epochs, "seeds": seeds}, found, options.quick)
    picture("crystal", figure, options.quick)


if __name__ == "__main__":
    main()
