"""``minframe data``: make the datasets that are too large to download or to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minframe_lab.data.jets import make as jets
from minframe_lab.experiments.run import Bars
from minframe_lab.lines import one_line

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Make datasets. Work that is cut off goes on when the same command is given again.",
)

Folder = Annotated[Path, typer.Argument(help="Folder for the dataset.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random in it.")]
Processes = Annotated[int, typer.Option(min=1, help="That work side by side; the result does not depend on it.")]


@app.callback()
def top() -> None:
    """Make datasets. Work that is cut off goes on when the same command is given again."""


@app.command()
def toptag(
    folder: Folder,
    train: Annotated[int, typer.Option(min=0, help="Jets for training.")] = 60_000,
    validation: Annotated[int, typer.Option(min=0, help="Jets for validation.")] = 20_000,
    test: Annotated[int, typer.Option(min=0, help="Jets for tests.")] = 20_000,
    seed: Seed = 0,
    processes: Processes = 1,
) -> None:
    """A surrogate of the top-tagging reference set: jets by Pythia and fastjet, HDF5 in the reference layout."""
    wanted = jets.Jets(train, validation, test, seed)
    with one_line("data"), Bars() as bars:
        jets.make(wanted, folder, processes, bars.counter("jets", sum(wanted.counts.values())))
    typer.echo(f"wrote {folder}")
