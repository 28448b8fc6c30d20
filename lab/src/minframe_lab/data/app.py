"""``minframe data``: make the datasets that are too large to download or to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minframe_lab.data.jets import make as jets
from minframe_lab.data.slabs import make as slabs
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


@app.command()
def is2re(
    folder: Folder,
    train: Annotated[int, typer.Option(min=0, help="Slabs for training.")] = 5_000,
    others: Annotated[int, typer.Option(min=0, help="Slabs for validation, and for each of four tests.")] = 600,
    potential: Annotated[
        str, typer.Option(help="emt, or chgnet, which is harder and takes some thirty times as long.")
    ] = "emt",
    seed: Seed = 0,
    processes: Processes = 1,
) -> None:
    """A surrogate of OC20 IS2RE: slabs of alloys with adsorbates by ASE, and their relaxed total energies."""
    wanted = slabs.Wanted(slabs.counts_of(train, others), potential, seed)
    with one_line("data"), Bars() as bars:
        slabs.make(wanted, folder, processes, bars.counter("slabs", sum(wanted.counts.values())))
    typer.echo(f"wrote {folder}")
