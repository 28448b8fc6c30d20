"""What the commands leave on the screen, and the figures beside their data."""

from __future__ import annotations

from pathlib import Path

import typer

from minframe_lab import table
from minframe_lab.paths import path_rows
from minframe_lab.table import Rows


def errors(rows: Rows, output: Path, full: bool) -> bool:
    """Print the tables and draw the figures of ``verify``; whether ours is within the bound everywhere."""
    from minframe_lab import plots  # takes a second, which bad arguments need not wait for

    if not rows:
        return True
    out = table.console()
    table.error_tables(out, rows, full)
    passed, sentence = table.verdict(rows)
    files = [output / "verify.json"]
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        for name, draw, paper in (("paper", plots.error_figure, True), ("degenerate", plots.degenerate_figure, False)):
            if any(row["dtype"] == dtype and row["paper"] == paper for row in rows):
                files.append(output / f"verify-{name}-{dtype}.png")
                draw(rows, dtype).savefig(files[-1], dpi=150)
    list_files(files)
    out.print(sentence, style="bold green" if passed else "bold red")
    return passed


def costs(rows: Rows, output: Path) -> None:
    """Print the tables and draw the figure of ``bench``."""
    from minframe_lab import plots

    if not rows:
        return
    out = table.console()
    table.cost_tables(out, rows)
    out.print(table.path_table(path_rows()))
    plots.cost_figure(rows).savefig(output / "bench.png", dpi=150)
    list_files([output / "bench.json", output / "bench.png"])


def peers(rows: Rows, output: Path) -> None:
    """Print the table of ``peers``."""
    out = table.console()
    if any(row.get("ratio") for row in rows):
        out.print(table.peers_table(out, rows))
    for row in rows:
        if not row["installed"]:
            typer.echo(f"{row['method']}: not installed; {row['install']}")
        elif row["problem"]:
            typer.echo(f"{row['method']}: {row['problem']}")
    list_files([output / "peers.json"])


def summary(verified: Rows, timed: Rows) -> bool:
    """Print what came out, method by method; whether ours is within the bound everywhere."""
    if not verified:
        return True
    out = table.console()
    out.print(table.methods_table(out, verified, timed))
    passed, sentence = table.verdict(verified)
    out.print(sentence, style="bold green" if passed else "bold red")
    return passed


def list_files(files: list[Path]) -> None:
    """Say where results are."""
    for path in files:
        typer.echo(f"wrote {path}")
