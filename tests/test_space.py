"""Small clouds in space are decomposed by cross products, others by reflections: with one result."""

from __future__ import annotations

import pytest
import torch

import minframe as mf
from clouds import all_clouds
from minframe.groups.base import Input
from minframe.linalg import space
from minframe.linalg.qr import pivoted_qr
from table import DTYPES

CLOUDS = {name: x for name, x in all_clouds().items() if x.shape[-1] == 3 and 3 <= len(x) <= 100}
GROUPS = [
    mf.O(3),
    mf.SO(3),
    mf.E(3),
    mf.SE(3),
    mf.O(3, permutation_invariant=True),
    mf.SO(3, permutation_invariant=True),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_both_ways_agree(group: mf.Group, dtype: torch.dtype) -> None:
    special, spanning = isinstance(getattr(group, "linear", group), mf.SO), 0
    for name, x in CLOUDS.items():
        x = (x @ mf.SO(3).random(dtype=torch.float64).mT).to(dtype)
        cloud = group.cloud([Input("x", x.unsqueeze(0), "point")])
        cloud = cloud.centred() if isinstance(group, mf.E) else cloud
        cloud.longest = group.permutation_invariant
        assert space.is_small(cloud)
        one, other = space.space_qr(cloud, special), pivoted_qr(cloud.planes(), special)
        if one is None:
            assert not other.determined.all(), name
            continue
        spanning += 1
        for left, right in ((one.basis, other.basis), (one.pose(torch.float64), other.pose(torch.float64))):
            torch.testing.assert_close(left, right, rtol=0, atol=1e-12 * float(right.abs().max()))
        assert torch.equal(one.positions(), other.positions()), name
        assert one.tied is None if other.tied is None else torch.equal(one.tied, other.tied), name
        torch.testing.assert_close(one.peaks, other.peaks)
    assert spanning >= 15


def test_a_flat_cloud_among_others_changes_nothing() -> None:
    x = torch.randn(5, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    flat = x[0] * torch.tensor([1.0, 1.0, 0.0])
    for group in (mf.O(3), mf.SE(3)):
        together = mf.canonicalize(torch.cat([x, flat.unsqueeze(0)]), group)[0]
        torch.testing.assert_close(together[:5], mf.canonicalize(x, group)[0], rtol=1e-12, atol=1e-12)
