"""The Triton kernels, run by their interpreter on the CPU, beside the loops in PyTorch.

Triton reads ``TRITON_INTERPRET`` when it is imported, so this file runs itself in a process of its own for each part.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.degenerate import DEGENERATIONS, particles, polytopes
from minframe.layout import Dense
from minframe.linalg import gpu, loops, native, qr, soft, split
from minframe.linalg.eigen import massless
from minframe.linalg.rows import PivotedQR, Precision, Rows
from minframe.linalg.soft import Rule

PARTS = ("decomposition", "momentum", "weights", "frames", "launches")
NOISE = (1e-3, 1e-6, 1e-9, 1e-12)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is an extra: pip install minframe[gpu]")
@pytest.mark.parametrize("part", PARTS)
def test_kernels_agree_with_pytorch(part: str) -> None:
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(Path(mf.__file__).parents[1]), str(tests), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path}
    run = subprocess.run([sys.executable, __file__, part], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]


def test_they_are_switched_on_by_hand() -> None:
    assert gpu.kernels is None
    assert (
        "triton"
        not in subprocess.run(
            [sys.executable, "-c", "import minframe, sys; print(*sys.modules)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    )


def main(part: str) -> None:
    random = torch.Generator().manual_seed(0)
    with gpu.use_kernel():
        assert gpu.kernels is not None
        assert gpu.kernels.interpreted
        globals()[part](random)


def families(d: int, n: int, random: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """Two clouds ``(2, n, d)`` of each family, in float64, symmetric ones with noise too."""
    for name, degenerate in DEGENERATIONS.items():
        yield name, degenerate(torch.randn(2, n, d, generator=random, dtype=torch.float64))
    for name, solid in polytopes(min(d, 4)).items():
        x = torch.nn.functional.pad(solid, (0, d - solid.shape[1]))
        yield name, x.expand(2, -1, -1)
        for noise in NOISE:
            yield f"{name}, noise {noise}", x + noise * torch.randn(2, *x.shape, generator=random, dtype=x.dtype)
    line = DEGENERATIONS["collinear"](torch.randn(2, n, d, generator=random, dtype=torch.float64))
    for noise in NOISE:
        yield (
            f"collinear, noise {noise}",
            line + noise * torch.randn(line.shape, generator=random, dtype=torch.float64),
        )


def decomposition(random: torch.Generator) -> None:
    """Rows chosen, ranks, ties, poses and bases, with every optional input; and means."""
    for name, x in families(3, 6, random):
        check(x, torch.float64, random, name)
    for d in (1, 2, 5, 8):
        for name, degenerate in DEGENERATIONS.items():
            check(degenerate(torch.randn(2, 6, d, generator=random, dtype=torch.float64)), torch.float64, random, name)
    for name, degenerate in DEGENERATIONS.items():
        check(degenerate(torch.randn(2, 130, 3, generator=random, dtype=torch.float64)), torch.float32, random, name)
    nan = torch.full((2, 5, 3), torch.nan)
    nan[1] = torch.randn(5, 3, generator=random)
    rows = Rows(nan, Dense((2,), 5), Precision(1e-7, 1e-6))
    with mf.unchecked():
        found = gpu.pivoted_qr(rows, False)
    assert found.pose(torch.float32)[0].isnan().all()
    assert found.pose(torch.float32)[1].isfinite().all()
    assert not found.determined[0].any()


def check(x: Tensor, dtype: torch.dtype, random: torch.Generator, name: str) -> None:
    eps, n = torch.finfo(dtype).eps, x.shape[1]
    x = x.to(dtype)
    mask = torch.rand(2, n, generator=random) < 0.9
    mask[:, 0] = True
    precision = Precision(eps, max(eps**0.75, 8 * eps))
    with_floor = replace(precision, floor=torch.tensor([[1e-9], [0.0]], dtype=torch.float64))
    for layout in (Dense((2,), n), Dense((2,), n, mask)):
        middle = gpu.mean(x, layout)
        assert (middle - qr.mean(x, layout)).abs().max() <= 4e-16 * x.double().abs().max(), name
    centred = Rows(x, Dense((2,), n), precision, qr.mean(x, Dense((2,), n)), longest=True)
    every = Rows(
        x * mask.unsqueeze(-1),
        Dense((2,), n, mask),
        with_floor,
        longest=torch.tensor([True, False]),
        short=torch.tensor([3.3, 3.3]).double(),
        row_floor=torch.full((2, n), 1e-20, dtype=torch.float64),
    )
    first = replace(centred, longest=False)
    for special, rows in ((False, centred), (True, first), (True, every)):
        with native.disabled():
            expected = qr.pivoted_qr(replace_short(rows), special)
        agree(gpu.pivoted_qr(rows, special), expected, x, name, 64 * eps)


def replace_short(rows: Rows) -> Rows:
    """``short`` as the PyTorch path has it, a sample tensor."""
    return rows if rows.short is None else replace(rows, short=rows.short.unsqueeze(-1))


def agree(mine: PivotedQR, theirs: PivotedQR, x: Tensor, name: str, bound: float) -> None:
    size = x.double().abs().max()
    nowhere = torch.zeros_like(theirs.determined[..., 0])
    ties = [nowhere if found.tied is None else found.tied for found in (mine, theirs)]
    assert torch.equal(*ties), name
    # Of rows that tie any may be taken, one that is left with rounding too: what else is decided does not count then.
    sure = ~ties[0].unsqueeze(-1)
    known = theirs.determined & sure
    assert torch.equal(mine.determined & sure, known), name
    assert torch.equal(mine.positions * known, theirs.positions * known), name
    pose, expected = (found.pose(torch.float64) for found in (mine, theirs))
    assert ((pose - expected) * sure.unsqueeze(-1)).abs().max() <= bound * size, name
    across = (mine.basis - theirs.basis) * known.unsqueeze(-2)
    least = (theirs.peaks / theirs.peaks[..., :1].clamp_min(1e-300)).sqrt()[known]
    assert across.abs().max() <= bound / least.min() if len(least) else True, name


def momentum(random: torch.Generator) -> None:
    """The rest frame of particles, boosted, of clouds that have none, and of both metrics."""
    group = mf.OrthochronousLorentz()
    for name, cloud in particles().items():
        g = group.random(3, dtype=torch.float64, generator=random, max_rapidity=3.0)
        for x in (group.act(g, cloud.expand(3, -1, -1)), *noisy(cloud, random)):
            for p, q in ((1, 3), (3, 1)):
                rows = x if p == 1 else x.roll(-1, -1)
                for eps in (2.0**-52, 2.0**-23):
                    same_rest_frame(rows, p, q, eps, name)
    for d in (2, 8):
        x = torch.randn(4, 9, d, generator=random, dtype=torch.float64)
        x[:2, :, 0] = 1.1 * torch.linalg.vector_norm(x[:2, :, 1:], dim=-1)
        same_rest_frame(x, 1, d - 1, 2.0**-52, f"{d} dimensions")


def noisy(cloud: Tensor, random: torch.Generator) -> Iterator[Tensor]:
    for noise in NOISE:
        yield cloud + noise * torch.randn(2, *cloud.shape, generator=random, dtype=cloud.dtype)


def same_rest_frame(x: Tensor, p: int, q: int, eps: float, name: str) -> None:
    floor = torch.full((len(x), 1), 1e-14, dtype=torch.float64)
    layout, precision = Dense((len(x),), x.shape[1]), Precision(eps, eps**0.75, floor)
    with gpu.use_kernel(False):
        expected = split.rest_frame(x, layout, precision, p, q)
    time = 0 if p == 1 else p
    matrix, taken, _ = gpu.rest_frame(x, floor * x.shape[1], time, massless(eps), split.MAX_REST_RATIO)
    assert torch.equal(taken, expected.momentum), name
    # The mass is known to ``eps gamma^2`` of itself, so that the boost, of size gamma, is to ``eps gamma^3``.
    off = (matrix - expected.matrix).abs().amax((-2, -1)) / expected.matrix.abs().amax((-2, -1)) ** 3
    assert (off * taken).max() <= 64 * 2.0**-52, name


def weights(random: torch.Generator) -> None:
    """The weights of the rows of smooth frames."""
    for d, sharpness in ((1, 40.0), (3, 8.0), (3, 40.0), (8, 40.0)):
        for name, x in families(d, 9, random):
            mine = soft.choice(x, None, None, Rule(sharpness, False))
            with gpu.use_kernel(False):
                theirs = soft.choice(x, None, None, Rule(sharpness, False))
            assert (mine[0] - theirs[0]).abs().max() <= 1e-12, name
            assert (mine[1] - theirs[1]).abs().max() <= 1e-13 * x.square().sum(-1).max(), name


def frames(random: torch.Generator) -> None:
    """Canonical poses and elements of whole frames, hard and smooth."""
    for group in (mf.SE(3), mf.E(3)):
        for name, x in families(3, 6, random):
            for frames_ in (mf.frames.Minimal(), mf.frames.Smooth()):
                mine = shown(x, group, frames_)
                with gpu.use_kernel(False):
                    theirs = shown(x, group, frames_)
                assert mine.shape == theirs.shape, (name, frames_)
                assert (mine - theirs).abs().max() <= 1e-12 * x.abs().max(), (name, frames_)
    for group in (mf.Lorentz(), mf.OrthochronousLorentz()):
        for name, cloud in particles().items():
            mine = shown(cloud.unsqueeze(0), group, mf.frames.Minimal())
            with gpu.use_kernel(False):
                theirs = shown(cloud.unsqueeze(0), group, mf.frames.Minimal())
            assert (mine - theirs).abs().max() <= 1e-9 * theirs.abs().max(), name


def shown(x: Tensor, group: mf.Group, frames_: Any) -> Tensor:
    return mf.canonicalize(x, group, frames=frames_)[0]


def launches(random: torch.Generator) -> None:
    """A frame of E(3) with its pose takes at most 5 launches and no wait; kernels of PyTorch count too."""
    from operations import counted

    assert gpu.kernels is not None
    count: Counter[str] = Counter()
    gpu.kernels = gpu.Kernels(
        **{name: launching(name, kernel, count) for name, kernel in gpu.kernels._asdict().items() if callable_(kernel)},
        interpreted=True,
    )
    gpu.is_plain = lambda x: True  # type: ignore[assignment]  # the counter is a mode of dispatch
    assert loops.loops_for(torch.zeros(1, 1, 3), Dense((1,), 1)) is gpu
    for dtype in (torch.float32, torch.float64):
        for group in (mf.O(3), mf.SO(3), mf.E(3), mf.SE(3), mf.E(8)):
            x = torch.randn(4, 20, group.d, generator=random, dtype=dtype)  # type: ignore[attr-defined]
            with mf.unchecked():
                count.clear()
                run = counted(lambda: mf.canonicalize(x, group))  # noqa: B023
            assert count["decompose"] == 1, count
            assert not run.waits, run.waits
            total = count.total() + run.kernels.total()
            assert total <= 5, (group, count, run.kernels)


def callable_(kernel: Any) -> bool:
    return not isinstance(kernel, bool)


class launching:  # noqa: N801 (stands for a kernel)
    """A kernel that counts its launches."""

    def __init__(self, name: str, kernel: Any, count: Counter[str]) -> None:
        self.name, self.kernel, self.count = name, kernel, count

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **options: Any) -> None:
            from torch.utils._python_dispatch import _disable_current_modes

            self.count[self.name] += 1
            with _disable_current_modes():  # the interpreter copies
                self.kernel[grid](*args, **options)

        return launch


if __name__ == "__main__":
    main(sys.argv[1])
