"""What slabs are relaxed with: a calculator of ASE, and how far, in cells of which sizes, it is used.

A step with CHGNet costs a hundred times as much as one with the effective-medium potential. So its slabs have the
smallest cell, come to rest by an optimiser with a line search, which takes a third fewer steps, and stop at twice the
force, where their energies are within 0.01 eV of those at half of it. They are counted from crystals and molecules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

SIZES = ((2, 2), (3, 2), (3, 3))  # of cells of the surface
MAX_STEPS = 200


@dataclass(frozen=True)
class Potential:
    """One way to relax slabs.

    Attributes:
        calculator: makes the calculator of ASE, or says what to install.
        sizes: cells of the surface to choose from.
        force: in eV/Angstrom, at which a structure is relaxed.
        optimiser: name of a class in ``ase.optimize``.
        counted: from references, instead of from where the potential itself counts. The effective-medium potential
            counts from crystals already.
    """

    calculator: Callable[[], Any]
    sizes: tuple[tuple[int, int], ...] = SIZES
    force: float = 0.05
    optimiser: str = "BFGS"
    counted: bool = False

    def relax(self, atoms: Any) -> bool:
        """Move atoms to rest; whether they came to it."""
        import ase.optimize

        atoms.calc = self.calculator()
        moved = getattr(ase.optimize, self.optimiser)(atoms, logfile=None)
        return bool(moved.run(fmax=self.force, steps=MAX_STEPS))


def _emt() -> Any:
    from ase.calculators.emt import EMT

    return EMT()


@cache
def _chgnet() -> Any:
    """Loaded once for all slabs of a process; without stress, which would be a second backward pass."""
    try:
        from chgnet.model.dynamics import CHGNetCalculator
    except ImportError:
        raise ValueError('the harder slabs are relaxed with CHGNet: pip install -e "lab[chgnet]"') from None

    calculator: Any = CHGNetCalculator(use_device="cpu")
    calculator.model.requires_grad_(False)
    calculator.calculate = partial(_calculate, calculator.calculate)
    return calculator


def _calculate(calculate: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Forces that nothing is differentiated through; CHGNet keeps what training on them needs, which takes longer."""
    grad = torch.autograd.grad
    torch.autograd.grad = lambda *a, **k: grad(*a, **(k | {"create_graph": False, "retain_graph": False}))
    try:
        calculate(*args, **(kwargs | {"task": "ef"}))
    finally:
        torch.autograd.grad = grad


POTENTIALS = {
    "emt": Potential(_emt),
    "chgnet": Potential(_chgnet, sizes=((2, 2),), force=0.1, optimiser="BFGSLineSearch", counted=True),
}


def potential(name: str) -> Potential:
    """``"emt"``, the effective-medium potential, or ``"chgnet"``, a learned one."""
    if name not in POTENTIALS:
        raise ValueError(f"no potential is called {name!r}: use {' or '.join(POTENTIALS)}")
    return POTENTIALS[name]
