"""How far the rounding of an input is multiplied in the invariants of its group: of the input alone, no frame asked.

All of it is of one block of coordinates, those that a term of a direct sum acts on, as rounding in one block does
nothing to another. Of a batch it is then the worst of its blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fuzzing.cases import MAX_RAPIDITY, Block
from fuzzing.trial import EPS, Move, Trial

ZERO_UNITS = 8.0  # of rounding, that count as none for points far from the origin; ``linalg.qr``
FLAT_UNITS = 8.0  # of rounding, that are no thickness under a general linear group
FADE = 0.05  # of ``mf.frames.Smooth``: axes shorter than this part of the longest row fade
MAX_LOSS = 1e-2  # of products of an indefinite form, up to which rounding changes an answer smoothly
MOVED = math.exp(2 * MAX_RAPIDITY["float64"])  # units of its own rounding that a boosted input is off by, at most


def wide(x: Tensor, block: Block) -> Tensor:
    """The coordinates of a block, in double precision."""
    return x[..., block.axes].to(torch.promote_types(x.dtype, torch.float64))


def about_mean(y: Tensor, block: Block) -> Tensor:
    return y - y.mean(1, keepdim=True) if block.affine else y


def worst_block(trial: Trial, of: Callable[[Block], Tensor]) -> Tensor:
    """The largest over the blocks, ``(b,)``."""
    return torch.stack([of(block) for block in trial.chosen.case.blocks]).amax(0)


def condition(trial: Trial, x: Tensor) -> Tensor:
    """``(b,)``, at least 1; that of the worst block."""
    return worst_block(trial, lambda block: condition_of(trial, x, block))


def condition_of(trial: Trial, x: Tensor, block: Block) -> Tensor:
    """``(b,)``, at least 1.

    Of translations: the distance from the origin over the size. Of GL: the condition number of the rows. Of an
    indefinite form: the Euclidean squares over the products of the form, ``|X|^2 / |X eta X^*|``.
    """
    y = wide(x, block)
    result = torch.ones(len(x), dtype=torch.float64)
    if block.affine:
        result, y = offset(y), about_mean(y, block)
    if block.q:
        eta = torch.cat([torch.ones(block.p), -torch.ones(block.q)]).double()
        gram = (y * eta) @ y.mH
        result = result * y.abs().square().sum((1, 2)) / gram.abs().square().sum((1, 2)).sqrt().clamp_min(1e-300)
    elif not block.compact:
        result = result * thinness(trial, x, block)
    return torch.nan_to_num(result, nan=1.0, posinf=1e300).clamp_min(1.0)


def identity_loss(trial: Trial, x: Tensor) -> Tensor:
    """What the identity may lose, ``(b,)``.

    Under general linear groups, rounding, at the distance from the origin: coordinates are found by substitution, and
    come back whatever the condition is (``linalg.columns``). Averages over a symmetry, which frames without row order
    and products have, move thin and thick directions into each other, and lose rounding times the condition.

    Of an indefinite form the condition is ``1 / opening^2``; where rounding leaves less than the opening, the null part
    alone is as good, which is off by the opening. Products are rounded to ``eps |X|^2``, so that they do not show an
    opening below ``eps^(1/2)``, and may be exactly 0: it is then the distance of the rows from a null space.
    Null spaces have as many dimensions as the form has signs of the rarer kind at most; the next singular value of the
    rows is at least as large as that distance. Exactly null rows lose nothing.
    """

    def of(block: Block) -> Tensor:
        ratio = condition_of(trial, x, block)
        loss = EPS[trial.key.dtype] * ratio
        if not block.q:
            return loss if trial.chosen.reorders else EPS[trial.key.dtype] * offset(x[..., block.axes])
        widths = torch.linalg.svdvals(about_mean(wide(x, block), block))
        null = min(block.p, block.q)
        apart = widths[:, null] / widths[:, 0].clamp_min(1e-300) if widths.shape[1] > null else torch.zeros_like(ratio)
        unseen = ratio * EPS["float64"] > 1
        return torch.minimum(loss, torch.where(unseen, apart, ratio.rsqrt()))

    return worst_block(trial, of)


def rounding_loss(trial: Trial, x: Tensor, z: Tensor) -> dict[str, Tensor]:
    """What rounding of a cloud and of its image by ``eps`` of their sizes can do to each output, ``(b,)``.

    Algorithms that are backward stable return the answer of an input that is off by some ``eps |X|``, in every row;
    rounding of the input is ``eps`` of each row, which is less where rows differ in size. The condition number turns
    that into an error of the answer. For compact linear groups it is 1. Of an indefinite form it says what happens to
    the products of the rows, ``|dG| <= 2 eps |X|^2``, all that invariants depend on: there is a direction, more energy
    for every row, in which they do change by that, and poses, as long as the roots of products, by half as much. From
    ``MAX_LOSS`` on products are rounding, and it says nothing: whether rows are null is decided there.

    Of a direct sum this is the relative error of the pose of each block, of its axes as well as of its coordinates.
    Vectors that point anywhere follow the axes of every block. Other outputs have the error of the coordinates alone,
    which is as much smaller as the block is, unless its pose has no unit.
    """
    blocks, eps = trial.chosen.case.blocks, EPS[trial.key.dtype]
    axes, coordinates = [torch.zeros(len(x), dtype=torch.float64)], [torch.zeros(len(x), dtype=torch.float64)]
    for block in (b for b in blocks if b.affine or not b.compact):
        for y in (x, z):
            loss = eps * condition_of(trial, y, block)
            axes.append(loss)
            size = torch.linalg.vector_norm(y, dim=(1, 2)).double().clamp_min(1e-300)
            own = (torch.linalg.vector_norm(about_mean(wide(y, block), block), dim=(1, 2)) / size).clamp_max(1.0)
            coordinates.append(loss if block.unitless or len(blocks) == 1 else loss * own)
        if block.q:
            axes[-2:], coordinates[-2:] = (_smooth(both) for both in (axes[-2:], coordinates[-2:]))
    rest = torch.stack(coordinates).amax(0)
    return {"inv": rest, "span": rest, "vec": torch.stack(axes).amax(0)}


def _smooth(both: list[Tensor]) -> list[Tensor]:
    """What two observers lose, or nothing where one of them loses too much to say."""
    known = torch.maximum(*both) < MAX_LOSS
    return [torch.where(known, loss, 0.0) for loss in both]


def margin_unit(trial: Trial, x: Tensor, z: Tensor) -> Tensor:
    """One unit of rounding as ``frame.margin`` counts, ``(b,)``: relative to the size of the cloud about its origin.

    Where points are translated, their coordinates are rounded relative to their distance from the origin. Under a
    general linear group margins are those of singular values (the rank), which rounding of all rows changes by its norm
    (Weyl): n rows at the distance D have ``eps D sqrt(n)``, relative to the largest of them.
    """

    def of(block: Block) -> Tensor:
        if not block.affine:
            return torch.ones(len(x), dtype=torch.float64)
        units = [offset(y[..., block.axes]) for y in (x, z)]
        if not block.compact and not block.q:
            units += [far_rows(wide(y, block)) for y in (x, z)]
        return torch.stack(units).amax(0)

    return EPS[trial.key.dtype] * worst_block(trial, of)


def far_rows(y: Tensor) -> Tensor:
    """The norm of rounding of rows, over that of those about their mean, in units of ``eps``, ``(b,)``, at least 1."""
    mean = y.mean(1, keepdim=True)
    size = torch.linalg.matrix_norm(y - mean, 2)
    far = y.shape[1] ** 0.5 * torch.linalg.vector_norm(mean, dim=(1, 2))
    return (1 + far / size.clamp_min(1e-300)).clamp_max(1e300)


def offset(x: Tensor) -> Tensor:
    """The largest coordinate over that relative to the mean, ``(b,)``, at least 1."""
    y = x.to(torch.promote_types(x.dtype, torch.float64))
    ratio = y.abs().amax((1, 2)) / (y - y.mean(1, keepdim=True)).abs().amax((1, 2)).clamp_min(1e-300)
    return ratio.nan_to_num(nan=1.0, posinf=1e300).clamp(1.0, 1e300)


def unknown_size(trial: Trial, x: Tensor, z: Tensor) -> Tensor | None:
    """The size up to which nothing is known of an answer, ``(b,)``: of points that are translated.

    A cloud about its mean is known to ``eps`` of its coordinates, those of the image ``z`` included, and so is every
    answer, as backbones are of degree one. The library calls ``ZERO_UNITS`` of these rounding (``linalg.qr``): of two
    observers, one farther away, one may see a cloud of this size and the other a point. For other groups rounding is
    relative to the rows, and no answer is unknown.
    """
    if not trial.chosen.case.affine:
        return None

    def of(block: Block) -> Tensor:
        both = torch.maximum(*(y[..., block.axes].abs().amax((1, 2)) for y in (x, z))).double()
        return both if block.affine else torch.zeros_like(both)

    return ZERO_UNITS * EPS[trial.key.dtype] * worst_block(trial, of)


def edge_units(trial: Trial, move: Move, x: Tensor, z: Tensor, units: float) -> Tensor:
    """Units of rounding within which a decision about ``x`` or its image ``z = g x`` is at the edge, ``(b,)``.

    ``units``, but for boosts in double precision. What counts as null or as rounding has to allow there for inputs that
    were moved: the product is off by ``eps |g| |x|``, which are ``|g| |x| / |z|`` units of z, up to ``e^2r`` for a
    rapidity r along a jet. So thresholds stand at ``MOVED`` units, of the observer. By how much the element at hand
    carries an input across them is the larger of that ratio and of its like for the way back, ``|g^-1| |z| / |x|``. In
    single precision elements act in double precision, and the product is rounded once.
    """

    def of(block: Block) -> Tensor:
        if move.g is None or not block.q or trial.key.dtype != "float64":
            return torch.full((len(x),), float(units), dtype=torch.float64)
        norm = _norm(trial, move, block)  # of an isometry that of its inverse, too
        before, after = (y[..., block.axes].abs().amax((1, 2)) for y in (x, z))
        ratio = (before / after.clamp_min(1e-300)).clamp(1e-300, 1e300)
        across = (norm * torch.maximum(ratio, 1 / ratio)).clamp_min(1.0)
        return (MOVED * across).clamp_max(units * MOVED)

    return worst_block(trial, of)


def rounded_units(trial: Trial, move: Move, x: Tensor, z: Tensor) -> Tensor:
    """Units of rounding of its own rows that an image ``z = g x`` is off by, ``(b,)``, at least 1.

    Each entry of ``g x_i`` is a sum of rounded products, off by ``eps |g| |x_i|`` but for a factor of half the
    dimension: ``|g| |x_i| / |z_i|`` units of ``z_i``. In single precision elements act in double precision, and the
    product is rounded once. Where rows are translated, units are those of the whole cloud.
    """

    def of(block: Block) -> Tensor:
        if move.g is None or not block.q or trial.key.dtype != "float64":
            return torch.ones(len(x), dtype=torch.float64)
        before, after = (torch.linalg.vector_norm(y[..., block.axes], dim=-1).double() for y in (x, z))
        if move.order is not None:
            before = before.gather(1, move.order)
        if block.affine:
            before, after = (y.amax(1, keepdim=True) for y in (before, after))
        return (_norm(trial, move, block) * (before / after.clamp_min(1e-300)).amax(1)).clamp(1.0, MOVED)

    return worst_block(trial, of)


def _norm(trial: Trial, move: Move, block: Block) -> Tensor:
    """The norm of an element in a block, ``(b,)``."""
    assert trial.chosen.linear is not None
    matrix = trial.chosen.linear.parts(move.g)[0]
    return torch.linalg.matrix_norm(matrix[..., block.axes, block.axes], 2)


def null_loss(trial: Trial, x: Tensor) -> Tensor:
    """What is lost, ``(b,)``, where rows cannot be told from null ones: their opening; 0 where they can.

    Of an opening a, rounding leaves ``eps / a^2`` of the products of the rows. Where that is more than a itself, to
    leave the opening out is the better answer, and which null line is left depends on the observer by as much. The
    judge allows a few openings, not the hundred that the identity has.
    """

    def of(block: Block) -> Tensor:
        opening = condition_of(trial, x, block).rsqrt()
        unknown = EPS[trial.key.dtype] * 100 > opening**3
        return torch.where(unknown, opening, 0.0) if block.q else torch.zeros_like(opening)

    return worst_block(trial, of)


def thinness(trial: Trial, x: Tensor, block: Block) -> Tensor:
    """The largest singular value over the smallest that is not rounding, ``(b,)``.

    A cloud that is flat up to ``FLAT_UNITS`` of rounding is flat for every observer: no answer depends on what is left
    of its thickness, and it excuses nothing. ``linalg.whiten`` has twice as many units for the rank.
    """
    y = wide(x, block)
    values = torch.linalg.svdvals(about_mean(y, block))
    size = values[:, :1]
    if block.affine:
        size = size + y.shape[1] ** 0.5 * torch.linalg.vector_norm(y.mean(1, keepdim=True), dim=-1)
    rounding = FLAT_UNITS * EPS[trial.key.dtype] * size
    least = torch.where(values > rounding, values, torch.inf).amin(-1)
    return (values[:, 0] / least).clamp(1.0, 1e300)


def fading(trial: Trial, x: Tensor) -> Tensor:
    """Whether some axis may be short enough for outputs along it to fade, ``(b,)``.

    Of the rows, ``n`` in number, the longest distance from a hyperplane is at least the smallest singular value over
    ``sqrt(n)``; so an axis that is shorter than ``FADE`` needs one that is below ``FADE sqrt(n)``.
    """

    def of(block: Block) -> Tensor:
        y = about_mean(wide(x, block), block)
        if y.shape[1] < y.shape[2]:
            return torch.ones(len(x), dtype=torch.bool)
        longest = torch.linalg.vector_norm(y, dim=-1).amax(-1)
        return torch.linalg.svdvals(y)[:, -1] < FADE * y.shape[1] ** 0.5 * longest

    return torch.stack([of(block) for block in trial.chosen.case.blocks]).any(0)
