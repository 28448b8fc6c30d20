"""Named families of clouds on which canonicalisation fails most easily.

``DEGENERATIONS`` turn any cloud ``(*batch, n, d)`` into a degenerate one of the same shape; ``polytopes`` are the
symmetric solids; ``particles`` are clouds of four-momenta. Tests, benchmarks and ``minframe.testing`` take them from
here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from minframe.dtypes import wide


def _flat(rank: int) -> Callable[[Tensor], Tensor]:
    """In a general linear subspace of that dimension (all of it where d is smaller)."""

    def flatten(x: Tensor) -> Tensor:
        d = x.shape[-1]
        frame = torch.linspace(-1, 1, d * d, dtype=torch.float64, device=x.device).view(d, d).cos()
        basis = torch.linalg.qr(frame + torch.eye(d, dtype=torch.float64, device=x.device))[0][:, :rank]
        return (wide(x) @ (basis @ basis.mT).to(wide(x).dtype)).to(x.dtype)

    return flatten


def _first_two_nearly_collinear(x: Tensor) -> Tensor:
    y = x.clone()
    y[..., 1:2, :] = x[..., :1, :] * 1.3 + 1e-4 * x[..., 1:2, :]
    return y


def _first_at_centroid(x: Tensor) -> Tensor:
    rest = x[..., 1:, :] - x[..., 1:, :].mean(-2, keepdim=True)
    return torch.cat([torch.zeros_like(x[..., :1, :]), rest], -2)


def _repeated_singular_values(x: Tensor) -> Tensor:
    u, _, v = torch.linalg.svd(wide(x), full_matrices=False)
    return (u @ v * x.shape[-2] ** 0.5).to(x.dtype)


def _duplicated(x: Tensor) -> Tensor:
    half = (x.shape[-2] + 1) // 2
    return torch.cat([x[..., :half, :], x[..., : x.shape[-2] - half, :]], -2)


def _far_outlier(x: Tensor) -> Tensor:
    return torch.cat([x[..., :-1, :], 1e4 * x[..., -1:, :]], -2)


DEGENERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "generic": lambda x: x,
    "planar": _flat(2),
    "collinear": _flat(1),
    "coincident": lambda x: x[..., :1, :].expand_as(x).clone(),
    "all at the origin": torch.zeros_like,
    "first two nearly collinear": _first_two_nearly_collinear,
    "first point at the centroid": _first_at_centroid,
    "repeated singular values": _repeated_singular_values,
    "duplicated points": _duplicated,
    "tiny": lambda x: x * 1e-8,
    "huge": lambda x: x * 1e8,
    "one far outlier": _far_outlier,
}


def polytopes(d: int) -> dict[str, Tensor]:
    """The regular solids with vertices in ``d`` dimensions: simplex, cross-polytope, cube, and two more for d = 3."""
    eye = torch.eye(d, dtype=torch.float64)
    corner = (1 - (d + 1) ** 0.5) / d * torch.ones(1, d, dtype=torch.float64)
    solids = {
        "simplex": torch.cat([eye, corner]) - torch.cat([eye, corner]).mean(0),
        "cross-polytope": torch.cat([eye, -eye]),
        "cube": torch.tensor(list(product((1.0, -1.0), repeat=d)), dtype=torch.float64),
    }
    if d == 3:
        golden = (1 + 5**0.5) / 2
        signs = list(product((1.0, -1.0), repeat=2))
        cyclic = [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
        edge = torch.tensor([(0, a, b * golden) for a, b in signs], dtype=torch.float64)
        solids["icosahedron"] = torch.cat([edge[:, c] for c in cyclic])
        inner = torch.tensor([(0, a / golden, b * golden) for a, b in signs], dtype=torch.float64)
        solids["dodecahedron"] = torch.cat([solids["cube"], *(inner[:, c] for c in cyclic)])
    return solids


PION = 0.13957  # GeV


def _momenta(energy: Tensor, mass: float, opening: float | None, generator: torch.Generator) -> Tensor:
    """Four-momenta ``(n, 4)`` in all directions, or around one with that opening."""
    direction = torch.randn(len(energy), 3, dtype=torch.float64, generator=generator)
    if opening is not None:
        direction = opening * direction + torch.tensor([0.3, -0.2, 1.0], dtype=torch.float64)
    direction = direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    energy = energy.unsqueeze(-1)
    return torch.cat([energy, direction * (energy.square() - mass**2).sqrt()], -1)


def particles() -> dict[str, Tensor]:
    """Clouds of four-momenta ``(n, 4)``, energy first, in float64."""
    generator = torch.Generator().manual_seed(0)

    def uniform(n: int) -> Tensor:
        return torch.rand(n, dtype=torch.float64, generator=generator)

    clouds = {}
    for n in (2, 3, 5, 20, 200):
        clouds[f"massless jet, {n} particles"] = _momenta(10 ** (6 * uniform(n) - 3), 0.0, 0.3, generator)
    for n in (2, 3, 20, 200):
        clouds[f"massless event, {n} particles"] = _momenta(10 ** (2 * uniform(n) - 1), 0.0, None, generator)
    for n in (1, 2, 5, 40):
        clouds[f"{n} pion{'s' * (n > 1)}, 20 to 60 GeV"] = _momenta(20 + 40 * uniform(n), PION, None, generator)
    clouds["jet of 20 pions, 20 to 60 GeV"] = _momenta(20 + 40 * uniform(20), PION, 0.2, generator)
    massless = _momenta(torch.ones(1, dtype=torch.float64), 0.0, None, generator)
    clouds["one massless particle"] = massless
    clouds["three collinear massless"] = torch.cat([massless, 2 * massless, 5 * massless])
    tilt = torch.tensor([[1.25, 0.75, 0, 0], [0.75, 1.25, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.float64)
    space = torch.randn(6, 4, dtype=torch.float64, generator=generator)
    space[:, 0] = 0
    clouds["space-like, no time-like direction"] = space @ tilt.mT
    named = {
        "null Gram-Schmidt residual": [[0, 1, 0, 0], [1, 1, 1, 0]],
        "null total momentum": [[1, 1, 0, 0], [2, 0, 1, 0], [-2, 0, -1, 0], [0.3, 1, 2, 3], [-0.3, -1, -2, -3]],
        "space-like total momentum": [[1, 2, 0, 0], [2, 0, 1, 0], [-2, 0.5, -1, 0], [0.3, 1, 2, 3], [-0.3, -1, -2, -2]],
        "null plane": [[1, 1, 0, 0], [0, 0, 1, 0], [2, 2, 3, 0]],
        "null hyperplane": [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0.3, 2]],
    }
    clouds |= {name: torch.tensor(rows, dtype=torch.float64) for name, rows in named.items()}
    clouds["Gaussian"] = torch.randn(100, 4, dtype=torch.float64, generator=generator)
    return clouds
