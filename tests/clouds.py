"""Symmetric clouds of points by name, ``(n, d)`` in float64, for all tests of products and of orders that do not count."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

GOLDEN = (1 + math.sqrt(5)) / 2
#: order of the point group in O(3) of the clouds that are known by it; a half of that in SO(3)
ORDERS = {"tetrahedron": 24, "cube": 48, "octahedron": 48, "icosahedron": 120, "dodecahedron": 120, "C60": 120}


def rows(*points: tuple[float, ...]) -> Tensor:
    return torch.tensor(points, dtype=torch.float64)


def cyclic(*points: tuple[float, float, float]) -> Tensor:
    """The points with all signs of all coordinates and in all cyclic orders of them, each once."""
    signed = {
        tuple(s * c + 0.0 for s, c in zip(signs, (*p[k:], *p[:k]), strict=True))
        for p in points
        for signs in itertools.product((1, -1), repeat=3)
        for k in range(3)
    }
    return rows(*sorted(signed))


def rotation(angle: float) -> Tensor:
    """About the third axis."""
    c, s = math.cos(angle), math.sin(angle)
    return rows((c, -s, 0), (s, c, 0), (0, 0, 1))


def generic(n: int, d: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# Solids and molecules


def tetrahedron() -> Tensor:
    return rows((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))


def cube(d: int = 3) -> Tensor:
    return rows(*itertools.product((1.0, -1.0), repeat=d))


def octahedron(d: int = 3) -> Tensor:
    return torch.cat([torch.eye(d, dtype=torch.float64), -torch.eye(d, dtype=torch.float64)])


def icosahedron() -> Tensor:
    return cyclic((0, 1, GOLDEN))


def dodecahedron() -> Tensor:
    return cyclic((1, 1, 1), (0, 1 / GOLDEN, GOLDEN))


def buckyball() -> Tensor:
    return cyclic((0, 1, 3 * GOLDEN), (1, 2 + GOLDEN, 2 * GOLDEN), (GOLDEN, 2, 2 * GOLDEN + 1))


def polygon(n: int, radius: float = 1.0, height: float | None = 0.0, turn: float = 0.0) -> Tensor:
    """Regular; in the plane if ``height`` is ``None``."""
    angles = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n) + turn
    flat = radius * torch.stack([angles.cos(), angles.sin()], -1)
    return flat if height is None else torch.nn.functional.pad(flat, (0, 1), value=height)


def benzene() -> tuple[Tensor, Tensor]:
    """Six carbons and six hydrogens, and the numbers of their kinds."""
    return torch.cat([polygon(6, 1.397), polygon(6, 2.481)]), torch.tensor([6] * 6 + [1] * 6)


def methane() -> tuple[Tensor, Tensor]:
    return torch.cat([torch.zeros(1, 3, dtype=torch.float64), tetrahedron() * 0.6293]), torch.tensor([6, 1, 1, 1, 1])


def water() -> tuple[Tensor, Tensor]:
    half = math.radians(104.5 / 2)
    x, y = 0.9584 * math.sin(half), 0.9584 * math.cos(half)
    return rows((0, 0, 0), (x, y, 0), (-x, y, 0)), torch.tensor([8, 1, 1])


def carbon_dioxide() -> tuple[Tensor, Tensor]:
    return rows((0, 0, 0), (0, 0, 1.16), (0, 0, -1.16)), torch.tensor([6, 8, 8])


MOLECULES = {"benzene": benzene(), "methane": methane(), "water": water(), "carbon dioxide": carbon_dioxide()}


# Others


def lattice(k: int, d: int = 3) -> Tensor:
    return rows(*itertools.product(map(float, range(k)), repeat=d))


def mirrored(n: int, seed: int = 0) -> Tensor:
    """Generic, with its image in a plane: achiral, of order two."""
    x = generic(n, seed=seed)
    return torch.cat([x, x * rows((1, 1, -1))])


def propeller(blades: int = 5, points: int = 4, seed: int = 0) -> Tensor:
    """Generic blades about an axis: chiral, with as many rotations as blades."""
    x = generic(points, seed=seed)
    return torch.cat([x @ rotation(2 * math.pi * k / blades).T for k in range(blades)])


def antiprism(n: int = 4) -> Tensor:
    return torch.cat([polygon(n, height=0.6), polygon(n, height=-0.6, turn=math.pi / n)])


def solids() -> dict[str, Tensor]:
    return {
        "tetrahedron": tetrahedron(),
        "cube": cube(),
        "octahedron": octahedron(),
        "icosahedron": icosahedron(),
        "dodecahedron": dodecahedron(),
        "C60": buckyball(),
    }


def symmetric_clouds() -> dict[str, Tensor]:
    return solids() | {
        **{name: x for name, (x, _) in MOLECULES.items()},
        **{f"{n}-gon": polygon(n) for n in (3, 4, 5, 6, 7, 12, 30)},
        "prism": torch.cat([polygon(5, height=0.7), polygon(5, height=-0.7)]),
        "antiprism": antiprism(),
        "lattice 2": lattice(2),
        "lattice 3": lattice(3),
        "lattice 4, centred": lattice(4) - 1.5,
        "lattice of slabs": lattice(3) * rows((1, 1, 1.37)),
        "mirrored": mirrored(6),
        "mirrored, 80 points": mirrored(40),
        "propeller": propeller(),
        "inverted": torch.cat([generic(5, seed=1), -generic(5, seed=1)]),
        "two tetrahedra": torch.cat([tetrahedron(), -0.5 * tetrahedron()]),
        "cube off the origin": cube() + rows((3, 4, 5)),
        "symmetric line": rows((0, 0, 1), (0, 0, -1), (0, 0, 2), (0, 0, -2)),
    }


def deficient_clouds() -> dict[str, Tensor]:
    """With points that coincide, or that span less than the space."""
    x = generic(20, seed=2)
    return {
        "duplicated": torch.cat([x, x[:5], x[:2]]),
        "every point twice": torch.cat([x, x]),
        "cube twice": torch.cat([cube(), cube()]),
        "cube, one corner twice": torch.cat([cube(), cube()[:1]]),
        "cube, an edge three times": torch.cat([cube(), cube()[:2], cube()[:2]]),
        "coincident": torch.ones(7, 3, dtype=torch.float64),
        "at the origin": torch.zeros(5, 3, dtype=torch.float64),
        "cube and its centre twice": torch.cat([cube(), torch.zeros(2, 3, dtype=torch.float64)]),
        "plane": x * rows((1, 1, 0)),
        "tilted plane": x[:, :2] @ generic(2, seed=3),
        "line": x * rows((0, 1, 0)),
        "tilted line": x[:, :1] @ generic(1, seed=4),
        "line through the origin twice": torch.cat([x[:4, :1], x[:4, :1]]) @ generic(1, seed=4),
        "one point": x[:1],
        "one point at the origin": torch.zeros(1, 3, dtype=torch.float64),
        "two points": x[:2],
        "opposite points": torch.cat([x[:1], -x[:1]]),
        "three points": x[:3],
        "centred": x - x.mean(0),
    }


def generic_clouds() -> dict[str, Tensor]:
    return {f"{n} random points": generic(n, seed=n) for n in (16, 50, 128, 300, 1000)}


def all_clouds() -> dict[str, Tensor]:
    return symmetric_clouds() | deficient_clouds() | generic_clouds()


def momenta(x: Tensor, mass: float = 1.0) -> Tensor:
    """Particles ``(n, 4)`` with these momenta, energy first."""
    return torch.cat([(x.square().sum(-1, keepdim=True) + mass**2).sqrt(), x], -1)
