"""Smooth poses: the loops in C and PyTorch give the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from minframe.layout import Dense, Layout, Ragged
from minframe.linalg import soft_native, soft_poses
from minframe.linalg.soft import Rule
from minframe.linalg.soft_poses import Poses

SAMPLES, MOST = 30, 30


def shapes(x: Tensor) -> dict[str, Tensor]:
    """Rows ``(N, d)`` of clouds of several kinds."""
    plane, line = x.clone(), x.clone()
    plane[:, -1:], line[:, 1:] = 0, 0
    return {
        "generic": x,
        "sphere": torch.nn.functional.normalize(x, dim=-1),
        "grid": x.round(),
        "plane": plane,
        "line": line,
        "point": 0 * x,
        "small": 1e-150 * x,
    }


def compare(rows: Tensor, layout: Layout, rule: Rule) -> None:
    reach = torch.rand(SAMPLES, dtype=torch.float64) * rows.abs().max()
    found, want = (f.soft_poses(rows, layout, rule, 1e-15, reach) for f in (soft_native, soft_poses))
    assert isinstance(found, Poses)
    for name in ("sample", "chosen", "gone"):
        assert torch.equal(getattr(found, name), getattr(want, name)), name
    for name in ("basis", "weight", "length2", "noise"):
        assert float((getattr(found, name) - getattr(want, name)).abs().max()) < 1e-12, name
    assert torch.allclose(found.scale, want.scale, rtol=1e-15, atol=0)


@pytest.mark.skipif(soft_native.library is None, reason="the extension is not built")
@pytest.mark.parametrize("sharpness", [40.0, 17.3])
@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_both_loops_find_the_same_poses(d: int, special: bool, sharpness: float) -> None:
    rule = Rule(sharpness, special, moments=False)
    sizes = torch.randint(1, MOST + 1, (SAMPLES,))
    index = torch.repeat_interleave(torch.arange(SAMPLES), sizes)
    index = index[torch.randperm(len(index))]
    for rows in shapes(torch.randn(len(index), d, dtype=torch.float64)).values():
        compare(rows, Ragged(index, SAMPLES), rule)
    mask = torch.rand(SAMPLES, 9) < 0.7
    for rows in shapes(torch.randn(SAMPLES * 9, d, dtype=torch.float64)).values():
        compare(rows.view(SAMPLES, 9, d) * mask.unsqueeze(-1), Dense((SAMPLES,), 9, mask), rule)


@pytest.mark.skipif(soft_native.library is None, reason="the extension is not built")
def test_room_for_poses_grows() -> None:
    """Solids have more poses than there is room for at first."""
    corners = torch.cartesian_prod(*(torch.tensor([-1.0, 1.0], dtype=torch.float64),) * 3)
    rows, layout = corners.repeat(SAMPLES, 1, 1), Dense((SAMPLES,), 8)
    found = soft_native.soft_poses(rows, layout, Rule(40.0, False, False), 1e-15, None)
    assert len(found.sample) == 8 * 6 * 2 * SAMPLES
    assert torch.allclose(
        torch.zeros(SAMPLES, dtype=torch.float64).index_add(0, found.sample, found.weight), torch.ones(()).double()
    )
