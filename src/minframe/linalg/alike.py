"""Rows that are equal up to rounding."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def alike(x: Tensor, tolerance: float) -> Tensor:
    """Numbers ``(n,)`` of classes of equal rows of ``x`` ``(n, ...)``, in the order of their values.

    Along every axis, numbers that differ by at most ``tolerance`` from the next are equal.
    """
    found = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for column in x.reshape(len(x), -1).mT if x.numel() else ():
        ranked, order = column.sort()
        steps = (ranked.diff(prepend=ranked[:1]) > tolerance).cumsum(0)
        classes = torch.empty_like(steps).scatter(0, order, steps)
        found = torch.unique(found * (steps[-1] + 1) + classes, return_inverse=True)[1]
    return found
