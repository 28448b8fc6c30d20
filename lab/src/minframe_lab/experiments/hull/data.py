"""Sixteen points from a normal distribution in five dimensions, and the volume of their convex hull."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import ConvexHull  # type: ignore[import-untyped,unused-ignore]
from torch import Tensor

from minframe_lab.experiments.cache import cached
from minframe_lab.experiments.experiment import Advance

POINTS, DIMENSION, COUNT = 16, 5, 16_384
SPLITS = ("train", "validation", "test")


def generate(split: str, limit: int | None = None, advance: Advance = lambda _: None) -> tuple[Tensor, Tensor]:
    """Points ``(B, 16, 5)`` and volumes ``(B,)``: the first ``limit`` of a split, or all of it."""
    count = min(COUNT, limit or COUNT)
    points = np.random.RandomState(SPLITS.index(split)).randn(COUNT, POINTS, DIMENSION)[:count].astype(np.float32)
    volumes = np.empty(count)
    for i, x in enumerate(points):
        volumes[i] = ConvexHull(x.astype(np.float64)).volume
        advance(1)
    return torch.from_numpy(points), torch.from_numpy(volumes).float()


def load(split: str, advance: Advance = lambda _: None) -> tuple[Tensor, Tensor]:
    """A whole split, generated once and kept in the user's cache."""
    points, volumes = cached(f"hull-{split}", COUNT, lambda told: generate(split, advance=told), advance)
    return points, volumes
