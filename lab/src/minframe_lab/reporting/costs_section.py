"""The parts of the page on ``minframe bench`` and ``minframe peers``: what it costs."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import Any

from minframe_lab.cases import OURS
from minframe_lab.reporting.charts import Rows, cost_panel, ordered
from minframe_lab.reporting.errors_section import error_text, sign
from minframe_lab.reporting.html import Cell, code, details, legend, panels, paragraph, section, table
from minframe_lab.reporting.sources import Run
from minframe_lab.table import ratio_text, time_text


def bench_section(run: Run) -> str:
    """Charts and tables; or how to get them."""
    title = "What does it cost?"
    if not run.rows:
        return section("bench", title, [paragraph(f"Not measured yet: run {code('minframe bench')}.", "note")])
    sweeps = [(sweep, list(found)) for sweep, found in groupby(run.rows, key=lambda row: row["sweep"])]
    rounds = sorted({row["rounds"] for row in run.rows if "rounds" in row})
    intro = (
        "Time of a forward pass over that of the plain backbone, on a log axis: medians, with quartiles as bars. All "
        "methods take turns within one run" + (f" of {rounds[-1]} rounds" if rounds else "") + ", so what else the "
        "machine does falls on all of them."
    )
    drawings = [(escape(sweep), cost_panel(rows)) for sweep, rows in sweeps]
    tables = "\n".join(_table(sweep, rows) for sweep, rows in sweeps)
    methods = ordered({row["method"] for row in run.rows})
    charts = legend(methods, "plain backbone") + panels(drawings, "grid wide")
    return section("bench", title, [paragraph(intro), charts, details("The numbers", tables)])


def _table(sweep: str, rows: Rows) -> str:
    methods = ordered({row["method"] for row in rows})
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        at = {row["method"]: row for row in rows if row["case"] == case}
        cells = [Cell(ratio_text(at[m]) if m in at else "", "ours" if m == OURS else "") for m in methods]
        lines.append([case, *cells, time_text(next(iter(at.values()))["plain_seconds"])])
    return table(["case", *methods, "plain"], lines, f"{sweep}: over the plain backbone, median and quartiles")


def peers_section(run: Run) -> str:
    """Other libraries on the same work; or how to have them measured."""
    title = "Beside other libraries"
    if not run.rows:
        install = code('pip install -e "lab[peers]"')
        hint = f"Not measured: {install}, then {code('minframe peers')}."
        return section("peers", title, [paragraph(hint, "note")])
    measured = [row for row in run.rows if row.get("ratio") is not None]
    shape = " x ".join(map(str, run.content.get("configuration", {}).get("shape", [])))
    intro = (
        f"An O(3)-equivariant map of clouds {escape(shape)} in float32, all in one run with turns taken. Errors are "
        "the worst relative differences: over random rotations, over rotations with a reflection, and over rotations "
        "of clouds with three equal singular values, which have no principal axes."
    )
    table_ = table(
        ["library and what it does", "version", "rotations", "reflections", "equal s.v.", "time over plain"],
        [_peer(row) for row in measured],
        text_columns=2,
    )
    notes = [paragraph(_absent(row), "note") for row in run.rows if row not in measured]
    return section("peers", title, [paragraph(intro), table_, *notes])


def _absent(row: dict[str, Any]) -> str:
    """Why there are no numbers."""
    if not row["installed"]:
        return f"{escape(row['method'])}: not installed; {code(row['install'])}"
    return f"{escape(row['method'])}: {escape(row['problem'])}"


def _peer(row: dict[str, Any]) -> list[str | Cell]:
    errors = [
        Cell(f"{error_text(row[key])} {sign(row[key] <= row['bound'])}", "" if row[key] <= row["bound"] else "beyond")
        for key in ("rotation_error", "reflection_error", "equal_error")
    ]
    return [Cell(row["method"], "ours" if row["ours"] else ""), row["version"], *errors, ratio_text(row)]
