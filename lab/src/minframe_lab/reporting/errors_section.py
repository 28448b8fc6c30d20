"""The part of the page on ``minframe verify``: who is equivariant, and where."""

from __future__ import annotations

import math
from html import escape
from itertools import groupby
from typing import Any

from minframe_lab.cases import OURS
from minframe_lab.reporting.charts import Rows, error_panel, ordered
from minframe_lab.reporting.html import Cell, code, details, legend, panels, paragraph, section, table
from minframe_lab.reporting.sources import Run
from minframe_lab.table import short, worst

COMPARED = ("FA", "stochastic FA", OURS)


def verify_section(run: Run) -> str:
    """Tables and charts; or how to get them."""
    title = "Is it equivariant?"
    if not run.rows:
        return section("verify", title, [paragraph(f"Not measured yet: run {code('minframe verify')}.", "note")])
    rows = run.rows
    dtypes = sorted(dict.fromkeys(row["dtype"] for row in rows), reverse=True)
    methods = ordered({row["method"] for row in rows})
    samples = sorted({row["samples"] for row in rows if "samples" in row})
    intro = (
        "A model f is equivariant if f(g x) = g f(x) for every g of the group. Each number is the worst of the "
        "relative differences between the two sides"
        + (f", over {samples[0]} to {samples[-1]} random g for each cloud" if samples else "")
        + ". All methods meet the same clouds, backbones, weights and g. What stays within the bound is rounding."
    )
    parts = [paragraph(intro), _by_method(rows, dtypes, methods)]
    for i, dtype in enumerate(dtypes):
        found = [row for row in rows if row["dtype"] == dtype]
        parts.append(details(f"Every kind of cloud and graph, in {dtype}", _by_cloud(found), opened=i == 0))
    for i, dtype in enumerate(dtypes):
        found = [row for row in rows if row["dtype"] == dtype]
        paper = [row for row in found if row["paper"]]
        if paper:
            head = f"Every group and backbone of the paper's appendix, in {dtype}"
            parts.append(details(head, _charts(paper, methods), opened=i == 0))
        parts.append(details(f"Every group, in {dtype}: the worst, the frame and the passes", _by_group(found)))
    return section("verify", title, parts)


def sign(passed: bool) -> str:
    """Whether an error is within its bound."""
    return "✓" if passed else "✗"


def error_text(error: float) -> str:
    """In one or two digits."""
    if error == 0:
        return "0"
    return f"{error:.2g}" if 0.01 <= error < 100 else f"{error:.0e}"


def error_cell(row: dict[str, Any] | None) -> Cell:
    """An error, green within the bound, else the redder the further off it is."""
    if row is None:
        return Cell("")
    error, bound = row["worst"], row["bound"]
    if row["passed"]:
        return Cell(f"{error_text(error)} {sign(True)}", tint="#e3f4ec")
    far = 1.0 if math.isnan(error) else min(1.0, max(0.0, math.log10(error / bound) / 12))
    return Cell(
        f"{error_text(error)} {sign(False)}", "beyond", f"rgb(253,{round(236 - 52 * far)},{round(214 - 40 * far)})"
    )


def _name(method: str) -> Cell:
    return Cell(method, "ours" if method == OURS else "")


def _by_method(rows: Rows, dtypes: list[str], methods: list[str]) -> str:
    lines: list[list[str | Cell]] = []
    for method in methods:
        found = [row for row in rows if row["method"] == method]
        passes = sorted({row["passes"] for row in found})
        cells = [error_cell(worst(row for row in found if row["dtype"] == dtype)) for dtype in dtypes]
        within = sum(bool(row["passed"]) for row in found)
        many = f"{passes[0]} to {passes[-1]}" if len(passes) > 1 else str(passes[0])
        lines.append([_name(method), str(within), str(len(found)), *cells, many])
    head = ["method", "within the bound", "of rows", *(f"worst, {dtype}" for dtype in dtypes), "forward passes"]
    return table(head, lines, "All rows, by method")


def _by_cloud(rows: Rows) -> str:
    """Over the groups that all methods serve; ours also over the others."""
    common = {row["group"] for row in rows if row["method"] == "FA"}
    methods = ordered({row["method"] for row in rows})
    lines: list[list[str | Cell]] = []
    for cloud in dict.fromkeys(row["cloud"] for row in rows):
        found = [row for row in rows if row["cloud"] == cloud]
        served = [row for row in found if row["group"] in common]
        others = [row for row in found if row["group"] not in common and row["method"] == OURS]
        cells = [error_cell(worst(row for row in served if row["method"] == method)) for method in methods]
        lines.append([cloud, *cells, error_cell(worst(others))])
    groups = ", ".join(dict.fromkeys(row["group"] for row in rows if row["group"] in common))
    note = f"The worst over {escape(groups)}. Last column: {OURS} on the groups that frame averaging does not serve."
    return paragraph(note) + table(["cloud or graph", *methods, f"{OURS},\nother groups"], lines)


def _by_group(rows: Rows) -> str:
    methods = ordered({row["method"] for row in rows})
    lines: list[list[str | Cell]] = []
    for (group, data), panel in groupby(rows, key=lambda row: (row["group"], row["data"])):
        found = list(panel)
        cells = [error_cell(worst(row for row in found if row["method"] == method)) for method in methods]
        size = max((row.get("frame_size", 1) for row in found if row["method"] == OURS), default=1)
        lines.append([group, data, *cells, short(size).replace("inf", "∞"), passes_of(found)])
    names = " : ".join(COMPARED)
    return table(["group", "clouds", *methods, "frame size", f"passes\n{names}"], lines, text_columns=2)


def passes_of(rows: Rows) -> str:
    """Forward passes of frame averaging, of the stochastic one, and of ours, as far as they are there."""
    calls = {row["method"]: row["passes"] for row in rows}
    return " : ".join(str(calls[method]) for method in COMPARED if method in calls)


def _charts(rows: Rows, methods: list[str]) -> str:
    drawings = []
    for (group, data), panel in groupby(rows, key=lambda row: (row["group"], row["data"])):
        drawings.append((f"{escape(group)} <span>{escape(data)}</span>", error_panel(list(panel))))
    note = (
        "A backbone that is odd in every coordinate, such as sine, does not notice the signs of principal axes: "
        "with it alone stochastic frame averaging is exact on Gaussian clouds. An error of zero is drawn at the foot."
    )
    return legend(methods, "bound") + panels(drawings) + paragraph(note)
