"""Support for ASE: energies of molecules, crystals and slabs in smooth frames, and a calculator around them.

It needs the extra ``ase``, and is imported by name: ``import minframe.ase``.
"""

from minframe.checks import check_installed

check_installed("ase", "the Atomic Simulation Environment", "minframe.ase", "ase")

from minframe.ase.calculator import Calculator  # noqa: E402
from minframe.ase.energy import Energy  # noqa: E402
from minframe.ase.structures import Structures  # noqa: E402
from minframe.local import envelope  # noqa: E402

__all__ = ["Calculator", "Energy", "Structures", "envelope"]
