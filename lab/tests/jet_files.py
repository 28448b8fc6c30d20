"""Files of jets for tests: the reference layout, without Pythia."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from minframe_lab.data.jets import tables


def random_jets(count: int, constituents: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Massless momenta around an axis, wider for signal, with some places left empty."""
    random = np.random.default_rng(seed)
    label = np.arange(count) % 2
    axis = random.normal(size=(count, 1, 3)) * [1, 1, 0.3]
    axis *= 600 / np.linalg.norm(axis, axis=2, keepdims=True)
    spread = np.where(label[:, None, None] == 1, 0.4, 0.15) * 600
    momentum = random.gamma(0.5, size=(count, constituents, 1)) * (
        axis + spread * random.normal(size=(count, constituents, 3))
    )
    p = np.concatenate([np.linalg.norm(momentum, axis=2, keepdims=True), momentum], 2)
    order = np.argsort(-np.hypot(p[..., 1], p[..., 2]), axis=1)
    p = np.take_along_axis(p, order[..., None], 1)
    p[::3, -3:] = 0
    return p, np.zeros((count, 4)), label


def write_splits(folder: Path, count: int, constituents: int = 12) -> Path:
    """A folder with the three files of a set."""
    folder.mkdir(exist_ok=True)
    for i, split in enumerate(("train", "validation", "test")):
        tables.write(folder / f"{split}.h5", [random_jets(count, constituents, seed=i)], i)
    return folder
