"""How many elements a frame has: one number for each sample, which may exceed what a tensor can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from torch import Tensor

#: A Python integer, or ``inf``; for a batch, nested lists of them in the shape of the batch axes.
Size = int | float | list[Any]


def nested(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """A flat list as nested lists of this shape; the only entry if it has no axes."""
    if not shape:
        return values[0]
    step = math.prod(shape[1:])
    return [nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def counted(counts: Tensor) -> Size:
    """Counts ``(*batch,)`` as a size."""
    flat = [count if math.isinf(count) else int(count) for count in counts.flatten().tolist()]
    size: Size = nested(flat, tuple(counts.shape))
    return size


def shown(size: Size) -> str:
    """A size in a few characters: Python prints at most some thousand digits."""
    if isinstance(size, list):
        return f"[{', '.join(map(shown, size))}]"
    return f"{Decimal(size):.2e}" if isinstance(size, int) and size >= 10**12 else str(size)
