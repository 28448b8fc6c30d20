"""Slabs in files of our own: arrays in an ``.npz``, without any pickle.

Samples have different numbers of atoms. Their rows lie one behind the other, and ``start`` says where each begins.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minframe_lab.data.parts import whole_file
from minframe_lab.data.slabs.build import Slab

PER_ATOM = ("numbers", "positions", "tags", "fixed", "relaxed")
PER_SAMPLE = ("cell", "energy", "adsorbate")


@dataclass(frozen=True)
class Slabs:
    """Many samples: arrays of atoms one behind the other, and arrays of samples; see ``Slab``.

    Attributes:
        start: ``(B + 1,)``, where the atoms of each sample begin, and where the last ends.
        numbers: of atoms, as all up to ``relaxed``.
        positions: before relaxation.
        tags: deep, surface, adsorbate.
        fixed: do not move.
        relaxed: after.
        cell: of samples, as the rest.
        energy: target.
        adsorbate: element.
    """

    start: NDArray[np.int64]
    numbers: NDArray[np.int64]
    positions: NDArray[np.float64]
    tags: NDArray[np.int64]
    fixed: NDArray[np.bool_]
    relaxed: NDArray[np.float64]
    cell: NDArray[np.float64]
    energy: NDArray[np.float64]
    adsorbate: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.energy)

    def __getitem__(self, index: int) -> Slab:
        atoms = slice(*self.start[index : index + 2])
        mine = {name: getattr(self, name)[atoms] for name in PER_ATOM}
        return Slab(**mine, **{name: getattr(self, name)[index] for name in PER_SAMPLE})


def gather(samples: Iterable[Slab]) -> Slabs:
    """Samples as arrays."""
    given = list(samples)
    start = np.cumsum([0, *(len(s.numbers) for s in given)])
    atoms = {name: np.concatenate([getattr(s, name) for s in given]) for name in PER_ATOM}
    return Slabs(start, **atoms, **{name: np.array([getattr(s, name) for s in given]) for name in PER_SAMPLE})


def write(path: Path, slabs: Slabs) -> None:
    """Write a file, which appears when all is in it."""
    with whole_file(path) as partial, open(partial, "wb") as file:
        np.savez_compressed(file, **{f.name: getattr(slabs, f.name) for f in fields(Slabs)})


def read(path: Path) -> Slabs:
    """All samples of a file.

    Raises:
        ValueError: if it is damaged, cut off, or lacks something; it names the file, and the sample where there is one.
    """
    arrays: dict[str, Any] = {}
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            for field in fields(Slabs):
                arrays[field.name] = file[field.name]
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except KeyError as error:
        raise ValueError(f"{path} lacks an array ({error.args[0]})") from None
    except (
        OSError,
        ValueError,
        EOFError,
        TypeError,
        AttributeError,
        zlib.error,
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
    ) as error:
        raise ValueError(f"{path} is no whole file of slabs ({error})") from None
    found = Slabs(**arrays)
    check(found, path)
    return found


def check(slabs: Slabs, path: Path) -> None:
    """Raise a ``ValueError`` that names the first sample in which something cannot be."""
    count, atoms = len(slabs.energy), len(slabs.numbers)
    if slabs.start.shape != (count + 1,) or slabs.start[0] != 0 or slabs.start[-1] != atoms:
        raise ValueError(f"{path}: its {count} samples do not account for its {atoms} atoms")
    for name in PER_ATOM:
        if len(getattr(slabs, name)) != atoms:
            raise ValueError(f"{path}: {name} has {len(getattr(slabs, name))} rows, of {atoms} atoms")
    for name in PER_SAMPLE:
        if len(getattr(slabs, name)) != count:
            raise ValueError(f"{path}: {name} has {len(getattr(slabs, name))} rows, of {count} samples")
    owner = np.repeat(np.arange(count), np.diff(slabs.start)) if (np.diff(slabs.start) > 0).all() else None
    if owner is None:
        raise ValueError(f"{path}: sample {int(np.argmax(np.diff(slabs.start) <= 0))} has no atoms")
    wrong = {
        "a position that is not finite": owner[~np.isfinite(slabs.positions).all(1)],
        "an atomic number outside of 1 to 118": owner[(slabs.numbers < 1) | (slabs.numbers > 118)],
        "an energy that is not finite": np.flatnonzero(~np.isfinite(slabs.energy)),
        "a cell that is not finite": np.flatnonzero(~np.isfinite(slabs.cell).all((1, 2))),
    }
    for what, samples in wrong.items():
        if len(samples):
            raise ValueError(f"{path}: sample {int(samples[0])} has {what}")
