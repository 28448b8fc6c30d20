"""Jets as tensors, from files in the reference layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minframe_lab.data.jets.tables import JetFile
from minframe_lab.data.parts import SETTINGS, read_settings
from minframe_lab.experiments.experiment import Advance

FILES = {"train": ("train.h5",), "validation": ("validation.h5", "val.h5"), "test": ("test.h5",)}  # ours, published


def file_of(split: str, folder: Path | None) -> Path:
    """The file of a split, under our name for it or the published one."""
    if folder is None:
        raise ValueError(
            "jets are read from a folder: make one with minframe data toptag FOLDER, and give --data FOLDER"
        )
    found = [folder / name for name in FILES[split] if (folder / name).exists()]
    if not found:
        raise ValueError(f"{folder} has no {' or '.join(FILES[split])}: its generation may not be finished")
    return found[0]


def load(
    split: str, folder: Path | None, constituents: int, limit: int | None, advance: Advance = lambda _: None
) -> tuple[Tensor, Tensor, Tensor]:
    """Momenta ``(B, n, 4)`` of the hardest constituents, float32 as in the file, which are there, and labels ``(B,)``.

    The file is read some rows at a time, so that what is left out never fills the memory.
    """
    file = JetFile(file_of(split, folder), constituents)
    momenta, labels = [], []
    for found, _, label in file.blocks(stop=min(limit or len(file), len(file))):
        momenta.append(found.astype(np.float32))
        labels.append(label)
        advance(len(label))
    p = torch.from_numpy(np.concatenate(momenta))
    return p, p[..., 0] > 0, torch.from_numpy(np.concatenate(labels)).float()


def source(folder: Path | None) -> dict[str, Any]:
    """What the jets are: how ours were made, or that they are not ours."""
    if folder is None:
        return {}
    ours = (folder / SETTINGS).exists()
    return {"surrogate": True, **read_settings(folder)} if ours else {"surrogate": False, "folder": folder.name}
