"""What energies are counted from: metals in bulk, and small molecules, as the reference set counts them.

The energy of a free atom is arbitrary, and a learned potential counts from some electron volts a piece. Of an element
that training lacks nothing could then be predicted, not even its order of magnitude. So an atom of a metal counts from
its fcc crystal, H and N from half of H2 and N2, O from H2O less H2, C from CO less that O.
"""

from __future__ import annotations

from typing import Any

BOX = 12.0  # around a molecule, in Angstrom: more than the potential reaches
FORCE = 0.02
STRETCH = (0.9, 1.1)  # of the lattice constant, between which its least energy is sought
DIGITS = 4  # of energies in eV: what is left is far below what relaxation leaves


def references(metals: tuple[str, ...], calculator: Any) -> dict[str, float]:
    """Energy of an atom in its reference, in eV, for metals and for H, C, N and O."""
    h2, n2, co, h2o = (_molecule(name, calculator) for name in ("H2", "N2", "CO", "H2O"))
    oxygen = h2o - h2
    found = {metal: _crystal(metal, calculator) for metal in metals}
    found |= {"H": h2 / 2, "C": co - oxygen, "N": n2 / 2, "O": oxygen}
    return {element: round(energy, DIGITS) for element, energy in found.items()}


def _molecule(name: str, calculator: Any) -> float:
    from ase.build import molecule
    from ase.optimize import BFGS

    atoms = molecule(name, cell=[BOX] * 3, pbc=True, calculator=calculator)
    if not BFGS(atoms, logfile=None).run(fmax=FORCE, steps=200):
        raise ValueError(f"{name}, from which energies are counted, does not come to rest with this potential")
    return float(atoms.get_potential_energy())


def _crystal(metal: str, calculator: Any) -> float:
    from ase.build import bulk
    from ase.data import atomic_numbers, reference_states
    from scipy.optimize import minimize_scalar  # type: ignore[import-untyped,unused-ignore]

    states: Any = reference_states
    constant = float(states[atomic_numbers[metal]]["a"])

    def energy(stretch: float) -> float:
        atoms = bulk(metal, "fcc", a=stretch * constant)
        atoms.calc = calculator
        return float(atoms.get_potential_energy())

    return float(minimize_scalar(energy, bounds=STRETCH, method="bounded", options={"xatol": 1e-4}).fun)
