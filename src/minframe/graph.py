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
refinement alone, a whole batch at once; a library is asked about what stays tied, ``pip install "minframe[graph]"``.
Canonical forms depend on the library and its version: compare only those that the same one made.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.errors import readable
from minframe.permutation import backend as _backend
from minframe.permutation import orbits as _orbits
from minframe.permutation.backend import DEFAULT
from minframe.permutation.chain import StabiliserChain
from minframe.permutation.cluster import cluster_edges, cluster_rows
from minframe.permutation.labelling import label_sparse, labelling
from minframe.permutation.ops import canonical_order
from minframe.permutation.order import group_order

EPSILONS = 32  # of the dtype: the default tolerance for weights that are equal up to rounding


class CanonicalGraph(NamedTuple):
    """A graph in canonical order, and the way there.

    Attributes:
        edges: as given, with rows and columns in canonical order; padding is zero.
        nodes: as given, in canonical order; ``None`` if there were none.
        order: ``(*batch, n)``, int64: the node at each canonical position, padding last. For one graph ``edges`` is
            ``given[order][:, order]``.
    """

    edges: Tensor
    nodes: Tensor | None
    order: Tensor


class CanonicalSparseGraph(NamedTuple):
    """Sparse graphs in canonical order.

    Attributes:
        edge_index: ``(2, E)``, between canonical positions, sorted.
        edge_attr: in the same order; ``None`` if there was none.
        nodes: in canonical order, those of graph 0 first; ``None`` if there were none.
        order: ``(N,)``, int64: the node at each canonical position. ``batch[order]`` is the new batch vector.
    """

    edge_index: Tensor
    edge_attr: Tensor | None
    nodes: Tensor | None
    order: Tensor


def canonical_form(
    edges: Tensor,
    nodes: Tensor | None = None,
    mask: Tensor | None = None,
    directed: bool | None = None,
    rtol: float = 0.0,
    backend: str = DEFAULT,
) -> CanonicalGraph:
    """One form for all relabellings of a graph, and another for every other graph.

    >>> import torch
    >>> from minframe import graph
    >>> path = torch.tensor([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> star = torch.tensor([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    >>> p = torch.randperm(4)
    >>> form = graph.canonical_form(torch.stack([path, path[p][:, p], star]))
    >>> bool((form.edges[0] == form.edges[1]).all()), bool((form.edges[0] == form.edges[2]).all())
    (True, False)

    The result is differentiable in ``edges`` and ``nodes``, with ``order`` fixed. -0.0 counts as 0.0, and becomes it.

    Args:
        edges: ``(*batch, n, n)`` or ``(*batch, n, n, c)``, any real dtype; see ``split_edges`` for shapes such as
            ``(3, 3, 3)``.
        nodes: colours ``(*batch, n)`` or features ``(*batch, n, c)``, any real dtype.
        mask: ``(*batch, n)``, True for real nodes. Padding, whatever its values, makes no difference.
        directed: False has the matrices checked for symmetry; otherwise directions count if there are any.
        rtol: with 0, the default, isomorphic graphs have equal forms bit by bit. With more, floating numbers that
            differ by rounding are taken for equal, and isomorphic graphs have forms that agree up to rounding.
        backend: ``"igraph"`` or ``"pynauty"``.
    """
    _check_options(rtol, backend)
    graphs = _read(edges, nodes, mask)
    colours, kinds = graphs.colours(rtol)
    if directed is False and readable(kinds) and bool((kinds != kinds.mT).any()):
        bad = int((kinds != kinds.mT).flatten(1).any(-1).long().argmax())
        raise ValueError(
            f"edges is not symmetric in sample {bad} of {kinds.shape[0]}, but directed=False declares the graph as "
            "undirected: symmetrise it, for example with edges + edges.mT, or leave directed out"
        )
    order = _order(colours, kinds, graphs.mask, backend)
    moved = graphs.reorder(order)
    return CanonicalGraph(
        moved.edges.reshape(edges.shape),
        None if nodes is None or moved.nodes is None else moved.nodes.reshape(nodes.shape),
        order.reshape(*graphs.batch, graphs.n),
    )


def is_isomorphic(
    a: Tensor,
    b: Tensor,
    a_nodes: Tensor | None = None,
    b_nodes: Tensor | None = None,
    rtol: float | None = None,
    backend: str = DEFAULT,
) -> Tensor:
    """Whether graphs ``a`` and ``b`` are the same but for the labels of their nodes, a boolean tensor ``(*batch,)``.

    >>> import torch
    >>> from minframe import graph
    >>> x = torch.randn(12, 3)
    >>> p, turn = torch.randperm(12), torch.linalg.qr(torch.randn(3, 3))[0]
    >>> graph.is_isomorphic(torch.cdist(x, x), torch.cdist(x @ turn, x @ turn)[p][:, p], rtol=1e-5)
    tensor(True)

    The nodes of both are put in canonical order and the weights then compared, so **True is a proof**: there is a
    relabelling under which all weights agree within ``rtol`` times the largest. False is a proof too where the values
    that ``rtol`` joins do so pairwise. Should they form chains, as thousands of different weights in half precision do,
    and not be equal bit by bit either, then a relabelling may exist that was not found.

    Args:
        a: ``(*batch, n, n)`` or ``(*batch, n, n, c)``.
        b: the same, with a batch that broadcasts against that of ``a``. Another number of nodes is another graph.
        a_nodes: colours ``(*batch, n)`` or features ``(*batch, n, c)``. A mask, given as such for both graphs with
            zero weights for padding, compares padded graphs.
        b_nodes: likewise.
        rtol: of floating weights and features; by default 32 times the machine epsilon of their dtype. Integers are
            compared exactly.
        backend: ``"igraph"`` or ``"pynauty"``.
    """
    _check_options(rtol, backend)
    if (a_nodes is None) != (b_nodes is None):
        raise ValueError("a_nodes and b_nodes belong together, got only one of them: give both or neither")
    first, second = _read(a, a_nodes, None, "a", "a_nodes"), _read(b, b_nodes, None, "b", "b_nodes")
    for x, y, what in ((first.edges, second.edges, "a and b"), (first.nodes, second.nodes, "a_nodes and b_nodes")):
        if x is not None and y is not None and x.shape[-1] != y.shape[-1]:
            raise ValueError(f"{what} must have the same channels, got {x.shape[-1]} and {y.shape[-1]}")
    try:
        batch = torch.broadcast_shapes(first.batch, second.batch)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise ValueError(
            f"a and b must have batches that broadcast, got {first.batch} and {second.batch} "
            f"(shapes {tuple(a.shape)} and {tuple(b.shape)})"
        ) from error
    if first.n != second.n:
        return torch.zeros(batch, dtype=torch.bool, device=a.device)
    pairs = _Pairs.of(first, second, batch)
    found, possible = pairs.compare(rtol, rtol, backend)
    open_ = possible & ~found  # the values chain: see whether the graphs are equal bit by bit
    if bool(open_.any()):
        found[open_] = pairs.select(open_).compare(0.0, rtol, backend)[0]
    return found.reshape(batch)


def automorphism_group(
    edges: Tensor,
    nodes: Tensor | None = None,
    mask: Tensor | None = None,
    rtol: float | None = None,
    backend: str = DEFAULT,
) -> AutomorphismGroup | list[AutomorphismGroup]:
    """The relabellings of a graph that change nothing; for a batch a list, in the order of the flattened batch.

    >>> import torch
    >>> from minframe import graph
    >>> square = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    >>> group = graph.automorphism_group(square)
    >>> group
    AutomorphismGroup(nodes=4, order=8)
    >>> group.orbits, [1, 2, 3, 0] in group, [1, 0, 2, 3] in group
    (tensor([0, 0, 0, 0]), True, False)
    >>> graph.automorphism_group(1 - torch.eye(64)).order == __import__("math").factorial(64)
    True

    Args:
        edges: ``(*batch, n, n)`` or ``(*batch, n, n, c)``, any real dtype.
        nodes: colours ``(*batch, n)`` or features ``(*batch, n, c)``.
        mask: ``(*batch, n)``, True for real nodes; padding stays in its place.
        rtol: of floating weights and features; by default 32 times the machine epsilon of their dtype.
        backend: ``"igraph"`` or ``"pynauty"``.
    """
    _check_options(rtol, backend)
    graphs = _read(edges, nodes, mask)
    colours, kinds = graphs.colours(rtol)
    if graphs.n and colours.shape[0]:
        found = labelling(colours, kinds, graphs.mask, backend)
        sizes = torch.bincount(found.owner, minlength=colours.shape[0]).tolist()
        generators = torch.split(found.generators.to(edges.device), sizes)
    else:
        generators = (kinds.new_zeros(0, graphs.n),) * colours.shape[0]
    if graphs.mask is not None:  # padding is like nothing else
        colours = torch.where(graphs.mask, colours, -1 - torch.arange(graphs.n, device=colours.device))
    groups = [AutomorphismGroup(*parts) for parts in zip(generators, colours, kinds, strict=True)]
    return groups if graphs.batch else groups[0]


class AutomorphismGroup:
    """The automorphisms of one graph with ``n`` nodes; ``g`` takes node ``i`` to ``g[i]``.

    What is asked for is computed when it is asked for. Orbits need the generators only, and so does the order of most
    groups; ``elements`` and ``random`` build a chain of stabilisers, of up to ``n^3 / 2`` numbers.

    Attributes:
        generators: ``(k, n)``, int64.
    """

    def __init__(self, generators: Tensor, colours: Tensor, edges: Tensor) -> None:
        self.generators = generators
        self._colours, self._edges = colours, edges

    def __repr__(self) -> str:
        n = self.generators.shape[-1]
        if n > 64 and "order" not in self.__dict__:  # may take long
            return f"AutomorphismGroup(nodes={n}, generators={len(self.generators)})"
        order = str(self.order) if self.order < 10**12 else f"{Decimal(self.order):.2e}"
        return f"AutomorphismGroup(nodes={n}, order={order})"

    @functools.cached_property
    def order(self) -> int:
        """Number of automorphisms, exact."""
        return group_order(self.generators.cpu())

    @functools.cached_property
    def orbits(self) -> Tensor:
        """For each node the smallest that it can be taken to, ``(n,)``, int64."""
        return _orbits.orbits(self.generators, self._owner(), 1)[0]

    @functools.cached_property
    def orbitals(self) -> Tensor:
        """For each ordered pair ``(i, j)`` the smallest ``i * n + j`` that it can be taken to, ``(n, n)``, int64."""
        return _orbits.orbitals(self.generators, self._owner(), 1)[0]

    def _owner(self) -> Tensor:
        return self.generators.new_zeros(len(self.generators))

    @functools.cached_property
    def _chain(self) -> StabiliserChain:
        return StabiliserChain(self.generators, self.generators.shape[-1], self.order)

    def elements(self) -> Iterator[Tensor]:
        """All automorphisms ``(n,)``, one after the other, the identity first."""
        for g in self._chain.elements():
            yield torch.tensor(g, dtype=torch.int64, device=self.generators.device)

    def random(self, generator: torch.Generator | None = None) -> Tensor:
        """A uniform random automorphism ``(n,)``; ``generator`` is one of the CPU."""
        return self._chain.random(generator).to(self.generators.device)

    def __contains__(self, g: Tensor | Sequence[int]) -> bool:
        # Looking at the graph takes n^2 steps and no chain.
        g = torch.as_tensor(g, device=self._edges.device)
        nodes = torch.arange(self._colours.shape[0], device=g.device)
        if g.is_floating_point() or g.dtype == torch.bool or g.shape != nodes.shape:
            return g.numel() == nodes.numel() == 0
        g = g.long()
        return (
            torch.equal(g.sort()[0], nodes)
            and torch.equal(self._colours[g], self._colours)
            and torch.equal(self._edges[g][:, g], self._edges)
        )


def canonical_form_sparse(
    edge_index: Tensor,
    edge_attr: Tensor | None = None,
    nodes: Tensor | None = None,
    num_nodes: int | None = None,
    batch: Tensor | None = None,
    backend: str = DEFAULT,
) -> CanonicalSparseGraph:
    """``canonical_form`` for lists of edges; time and memory grow with their number.

    >>> import torch
    >>> from minframe import graph
    >>> ring = torch.stack([torch.arange(1000), (torch.arange(1000) + 1) % 1000])
    >>> form = graph.canonical_form_sparse(ring)
    >>> torch.equal(graph.canonical_form_sparse(torch.randperm(1000)[ring]).edge_index, form.edge_index)
    True

    Every edge that is listed is one, also with the weight zero. Weights and features are compared exactly.

    Args:
        edge_index: ``(2, E)``, int64, no edge twice. An undirected edge is listed in both directions.
        edge_attr: ``(E,)`` or ``(E, c)``, any real dtype.
        nodes: colours ``(N,)`` or features ``(N, c)``, any real dtype.
        num_nodes: ``N``; by default as many as ``nodes`` or ``batch`` has, or else as edges need.
        batch: ``(N,)``, the graph of each node.
        backend: ``"igraph"`` or ``"pynauty"``.
    """
    _check_options(0.0, backend)
    n = _check_sparse(edge_index, edge_attr, nodes, num_nodes, batch)
    graph = edge_index.new_zeros(n) if batch is None else batch.long()
    edge_index = edge_index.long()
    source = edge_index[0]
    if edge_attr is None:
        kinds = torch.ones_like(source)
    else:
        edge_attr = _clean(edge_attr, "edge_attr", "row")
        kinds = _ranks(edge_attr, graph[source]) + 1
    if nodes is None:
        colours = torch.zeros_like(graph)
    else:
        nodes = _clean(nodes, "nodes", "row")
        colours = _ranks(nodes, graph)
    order = label_sparse(colours, edge_index, kinds, graph, backend, automorphisms=False)[0] if n else graph
    place = torch.empty_like(order).index_copy(0, order, torch.arange(n, device=order.device))
    moved = place[edge_index]
    by_place = (moved[0] * n + moved[1]).argsort()
    return CanonicalSparseGraph(
        moved[:, by_place],
        None if edge_attr is None else edge_attr[by_place],
        None if nodes is None else nodes[order],
        order,
    )


def split_edges(
    shape: Sequence[int], nodes: Sequence[int] | None = None, mask: Sequence[int] | None = None, name: str = "edges"
) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Read the shape of edges as ``(*batch, n, n)`` or ``(*batch, n, n, c)``: the batch, ``n``, and ``()`` or ``(c,)``.

    >>> from minframe.graph import split_edges
    >>> split_edges((5, 4, 4)), split_edges((4, 4, 5)), split_edges((3, 3, 3)), split_edges((2, 3, 3, 3))
    (((5,), 4, ()), ((), 4, (5,)), ((3,), 3, ()), ((2,), 3, (3,)))

    Where both readings are possible, the shapes of ``nodes`` and ``mask`` settle it if they fit only one. Otherwise
    there are no channels, unless that leaves more than one batch axis.
    """
    shape = tuple(shape)
    ends = len(shape)
    readings = [k for k in (ends - 2, ends - 3) if k >= 0 and shape[k] == shape[k + 1]]  # numbers of batch axes
    if not readings:
        raise ValueError(
            f"{name} must have shape (*batch, n, n) or (*batch, n, n, channels), got {shape}: "
            "for an edge_index (2, E) use canonical_form_sparse"
        )
    for other, extra in ((nodes, (1, 2)), (mask, (1,))):
        if other is not None:
            fitting = [k for k in readings if len(other) - k in extra and tuple(other[: k + 1]) == shape[: k + 1]]
            readings = fitting or readings
    k = readings[-1] if len(readings) == 1 or ends > 3 else readings[0]
    return shape[:k], shape[k], shape[k + 2 :]


@dataclass(frozen=True, slots=True)
class _Graphs:
    """Graphs as read: ``edges`` ``(B, n, n, c)``, ``nodes`` ``(B, n, c)``, ``mask`` ``(B, n)``; padding is zero."""

    batch: tuple[int, ...]
    n: int
    edges: Tensor
    nodes: Tensor | None
    mask: Tensor | None

    def colours(self, rtol: float | None) -> tuple[Tensor, Tensor]:
        """Integers for nodes ``(B, n)`` and for pairs ``(B, n, n)``, equal where the values are."""
        return _node_colours(self.nodes, self.edges, rtol, self.mask), _edge_colours(self.edges, rtol)

    def reorder(self, order: Tensor) -> _Graphs:
        nodes = None if self.nodes is None else _reorder_nodes(self.nodes, order)
        return _Graphs(self.batch, self.n, _reorder_edges(self.edges, order), nodes, self.mask)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs of graphs: ``edges`` ``(B, 2, n, n, c)``, ``nodes`` ``(B, 2, n, c)``."""

    edges: Tensor
    nodes: Tensor | None

    @staticmethod
    def of(first: _Graphs, second: _Graphs, batch: Sequence[int]) -> _Pairs:
        """Broadcast to ``batch``, in a common dtype."""

        def pair(x: Tensor, y: Tensor) -> Tensor:
            core, dtype = x.shape[1:], torch.promote_types(x.dtype, y.dtype)
            both = [
                z.reshape(*old, *core).expand(*batch, *core).reshape(math.prod(batch), *core).to(dtype)
                for z, old in ((x, first.batch), (y, second.batch))
            ]
            return torch.stack(both, 1)

        nodes = None if first.nodes is None or second.nodes is None else pair(first.nodes, second.nodes)
        return _Pairs(pair(first.edges, second.edges), nodes)

    def select(self, keep: Tensor) -> _Pairs:
        return _Pairs(self.edges[keep], None if self.nodes is None else self.nodes[keep])

    def compare(self, rtol: float | None, within: float | None, backend: str) -> tuple[Tensor, Tensor]:
        """Whether weights agree ``within`` a tolerance, ``(B,)``; and whether they could, under another relabelling.

        Weights that agree are in one class, as classes are of both graphs together and are cut only at gaps above the
        tolerance. So graphs that agree are isomorphic as graphs coloured by class: if those differ nothing agrees.
        """
        count, _, n, *_ = self.edges.shape
        kinds = _edge_colours(self.edges.flatten(1, 2), rtol).view(2 * count, n, n)
        nodes = None if self.nodes is None else self.nodes.flatten(1, 2)
        colours = _node_colours(nodes, self.edges.flatten(1, 2), rtol, None).view(2 * count, n)
        order = _order(colours, kinds, None, backend)

        def agree(x: Tensor, reorder: Callable[[Tensor, Tensor], Tensor], rtol: float | None) -> Tensor:
            moved = reorder(x, order)
            return _agree(moved[::2], moved[1::2], rtol)

        possible = agree(colours, _reorder_nodes, 0.0) & agree(kinds, _reorder_edges, 0.0)
        found = possible & agree(self.edges.flatten(0, 1), _reorder_edges, within)
        if self.nodes is not None:
            found &= agree(self.nodes.flatten(0, 1), _reorder_nodes, within)
        return found, possible


def _agree(x: Tensor, y: Tensor, rtol: float | None) -> Tensor:
    """Whether ``(B, ...)`` agree, relative to the largest magnitude of a channel, the last axis; ``(B,)``."""
    tolerance = _tolerance(x, rtol)
    if tolerance == 0.0 or not x.numel():
        return (x == y).flatten(1).all(-1)
    if x.dtype in (torch.float16, torch.bfloat16):
        x, y = x.float(), y.float()
    x, y = x.flatten(1, -2), y.flatten(1, -2)
    size = torch.maximum(x.abs(), y.abs()).amax(1, keepdim=True)
    return ((x - y).abs() <= size * tolerance).flatten(1).all(-1)


def _order(colours: Tensor, kinds: Tensor, mask: Tensor | None, backend: str) -> Tensor:
    return canonical_order(colours, kinds, mask, backend)[0] if colours.shape[-1] else colours


def _reorder_nodes(nodes: Tensor, order: Tensor) -> Tensor:
    sample = torch.arange(order.shape[0], device=order.device).unsqueeze(-1)
    return nodes[sample, order]


def _reorder_edges(edges: Tensor, order: Tensor) -> Tensor:
    sample = torch.arange(order.shape[0], device=order.device).view(-1, 1, 1)
    return edges[sample, order.unsqueeze(-1), order.unsqueeze(-2)]


def _tolerance(x: Tensor, rtol: float | None) -> float:
    if not x.is_floating_point():
        return 0.0
    return EPSILONS * torch.finfo(x.dtype).eps if rtol is None else rtol


def _channels(x: Tensor) -> Tensor:
    """Channels, the last axis, that are equal where those of ``x`` are, and whose differences do not overflow."""
    x = x.detach()
    if x.is_floating_point():
        return x
    if x.dtype not in (torch.int64, torch.uint64):
        return x.long()
    x = x.long()
    return torch.cat([x >> 32, x & 0xFFFFFFFF], -1)


def _edge_colours(edges: Tensor, rtol: float | None) -> Tensor:
    """Integers ``(B, m, n)`` for ``(B, m, n, c)``, equal where the values are, zero where those are."""
    if edges.shape[-1] == 0:
        return edges.new_zeros(edges.shape[:-1], dtype=torch.int64)
    if not edges.is_floating_point() and edges.shape[-1] == 1:
        return edges.squeeze(-1).long()
    return cluster_edges(_channels(edges), _tolerance(edges, rtol))


def _node_colours(nodes: Tensor | None, edges: Tensor, rtol: float | None, mask: Tensor | None) -> Tensor:
    if nodes is None or nodes.shape[-1] == 0:
        return edges.new_zeros(edges.shape[:2], dtype=torch.int64)
    return cluster_rows(_channels(nodes), _tolerance(nodes, rtol), mask)


def _ranks(values: Tensor, graph: Tensor) -> Tensor:
    """Ranks from 0 of the rows of ``(m,)`` or ``(m, c)`` among the different ones of the same graph, ``(m,)``."""
    m = values.shape[0]
    rank = graph
    for channel in _channels(values.reshape(m, -1) if m else values.reshape(0, 1)).unbind(-1):
        rank = torch.unique(rank * m + torch.unique(channel, return_inverse=True)[1], return_inverse=True)[1]
    first = torch.full((int(graph.max()) + 1,) if m else (0,), torch.iinfo(torch.int64).max, device=rank.device)
    return rank - first.scatter_reduce(0, graph, rank, "amin")[graph]


def _check_options(rtol: float | None, backend: str) -> None:
    if rtol is not None and not (isinstance(rtol, int | float) and 0 <= rtol < 1):
        raise ValueError(f"rtol must be a number from 0 to below 1, got {rtol!r}: 0 asks for exact equality")
    if backend not in _backend._BACKENDS:
        raise ValueError(f"backend must be one of {sorted(_backend._BACKENDS)}, got {backend!r}")


def _check_tensor(x: object, name: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}: convert it with torch.as_tensor")
    if x.is_complex():
        raise TypeError(
            f"{name} must be boolean, integer or real, got {x.dtype}: give the two parts as channels, "
            "for example torch.view_as_real(x)"
        )


def _clean(x: Tensor, name: str, row: str = "sample") -> Tensor:
    """Check that ``(B, ...)`` has finite numbers only, and turn -0.0 into 0.0."""
    if not x.is_floating_point():
        return x
    bad = ~x.detach().isfinite().reshape(x.shape[0], math.prod(x.shape[1:])).all(-1)
    if readable(bad) and bool(bad.any()):
        raise ValueError(
            f"{name} has NaN or infinite values in {row} {int(bad.long().argmax())} of {bad.shape[0]}, and no order: "
            "replace them, for example an infinite distance by -1, or mark padding with mask="
        )
    return x + 0.0


def _read(
    edges: Tensor, nodes: Tensor | None, mask: Tensor | None, name: str = "edges", nodes_name: str = "nodes"
) -> _Graphs:
    _check_tensor(edges, name)
    if nodes is not None:
        _check_tensor(nodes, nodes_name)
    if mask is not None and not (isinstance(mask, Tensor) and mask.dtype == torch.bool):
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a boolean tensor (True = real node), got {got}: use for example mask.bool()")
    batch, n, channels = split_edges(
        edges.shape, None if nodes is None else nodes.shape, None if mask is None else mask.shape, name
    )
    rows, count = (*batch, n), math.prod(batch)
    if mask is not None and mask.shape != rows:
        raise ValueError(f"mask must have shape {rows}, one entry per node, got {tuple(mask.shape)}")
    if nodes is not None and (nodes.shape[: len(rows)] != rows or nodes.ndim > len(rows) + 1):
        raise ValueError(
            f"{nodes_name} must have shape {rows} or {(*rows, 'channels')} for {name} of shape {tuple(edges.shape)}, "
            f"got {tuple(nodes.shape)}".replace("'", "")
        )
    edges = edges.reshape(count, n, n, *(channels or (1,)))
    if nodes is not None:
        nodes = nodes.reshape(count, n, *(nodes.shape[len(rows) :] or (1,)))
    if mask is not None:
        mask = mask.reshape(count, n)
        edges = edges.masked_fill(~(mask.unsqueeze(-1) & mask.unsqueeze(-2)).unsqueeze(-1), 0)
        nodes = None if nodes is None else nodes.masked_fill(~mask.unsqueeze(-1), 0)
    return _Graphs(batch, n, _clean(edges, name), None if nodes is None else _clean(nodes, nodes_name), mask)


def _check_sparse(
    edge_index: Tensor, edge_attr: Tensor | None, nodes: Tensor | None, num_nodes: int | None, batch: Tensor | None
) -> int:
    """The number of nodes."""
    integers = (torch.int64, torch.int32)
    for x, name in ((edge_index, "edge_index"), (edge_attr, "edge_attr"), (nodes, "nodes"), (batch, "batch")):
        if x is not None:
            _check_tensor(x, name)
            if name in ("edge_index", "batch") and x.dtype not in integers:
                raise TypeError(f"{name} must be an integer tensor, got {x.dtype}: use for example {name}.long()")
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise ValueError(
            f"edge_index must have shape (2, E), got {tuple(edge_index.shape)}: for a dense matrix use canonical_form"
        )
    if edge_attr is not None and (edge_attr.ndim not in (1, 2) or edge_attr.shape[0] != edge_index.shape[1]):
        e = edge_index.shape[1]
        raise ValueError(f"edge_attr must have shape ({e},) or ({e}, channels), got {tuple(edge_attr.shape)}")
    needed = int(edge_index.max()) + 1 if edge_index.numel() else 0
    n = num_nodes
    if n is None:
        n = next((x.shape[0] for x in (nodes, batch) if x is not None), needed)
    if edge_index.numel() and (needed > n or int(edge_index.min()) < 0):
        raise ValueError(
            f"edge_index has nodes from {int(edge_index.min())} to {needed - 1}, but there are {n}, counted from 0: "
            "correct it, or num_nodes"
        )
    if nodes is not None and (nodes.ndim not in (1, 2) or nodes.shape[0] != n):
        raise ValueError(f"nodes must have shape ({n},) or ({n}, channels), got {tuple(nodes.shape)}")
    if batch is not None:
        if batch.shape != (n,):
            raise ValueError(f"batch must have shape ({n},), one graph per node, got {tuple(batch.shape)}")
        if n and int(batch.min()) < 0:
            raise ValueError(f"batch has negative numbers of graphs (smallest {int(batch.min())}): count from 0")
        if bool((batch[edge_index[0].long()] != batch[edge_index[1].long()]).any()):
            raise ValueError("edge_index joins nodes of different graphs according to batch: correct one of them")
    return n
