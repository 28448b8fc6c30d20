"""Lorentz frames in multiple precision: what the rounding of the inputs alone costs.

A strongly boosted, nearly massless cloud has a canonical pose that the last bits of its coordinates decide: no
computation can give the cloud and its rounded, moved copy the same pose. The oracle takes the coordinates for exact
numbers and makes no error of its own, so the difference of *its* poses is the part of ours that is not our fault.

It knows the pose that ``mf.Lorentz()`` defines where the total momentum is time-like: the rest frame of the sum of the
rows, and in it Gram-Schmidt over the rows that the rule of ``minframe.linalg.qr`` chooses. For groups with other poses
``brought_back`` does the same service.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import minframe as mf
from minframe.linalg.qr import FRACTION, MAX_LENGTH2_RATIO
from minframe.linalg.split import MAX_REST_RATIO

try:
    import mpmath
except ImportError as error:  # PyTorch brings it along, by way of SymPy
    raise ImportError("the oracle computes with mpmath, which is missing: pip install mpmath") from error

DIGITS = 60
Vector = list[Any]  # of numbers in multiple precision


def _dot(a: Vector, b: Vector) -> Any:
    return mpmath.fdot(zip(a, b, strict=True))


def _minus(a: Vector, b: Vector, factor: Any) -> Vector:
    return [s - factor * t for s, t in zip(a, b, strict=True)]


def _axes(rows: list[Vector], count: int) -> list[Vector]:
    """``count`` orthonormal vectors, by Gram-Schmidt over rows chosen as in ``minframe.linalg.qr``."""
    axes: list[Vector] = []
    original = [_dot(row, row) for row in rows]
    for _ in range(count):
        lengths = [_dot(row, row) for row in rows]
        bar = FRACTION * max(lengths)
        above = [i for i, length in enumerate(lengths) if length >= bar]
        shortest = min(original[i] for i in above)
        chosen = next(i for i in above if original[i] <= MAX_LENGTH2_RATIO * shortest)
        axis = [c / mpmath.sqrt(lengths[chosen]) for c in rows[chosen]]
        rows = [_minus(row, axis, _dot(row, axis)) for row in rows]
        axes.append(axis)
    return axes


def exact_frame(x: Tensor, rank: int | None = None) -> tuple[Tensor, Tensor]:
    """The canonical pose of one cloud ``(n, 4)`` and the matrix that leads back from it, ``x = pose @ matrix.mT``.

    Both are exact but for their own rounding to float64. Only ``rank`` axes are taken, by default as many as there are
    rows; the others are zero in the pose and in the matrix, which is then what an average over the frame leaves of it.
    """
    if x.ndim != 2 or x.shape[-1] != 4:
        raise ValueError(f"x must be one cloud (n, 4), got {tuple(x.shape)}")
    rank = min(4, len(x)) if rank is None else rank
    with mpmath.workdps(DIGITS):
        rows = [[mpmath.mpf(c) for c in row] for row in x.double().tolist()]
        total = [mpmath.fsum(column) for column in zip(*rows, strict=True)]
        sign = 1 if total[0] > 0 else -1  # -1 is in O(1, 3), and makes the total energy positive
        rows = [[sign * c for c in row] for row in rows]
        energy, *momentum = [sign * c for c in total]
        mass2 = energy**2 - _dot(momentum, momentum)
        if mass2 <= 0:
            raise ValueError("the total momentum is not time-like: the oracle has no pose for such a cloud")
        mass = mpmath.sqrt(mass2)
        times = [(energy * row[0] - _dot(momentum, row[1:])) / mass for row in rows]
        space = [_minus(row[1:], momentum, (row[0] + t) / (energy + mass)) for row, t in zip(rows, times, strict=True)]
        if sum(t**2 for t in times) + sum(_dot(y, y) for y in space) > MAX_REST_RATIO * mass2:
            raise ValueError("the total momentum is time-like by accident: the oracle has no pose for such a cloud")
        axes = _axes(space, rank - 1)
        pose = [[t, *(_dot(y, axis) for axis in axes)] for t, y in zip(times, space, strict=True)]
        columns = [[energy / mass, *(c / mass for c in momentum)]]
        for axis in axes:
            along = _dot(momentum, axis) / mass
            columns.append([along, *_minus(axis, momentum, -along / (energy + mass))])
        result = torch.zeros(len(rows) + 4, 4, dtype=torch.float64)
        result[:-4, :rank] = torch.tensor([[float(c) for c in row] for row in pose], dtype=torch.float64)
        result[-4:, :rank] = torch.tensor([[sign * float(c) for c in v] for v in columns], dtype=torch.float64).mT
    return result[:-4], result[-4:]


def has_exact_frame(x: Tensor) -> bool:
    """Whether the oracle has a pose for a cloud, and would still have it if the last bits were others."""
    total = x.double().sum(-2)
    if float(mf.Lorentz().inner(total, total)) <= 1e-12 * float(total.square().sum()):
        return False
    try:
        exact_frame(x, rank=1)
    except ValueError:
        return False
    return True


def moved(group: mf.Group, x: Tensor, g: Tensor) -> Tensor:
    """``x`` ``(n, d)`` moved by elements ``(count, ...)`` in float64, and rounded to its dtype once."""
    wide = torch.promote_types(x.dtype, torch.float64)
    return group.act(g, x.to(wide).expand(len(g), *x.shape)).to(x.dtype)


def relative(a: Tensor, b: Tensor) -> Tensor:
    """Distance of two batches of clouds, per sample, relative to the size of the second."""
    wide = torch.promote_types(a.dtype, torch.float64)
    a, b = a.to(wide).flatten(1), b.to(wide).flatten(1)
    return (a - b).norm(dim=1) / b.norm(dim=1).clamp_min(1e-300)


def brought_back(gx: Tensor, g: Tensor) -> Tensor:
    """``g^-1 (g x)`` for matrices and clouds ``(count, n, d)``, exact but for its own rounding to float64.

    It is not ``x`` but what the rounding of ``g x`` has made of it. A frame that is exact on such a harmless cloud has
    on it the error that no frame can avoid on ``g x``.
    """
    back = []
    with mpmath.workdps(DIGITS):
        for matrix, rows in zip(g.tolist(), gx.tolist(), strict=True):
            inverse = mpmath.inverse(mpmath.matrix(matrix)).tolist()
            exact = [[mpmath.mpf(c) for c in row] for row in rows]
            back.append([[float(_dot(line, row)) for line in inverse] for row in exact])
    return torch.tensor(back, dtype=torch.float64)


def errors_of(group: mf.Group, x: Tensor, g: Tensor, backbone: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Errors ``(count,)`` of the canonical pose of a cloud ``(n, d)``, and of the vectors of a wrapped backbone."""
    copies, gx = x.expand(len(g), *x.shape), moved(group, x, g)
    pose = relative(mf.canonicalize(gx, group)[0], mf.canonicalize(copies, group)[0])
    model = mf.Equivariant(backbone, group, inputs="vector", outputs="vector")
    return pose, relative(model(gx), group.act(g, model(copies).to(g.dtype)))


@dataclass(frozen=True)
class Comparison:
    """Our worst error over all elements, and the oracle's over those among them that are worst for us."""

    ours: float
    oracle: float

    @property
    def ratio(self) -> float:
        return self.ours / self.oracle if self.oracle else torch.inf

    def within(self, bound: float) -> bool:
        """Whether our error is at most the bound, or ten times what the inputs allow."""
        return self.ours <= max(bound, 10 * self.oracle)


def compare(
    group: mf.Group, x: Tensor, g: Tensor, backbone: Callable[[Tensor], Tensor], worst: int
) -> tuple[Comparison, Comparison]:
    """The errors of ``errors_of`` on a cloud ``(n, 4)`` against those of the oracle.

    The oracle, being slow, looks at the ``worst`` elements only. It is that of ``mf.Lorentz()`` for every group: the
    frames of its subgroups differ from it by the directions of axes.
    """
    gx, rank = moved(group, x, g), int(group.frame(x).rank)

    def output(pose: Tensor, matrix: Tensor) -> Tensor:
        return backbone(pose) @ matrix.mT

    at_rest = exact_frame(x, rank)
    comparisons = []
    for which, errors in enumerate(errors_of(group, x, g, backbone)):
        chosen = errors.topk(min(worst, len(errors))).indices
        exact = [exact_frame(gx[i], rank) for i in chosen]
        if which == 0:
            oracle = relative(torch.stack([pose for pose, _ in exact]), at_rest[0].expand(len(chosen), *x.shape))
        else:
            expected = group.act(g[chosen], output(*at_rest).expand(len(chosen), *x.shape))
            oracle = relative(torch.stack([output(*frame) for frame in exact]), expected)
        comparisons.append(Comparison(float(errors.max()), float(oracle.max())))
    return comparisons[0], comparisons[1]


def compare_brought_back(
    group: mf.Group, x: Tensor, g: Tensor, backbone: Callable[[Tensor], Tensor], worst: int
) -> tuple[Comparison, Comparison]:
    """The same for any matrix group and a harmless cloud ``(n, d)`` of float64, by ``brought_back``."""
    gx = moved(group, x, g)
    model = mf.Equivariant(backbone, group, inputs="vector", outputs="vector")
    comparisons = []
    for which, errors in enumerate(errors_of(group, x, g, backbone)):
        chosen = errors.topk(min(worst, len(errors))).indices
        back, copies = brought_back(gx[chosen], g[chosen]), x.expand(len(chosen), *x.shape)
        if which == 0:
            oracle = relative(mf.canonicalize(back, group)[0], mf.canonicalize(copies, group)[0])
        else:
            oracle = relative(group.act(g[chosen], model(back)), group.act(g[chosen], model(copies)))
        comparisons.append(Comparison(float(errors.max()), float(oracle.max())))
    return comparisons[0], comparisons[1]
