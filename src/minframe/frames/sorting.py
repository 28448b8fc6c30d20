"""Frame averaging for permutations by sorting (Puny et al., 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.cloud import Cloud, Relations
from minframe.frame import Frame
from minframe.frames.method import Method, check_samples
from minframe.frames.orders import no_margin, ordered_frame
from minframe.groups.base import Group
from minframe.groups.permutation import S
from minframe.labelling.cluster import cluster, cluster_rows
from minframe.layout import Layout

EQUAL_EIGENVALUES = 1e-8  # relative to the largest: far above rounding, far below the gaps of small integer matrices
EQUAL_INVARIANTS = 1e-7  # relative to the largest, of rows of a graph


@dataclass(frozen=True, repr=False)
class Sorting(Method):
    """Nodes sorted by invariants; where these leave ties, ``samples`` random orders of the tied nodes.

    Rows are sorted by their features. Nodes of a graph are sorted, after their features, by how much of them lies in
    each eigenspace of the Laplacian: the diagonals of the projectors on these. The frame is the set of all sorted
    orders; on symmetric graphs it is far too large to enumerate, and on some, such as regular ones, larger than the
    symmetry requires. Drawing from it is equivariant in expectation, and exact where no ties are left. A baseline.

    Args:
        samples: number of orders, and of forward passes.
        seed: of the random choices.
        generator: of the random choices.
    """

    samples: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_samples(self.samples, "Sorting")

    def __call__(self, group: Group, cloud: Cloud) -> list[Frame]:
        relations, layout = cloud.relations, cloud.layout
        if not isinstance(group, S) or relations is None or relations.edge_index is not None:
            raise self._unable(group, "S() on rows and adjacency matrices")
        mask = layout.padding_mask()
        with torch.no_grad():
            classes = cluster_rows(_invariants(relations, layout, mask), EQUAL_INVARIANTS, mask)
        frames: list[Frame] = []
        for _ in range(self.samples):
            key = classes + self._uniform(*classes.shape, device=classes.device)  # below one: it only breaks ties
            if mask is not None:
                key = torch.where(mask, key, torch.inf)
            order = key.argsort(dim=-1, stable=True)
            frames.append(ordered_frame(group, layout, order, no_margin(layout, classes.device)))
        return frames


def _invariants(relations: Relations, layout: Layout, mask: Tensor | None) -> Tensor:
    """Numbers for each node, ``(B, n, c)``, that move with it."""
    parts = [layout.pad(_real(x)).flatten(2) for x in (_columns(x, layout) for x in relations.nodes)]
    parts += [part for x in relations.edges for part in _spectral(_channels(x, layout), mask)]
    return torch.cat([part.double() for part in parts], -1)


def _real(x: Tensor) -> Tensor:
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def _columns(x: Tensor, layout: Layout) -> Tensor:
    return x.unsqueeze(-1) if x.ndim == len(layout.rows_shape) else x


def _channels(x: Tensor, layout: Layout) -> Sequence[Tensor]:
    """Real matrices ``(B, n, n)``, symmetrised."""
    n = layout.rows_shape[-1]
    matrices = _real(x).reshape(-1, n, n, x.shape[-1] if x.ndim > len(layout.rows_shape) + 1 else 1, 1 + x.is_complex())
    matrices = matrices.flatten(-2).movedim(-1, 0).double()
    return list((matrices + matrices.mT) / 2)


def _spectral(channels: Sequence[Tensor], mask: Tensor | None) -> list[Tensor]:
    """Diagonals of the projectors on the eigenspaces of the Laplacian, ``(B, n, n)``, one column per eigenvalue.

    Padding only adds eigenvectors of its own, with eigenvalue zero, which have no part in real nodes.
    """
    found = []
    for adjacency in channels:
        if mask is not None:
            adjacency = adjacency * (mask.unsqueeze(-1) & mask.unsqueeze(-2))
        values, vectors = torch.linalg.eigh(torch.diag_embed(adjacency.sum(-1)) - adjacency)
        space = cluster(values, EQUAL_EIGENVALUES)
        same = (space.unsqueeze(-1) == space.unsqueeze(-2)).to(vectors.dtype)
        found += [adjacency.diagonal(dim1=-2, dim2=-1).unsqueeze(-1), vectors.square() @ same]
    return found
