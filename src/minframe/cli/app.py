"""The commands: their arguments, progress and exit status."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

import minframe as mf
from minframe.cli import bench as benching
from minframe.cli import table
from minframe.cli.cases import Panel, panels
from minframe.cli.record import Record
from minframe.cli.verify import DTYPES, verify_panel

INTERRUPTED = 130


class OneLine(TyperGroup):
    """Bad arguments get one line on standard error, and exit status 2."""

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        try:
            code = super().main(*args, standalone_mode=False, **options)  # type: ignore[misc]
        except typer.Abort:
            sys.exit(INTERRUPTED)
        except Exception as error:
            if not standalone_mode or not hasattr(error, "format_message"):
                raise
            typer.echo(f"minframe: {' '.join(error.format_message().split())}", err=True)
            sys.exit(2)
        if standalone_mode:
            sys.exit(code or 0)
        return code


app = typer.Typer(
    cls=OneLine,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Exact equivariance for any PyTorch backbone: see it, and what it costs.",
)


def precisions(name: str) -> str:
    """Check what ``--dtype`` is given."""
    if name not in (*DTYPES, "both"):
        raise typer.BadParameter(f"{name!r} is none of {', '.join(DTYPES)} and both")
    return name


Group = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="NAME", help='Only this group, such as "O(3)", or "SO" for all. May be repeated.'),
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer samples: about a minute.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of clouds, weights, group elements and random frames.")]
Output = Annotated[Path, typer.Option("--output", metavar="DIR", help="Folder for figures and data.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the data here as well.")]


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Exact equivariance for any PyTorch backbone: see it, and what it costs."""
    if version:
        typer.echo(f"minframe {mf.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def verify(
    group: Group = None,
    dtype: Annotated[
        str, typer.Option("--dtype", callback=precisions, metavar="NAME", help="float64, float32 or both.")
    ] = "both",
    quick: Quick = False,
    full: Annotated[bool, typer.Option("--full", help="A line for every cloud and backbone.")] = False,
    seed: Seed = 0,
    output: Output = Path("report"),
    json: Json = None,
) -> None:
    """Measure the equivariance error of every group, backbone and method.

    Exit status: 0 if the minimal frame is within the bound everywhere, else 1.
    """
    chosen = choose(panels(quick), group)
    dtypes = list(DTYPES) if dtype == "both" else [dtype]
    configuration = {"group": group, "dtype": dtypes, "quick": quick, "seed": seed}
    record = start("verify", configuration, output, json)
    work = [(name, panel) for name in dtypes for panel in chosen]
    try:
        with progress() as bar:
            task = bar.add_task("", total=len(work))
            for i, (name, panel) in enumerate(work):
                bar.update(task, description=f"{name}  {panel.name}")
                count, rows = verify_panel(panel, name, seed)
                for j, row in enumerate(rows, 1):
                    record.rows.append(row.as_dict())
                    bar.update(task, completed=i + j / count)
                record.save()
    except KeyboardInterrupt:
        finish_early(record)
        show_verify(record, output, full)
        raise typer.Exit(INTERRUPTED) from None
    record.save(complete=True)
    passed = show_verify(record, output, full)
    raise typer.Exit(0 if passed else 1)


@app.command()
def bench(
    quick: Quick = False,
    seed: Seed = 0,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Of PyTorch.")] = 1,
    output: Output = Path("report"),
    json: Json = None,
) -> None:
    """Measure what each method costs over the plain backbone, and how that grows.

    All methods take turns within one run; every ratio comes with its quartiles.
    """
    torch.set_num_threads(threads)
    rounds, slot = (7, 0.01) if quick else (15, 0.03)
    record = start("bench", {"quick": quick, "seed": seed, "threads": threads}, output, json)
    work = list(benching.cases(quick))
    try:
        with progress() as bar:
            task = bar.add_task("", total=len(work))
            for case in work:
                bar.update(task, description=f"{case.sweep}: {case.name}")
                record.rows += [row.as_dict() for row in benching.run_case(case, seed, rounds, slot)]
                record.save()
                bar.advance(task)
    except KeyboardInterrupt:
        finish_early(record)
        show_bench(record, output)
        raise typer.Exit(INTERRUPTED) from None
    record.save(complete=True)
    show_bench(record, output)


def choose(found: list[Panel], names: list[str] | None) -> list[Panel]:
    """The panels of the groups that were asked for."""
    if not names:
        return found
    known = list(dict.fromkeys(str(panel.group) for panel in found))
    chosen: set[str] = set()
    for name in names:
        wanted = name.replace(" ", "").lower()
        hits = [k for k in known if wanted in (k.replace(" ", "").lower(), k.split("(")[0].lower())]
        if not hits:
            raise typer.BadParameter(f"no group {name!r}: use one of {', '.join(known)}", param_hint="--group")
        chosen.update(hits)
    return [panel for panel in found if str(panel.group) in chosen]


def start(command: str, configuration: dict[str, Any], output: Path, json: Path | None) -> Record:
    """Begin the files, or say that they cannot be written, before any work is done."""
    if command == "verify":
        torch.set_num_threads(1)  # these backbones are small
    for path, option in ((output / f"{command}.json", "--output"), (json, "--json")):
        if path is not None:
            try:
                Record(command, configuration, [path])
            except OSError as error:
                raise typer.BadParameter(f"cannot write {path}: {error.strerror or error}", param_hint=option) from None
    return Record(command, configuration, [output / f"{command}.json", *([json] if json else [])])


def progress() -> Progress:
    """A bar on standard error, if that is a terminal, that leaves nothing behind."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = table.console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def finish_early(record: Record) -> None:
    """Keep what there is of an interrupted run."""
    record.save()
    typer.echo(f"minframe: interrupted after {len(record.rows)} measurements; these follow", err=True)


def show_verify(record: Record, output: Path, full: bool) -> bool:
    """Print the tables and draw the figures; whether ours is within the bound everywhere."""
    from minframe.cli import plots  # takes a second, which bad arguments need not wait for

    if not record.rows:
        return True
    out = table.console()
    table.error_tables(out, record.rows, full)
    passed, sentence = table.verdict(record.rows)
    files = [output / "verify.json"]
    for dtype in dict.fromkeys(row["dtype"] for row in record.rows):
        for name, draw, paper in (("paper", plots.error_figure, True), ("degenerate", plots.degenerate_figure, False)):
            if any(row["dtype"] == dtype and row["paper"] == paper for row in record.rows):
                files.append(output / f"verify-{name}-{dtype}.png")
                draw(record.rows, dtype).savefig(files[-1], dpi=150)
    list_files(files)
    out.print(sentence, style="bold green" if passed else "bold red")
    return passed


def show_bench(record: Record, output: Path) -> None:
    """Print the tables and draw the figure."""
    from minframe.cli import plots

    if not record.rows:
        return
    table.cost_tables(table.console(), record.rows)
    plots.cost_figure(record.rows).savefig(output / "bench.png", dpi=150)
    list_files([output / "bench.json", output / "bench.png"])


def list_files(files: list[Path]) -> None:
    """Say where results are."""
    for path in files:
        typer.echo(f"wrote {path}")
