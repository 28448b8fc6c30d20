"""Symmetric clouds that noise is put around, ``(n, d)`` in float64, by the dimension of the space."""

from __future__ import annotations

import functools
import itertools
import math

import torch
from torch import Tensor

GOLDEN = (1 + math.sqrt(5)) / 2


def rows(points: object) -> Tensor:
    return torch.tensor(points, dtype=torch.float64)


def ring(n: int, radius: float = 1.0, height: float = 0.0, turn: float = 0.0) -> Tensor:
    """A regular polygon in 3-space."""
    angle = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n) + turn
    return torch.stack([radius * angle.cos(), radius * angle.sin(), torch.full_like(angle, height)], -1)


def signs(*points: tuple[float, float, float]) -> Tensor:
    """The points with every sign of every coordinate, in every cyclic order, each once."""
    found = {
        tuple(s * c + 0.0 for s, c in zip(sign, (*p[k:], *p[:k]), strict=True))
        for p in points
        for sign in itertools.product((1, -1), repeat=3)
        for k in range(3)
    }
    return rows(sorted(found))


def simplex(d: int) -> Tensor:
    """A regular simplex with its centre at the origin: ``d + 1`` rows."""
    corners = torch.eye(d + 1, dtype=torch.float64) - 1 / (d + 1)
    basis = torch.linalg.qr(corners[:, :d]).Q
    return corners @ basis


def cross(d: int) -> Tensor:
    return torch.cat([torch.eye(d, dtype=torch.float64), -torch.eye(d, dtype=torch.float64)])


def lattice(k: int, d: int) -> Tensor:
    return rows(list(itertools.product(map(float, range(k)), repeat=d)))


def methane() -> Tensor:
    corners = rows([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    return torch.cat([torch.zeros(1, 3, dtype=torch.float64), 0.6293 * corners])


def ethane() -> Tensor:
    """Staggered: two carbons, six hydrogens."""
    carbons = rows([[0, 0, 0.765], [0, 0, -0.765]])
    return torch.cat([carbons, ring(3, 1.018, 1.163), ring(3, 1.018, -1.163, math.pi / 3)])


@functools.cache
def solids(d: int) -> dict[str, Tensor]:
    """By name. In every dimension a simplex, a cross-polytope and a patch of a lattice; in 3-space molecules too."""
    found = {"simplex": simplex(d), "cross": cross(d)}
    if d <= 4:
        found["lattice"] = lattice(3 if d <= 2 else 2, d)
        found["cube"] = 2 * lattice(2, d) - 1
    if d >= 2:
        found["ring"] = torch.nn.functional.pad(ring(7)[:, :2], (0, d - 2))
    if d == 3:
        found |= {
            "icosahedron": signs((0, 1, GOLDEN)),
            "dodecahedron": signs((1, 1, 1), (0, 1 / GOLDEN, GOLDEN)),
            "prism": torch.cat([ring(5, 1, 0.7), ring(5, 1, -0.7)]),
            "antiprism": torch.cat([ring(4, 1, 0.6), ring(4, 1, -0.6, math.pi / 4)]),
            "methane": methane(),
            "ethane": ethane(),
            "benzene": torch.cat([ring(6, 1.397), ring(6, 2.481)]),
            "lattice 3": lattice(3, 3) - 1,
            "C60": signs((0, 1, 3 * GOLDEN), (1, 2 + GOLDEN, 2 * GOLDEN), (GOLDEN, 2, 2 * GOLDEN + 1)),
        }
    return found
