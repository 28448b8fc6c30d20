"""Positions along a Hilbert curve.

The curve visits every cell of a grid of ``2^p`` cells along each axis, each step to a neighbouring cell, so that points
close along the curve are close in space. The algorithm is Skilling's (2004): the bits of the coordinates, from the
highest, are exchanged and inverted until they are a Gray code of the position, read across the axes.
"""

from __future__ import annotations

import torch
from torch import Tensor

POSITION_BITS = 62  # bits of a position on the curve


def bits_per_axis(d: int) -> int:
    """The bits of the grid along each axis; a function of the dimension alone, as another grid gives another order."""
    return max(1, min(POSITION_BITS // d, 20))


def hilbert_position(cells: Tensor, bits: int | None = None) -> Tensor:
    """The position ``(*any)`` on the curve of cells ``(*any, d)``, integers from 0 to below ``2^bits``.

    In more than 62 dimensions only the first 62 count.
    """
    d = min(cells.shape[-1], POSITION_BITS)
    bits = bits_per_axis(d) if bits is None else bits
    x = [part.clone() for part in cells[..., :d].unbind(-1)]
    for level in reversed(range(1, bits)):
        low = (1 << level) - 1
        for i in range(d):
            high = (x[i] >> level) & 1
            swap = torch.where(high == 0, (x[0] ^ x[i]) & low, 0)
            x[0] = x[0] ^ torch.where(high == 1, low, 0) ^ swap
            if i:
                x[i] = x[i] ^ swap
    for i in range(1, d):
        x[i] = x[i] ^ x[i - 1]
    flip = torch.zeros_like(x[0])
    for level in reversed(range(1, bits)):
        flip = torch.where((x[-1] >> level) & 1 == 1, flip ^ ((1 << level) - 1), flip)
    x = [part ^ flip for part in x]
    position = torch.zeros_like(x[0])
    for level in reversed(range(bits)):
        for part in x:
            position = (position << 1) | ((part >> level) & 1)
    return position
