"""An energy along a path of clouds, frame by frame: where it jumps, how steep it is, and how many poses that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import minframe as mf
from minframe_lab.backbones import MLP, Source
from minframe_lab.cases import OURS, SMOOTH

STEPS, POINTS = 601, 6  # of a picture
FINE, FINEST = 4801, 38401  # steps that tell a jump from a slope
SEED = 8
GROUP = mf.O(3)
SHARPNESS = (8.0, 16.0, 32.0, 40.0, 64.0)

Energy = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class PathRow:
    """One method along the path.

    Attributes:
        method: its name.
        poses: mean number of poses.
        change: the largest change of the energy over a step, with FINE steps.
        finer: the same with FINEST, an eighth as long: an eighth of it if there is no jump, else as much.
        slope: the largest gradient of the energy, over that of the plain backbone on the same path.
    """

    method: str
    poses: float
    change: float
    finer: float
    slope: float


def path_between_clouds(steps: int = STEPS) -> Tensor:
    """Clouds ``(steps, POINTS, 3)`` on the straight line from one to another."""
    generator = torch.Generator().manual_seed(SEED)
    start, end = (torch.randn(POINTS, 3, dtype=torch.float64, generator=generator) for _ in range(2))
    share = torch.linspace(0, 1, steps, dtype=torch.float64)[:, None, None]
    return (1 - share) * start + share * end


def backbone() -> Energy:
    """A network with no symmetry but that of rows, and one positive number for a cloud."""
    net = MLP(Source(torch.Generator().manual_seed(SEED), torch.float64), 3)
    return lambda x: net(x).square().mean((-1, -2))


def energy(frames: mf.frames.Method) -> mf.Invariant:
    """That network in frames of a kind."""
    return mf.Invariant(backbone(), GROUP, frames=frames).eval()


def largest_change(model: Energy, steps: int) -> float:
    """Of the energy over a step of the path."""
    with torch.no_grad():
        e = model(path_between_clouds(steps))
    return float((e[1:] - e[:-1]).abs().max())


def steepest(model: Energy) -> float:
    """The largest gradient on the path."""
    x = path_between_clouds(FINE).requires_grad_()
    return float(torch.autograd.grad(model(x).sum(), x)[0].flatten(1).norm(dim=1).max())


def path_rows() -> list[PathRow]:
    """The plain backbone, frames of one element, and smooth frames over a range of sharpness."""
    plain = backbone()
    unit = steepest(plain)
    smooth = {f"{SMOOTH}, sharpness {a:g}": mf.frames.Smooth(a) for a in SHARPNESS}
    models: dict[str, Energy] = {"plain": plain, OURS: energy(mf.frames.Minimal())}
    models |= {name: energy(frames) for name, frames in smooth.items()}
    rows = []
    for name, model in models.items():
        poses = mean_poses(model) if name in smooth and isinstance(model, mf.Invariant) else 1.0
        change, finer = (largest_change(model, steps) for steps in (FINE, FINEST))
        rows.append(PathRow(name, poses, change, finer, steepest(model) / unit))
    return rows


def mean_poses(model: mf.Invariant) -> float:
    """Of a model in smooth frames, along the path."""
    return float(torch.tensor(model.frame(path_between_clouds()).size).double().mean())
