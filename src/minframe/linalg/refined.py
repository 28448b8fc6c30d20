"""T of ``linalg.spectral`` made whole, exact and differentiable.

**Free axes.** Where the span W is all of space, ``D = V U |l|^-1/2`` is T. Else reflections that take the axes to the
columns of D take the other axes to a completion of them (``completed_axes``).

**Derivatives and refinement.** Let ``y = T^-1 x`` and S, in these coordinates, have the blocks ``S++``, ``S+-``,
``S-+`` and ``S--``. The columns of ``(1, Y)`` span an invariant subspace of ``S eta`` if

    S-+ - S-- Y = Y (S++ - S+- Y),

a linear equation for Y but for the last term, which is of third order where ``S-+`` is zero: two steps of iteration
give derivatives of every order in use. It is regular as S++ and S-- are positive. With what rounding left of ``S-+``,
one step of it also makes T exact in units of each pair of axes; the eigensolver is, in units of the largest eigenvalue.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.linalg.form import adjoint, reflection, signs, tilt
from minframe.linalg.null import outer
from minframe.linalg.solvers import solve

MIN_SQUARE = 0.5  # of a unit vector, as it is computed: below, rounding is what is left


def completed_axes(d: Tensor, taken: Tensor, p: int, q: int) -> Tensor:
    """An isometry whose columns are those of D that are taken, but for phases, and free axes: by reflections.

    ``eta - D eta D^*`` would give the free axes as well, but its entries are the squares of those of D, and so are its
    errors: of a space-like row that is all but null nothing would be left. Let T be the isometry so far, the identity
    at first, ``d = T^-1 D_k``, zero in the axes that T has already, and ``a`` its part in those of the sign of axis k,
    brought to length one. As in ``boost_to``, ``w = d + a`` has ``<w, w> = 2 (<a, a> + <d, a>)``, a sum of equal signs,
    and the reflection in w exchanges d and -a; another, among axes of the same sign, exchanges a and axis k. Entries
    are as large as those of D, and every reflection is an isometry, whatever the errors of D are.

    Of two columns that are both nearly null, the second is as long after ``T^-1``, and 1 may be less than the rounding
    of ``<d, d>``. It is then the length of the part that is adjusted.
    """
    eta = signs(p, q, d.device)
    matrix = torch.eye(p + q, dtype=d.dtype, device=d.device).expand_as(d)
    time = 0 if p == 1 else p
    order = [time, *(k for k in range(p + q) if k != time)] if min(p, q) == 1 else list(range(p + q))
    left = torch.ones(p + q, dtype=torch.float64, device=d.device)
    for k in order:
        same = left * (eta == eta[k])
        axis = left * (adjoint(matrix, eta) @ d[..., k : k + 1]).squeeze(-1)
        square = (axis.abs().square() * eta).sum(-1, keepdim=True) * eta[k]
        there, exact = taken[..., k : k + 1], square > MIN_SQUARE
        axis = torch.where(exact, axis / torch.where(exact, square, 1.0).sqrt(), _hyperbolic(axis, same, k))
        axis = torch.where(there, axis, torch.eye(p + q, device=d.device)[k])
        part = axis * same
        length = torch.linalg.vector_norm(part, dim=-1, keepdim=True)
        part = part / length
        matrix = matrix @ reflection(axis + part, eta * eta[k], 2 * (1 + length))
        at = part[..., k : k + 1]
        onto = part + torch.where(at == 0, 1.0, at.sgn()) * torch.eye(p + q, dtype=d.dtype, device=d.device)[k]
        matrix = matrix @ reflection(onto, same, 2 * (1 + at.abs()))
        left = left * ((torch.arange(p + q, device=d.device) != k) | ~there)  # what is still free
    return matrix


def _hyperbolic(axis: Tensor, same: Tensor, k: int) -> Tensor:
    """``axis`` ``(*batch, d)`` with its part in ``same`` so long that the difference of the squared lengths is 1."""
    part, other = axis * same, axis * (1 - same)
    length = torch.linalg.vector_norm(part, dim=-1, keepdim=True)
    unit = torch.eye(axis.shape[-1], dtype=axis.dtype, device=axis.device)[k]
    unit = torch.where(length > 0, part / torch.where(length > 0, length, 1.0), unit)
    return other + unit * (1 + other.abs().square().sum(-1, keepdim=True)).sqrt()


def refined(v: Tensor, matrix: Tensor, taken: Tensor, p: int, q: int) -> Tensor:
    """T after one step. Along axes that are not taken V has nothing but the rounding of a product with a boost."""
    y = adjoint(matrix, signs(p, q, v.device)) @ v * taken.unsqueeze(-1)
    s = outer(y)
    return matrix @ tilt(slope(s, s[..., p:, :p], p, q))


def slope(s: Tensor, mixed: Tensor, p: int, q: int) -> Tensor:
    """Y, ``(*batch, q, p)``, with ``mixed`` in the place of ``S-+``."""
    one_p, one_q = torch.eye(p, dtype=s.dtype, device=s.device), torch.eye(q, dtype=s.dtype, device=s.device)
    system = torch.einsum("...ij,ab->...iajb", s[..., p:, p:], one_p)
    system = system + torch.einsum("ij,...ba->...iajb", one_q, s[..., :p, :p])
    system = system.flatten(-2).flatten(-3, -2)
    size = s.detach().diagonal(dim1=-2, dim2=-1).real.sum(-1)[..., None, None]
    small = 1e-22 * torch.where(size > 0, size, 1.0)  # for pairs of axes that are both free
    system = system + small * torch.eye(p * q, dtype=s.dtype, device=s.device)
    unit = system.detach().diagonal(dim1=-2, dim2=-1).real.rsqrt().unsqueeze(-1)  # rows may differ a lot in length
    system = unit * system * unit.mT + 1e-13 * torch.eye(p * q, dtype=s.dtype, device=s.device)
    y = torch.zeros_like(mixed)
    for _ in range(2):
        right = (mixed + y @ mixed.mH @ y).flatten(-2).unsqueeze(-1)
        y = (unit * solve(system, unit * right)).reshape(mixed.shape)
    return y
