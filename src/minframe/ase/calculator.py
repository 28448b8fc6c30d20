"""A calculator of ASE around an invariant energy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from ase.calculators.calculator import Calculator as AseCalculator
from ase.calculators.calculator import all_changes
from ase.stress import full_3x3_to_voigt_6_stress
from torch import nn

from ase import Atoms
from minframe.ase.energy import EUCLIDEAN, SMOOTH, Energy
from minframe.ase.structures import Structures
from minframe.frames import Method
from minframe.groups.base import Group


class Calculator(AseCalculator):
    """Energy, forces and stress of atoms, from a model of energies that need not be symmetric.

    >>> import ase.build, torch, minframe as mf, minframe.ase
    >>> def quartic(z, pos, batch):
    ...     return pos.pow(4).sum(-1)
    >>> water = ase.build.molecule("H2O")
    >>> water.calc = mf.ase.Calculator(quartic)
    >>> energy = water.get_potential_energy()
    >>> water.rotate(70, (1, 2, 3))
    >>> abs(water.get_potential_energy() - energy) < 1e-12
    True

    Forces are minus the derivative of the energy with respect to positions, stress is that with respect to a symmetric
    strain ``e`` of the whole structure, ``x -> (1 + e) x``, over the volume: both by autograd, through the frames too.

    Args:
        model: an ``Energy``, or a model as ``Energy`` takes it.
        cutoff: as of ``Energy``.
        group: as of ``Energy``.
        frames: as of ``Energy``.
        dtype: of positions; by default that of the parameters of the model, or double precision if it has none.
        device: by default that of the parameters of the model.
        unit: of the energies of the model, in eV.
        **kwargs: of every calculator of ASE.
    """

    implemented_properties = ["energy", "free_energy", "forces", "stress"]  # noqa: RUF012

    def __init__(
        self,
        model: Callable[..., Any],
        cutoff: float | None = None,
        group: Group = EUCLIDEAN,
        frames: Method = SMOOTH,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        unit: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self.model = model if isinstance(model, Energy) else Energy(model, cutoff, group, frames)
        parameter = next(self.model.parameters(), torch.empty(0, dtype=torch.float64))
        self.dtype = dtype or parameter.dtype
        self.device = torch.device(device or parameter.device)
        self.unit = unit

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        super().calculate(atoms, properties, system_changes)  # type: ignore[no-untyped-call]
        atoms = self.atoms
        assert atoms is not None
        cutoff = self.model.cutoff if self.model.periodic else None
        data = Structures.of([atoms], cutoff, self.dtype, self.device)
        with torch.enable_grad(), evaluating(self.model):
            energies = self.model(**data.inputs())
            forces, stress = data.derivatives(energies, create_graph=False)
        value = float(energies.detach().sum()) * self.unit
        self.results = {"energy": value, "free_energy": value, "forces": forces.cpu().numpy() * self.unit}
        if self.model.periodic and atoms.cell.rank == 3:
            self.results["stress"] = full_3x3_to_voigt_6_stress(stress[0].cpu().numpy() * self.unit)


class evaluating:  # noqa: N801
    """Evaluate with all poses and without dropout inside this context."""

    def __init__(self, model: nn.Module) -> None:
        self.modes = [(module, module.training) for module in model.modules()]

    def __enter__(self) -> None:
        for module, _ in self.modes:
            module.training = False

    def __exit__(self, *_: object) -> None:
        for module, mode in self.modes:
            module.training = mode
