"""Exact equivariance for any PyTorch backbone, at the cost of one forward pass."""

from minframe import frames, testing
from minframe.canonical import canonicalize
from minframe.errors import unchecked
from minframe.frame import Frame
from minframe.groups import SE, SO, E, Group, O, Translation
from minframe.wrap import Equivariant, Invariant

__version__ = "0.1.0"

__all__ = [
    "SE",
    "SO",
    "E",
    "Equivariant",
    "Frame",
    "Group",
    "Invariant",
    "O",
    "Translation",
    "canonicalize",
    "frames",
    "testing",
    "unchecked",
]
