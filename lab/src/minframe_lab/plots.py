"""Results as figures. Each function takes rows as in the files and returns a matplotlib figure."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minframe_lab.cases import METHODS, OURS
from minframe_lab.palette import colour, marker

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it reports that it looks for fonts

Rows = Sequence[dict[str, Any]]
FLOOR = 1e-17  # where an error of zero is drawn
STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110}


def look(method: str) -> dict[str, Any]:
    """Colour and marker of a method, the same in all figures."""
    return {"color": colour(method), "marker": marker(method), "label": method}


def error_figure(rows: Rows, dtype: str) -> Figure:
    """The paper's appendix: error by backbone and method on a log axis, one panel per group and kind of cloud."""
    rows = [row for row in rows if row["paper"] and row["dtype"] == dtype]
    panels = list(dict.fromkeys((row["group"], row["data"]) for row in rows))
    with mpl.rc_context(STYLE):
        figure, axes = _grid(len(panels))
        for axis, (group, data) in zip(axes, panels, strict=False):
            found = [row for row in rows if (row["group"], row["data"]) == (group, data)]
            names = list(dict.fromkeys(row["backbone"] for row in found))
            _points(axis, found, names, "backbone")
            axis.set_title(f"{group}\n{data}")
        figure.suptitle(f"Relative equivariance error, {dtype}: the worst of the samples; dashed: the bound")
        _legend(figure, axes)
    return figure


def degenerate_figure(rows: Rows, dtype: str) -> Figure:
    """Error by degenerate cloud and method, the worst over backbones and groups.

    Filled markers: over the groups that all methods serve. Hollow ones: over all others.
    """
    rows = [row for row in rows if not row["paper"] and row["dtype"] == dtype]
    names = list(dict.fromkeys(row["cloud"] for row in rows))
    common = {row["group"] for row in rows if row["method"] == "FA"}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 1.8 + 0.26 * len(names)), layout="constrained")
        axis = figure.add_subplot()
        labelled: set[str] = set()
        for i, method in enumerate(METHODS):
            for filled in (True, False):
                own = [row for row in rows if row["method"] == method and (row["group"] in common) == filled]
                worst = {name: max(_drawn(r["worst"]) for r in own if r["cloud"] == name) for name in names if any(r["cloud"] == name for r in own)}  # fmt: skip # noqa: E501
                if worst:
                    height = [names.index(name) + (i - 2.5) * 0.1 for name in worst]
                    style = look(method) | ({} if filled else {"markerfacecolor": "none"})
                    if method in labelled:
                        style["label"] = None
                    labelled.add(method)
                    axis.plot(list(worst.values()), height, linestyle="", markersize=5, **style)
        for bound in {row["bound"] for row in rows}:
            axis.axvline(bound, color="black", linestyle="--", linewidth=0.8)
        axis.set(xscale="log", yticks=range(len(names)), yticklabels=names, xlabel="relative equivariance error")
        axis.set_xlim(FLOOR / 3, 1e3)
        axis.invert_yaxis()
        axis.grid(axis="both", alpha=0.25)
        served = ", ".join(sorted(common))
        axis.set_title(f"Degenerate clouds, {dtype}: the worst\nfilled: over {served}; hollow: over all other groups")
        _legend(figure, [axis])
    return figure


def cost_figure(rows: Rows) -> Figure:
    """Time over that of the plain backbone, with quartiles, one panel per sweep."""
    sweeps = list(dict.fromkeys(row["sweep"] for row in rows))
    with mpl.rc_context(STYLE):
        figure, axes = _grid(len(sweeps), columns=min(3, max(1, len(sweeps))), width=4.2, height=3.4)
        for axis, sweep in zip(axes, sweeps, strict=False):
            found = [row for row in rows if row["sweep"] == sweep]
            cases = list(dict.fromkeys(row["case"] for row in found))
            numeric = all(row["value"] is not None for row in found)
            for method in dict.fromkeys(row["method"] for row in found):
                own = [row for row in found if row["method"] == method]
                x = [row["value"] if numeric else cases.index(row["case"]) for row in own]
                middle = [row["ratio"] for row in own]
                spread = [[row["ratio"] - row["low"] for row in own], [row["high"] - row["ratio"] for row in own]]
                line = "-" if numeric else ""
                axis.errorbar(
                    x, middle, yerr=spread, linestyle=line, markersize=5, capsize=2, linewidth=1, **look(method)
                )
            axis.set(yscale="log", title=sweep)
            if numeric:
                axis.set(xscale="log", xlabel=found[0]["variable"])
                values = sorted({row["value"] for row in found})
                if values[-1] <= 1e5 * values[0]:
                    axis.set_xticks(values, [f"{v:g}" for v in values])
                axis.minorticks_off()
            else:
                axis.set_xticks(range(len(cases)), cases, rotation=25, ha="right")
            axis.axhline(1, color="black", linestyle="--", linewidth=0.8)
            axis.grid(axis="y", alpha=0.25)
        axes[0].set_ylabel("time over the plain backbone")
        _legend(figure, axes)
    return figure


def _drawn(error: float) -> float:
    return 10.0 if math.isnan(error) else max(error, FLOOR)


def _grid(count: int, columns: int = 4, width: float = 3.1, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    lines = max(1, math.ceil(count / columns))
    figure = Figure(figsize=(width * columns, height * lines + 0.8), layout="constrained")
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes


def _points(axis: Axes, rows: Rows, names: Sequence[str], key: str) -> None:
    for i, method in enumerate(METHODS):
        own = [row for row in rows if row["method"] == method]
        if not own:
            continue
        x = [names.index(row[key]) + (i - 2.5) * 0.1 for row in own]
        axis.plot(
            x, [_drawn(row["worst"]) for row in own], linestyle="", markersize=5 + (method == OURS), **look(method)
        )
    for bound in {row["bound"] for row in rows}:
        axis.axhline(bound, color="black", linestyle="--", linewidth=0.8)
    axis.set_yscale("log")
    axis.set_ylim(FLOOR / 3, 1e3)
    axis.set_yticks([1e-16, 1e-12, 1e-8, 1e-4, 1])
    axis.minorticks_off()
    axis.set_xticks(range(len(names)), names, rotation=35, ha="right")
    axis.grid(axis="y", alpha=0.25)


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One for all panels: every method that is in any of them."""
    found: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    order = [m for m in METHODS if m in found] + [label for label in found if label not in METHODS]
    figure.legend(
        [found[m] for m in order], order, loc="outside lower center", ncols=min(6, max(1, len(order))), frameon=False
    )
