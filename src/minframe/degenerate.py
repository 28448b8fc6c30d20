"""Named families of clouds on which canonicalisation goes wrong first.

``DEGENERATIONS`` turn any cloud ``(*batch, n, d)`` into a degenerate one of the same shape; ``polytopes`` are the
symmetric solids. Tests, benchmarks and ``minframe.testing`` take them from here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from minframe.linalg.action import wide


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
