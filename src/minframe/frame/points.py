"""The canonical order of the points of clouds, up to the symmetry of each cloud.

A linear group is first reduced to compact ones (``LinearGroup.reduction``): the points are then determined by their
inner products in a few blocks of coordinates. Each of the following steps treats the samples that the previous one left
tied:

1. *Invariants*: a few numbers for each point, linear in their number: its length, its components along moments of the
   cloud. They distinguish the points of a generic cloud.
2. *Coordinates*: points that are distinguished carry axes, and coordinates along these distinguish other points. If
   there is an axis for every dimension, points that are still tied coincide.
3. *Labelling*: the inner products of all points, clustered, are the edges of a complete graph, which is labelled. Its
   automorphisms are the symmetry of the cloud. Points that coincide are one node, coloured by their number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.frame.point_set import Numbers, PointSet, log_lengths, real, weights_of
from minframe.frame.seclusion import logarithm, margin_of
from minframe.labelling.action import inverse
from minframe.labelling.cluster import classes_of, combine
from minframe.labelling.label import labelling
from minframe.labelling.refine import is_discrete
from minframe.labelling.separate import MAX_POINTS_IN_PAIRS, separate, separate_with_margin
from minframe.layout import Dense
from minframe.linalg.loops import pivoted_qr
from minframe.linalg.qr import TINY
from minframe.linalg.rows import Precision, Rows
from minframe.linalg.whiten import EQUAL_WHITE

THIN_FACTOR = 16  # widths within this factor of ``equal`` are neither clearly positive nor clearly zero
MAX_STEPS_OF_GAPS = 12  # from ``EQUAL_WHITE`` to rounding in double precision
STEP_OF_GAPS = 8.0  # from one size of gaps at which points are told apart to the next; see ``separate_fully``
MIN_AXIS_LENGTH = 0.05  # least residual length of a row that carries an axis, relative to the longest row


@dataclass(frozen=True, slots=True)
class Ordering:
    """The order of the points of a batch of clouds, up to symmetry.

    Attributes:
        order: ``(B, n)``, the point at each position, padding last.
        twins: ``(B, n)``, the first of the points that coincide with a point and have its colour; ``None``: no two do.
        generators: ``(k, n)`` of the symmetry of clouds with points that are tied: ``i`` goes to ``g[i]``.
        owner: ``(k,)``, the sample of each, ascending.
    """

    order: Tensor
    twins: Tensor | None
    generators: Tensor
    owner: Tensor


def _products(a: Tensor, b: Tensor) -> Tensor:
    """Inner products ``(B, n, p, q)`` of rows ``(B, n, p, d)`` and ``(B, n | 1, q, d)``."""
    return (a.unsqueeze(-2).conj() * b.unsqueeze(-3)).sum(-1)


def sizes(points: PointSet) -> Tensor:
    """Logarithms of the lengths of the first vectors, ``(B, n, T)``: rounding is relative to a length."""
    lengths = [torch.linalg.vector_norm(points.rows[..., :1, term], dim=-1) for term in points.terms]
    return points.logarithms(torch.stack(lengths, -1) + points.soft[..., None, None])


def invariants(points: PointSet) -> Tensor:
    """A few invariants of each point, ``(B, n, k)``, all with about the same rounding."""
    if points.blocks is None:
        given = [
            (t, points.rows[..., c, term]) for c in range(points.rows.shape[2]) for t, term in enumerate(points.terms)
        ]
        return points.weighted([(t, real(x)) for t, x in given], points.equals)
    directions, lengths = points.directions()
    found = list(log_lengths(lengths))
    for block, term in zip(points.blocks, points.owners, strict=True):
        y, fixed = directions[..., block], points.fixed[..., block].unsqueeze(1)
        rows = points.rows[..., block]
        squares = rows.abs().square().sum(-1, keepdim=True)
        odd = (rows * squares).sum((1, 2)) / (squares.sqrt() * squares).sum((1, 2)).clamp_min(TINY)  # a vector
        flat = rows.flatten(1, 2)
        scatter = flat.mT @ flat.conj()
        scatter = scatter / scatter.diagonal(dim1=-2, dim2=-1).real.sum(-1).clamp_min(TINY)[:, None, None]
        even = (y.conj() * (scatter[:, None] @ y.mT).mT).sum(-1)
        if y.shape[-2] > 1:  # the diagonal is a function of the lengths
            pairs, upper = _products(y, y), torch.triu_indices(y.shape[-2], y.shape[-2], 1, device=y.device)
            found.append((term, real(pairs[..., upper[0], upper[1]])))
        along = _products(y, odd[:, None, None])
        found += [(term, real(along.flatten(-2))), (term, even.real if even.is_complex() else even)]
        if fixed.shape[-2]:
            found.append((term, real(_products(y, fixed).flatten(-2))))
    if points.of_zeros is not None and points.rows.shape[1] <= MAX_POINTS_IN_PAIRS:
        found.append((0, logarithm(points).unsqueeze(-1)))
    return points.weighted(found, points.slacks)


def _axes(rows: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """The axes ``(B, k, k)`` that ``rows`` ``(B, r, k)`` carry, followed by zeros, and their number."""
    layout = Dense((rows.shape[0],), rows.shape[1])
    found = pivoted_qr(Rows(rows, layout, Precision(0.0, tolerance, tolerance)), False)
    return found.basis.conj() * found.determined.unsqueeze(-2), found.determined.sum(-1)


def coordinates(points: PointSet, cells: Tensor) -> tuple[Numbers, Tensor]:
    """Coordinates on the axes carried by points alone in their cells, and whether these are all axes."""
    assert points.blocks is not None
    order = cells.argsort(dim=-1, stable=True)
    size = torch.zeros_like(cells).scatter_add(-1, cells, torch.ones_like(cells)).gather(-1, cells)
    alone = size == 1 if points.mask is None else (size == 1) & points.mask
    sample = torch.arange(len(order), device=order.device).unsqueeze(-1)
    ordered = (points.rows * alone[..., None, None])[sample, order].flatten(1, 2)
    directions, _ = points.directions()
    found, complete = [], torch.ones_like(cells[:, 0], dtype=torch.bool)
    for block, term in zip(points.blocks, points.owners, strict=True):
        fixed = points.fixed[..., block]
        axes, rank = _axes(torch.cat([fixed, ordered[..., block]], 1), MIN_AXIS_LENGTH)
        _, most = _axes(torch.cat([fixed, points.rows.flatten(1, 2)[..., block]], 1), points.tolerance)
        complete = complete & (rank == most)
        found.append((term, real((directions[..., block] @ axes.unsqueeze(1)).flatten(-2))))
    return found, complete


def _by_coordinates(points: PointSet, cells: Tensor) -> tuple[Tensor, Tensor]:
    """Cells refined by coordinates, and whether points that are still in one cell are indistinguishable."""
    while True:
        numbers, complete = coordinates(points, cells)
        new = separate(points.weighted(numbers, points.slacks), cells, points.slack)
        if torch.equal(new, cells):
            break
        cells = new
    # Coordinates on all axes are not subject to any symmetry: together with lengths, they distinguish all points that
    # are not equal.
    cells = torch.where(complete.unsqueeze(-1), separate_fully(numbers, cells, points), cells)
    if points.edges is not None:  # points that coincide may have different edges
        return cells, is_discrete(cells, points.mask)
    return cells, complete & _coincide(points, cells)


def separate_fully(coordinates: Numbers, cells: Tensor, points: PointSet, reads: bool = True) -> Tensor:
    """Cells cut at every gap above ``equal`` of the coordinates and lengths of points, at large ones first.

    The first of the numbers that has a gap decides which of two points comes first. Of white rows ``equal`` is not the
    same for all observers, and ``slack`` is: a gap about as large as ``equal`` must not decide where another is clear.

    ``reads``: no more often than any sample needs.
    """
    numbers = [*coordinates, *log_lengths(points.directions()[1])]

    def cut(cells: Tensor, scales: Tensor) -> Tensor:
        return separate(points.weighted(numbers, scales), cells, scales.amin(-1, keepdim=True), reads)

    scales = torch.where(points.slacks < EQUAL_WHITE, points.equals, points.slacks / STEP_OF_GAPS)
    scales = torch.maximum(scales, points.equals)
    cells = cut(cells, scales)
    for _ in range(MAX_STEPS_OF_GAPS if reads or points.of_zeros is not None else 0):
        if all_true(~(scales > points.equals)):
            break
        scales = torch.maximum(scales / STEP_OF_GAPS, points.equals)
        cells = cut(cells, scales)
    return cells


def _coincide(points: PointSet, cells: Tensor) -> Tensor:
    """Whether the points of every cell are in one place, ``(B,)``."""
    rows = points.places()
    index = cells.unsqueeze(-1).expand(rows.shape)
    sizes = torch.zeros_like(cells).scatter_add(-1, cells, torch.ones_like(cells)).gather(-1, cells)
    middle = torch.zeros_like(rows).scatter_add(1, index, rows).gather(1, index) / sizes.unsqueeze(-1)
    # Distances, not differences of coordinates, which depend on the orientation of the cloud.
    return (torch.linalg.vector_norm(rows - middle, dim=-1) <= points.equal / 2).all(-1)


def _separated(points: PointSet, start: Tensor) -> tuple[Tensor, Tensor]:
    """Cells of points that invariants distinguish, and how far the nearest decision is from flipping, ``(B,)``.

    Where the coordinates themselves are invariant, points of one cell are equal, and will be shown at their mean. Cells
    are cut at gaps, so that a chain of points may be longer than what is equal; a cloud that has such a one is cut at
    every gap that is more than rounding.
    """
    values = invariants(points)
    cells, margin = separate_with_margin(values, start, points.apart)
    if points.blocks is not None or is_discrete(cells, points.mask).all():
        return cells, margin
    index = cells.unsqueeze(-1).expand(values.shape)
    sizes = torch.zeros_like(cells).scatter_add(-1, cells, torch.ones_like(cells)).gather(-1, cells)
    middle = torch.zeros_like(values).scatter_add(1, index, values).gather(1, index) / sizes.unsqueeze(-1)
    spread = torch.linalg.vector_norm(values - middle, dim=-1).amax(-1, keepdim=True)
    cut, finer = separate_with_margin(values, start, points.rounding)
    chained = spread > points.equal
    margin = torch.minimum(torch.where(chained.squeeze(-1), finer, margin), (spread - points.equal).abs().squeeze(-1))
    return torch.where(chained, cut, cells), margin


def _twins(cells: Tensor) -> Tensor:
    """The first point of each point's cell."""
    n = cells.shape[-1]
    number = torch.arange(n, device=cells.device).expand(cells.shape)
    return torch.full_like(cells, n).scatter_reduce(-1, cells, number, "amin").gather(-1, cells)


def alone(cells: Tensor, mask: Tensor | None) -> Tensor:
    """Cells in which padding is alone."""
    if mask is None:
        return cells
    return torch.where(mask, cells, cells + (~mask).cumsum(-1) - 1)


def order_points(points: PointSet, backend: str) -> Ordering:
    """Order a batch of clouds."""
    b, n = points.rows.shape[:2]
    device = points.rows.device
    twins = torch.arange(n, device=device).expand(b, n)
    none = torch.empty((0, n), dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    order, todo = twins, torch.arange(b, device=device)
    if n <= MAX_POINTS_IN_PAIRS and points.blocks is not None and points.colours is None and points.mask is None:
        cells = separate(sizes(points), torch.zeros_like(order), points.slack)
        apart = is_discrete(cells)
        if bool(apart.all()):
            return Ordering(inverse(cells), None, *none)
        todo, order = (~apart).nonzero().squeeze(-1), inverse(torch.where(apart.unsqueeze(-1), cells, order))
    left = points.select(todo)
    cells = _separated(left, left.start())[0]
    tied = (~is_discrete(cells, left.mask)).nonzero().squeeze(-1)
    if points.blocks is not None and len(tied):
        cells[tied], complete = _by_coordinates(left.select(tied), cells[tied])
        tied = tied[~complete]
    cells = alone(cells, left.mask)
    order, twins = order.clone(), twins.clone()
    order[todo], twins[todo] = cells.argsort(dim=-1, stable=True), _twins(cells)
    if points.blocks is None or not len(tied):
        return Ordering(order, twins, *none)
    todo = todo[tied]
    symmetric = _label(left.select(tied), cells[tied], backend)
    assert symmetric.twins is not None
    order[todo], twins[todo] = symmetric.order, symmetric.twins
    return Ordering(order, twins, symmetric.generators, todo[symmetric.owner.to(device)])


def _label(points: PointSet, cells: Tensor, backend: str) -> Ordering:
    """Order clouds by labelling their inner products."""
    assert points.blocks is not None
    n = cells.shape[-1]
    tolerance = points.slack.unsqueeze(-1)
    directions, _ = points.directions()  # lengths are in the cells
    index = torch.arange(n, device=cells.device)
    twins = _coincident(points, cells)
    number = torch.zeros_like(cells).scatter_add(-1, twins, torch.ones_like(cells)).gather(-1, twins)
    single = twins == index if points.mask is None else (twins == index) & points.mask
    channels = []
    weights = weights_of(points.slacks)
    for block, term in zip(points.blocks, points.owners, strict=True):
        y = directions[..., block]
        gram = torch.einsum("bicd,bjed->bijce", y.conj(), y * weights[:, term].view(-1, 1, 1, 1)).flatten(-2)
        channels += list(real(gram).unbind(-1))
    # All entries of one channel are clustered together; entries to be ignored are replaced by the smallest.
    pairs = single.unsqueeze(-1) & single.unsqueeze(-2)
    classes = [
        classes_of(
            torch.where(pairs, k, torch.where(pairs, k, torch.inf).amin((-2, -1), keepdim=True)).flatten(1),
            tolerance[..., 0],
        )
        for k in channels
    ]
    if points.edges is not None:
        classes.append(classes_of(torch.where(pairs, points.edges, 0).flatten(1), 0.0))
    edges = (combine(torch.stack(classes, -1)) + 1).view(-1, n, n) * pairs
    colours = cells * (n + 1) + number
    found = labelling(colours, edges, single, backend)
    position = inverse(found.order.to(cells.device)).gather(-1, twins)  # of the one that stands for each point
    if points.mask is not None:
        position = torch.where(points.mask, position, n)
    order = position.argsort(dim=-1, stable=True)
    return Ordering(order, twins, _with_twins(found.generators, found.owner, twins.cpu(), order.cpu()), found.owner)


def _coincident(points: PointSet, cells: Tensor) -> Tensor:
    """The first of the points of a cell that coincide with each, ``(B, n)``. They will be shown at their mean."""
    n = cells.shape[-1]
    here = torch.arange(n, device=cells.device).expand(cells.shape)
    if points.edges is not None:  # edges may distinguish points that coincide
        return here
    places = points.places()
    apart = torch.linalg.vector_norm(places.unsqueeze(1) - places.unsqueeze(2), dim=-1)
    same = (apart <= points.equal.unsqueeze(-1)) & (cells.unsqueeze(-1) == cells.unsqueeze(-2))
    if points.mask is not None:
        same &= points.mask.unsqueeze(-1)
    return _first_connected(same | torch.eye(n, dtype=torch.bool, device=cells.device))


def _first_connected(same: Tensor) -> Tensor:
    """The first point that each is connected with, ``(B, n)``, where ``same`` ``(B, n, n)`` joins points."""
    n = same.shape[-1]
    first = same.max(-1)[1]  # of equal values the first is returned
    while True:
        new = torch.where(same, first.unsqueeze(-2), n).amin(-1)
        if torch.equal(new, first):
            return first
        first = new


def _with_twins(generators: Tensor, owner: Tensor, twins: Tensor, order: Tensor) -> Tensor:
    """Permutations of points that stand for others, extended to those: the k-th of a set goes to the k-th."""
    twins, order = twins[owner], order[owner]
    place = inverse(order)  # sets stand together, in the order of their members
    image = generators.gather(-1, twins)
    return order.gather(-1, place.gather(-1, image) + place - place.gather(-1, twins))


def thin_samples(points: PointSet, owner: Tensor) -> Tensor:
    """The samples among ``owner`` ``(k,)`` whose width in some direction is about ``equal``.

    Whether such a direction is determined may depend on which of several almost equal rows are chosen.
    """
    samples = torch.unique(owner)
    if points.blocks is None or not len(samples):
        return samples[:0]
    there = samples.to(points.rows.device)
    rows = torch.cat([points.fixed[there], points.rows[there].flatten(1, 2)], 1)
    equal = points.equal[there]
    many = rows.shape[1] ** 0.5
    thin = torch.zeros(len(there), dtype=torch.bool, device=there.device)
    weights = weights_of(points.equals[there])
    for block, term in zip(points.blocks, points.owners, strict=True):
        width = torch.linalg.svdvals(rows[..., block]) * weights[:, term, None]
        thin |= ((width > equal / THIN_FACTOR) & (width < THIN_FACTOR * many * equal)).any(-1)
    return samples[thin.cpu()]


def order_margin(points: PointSet) -> Tensor:
    """Half of the distance of the nearest decision about the order of points from flipping, ``(B,)``.

    It is relative to the size of the given cloud: the factor by which changes of that are enlarged is divided out.

    Points that invariants do not distinguish give zero, unless they coincide: a change by as little as ``equal`` may
    order them by their lengths.
    """
    start = alone(points.start(), points.mask)
    cells, margin = _separated(points, start)
    if points.of_zeros is not None and points.rows.shape[1] <= MAX_POINTS_IN_PAIRS:
        margin = torch.minimum(margin, margin_of(points))
    tied = ~is_discrete(cells, points.mask)
    if points.edges is None:
        tied &= ~_coincide(points, cells)
    return torch.where(tied, 0.0, margin / (2 * points.stretch))
