"""Common functions of the canonical forms: checks, tolerances, and bases that depend on a space alone."""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.checks import checkable
from minframe.dtypes import wide
from minframe.linalg.qr import FRACTION


def prepare(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The checked matrix in double precision, and ``(*batch, 1, 1)`` to add to the results: 0, or NaN.

    NaN and infinity raise where tensors may be read. Elsewhere such a sample is replaced by zero, as the libraries
    that decompose it would give up on the whole batch, and its results become NaN in the end.
    """
    if not isinstance(matrix, Tensor):
        raise TypeError(f"matrix must be a torch.Tensor, got {type(matrix).__name__}: convert it with torch.as_tensor")
    if not matrix.is_floating_point() and not matrix.is_complex():
        raise TypeError(
            f"matrix must have a floating or complex dtype, got {matrix.dtype}: convert it, for example with .double()"
        )
    shape = tuple(matrix.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or not shape[-1]:
        raise ValueError(f"matrix must have shape (*batch, d, d) with d >= 1, got {shape}: pass square matrices")
    p = wide(matrix)
    poison = 0 * p.detach().abs().amax((-2, -1), keepdim=True)
    if checkable(p) and bool(poison.isnan().any()):
        bad = poison.flatten().isnan().nonzero().flatten().tolist()
        raise ValueError(
            f"matrix has NaN or infinite entries in sample {bad[0]} of {poison.numel()}: it has no canonical form. "
            "Remove the sample"
        )
    return torch.where(poison.isnan(), 0, p), poison


def tolerance_of(matrix: Tensor, rtol: float | None, power: float) -> float:
    """``rtol``, or by default a power of the rounding of the dtype that was given."""
    if rtol is not None and not 0 <= rtol < 1:
        raise ValueError(f"rtol must be in [0, 1), got {rtol}: it is relative to the norm of the matrix")
    return torch.finfo(matrix.dtype).eps ** power if rtol is None else rtol


def same_cluster(cluster: Tensor) -> Tensor:
    """Whether two columns belong to the same cluster, ``(*batch, d, d)``."""
    return cluster.unsqueeze(-1) == cluster.unsqueeze(-2)


def variation(x: Tensor) -> Tensor:
    """Zero, with the derivatives of ``x``."""
    return x - x.detach()


def turned(basis: Tensor, x: Tensor) -> Tensor:
    """``basis exp(x)`` for skew ``x``, to second order."""
    return basis + basis @ (x + x @ x / 2)


def cluster_basis(vectors: Tensor, same: Tensor) -> Tensor:
    """A block diagonal unitary ``q`` such that ``vectors @ q`` depends on the spans of the clusters alone.

    The lengths of the rows of ``vectors``, restricted to a cluster, and the products between them are the entries of
    the projector on its span. So is every choice made here: step ``i`` takes a row of the cluster of column ``i``, of
    what the steps before have left of it, and makes it the next basis vector; in the new basis its entry is positive.
    """
    left, q = vectors, torch.zeros_like(vectors[..., :0])
    for i in range(vectors.shape[-1]):
        rows = left * same[..., i, :].unsqueeze(-2)
        length2 = rows.detach().abs().square().sum(-1)
        first = (length2 >= FRACTION * length2.amax(-1, keepdim=True)).int().argmax(-1, keepdim=True)
        u = rows.mH @ torch.zeros_like(length2).scatter(-1, first, 1.0).to(rows.dtype).unsqueeze(-1)
        u = u - q @ (q.mH @ u)  # once more: the rows left are orthogonal to q only up to rounding over their length
        u = u / torch.linalg.vector_norm(u, dim=-2, keepdim=True)
        left = left - (left @ u) @ u.mH
        q = torch.cat([q, u], -1)
    return q
