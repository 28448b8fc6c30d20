"""The names by which the command line knows ways to choose frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import minframe as mf

METHODS = ("minimal", "pca", "stochastic", "plain")


def frames_of(method: str) -> Callable[..., Any]:
    """Frames of points: the minimal one, all of the principal axes, or a random one of those."""
    if method == "minimal":
        return mf.frames.Minimal()
    if method == "pca":
        return mf.frames.PCA()
    if method == "stochastic":
        return mf.frames.PCA(samples=1)
    raise ValueError(f"no frames are called {method!r}: use one of {', '.join(METHODS)}")
