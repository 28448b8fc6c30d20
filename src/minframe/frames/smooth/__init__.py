"""Smooth frames: a few weighted poses, exact and continuous."""

from minframe.frames.smooth.method import Smooth

__all__ = ["Smooth"]
