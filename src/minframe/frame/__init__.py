"""Frames, and their classes: linear, of permutations, of listed graphs, of products."""

from minframe.frame.base import Frame
from minframe.frame.linear import LinearFrame

__all__ = ["Frame", "LinearFrame"]
