"""Libraries that label graphs canonically: igraph (BLISS) and pynauty (nauty).

Both know graphs with coloured vertices and plain edges. Colours and directions of edges are encoded in layers, as
nauty's manual suggests: each node becomes a path with one vertex per layer, coloured by the node's colour and the
layer, and an edge whose code has bit ``l`` set joins the vertices of its ends in layer ``l``. Codes up to ``k`` need
``ceil(log2(k + 1))`` layers. For arrows there are twice as many, layers where arrows leave and layers where they
arrive, and an empty one in between, so that no arrow looks like a step of a path. The group of the layered graph is
that of the original, acting on all layers alike, and the order of the vertices in the first layer is a canonical order
of the nodes.

The canonical form depends on the library and its version, so a model that is trained on it should record ``version``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

Permutation = Sequence[int]


class Layered(NamedTuple):
    """A graph with coloured vertices; vertex ``layer * m + node`` for ``m`` nodes."""

    vertices: int
    colours: list[int]
    edges: list[tuple[int, int]]


def layered(colours: Sequence[int], arcs: Sequence[tuple[int, int, int]]) -> Layered:
    """Encode a graph with ``arcs`` ``(i, j, code)``, code > 0; an undirected edge is listed in both directions."""
    m = len(colours)
    listed = set(arcs)
    arrows = any((j, i, code) not in listed for i, j, code in arcs)
    bits = max((code for _, _, code in arcs), default=1).bit_length()
    layers = 2 * bits + 1 if arrows else bits
    edges = [(v, v + m) for v in range((layers - 1) * m)]
    arrival = (bits + 1) * m if arrows else 0
    for i, j, code in arcs if arrows or bits > 1 else ():
        if arrows or i < j:
            edges += [(bit * m + i, arrival + bit * m + j) for bit in range(bits) if code >> bit & 1]
    if not arrows and bits == 1:
        edges = [(i, j) for i, j, _ in arcs if i < j]
    kinds = max(colours, default=0) + 1
    return Layered(layers * m, [layer * kinds + c for layer in range(layers) for c in colours], edges)


class Backend(ABC):
    """A labelling library. Nodes are numbered from 0; a permutation ``g`` maps node ``i`` to ``g[i]``."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Name and version of the library."""

    @abstractmethod
    def label(self, graph: Layered) -> list[int]:
        """The vertices in a canonical order."""

    @abstractmethod
    def generators(self, graph: Layered) -> list[list[int]]:
        """Generators of the automorphism group."""

    def order(self, colours: Sequence[int], arcs: Sequence[tuple[int, int, int]]) -> list[int]:
        """The nodes in a canonical order, sorted by colour first."""
        m = len(colours)
        nodes = [v for v in self.label(layered(colours, arcs)) if v < m]
        return sorted(nodes, key=colours.__getitem__)

    def automorphisms(self, colours: Sequence[int], arcs: Sequence[tuple[int, int, int]]) -> list[list[int]]:
        """Generators of the group that preserves colours and arcs."""
        return [g[: len(colours)] for g in self.generators(layered(colours, arcs))]


def inverse(g: Permutation) -> list[int]:
    """The permutation that undoes ``g``."""
    result = [0] * len(g)
    for i, image in enumerate(g):
        result[image] = i
    return result


def _load(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"some nodes are tied after colour refinement and need the labelling library {module!r}, which is not "
            f"installed: pip install {module}"
        ) from error


def lists_vertices(label: Callable[[Layered], Sequence[int]]) -> bool:
    """Whether ``label`` lists vertices by position (True) or positions by vertex (False), found by trying it.

    Libraries differ, and igraph changed its convention between two versions. All relabellings of a graph without
    symmetry have one canonical form if the result is read the right way, and several if it is not.
    """
    edges, n = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (5, 6)], 7
    forms: tuple[set[frozenset[frozenset[int]]], set[frozenset[frozenset[int]]]] = (set(), set())
    for step in (1, 2, 3, 4, 5):
        for shift in range(n):
            g = [(step * v + shift) % n for v in range(n)]
            found = list(label(Layered(n, [0] * n, [(g[i], g[j]) for i, j in edges])))
            for kind, position in enumerate((found, inverse(found))):
                forms[kind].add(frozenset(frozenset((position[g[i]], position[g[j]])) for i, j in edges))
    unique = [len(f) == 1 for f in forms]
    if unique.count(True) != 1:
        raise RuntimeError(
            "the labelling library does not return canonical labels on a test graph "
            f"({len(forms[0])} and {len(forms[1])} different forms of one graph): install another version of it"
        )
    return unique[1]


class Igraph(Backend):
    """BLISS, by Junttila and Kaski, in igraph."""

    def __init__(self) -> None:
        self._igraph = _load("igraph")
        self._lists = lists_vertices(self._raw)

    @property
    def version(self) -> str:
        return f"igraph {self._igraph.__version__} (bliss)"

    def _raw(self, graph: Layered) -> list[int]:
        # The public subclass, Graph, takes three times as long to build.
        return self._igraph.GraphBase(graph.vertices, graph.edges).canonical_permutation(color=graph.colours)

    def label(self, graph: Layered) -> list[int]:
        return self._raw(graph) if self._lists else inverse(self._raw(graph))

    def generators(self, graph: Layered) -> list[list[int]]:
        return self._igraph.GraphBase(graph.vertices, graph.edges).automorphism_group(color=graph.colours)


class Pynauty(Backend):
    """nauty, by McKay and Piperno."""

    def __init__(self) -> None:
        self._pynauty = _load("pynauty")
        self._lists = lists_vertices(self._raw)

    @property
    def version(self) -> str:
        return f"pynauty {importlib.metadata.version('pynauty')} (nauty)"

    def _graph(self, graph: Layered) -> Any:
        neighbours: dict[int, list[int]] = {}
        for i, j in graph.edges:
            neighbours.setdefault(i, []).append(j)
        order = sorted(range(graph.vertices), key=graph.colours.__getitem__)
        cuts = [k for k, (v, w) in enumerate(pairwise(order), 1) if graph.colours[v] != graph.colours[w]]
        cells = [set(order[a:b]) for a, b in pairwise([0, *cuts, graph.vertices])]
        return self._pynauty.Graph(graph.vertices, adjacency_dict=neighbours, vertex_coloring=cells)

    def _raw(self, graph: Layered) -> list[int]:
        return self._pynauty.canon_label(self._graph(graph))

    def label(self, graph: Layered) -> list[int]:
        return self._raw(graph) if self._lists else inverse(self._raw(graph))

    def generators(self, graph: Layered) -> list[list[int]]:
        return self._pynauty.autgrp(self._graph(graph))[0]


BACKENDS: dict[str, type[Backend]] = {"igraph": Igraph, "pynauty": Pynauty}
DEFAULT = "igraph"
LABELLING_VERSION = 2  # raised whenever refinement or the order of pieces changes, and canonical orders with it


@functools.cache
def get(name: str = DEFAULT) -> Backend:
    """The library ``name``, loaded and probed once."""
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {sorted(BACKENDS)}, got {name!r}")
    return BACKENDS[name]()


def backend_version(name: str = DEFAULT) -> str:
    """Name and version of a library, such as ``"igraph 1.0.0 (bliss)"``."""
    return get(name).version


def installed_version(name: str = DEFAULT) -> str | None:
    """The versions that canonical orders depend on: the library's and ours. ``None``: the library is not installed."""
    try:
        return f"{backend_version(name)}, order {LABELLING_VERSION}"
    except ImportError:
        return None


def installed_point_version(point_order_version: int, name: str = DEFAULT) -> str | None:
    """The versions that canonical orders of points depend on. ``None`` if the library is not installed."""
    version = installed_version(name)
    return None if version is None else f"{version}, points {point_order_version}"
