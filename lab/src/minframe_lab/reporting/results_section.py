"""The part of the page on experiments: what lies under ``results/``."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from minframe_lab.reporting.charts import sparkline
from minframe_lab.reporting.html import Cell, code, paragraph, section, table
from minframe_lab.reporting.sources import Result, leaves, one_line, read_results

APART = ("configuration", "hardware", "history", "seed", "rows", "validation", "check")
MOST = 8  # columns of numbers


def results_section(folder: Path) -> str:
    """A table for each experiment; nothing is asked of the files but that they are JSON."""
    found = read_results(folder)
    title = "Training results"
    if not found:
        where = code(f"{folder}/")
        return section("results", title, [paragraph(f"No experiments have left results in {where} yet.", "note")])
    groups: dict[str, list[Result]] = {}
    for result in found:
        if not result.problem:
            groups.setdefault(_experiment(result), []).append(result)
    tables = [_table(name, group) for name, group in groups.items()]
    notes = [
        paragraph(f"{code(str(result.path))} could not be read: {escape(result.problem)}", "note")
        for result in found
        if result.problem
    ]
    return section("results", title, [*tables, *notes])


def _experiment(result: Result) -> str:
    named = result.content.get("experiment", result.content.get("name"))
    return named if isinstance(named, str) else str(result.path.parent if len(result.path.parts) > 1 else result.path)


def _numbers(result: Result) -> dict[str, float]:
    """Those of the test set first."""
    content = {key: value for key, value in result.content.items() if key not in APART}
    return leaves({key: content[key] for key in sorted(content, key=lambda key: key != "test")})


def _setting(result: Result, group: list[Result]) -> str:
    """What sets a run apart from the others of its experiment, but for the seed."""
    own = _configuration(result)
    others = [_configuration(other) for other in group]
    varied = {k: v for k, v in own.items() if k == "method" or any(other.get(k) != v for other in others)}
    return one_line({k: v for k, v in varied.items() if k != "seed"}) or str(result.path)


def _configuration(result: Result) -> dict[str, Any]:
    found = result.content.get("configuration")
    return found if isinstance(found, dict) else {}


def _course(result: Result) -> Cell:
    """The last column of the history, as a curve: what is validated."""
    history = result.content.get("history")
    if not isinstance(history, list) or not history or not all(isinstance(row, dict) for row in history):
        return Cell("")
    numeric = [key for key, value in history[-1].items() if isinstance(value, int | float) and key != "epoch"]
    if not numeric:
        return Cell("")
    values = [float(row[numeric[-1]]) for row in history if isinstance(row.get(numeric[-1]), int | float)]
    return Cell("", "spark", markup=sparkline(values, f"course of {numeric[-1]}"))


def _table(name: str, results: list[Result]) -> str:
    columns = list(dict.fromkeys(key for result in results for key in _numbers(result)))[:MOST]
    lines: list[list[str | Cell]] = []
    for result in results:
        content, numbers = result.content, _numbers(result)
        cells = [f"{numbers[key]:.4g}" if key in numbers else "" for key in columns]
        label = _clipped(_setting(result, results) + ("" if content.get("complete", True) else " (not finished)"))
        lines.append([label, _text(content.get("seed")), _text(content.get("commit"))[:8], *cells, _course(result)])
    names = [key.replace(".", "\n") for key in columns]
    return table(["setting", "seed", "commit", *names, "course"], lines, name, text_columns=3)


def _text(value: Any) -> str:
    return "" if value is None else one_line(value)


def _clipped(words: str, most: int = 90) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"
