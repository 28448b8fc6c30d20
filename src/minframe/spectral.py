"""Eigenvectors of graphs as features: positional encodings that follow the nodes exactly.

Eigenvectors come with arbitrary signs, and those of a repeated eigenvalue with an arbitrary basis: O(k_1) x O(k_2) x
..., one factor for each eigenvalue, acts on them from the right while permutations of the nodes act from the left. What
a library returns is one point of that orbit, and which one depends on how the nodes are numbered.

Here the graph is first brought into its canonical order (``mf.graph.canonical_form``), where all relabellings of it are
the same matrix, bit by bit. Whatever is computed from that matrix is the same too: its eigenvectors, the sizes of
blocks, which are cut where eigenvalues have a gap, and the canonical basis of each block, which is the minimal frame of
O(k_i) on its rows. Carried back to the nodes, the result is averaged over the automorphisms of the graph, as each of
them is an equally good way back: the mean over every orbit of nodes. An automorphism that flips an eigenvector averages
it to zero, and zero is the only answer that relabelling does not change.

Each graph is computed by itself, so that not even rounding depends on what else is in the batch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.canonical import canonicalize
from minframe.cloud import Input
from minframe.frames.sorting import EQUAL_EIGENVALUES
from minframe.groups.linear import LinearGroup
from minframe.groups.orthogonal import O
from minframe.groups.permutation import S
from minframe.groups.sum import direct_sum
from minframe.labelling.backend import DEFAULT
from minframe.labelling.cluster import cluster
from minframe.linalg.qr import FRACTION

MIN_MEAN_ENTRY = 1e-13  # averaged entries of unit vectors below this are rounding, and set to zero


class Encodings(NamedTuple):
    """Eigenvectors and eigenvalues of graphs.

    Attributes:
        vectors: ``(*batch, n, k)``, one row for each node; zero for padding and where a graph has fewer than k nodes.
        values: ``(*batch, k)``, ascending; zero where there is none.
    """

    vectors: Tensor
    values: Tensor


def encodings(
    edges: Tensor,
    k: int,
    nodes: Tensor | None = None,
    mask: Tensor | None = None,
    normalized: bool = True,
    rtol: float = EQUAL_EIGENVALUES,
    backend: str = DEFAULT,
) -> Encodings:
    """The first ``k`` eigenvectors of the Laplacian of each graph, in float64, exactly equivariant to relabelling.

    >>> import torch, minframe as mf
    >>> upper = (torch.rand(10, 10) < 0.3).triu(1).double()
    >>> graph, p = upper + upper.mT, torch.randperm(10)
    >>> relabelled = mf.spectral.encodings(graph[p][:, p], k=4)
    >>> torch.equal(relabelled.vectors, mf.spectral.encodings(graph, k=4).vectors[p])
    True

    Not differentiable. A block of equal eigenvalues that ``k`` cuts is cut, after its canonical basis is found.

    Args:
        edges: ``(*batch, n, n)``, symmetric, weights at least zero, 0 for no edge.
        k: number of eigenvectors; the first belongs to the eigenvalue zero and is constant on each component, but for a
            factor ``sqrt(degree)`` if ``normalized``.
        nodes: features ``(*batch, n, c)`` or colours ``(*batch, n)``, such as kinds of atoms: fewer automorphisms
            respect them, and less is averaged.
        mask: ``(*batch, n)``, True for real nodes.
        normalized: take ``1 - D^-1/2 A D^-1/2`` instead of ``D - A``.
        rtol: eigenvalues that differ by less, relative to the largest, are equal.
        backend: of the canonical order, ``"igraph"`` or ``"pynauty"``.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be a number of eigenvectors, at least 1, got {k!r}")
    if not isinstance(edges, Tensor) or edges.ndim < 2 or edges.shape[-1] != edges.shape[-2]:
        got = tuple(edges.shape) if isinstance(edges, Tensor) else type(edges).__name__
        raise ValueError(f"edges must be a tensor of shape (*batch, n, n), got {got}")
    group = S(backend=backend, directed=False)
    inputs = [Input("edges", edges, "edge"), *([] if nodes is None else [Input("nodes", nodes, "node")])]
    frame = group.frame_of(group.cloud(inputs, mask))
    with torch.no_grad():
        canonical = frame.pose(edges, "edge", own=True).double()
        if bool((canonical < 0).any()):
            raise ValueError(
                "edges has negative weights, of which there is no Laplacian here: take their absolute values"
            )
        n, batch = edges.shape[-1], edges.shape[:-2]
        flat = canonical.reshape(math.prod(batch), n, n)
        sizes = [n] * len(flat) if mask is None else mask.reshape(-1, n).sum(-1).tolist()
        vectors, values = flat.new_zeros(len(flat), n, k), flat.new_zeros(len(flat), k)
        for i, size in enumerate(sizes):
            found_values, found = eigenvectors(flat[i, :size, :size].clone(), normalized, rtol)
            kept = min(k, size)
            vectors[i, :size, :kept], values[i, :kept] = found[:, :kept], found_values[:kept]
        averaged = frame.from_canonical(vectors.view(*batch, n, k), "node")
        averaged = torch.where(averaged.abs() > MIN_MEAN_ENTRY, averaged, 0.0)
    return Encodings(averaged, values.view(*batch, k))


def eigenvectors(adjacency: Tensor, normalized: bool = True, rtol: float = EQUAL_EIGENVALUES) -> tuple[Tensor, Tensor]:
    """Eigenvalues ``(n,)`` and eigenvectors ``(n, n)`` of the Laplacian of one graph, whose nodes are in a given order.

    Every block of equal eigenvalues is in its canonical pose under O(k_i), by rows in that order.
    """
    degree = adjacency.sum(-1)
    laplacian = torch.diag(degree) - adjacency
    if normalized:
        scale = torch.where(degree > 0, degree, 1.0).rsqrt()
        laplacian = scale.unsqueeze(-1) * laplacian * scale
    values, vectors = torch.linalg.eigh(laplacian)
    sizes = block_sizes(values, rtol)
    # Most blocks have one column, whose frame under O(1) is its sign: that of the first entry that is large enough.
    size = vectors.abs()
    leading = (size >= FRACTION**0.5 * size.amax(0)).long().argmax(0, keepdim=True)
    vectors = vectors * vectors.gather(0, leading).sign()
    start = 0
    for m in sizes:
        if m > 1:
            vectors[:, start : start + m] = canonicalize(vectors[:, start : start + m].contiguous(), O(m))[0]
        start += m
    return values, vectors


def block_sizes(values: Tensor, rtol: float = EQUAL_EIGENVALUES) -> list[int]:
    """How many of the ascending eigenvalues ``(n,)`` are equal, for each block of equal ones."""
    return cluster(values, rtol).bincount().tolist()


def block_group(values: Tensor, rtol: float = EQUAL_EIGENVALUES) -> LinearGroup:
    """The group ``O(k_1) + O(k_2) + ...`` of all bases of eigenvectors with these eigenvalues ``(n,)``, ascending.

    >>> import torch, minframe as mf
    >>> mf.spectral.block_group(torch.tensor([0.0, 1.0, 1.0, 3.0]))
    O(1) + O(2) + O(1)

    With ``mf.S() *`` in front it is what a backbone on eigenvectors alone should be symmetric to.
    """
    return direct_sum(*(O(m) for m in block_sizes(values, rtol)))
