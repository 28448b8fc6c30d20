"""The Triton kernel, run by its interpreter on the CPU, beside the loops in PyTorch.

Triton reads ``TRITON_INTERPRET`` when it is imported, so this file runs itself in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import minframe as mf
from minframe.degenerate import DEGENERATIONS


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is an extra: pip install minframe[gpu]")
def test_the_kernel_agrees_with_pytorch_on_every_family() -> None:
    path = os.pathsep.join([str(Path(mf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path}
    run = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]


def main() -> None:
    """Rows chosen, ranks, ties, poses and bases of clouds in every dimension, with every optional input."""
    from minframe.linalg import gpu, native
    from minframe.linalg.qr import FRACTION, SPECK, TINY, tie

    random = torch.Generator().manual_seed(0)
    for d in (3, 8):
        for name, degenerate in DEGENERATIONS.items():
            for dtype, n in ((torch.float64, 6), (torch.float32, 130)):
                eps = torch.finfo(dtype).eps
                x = degenerate(torch.randn(2, n, d, generator=random, dtype=torch.float64)).to(dtype)
                mask = torch.rand(2, n, generator=random) < 0.9
                mask[:, 0] = True
                origin = x.double().mean(-2)
                row_floor = torch.full((2, n), 1e-20, dtype=torch.float64)
                short, floor = torch.tensor([3.3, 3.3]).double(), torch.tensor([1e-9, 0.0]).double()
                longest = torch.tensor([True, False])
                for special in (False, True):
                    tolerance = max(eps**0.75, 8 * eps)
                    rule = native.Rule(FRACTION, tolerance, 2 * tie(tolerance) if special else 0.0, SPECK, TINY)
                    every = {"mask": mask, "short": short, "row_floor": row_floor, "floor": floor}
                    for given in ({"origin": origin, "noise": 8 * eps}, every | {"longest": longest}):
                        mine = gpu.pivoted_qr(x, rule, special, **given)
                        theirs = native.pivoted_qr(x, rule, special, **given)
                        agree(mine, theirs, x, name, 64 * eps)
    nan = torch.full((2, 5, 3), torch.nan)
    nan[1] = torch.randn(5, 3, generator=random)
    found = gpu.pivoted_qr(nan, native.Rule(FRACTION, 1e-6, 0.0, SPECK, TINY), False)
    assert found.pose[0].isnan().all()
    assert found.pose[1].isfinite().all()
    assert not found.determined[0].any()


def agree(mine, theirs, x, name: str, bound: float) -> None:
    size, known = x.double().abs().max(), theirs.determined
    assert torch.equal(mine.determined, known), name
    assert torch.equal(mine.positions * known, theirs.positions * known), name
    if theirs.several is not None:
        assert torch.equal(mine.several & known, theirs.several & known), name
    assert (mine.pose - theirs.pose).abs().max() <= bound * size, name
    across = (mine.basis - theirs.basis) * known.unsqueeze(-2)
    least = (theirs.peaks / theirs.peaks[..., :1].clamp_min(1e-300)).sqrt()[known]
    assert across.abs().max() <= bound / least.min() if len(least) else True, name


if __name__ == "__main__":
    main()
