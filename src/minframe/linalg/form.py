"""An indefinite form, and isometries of it in closed form."""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.linalg.solvers import cholesky, inv


def signs(p: int, q: int, device: torch.device) -> Tensor:
    """``eta``, as ``(d,)``."""
    eta = torch.ones(p + q, dtype=torch.float64, device=device)
    eta[p:].fill_(-1)  # on the device: a copy of Python numbers would be waited for
    return eta


def adjoint(matrix: Tensor, eta: Tensor) -> Tensor:
    """``eta matrix^* eta``, which is the inverse of an isometry."""
    return matrix.mH * (eta.unsqueeze(-1) * eta)


def boost_to(axis: Tensor, p: int, q: int) -> Tensor:
    """An isometry, ``(*batch, d, d)``, whose time axis is the unit vector u given.

    With ``s = u_t / |u_t|`` and ``w = u + s e_t`` the reflection ``y -> y - 2 w <w, y> / <w, w>``, in which ``<w, w> =
    2 s^* w_t``, exchanges u and ``-s e_t`` (compare ``linalg.qr``). The boost equals it except for the time axis.
    """
    time = 0 if p == 1 else p
    eta = signs(p, q, axis.device)
    one = torch.eye(p + q, dtype=axis.dtype, device=axis.device)
    at = axis[..., time : time + 1]
    w = axis + at.sgn() * one[time]
    matrix = one - (w / (at.abs() + 1)).unsqueeze(-1) * (w.conj() * (eta * eta[time])).unsqueeze(-2)
    return torch.where(one[time] != 0, axis.unsqueeze(-1), matrix)


def reflection(w: Tensor, eta: Tensor, square: Tensor) -> Tensor:
    """``y -> y - 2 w <w, y> / <w, w>``, for ``square = <w, w>`` ``(*batch, 1)``."""
    one = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
    return one - (2 * w / square).unsqueeze(-1) * (w.conj() * eta).unsqueeze(-2)


def tilt(y: Tensor) -> Tensor:
    """The isometry whose first columns span those of ``(1, Y)``."""
    q, p = y.shape[-2:]
    one_p, one_q = (torch.eye(k, dtype=y.dtype, device=y.device) for k in (p, q))
    up = torch.cat([one_p.expand(*y.shape[:-2], p, p), y], -2)
    down = torch.cat([y.mH, one_q.expand(*y.shape[:-2], q, q)], -2)
    up = up @ inv(cholesky(one_p - y.mH @ y)).mH
    return torch.cat([up, down @ inv(cholesky(one_q - y @ y.mH)).mH], -1)
