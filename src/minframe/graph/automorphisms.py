"""The relabellings of a graph that change nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from minframe.cloud import Input
from minframe.frame.size import shown
from minframe.groups.permutation import S
from minframe.labelling import orbits as _orbits
from minframe.labelling.arcs import Arcs
from minframe.labelling.backend import DEFAULT
from minframe.labelling.chain import StabiliserChain
from minframe.labelling.counting import count_automorphisms
from minframe.labelling.label import labelling
from minframe.relations import coloured


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
    group = S(backend=backend, rtol=rtol or 0.0)
    inputs = [Input("edges", edges, "edge"), *([] if nodes is None else [Input("nodes", nodes, "node")])]
    cloud = group.cloud(inputs, mask)
    assert cloud.relations is not None
    colours, kinds, mask = coloured(cloud.relations, cloud.layout, rtol, None, cloud.name)
    assert kinds is not None
    found = labelling(colours, kinds, mask, backend)
    sizes = torch.bincount(found.owner, minlength=colours.shape[0]).tolist()
    generators = torch.split(found.generators.to(edges.device), sizes)
    if mask is not None:  # padding is like nothing else
        colours = torch.where(mask, colours, -1 - torch.arange(colours.shape[-1], device=colours.device))
    groups = [AutomorphismGroup(*parts, backend) for parts in zip(generators, colours, kinds, strict=True)]
    return groups if cloud.layout.batch_shape else groups[0]


class AutomorphismGroup:
    """The automorphisms of one graph with ``n`` nodes; ``g`` takes node ``i`` to ``g[i]``.

    All attributes are computed on demand. Orbits need the generators only, and the order needs orbits;
    ``elements`` and ``random`` build a chain of stabilisers, of up to ``n^3 / 2`` numbers.

    Attributes:
        generators: ``(k, n)``, int64.
    """

    def __init__(self, generators: Tensor, colours: Tensor, edges: Tensor, backend: str = DEFAULT) -> None:
        self.generators = generators
        self._colours, self._edges, self._backend = colours, edges, backend

    def __repr__(self) -> str:
        n = self.generators.shape[-1]
        if n > 64 and "order" not in self.__dict__:  # may take long
            return f"AutomorphismGroup(nodes={n}, generators={len(self.generators)})"
        return f"AutomorphismGroup(nodes={n}, order={shown(self.order)})"

    @functools.cached_property
    def order(self) -> int:
        """Number of automorphisms, exact."""
        if not len(self.generators):
            return 1
        arcs = Arcs.of_dense(self._edges.unsqueeze(0).cpu())
        orbits = self.orbits.cpu()
        return count_automorphisms(orbits, arcs, torch.zeros_like(orbits), 1, self._backend)[0]

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
        # Comparing the graph takes n^2 steps and needs no chain.
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
