"""``minframe data is2re``: slabs with adsorbates and relaxed energies, in six splits."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from minframe_lab.data import parts as chunks
from minframe_lab.data.parts import Advance, Part
from minframe_lab.data.slabs import build, store
from minframe_lab.data.slabs.potentials import MAX_STEPS, potential

SLABS_IN_A_PART = 50
SUFFIX = ".npz"


def counts_of(train: int, others: int) -> dict[str, int]:
    """Samples of each split: of training, and of each of the others."""
    return {split: train if split == "train" else others for split in build.SPLITS}


@dataclass(frozen=True)
class Wanted:
    """How many slabs of each split, relaxed with what, and the seed of all of them."""

    counts: dict[str, int] = field(default_factory=lambda: counts_of(5_000, 600))
    potential: str = "emt"
    seed: int = 0

    def settings(self) -> dict[str, Any]:
        """All that the slabs depend on."""
        return {
            "dataset": "surrogate of OC20 IS2RE",
            "counts": self.counts,
            "potential": self.potential,
            "seed": self.seed,
            "ase": version("ase"),
            **(self.harder() if self.potential == "chgnet" else {}),
            "metals": list(build.METALS),
            "unseen pairs": [list(pair) for pair in build.UNSEEN_PAIRS],
            "adsorbates": list(build.ADSORBATES),
            "unseen adsorbate": build.UNSEEN_ADSORBATE,
            "force": potential(self.potential).force,
            "steps": MAX_STEPS,
            "part": SLABS_IN_A_PART,
        }

    def harder(self) -> dict[str, Any]:
        """What is said of slabs by CHGNet besides."""
        by = potential("chgnet")
        return {
            "chgnet": version("chgnet"),
            "cells": [list(s) for s in by.sizes],
            "optimiser": by.optimiser,
            "counted from": build.counted_from("chgnet"),
        }


def make_part(part: Part, seed: int, by: str) -> None:
    """Relax the samples of a part, each from a seed of its own."""
    made = [build.relax(part.split, by, s) for s in part.seeds(seed, part.count)]
    store.write(part.path, store.gather(made))


def make(wanted: Wanted, folder: Path, processes: int = 1, advance: Advance = lambda _: None) -> None:
    """Write a file for each split; goes on with what is there."""
    potential(wanted.potential).calculator()  # says what to install
    chunks.claim(folder, wanted.settings())
    parts = chunks.divide(folder, wanted.counts, SLABS_IN_A_PART, SUFFIX)
    for split, count in sorted(wanted.counts.items(), key=lambda item: item[1]):  # what is small is of use soon
        target = folder / f"{split}{SUFFIX}"
        mine = [part for part in parts if part.split == split]
        if target.exists() or not mine:
            advance(count)
            continue
        chunks.make_parts(mine, partial(make_part, seed=wanted.seed, by=wanted.potential), processes, advance)
        found = [store.read(part.path) for part in mine]
        for part, slabs in zip(mine, found, strict=True):
            if len(slabs) != part.count:
                raise ValueError(f"{part.path} has {len(slabs)} slabs instead of {part.count}: remove it and go on")
        store.write(target, store.gather(slabs[i] for slabs in found for i in range(len(slabs))))
        for part in mine:
            part.path.unlink()
    shutil.rmtree(folder / "parts", ignore_errors=True)


def summary(slabs: store.Slabs) -> dict[str, float]:
    """A few figures of a split."""
    sizes = np.diff(slabs.start)
    return {"samples": len(slabs), "atoms": float(sizes.mean()), "energy sd": float(slabs.energy.std())}
