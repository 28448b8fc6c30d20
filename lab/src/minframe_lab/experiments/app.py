"""``minframe reproduce``: the paper's experiments, each by one command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from minframe_lab.experiments import processes, record
from minframe_lab.experiments.dynamics import recipe as moving
from minframe_lab.experiments.experiment import Experiment
from minframe_lab.experiments.graphs import run as separating
from minframe_lab.experiments.graphs.classify import ExpClassify
from minframe_lab.experiments.hull.recipe import Hull
from minframe_lab.experiments.is2re import plane
from minframe_lab.experiments.is2re.recipe import IS2RE
from minframe_lab.experiments.methods import METHODS, POINT_METHODS
from minframe_lab.experiments.nbody.recipe import NBody
from minframe_lab.experiments.run import CHECKED, Bars, evaluate, measure_again, run
from minframe_lab.experiments.table import collect, write_table
from minframe_lab.experiments.toptag import recipe as tagging
from minframe_lab.lines import one_line

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Repeat the paper's experiments. A run that is cut off goes on when the same command is given again.",
)

CURVES = ("energy", "roc", "parity")  # of what is measured, these are for figures

Method = Annotated[str, typer.Option(help=f"How the backbone is made symmetric: {', '.join(METHODS)}.")]
Seed = Annotated[int, typer.Option(help="Of everything random in training.")]
Epochs = Annotated[int | None, typer.Option(min=1, help="Length of the training; the default is in the recipe.")]
Output = Annotated[Path | None, typer.Option(help="Folder for results [default: runs/EXPERIMENT-METHOD-SEED].")]
Data = Annotated[Path | None, typer.Option(exists=True, help="File to read the data from; else they are generated.")]
Folder = Annotated[
    Path | None, typer.Option(exists=True, file_okay=False, help="Folder with the data, which minframe data makes.")
]
Evaluate = Annotated[Path | None, typer.Option(exists=True, help="Test what a results folder holds, instead.")]
Limit = Annotated[int | None, typer.Option(min=2, help="Use that many samples of each split only.")]
Compile = Annotated[bool, typer.Option("--compile", help="Compile the network for training; pays for long runs.")]
Threads = Annotated[int, typer.Option(min=1, help="Of PyTorch; these networks are small.")]
Network = Annotated[str, typer.Option(help="mlp, gin, or gin-published, the one of the literature.")]


@app.command()
def nbody(
    method: Annotated[str, typer.Option(help=f"Frames: {', '.join(POINT_METHODS)}.")] = "minimal",
    seed: Seed = 0,
    epochs: Epochs = None,
    output: Output = None,
    data: Data = None,
    evaluate: Evaluate = None,
    limit: Limit = None,
    compile: Compile = False,
    threads: Threads = 1,
    turns: Annotated[int, typer.Option(help="Poses averaged over in tests: 1, 8 or 48.")] = 1,
    copies: Annotated[int, typer.Option(min=1, help="Random poses of each sample in a step.")] = 1,
    together: Annotated[
        bool, typer.Option("--together", help="Take the loss of their mean answer, as FA does.")
    ] = False,
    edges: Annotated[
        str, typer.Option(help="What is told of a pair: potential, or fourth as in the paper.")
    ] = "potential",
    dropout: Annotated[float, typer.Option(min=0, max=1)] = 0.0,
    rest_frame: Annotated[bool, typer.Option(help="Use that a common velocity changes nothing.")] = True,
) -> None:
    """Charged particles: positions after one unit of time, exactly E(3) and permutation equivariant.

    The paper's own features and training: --edges fourth --no-rest-frame --dropout 0.1 --copies 6.
    """
    wanted = NBody(
        method=method,
        seed=seed,
        turns=turns,
        copies=copies,
        together=together,
        edges=edges,
        dropout=dropout,
        rest_frame=rest_frame,
    )
    _train(wanted, epochs, output, data, evaluate, limit, compile, threads, POINT_METHODS)


@app.command()
def hull(
    method: Method = "minimal",
    seed: Seed = 0,
    epochs: Epochs = None,
    output: Output = None,
    data: Data = None,
    evaluate: Evaluate = None,
    limit: Limit = None,
    compile: Compile = False,
    threads: Threads = 1,
    shear: Annotated[bool, typer.Option(help="Use how volumes change under all matrices.")] = True,
) -> None:
    """Convex hulls: volumes, exactly invariant to permutations and O(5)."""
    shear = shear and method == "minimal"
    _train(Hull(method=method, seed=seed, shear=shear), epochs, output, data, evaluate, limit, compile, threads)


@app.command("exp-classify")
def exp_classify(
    method: Method = "minimal",
    seed: Seed = 0,
    epochs: Epochs = None,
    output: Output = None,
    data: Data = None,
    evaluate: Evaluate = None,
    limit: Limit = None,
    compile: Compile = False,
    threads: Threads = 1,
    backbone: Network = "gin",
    apart: Annotated[bool, typer.Option(help="Order each connected component by itself.")] = True,
) -> None:
    """EXP: learn which formulas can be satisfied."""
    wanted = ExpClassify(method=method, seed=seed, backbone=backbone, apart=apart, published=data is not None)
    _train(wanted, epochs, output, data, evaluate, limit, compile, threads)


@app.command()
def dynamics(
    method: Annotated[
        str, typer.Option(help=f"{', '.join(moving.METHODS)}, or potential for what is learned.")
    ] = "smooth",
    seed: Seed = 0,
    epochs: Epochs = None,
    output: Output = None,
    evaluate: Evaluate = None,
    limit: Limit = None,
    threads: Threads = 1,
    sharpness: Annotated[float, typer.Option(min=6, help="Of smooth frames.")] = 16.0,
    start: Annotated[
        str,
        typer.Option(
            help="How training begins: minimal, smooth frames with hard ones; plain, all in random rotations."
        ),
    ] = "minimal",
    warm: Annotated[float, typer.Option(min=0, max=1, help="Share of the training that begins so.")] = 0.75,
    agreement: Annotated[
        float, typer.Option(min=0, help="Weight in the loss of what poses of a molecule differ by in energy.")
    ] = 0.0,
    picoseconds: Annotated[float, typer.Option(min=0.1, help="Length of the paths.")] = 20.0,
    repeats: Annotated[int, typer.Option(min=1, help="Paths of each molecule, from velocities of their own.")] = 6,
) -> None:
    """Molecules: learn energies and forces of a potential, then follow the motion and see what it conserves."""
    if start not in moving.STARTS:
        raise typer.BadParameter(f"--start is one of {', '.join(moving.STARTS)}, not {start}")
    wanted = moving.Dynamics(
        method=method,
        seed=seed,
        sharpness=sharpness,
        start=start,
        warm=warm,
        agreement=agreement,
        picoseconds=picoseconds,
        repeats=repeats,
    )
    if method == "potential" and evaluate is None:
        folder = output or Path("runs") / f"dynamics-potential-{seed}"
        found = moving.run_potential(wanted, folder)
        _show(found["measured"]["paths"], folder)
        return
    _train(wanted, epochs, output, None, evaluate, limit, False, threads, (*moving.METHODS, "potential"))


@app.command()
def toptag(
    method: Annotated[
        str,
        typer.Option(
            help=f"Of the transformer: {', '.join(tagging.METHODS['transformer'])}; of minkgnn: invariant too."
        ),
    ] = "minimal",
    network: Annotated[
        str, typer.Option(help=f"{', '.join(tagging.METHODS)}: the last is the mass of the jet alone.")
    ] = ("transformer"),
    seed: Seed = 0,
    epochs: Epochs = None,
    output: Output = None,
    data: Folder = None,
    evaluate: Evaluate = None,
    limit: Limit = None,
    threads: Threads = 1,
    jets: Annotated[int | None, typer.Option(min=2, help="Use that many jets of the training set.")] = None,
    constituents: Annotated[int, typer.Option(min=4, max=200, help="Hardest ones of each jet.")] = 30,
    width: Annotated[int | None, typer.Option(min=4, help="Of the network [default: 64, of minkgnn 32].")] = None,
    layers: Annotated[int, typer.Option(min=1, help="Of the network.")] = 3,
) -> None:
    """Jets: top quark or not, exactly invariant to O(1, 3); make the data first: minframe data toptag."""
    width = width or (32 if network == "minkgnn" else 64)
    with one_line("reproduce"):
        wanted = tagging.TopTag(
            method=method, seed=seed, network=network, jets=jets, constituents=constituents, width=width, layers=layers
        )
    name = f"toptag-{network}-{method}-{jets or 'all'}-{seed}"
    _train(
        wanted, epochs, output or Path("runs") / name, data, evaluate, limit, False, threads, tagging.METHODS[network]
    )


@app.command()
def is2re(
    method: Annotated[str, typer.Option(help=", ".join(plane.METHODS))] = "unordered",
    seed: Seed = 0,
    epochs: Epochs = None,
    output: Output = None,
    data: Folder = None,
    evaluate: Evaluate = None,
    limit: Limit = None,
    threads: Threads = 1,
    slabs: Annotated[int | None, typer.Option(min=2, help="Use that many slabs of the training set.")] = None,
    cutoff: Annotated[float, typer.Option(min=1, help="Of neighbours, in Angstrom; the paper has 6.")] = 4.5,
    width: Annotated[int, typer.Option(min=4, help="Of the network; the paper has 384.")] = 64,
    interactions: Annotated[int, typer.Option(min=1, help="Of the network; the paper has 5.")] = 3,
    gaussians: Annotated[int, typer.Option(min=2, help="Of distances; the paper has 104.")] = 32,
) -> None:
    """Slabs: energies they relax to, exactly invariant in the plane; make the data first: minframe data is2re."""
    wanted = IS2RE(
        method=method,
        seed=seed,
        slabs=slabs,
        cutoff=cutoff,
        width=width,
        interactions=interactions,
        gaussians=gaussians,
    )
    output = output or Path("runs") / f"is2re-{method}-{slabs or 'all'}-{seed}"
    _train(wanted, epochs, output, data, evaluate, limit, False, threads, plane.METHODS)


Networks = Annotated[int, typer.Option("--initialisations", "--epochs", min=1, help="Random networks to try.")]


@app.command()
def graph8c(
    method: Method = "minimal",
    seed: Seed = 0,
    initialisations: Networks = 100,
    output: Output = None,
    data: Data = None,
    evaluate: Evaluate = None,
    limit: Limit = None,
    threads: Threads = 1,
    backbone: Network = "mlp",
) -> None:
    """GRAPH8c: how many pairs of the 11,117 connected graphs on eight nodes are not told apart; error and time."""
    wanted = separating.Separate("graph8c", backbone, method, seed, initialisations, limit, data is not None)
    _separate(wanted, output, data, evaluate, threads)


@app.command()
def exp(
    method: Method = "minimal",
    seed: Seed = 0,
    initialisations: Networks = 100,
    output: Output = None,
    data: Data = None,
    evaluate: Evaluate = None,
    limit: Limit = None,
    threads: Threads = 1,
    backbone: Network = "mlp",
) -> None:
    """EXP: how many of 600 pairs of graphs are not told apart."""
    wanted = separating.Separate("exp", backbone, method, seed, initialisations, limit, data is not None)
    _separate(wanted, output, data, evaluate, threads)


@app.command()
def table(
    results: Annotated[Path, typer.Argument(help="Folder of results.")] = Path("lab/results"),
    add: Annotated[list[Path] | None, typer.Option(exists=True, help="Finished runs to copy there first.")] = None,
) -> None:
    """Write the table of all results beside the paper's, from their metrics files."""
    with one_line("reproduce"):
        for folder in add or []:
            typer.echo(f"wrote {collect(folder, results)}")
        typer.echo(f"wrote {write_table(results)}")


@app.command()
def measure(
    folders: Annotated[list[Path], typer.Argument(exists=True, help="Finished runs with their weights.")],
    data: Data = None,
    threads: Threads = 1,
) -> None:
    """Measure stored models again, such as errors and times; nothing is trained, and test results stay as they are."""
    torch.set_num_threads(threads)
    with one_line("reproduce"):
        for folder in folders:
            measure_again(folder, data)
            typer.echo(f"wrote {folder}")


def _train(
    experiment: Experiment,
    epochs: int | None,
    output: Path | None,
    data: Path | None,
    evaluated: Path | None,
    limit: int | None,
    compiled: bool,
    threads: int,
    methods: tuple[str, ...] = METHODS,
) -> None:
    torch.set_num_threads(threads)
    _check_method(experiment.method, methods)
    if evaluated is not None:
        _check_kind(evaluated, experiment.name)
        with one_line("reproduce"):
            found = evaluate(evaluated, data, CHECKED if limit == CHECKED else None)
        _compare(found)
        return
    if epochs is not None:
        recipe = replace(experiment.recipe, epochs=epochs)
        experiment = replace(experiment, recipe=replace(recipe, validate_every=min(recipe.validate_every, epochs)))
    folder = output or Path("runs") / f"{experiment.name}-{experiment.method}-{experiment.seed}"
    with one_line("reproduce"):
        found = run(experiment, folder, data, limit, compiled, Bars())
    if not processes.is_first():
        return
    measured = {k: v for k, v in found["measured"].items() if k not in CURVES}
    _show({**found["test"], **measured, "seconds of training": found["seconds"]}, folder)


def _separate(
    experiment: separating.Separate, output: Path | None, data: Path | None, evaluated: Path | None, threads: int
) -> None:
    torch.set_num_threads(threads)
    _check_method(experiment.method)
    if evaluated is not None:
        _check_kind(evaluated, experiment.name)
        with one_line("reproduce"):
            again = separating.repeat(evaluated, data, Bars())
        _compare(again)
        return
    folder = output or Path("runs") / "-".join(
        [experiment.name, experiment.backbone, experiment.method, str(experiment.seed)]
    )
    with one_line("reproduce"):
        found = separating.run(experiment, folder, data, Bars())
    measured = found.get("measured", {})
    _show(
        {**found["test"], "networks": found["networks"], **measured, "seconds of the networks": found["seconds"]},
        folder,
    )


def _check_method(method: str, methods: tuple[str, ...] = METHODS) -> None:
    if method not in methods:
        raise typer.BadParameter(f"no method {method!r}: use one of {', '.join(methods)}", param_hint="--method")


def _check_kind(folder: Path, name: str) -> None:
    with one_line("reproduce"):
        kind = record.read(folder)["experiment"]
    if kind != name:
        raise typer.BadParameter(f"{folder} holds a run of {kind}, not of {name}", param_hint="--evaluate")


def _show(values: dict[str, Any], folder: Path) -> None:
    """All numbers of a run, and where they are."""
    shown = Table(box=None, show_header=False)
    for key, value in values.items():
        for name, number in _flat(key, value):
            shown.add_row(name, f"{number:.6g}" if isinstance(number, float) else str(number))
    Console().print(shown)
    typer.echo(f"wrote {folder}")


def _flat(key: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [item for k, v in value.items() for item in _flat(f"{key} {k}", v)]
    return [(key.replace("_", " "), value)]


def _compare(found: dict[str, Any]) -> None:
    """Show what was recorded and what is found now; exit status 1 if these differ."""
    shown = Table("", "recorded", "now", box=None)
    same = True
    for key, value in found["recorded"].items():
        now = found["now"][key]
        same &= abs(now - value) <= 1e-3 * abs(value) + 1e-9
        shown.add_row(key.replace("_", " "), f"{value:.6g}", f"{now:.6g}")
    Console().print(shown)
    typer.echo(f"{'the same' if same else 'NOT THE SAME'}, in {found['seconds']:.1f} s")
    raise typer.Exit(0 if same else 1)
