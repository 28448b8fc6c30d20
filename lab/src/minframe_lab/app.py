"""The commands: their arguments and exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import minframe as mf
from minframe_lab import runs, show
from minframe_lab.cases import Panel, panels
from minframe_lab.peers import SHAPE
from minframe_lab.record import Record, check_writable
from minframe_lab.verify import DTYPES

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
Threads = Annotated[int, typer.Option("--threads", min=1, help="Of PyTorch.")]
Output = Annotated[Path, typer.Option("--output", metavar="DIR", help="Folder for figures and data.")]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of experiments.")]
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
    record = start("verify", {"group": group, "dtype": dtypes, "quick": quick, "seed": seed}, output, json)
    whole = complete(record, lambda: runs.verify(record, chosen, dtypes, seed))
    passed = show.errors(record.rows, output, full)
    raise typer.Exit(INTERRUPTED if not whole else 0 if passed else 1)


@app.command()
def bench(
    quick: Quick = False,
    seed: Seed = 0,
    threads: Threads = 1,
    output: Output = Path("report"),
    json: Json = None,
) -> None:
    """Measure what each method costs over the plain backbone, and how that grows.

    All methods take turns within one run; every ratio comes with its quartiles.
    """
    record = start("bench", {"quick": quick, "seed": seed, "threads": threads}, output, json)
    whole = complete(record, lambda: runs.bench(record, quick, seed, threads))
    show.costs(record.rows, output)
    raise typer.Exit(0 if whole else INTERRUPTED)


@app.command()
def peers(
    quick: Quick = False,
    seed: Seed = 0,
    threads: Threads = 1,
    output: Output = Path("report"),
    json: Json = None,
) -> None:
    """Measure other libraries on the same work: error and time of an O(3)-equivariant map.

    Those that are not installed are listed as such; pip install -e "lab[peers]" brings all.
    """
    settings = {"shape": list(SHAPE), "dtype": "float32", "quick": quick, "seed": seed, "threads": threads}
    record = start("peers", settings, output, json)
    whole = complete(record, lambda: runs.peers(record, quick, seed, threads))
    show.peers(record.rows, output)
    raise typer.Exit(0 if whole else INTERRUPTED)


@app.command()
def report(
    quick: Quick = False,
    seed: Seed = 0,
    output: Output = Path("report"),
    results: Results = Path("lab/results"),
) -> None:
    """Write one HTML page with all that was measured, and pictures; measure first what has not been.

    Exit status: 0 if the minimal frame is within the bound everywhere, else 1.
    """
    from minframe_lab.reporting import Page

    if results.exists() and not results.is_dir():
        raise typer.BadParameter(f"{results} is no folder", param_hint="--results")
    writable(output / Page.NAME, "--output")
    try:
        page = Page(output, results)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--output") from None
    measure: dict[str, tuple[dict[str, Any], Callable[[Record], None]]] = {
        "verify": (
            {"group": None, "dtype": list(DTYPES), "quick": quick, "seed": seed},
            lambda record: runs.verify(record, panels(quick), list(DTYPES), seed),
        ),
        "bench": (
            {"quick": quick, "seed": seed, "threads": 1},
            lambda record: runs.bench(record, quick, seed, 1),
        ),
    }
    whole = True
    page.write()
    for command in page.missing():
        typer.echo(f"minframe: there is no complete {output / f'{command}.json'}; measuring", err=True)
        settings, work = measure[command]
        record = start(command, settings, output, None)
        whole = complete(record, lambda record=record, work=work: work(record))  # type: ignore[misc]
        page.read()
        page.write()
        if not whole:
            break
    passed = show.summary(page.runs["verify"].rows, page.runs["bench"].rows)
    typer.echo(f"wrote {page.path}")
    raise typer.Exit(INTERRUPTED if not whole else 0 if passed else 1)


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


def writable(path: Path, option: str) -> None:
    """Say that a file cannot be written, before any work is done."""
    try:
        check_writable(path)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror or error}", param_hint=option) from None


def start(command: str, settings: dict[str, Any], output: Path, json: Path | None) -> Record:
    """Begin the files, and say what is left out for want of a library."""
    writable(output / f"{command}.json", "--output")
    if json is not None:
        writable(json, "--json")
    if mf.S().labelling is None and command in ("verify", "bench"):
        typer.echo("minframe: permutations are left out, for they need igraph: pip install igraph", err=True)
    return Record(command, settings, [output / f"{command}.json", *([json] if json else [])])


def complete(record: Record, work: Callable[[], None]) -> bool:
    """Do the work and save what it gives; False if it was interrupted."""
    try:
        work()
    except KeyboardInterrupt:
        record.save()
        typer.echo(f"minframe: interrupted after {len(record.rows)} measurements; these follow", err=True)
        return False
    record.save(complete=True)
    return True


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    help="Repeat the paper's experiments: minframe reproduce --help.",
)
def reproduce(context: typer.Context) -> None:
    """Hand everything over to the experiments, which take longer to load."""
    from minframe_lab.experiments.app import app as experiments

    experiments(context.args, prog_name="minframe reproduce")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    help="Make the datasets of experiments: minframe data --help.",
)
def data(context: typer.Context) -> None:
    """Hand everything over to the makers of data."""
    from minframe_lab.data.app import app as makers

    makers(context.args, prog_name="minframe data")
