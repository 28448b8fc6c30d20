"""``minframe data toptag``: labelled jets, half of them signal, in the reference layout."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from minframe_lab.data import parts as chunks
from minframe_lab.data.jets import events, tables
from minframe_lab.data.parts import Advance, Part

JETS_IN_A_PART = 500
SUFFIX = ".h5"


@dataclass(frozen=True)
class Jets:
    """How many jets of each split, and the seed of all of them."""

    train: int = 60_000
    validation: int = 20_000
    test: int = 20_000
    seed: int = 0

    @property
    def counts(self) -> dict[str, int]:
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def settings(self) -> dict[str, Any]:
        """All that the jets depend on."""
        return {
            "dataset": "surrogate of the top-tagging reference set",
            "counts": self.counts,
            "seed": self.seed,
            "pythia": version("pythia8mc"),
            "fastjet": version("fastjet"),
            "jets an event": "at most one: the hardest that passes",
            "beams": events.ENERGY,
            "hard": list(events.HARD),
            "radius": events.RADIUS,
            "transverse": list(events.TRANSVERSE),
            "rapidity": events.RAPIDITY,
            "tower": events.TOWER,
            "noise": events.NOISE,
            "part": JETS_IN_A_PART,
        }


def make_part(part: Part, seed: int) -> None:
    """Signal and background in a random order."""
    *seeds, order_seed = part.seeds(seed, 3)
    signal = part.count // 2 + (part.count % 2) * (part.number % 2)
    counts = (signal, part.count - signal)
    made = [events.make(n, kind, s) for n, kind, s in zip(counts, (True, False), seeds, strict=True)]
    momenta, truth = (np.concatenate(x) for x in zip(*made, strict=True))
    label = np.repeat([1, 0], counts)
    order = np.random.default_rng(order_seed).permutation(part.count)
    tables.write(part.path, [(momenta[order], truth[order], label[order])], part.split_number)


def make(wanted: Jets, folder: Path, processes: int = 1, advance: Advance = lambda _: None) -> None:
    """Write ``train.h5``, ``validation.h5`` and ``test.h5``; goes on with what is there."""
    if not events.available():
        events.generator(signal=True, seed=0)  # says what to install
    chunks.claim(folder, wanted.settings())
    parts = chunks.divide(folder, wanted.counts, JETS_IN_A_PART, SUFFIX)
    for split, count in sorted(wanted.counts.items(), key=lambda item: item[1]):  # what is small is of use soon
        target = folder / f"{split}{SUFFIX}"
        mine = [part for part in parts if part.split == split]
        if target.exists() or not mine:
            advance(count)
            continue
        chunks.make_parts(mine, partial(make_part, seed=wanted.seed), processes, advance)
        tables.write(target, _joined(mine), mine[0].split_number)
        for part in mine:
            part.path.unlink()
    shutil.rmtree(folder / "parts", ignore_errors=True)


def _joined(parts: list[Part]) -> Iterator[tuple[Any, Any, Any]]:
    for part in parts:
        file = tables.JetFile(part.path, events.CONSTITUENTS)
        if len(file) != part.count:
            raise ValueError(f"{part.path} has {len(file)} jets instead of {part.count}: remove it and go on")
        yield from file.blocks()
