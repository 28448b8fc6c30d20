"""The poses of ``soft_poses`` in C (``_soft.c``): the same rule and the same result, in one call.

Samples of any size follow each other without padding. ``loops`` decides when it is used.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from minframe.built import require_current
from minframe.layout import Layout
from minframe.linalg.qr import TINY
from minframe.linalg.ramp import CUT_WIDTH, FLATNESS
from minframe.linalg.soft import SIGN_SLOPE, Rule
from minframe.linalg.soft_poses import MAX_POSES, MIN_WEIGHT, POSE_EPS, Poses, too_many

try:
    from minframe.linalg import _soft

    require_current(_soft)
    library: ModuleType | None = _soft
except ImportError:
    library = None

SPARE_POSES = 64  # room for poses of a batch, besides two for each sample


def soft_poses(rows: Tensor, layout: Layout, rule: Rule, rounding: float, reach: Tensor | None) -> Poses:
    """See ``linalg.soft_poses``."""
    d = rows.shape[-1]
    x, segments = rows.reshape(-1, d).contiguous(), layout.segments(rows.device)
    reach = None if reach is None else reach.double().contiguous()
    starts, sizes, order = segments.starts, segments.sizes, segments.order
    samples, most = len(starts), segments.largest
    scale, noise = x.new_empty(samples), x.new_empty(samples)
    least = max(rounding, POSE_EPS)
    constants = rule.sharpness, rule.special, MIN_WEIGHT, TINY, SIGN_SLOPE, FLATNESS, CUT_WIDTH, MAX_POSES
    count, capacity = 2 * samples + SPARE_POSES, 0
    assert library is not None
    while count > capacity:
        capacity = count
        sample = starts.new_empty(capacity)
        basis, weight, length2 = x.new_empty(capacity, d, d), x.new_empty(capacity), x.new_empty(capacity, d)
        chosen, gone = starts.new_empty(capacity, d - 1), starts.new_empty(capacity, d, dtype=torch.bool)
        results = sample, basis, weight, chosen, gone, length2, scale, noise
        count = library.soft_poses(
            *(x.data_ptr(), 0 if order is None else order.data_ptr(), starts.data_ptr(), sizes.data_ptr()),
            *(samples, d, most, rounding, least, 0 if reach is None else reach.data_ptr()),
            *(constants, capacity, *(result.data_ptr() for result in results)),
        )
        if count < 0:
            raise too_many(-1 - count, samples)
    sample, basis, weight, chosen, gone, length2 = (
        part[:count] for part in (sample, basis, weight, chosen, gone, length2)
    )
    return Poses(sample, basis, weight, chosen, gone, length2, scale, noise)
