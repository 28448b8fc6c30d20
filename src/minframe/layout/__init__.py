"""Where rows live: dense, masked or with a batch vector. The only place that knows.

Algorithms see *planes*: a tensor ``(d, *rows)`` whose ``rows`` axes are ``(*batch, n)`` when dense and ``(N,)`` with a
batch vector, and *sample* tensors, which have one entry per sample and broadcast against rows: ``(*batch, 1)`` or
``(B,)``. The two classes have the same methods on these shapes.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor

from minframe.checks import check_batch, check_mask
from minframe.layout.dense import Dense
from minframe.layout.ragged import Ragged
from minframe.tracing import assume_positive

__all__ = ["Dense", "Layout", "Ragged", "layout_of"]

Layout = Dense | Ragged


def layout_of(
    x: Tensor, mask: Tensor | None, batch: Tensor | None, names: tuple[str, str] = ("mask", "batch")
) -> Layout:
    """The layout of a cloud ``x``: ``(*batch, n, d)``, or ``(N, d)`` with a batch vector.

    With a batch vector, ``x`` may also have channels, ``(N, c, d)``.
    """
    if mask is not None and batch is not None:
        raise ValueError(f"give {names[0]}= or {names[1]}=, not both: a batch vector has no padding")
    if batch is not None:
        check_batch(batch, x, names[1])
        count = 0
        if batch.shape[0]:
            count = cast(int, batch.max().item()) + 1  # torch.export would take int() for a constant
            assume_positive(count)
        return Ragged(batch.long(), count)
    if mask is not None:
        check_mask(mask, x, names[0])
    return Dense(tuple(x.shape[:-2]), x.shape[-2], mask)
