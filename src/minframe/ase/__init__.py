"""Support for ASE: energies of molecules, crystals and slabs in smooth frames, and a calculator around them.

It needs the extra ``ase``, and is imported by name: ``import minframe.ase``.
"""

try:
    import ase  # noqa: F401
except ImportError as error:
    raise ImportError(
        "minframe.ase needs the Atomic Simulation Environment, which is not installed: pip install ase"
    ) from error

from minframe.ase.calculator import Calculator
from minframe.ase.energy import Energy
from minframe.local import envelope

__all__ = ["Calculator", "Energy", "envelope"]
