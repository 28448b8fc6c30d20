"""Momenta: what a network sees of them, and elements of the Lorentz group of bounded rapidity."""

from __future__ import annotations

import torch
from torch import Tensor

import minframe as mf

FEATURES = 4
PREPROCESSED = 7
SMALL = 1e-6
ANGLE, ANGLE_MIDDLES = 0.25, (0.0, 0.0, 0.2)  # typical size of angles to the axis, and their means
LOG_MIDDLE, LOG_SHARE_MIDDLE, LOG_SCALE = 1.8, -4.7, 0.7  # of logarithms of momenta in GeV and of shares of the jet's


def raw_features(p: Tensor, mask: Tensor) -> Tensor:
    """Of each momentum ``(..., 4)`` the logarithm of the energy and the velocity: all of a massless particle."""
    energy = p[..., :1].abs().clamp_min(SMALL)
    return torch.cat([energy.log(), p[..., 1:] / energy], -1) * mask.unsqueeze(-1)


def usual_features(p: Tensor, mask: Tensor) -> Tensor:
    """The usual preprocessing: everything relative to the axis and the momentum of the jet, in the detector's terms.

    Each feature is moved and scaled by what is customary, so that all are about one.
    """
    jet = (p * mask.unsqueeze(-1)).sum(-2, keepdim=True)
    eta, phi = _direction(p)
    jet_eta, jet_phi = _direction(jet)
    turn = torch.remainder(phi - jet_phi + torch.pi, 2 * torch.pi) - torch.pi
    angles = [eta - jet_eta, turn, torch.hypot(eta - jet_eta, turn)]
    found = [(angle - middle) / ANGLE for angle, middle in zip(angles, ANGLE_MIDDLES, strict=True)]
    for total, own in ((_transverse(jet), _transverse(p)), (jet[..., 0].abs(), p[..., 0].abs())):
        momentum = own.clamp_min(SMALL).log()
        share = momentum - total.clamp_min(SMALL).log()
        found += [(momentum - LOG_MIDDLE) * LOG_SCALE, (share - LOG_SHARE_MIDDLE) * LOG_SCALE]
    return torch.stack(found, -1) * mask.unsqueeze(-1)


def _transverse(p: Tensor) -> Tensor:
    return torch.hypot(p[..., 1], p[..., 2])


def _direction(p: Tensor) -> tuple[Tensor, Tensor]:
    """Pseudorapidity and azimuth."""
    return torch.asinh(p[..., 3] / _transverse(p).clamp_min(SMALL)), torch.atan2(p[..., 2], p[..., 1])


def mass(p: Tensor, mask: Tensor) -> Tensor:
    """Of each jet."""
    total = (p.double() * mask.unsqueeze(-1)).sum(-2)
    return minkowski(total, total).clamp_min(0).sqrt()


def minkowski(x: Tensor, y: Tensor) -> Tensor:
    """The product of momenta ``(..., 4)``: energies less everything else."""
    return x[..., 0] * y[..., 0] - (x[..., 1:] * y[..., 1:]).sum(-1)


def random_element(count: int, rapidity: float, orthochronous: bool = False) -> Tensor:
    """Elements ``(count, 4, 4)`` of O(1, 3) in float64: an isometry of space, a boost, and perhaps a reversal of time.

    A boost by rapidity w along a unit vector n is ``[[cosh w, sinh w n^T], [sinh w n, 1 + (cosh w - 1) n n^T]]``. Its
    rapidity is uniform up to ``rapidity``.
    """
    w = rapidity * torch.rand(count, 1, 1, dtype=torch.float64)
    n = torch.nn.functional.normalize(torch.randn(count, 3, 1, dtype=torch.float64), dim=1)
    space = torch.eye(3, dtype=torch.float64) + (w.cosh() - 1) * n @ n.mT
    boost = torch.cat([torch.cat([w.cosh(), w.sinh() * n.mT], 2), torch.cat([w.sinh() * n, space], 2)], 1)
    turn = torch.zeros(count, 4, 4, dtype=torch.float64)
    turn[:, 0, 0] = 1 if orthochronous else torch.randint(2, (count,)).double() * 2 - 1
    turn[:, 1:, 1:] = mf.O(3).random(count, dtype=torch.float64)
    return turn @ boost
