"""A batch of clouds, reduced to points whose inner products are invariant, and which of their numbers are equal.

**One notion of equality.** Each sample has one scale, ``equal``: lengths, coordinates and poses that differ by at most
this, in units of the longest row, are equal. It is the larger of the tolerance of the rank (``linalg.qr``), times the
root of the mean squared length of the rows, and a few roundings of the rows. Poses are compared by it, and so are
points that coincide. Equal poses are averaged; changing all rows by ``equal`` changes the cloud, relative to its size,
by the tolerance, which is below the accuracy promised for outputs.

Steps that only *propose* an order or a symmetry (invariants, inner products) use ``slack``, which is larger, so that
they never separate rows that the comparison of poses would find equal. Rows that they leave together without reason are
separated by the poses. Both scales are far above rounding, since rounding flips a decision in as many inputs as lie
within one rounding of a threshold: their share is rounding over the size of typical differences.

Under general linear groups rounding depends on the observer: an element changes the condition number of the rows, and
rounding of the white ones with it. A threshold that follows it stands elsewhere for each observer, and decides
otherwise about every difference in between. There ``slack`` is a constant, ``EQUAL_WHITE``, unless rounding is larger,
and ``equal`` follows only the rounding that leverages leave (``linalg.whiten.white_rounding``), without a factor: that
is a bound, several times what rounding does to most rows.

The terms of a direct sum act each by itself, and so does rounding: the rows of one may be a thousandth of those of
another, and their differences far above its rounding; nor does it matter what unit each has. So each term has an
``equal`` and a ``slack`` of its own, in units of its own longest row. They become one as numbers of a term are
multiplied by a *weight* before they are compared, the least of the scales over that of the term. The weights of
``equal`` follow rounding, and so where the observer stands. Those of ``slack`` do so no more than it does itself: what
one term proposes as equal does not depend on how another is seen. No number by which rows or poses are put in an order
may mix terms by their weights.

A cloud is a point if its size is at most ``POINT_UNITS`` roundings. This threshold follows the observer as well, who
may stand far from the cloud or near; what is a point for one of two is of that size for the other, so that their
answers differ by it. It is therefore as low as that of the rank (``linalg.qr``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.cloud import Cloud, Reduction
from minframe.dtypes import wide
from minframe.frame.linear import ActsLinearly
from minframe.labelling.refine import initial
from minframe.linalg.action import behind_batch, multiply
from minframe.linalg.blocks import slices_of
from minframe.linalg.qr import MIN_TIE_WIDTH
from minframe.linalg.solvers import svdvals
from minframe.linalg.whiten import EQUAL_WHITE
from minframe.relations import coloured

# ``equal`` and ``slack``: the first number in units of the tolerance of the rank, the second in units of the rounding
# of the rows. Where rounding is large both are as small as it allows, since accidental differences of that size are in
# doubt.
EQUAL_UNITS = 1.0, 2.5
PROPOSED_UNITS = 4.0, 5.0
WHITE_UNITS = 1.0  # the second of ``EQUAL_UNITS`` for white rows, of which the rounding is a bound
MIN_RELATIVE_LENGTH = 1e-12  # relative to the longest row; shorter lengths are not distinguished
POINT_UNITS = 8.0  # roundings up to which a cloud counts as a point; as for the rank
MAX_ROUNDING_RATIO = 1 / 64  # ratio of rounding to size above which a cloud, moved by a matrix, is not looked at


def real(x: Tensor) -> Tensor:
    """Channels ``(..., k)`` as real ones."""
    return torch.view_as_real(x).flatten(-2) if x.is_complex() else x


Numbers = Sequence[tuple[int, Tensor]]  # of points, ``(B, n, k)``, and the number of their term


def weights_of(scales: Tensor) -> Tensor:
    """What numbers of each term are multiplied by to be compared with the least of ``scales``, ``(B, T)``."""
    return scales.amin(-1, keepdim=True) / scales


def log_lengths(lengths: Tensor) -> Numbers:
    """Logarithms of lengths ``(B, n, C, T)``."""
    logs = lengths.log()
    if logs.shape[-1] == 1:
        return [(0, logs.flatten(2))]
    return [(t, logs[..., c, t : t + 1]) for c in range(logs.shape[-2]) for t in range(logs.shape[-1])]


@dataclass(frozen=True, slots=True)
class PointSet:
    """A batch of clouds, reduced.

    Attributes:
        rows: ``(B, n, C, d)`` in double precision, C vectors at each point, the longest of each term of a
            sample about 1.
        fixed: ``(B, m, d)``, vectors that belong to no point.
        blocks: coordinates whose inner products are invariant; ``None``: the coordinates themselves are.
        soft: ``(B, 1)``, the length below which the rounding of a vector does not fall with its length.
        equals: ``(B, T)``, for each term the difference up to which directions are equal.
        slacks: ``(B, T)``, the difference up to which invariants of directions are proposed as equal; larger.
        rounding: ``(B, 1)``, difference that rounding of the input may have made, weighted as what is equal is; smaller
            than ``equal``.
        colours: ``(B, n)``, further colours of points.
        edges: ``(B, n, n)``, further colours of pairs; ``None``: none.
        mask: ``(B, n)``, True for real points; ``None``: all are. Padding is zero.
        tolerance: relative width below which a dimension counts as zero.
        stretch: ``(B,)``, bound on the factor by which relative changes of the given cloud are enlarged here.
        of_zeros: ``(B, n)``, rounding of inner products with each row that are zero, in units of the entries of a
            projector, if the rows are *white*: one vector for each point, with a scatter matrix of one, as under
            general linear groups. ``None``: they are not.
        centred: the rows add up to zero.
        terms: the coordinates of each term of a direct sum.
        owners: for each block the number of its term.
    """

    rows: Tensor
    fixed: Tensor
    blocks: Sequence[slice] | None
    soft: Tensor
    equals: Tensor
    slacks: Tensor
    rounding: Tensor
    colours: Tensor | None
    edges: Tensor | None
    mask: Tensor | None
    tolerance: float
    stretch: Tensor
    of_zeros: Tensor | None
    centred: bool
    terms: Sequence[slice]
    owners: Sequence[int]

    def select(self, samples: Tensor) -> PointSet:
        """Some of the samples."""

        def of(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[samples]

        return PointSet(
            self.rows[samples],
            self.fixed[samples],
            self.blocks,
            self.soft[samples],
            self.equals[samples],
            self.slacks[samples],
            self.rounding[samples],
            of(self.colours),
            of(self.edges),
            of(self.mask),
            self.tolerance,
            self.stretch[samples],
            of(self.of_zeros),
            self.centred,
            self.terms,
            self.owners,
        )

    @property
    def equal(self) -> Tensor:
        """``(B, 1)``, the difference up to which numbers that have the weights of ``equals`` are equal."""
        return self.equals.amin(-1, keepdim=True)

    @property
    def slack(self) -> Tensor:
        """``(B, 1)``, the difference up to which numbers that have the weights of ``slacks`` are proposed as equal."""
        return self.slacks.amin(-1, keepdim=True)

    def weighted(self, numbers: Numbers, scales: Tensor) -> Tensor:
        """Numbers of points, ``(B, n, k)``, as they are compared with the least of ``scales`` ``(B, T)``."""
        if len(self.terms) > 1:
            weights = weights_of(scales)[:, None, None]
            numbers = [(t, x * weights[..., t]) for t, x in numbers]
        return torch.cat([x for _, x in numbers], -1)

    def logarithms(self, lengths: Tensor) -> Tensor:
        """Logarithms of lengths ``(B, n, C, T)``, as they are proposed as equal, ``(B, n, C T)``."""
        return self.weighted(log_lengths(lengths), self.slacks)

    @property
    def apart(self) -> Tensor:
        """``(B, 1)``, the difference of invariants above which points are distinguished.

        Where the coordinates themselves are invariant, no further step follows: points that they leave tied are equal.
        """
        return self.equal if self.blocks is None else self.slack

    def directions(self) -> tuple[Tensor, Tensor]:
        """In each term, the rows divided by ``length + soft``; and these numbers ``(B, n, C, T)``.

        The rounding of these is about the same for all rows, however much their lengths differ.
        """
        found, lengths = [], []
        for term in self.terms:
            y = self.rows[..., term]
            length = torch.linalg.vector_norm(y, dim=-1, keepdim=True) + self.soft[..., None, None]
            found.append(y / length)
            lengths.append(length)
        return torch.cat(found, -1), torch.cat(lengths, -1)

    def places(self) -> Tensor:
        """Directions and logarithms of lengths, ``(B, n, k)``: points are in one place if these are equal."""
        directions, lengths = self.directions()
        numbers = [(t, real(directions[..., term].flatten(2))) for t, term in enumerate(self.terms)]
        return self.weighted([*numbers, *log_lengths(lengths)], self.equals)

    def start(self) -> Tensor:
        """Cells of points of one colour, padding last, ``(B, n)``."""
        if self.colours is None and self.mask is None:
            return self.rows.new_zeros(self.rows.shape[:2], dtype=torch.int64)
        colours = self.rows.new_zeros(self.rows.shape[:2], dtype=torch.int64) if self.colours is None else self.colours
        return initial(colours, torch.zeros_like(colours), self.mask)


def point_set(group: ActsLinearly, cloud: Cloud, rtol: float = 0.0) -> PointSet:
    """The cloud, reduced, as a batch of sets of points."""
    mask = cloud.layout.padding_mask()
    terms = [_term(reduction, mask) for reduction in group.reduction(cloud)]
    rounding = torch.stack([t.rounding for t in terms], -1)
    equals, slacks = (torch.stack(each, -1) for each in zip(*((t.equal, t.slack) for t in terms), strict=True))
    points, fixed = torch.cat([t.rows for t in terms], -1), torch.cat([t.fixed for t in terms], -1)
    places = slices_of([t.rows.shape[-1] for t in terms]) if len(terms) > 1 else [slice(0, points.shape[-1])]
    blocks: list[slice] | None = None
    owners: list[int] = []
    if any(t.blocks is not None for t in terms):
        blocks = []
        for number, (t, place) in enumerate(zip(terms, places, strict=True)):
            if t.blocks is None:  # inner products with the axes are the coordinates
                axes = torch.eye(points.shape[-1], dtype=points.dtype, device=points.device)[place]
                fixed = torch.cat([fixed, axes.expand(len(points), *axes.shape)], 1)
            mine = [slice(0, t.rows.shape[-1])] if t.blocks is None else t.blocks
            blocks += [slice(place.start + b.start, place.start + b.stop) for b in mine]
            owners += [number] * len(mine)
    colours = edges = None
    relations = cloud.relations
    if relations is not None and (relations.nodes or relations.edges):
        colours, edges, _ = coloured(relations, cloud.layout, rtol, None, cloud.name)
    one = terms[0] if len(terms) == 1 else None
    # Coordinates as they were given are exact relative to each row, not only to the longest.
    soft = torch.full_like(equals[:, :1], 1.0 if any(t.moved for t in terms) else MIN_RELATIVE_LENGTH)
    return PointSet(
        points,
        fixed,
        blocks,
        soft,
        equals,
        slacks,
        (rounding * weights_of(equals)).amax(-1, keepdim=True),
        colours,
        edges,
        mask,
        cloud.tolerance,
        torch.stack([t.stretch for t in terms]).amax(0),
        None if one is None else one.of_zeros,
        one is not None and one.centred,
        places,
        owners,
    )


@dataclass(frozen=True, slots=True)
class _Term:
    """The points of one term of a direct sum, the longest of each input about 1.

    ``rows``, ``fixed``, ``blocks``, ``stretch``, ``of_zeros`` and ``centred`` are as in ``PointSet``; ``rounding``,
    ``equal`` and ``slack`` ``(B,)``; ``moved``: the coordinates are not those that were given.
    """

    rows: Tensor
    fixed: Tensor
    blocks: Sequence[slice] | None
    rounding: Tensor
    equal: Tensor
    slack: Tensor
    stretch: Tensor
    of_zeros: Tensor | None
    centred: bool
    moved: bool


def _term(reduction: Reduction, mask: Tensor | None) -> _Term:
    cloud = reduction.cloud
    eps, layout, matrix, origin = cloud.eps, cloud.layout, reduction.matrix, cloud.origin
    rows, fixed, noises, means, noisy = [], [], [], [], False
    stretches = []
    count = layout.padded_length if mask is None else mask.sum(-1).clamp_min(1)
    stretch: Tensor | float = 1.0
    if matrix is not None:
        stretch = svdvals(matrix)[..., 0].reshape(-1)
    for x, kind in cloud.inputs:
        raw = x.detach()
        y = raw.to(torch.promote_types(raw.dtype, torch.float64))
        if origin is not None and kind.affine:
            y = y - layout.beside(origin.detach(), y, 1)
        unmoved = y
        if reduction.rows is not None and reduction.rows.shape == y.shape:
            y = reduction.rows
        elif matrix is not None:
            y = multiply(y, layout.for_rows(matrix, y))
        per_row = layout.is_per_row(x, kind.core_ndim)

        if per_row:
            raw, y = layout.pad(raw), layout.pad(y)
            unmoved = y if matrix is None else layout.pad(unmoved)
            if mask is not None:
                real = mask.view(*mask.shape, *(1,) * (y.ndim - 2))
                raw, y, unmoved = raw * real, y * real, unmoved if matrix is None else unmoved * real
        else:
            lead = len(layout.batch_shape)
            shape = math.prod(layout.batch_shape), math.prod(x.shape[lead:-1]), x.shape[-1]
            raw, y, unmoved = raw.reshape(shape), y.reshape(shape), unmoved.reshape(shape)
        size = torch.linalg.vector_norm(y, dim=-1).flatten(1).amax(-1)
        moved = matrix is not None or (origin is not None and kind.affine)
        noisy = noisy or moved
        far = torch.linalg.vector_norm(wide(raw), dim=-1).flatten(1).amax(-1) if moved else size
        rounding = eps * stretch * far
        if reduction.rounding is not None:
            rounding = torch.minimum(rounding, reduction.rounding.reshape(-1) * size)
        there = size > POINT_UNITS * rounding
        if matrix is not None:
            there = size * MAX_ROUNDING_RATIO > rounding
            length = torch.linalg.vector_norm(unmoved, dim=-1).flatten(1).amax(-1)
            stretches.append(torch.where(there, (stretch * length / size).clamp_min(1.0), torch.inf))
            if not all_true(there):  # after a boost nothing may be left of a cloud that is far from a point
                y = torch.where(behind_batch(there, y, 0), y, unmoved)
                size, rounding = torch.where(there, size, length), torch.where(there, rounding, eps * far)
                there = size > POINT_UNITS * rounding
        y = y * torch.where(there, 1 / torch.where(there, size, 1.0), 0.0).view(-1, *(1,) * (y.ndim - 1))
        noises.append(torch.where(there, rounding / torch.where(there, size, 1.0), 0.0))
        if per_row:
            squares = y.abs().square().flatten(1).sum(-1) / (count * math.prod(y.shape[2:-1]))
            means.append(torch.where(there, squares, 1.0).sqrt())
            rows.append(y.reshape(*y.shape[:2], math.prod(y.shape[2:-1]), y.shape[-1]))
        else:
            fixed.append(y.reshape(y.shape[0], math.prod(y.shape[1:-1]), y.shape[-1]))
    points = torch.cat(rows, 2)
    noise, mean = torch.stack(noises).amax(0), torch.stack(means).amin(0)
    tolerance = cloud.tolerance * mean
    white, single = reduction.rounding is not None, len(cloud.inputs) == 1 and points.shape[2] == 1
    rounding = (WHITE_UNITS if white else EQUAL_UNITS[1]) * noise
    equal = torch.maximum(rounding, EQUAL_UNITS[0] * tolerance)
    slack = torch.maximum(PROPOSED_UNITS[1] * noise, PROPOSED_UNITS[0] * tolerance).clamp_min(MIN_TIE_WIDTH)
    return _Term(
        points,
        torch.cat([points.new_zeros((points.shape[0], 0, points.shape[-1])), *fixed], 1),
        reduction.blocks,
        rounding,
        equal,
        equal.clamp_min(EQUAL_WHITE) if white else slack,
        torch.stack(stretches).amax(0) if stretches else torch.ones_like(noise),
        layout.pad(reduction.of_zeros).squeeze(-1) if single and reduction.of_zeros is not None else None,
        cloud.is_centred,
        noisy,
    )
