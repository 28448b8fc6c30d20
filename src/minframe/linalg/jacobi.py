"""Jacobi's rotations of columns, which nobody waits for: a fixed number of them, for all samples alike.

Columns w with ``<w_i, w_j> = w_i^* eta w_j`` are rotated in pairs until all products are zero. With ``eta = 1`` their
lengths are then singular values (Hestenes); else their squares ``<w, w>`` are the eigenvalues of ``W^* eta W``, and the
columns W times its eigenvectors (Veselic, *A Jacobi eigenreduction algorithm for definite matrix pairs*). Rotations are
applied to the columns and not to their products: a short column changes by a multiple of a long one that is only as
large as their product, and short columns are rotated by their own products. What is left of a product is rounding of
``|w_i| |w_j|``, where an eigensolver leaves that of the longest, squared, and mixes all columns that are shorter.

**One rotation.** For columns a and b with the product ``c = <a, b>`` and the gap ``g = <b, b> - <a, a>``,

    t = 2 c / (g + h),      a' = (a - t^* b) / r,      b' = (t a + b) / r,      r^2 = 1 + |t|^2,

where h has the sign of g and ``h^2 = g^2 + 4 |c|^2``: ``<a', b'> r^2 = c + t g - t^2 c^* = 0``, and ``|t| <= 1``.

**Disjoint pairs** are rotated at once: with the columns in two rows of m, those above each other. Then all columns but
the first move on by one place, around both rows, as in a round-robin tournament; after ``2 m - 1`` rounds, a sweep,
every pair has met and all are where they were. An odd number of columns is made even by one of zeros, which no rotation
changes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.linalg.qr import TINY


def orthogonal_columns(w: Tensor, eta: Tensor | None = None, sweeps: int | None = None) -> Tensor:
    """Columns ``(*batch, d, k)``, rotated among each other until they are orthogonal in the form ``eta`` ``(d,)``.

    They converge quadratically, in ``k + 1`` sweeps or fewer if their lengths differ by 1e11; one more is made.
    ``sweeps``: how many, if they are almost orthogonal.
    """
    count = w.shape[-1]
    if count == 1:
        return w
    sweeps = count + 2 if sweeps is None else sweeps
    w = torch.nn.functional.pad(w, (0, 1)) if count % 2 else w
    m = w.shape[-1] // 2
    one = torch.ones((), dtype=torch.float64, device=w.device)
    form = None if eta is None else eta.unsqueeze(-1)
    for _ in range(sweeps * (2 * m - 1)):
        products = w.mH @ (w if form is None else form * w)
        squares, c2 = products.diagonal(dim1=-2, dim2=-1).real, 2 * products.diagonal(m, dim1=-2, dim2=-1)
        gap = squares[..., m:] - squares[..., :m]
        height = torch.hypot(gap, c2.abs() if c2.is_complex() else c2).clamp_min(TINY)
        t = (c2 / (gap + torch.copysign(height, gap))).unsqueeze(-2)
        cosine = torch.addcmul(one, t, t.conj()).real.rsqrt()
        a, b = w[..., :m], w[..., m:]
        a, b = cosine * torch.addcmul(a, t.conj(), b, value=-1), cosine * torch.addcmul(b, t, a)
        w = torch.cat([a[..., :1], b[..., :1], a[..., 1:-1], b[..., 1:], a[..., m - 1 :]] if m > 1 else [a, b], -1)
    return w[..., :count]
