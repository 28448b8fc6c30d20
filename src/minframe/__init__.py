"""Exact equivariance for any PyTorch backbone, at the cost of one forward pass."""

from minframe import forms, frames, graph, prior, spectral, testing
from minframe.canonical import canonicalize
from minframe.checks import unchecked
from minframe.frame import Frame
from minframe.frame.collate import collate
from minframe.groups import (
    GL,
    SE,
    SL,
    SO,
    SU,
    Aff,
    Cyclic,
    Dihedral,
    E,
    Finite,
    Group,
    Lorentz,
    O,
    Octahedral,
    OrthochronousLorentz,
    Poincare,
    ProperLorentz,
    S,
    Scaling,
    SignedPermutations,
    Signs,
    Sim,
    Translation,
    Trivial,
    U,
)
from minframe.local import Local, envelope
from minframe.point_group import point_group
from minframe.wrap import Equivariant, Invariant

__version__ = "0.1.0"

__all__ = [
    "GL",
    "SE",
    "SL",
    "SO",
    "SU",
    "Aff",
    "Cyclic",
    "Dihedral",
    "E",
    "Equivariant",
    "Finite",
    "Frame",
    "Group",
    "Invariant",
    "Local",
    "Lorentz",
    "O",
    "Octahedral",
    "OrthochronousLorentz",
    "Poincare",
    "ProperLorentz",
    "S",
    "Scaling",
    "SignedPermutations",
    "Signs",
    "Sim",
    "Translation",
    "Trivial",
    "U",
    "canonicalize",
    "collate",
    "envelope",
    "forms",
    "frames",
    "graph",
    "point_group",
    "prior",
    "spectral",
    "testing",
    "unchecked",
]
