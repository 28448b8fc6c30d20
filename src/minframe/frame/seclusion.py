"""How far white points are from all others: what tells rows apart that are much longer than the rest."""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.frame.point_set import PointSet
from minframe.linalg.qr import TINY

MIN_PROJECTION = 1e-13  # least entry of a projector that is not rounding of the computation
SECLUDED_UNITS = 8.0  # and in units of ``PointSet.of_zeros``, that is not rounding of the rows


def logarithm(points: PointSet) -> Tensor:
    """The logarithm of the seclusion of each point, ``(B, n)``, one number where that is rounding."""
    squares, bound = _seclusion(points)
    return torch.where(squares > bound, squares, MIN_PROJECTION**2).log()


def _seclusion(points: PointSet) -> tuple[Tensor, Tensor]:
    """How far white points are from all others, and up to which number that is rounding, ``(B, n)``.

    It tells rows apart that are much longer than the rest.

    The inner products of white rows, in a unit, are the entries of a projector H: on the columns of the given rows,
    and, where these add up to zero, on a column of ones besides. A row far outside has a leverage ``h_ii`` of one, and
    others are all but orthogonal to it, however far outside it is: several of them look alike, and differ in

        sum_{j != i} |h_ij|^2  =  h_ii (1 - h_ii),

    which falls with the squared distance. This sum is as exact as the ``h_ij``, and these are relative to their size:
    rounding E of the rows X changes H by ``(1 - H) E X^+`` and its adjoint, and ``|(1 - H) e_i|^2 = 1 - h_ii``. A row
    with nothing beside it, as of small integers, has zeros, of which there is only rounding to see (``of_zeros``). No
    logarithm of that may tell two such rows apart.
    """
    assert points.of_zeros is not None
    rows = points.rows.squeeze(2)
    real = torch.ones_like(rows[..., 0].real) if points.mask is None else points.mask.to(rows.real.dtype)
    count = real.sum(-1).view(-1, 1, 1)
    if points.centred:  # exactly, which rounding of a thin cloud has not left it
        rows = (rows - rows.sum(1, keepdim=True) / count) * real.unsqueeze(-1)
    scatter = rows.mT @ rows.conj()
    trace = scatter.diagonal(dim1=-2, dim2=-1).real.sum(-1).clamp_min(TINY)
    unit = (torch.linalg.matrix_norm(scatter).square() / trace).clamp_min(TINY).view(-1, 1, 1)
    # The scatter is a projector times the unit, but for a little: 2 - S is its inverse up to the square of that.
    inverse = 2 * torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device) - scatter / unit
    h = rows.conj() @ inverse @ rows.mT / unit
    h = h + real.unsqueeze(-1) * real.unsqueeze(-2) / count if points.centred else h
    others = h.abs().square() * (1 - torch.eye(h.shape[-1], dtype=real.dtype, device=h.device))
    return others.sum(-1), (SECLUDED_UNITS * points.of_zeros).clamp_min(MIN_PROJECTION).square()


def margin_of(points: PointSet) -> Tensor:
    """How far the nearest row is from a seclusion that is rounding, of several that are near that, ``(B,)``."""
    squares, bound = _seclusion(points)
    near = squares <= 4 * bound
    if points.mask is not None:
        near &= points.mask
    distance = (squares.sqrt() - bound.sqrt()).abs().masked_fill(~near, torch.inf).amin(-1)
    return torch.where(near.sum(-1) > 1, distance, torch.inf)
