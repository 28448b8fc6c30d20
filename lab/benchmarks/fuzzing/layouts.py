"""The same clouds ``(b, n, d)`` as the library can be given them: dense, padded with a mask, with a batch vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LAYOUTS = ("dense", "mask", "batch")
PADDING = 3  # rows with a mask
FILLERS = 5  # further samples with a batch vector, of another number of rows


@dataclass(frozen=True)
class Laid:
    """``args`` and ``kwargs`` of a model, and how its outputs come back."""

    x: Tensor
    kwargs: dict[str, Tensor]
    samples: int
    kept: Tensor  # numbers of the real rows, along the row axis

    def rows(self, y: Tensor, b: int, n: int) -> Tensor:
        if "batch" in self.kwargs:
            return y[self.kept].reshape(b, n, *y.shape[1:])
        return y[:, self.kept]


def lay(x: Tensor, layout: str, seed: int) -> Laid:
    """Padding is NaN and stands at random places; fillers are random clouds. Both depend on ``seed`` alone."""
    b, n = x.shape[:2]
    if layout == "dense":
        return Laid(x, {}, b, torch.arange(n))
    generator = torch.Generator().manual_seed(seed)
    if layout == "mask":
        kept = torch.randperm(n + PADDING, generator=generator)[:n].sort().values
        padded = x.new_full((b, n + PADDING, *x.shape[2:]), torch.nan)
        padded[:, kept] = x
        mask = torch.zeros(b, n + PADDING, dtype=torch.bool)
        mask[:, kept] = True
        return Laid(padded, {"mask": mask}, b, kept)
    m = int(torch.randint(1, 5, (), generator=generator))
    filler = torch.randn(FILLERS * m, *x.shape[2:], dtype=x.dtype, generator=generator)
    filler[..., 0] += 9  # time-like, where that is asked for
    filler = filler * x.abs().amax()
    number = torch.cat([torch.arange(b).repeat_interleave(n), b + torch.arange(FILLERS).repeat_interleave(m)])
    return Laid(torch.cat([x.flatten(0, 1), filler]), {"batch": number}, b + FILLERS, torch.arange(b * n))


def layout_options(layout: str) -> dict[str, Any]:
    """For ``mf.Equivariant``."""
    return {} if layout == "dense" else {layout: layout}
