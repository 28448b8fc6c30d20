"""Graphs up to isomorphism: canonical forms, whether two graphs are the same, automorphism groups.

Two graphs are *isomorphic* if a relabelling of the nodes turns one into the other. ``canonical_form`` gives all
relabellings of a graph one common form, bit by bit; ``is_isomorphic`` compares graphs whose weights were measured or
computed and so are equal only up to rounding; ``automorphism_group`` has the relabellings that change nothing.

A graph is a matrix ``(*batch, n, n)``, boolean, integer or real, or has several channels per pair,
``(*batch, n, n, c)``. Zero, in all channels, is no edge; the diagonal has self-loops; entry ``i, j`` is of the edge
from ``i`` to ``j``, so that a matrix that is not symmetric is a directed graph. Nodes may have colours ``(*batch, n)``
or features ``(*batch, n, c)``, which isomorphisms preserve. ``canonical_form_sparse`` takes lists of edges, as PyTorch
Geometric has them.

What is equal is decided for integers by equality, and for floating numbers by gaps above ``rtol`` times the largest
magnitude of the channel in the graph; there is no rounding to decimals. Most graphs are told apart by vectorised colour
refinement alone, a whole batch at once; a library labels graphs with remaining ties, ``pip install igraph``.
Canonical forms depend on the library and its version: compare only those that the same one made. ``set_workers`` lets
several processes share the graphs of a batch, if many need the library.
"""

from minframe.graph.automorphisms import AutomorphismGroup, automorphism_group
from minframe.graph.canonical import CanonicalGraph, CanonicalSparseGraph, canonical_form, canonical_form_sparse
from minframe.graph.isomorphism import is_isomorphic
from minframe.labelling.parallel import set_workers

__all__ = [
    "AutomorphismGroup",
    "CanonicalGraph",
    "CanonicalSparseGraph",
    "automorphism_group",
    "canonical_form",
    "canonical_form_sparse",
    "is_isomorphic",
    "set_workers",
]
