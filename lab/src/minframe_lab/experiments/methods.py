"""The names by which the command line knows ways to choose frames."""

from __future__ import annotations

import minframe as mf

METHODS = ("minimal", "pca", "stochastic", "plain")
POINT_METHODS = (*METHODS, "ordered", "smooth")  # where rows are points in space


def frames_of(method: str, unordered: bool = False) -> mf.frames.Method:
    """Frames of points: the minimal one, all of the principal axes, or a random one of those; or smooth ones.

    ``unordered``: the minimal frame is not to depend on the order of the points.
    """
    if method == "ordered":
        return mf.frames.Minimal()
    if method == "smooth":
        return mf.frames.Smooth()
    if method == "minimal":
        return mf.frames.Unordered() if unordered else mf.frames.Minimal()
    if method == "pca":
        return mf.frames.PCA()
    if method == "stochastic":
        return mf.frames.PCA(samples=1)
    raise ValueError(f"no frames are called {method!r}: use one of {', '.join(POINT_METHODS)}")
