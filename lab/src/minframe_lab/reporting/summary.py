"""The top of the page: what came out, in numbers that are all computed from the data."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from minframe_lab.cases import OURS
from minframe_lab.reporting.charts import Rows
from minframe_lab.reporting.errors_section import COMPARED, passes_of
from minframe_lab.reporting.sources import Run
from minframe_lab.table import verdict, worst


def state(run: Run) -> str:
    """``passed``, ``failed``, ``partial`` (so far without failure) or ``none``."""
    if not any(row["method"] == OURS for row in run.rows):
        return "none"
    if not verdict(run.rows)[0]:
        return "failed"
    return "passed" if run.complete else "partial"


def banner(verify: Run) -> str:
    """Whether ours is within the bound everywhere."""
    found = state(verify)
    head = {"passed": "Passed", "failed": "Failed", "partial": "Passed so far", "none": "Not measured"}[found]
    said = verdict(verify.rows)[1] if found != "none" else "run minframe verify"
    if found in ("partial", "failed") and not verify.complete:
        said += "; the run was cut short, and what it had is here"
    mark = {"passed": "✓", "failed": "✗"}.get(found, "…")
    text = f"<strong>{head}</strong> <span>{escape(said[0].upper() + said[1:])}.</span>"
    return f'<div class="banner {found}" role="status"><span class="mark">{mark}</span><p>{text}</p></div>'


def tiles(verify: Run, bench: Run) -> str:
    """A few large numbers."""
    found = "\n".join(
        f'<div class="tile{" good" if ours else ""}"><b>{escape(big)}</b><span>{escape(words)}</span></div>'
        for big, words, ours in _numbers(verify.rows, bench.rows)
    )
    return f'<div class="tiles">\n{found}\n</div>' if found else ""


def _numbers(errors: Rows, costs: Rows) -> Iterator[tuple[str, str, bool]]:
    ours = [row for row in errors if row["method"] == OURS]
    if ours:
        within = sum(bool(row["passed"]) for row in ours)
        yield f"{within} / {len(ours)}", f"rows within the bound: {OURS}", True
    for method in ("FA", "stochastic FA"):
        found = [row for row in errors if row["method"] == method]
        if found:
            yield (
                f"{sum(bool(row['passed']) for row in found)} / {len(found)}",
                f"rows within the bound: {method}",
                False,
            )
    for dtype in sorted({row["dtype"] for row in ours}, reverse=True):
        row = worst(row for row in ours if row["dtype"] == dtype)
        assert row is not None
        yield f"{row['worst']:.0e}", f"worst error of {OURS} in {dtype}", True
    group = next((row["group"] for row in errors if row["method"] == "FA"), None)
    if group is not None:
        served = [row for row in errors if row["group"] == group]
        named = [method for method in COMPARED if any(row["method"] == method for row in served)]
        yield passes_of(served), f"forward passes on {group}: {', '.join(named)}", False
    if costs:
        case = costs[0]["case"]
        for row in costs:
            if row["case"] == case and row["method"] in ("FA", OURS):
                yield (
                    f"{row['ratio']:.3g} x",
                    f"time of the plain backbone: {row['method']} ({case})",
                    row["method"] == OURS,
                )
