"""A figure of total energies along paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from minframe_lab.experiments.dynamics.molecules import KINDS, NAMES
from minframe_lab.experiments.dynamics.table import LABELS, turned
from minframe_lab.experiments.plots import STYLE

COLOURS = {"minimal": "#d62728", "pca": "#ff7f0e", "smooth": "#1f77b4", "potential": "#9aa0a6"}
THRESHOLD = 0.01  # eV, up to which the scale is linear


def energies(records: list[dict[str, Any]], path: Path) -> None:
    """The total energy of each molecule over time, less where it starts, in hard, PCA and smooth frames."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 4.8), layout="constrained")
        for axes, name in zip(np.ravel(figure.subplots(2, 2)), NAMES, strict=True):
            for method, colour in COLOURS.items():
                for r in _longest(records, method):
                    energy = np.array(r["measured"]["energy"][name], dtype=float)
                    time = np.linspace(0, r["measured"]["paths"][name]["picoseconds"], len(energy))
                    style = "--" if method == "potential" else "-"
                    axes.plot(time, energy - energy[0], style, color=colour, linewidth=0.9, label=LABELS[method])
            axes.set_yscale("symlog", linthresh=THRESHOLD)
            axes.set(title=f"{name} ({KINDS[name]})", xlabel="ps", ylabel="total energy, eV")
        axes.legend(fontsize=7)
        figure.savefig(path, dpi=100)


def _longest(records: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    """Of the runs of a method the one with the longest path, begun in random rotations, the gentlest, the first seed.

    In this order, if there are such; none without a run.
    """
    found = [r["configuration"] | {"run": r} for r in records if r["configuration"]["method"] == method]
    found.sort(key=lambda c: (-c["picoseconds"], not turned(c), c["sharpness"], c["seed"]))
    return [c["run"] for c in found[:1]]
