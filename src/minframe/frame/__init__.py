"""What a frame is, and each kind of it: linear, of permutations, of listed graphs, of products."""

from minframe.frame.base import Frame
from minframe.frame.linear import LinearFrame

__all__ = ["Frame", "LinearFrame"]
