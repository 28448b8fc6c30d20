"""A picture of where a frame of one element jumps: the margin and the canonical coordinates along a path."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

import minframe as mf
from minframe_lab.palette import COLOURS
from minframe_lab.reporting.axes import SOFT, Scale, rule_x, rule_y
from minframe_lab.reporting.html import code, figure, panels
from minframe_lab.reporting.svg import Drawing

STEPS, POINTS = 601, 6
SEED = 8
JUMP = 50.0  # a step of the pose that is so many times the median one
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 440.0, 50.0, 428.0, 12.0, 190.0


def path_between_clouds() -> Tensor:
    """Clouds ``(STEPS, POINTS, 3)`` on the straight line from one to another."""
    generator = torch.Generator().manual_seed(SEED)
    start, end = (torch.randn(POINTS, 3, dtype=torch.float64, generator=generator) for _ in range(2))
    share = torch.linspace(0, 1, STEPS, dtype=torch.float64)[:, None, None]
    return (1 - share) * start + share * end


def find_jumps(poses: Tensor) -> list[int]:
    """Steps at which the pose changes by far more than it usually does."""
    step = torch.linalg.vector_norm((poses[1:] - poses[:-1]).flatten(1), dim=1)
    return (step > JUMP * step.median()).nonzero().flatten().tolist()


def jump_figure() -> str:
    """Margin and canonical coordinates between two clouds."""
    group = mf.O(3)
    clouds = path_between_clouds()
    poses, frame = mf.canonicalize(clouds, group)
    margin, jumps = frame.margin, find_jumps(poses)
    cards = [
        ("frame.margin", _curves(margin.unsqueeze(-1), jumps, "margin along the path", low=0.0)),
        ("canonical coordinates of the points", _curves(poses.flatten(1), jumps, "canonical coordinates", None)),
    ]
    near = max((float(margin[i : i + 2].min()) for i in jumps), default=0.0)
    caption = (
        f"{POINTS} points move in a straight line from one random cloud to another. Their canonical pose under "
        f"{code(str(group))} jumps {len(jumps)} times (dashed); there the margin, which is {float(margin.max()):.2f} "
        f"at its largest, is at most {near:.4f} at the nearest of {STEPS} steps. No canonical pose of O(d) or S_n is "
        "continuous everywhere. The margin tells how near a decision is that could make it jump: it is zero at every "
        "jump, and may be small without one."
    )
    return figure(panels(cards, "pair"), caption, "Where a frame of one element jumps")


def _curves(values: Tensor, jumps: list[int], label: str, low: float | None) -> str:
    """Each column as a curve, cut where the pose jumps."""
    drawing = Drawing(WIDTH, 228, label)
    bottom = float(values.min()) if low is None else low
    y = Scale(bottom, 1.06 * float(values.max()), BOTTOM, TOP)
    x = Scale(0, STEPS - 1, LEFT, RIGHT)
    size = float(values.max()) - bottom
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0) if size / s <= 6 or s == 2.0)
    first = -int(-bottom // step)
    ticks = [(k * step, f"{k * step:g}") for k in range(first, int(y.high // step) + 1)]
    rule_y(drawing, y, ticks, LEFT, RIGHT)
    rule_x(drawing, x, [(q * (STEPS - 1), f"{q:g}") for q in (0, 0.25, 0.5, 0.75, 1)], TOP, BOTTOM)
    drawing.text(((LEFT + RIGHT) / 2, BOTTOM + 33), "position on the path", text_anchor="middle", class_="axis")
    for i in jumps:
        drawing.line((x(i + 0.5), TOP), (x(i + 0.5), BOTTOM), stroke=SOFT, stroke_dasharray="4 3")
    tones = (COLOURS[-1], COLOURS[3], COLOURS[2], COLOURS[1], COLOURS[4], COLOURS[0])
    edges = [0, *(i + 1 for i in jumps), len(values)]
    for k, curve in enumerate(values.mT.tolist()):
        if max(curve) - min(curve) < 1e-9:
            continue  # a coordinate that is always zero
        tone = tones[k // 3 % len(tones)] if values.shape[1] > 1 else tones[0]
        for a, b in pairwise(edges):
            points = [(x(i), y(curve[i])) for i in range(a, b)]
            drawing.polyline(thinned(points), stroke=tone, stroke_width=2 if values.shape[1] == 1 else 1.2)
    return drawing.render()


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Every other point, and both ends."""
    return points if len(points) < 8 else [*points[:-1:2], points[-1]]
