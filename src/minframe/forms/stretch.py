"""The polar decomposition, under multiplication from the left."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from minframe.forms.common import cluster_basis, prepare, tolerance_of, turned, variation
from minframe.tracing import has_tangent


class PolarForm(NamedTuple):
    """``P = element @ canonical``.

    Attributes:
        canonical: ``(*batch, d, d)``, symmetric or Hermitian, positive semidefinite.
        element: ``(*batch, d, d)``, orthogonal or unitary.
        rank: ``(*batch,)``; the element is unique where it is ``d``.
    """

    canonical: Tensor
    element: Tensor
    rank: Tensor


def polar(matrix: Tensor, rtol: float | None = None) -> PolarForm:
    """The polar decomposition ``P = U H``: ``H`` is canonical under ``g P``, for g in O(d), or U(d) if complex.

    ``H`` is the positive semidefinite square root of ``P^* P``, which ``P -> g P`` does not change: it is unique for
    every ``P``, at any rank.

    >>> import torch, minframe.forms as forms
    >>> stretch = torch.tensor([[2.0, 1], [1, 3]])
    >>> quarter = torch.tensor([[0.0, -1], [1, 0]])
    >>> found = forms.polar(quarter @ stretch)
    >>> bool(torch.allclose(found.canonical, stretch) and torch.allclose(found.element, quarter))
    True

    **Element.** At full rank ``U = P H^-1`` is unique. Otherwise only its action on the range of ``H`` is, and it is
    completed by sending a basis of the kernel of ``P`` to a basis of what ``P`` does not reach. Both are functions of
    those two spaces (the rule described at ``eigen``), so the result is deterministic and always in the group. A
    singular value up to ``rtol |P|_2`` counts as zero for this, and ``|P - U H|_2 <= 2 rtol |P|_2``, plus rounding.
    No such decision enters into ``H``.

    **Stability.** ``H`` is Lipschitz: ``|H(P + E) - H(P)|_F <= sqrt(2) |E|_F`` (Araki and Yamagami, 1981). ``U`` is
    conditioned by the smallest singular values, as its derivative divides by their sums: ``|dU|_F <= c |dP|_F`` with
    ``c = 2 / (s_(d-1) + s_d)`` for real and ``c = 1 / s_d`` for complex matrices (Kenney and Laub, 1991). A real matrix
    therefore has a stable ``U`` with one small singular value, until its determinant changes sign. The singular value
    decomposition, through which both are computed, is backward stable.

    **Gradients.** Both factors are smooth at full rank, equal singular values included. At lower rank neither is
    differentiable, as ``|x|`` is not at 0; the derivatives returned there are finite and hold the arbitrary part of
    ``U`` fixed.

    Args:
        matrix: ``(*batch, d, d)``, real or complex.
        rtol: singular value, relative to the largest, up to which it counts as zero. By default ``eps^(3/4)``.
    """
    p, poison = prepare(matrix)
    w, sigma, vh = torch.linalg.svd(p.detach())
    v = vh.mH
    canonical = (v * sigma.unsqueeze(-2)) @ vh
    null = sigma <= tolerance_of(matrix, rtol, 3 / 4) * sigma[..., :1]
    both = null.unsqueeze(-1) & null.unsqueeze(-2)
    spaces = both | torch.eye(null.shape[-1], dtype=torch.bool, device=null.device)
    w, v = (torch.where(null.unsqueeze(-2), b @ cluster_basis(b, spaces), b) for b in (w, v))
    if has_tangent(matrix):
        sums = (sigma.unsqueeze(-2) + sigma.unsqueeze(-1)).masked_fill(both, torch.inf)
        for _ in range(2):
            a = w.mH @ p @ v
            w = turned(w, variation(a - a.mH) / sums)
        a = w.mH @ p @ v
        canonical = canonical + v @ variation(a + a.mH) @ v.mH / 2
    canonical = (canonical + canonical.mH) / 2
    return PolarForm((canonical + poison).to(matrix.dtype), (w @ v.mH + poison).to(matrix.dtype), (~null).sum(-1))
