"""The potential that is learned: GFN2-xTB, a tight-binding method for all elements, from ``tblite`` by way of ASE.

Units are those of ASE: eV, angstrom, atomic mass units, and the time that follows from them, 10.18 fs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ase.calculators.calculator import Calculator
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import Stationary, thermalize_momenta
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS
from numpy.typing import NDArray

from ase import Atoms, units
from minframe_lab.experiments.dynamics import molecules

Array = NDArray[np.float64]

SAMPLING_KELVIN = 500.0
SAMPLING_STEP = 1.0  # fs
FRICTION = 0.02  # per fs
BURN_IN = 200  # steps
START_KELVIN = 600.0  # of the velocities at the minimum; half of it is left once they are shared with displacements
START_SEED = 7
ACCURACY = 0.1  # of self-consistency, times tblite's own tolerance


def calculator() -> Calculator:
    """GFN2-xTB."""
    try:
        from tblite.ase import TBLite
    except ImportError as error:  # pragma: no cover
        raise ImportError("the potential comes with the extra `dynamics`: pip install -e 'lab[dynamics]'") from error
    return TBLite(method="GFN2-xTB", verbosity=0, accuracy=ACCURACY)


def relaxed(name: str) -> Atoms:
    """A molecule at its minimum, with the potential attached, its centre of mass at the origin."""
    found = molecules.atoms(name)
    found.calc = calculator()
    BFGS(found, logfile=None).run(fmax=1e-3, steps=500)
    found.positions -= found.get_center_of_mass()
    return found


def started(name: str, repeat: int = 0) -> Atoms:
    """A molecule at its minimum with the velocities that trajectories start from: it turns, but stays in place.

    All methods start alike; ``repeat`` numbers the draws of the velocities.
    """
    found = relaxed(name)
    rng = np.random.default_rng([START_SEED, molecules.NAMES.index(name), *([repeat] if repeat else [])])
    thermalize_momenta(found, temperature_K=START_KELVIN, rng=rng)
    Stationary(found)
    return found


@dataclass(frozen=True)
class Samples:
    """Positions and forces ``(B, n, 3)``, and energies ``(B,)`` above the minimum."""

    positions: Array
    energies: Array
    forces: Array


def sample(name: str, count: int, seed: int, stride: float) -> Samples:
    """Snapshots of a molecule in a heat bath every ``stride`` fs; it does not drift away but does turn."""
    found = relaxed(name)
    lowest = found.get_potential_energy()
    rng = np.random.default_rng(seed)
    thermalize_momenta(found, temperature_K=SAMPLING_KELVIN, rng=rng)
    bath = Langevin(
        found,
        SAMPLING_STEP * units.fs,
        temperature_K=SAMPLING_KELVIN,
        friction=FRICTION / units.fs,
        fixcm=False,
        rng=rng,
    )
    bath.run(BURN_IN)
    rows = []
    for _ in range(count):
        bath.run(round(stride / SAMPLING_STEP))
        centred = found.positions - found.positions.mean(0)
        rows.append((centred, found.get_potential_energy() - lowest, found.get_forces()))
    positions, energies, forces = (np.array(x) for x in zip(*rows, strict=True))
    return Samples(positions, energies, forces)


@dataclass(frozen=True)
class Path:
    """What a trajectory of ``steps`` steps conserves: energies ``(steps + 1,)``, momenta ``(steps + 1, 3)``."""

    energy: Array
    momentum: Array
    angular: Array


def integrate(name: str, step: float, count: int, repeat: int = 0) -> Path:
    """The trajectory of a molecule in its own potential, by ASE, from ``started``; ``step`` in fs."""
    found = started(name, repeat)
    lowest = relaxed(name).get_potential_energy()
    rows = []

    def note() -> None:
        rows.append((found.get_total_energy() - lowest, found.get_momenta().sum(0), _angular(found)))

    motion = VelocityVerlet(found, step * units.fs)
    motion.attach(note, interval=1)
    motion.run(count)
    energy, momentum, angular = (np.array(x) for x in zip(*rows, strict=True))
    return Path(energy, momentum, angular)


def _angular(found: Atoms) -> Array:
    """About the origin, which the centre of mass does not leave."""
    return np.cross(found.positions, found.get_momenta()).sum(0)
