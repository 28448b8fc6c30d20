"""Figures of a run: how it learned, and what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

STYLE: Any = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
GIVEN, TRUE, FOUND = "#9aa0a6", "#1f77b4", "#d62728"


def learning_curve(history: list[dict[str, float]], score: str, reference: float | None, path: Path) -> None:
    """Validation score over epochs, with the paper's test result as a line."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.8, 3.2), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([r["epoch"] for r in history], [r[score] for r in history], color=TRUE, label="validation")
        if reference is not None:
            axes.axhline(reference, color=GIVEN, linestyle="--", label=f"paper, test: {reference:g}")
        axes.set(xlabel="epoch", ylabel=score.replace("_", " "), yscale="log")
        axes.legend()
        figure.savefig(path, dpi=110)


def scatter(predicted: Tensor, true: Tensor, what: str, path: Path) -> None:
    """Predicted against true numbers."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        low, high = float(true.min()), float(true.max())
        axes.plot([low, high], [low, high], color=GIVEN, linewidth=1)
        axes.plot(true.numpy(), predicted.numpy(), ".", markersize=1.5, alpha=0.4, color=TRUE)
        axes.set(xlabel=f"true {what}", ylabel=f"predicted {what}", aspect="equal")
        figure.savefig(path, dpi=110)


def trajectories(start: Tensor, true: Tensor, predicted: Tensor, charge: Tensor, path: Path) -> None:
    """Particles ``(4, n, 3)`` seen along the third axis: where they start, get to, and are predicted to get to."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 2.2), layout="constrained")
        for axes, x, y, z, q in zip(np.ravel(figure.subplots(1, 4)), start, true, predicted, charge, strict=True):
            axes.set(aspect="equal", xticks=[], yticks=[])
            for a, b, c, sign in zip(x, y, z, q, strict=True):
                axes.plot([a[0], b[0]], [a[1], b[1]], color=GIVEN, linewidth=0.8)
                marker: dict[str, Any] = {"marker": "$+$" if sign > 0 else "$-$", "linestyle": ""}
                axes.plot(a[0], a[1], color=GIVEN, **marker)
                axes.plot(b[0], b[1], color=TRUE, **marker)
                axes.plot(c[0], c[1], "o", fillstyle="none", color=FOUND, markersize=8)
        figure.suptitle("given (grey), true (blue) and predicted (circles) positions", fontsize=9)
        figure.savefig(path, dpi=110)
