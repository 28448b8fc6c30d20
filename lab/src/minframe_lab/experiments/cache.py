"""Generated data, kept for the next run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from minframe_lab.experiments import record
from minframe_lab.experiments.experiment import Advance


def cache_folder() -> Path:
    """Where generated data are kept: ``$XDG_CACHE_HOME/minframe`` or ``~/.cache/minframe``."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minframe"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cached(
    name: str, count: int, generate: Callable[[Advance], tuple[Tensor, ...]], advance: Advance
) -> tuple[Tensor, ...]:
    """What ``generate`` gives, or gave earlier under this name."""
    path = cache_folder() / f"{name}.pt"
    if path.exists():
        advance(count)
        return tuple(record.load(path))
    made = generate(advance)
    partial = path.with_suffix(f".{os.getpid()}")
    torch.save(list(made), partial)
    partial.replace(path)
    return made
