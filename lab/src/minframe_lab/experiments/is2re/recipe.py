"""The catalyst experiment: relaxed energies of slabs, exactly invariant to E(2) in their plane or not."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from minframe_lab.experiments import plots
from minframe_lab.experiments.experiment import Advance, Batch, Experiment, Recipe
from minframe_lab.experiments.is2re import data
from minframe_lab.experiments.is2re.backbone import SlabNetwork
from minframe_lab.experiments.is2re.plane import FRAMES, GROUP, InPlane, turned
from minframe_lab.experiments.trainer import in_parts

THRESHOLD = 0.02  # eV, within which an energy counts as right
CHECKED_SLABS = 200
TIMED_SLABS, TIMED_ROUNDS = 100, 25


@dataclass(frozen=True, kw_only=True)
class IS2RE(Experiment):
    """The energy that a slab with adsorbates relaxes to, less what its composition tells.

    Attributes:
        slabs: how many samples of the training set are used; ``None`` is all.
        cutoff: of neighbours, in Angstrom; the paper has 6.
        width: of the network; the paper has 384.
        interactions: of the network; the paper has 5.
        gaussians: of distances; the paper has 104.
    """

    name: ClassVar[str] = "is2re"
    score_name: ClassVar[str] = "mae"

    recipe: Recipe = field(
        default_factory=lambda: Recipe(epochs=12, batch_size=32, learning_rate=2e-3, warmup=0.1, ema=0.99, clip=10.0)
    )
    slabs: int | None = None
    cutoff: float = 4.5
    width: int = 64
    interactions: int = 3
    gaussians: int = 32

    def data(
        self, split: str, path: Path | None = None, limit: int | None = None, advance: Advance = lambda _: None
    ) -> Batch:
        """Tensors of the network, then targets, which of four test sets, the adsorbate's mean, and the energy."""
        train = data.read("train", path, self.slabs)  # baselines see no more of it than the network
        reference = data.fit_composition(train)
        names = data.TESTS if split == "test" else (split,)
        found = [train if name == "train" else data.read(name, path) for name in names]
        left, chosen = sum(map(len, found)) if limit is None else limit, []
        for slabs in found:  # the first samples of all test sets, one set behind the other
            chosen.append(range(min(len(slabs), left)))
            left -= len(chosen[-1])
        samples = [slabs[i] for slabs, few in zip(found, chosen, strict=True) for i in few]
        inputs = data.tensors(samples, self.cutoff, advance)

        def column(values: list[Any]) -> Tensor:
            return torch.from_numpy(np.concatenate([v[: len(few)] for v, few in zip(values, chosen, strict=True)]))

        energy = column([slabs.energy for slabs in found])
        target = energy - column([data.composition(slabs) @ reference for slabs in found])
        which = column([np.full(len(slabs), i) for i, slabs in enumerate(found)])
        means = column([data.adsorbate_means(train, slabs) for slabs in found])
        return *inputs, target.float(), which, energy - means

    def source(self, path: Path | None) -> dict[str, Any]:
        return data.source(path)

    def model(self) -> nn.Module:
        return InPlane(
            SlabNetwork(self.width, self.interactions, self.gaussians, self.cutoff), self.method, self.cutoff
        )

    def trained(self, model: nn.Module, train: Batch) -> tuple[nn.Module, Batch]:
        """The network and all poses, where a frame gives them once for all epochs."""
        assert isinstance(model, InPlane)
        if self.method not in FRAMES:
            return model, train
        numbers, tags, vectors, index, *rest = train
        posed = in_parts(model.pose, (numbers, vectors, index))
        return model.network, (numbers, tags, posed, index, *rest)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return (cast(Tensor, model(*batch[:4])) - batch[4]).abs().mean()

    def score(self, model: nn.Module, data: Batch) -> float:
        return float((in_parts(model, data[:4], 100) - data[4]).double().abs().mean())

    def evaluate(self, model: nn.Module, data: Batch) -> dict[str, float]:
        error = (in_parts(model, data[:4], 100) - data[4]).double().abs()
        return _per_split(error, data[5], "mae") | _per_split((error < THRESHOLD).double(), data[5], "within")

    def measure(self, model: nn.Module, data: Batch) -> dict[str, Any]:
        """Baselines on the same samples, how far isometries of the plane change energies, and throughput."""
        predicted = in_parts(model, data[:4], 100)
        few = tuple(x[:CHECKED_SLABS] for x in data)
        return {
            "composition": _per_split(data[4].double().abs(), data[5], "mae"),
            "adsorbate_mean": _per_split(data[6].abs(), data[5], "mae"),
            "invariance_error": invariance_error(model, few),
            "order_error": order_error(model, few),
            **throughput(model, few),
            "parity": {"predicted": predicted[::4].tolist(), "true": data[4][::4].tolist()},
        }

    def draw(self, model: nn.Module, data: Batch, folder: Path) -> None:
        predicted = in_parts(model, data[:4], 100)
        plots.scatter(predicted, data[4], "energy over composition, eV (surrogate)", folder / "energies.png")


def _per_split(values: Tensor, which: Tensor, name: str) -> dict[str, float]:
    """Means over each of the test sets that there are and over these, and the standard errors."""
    found: dict[str, float] = {}
    for i, split in enumerate(data.TESTS):
        chosen = values[which == i]
        if len(chosen) > 1:
            found[f"{name}_{split}"] = float(chosen.mean())
            found[f"{name}_{split}_error"] = float(chosen.std() / len(chosen) ** 0.5)
    means = [found[f"{name}_{split}"] for split in data.TESTS if f"{name}_{split}" in found]
    return found | {f"{name}_average": float(np.mean(means))}


@torch.no_grad()
def invariance_error(model: nn.Module, batch: Batch) -> float:
    """The mean change of an energy under isometries of the plane, in eV."""
    numbers, tags, vectors, index = batch[:4]
    torch.manual_seed(0)
    moved = turned(vectors, GROUP.random(len(vectors), dtype=torch.float64))
    return _change(model, (numbers, tags, vectors, index), (numbers, tags, moved, index))


@torch.no_grad()
def order_error(model: nn.Module, batch: Batch) -> float:
    """The mean change of an energy under new orders of atoms, in eV."""
    numbers, tags, vectors, index = batch[:4]
    torch.manual_seed(0)
    order = torch.stack([torch.randperm(numbers.shape[1]) for _ in numbers])
    rows = torch.arange(len(numbers))[:, None]
    renumbered = torch.where(index >= 0, order.argsort(1)[rows[:, :, None], index.clamp_min(0)], -1)
    return _change(model, batch[:4], tuple(x[rows, order] for x in (numbers, tags, vectors, renumbered)))


def _change(model: nn.Module, before: Batch, after: Batch) -> float:
    return float((in_parts(model, after, 100) - in_parts(model, before, 100)).double().abs().mean())


@torch.no_grad()
def throughput(model: nn.Module, batch: Batch) -> dict[str, float]:
    """Samples a second of the processor, frames included, and how many times those of stochastic FA these are.

    Others use the machine too: the first is the best of several rounds; for the rest all take turns, and the median of
    the ratios of neighbouring rounds counts. ``posed_over_stochastic`` is of a minimal frame's poses that are made once
    for a dataset, as training has them; stochastic FA draws in every pass.
    """
    assert isinstance(model, InPlane)
    inputs = tuple(x[:TIMED_SLABS] for x in batch[:4])
    passes: dict[str, tuple[nn.Module, Batch]] = {
        "samples": (model, inputs),
        "stochastic": (InPlane(model.network, "stochastic", model.cutoff).eval(), inputs),
    }
    if model.method in FRAMES:
        numbers, tags, vectors, index = inputs
        passes["posed"] = model.network, (numbers, tags, model.pose(numbers, vectors, index), index)
    times: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(TIMED_ROUNDS):
        for name, (one, seen) in passes.items():
            started = time.process_time()
            one(*seen)
            times[name].append(time.process_time() - started)

    def ratio(name: str) -> float:
        return float(np.median([a / b for a, b in zip(times["stochastic"], times[name], strict=True)]))

    found = {"samples_a_second": len(inputs[0]) / min(times["samples"]), "over_stochastic": ratio("samples")}
    return found | ({"posed_over_stochastic": ratio("posed")} if "posed" in passes else {})
