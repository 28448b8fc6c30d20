"""Structures of ASE as one batch: the inputs of an energy, and its forces and stress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
from ase.neighborlist import neighbor_list
from torch import Tensor

from ase import Atoms


@dataclass(frozen=True)
class Structures:
    """Molecules, crystals and slabs, one after the other, for ``Energy`` or any other model with such arguments.

    >>> import ase.build, torch, minframe as mf, minframe.ase
    >>> def springs(z, vectors, edge_index, batch):
    ...     return vectors.new_zeros(len(z)).index_add(0, edge_index[0], vectors.pow(4).sum(-1))
    >>> crystals = [ase.build.bulk("NaCl", "rocksalt", 5.64), ase.build.bulk("Cu", cubic=True)]
    >>> data = mf.ase.Structures.of(crystals, cutoff=4.0)
    >>> energies = mf.ase.Energy(springs, cutoff=4.0)(**data.inputs())
    >>> forces, stress = data.derivatives(energies)
    >>> energies.shape, forces.shape, stress.shape
    (torch.Size([2]), torch.Size([6, 3]), torch.Size([2, 3, 3]))

    It holds no derivatives, and can be made in the workers of a loader. ``joined`` puts several together, so that
    neighbours are looked for once: ``DataLoader(parts, batch_size=8, collate_fn=mf.ase.Structures.joined)``.

    Attributes:
        z: ``(N,)``, atomic numbers.
        batch: ``(N,)``, the structure that each atom belongs to.
        pos: ``(N, 3)``, positions, in float64: neighbour vectors are small differences, and rounded only then.
        volume: ``(B,)``, of the cells; zero where atoms are not periodic in three directions.
        edge_index: ``(2, M)``, atoms and their neighbours; ``None`` without a cutoff.
        images: ``(M, 3)``, the shift of each neighbour to the image that is meant.
        dtype: of what a model is shown.
        strain: ``(B, 3, 3)``, zeros.
    """

    z: Tensor
    batch: Tensor
    pos: Tensor
    volume: Tensor
    edge_index: Tensor | None
    images: Tensor | None
    dtype: torch.dtype
    strain: Tensor

    @classmethod
    def of(
        cls,
        atoms: Sequence[Atoms],
        cutoff: float | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> Self:
        """Of atoms as ASE has them; with neighbours within the ``cutoff``, for models of neighbour vectors."""
        return cls.joined([cls._of_one(structure, cutoff, dtype) for structure in atoms]).to(device)

    @classmethod
    def _of_one(cls, atoms: Atoms, cutoff: float | None, dtype: torch.dtype) -> Self:
        z, edge_index, images = torch.tensor(atoms.numbers), None, None
        if cutoff is not None:
            first, second, shifts = neighbor_list("ijS", atoms, cutoff)
            edge_index = torch.stack([torch.tensor(first), torch.tensor(second)])
            images = torch.tensor(shifts @ atoms.cell.array, dtype=torch.float64)
        elif any(atoms.pbc):
            raise ValueError(
                "the atoms are periodic, and a model of positions would see only one image of each: give a cutoff, "
                "for a model of vectors and edge_index, or set atoms.pbc = False"
            )
        volume = torch.tensor([atoms.cell.volume if atoms.cell.rank == 3 else 0.0], dtype=torch.float64)
        pos = torch.tensor(atoms.positions, dtype=torch.float64)
        return cls(z, torch.zeros_like(z), pos, volume, edge_index, images, dtype, pos.new_zeros(1, 3, 3))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All structures of several batches as one."""
        if not parts:
            raise ValueError("there are no structures to join")
        if len({part.edge_index is None for part in parts}) > 1:
            raise ValueError("some structures have neighbours and some have not: make all of them with one cutoff")
        atoms, structures, batch, edges = 0, 0, [], []
        for part in parts:
            batch.append(part.batch + structures)
            edges += [] if part.edge_index is None else [part.edge_index + atoms]
            atoms, structures = atoms + len(part.z), structures + len(part.volume)
        return cls(
            z=torch.cat([part.z for part in parts]),
            batch=torch.cat(batch),
            pos=torch.cat([part.pos.detach() for part in parts]),
            volume=torch.cat([part.volume for part in parts]),
            edge_index=torch.cat(edges, -1) if edges else None,
            images=torch.cat([part.images for part in parts if part.images is not None]) if edges else None,
            dtype=parts[0].dtype,
            strain=torch.cat([part.strain.detach() for part in parts]),
        )

    def to(self, device: torch.device | str | None) -> Self:
        """The same on another device."""
        if device is None:
            return self
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {name: x.detach().to(device) for name, x in parts.items() if isinstance(x, Tensor)}
        return type(self)(**(parts | moved))

    def inputs(self) -> dict[str, Tensor]:
        """The arguments of ``Energy``, as functions of positions and strain."""
        for x in (self.pos, self.strain):
            x.requires_grad_()
        if self.edge_index is None or self.images is None:
            return {"z": self.z, "batch": self.batch, "pos": self.pos.to(self.dtype)}
        first, second = self.edge_index
        vectors = self.pos[second] - self.pos[first] + self.images
        strain = (self.strain + self.strain.mT) / 2  # what is antisymmetric turns all, and changes no energy
        vectors = vectors + (strain[self.batch[first]] @ vectors.unsqueeze(-1)).squeeze(-1)
        return {"z": self.z, "batch": self.batch, "vectors": vectors.to(self.dtype), "edge_index": self.edge_index}

    def derivatives(self, energies: Tensor, create_graph: bool = True) -> tuple[Tensor, Tensor]:
        """Forces ``(N, 3)``, and stress ``(B, 3, 3)``: of energies ``(B,)`` for ``inputs()``, so that both are trained.

        Stress is the derivative with respect to a symmetric strain ``e`` of the whole structure, ``x -> (1 + e) x``,
        over the volume, positive under tension; zeros where there is no volume, and for models of positions.
        """
        wanted = [self.pos, self.strain]
        found = torch.autograd.grad(energies.sum(), wanted, create_graph=create_graph, allow_unused=True)
        slopes = [torch.zeros_like(x) if g is None else g for g, x in zip(found, wanted, strict=True)]
        nowhere = (self.volume == 0) | (self.edge_index is None)
        per_volume = torch.where(nowhere, 0.0, 1 / torch.where(nowhere, 1.0, self.volume))
        return -slopes[0], slopes[1] * per_volume[:, None, None]
