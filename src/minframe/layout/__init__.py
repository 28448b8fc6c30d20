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
from minframe.layout.ragged import BatchVector, Ragged
from minframe.tracing import assume_positive

__all__ = ["BatchVector", "Dense", "Layout", "Ragged", "described", "layout_of", "same_rows"]

Layout = Dense | Ragged


def batch_vector(batch: Tensor | None, size: int | None, name: str = "batch_size") -> Tensor | BatchVector | None:
    """A batch vector with its number of samples, if that is known."""
    if batch is None or size is None:
        return batch
    if isinstance(size, bool) or not isinstance(size, int | torch.SymInt):
        raise TypeError(
            f"{name} must be an integer, the number of samples, got {type(size).__name__}: leave it out, or read it "
            "where that costs nothing"
        )
    return BatchVector(batch, size)


def layout_of(
    x: Tensor,
    mask: Tensor | None,
    batch: Tensor | BatchVector | None,
    names: tuple[str, str] = ("mask", "batch"),
) -> Layout:
    """The layout of a cloud ``x``: ``(*batch, n, d)``, or ``(N, d)`` with a batch vector.

    With a batch vector, ``x`` may also have channels, ``(N, c, d)``.
    """
    if mask is not None and batch is not None:
        raise ValueError(f"give {names[0]}= or {names[1]}=, not both: a batch vector has no padding")
    if batch is not None:
        index, known = (batch.index, batch.count) if isinstance(batch, BatchVector) else (batch, None)
        check_batch(index, x, names[1], known)
        count = known or 0
        if index.shape[0] and known is None:
            count = cast(int, index.max().item()) + 1  # torch.export would take int() for a constant
            assume_positive(count)
        check_owners_known(index, count, names[1])
        return Ragged(index.long(), count)
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
