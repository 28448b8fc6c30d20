"""How signed permutation matrices act on grids: images and voxels.

A grid holds values at points ``p`` around its centre, and ``(g . f)(p) = f(g^-1 p)``. Coordinates come in the order of
``torch.nn.functional.grid_sample``: x along the last axis of the tensor, y along the one before, z along the one before
that. Elements that exchange axes exchange their lengths.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from minframe.checks import all_true
from minframe.constants import beside, constant
from minframe.linalg.orbit import SCORE_COUNT, probes


def transformed(x: Tensor, g: Sequence[Sequence[float]]) -> Tensor:
    """``g . x`` for a signed permutation matrix; the last ``d`` axes of ``x`` are the grid.

    With ``q = g^-1 p = g^T p``: where ``g[l][k]`` is not zero, ``q_k = g[l][k] p_l``. So what was the axis of
    coordinate k becomes that of coordinate l, backward if the sign is negative.
    """
    d = len(g)
    order, backward = [0] * d, []
    for row in range(d):
        column = next(k for k in range(d) if abs(g[row][k]) > 0.5)
        axis = d - 1 - row
        order[axis] = x.ndim - 1 - column
        if g[row][column] < 0:
            backward.append(x.ndim - d + axis)
    return x.permute(*range(x.ndim - d), *order).flip(backward)


Matrices = tuple[tuple[tuple[float, ...], ...], ...]


@constant(maxsize=64)
def tables(matrices: Matrices, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[bool, ...], Tensor, Tensor]:
    """Where every value of a grid of this shape goes under ``g^-1``, for elements that bring it to a canonical shape.

    Returns:
        canonical: the lengths, sorted: a wide image, not a tall one.
        allowed: for each element, whether it has a ``g^-1 . x`` of that shape.
        inward: ``(G, P)``, flat positions with ``(g^-1 . x)[i] = x[inward[g, i]]``; zeros where not allowed.
        outward: ``(G, P)``, the same for ``(g . y)[i] = y[outward[g, i]]``.
    """
    canonical = tuple(sorted(shape))
    number = torch.arange(torch.Size(shape).numel())
    inward, outward, allowed = [], [], []
    for g in matrices:
        back = tuple(zip(*g, strict=True))
        there = transformed(number.view(shape), back)
        allowed.append(tuple(there.shape) == canonical)
        flat = there.flatten() if allowed[-1] else torch.zeros_like(number)
        inward.append(flat)
        outward.append(transformed(number.view(canonical), g).flatten() if allowed[-1] else torch.zeros_like(number))
    return canonical, tuple(allowed), torch.stack(inward), torch.stack(outward)


@constant(maxsize=64)
def moved_shapes(matrices: Matrices, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The shape that each element gives to a grid of this shape."""
    return tuple(tuple(transformed(torch.empty(shape, device="meta"), g).shape) for g in matrices)


def grid_scores(x: Tensor, inward: Tensor) -> tuple[Tensor, Tensor]:
    """Scores ``(*batch, SCORE_COUNT, G)`` of the poses of ``x`` ``(*batch, C, P)``, and the size ``(*batch,)``.

    ``<w, g^-1 x> = <g w, x>``, and ``g w`` is found once for all samples.
    """
    channels, points = x.shape[-2:]
    w = beside(probes(channels * points), x).view(SCORE_COUNT, 1, channels, points)
    index = beside(inward, x).view(1, -1, 1, points).expand(SCORE_COUNT, -1, channels, -1)
    moved = torch.zeros(index.shape, dtype=torch.float64, device=x.device)
    moved.scatter_add_(-1, index, w.expand(index.shape))
    flat = x.double().flatten(-2)
    return (flat @ moved.flatten(2).flatten(0, 1).mT).view(*flat.shape[:-1], SCORE_COUNT, -1), torch.linalg.vector_norm(
        flat, dim=-1
    )


def grid_distances(x: Tensor, inward: Tensor, alive: Tensor, leader: Tensor) -> Tensor:
    """``linalg.finite.distances`` for ``x`` ``(*batch, C, P)``."""
    inward = beside(inward, x)
    flat = x.detach().double()

    def pose(g: Tensor) -> Tensor:
        return flat.gather(-1, inward[g].unsqueeze(-2).expand(flat.shape))

    first = pose(leader)
    unit = torch.linalg.vector_norm(flat, dim=(-2, -1))
    unit, none = torch.where(unit > 0, unit, 1.0), torch.zeros_like(unit)
    found = []
    for g in range(len(inward)):
        if all_true(~alive[..., g]):
            found.append(none)
        else:
            found.append(torch.linalg.vector_norm(pose(torch.full_like(leader, g)) - first, dim=(-2, -1)) / unit)
    return torch.stack(found, -1)


def moved_grid(x: Tensor, table: Tensor, weights: Tensor, first: Tensor, single: bool) -> Tensor:
    """The mean of ``x`` ``(*batch, *any, P)`` at the positions ``table`` ``(G, P)``, by ``weights`` ``(*batch, G)``.

    ``single``: each sample has one element, ``first`` ``(*batch,)``.
    """
    batch = first.ndim
    table = beside(table, x)
    if single:
        index = table[first].view(*first.shape, *(1,) * (x.ndim - batch - 1), -1)
        return x.gather(-1, index.expand(x.shape))
    share = weights.to(torch.promote_types(x.dtype, torch.float32)).movedim(-1, 0)
    total = torch.zeros_like(x, dtype=share.dtype)
    for w, positions in zip(share, table, strict=True):
        total = total + w.view(*first.shape, *(1,) * (x.ndim - batch)) * x[..., positions]
    return total.to(x.dtype)
