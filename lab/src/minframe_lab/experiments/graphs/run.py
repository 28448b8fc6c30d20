"""Runs of the separation experiments: nothing is trained, but random networks are tried one after another."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from minframe_lab.experiments import record
from minframe_lab.experiments.graphs import data
from minframe_lab.experiments.graphs.separation import Separation, invariance_errors, seconds_each
from minframe_lab.experiments.run import Bars

SAMPLES = (1, 4, 16, 64)
BATCHES = (1, 100, 1000, 11_117)


@dataclass(frozen=True)
class Separate:
    """How many pairs of graphs random networks leave together.

    Attributes:
        name: ``"graph8c"``, all pairs of all connected graphs on eight nodes, or ``"exp"``, 600 pairs.
        backbone: ``"mlp"`` or ``"gin"``.
        method: ``"minimal"``, ``"pca"`` (orders that sort), ``"stochastic"`` (one of them) or ``"plain"``.
        seed: of the networks.
        initialisations: how many networks at most; none is needed once all pairs are apart.
        limit: use that many graphs only.
        published: whether the graphs were read from a file.
    """

    name: str
    backbone: str = "mlp"
    method: str = "minimal"
    seed: int = 0
    initialisations: int = 100
    limit: int | None = None
    published: bool = False

    def graphs(self, path: Path | None, bars: Bars) -> tuple[torch.Tensor, ...]:
        """Adjacency, colours and, where sizes differ, a mask."""
        if self.name == "exp":
            return tuple(x[: self.limit] for x in data.exp(path)[:3])
        adjacency = data.graph8c(path, bars.counter("graphs"))[: self.limit]
        return adjacency, adjacency.new_zeros(*adjacency.shape[:2], 0)

    def start(self, graphs: tuple[torch.Tensor, ...]) -> Separation:
        """With all pairs still together."""
        pairs = torch.arange(len(graphs[0])).view(-1, 2) if self.name == "exp" else None
        return Separation(graphs, self.backbone, self.method, self.seed, pairs)


def run(experiment: Separate, folder: Path, path: Path | None = None, bars: Bars | None = None) -> dict[str, Any]:
    """Count the pairs, go on with what is there, and write everything to a folder."""
    bars = bars or Bars(quiet=True)
    found = record.begin(experiment.name, asdict(experiment))
    checkpoint = folder / record.CHECKPOINT
    record.check_free(found, folder)
    state = _state(experiment, checkpoint) if checkpoint.exists() else None
    record.prepare(found, folder)
    with bars:
        graphs = experiment.graphs(path, bars)
        separation = experiment.start(graphs)
        if state is not None:
            separation.load(state)
        to = bars.bar("networks", experiment.initialisations)
        while separation.done < experiment.initialisations and not separation.finished:
            left = separation.step()
            to(separation.done, f"{left} pairs left")
            record.save(separation.state() | {"configuration": asdict(experiment)}, checkpoint)
    assert separation.pairs is not None
    found |= {
        "complete": True,
        "seconds": round(separation.seconds, 1),
        "graphs": len(graphs[0]),
        "networks": separation.done,
        "test": {"unseparated": len(separation.pairs)},
    }
    if experiment.name == "graph8c" and experiment.method == "minimal" and experiment.backbone == "mlp":
        shuffled = graphs[0][torch.randperm(len(graphs[0]), generator=torch.Generator().manual_seed(experiment.seed))]
        found["measured"] = {
            "invariance_error": invariance_errors(graphs[0], SAMPLES, experiment.seed),
            "seconds": {str(b): seconds_each(shuffled, SAMPLES, b) for b in BATCHES if b <= len(shuffled)},
        }
    record.write(found, folder)
    return found


def _state(experiment: Separate, checkpoint: Path) -> dict[str, Any]:
    """What a run with the same settings has come to."""
    state = record.load(checkpoint)
    if not isinstance(state, dict) or "configuration" not in state:
        raise record.damaged(checkpoint, KeyError("no configuration"))
    there = state["configuration"]
    record.check_same(experiment.name, asdict(experiment), there.get("name", "other"), there, checkpoint.parent)
    return state


def stored(folder: Path) -> Separate:
    """The experiment of a folder."""
    try:
        return Separate(**record.read_finished(folder)["configuration"])
    except TypeError as error:
        raise ValueError(f"{folder / record.METRICS} has settings that are not known here ({error})") from None


def repeat(folder: Path, path: Path | None = None, bars: Bars | None = None) -> dict[str, Any]:
    """Do a stored run again: what comes out now, what was recorded, and the seconds that took."""
    started = time.perf_counter()
    experiment, bars = stored(folder), bars or Bars(quiet=True)
    with bars:
        separation = experiment.start(experiment.graphs(path, bars))
        while separation.done < experiment.initialisations and not separation.finished:
            separation.step()
    assert separation.pairs is not None
    now = {"unseparated": len(separation.pairs)}
    return {"recorded": record.read(folder)["test"], "now": now, "seconds": time.perf_counter() - started}
