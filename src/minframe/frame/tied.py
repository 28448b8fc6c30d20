"""Distances of poses under finite groups, of those samples alone that need them."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from minframe.checks import readable
from minframe.cloud import Cloud
from minframe.linalg.orbit import Distances


def for_tied(distances: Callable[[Cloud, Tensor, Tensor], Tensor], cloud: Cloud) -> Distances:
    """``distances(cloud, alive, leader)``, of those samples alone that have several elements in question."""

    def found(alive: Tensor, leader: Tensor) -> Tensor:
        if not readable(alive):
            return distances(cloud, alive, leader)
        flat = alive.reshape(-1, alive.shape[-1])
        tied = (flat.sum(-1) > 1).nonzero().squeeze(-1)
        some = distances(cloud.select(tied), flat[tied], leader.reshape(-1)[tied])
        return some.new_zeros(flat.shape).index_copy(0, tied, some).view(alive.shape)

    return found
