"""Backbones without the symmetry: on sets (what is shown in another order comes back so) or dependent on the order.

All are homogeneous of degree one, so that a change of scale hides nothing, and Lipschitz, so that they do not jump
themselves. Their outputs:

* ``inv``, ``(b, 1, k)``: mean over rows of ``|x W|``, an invariant. No cancellation, so relative errors mean something.
  Not ``(b, k)``: where k is the number of rows, that would be one scalar for each row.
* ``vec``, ``(b, n, d)``: vectors that point anywhere.
* ``span``, ``(b, n, d)``: vectors that are combinations of the rows, so that they exist where the rows span too little.
* ``id``: the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def weight(rows: int, columns: int, phase: float) -> Tensor:
    numbers = torch.arange(1, rows * columns + 1, dtype=torch.float64)
    return (2.399963 * numbers + phase + 0.1 * numbers.square().sin()).sin().view(rows, columns)


def as_real(x: Tensor) -> Tensor:
    return torch.view_as_real(x).flatten(-2) if x.is_complex() else x


def like(y: Tensor, x: Tensor) -> Tensor:
    """The opposite of ``as_real``, where ``x`` is complex."""
    return torch.view_as_complex(y.unflatten(-1, (-1, 2))) if x.is_complex() else y


def backbone(ordered: bool, wild: bool) -> Callable[..., dict[str, Tensor]]:
    """``ordered``: the order of the rows makes a difference. ``wild``: with ``vec``."""

    def net(x: Tensor, mask: Tensor | None = None, batch: Tensor | None = None) -> dict[str, Tensor]:
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), x, torch.zeros_like(x))
        real = as_real(x)
        wide, width = real.shape[-1], 2 * real.shape[-1] + 1
        hidden = (real @ weight(wide, width, 0.3).to(real.dtype)).abs()
        place = _places(x, mask, batch)
        if ordered:
            hidden = hidden * (1 + 0.5 * (1.7 * place + 0.4).sin()).to(real.dtype).unsqueeze(-1)
        pool = _pool(mask, batch, x.shape[-2])
        mean = pool(hidden)
        spread = mean[batch] if batch is not None else mean.unsqueeze(-2)
        middle = pool(x)
        middle = middle[batch] if batch is not None else middle.unsqueeze(-2)
        share = (hidden[..., :1] / spread.sum(-1, keepdim=True).clamp_min(torch.finfo(real.dtype).tiny)).to(x.dtype)
        out = {"inv": mean.unsqueeze(1), "span": x * share + 0.5 * middle, "id": x}
        if wild:
            bent = (hidden + 0.5 * spread) @ weight(width, wide, 1.1).to(real.dtype)
            out["vec"] = like(bent, x) / width**0.5
        if mask is not None:
            out = {k: v if k == "inv" else v * mask.unsqueeze(-1) for k, v in out.items()}
        return out

    return net


def _places(x: Tensor, mask: Tensor | None, batch: Tensor | None) -> Tensor:
    """The number of each row within its sample."""
    if mask is not None:
        return (mask.cumsum(-1) - 1).double()
    if batch is not None:
        counts = torch.bincount(batch)
        first = counts.cumsum(0) - counts
        return (torch.arange(len(batch)) - first[batch]).double()
    return torch.arange(x.shape[-2], dtype=torch.float64)


def _pool(mask: Tensor | None, batch: Tensor | None, n: int) -> Callable[[Tensor], Tensor]:
    if batch is not None:
        counts = torch.bincount(batch).unsqueeze(-1)  # of samples, or of poses if a frame has several
        return lambda y: y.new_zeros(len(counts), y.shape[-1]).index_add_(0, batch, y) / counts
    if mask is not None:
        counts = mask.sum(-1, keepdim=True)
        return lambda y: (y * mask.unsqueeze(-1)).sum(-2) / counts
    return lambda y: y.sum(-2) / n


def graph_backbone(a: Tensor) -> dict[str, Tensor]:
    """Of adjacency matrices: depends on the order of the nodes in every way."""
    n = a.shape[-1]
    w = (1 + weight(n, n, 0.7)).to(a.dtype)
    edges = a * w + 0.25 * (a @ a) * w.mT
    return {"inv": (a.abs() * w).flatten(-2), "vec": edges.sum(-1, keepdim=True), "span": edges, "id": a}
