"""How rows are stored: dense, masked or with a batch vector. Only this package depends on it.

Algorithms see *planes*: a tensor ``(d, *rows)`` whose ``rows`` axes are ``(*batch, n)`` when dense and ``(N,)`` with a
batch vector, and *sample* tensors, which have one entry per sample and broadcast against rows: ``(*batch, 1)`` or
``(B,)``. The two classes have the same methods on these shapes.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from minframe.checks import check_batch, check_mask, check_owners_known
from minframe.layout.dense import Dense
from minframe.layout.ragged import Ragged
from minframe.tracing import assume_positive

__all__ = ["Dense", "Layout", "Ragged", "described", "layout_of", "same_rows"]

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
        check_owners_known(batch, count, names[1])
        return Ragged(batch.long(), count)
    if mask is not None:
        check_mask(mask, tuple(x.shape[:-1]), names[0])
    return Dense(tuple(x.shape[:-2]), x.shape[-2], mask)


def described(layout: Layout) -> str:
    """The layout in words, for messages."""
    if isinstance(layout, Ragged):
        return f"{layout.count} samples with {layout.length} rows in all, by a batch vector"
    padded = "" if layout.mask is None else ", by a mask"
    return f"{layout.n} rows with batch axes {layout.batch_shape}{padded}"


def same_rows(one: Layout, other: Layout) -> bool:
    """Whether masks or batch vectors of two layouts with the same description are equal."""
    if isinstance(one, Ragged):
        return isinstance(other, Ragged) and torch.equal(one.index, other.index)
    return one.mask is None or (other.real is not None and torch.equal(one.mask, other.real))
