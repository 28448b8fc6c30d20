"""Slabs as tensors of the same shape: atoms, and the vectors to their neighbours.

A network sees a structure by the vectors from each atom to its neighbours within a cutoff. Which image of an atom is
stored, the basis of the lattice and the origin make no difference to them. All neighbours count: a limit on their
number would choose among equally distant ones by their order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from minframe_lab.data.parts import SETTINGS, read_settings
from minframe_lab.data.slabs import published, store
from minframe_lab.data.slabs.build import Slab
from minframe_lab.experiments.experiment import Advance

TESTS = ("id", "adsorbate", "alloy", "both")
ELEMENTS = 119
RIDGE = 1e-3


def file_of(split: str, folder: Path | None) -> Path:
    """The file of a split: ours, or an LMDB file of that name in the published layout."""
    if folder is None:
        raise ValueError("slabs are read from a folder: make it with minframe data is2re, and name it with --data")
    found = [folder / f"{split}{suffix}" for suffix in (".npz", ".lmdb") if (folder / f"{split}{suffix}").exists()]
    if not found:
        raise ValueError(f"{folder} has no {split}.npz or {split}.lmdb: its generation may not be finished")
    return found[0]


def read(split: str, folder: Path | None, limit: int | None = None) -> store.Slabs:
    """The samples of a split."""
    path = file_of(split, folder)
    slabs = published.read(path, limit) if path.suffix == ".lmdb" else store.read(path)
    return slabs if limit is None else store.gather(slabs[i] for i in range(min(limit, len(slabs))))


def neighbours(slab: Slab, cutoff: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of atoms within a cutoff, over periodic images in the plane, and the vectors between them."""
    from ase.neighborlist import neighbor_list

    from ase import Atoms

    atoms = Atoms(numbers=slab.numbers, positions=slab.positions, cell=slab.cell, pbc=(True, True, False))
    first, second, vectors = neighbor_list("ijD", atoms, cutoff)
    return first.astype(np.int64), second.astype(np.int64), vectors


def tensors(
    slabs: list[Slab], cutoff: float, advance: Advance = lambda _: None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Atomic numbers and tags ``(B, n)``, zero where there is no atom, vectors ``(B, n, k, 3)`` and the numbers of the
    neighbours that they lead to, ``(B, n, k)``, -1 where there is none.
    """
    found = []
    for slab in slabs:
        found.append(neighbours(slab, cutoff))
        advance(1)
    most_atoms = max(len(slab.numbers) for slab in slabs)
    counts = [np.bincount(first, minlength=len(slab.numbers)) for slab, (first, _, _) in zip(slabs, found, strict=True)]
    most = max(int(count.max(initial=1)) for count in counts)
    numbers, tags = (np.zeros((len(slabs), most_atoms), np.int64) for _ in range(2))
    vectors = np.zeros((len(slabs), most_atoms, most, 3))
    index = np.full((len(slabs), most_atoms, most), -1, np.int64)
    for i, (slab, (first, second, v)) in enumerate(zip(slabs, found, strict=True)):
        n = len(slab.numbers)
        numbers[i, :n], tags[i, :n] = slab.numbers, slab.tags
        order = np.argsort(first, kind="stable")
        starts = np.cumsum(counts[i]) - counts[i]
        place = np.arange(len(first)) - starts[first[order]]
        vectors[i, first[order], place], index[i, first[order], place] = v[order], second[order]
    return torch.from_numpy(numbers), torch.from_numpy(tags), torch.from_numpy(vectors), torch.from_numpy(index)


def composition(slabs: store.Slabs) -> NDArray[np.float64]:
    """How many atoms of each element, and one: what a baseline without any geometry knows."""
    count = np.zeros((len(slabs), ELEMENTS))
    np.add.at(count, (np.repeat(np.arange(len(slabs)), np.diff(slabs.start)), slabs.numbers), 1)
    count[:, 0] = 1
    return count


def fit_composition(train: store.Slabs) -> NDArray[np.float64]:
    """Ridge regression of energies on compositions: coefficients ``(119,)``."""
    x = composition(train)
    return np.asarray(np.linalg.solve(x.T @ x + RIDGE * np.eye(ELEMENTS), x.T @ train.energy), dtype=np.float64)


def adsorbate_means(train: store.Slabs, slabs: store.Slabs) -> NDArray[np.float64]:
    """The mean energy of training samples with the same adsorbate, or of all, where it is unseen."""
    means = {int(a): train.energy[train.adsorbate == a].mean() for a in np.unique(train.adsorbate)}
    return np.array([means.get(int(a), train.energy.mean()) for a in slabs.adsorbate])


def source(folder: Path | None) -> dict[str, Any]:
    """What the slabs are: how ours were made, or that they are not ours."""
    if folder is None:
        return {}
    ours = (folder / SETTINGS).exists()
    return {"surrogate": True, **read_settings(folder)} if ours else {"surrogate": False, "folder": folder.name}
