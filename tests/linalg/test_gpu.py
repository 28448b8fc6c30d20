"""The Triton kernel, run by its interpreter on the CPU, beside the loops in PyTorch.

Triton reads ``TRITON_INTERPRET`` when it is imported, so this file runs itself in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import minframe as mf
from minframe.degenerate import DEGENERATIONS
from minframe.layout import Dense
from minframe.linalg import gpu, native
from minframe.linalg.rows import PivotedQR, Precision, Rows


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is an extra: pip install minframe[gpu]")
def test_the_kernel_agrees_with_pytorch_on_every_family() -> None:
    path = os.pathsep.join([str(Path(mf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path}
    run = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]


def test_it_is_switched_on_by_hand() -> None:
    assert gpu.kernel is None
    assert (
        "triton"
        not in subprocess.run(
            [sys.executable, "-c", "import minframe, sys; print(*sys.modules)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    )


def main() -> None:
    """Rows chosen, ranks, ties, poses and bases, with every optional input."""
    with gpu.use_kernel():
        compare(torch.Generator().manual_seed(0))


def compare(random: torch.Generator) -> None:
    for d in (3, 8):
        for name, degenerate in DEGENERATIONS.items():
            for dtype, n in ((torch.float64, 6), (torch.float32, 130)):
                eps = torch.finfo(dtype).eps
                x = degenerate(torch.randn(2, n, d, generator=random, dtype=torch.float64)).to(dtype)
                mask = torch.rand(2, n, generator=random) < 0.9
                mask[:, 0] = True
                precision = Precision(eps, max(eps**0.75, 8 * eps))
                with_floor = replace(precision, floor=torch.tensor([[1e-9], [0.0]], dtype=torch.float64))
                centred = Rows(x, Dense((2,), n), precision, x.double().mean(-2), longest=True)
                every = Rows(
                    x,
                    Dense((2,), n, mask),
                    with_floor,
                    longest=torch.tensor([True, False]),
                    short=torch.tensor([3.3, 3.3]).double(),
                    row_floor=torch.full((2, n), 1e-20, dtype=torch.float64),
                )
                for special, rows in ((False, centred), (True, centred), (True, every)):
                    agree(gpu.pivoted_qr(rows, special), native.pivoted_qr(rows, special), x, name, 64 * eps)
    nan = torch.full((2, 5, 3), torch.nan)
    nan[1] = torch.randn(5, 3, generator=random)
    rows = Rows(nan, Dense((2,), 5), Precision(1e-7, 1e-6))
    with mf.unchecked():
        found = gpu.pivoted_qr(rows, False)
    assert found.pose(torch.float32)[0].isnan().all()
    assert found.pose(torch.float32)[1].isfinite().all()
    assert not found.determined[0].any()


def agree(mine: PivotedQR, theirs: PivotedQR, x: torch.Tensor, name: str, bound: float) -> None:
    size, known = x.double().abs().max(), theirs.determined
    assert torch.equal(mine.determined, known), name
    assert torch.equal(mine.positions * known, theirs.positions * known), name
    nowhere = torch.zeros_like(known[..., 0])
    ties = [nowhere if found.tied is None else found.tied for found in (mine, theirs)]
    assert torch.equal(*ties), name
    pose, expected = (found.pose(torch.float64) for found in (mine, theirs))
    assert (pose - expected).abs().max() <= bound * size, name
    across = (mine.basis - theirs.basis) * known.unsqueeze(-2)
    least = (theirs.peaks / theirs.peaks[..., :1].clamp_min(1e-300)).sqrt()[known]
    assert across.abs().max() <= bound / least.min() if len(least) else True, name


if __name__ == "__main__":
    main()
