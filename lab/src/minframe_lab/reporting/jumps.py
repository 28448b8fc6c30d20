"""Pictures of where a frame of one element jumps, along a path: the margin, the canonical coordinates, an energy."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

import minframe as mf
from minframe_lab.cases import OURS, SMOOTH
from minframe_lab.palette import COLOURS, colour
from minframe_lab.paths import (
    FINE,
    FINEST,
    GROUP,
    POINTS,
    STEPS,
    energy,
    largest_change,
    mean_poses,
    path_between_clouds,
)
from minframe_lab.reporting.axes import SOFT, Scale, rule_x, rule_y
from minframe_lab.reporting.html import code, figure, panels
from minframe_lab.reporting.svg import Drawing

JUMP = 50.0  # a step of the pose that is so many times the median one
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 440.0, 50.0, 428.0, 12.0, 190.0


def find_jumps(poses: Tensor) -> list[int]:
    """Steps at which the pose changes by far more than it usually does."""
    step = torch.linalg.vector_norm((poses[1:] - poses[:-1]).flatten(1), dim=1)
    return (step > JUMP * step.median()).nonzero().flatten().tolist()


def jump_figure() -> str:
    """Margin and canonical coordinates between two clouds."""
    group, clouds = GROUP, path_between_clouds()
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


def energy_figure() -> str:
    """The energy of one network along the same path, in frames of one element and in smooth frames."""
    clouds = path_between_clouds()
    jumps = find_jumps(mf.canonicalize(clouds, GROUP)[0])
    hard, smooth = energy(mf.frames.Minimal()), energy(mf.frames.Smooth())
    with torch.no_grad():
        curves = [model(clouds).unsqueeze(-1) for model in (hard, smooth)]
    cards = [
        (OURS, _curves(curves[0], jumps, f"energy along the path, {OURS}", low=0.0)),
        (SMOOTH, _curves(curves[1], [], f"energy along the path, {SMOOTH}", low=0.0)),
    ]
    coarse, fine = ([largest_change(m, steps) for m in (hard, smooth)] for steps in (FINE, FINEST))
    caption = (
        "The energy that one network has on these clouds. In frames of one element it jumps with the pose: its "
        f"largest change over a step of 1/{FINE - 1} is {coarse[0]:.2g}, and {fine[0]:.2g} over an eighth of it. In "
        f"smooth frames ({code('mf.frames.Smooth()')}), {mean_poses(smooth):.2f} poses on average, it is "
        f"{coarse[1]:.2g} and {fine[1]:.2g}: there is a force everywhere. Both are exactly invariant."
    )
    return figure(panels(cards, "pair"), caption, "An energy in hard and in smooth frames")


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
    tones = (colour(OURS), COLOURS[3], COLOURS[2], COLOURS[1], COLOURS[4], COLOURS[0])
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
