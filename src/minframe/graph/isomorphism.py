"""Whether two graphs are the same but for the labels of their nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import check_numbers
from minframe.cloud import Input
from minframe.groups.permutation import S
from minframe.labelling.action import take_edges, take_nodes
from minframe.labelling.backend import DEFAULT
from minframe.labelling.colours import edge_colours, node_colours, tolerance
from minframe.labelling.label import labelling


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
        b_nodes: the same of ``b``.
        rtol: of floating weights and features; by default 32 times the machine epsilon of their dtype. Integers are
            compared exactly.
        backend: ``"igraph"`` or ``"pynauty"``.
    """
    S(backend=backend, rtol=rtol or 0.0)  # checks both
    if (a_nodes is None) != (b_nodes is None):
        raise ValueError("a_nodes and b_nodes belong together, got only one of them: give both or neither")
    first, second = _read(a, a_nodes, ("a", "a_nodes")), _read(b, b_nodes, ("b", "b_nodes"))
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
    if first.edges.shape[1] != second.edges.shape[1]:
        return torch.zeros(batch, dtype=torch.bool, device=a.device)
    pairs = _Pairs.of(first, second, batch)
    found, possible = pairs.compare(rtol, rtol, backend)
    open_ = possible & ~found  # the values chain: see whether the graphs are equal bit by bit
    if bool(open_.any()):
        found[open_] = pairs.select(open_).compare(0.0, rtol, backend)[0]
    return found.reshape(batch)


@dataclass(frozen=True, slots=True)
class _Graphs:
    """Graphs as read: ``edges`` ``(B, n, n, c)``, ``nodes`` ``(B, n, c)``."""

    batch: tuple[int, ...]
    edges: Tensor
    nodes: Tensor | None


def _read(edges: Tensor, nodes: Tensor | None, names: tuple[str, str]) -> _Graphs:
    inputs = [Input(names[0], edges, "edge"), *([] if nodes is None else [Input(names[1], nodes, "node")])]
    layout = S().cloud(inputs).layout
    weights = layout.pad(edges)
    weights = weights.unsqueeze(-1) if weights.ndim == 3 else weights
    check_numbers(weights, names[0])
    features = None
    if nodes is not None:
        features = layout.pad(nodes)
        features = features.unsqueeze(-1) if features.ndim == 2 else features
        check_numbers(features, names[1])
    return _Graphs(layout.batch_shape, weights, features)


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
        kinds = edge_colours([self.edges.flatten(1, 2)], rtol).view(2 * count, n, n)
        colours = kinds.new_zeros((2 * count, n))
        if self.nodes is not None:
            colours = node_colours([self.nodes.flatten(1, 2)], rtol).view(2 * count, n)
        order = labelling(colours, kinds, None, backend).order.to(kinds.device)

        def agree(x: Tensor, reorder: Callable[[Tensor, Tensor], Tensor], rtol: float | None) -> Tensor:
            moved = reorder(x, order)
            return _agree(moved[::2], moved[1::2], rtol)

        possible = agree(colours, take_nodes, 0.0) & agree(kinds, take_edges, 0.0)
        found = possible & agree(self.edges.flatten(0, 1), take_edges, within)
        if self.nodes is not None:
            found &= agree(self.nodes.flatten(0, 1), take_nodes, within)
        return found, possible


def _agree(x: Tensor, y: Tensor, rtol: float | None) -> Tensor:
    """Whether ``(B, ...)`` agree, relative to the largest magnitude of a channel, the last axis; ``(B,)``."""
    allowed = tolerance(x, rtol)
    if allowed == 0.0 or not x.numel():
        return (x == y).flatten(1).all(-1)
    if x.dtype in (torch.float16, torch.bfloat16):
        x, y = x.float(), y.float()
    x, y = x.flatten(1, -2), y.flatten(1, -2)
    size = torch.maximum(x.abs(), y.abs()).amax(1, keepdim=True)
    return ((x - y).abs() <= size * allowed).flatten(1).all(-1)
