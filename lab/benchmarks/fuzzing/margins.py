"""The law of margins: where the canonical pose jumps, ``frame.margin`` is rounding; reordering does not change it.

Along a path between two clouds an invariant of the canonical pose is followed in small steps. Where it moves most, the
interval is halved until it is as short as rounding, always towards the half with the larger difference. If the answer
still differs, it jumps there. A path that leads to where there is no such frame (smooth ones) says nothing, and neither
does a difference that one unit of rounding makes of a steep answer: ``STEEP`` times the condition number of the cloud.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fuzzing.condition import condition
from fuzzing.trial import EPS, CrashError, Key, Trial

STEPS = 24  # along a path, before it is bisected
HALVINGS = 50
JUMP = 1e-6  # relative; a smooth answer moves by rounding over one unit of rounding
STEEP = 100.0  # units of rounding
MAX_MARGIN = 1e-9


@dataclass
class Margins:
    paths: int
    jumps: int = 0
    above: int = 0  # jumps at which the margin is more than MAX_MARGIN
    worst: float = 0.0  # the largest margin at a jump
    size: float = 0.0  # of the jump there
    changed: int = 0  # samples whose margin a reordering changes
    change: float = 0.0
    infinite: int = 0
    crashes: list[str] = field(default_factory=list)


def invariant(trial: Trial, x: Tensor) -> Tensor:
    return trial.answer(x).outputs["inv"].flatten(1)


def bisect(trial: Trial, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Two clouds of each path, one unit of rounding apart, and the relative distance of their answers ``(b,)``."""

    def at(t: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.lerp(start, end, t[:, None, None].to(start.dtype))
        return x, invariant(trial, x)

    def gap(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).norm(dim=1) / b.norm(dim=1).clamp_min(1e-300)

    b = len(start)
    low, high, jump = torch.zeros(b), torch.ones(b), torch.full((b,), -1.0)
    low, high, jump = low.double(), high.double(), jump.double()
    _, before = at(low)
    low_y, high_y = before, before
    for k in range(1, STEPS + 1):
        t = torch.full((b,), k / STEPS, dtype=torch.float64)
        _, after = at(t)
        size = gap(after, before)
        better = size > jump
        jump = torch.where(better, size, jump)
        low, high = torch.where(better, (k - 1) / STEPS, low), torch.where(better, t, high)
        low_y, high_y = (torch.where(better[:, None], new, old) for new, old in ((before, low_y), (after, high_y)))
        before = after
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        _, y = at(middle)
        upper = gap(high_y, y) > gap(y, low_y)
        low, high = torch.where(upper, middle, low), torch.where(upper, high, middle)
        low_y = torch.where(upper[:, None], y, low_y)
        high_y = torch.where(upper[:, None], high_y, y)
    return at(low)[0], at(high)[0], gap(high_y, low_y)


def margins(key: Key) -> Margins:
    """Of a batch of paths between clouds of one structure and level; and of the ends, reordered."""
    trial = Trial(key)
    pairs = len(trial.x) // 2
    found = Margins(pairs)
    start, end = trial.x[:pairs], trial.x[pairs : 2 * pairs]
    try:
        low, high, size = bisect(trial, start, end)
        least = (STEEP * EPS[key.dtype] * torch.maximum(condition(trial, low), condition(trial, high))).clamp_min(JUMP)
        absent = trial.answer(low).absent | trial.answer(high).absent
        jumped = ((size > least) & ~absent).nonzero()[:, 0]
        if len(jumped):
            margin = torch.maximum(trial.margin(low[jumped]), trial.margin(high[jumped]))
            found.jumps, found.above = len(jumped), int((margin > MAX_MARGIN).sum())
            top = int(margin.argmax())
            found.worst, found.size = float(margin[top]), float(size[jumped][top])
        if trial.chosen.reorders:
            here = trial.margin(trial.x)
            order = torch.rand(trial.x.shape[:2], generator=trial.generator).argsort(-1)
            there = trial.margin(trial.x.gather(1, order[..., None].expand(trial.x.shape)))
            change = torch.where(here == there, 0.0, (here - there).abs())
            found.changed, found.change = int((change > MAX_MARGIN).sum()), float(change.max())
    except (CrashError, ValueError) as crash:
        found.crashes.append(str(crash).splitlines()[0])
    return found
