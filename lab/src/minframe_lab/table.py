"""Results as tables in the terminal. Rows are dictionaries, as in the files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from minframe_lab.cases import METHODS, OURS
from minframe_lab.paths import FINE, FINEST, GROUP, POINTS, PathRow

Rows = Sequence[dict[str, Any]]
NARROW = 110  # columns of a terminal below which two methods are left out
SPARE = tuple(name for name in METHODS if name.startswith(("Haar", "perturbed")))


def console(stderr: bool = False) -> Console:
    """As wide as the terminal; wide enough for the tables where there is none."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=120)


def worst(rows: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The row with the largest error relative to its bound; NaN is larger than all."""
    return max(rows, key=lambda r: math.inf if math.isnan(r["worst"]) else r["worst"] / r["bound"], default=None)


def short(number: float) -> str:
    """As few characters as do."""
    if isinstance(number, float) and math.isinf(number):
        return "inf"
    digits = str(int(number))
    return digits if len(digits) < 6 else f"{digits[0]}e{len(digits) - 1}"


def mark(out: Console, passed: bool) -> str:
    """A sign that the terminal can show."""
    if out.encoding.lower().startswith("utf"):
        return "✓" if passed else "✗"
    return "+" if passed else "-"


def cell(out: Console, row: dict[str, Any] | None) -> Text:
    """The worst error, and whether it is within the bound."""
    if row is None:
        return Text("")
    style = "green" if row["passed"] else "bold red" if row["method"] == OURS else "yellow"
    return Text(f"{row['worst']:.0e} {mark(out, row['passed'])}", style)


def shown_methods(out: Console, rows: Rows) -> list[str]:
    """The columns that there are rows for, and room."""
    present = {row["method"] for row in rows}
    return [m for m in METHODS if m in present and (out.width >= NARROW or m not in SPARE)]


def error_tables(out: Console, rows: Rows, full: bool = False) -> None:
    """Print the tables of ``minframe verify``."""
    for dtype, group in groupby(sorted(rows, key=lambda r: -float(r["dtype"][-2:])), key=lambda r: r["dtype"]):
        found = list(group)
        out.print(_by_group(out, found, dtype, full))
        if any(not row["paper"] for row in found):
            out.print(_by_cloud(out, [row for row in found if not row["paper"]], dtype))
    out.print(methods_table(out, rows))


def _table(title: str) -> Table:
    return Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))


def _columns(table: Table, methods: Sequence[str]) -> None:
    for method in methods:
        name = method.replace("stochastic", "stoch.").replace(" ", "\n")
        table.add_column(name, justify="right", min_width=7, style="bold" if method == OURS else None)


def _passes(found: Rows) -> str:
    """Forward passes of FA, of stochastic FA and of ours, if all of these are there."""
    calls = {row["method"]: row["passes"] for row in found}
    ratio = [calls[m] for m in ("FA", "stochastic FA", OURS) if m in calls]
    return ":".join(map(str, ratio))


def _by_group(out: Console, rows: Rows, dtype: str, full: bool) -> Table:
    bounds = sorted({row["bound"] for row in rows})
    title = f"Relative equivariance error in {dtype}, the worst; bound {' or '.join(f'{b:.0e}' for b in bounds)}"
    table = _table(title)
    table.add_column("group", overflow="fold")
    table.add_column("clouds")
    if full:
        table.add_column("cloud, backbone")
    methods = [m for m in shown_methods(out, rows) if m != "plain" or out.width >= NARROW]
    _columns(table, methods)
    table.add_column("frame", justify="right", min_width=5)
    table.add_column("passes", justify="right", min_width=6)

    def line(names: list[str], found: Rows) -> None:
        cells = [cell(out, worst(r for r in found if r["method"] == m)) for m in methods]
        size = max((r["frame_size"] for r in found if r["method"] == OURS), default=0)
        table.add_row(*names, *cells, short(size), _passes(found))

    previous: str | None = None
    for (group, data), panel in groupby(rows, key=lambda r: (r["group"], r["data"])):
        found = list(panel)
        kind = "" if found[0]["paper"] else "degenerate"
        if previous is not None and kind != previous:
            table.add_section()
        previous = kind
        clouds = len({r["cloud"] for r in found})
        name = data if clouds == 1 else f"{clouds} {data}"
        if not full:
            line([group, name], found)
            continue
        for key in dict.fromkeys((r["cloud"], r["backbone"]) for r in found):
            line([group, data, ", ".join(key)], [r for r in found if (r["cloud"], r["backbone"]) == key])
    return table


def _by_cloud(out: Console, rows: Rows, dtype: str) -> Table:
    """Methods are compared on the groups that all of them serve; ours has a column for the others."""
    common = {row["group"] for row in rows if row["method"] == "FA"}
    groups = [group for group in dict.fromkeys(row["group"] for row in rows) if group in common]
    title = f"Degenerate clouds and graphs in {dtype}: the worst"
    title += f" over {', '.join(groups)}; last column: the others" if groups else ""
    table = _table(title)
    table.add_column("cloud", overflow="fold")
    methods = shown_methods(out, rows)
    _columns(table, methods)
    if groups:
        table.add_column("other\ngroups", justify="right", min_width=7)
    for cloud in dict.fromkeys(row["cloud"] for row in rows):
        found = [row for row in rows if row["cloud"] == cloud]
        compared = [row for row in found if row["group"] in common]
        others = [row for row in found if row["group"] not in common and row["method"] == OURS]
        if not compared:
            compared = [row for row in found if not groups or row["method"] != OURS]
        cells = [cell(out, worst(r for r in compared if r["method"] == m)) for m in methods]
        table.add_row(cloud, *cells, *([cell(out, worst(others))] if groups else []))
    return table


def methods_table(out: Console, rows: Rows, costs: Rows = ()) -> Table:
    """What came out of all rows, method by method; and the cost in the first case of ``bench``, if given."""
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    case = costs[0]["case"] if costs else ""
    times = {row["method"]: ratio_text(row) for row in costs if row["case"] == case}
    table = _table(f"All rows; time over the plain backbone on {case}" if costs else "All rows")
    table.add_column("method")
    names = ("within the bound", "of rows", *(f"worst, {dtype}" for dtype in dtypes), "passes")
    for name in (*names, *(["time"] if costs else [])):
        table.add_column(name, justify="right")
    for method in METHODS:
        found = [row for row in rows if row["method"] == method]
        if not found:
            continue
        passes = {row["passes"] for row in found}
        table.add_row(
            Text(method, "bold" if method == OURS else ""),
            str(sum(row["passed"] for row in found)),
            str(len(found)),
            *(cell(out, worst(row for row in found if row["dtype"] == dtype)) for dtype in dtypes),
            ", ".join(map(str, sorted(passes))) if len(passes) < 7 else f"{min(passes)} to {max(passes)}",
            *([times.get(method, "")] if costs else []),
        )
    return table


def peers_table(out: Console, rows: Rows) -> Table:
    """Other libraries: errors, and time over the plain backbone."""
    found = [row for row in rows if row["ratio"] is not None]
    title = (
        f"O(3)-equivariant map; plain backbone {time_text(found[0]['plain_seconds'])}; bound {found[0]['bound']:.0e}"
    )
    table = _table(title)
    table.add_column("library")
    for name in ("version", "rotations", "reflections", "equal s.v.", "time over plain"):
        table.add_column(name, justify="right")
    for row in found:
        errors = [row[key] for key in ("rotation_error", "reflection_error", "equal_error")]
        cells = [
            Text(f"{e:.0e} {mark(out, e <= row['bound'])}", "green" if e <= row["bound"] else "yellow") for e in errors
        ]
        table.add_row(Text(row["method"], "bold" if row["ours"] else ""), row["version"], *cells, ratio_text(row))
    return table


def verdict(rows: Rows) -> tuple[bool, str]:
    """Whether ours is within the bound everywhere, and that in words."""
    ours = [row for row in rows if row["method"] == OURS]
    failed = [row for row in ours if not row["passed"]]
    if not failed:
        return True, f"{OURS}: all {len(ours)} rows within the bound"
    row = worst(failed)
    assert row is not None
    where = f"{row['group']}, {row['cloud']}, {row['backbone']}, {row['dtype']}"
    return False, f"{OURS}: {len(failed)} of {len(ours)} rows above the bound, the worst {row['worst']:.1e} on {where}"


def cost_tables(out: Console, rows: Rows) -> None:
    """Print the tables of ``minframe bench``."""
    for sweep, group in groupby(rows, key=lambda r: r["sweep"]):
        found = list(group)
        title = f"{sweep}: time over the plain backbone, median and quartiles"
        table = _table(title)
        table.add_column("case")
        methods = shown_methods(out, found)
        for method in methods:
            table.add_column(method, justify="right", no_wrap=True, style="bold" if method == OURS else None)
        table.add_column("plain", justify="right", no_wrap=True)
        for case in dict.fromkeys(row["case"] for row in found):
            at = {row["method"]: row for row in found if row["case"] == case}
            cells = [ratio_text(at[m]) if m in at else "" for m in methods]
            table.add_row(case, *cells, time_text(next(iter(at.values()))["plain_seconds"]))
        out.print(table)


def path_table(rows: Sequence[PathRow]) -> Table:
    """Whether an energy jumps along a path, its largest slope, and the poses that takes."""
    table = _table(f"An energy along a path of {POINTS} points under {GROUP}: changes and slope")
    table.add_column("method")
    for name in ("poses", f"change over 1/{FINE - 1}", f"over 1/{FINEST - 1}", "slope over plain"):
        table.add_column(name, justify="right")
    for row in rows:
        label = Text(row.method, "bold" if row.method == OURS else "")
        table.add_row(label, f"{row.poses:.2f}", f"{row.change:.2g}", f"{row.finer:.2g}", f"{row.slope:.2f}")
    return table


def ratio_text(row: dict[str, Any]) -> str:
    """The median and the quartiles."""
    numbers = [
        f"{row[key]:.{2 if row['high'] < 10 else 1 if row['high'] < 100 else 0}f}" for key in ("ratio", "low", "high")
    ]
    return "{} [{},{}]".format(*numbers)


def time_text(seconds: float) -> str:
    """With a unit that fits."""
    for unit, name in ((1, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-6:.3g} us"
