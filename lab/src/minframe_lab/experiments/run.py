"""A run from its data to its figures, and the evaluation of one that is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import nn

from minframe_lab.experiments import paper, plots, processes, record
from minframe_lab.experiments.dynamics.recipe import Dynamics
from minframe_lab.experiments.experiment import Advance, Batch, Experiment
from minframe_lab.experiments.graphs.classify import ExpClassify
from minframe_lab.experiments.hull.recipe import Hull
from minframe_lab.experiments.is2re.recipe import IS2RE
from minframe_lab.experiments.nbody.recipe import NBody
from minframe_lab.experiments.toptag.recipe import TopTag
from minframe_lab.experiments.trainer import Progress as Trained
from minframe_lab.experiments.trainer import fit

EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.name: kind for kind in (NBody, Hull, ExpClassify, Dynamics, TopTag, IS2RE)
}
CHECKED = 200  # test samples whose result is stored apart, to be looked at again in a moment


class Bars(AbstractContextManager["Bars"]):
    """Progress bars on standard error; lines now and then where that is no terminal."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        times = (TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}"))
        self.bars = Progress(*columns, *times, console=self.console, disable=not self.console.is_terminal)

    def __enter__(self) -> Bars:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def bar(self, what: str, total: int | None) -> Callable[[int, str], None]:
        """A bar; call what is returned with the number of steps done and a note."""
        task = self.bars.add_task(what, total=total, note="")
        shown = [-1]

        def to(done: int, note: str = "") -> None:
            self.bars.update(task, completed=done, note=note)
            tenth = 10 * done // total if total else 0
            if not self.console.is_terminal and note and tenth > shown[0]:
                shown[0] = tenth
                self.console.print(f"{what}: {done} of {total}  {note}", highlight=False)

        return to

    def counter(self, what: str, total: int | None = None) -> Advance:
        """A bar that is told how many steps more are done; with a total it has lines as well."""
        to, done = self.bar(what, total), [0]

        def advance(more: int) -> None:
            done[0] += more
            to(done[0], f"{done[0]} done" if total else "")

        return advance


def run(
    experiment: Experiment,
    folder: Path,
    path: Path | None = None,
    limit: int | None = None,
    compiled: bool = False,
    bars: Bars | None = None,
) -> dict[str, Any]:
    """Train, test and write everything to a folder; goes on with what is there.

    Args:
        experiment: what to run.
        folder: for results.
        path: of the data; otherwise they are generated.
        limit: use that many samples of each split only.
        compiled: compile the costly part.
        bars: to show progress with.
    """
    bars = bars or Bars(quiet=True)
    if not processes.is_first():
        bars = Bars(quiet=True)
    found = record.begin(experiment.name, experiment.configuration() | {"limit": limit})
    if processes.is_first():
        record.prepare(found, folder)
    with bars:
        splits = ("train", "validation", "test")
        train, validation, test = (experiment.data(s, path, limit, bars.counter(f"{s} data")) for s in splits)
        to = bars.bar("epochs", experiment.recipe.epochs)

        def told(done: Trained) -> None:
            best = done.best.get(experiment.score_name)
            to(done.epoch, f"best {experiment.score_name} {best:.5g}" if best is not None else "")

        done = fit(experiment, train, validation, folder / record.CHECKPOINT, compiled, told)
    processes.leave()
    if not processes.is_first():
        return found
    model = experiment.model()
    model.load_state_dict(done.weights)
    model.eval()
    record.save(done.weights, folder / record.WEIGHTS)

    def tested(data: Batch) -> dict[str, float]:
        torch.manual_seed(experiment.seed)  # of random frames, so that another test finds the same
        return experiment.evaluate(model, data)

    found |= {
        "complete": True,
        "data": experiment.source(path),
        "processes": processes.count(),
        "seconds": round(done.seconds, 1),
        "parameters": sum(p.numel() for p in model.parameters()),
        "best_epoch": done.best["epoch"],
        "validation": tested(validation),
        "test": tested(test),
        "check": {"samples": min(CHECKED, len(test[0])), **tested(tuple(x[:CHECKED] for x in test))},
        "measured": experiment.measure(model, test),
        "history": done.history,
    }
    record.write(found, folder)
    reference = paper.reference(experiment.name, experiment.method) if experiment.score_name == "mse" else None
    plots.learning_curve(done.history, experiment.score_name, reference, folder / "learning.png")
    experiment.draw(model, test, folder)
    return found


def stored(folder: Path) -> tuple[Experiment, nn.Module, dict[str, Any]]:
    """The experiment, the trained model and the record of a folder."""
    found = record.read_finished(folder)
    if found["experiment"] not in EXPERIMENTS:
        raise ValueError(f"{folder} holds a run of {found['experiment']}, which has no trained model")
    configuration = {k: v for k, v in found["configuration"].items() if k != "limit"}
    try:
        experiment = EXPERIMENTS[found["experiment"]].from_configuration(configuration)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / record.METRICS} has settings that are not known here ({error})") from None
    model = experiment.model()
    model.load_state_dict(record.load(folder / record.WEIGHTS))
    return experiment, model.eval(), found


def evaluate(folder: Path, path: Path | None = None, limit: int | None = None) -> dict[str, Any]:
    """Test a stored model again: what it reaches now, what was recorded, and the seconds that took.

    Args:
        folder: with the metrics file and the weights.
        path: of the data; otherwise they are generated.
        limit: ``CHECKED`` compares the first samples only, for which less has to be generated.
    """
    started = time.perf_counter()
    experiment, model, found = stored(folder)
    data: Batch = experiment.data("test", path, limit or found["configuration"]["limit"])
    torch.manual_seed(experiment.seed)
    now = experiment.evaluate(model, data)
    recorded = {k: v for k, v in (found["check"] if limit else found["test"]).items() if k != "samples"}
    return {"recorded": recorded, "now": now, "seconds": time.perf_counter() - started}


def measure_again(folder: Path, path: Path | None = None) -> dict[str, Any]:
    """Measure a stored model again on the test set; what is found, and by which commit, goes to its record."""
    experiment, model, found = stored(folder)
    data: Batch = experiment.data("test", path, found["configuration"]["limit"])
    torch.manual_seed(experiment.seed)
    found["measured"] = experiment.measure(model, data)
    found["measured_by"] = record.commit()
    record.write(found, folder)
    return found
