"""Smooth frames of direct sums: every combination of a pose of each block, with the product of their weights.

A sum acts block by block, so weights and poses of one block do not change with the others. For each block the weights
of a sample add up to one, and so do their products over all combinations; they are as smooth as their factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.frame.weighted import WeightedFrame
from minframe.linalg.blocks import BlockStabiliser, block_columns, block_diagonal
from minframe.linalg.columns import Columns


@dataclass(slots=True)
class Combined:
    """``K`` combinations of poses.

    Attributes:
        sample: ``(K,)``, ascending.
        weight: ``(K,)``.
        linear: ``(K, d, d)``, with blocks along the diagonal.
        inverse: its inverse.
        own_inverse: the matrices for the rows of the cloud itself.
        stabiliser: of all blocks.
        own_columns: of all blocks.
        rank_margin: ``(*batch,)``, the least of all blocks.
    """

    sample: Tensor
    weight: Tensor
    linear: Tensor
    inverse: Tensor
    own_inverse: Tensor
    stabiliser: BlockStabiliser
    own_columns: Columns | None
    rank_margin: Tensor


def combined(parts: Sequence[WeightedFrame], sizes: Sequence[int], fixed: bool = False) -> Combined:
    """The frames of the blocks, which have ``sizes`` coordinates each, as one.

    ``fixed``: all samples have equally many poses.
    """
    sample, picks = parts[0].sample, [torch.arange(len(parts[0].sample), device=parts[0].sample.device)]
    for part in parts[1:]:
        counts = part.poses.view(-1)
        repeats = counts[sample]
        first = (counts.cumsum(0) - counts)[sample]
        old = torch.arange(len(sample), device=sample.device)
        old = old.repeat_interleave(len(part.sample) // max(len(counts), 1) if fixed else repeats)
        within = torch.arange(len(old), device=sample.device) - (repeats.cumsum(0) - repeats)[old]
        sample, picks = sample[old], [*(pick[old] for pick in picks), first[old] + within]
    weight = torch.ones_like(parts[0].weights[:1])
    for part, pick in zip(parts, picks, strict=True):
        weight = weight * part.weights[pick]

    def matrices(name: str) -> list[Tensor]:
        blocks = []
        for part, pick, d in zip(parts, picks, sizes, strict=True):
            block = getattr(part.elements, name)
            eye = torch.eye(d, dtype=torch.float64, device=sample.device).expand(len(sample), d, d)
            blocks.append(eye if block is None else block[pick])
        return blocks

    owned = [part.elements.own_columns for part in parts]
    columns = [None if own is None else own.take(pick) for own, pick in zip(owned, picks, strict=True)]
    stabilisers = [
        part.stabiliser.spread(lambda x, pick=pick: x[pick])  # type: ignore[misc]
        for part, pick in zip(parts, picks, strict=True)
    ]
    linear = matrices("linear")
    return Combined(
        sample,
        weight,
        block_diagonal(linear),
        block_diagonal(matrices("inverse")),
        block_diagonal(matrices("own_inverse")),
        BlockStabiliser.of(stabilisers, sizes),
        block_columns(columns, linear, [stabiliser.determined for stabiliser in stabilisers]),
        torch.stack([part.margin for part in parts]).amin(0),
    )
