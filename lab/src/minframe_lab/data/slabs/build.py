"""Surrogate slabs: strained, defective alloys with adsorbates in random places, and their relaxed total energies.

The reference set (OC20 IS2RE) asks for the energy of the relaxed structure, given the structure before. This surrogate
asks the same with potentials that cost a second instead of a day. Energies of adsorption alone would be too easy: with
the effective-medium potential they are almost set by the element. So the target is the total relaxed energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minframe_lab.data.slabs.potentials import SIZES, potential
from minframe_lab.data.slabs.references import references

METALS = ("Al", "Ni", "Cu", "Pd", "Ag", "Pt", "Au")
UNSEEN_PAIRS = (("Al", "Pt"), ("Cu", "Pd"), ("Ag", "Ni"), ("Au", "Ni"))  # alloys that training has none of
ADSORBATES = ("H", "C", "O")
UNSEEN_ADSORBATE = "N"
SPLITS = ("train", "validation", "id", "adsorbate", "alloy", "both")
LAYERS = 3
FIXED_LAYERS = 1
STRAIN = 0.03  # largest, along each of both axes
VACANCY = 0.3  # share of slabs that lack an atom of the top layer
MOST_ADSORBATES = 3
HEIGHT = (1.0, 1.9)  # of an adsorbate over the top layer, in Angstrom
APART = 1.6  # least distance of adsorbates
VACUUM = 8.0
TAGS = {"deep": 0, "surface": 1, "adsorbate": 2}  # as in the reference set


@dataclass(frozen=True)
class Slab:
    """One sample: atoms before relaxation, and what becomes of them.

    Attributes:
        numbers: atomic numbers ``(n,)``.
        positions: before, ``(n, 3)``.
        cell: rows are the vectors of the cell, ``(3, 3)``; the first two are periodic, the third is not.
        tags: 0 deep in the slab, 1 its surface, 2 adsorbates.
        fixed: which atoms do not move.
        energy: after, in eV, from where it is counted.
        relaxed: positions after.
        adsorbate: the element that is adsorbed.
    """

    numbers: NDArray[np.int64]
    positions: NDArray[np.float64]
    cell: NDArray[np.float64]
    tags: NDArray[np.int64]
    fixed: NDArray[np.bool_]
    energy: float
    relaxed: NDArray[np.float64]
    adsorbate: int


def pairs(unseen: bool) -> list[tuple[str, ...]]:
    """Alloys of two metals that training has, together with pure metals, or has not."""
    hidden = {tuple(sorted(pair)) for pair in UNSEEN_PAIRS}
    if unseen:
        return sorted(hidden)
    seen = [tuple(sorted(pair)) for pair in combinations(METALS, 2)]
    return [pair for pair in seen if pair not in hidden] + [(metal,) for metal in METALS]


def build(split: str, random: np.random.Generator, sizes: Sequence[tuple[int, int]] = SIZES) -> tuple[Any, str]:
    """Atoms of ASE before relaxation, and the element that is adsorbed."""
    from ase.build import fcc100, fcc111
    from ase.constraints import FixAtoms
    from ase.data import atomic_numbers, reference_states

    from ase import Atom

    kinds = pairs(unseen=split in ("alloy", "both"))
    metals = kinds[random.integers(len(kinds))]
    element = UNSEEN_ADSORBATE if split in ("adsorbate", "both") else ADSORBATES[random.integers(len(ADSORBATES))]
    share = random.uniform(0.2, 0.8)
    states: Any = reference_states
    constants = [float(states[atomic_numbers[m]]["a"]) for m in metals]
    constant = constants[0] if len(metals) == 1 else share * constants[0] + (1 - share) * constants[1]
    cut: Any = (fcc111, fcc100)[random.integers(2)]
    size = sizes[int(random.integers(len(sizes)))]
    slab = cut(metals[0], (*size, LAYERS), a=constant, vacuum=VACUUM, periodic=False)
    slab.pbc = (True, True, False)
    if len(metals) == 2:
        symbols = np.where(random.random(len(slab)) < share, *metals)
        slab.set_chemical_symbols(symbols.tolist())
    cell = slab.cell.array.copy()
    cell[:, :2] *= 1 + random.uniform(-STRAIN, STRAIN, 2)
    slab.set_cell(cell, scale_atoms=True)
    layers = slab.get_tags()  # ASE counts from the top
    if random.random() < VACANCY:
        top = np.flatnonzero(layers == 1)
        del slab[int(top[random.integers(len(top))])]
        layers = slab.get_tags()
    fixed = layers > LAYERS - FIXED_LAYERS
    slab.set_tags(np.where(layers == 1, TAGS["surface"], TAGS["deep"]))
    top = slab.positions[:, 2].max()
    count = int(random.integers(1, MOST_ADSORBATES + 1))
    placed = 0
    while placed < count:
        place = random.random(2) @ slab.cell.array[:2] + [0, 0, top + random.uniform(*HEIGHT)]
        trial = slab.copy()
        trial.append(Atom(element, place, tag=TAGS["adsorbate"]))
        if trial.get_distances(-1, range(len(slab)), mic=True).min() > APART:
            slab, placed = trial, placed + 1
    slab.set_constraint(FixAtoms(mask=[*fixed, *([False] * count)]))
    return slab, element


@cache
def counted_from(calculator: str) -> dict[str, float]:
    """Energy of an atom of each element that slabs are counted from, in eV; none if the potential does so."""
    by = potential(calculator)
    return references(METALS, by.calculator()) if by.counted else {}


def relax(split: str, calculator: str, seed: int) -> Slab:
    """The sample of a seed, relaxed; of structures that do not come to rest the next is taken."""
    from ase.data import atomic_numbers

    random, by = np.random.default_rng(seed), potential(calculator)
    while True:
        atoms, element = build(split, random, by.sizes)
        before = atoms.copy()
        if by.relax(atoms) and np.isfinite(atoms.get_potential_energy()):
            break
    zero = counted_from(calculator)
    return Slab(
        numbers=before.numbers.astype(np.int64),
        positions=before.positions,
        cell=before.cell.array,
        tags=before.get_tags().astype(np.int64),
        fixed=np.isin(np.arange(len(before)), before.constraints[0].index),
        energy=float(atoms.get_potential_energy()) - sum(zero.get(symbol, 0) for symbol in atoms.symbols),
        relaxed=atoms.positions,
        adsorbate=atomic_numbers[element],
    )
