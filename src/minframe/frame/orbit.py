"""Frames of finite groups of matrices that do not depend on the order of the rows, alone or together with ``S()``.

The elements are chosen as in ``linalg.orbit``, by scores that are sums over the rows of fixed functions of a row:
``sum_i sin(<a, g^-1 x_i> + b_i)``, with a phase ``b_i`` from what else tells rows apart. If several elements lead to
the same set of rows, the poses are that set in different orders: rows are matched to those of one pose by their
distance, and the backbone is shown the mean of the matched poses. For products with ``S()`` the rows of that mean are
then sorted lexicographically, equal ones in classes; where edges are given, the classes are the colours of a graph,
which is labelled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from minframe.checks import all_true, check_finite
from minframe.cloud import Cloud
from minframe.constants import beside
from minframe.dtypes import narrow, wide
from minframe.frame.base import Frame
from minframe.frame.product import Pair
from minframe.frame.size import Size, nested
from minframe.labelling.action import inverse, take_edges, take_nodes
from minframe.labelling.cluster import cluster_rows, combine
from minframe.labelling.orbits import orbit_mean, orbital_mean
from minframe.labelling.symmetry import GraphSymmetry, RowSymmetry, Symmetry
from minframe.layout import Layout, Ragged
from minframe.linalg.action import transform
from minframe.linalg.orbit import SCORE_COUNT, Scores, choose, probes
from minframe.relations import coloured
from minframe.types import Type

#: Frequencies of the waves, in radians per length of the longest row. The sums of slow waves over regular sets, such as
#: a 30-gon and the same turned by half a step, agree to many digits; faster waves separate them. Rounding grows with
#: the frequency, and so does the tolerance of scores: all frequencies find the same poses equal.
FREQUENCIES = (2.5, 10.0, 40.0, 160.0, 640.0)
ROUNDING = 8 * torch.finfo(torch.float64).eps  # of coordinates in a pose, relative to the longest row
MAX_ROW_TOLERANCES = 1e3  # in units of the tolerance: bound on the distance of matched rows of equal poses


class OrbitFrame(Frame):
    """Pairs of a permutation and one of ``matrices`` ``(G, d, d)``; ``shown``: in canonical order to the backbone."""

    def __init__(
        self, group: Any, matrices: Tensor, cloud: Cloud, shown: bool, backend: str, rtol: float | None = 0.0
    ) -> None:
        self._prepare(group, matrices, cloud, shown)
        self._mask = self.layout.padding_mask()
        self._colours, self._edges = None, None
        relations = cloud.relations
        if relations is not None and (relations.nodes or relations.edges):
            self._colours, self._edges, _ = coloured(relations, self.layout, rtol, None, cloud.name)
        with torch.no_grad():
            self._rows, self._fixed = _parts(cloud, self._mask)
            scores = [self._scores(self._rows, f) for f in FREQUENCIES]
            self.choice = choose([scores[0], *map(self._sample_scores, self._fixed), *scores[1:]])
            self._several = not all_true(self.choice.count == 1)
            self._symmetries = self._ordered(backend) if shown or self._several else {}

    def _prepare(self, group: Any, matrices: Tensor, cloud: Cloud, shown: bool) -> None:
        """What is known without looking at the data."""
        if getattr(cloud, "grids", ()):
            raise ValueError(
                f"the rows of {cloud.name} cannot be put in an order beside grids: let frame_on name the grids alone, "
                "or use mf.frames.Minimal() without mf.S()"
            )
        self.group = group
        self.cloud = cloud
        self.layout = self.shown_layout = cloud.layout
        self.keeps_scalars = shown
        self.keeps_rows = not shown
        self._shown = shown
        self.matrices = beside(matrices, cloud.inputs[0][0])

    # How the elements are chosen.

    def _scores(self, rows: Tensor, frequency: float) -> Scores:
        """The scores of sets of rows ``(B, n, c, d)``, the longest of each about one."""
        b, n, c, d = rows.shape
        waves = frequency * beside(probes(c * d), rows).view(SCORE_COUNT, c, d)
        # <a, g^-1 x> = sum_c <g a_c, x_c>
        moved = torch.einsum("gij,scj->gsci", self.matrices, waves).flatten(2)
        phase = rows.flatten(2) @ moved.flatten(0, 1).mT  # (B, n, G * SCORE_COUNT)
        if self._colours is not None:
            shift = beside(probes(int(self._colours.max()) + 2 if self._colours.numel() else 1), rows)
            phase = phase + 3 * shift[0][self._colours.clamp_min(-1) + 1].unsqueeze(-1)
        signal = torch.sin(phase + 0.7)
        if self._mask is not None:
            signal = signal * self._mask.unsqueeze(-1)
        if self._edges is not None:  # what a row sees of the others, by the colours of edges
            values = beside(probes(int(self._edges.max() - self._edges.min()) + 1), rows)[0]
            signal = signal * (1 + (values[self._edges - self._edges.min()] @ signal) / n)
        values = signal.sum(1).view(b, len(self.matrices), SCORE_COUNT).mT
        size = n**0.5 * frequency / FREQUENCIES[0]
        return Scores(values, torch.full((b,), size, dtype=torch.float64, device=rows.device), self.cloud.tolerance)

    def _sample_scores(self, x: Tensor) -> Scores:
        """The scores of vectors ``(B, m, d)`` that belong to no row."""
        w = beside(probes(math.prod(x.shape[1:])), x).view(SCORE_COUNT, *x.shape[1:])
        values = torch.einsum("gij,smj,bmi->bsg", self.matrices, w, x)
        return Scores(values, torch.linalg.vector_norm(x, dim=(-2, -1)), self.cloud.tolerance)

    # The order of the rows.

    def _pose_of(self, g: Tensor, samples: Tensor | slice = slice(None)) -> Tensor:
        """Rows in a pose, ``(B, n, c * d)``; ``g`` ``(B,)``."""
        return torch.einsum("bncj,bji->bnci", self._rows[samples], self.matrices[g]).flatten(2)

    def _ordered(self, backend: str) -> dict[int, tuple[Tensor, Symmetry]]:
        """For every element that is chosen in some sample, these samples and the order of their rows."""
        first = self._pose_of(self.choice.first)
        chosen = self.choice.weights > 0
        nearest: dict[int, tuple[Tensor, Tensor]] = {}
        mean = torch.zeros_like(first)
        for g in range(len(self.matrices)):
            samples = chosen[:, g].nonzero().squeeze(-1)
            if not len(samples):
                continue
            rows = self._pose_of(torch.full_like(samples, g), samples)
            gap = torch.cdist(first[samples], rows, compute_mode="donot_use_mm_for_euclid_dist")
            if self._colours is not None:
                colours = self._colours[samples]
                gap = gap + 1e3 * (colours.unsqueeze(-1) != colours.unsqueeze(-2))
            if self._mask is not None:
                gap = gap + 1e3 * (self._mask[samples].unsqueeze(-1) != self._mask[samples].unsqueeze(-2))
            furthest = gap.amin(-1).amax(-1)
            if bool((furthest > MAX_ROW_TOLERANCES * self.cloud.tolerance * gap.shape[-1] ** 0.5).any()):
                raise ValueError(
                    f"sample {int(samples[furthest.argmax()])} of {self.cloud.name} is too regular for {self.group}: "
                    "poses that differ cannot be told apart. Use mf.frames.Minimal() without mf.S()"
                )
            nearest[g] = samples, gap.argmin(-2)  # for each row of this pose, the one of the first pose
            matched = rows.gather(-2, gap.argmin(-1).unsqueeze(-1).expand_as(rows))
            mean = mean.index_add(0, samples, matched * self.choice.weights[samples, g][:, None, None])
        self._sorted = mean
        # Coordinates are equal relative to the longest row, whose length is about one, along every axis.
        classes = self._classes(mean)
        if self._colours is not None:
            classes = combine(torch.stack([self._colours, classes], -1), self._mask)
        found: dict[int, tuple[Tensor, Symmetry]] = {}
        for g, (samples, match) in nearest.items():
            mine = classes[samples].gather(-1, match)
            mask = None if self._mask is None else self._mask[samples]
            if self._edges is None:
                found[g] = samples, RowSymmetry(mine, mask)
            else:
                found[g] = samples, GraphSymmetry(mine, self._edges[samples], mask, backend)
        return found

    def _classes(self, rows: Tensor) -> Tensor:
        """Classes of equal rows ``(B, n)``; where a chain of rows is longer than what is equal, of the same rows.

        Rows are shown at the mean of their class, which must not move the cloud, as a whole, by more than what is equal
        either: one long row may stand beside many short ones.
        """
        one, tolerance = rows.new_ones(()), self.cloud.tolerance
        classes = cluster_rows(rows, tolerance, self._mask, one)
        middle = orbit_mean(
            rows, classes if self._mask is None else torch.where(self._mask, classes, rows.shape[1] - 1)
        )
        away = torch.linalg.vector_norm(rows - middle, dim=-1)
        if self._mask is not None:
            away = away * self._mask
        whole = torch.linalg.vector_norm(rows, dim=(1, 2))
        chained = ((away.amax(-1) > tolerance) | (torch.linalg.vector_norm(away, dim=-1) > tolerance * whole))[:, None]
        if all_true(~chained):
            return classes
        return torch.where(chained, cluster_rows(rows, ROUNDING, self._mask, one), classes)

    @property
    def _order(self) -> Tensor:
        """The row at each position under the first element, ``(B, n)``."""
        order = torch.zeros(self._rows.shape[:2], dtype=torch.int64, device=self._rows.device)
        for g, (samples, symmetry) in self._symmetries.items():
            mine = self.choice.first[samples] == g
            order[samples[mine]] = symmetry.order[mine]
        return order

    # The interface of a frame.

    @property
    def element(self) -> Any:
        linear = self.matrices[self.choice.first].to(self.cloud.dtype)
        linear = linear.view(*self.layout.batch_shape, *linear.shape[1:])
        return Pair(self.layout.unpad_order(self._order), linear) if self._shown else linear

    @property
    def rank(self) -> Tensor:
        return torch.full(self.layout.batch_shape, self.matrices.shape[-1], device=self._rows.device)

    @property
    def size(self) -> Size:
        sizes = [0] * len(self._rows) if self._symmetries else [1] * len(self._rows)
        for samples, symmetry in self._symmetries.values():
            for sample, count in zip(samples.tolist(), symmetry.sizes(), strict=True):
                sizes[sample] += count
        size: Size = nested(sizes, self.layout.batch_shape)
        return size

    @property
    def margin(self) -> Tensor:
        margin = self.choice.margin
        if self._symmetries:
            hidden = (
                self._sorted if self._mask is None else torch.where(self._mask.unsqueeze(-1), self._sorted, torch.inf)
            )
            step = hidden.sort(1)[0].diff(dim=1).sub(self.cloud.tolerance).abs().nan_to_num(torch.inf, torch.inf)
            margin = torch.minimum(margin, step.flatten(1).amin(-1) if step.numel() else margin)
        return margin.view(self.layout.batch_shape)

    def to_canonical(self, x: Tensor, type: str = "point") -> Tensor:
        return self._moved(x, self._checked(x, type, "x"), inward=True, alone=True)

    def pose(self, x: Tensor, type: str = "point", own: bool = False) -> Tensor:
        return self._moved(x, self._checked(x, type, "x"), inward=True)

    def reorder(self, x: Tensor) -> Tensor:
        return take_nodes(x, self.layout.unpad_order(self._order)) if self._shown else x

    def from_canonical(self, y: Tensor, type: str = "point") -> Tensor:
        return self._moved(y, self._checked(y, type, "y"), inward=False)

    def _checked(self, x: Tensor, type: str, name: str) -> Type:
        """The type of that name, after checking that ``x`` is of it."""
        kind: Type = self.group.type(type)
        self.group.check(x, type, name, self.layout)
        return kind

    def _moved(self, x: Tensor, kind: Type, inward: bool, alone: bool = False) -> Tensor:
        if inward:
            x = self.layout.clean(x, kind.core_ndim)
        nodes = self._nodes(x, kind)
        if not (nodes or kind.core_ndim or kind.parity):
            return x
        return self.moved(x if x.is_floating_point() else x.to(torch.get_default_dtype()), kind, nodes, inward, alone)

    def moved(self, x: Tensor, kind: Type, nodes: int, inward: bool, alone: bool) -> Tensor:
        """The mean of ``g^-1 . x`` over the frame if ``inward``, else of ``g . x``; each is the adjoint of the other.

        ``alone``: the frame with one of its elements only. ``nodes`` axes of ``x``, which is floating, are permuted.
        """
        weights = self.choice.weights
        if alone:
            weights = torch.nn.functional.one_hot(self.choice.first, len(self.matrices)).double()
        shown = self._canonical_layout() if self._shown else self.layout
        padded = wide(_pad(self.layout if inward else shown, x, nodes))
        ordered = bool(nodes and self._symmetries)
        if ordered and not inward and not self._shown:
            padded = _taken(padded, self._order, nodes)
        total = torch.zeros_like(padded, dtype=torch.promote_types(padded.dtype, torch.float64))
        for g, samples in self._chosen(weights):
            z = padded[samples]
            if ordered and not inward:
                z = self._take(z, g, samples, nodes, back=True, mean=not alone)
            z = self._act(z, self.matrices[g].mT if inward else self.matrices[g], kind)
            if ordered and inward:
                z = self._take(z, g, samples, nodes, back=False, mean=not alone)
            total = total.index_add(0, samples, _scaled(z, weights[samples, g]))
        if ordered and inward and not self._shown:
            total = _taken(total, inverse(self._order), nodes)
        return narrow(_unpad(shown if inward else self.layout, total, nodes), x.dtype)

    def _chosen(self, weights: Tensor) -> list[tuple[int, Tensor]]:
        """The elements with weight, and the samples in which each has weight."""
        found = [(g, (weights[:, g] > 0).nonzero().squeeze(-1)) for g in range(weights.shape[1])]
        return [(g, samples) for g, samples in found if len(samples)]

    def _nodes(self, x: Tensor, kind: Type) -> int:
        """Number of axes that permutations reorder."""
        if kind.name == "scalar" and self.keeps_scalars:
            return 0
        return kind.nodes or int(self.layout.is_per_row(x, kind.core_ndim))

    def _act(self, y: Tensor, matrix: Tensor, kind: Type) -> Tensor:
        if not (kind.core_ndim or kind.parity):
            return y
        det = torch.linalg.det(matrix).expand(len(y)) if kind.parity else None
        return transform(y, kind, matrix.expand(len(y), -1, -1), det)

    def _take(self, y: Tensor, g: int, samples: Tensor, nodes: int, back: bool, mean: bool) -> Tensor:
        """Bring rows into canonical order or ``back``, and average over rows that may be exchanged."""
        known, symmetry = self._symmetries[g]
        place = torch.searchsorted(known, samples)
        order = symmetry.order[place]
        if not back:
            y = _taken(y, order, nodes)
        if mean and not symmetry.trivial():
            if nodes == 1:
                y = orbit_mean(y, symmetry.orbits()[place].gather(-1, order))
            else:
                y = orbital_mean(y, take_edges(symmetry.orbitals()[place], order))
        return _taken(y, inverse(order), nodes) if back else y

    def _canonical_layout(self) -> Layout:
        layout = self.layout
        if isinstance(layout, Ragged):
            return Ragged(layout.index.sort()[0], layout.count)
        return layout


def _parts(cloud: Cloud, mask: Tensor | None) -> tuple[Tensor, Sequence[Tensor]]:
    """All rows as ``(B, n, c, d)``, each input in units of its longest, and vectors that belong to no row."""
    layout, rows, fixed = cloud.layout, [], []
    for x, kind in cloud.inputs:
        y = wide(x.detach())
        if layout.is_per_row(x, kind.core_ndim):
            y = layout.pad(y)
            y = y.reshape(*y.shape[:2], -1, y.shape[-1])
            if mask is not None:
                y = torch.where(mask[..., None, None], y, 0)
            longest = torch.linalg.vector_norm(y, dim=-1).flatten(1).amax(-1)
            check_finite(longest, cloud.name)
            rows.append(y / torch.where(longest > 0, longest, 1.0)[:, None, None, None])
        else:
            y = y.reshape(math.prod(layout.batch_shape), -1, x.shape[-1])
            check_finite(y.abs().flatten(1).sum(-1), cloud.name)
            fixed.append(y)
    return torch.cat(rows, 2), fixed


def _scaled(y: Tensor, weights: Tensor) -> Tensor:
    return y * weights.view(-1, *(1,) * (y.ndim - 1))


def _taken(x: Tensor, order: Tensor, nodes: int) -> Tensor:
    return take_nodes(x, order) if nodes == 1 else take_edges(x, order)


def _pad(layout: Layout, x: Tensor, nodes: int) -> Tensor:
    """``x`` with one batch axis, and with zero, one or two axes of nodes."""
    if nodes == 1:
        return layout.pad(x)
    return x.reshape(math.prod(layout.batch_shape), *x.shape[len(layout.batch_shape) :])


def _unpad(layout: Layout, y: Tensor, nodes: int) -> Tensor:
    if nodes == 1:
        return layout.unpad(y)
    return y.view(*layout.batch_shape, *y.shape[1:])
