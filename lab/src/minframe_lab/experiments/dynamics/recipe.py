"""The dynamics experiment: an energy learned in one kind of frames, then integrated."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments import record
from minframe_lab.experiments.dynamics import data, molecules
from minframe_lab.experiments.dynamics.backbone import PairNetwork
from minframe_lab.experiments.dynamics.errors import errors
from minframe_lab.experiments.dynamics.motion import of_the_potential, trajectories
from minframe_lab.experiments.dynamics.poses import Shown, centred, poses
from minframe_lab.experiments.dynamics.training import Posed, Turned, with_forces
from minframe_lab.experiments.experiment import Advance, Batch, Experiment, Recipe

METHODS = ("minimal", "pca", "smooth", "drawn", "plain")
SMOOTH = ("smooth", "drawn")
STARTS = ("minimal", "plain")
TYPES = {"pos": "point", "species": "node"}


class Centred(nn.Module):
    """A model of molecules whose mean is at the origin, which leaves rotations to be learned from random ones."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, pos: Tensor, species: Tensor, mask: Tensor) -> Tensor:
        return cast(Tensor, self.backbone(centred(pos, mask), species, mask))


@dataclass(frozen=True, kw_only=True)
class Dynamics(Experiment):
    """Energies and forces of four molecules, and what they conserve in motion.

    Attributes:
        sharpness: of smooth frames.
        start: how the training begins: ``"minimal"``, in hard frames, which only smooth ones ask for; or ``"plain"``,
            without a frame in random orientations, for all methods.
        warm: share of the training that goes on as ``start`` says.
        agreement: weight in the loss of the variance of energies over the poses of a sample.
        picoseconds: length of the paths. Those at half the step have an eighth of the steps.
        repeats: how many paths each molecule takes, from velocities of their own.
    """

    name: ClassVar[str] = "dynamics"
    score_name: ClassVar[str] = "force_mae"

    recipe: Recipe = field(
        default_factory=lambda: Recipe(
            epochs=32, batch_size=64, learning_rate=3e-3, warmup=0.05, ema=0.99, validate_every=8, clip=1.0
        )
    )
    sharpness: float = 16.0
    start: str = "minimal"
    warm: float = 0.75
    agreement: float = 0.0
    picoseconds: float = 20.0
    repeats: int = 6

    def data(
        self, split: str, path: Path | None = None, limit: int | None = None, advance: Advance = lambda _: None
    ) -> Batch:
        if path is not None:
            raise ValueError("the data of this experiment are generated; --data has no use here")
        return data.load(split, limit, advance)

    def model(self) -> nn.Module:
        backbone = PairNetwork(len(molecules.KINDS_OF_ATOMS))
        return Centred(backbone) if self.method == "plain" else self._wrapped(backbone, self.method)

    def _wrapped(self, backbone: nn.Module, method: str) -> mf.Invariant:
        frames: dict[str, mf.frames.Method] = {
            "minimal": mf.frames.Unordered(),
            "pca": mf.frames.PCA(),
            "smooth": mf.frames.Smooth(self.sharpness),
            "drawn": mf.frames.Smooth(self.sharpness, samples=1),
        }
        return mf.Invariant(backbone, mf.SE(3), TYPES, mask="mask", frames=frames[method])

    def trained(self, model: nn.Module, train: Batch) -> tuple[nn.Module, Batch]:
        """A module that takes the numbers of samples, whose poses are computed here, once."""
        batch = (torch.arange(len(train[0])), *train[2:])
        backbone = cast(nn.Module, model.backbone)
        turned = Turned(Centred(backbone), train)
        if self.method == "plain":
            return Posed(backbone, turned, turned, 0), batch
        draw = self.method in ("drawn", "pca")  # of the poses of PCA frames, which have one weight, one at a time
        late = Shown(backbone, poses(cast(mf.Invariant, model), train), train[1], train[2], train[3], draw)
        early: nn.Module = turned
        if self.start == "minimal":
            if self.method not in SMOOTH:
                return Posed(backbone, late, late, 0), batch
            early = Shown(backbone, poses(self._wrapped(backbone, "minimal"), train), train[1], train[2], train[3])
        steps = (len(train[0]) // self.recipe.batch_size or 1) * self.recipe.epochs
        return Posed(backbone, early, late, round(self.warm * steps)), batch

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Of what ``trained`` returns."""
        energy, force, spread = model(batch[0])
        return _loss(energy, force, batch[1:]) + self.agreement * spread.mean()

    def score(self, model: nn.Module, data: Batch) -> float:
        return self.evaluate(model, data)["force_mae"]

    def evaluate(self, model: nn.Module, data: Batch) -> dict[str, float]:
        """Mean absolute errors, in eV and eV per angstrom, over all and for each molecule."""
        energy, force = in_parts(model, data)
        return errors(energy - data[3], force - data[4], data[2])

    def measure(self, model: nn.Module, data: Batch) -> dict[str, Any]:
        """Poses, times, errors under rotations, what frames contribute, and paths of all molecules."""
        found: dict[str, Any] = {"seconds": _median_seconds(lambda: with_forces(model, tuple(x[:64] for x in data)))}
        few = tuple(x[: self.recipe.batch_size] for x in data)
        model.train()
        found["seconds_of_training_step"] = _median_seconds(lambda: _step(model, few))
        model.zero_grad()
        model.eval()
        if self.method != "plain":
            found |= self._of_frames(cast(mf.Invariant, model), data)
        return found | trajectories(model.double(), self.picoseconds, self.repeats)

    def _of_frames(self, model: mf.Invariant, data: Batch) -> dict[str, Any]:
        """Mean poses, parts of the forces, and errors of the same weights in hard frames."""
        backbone = cast(nn.Module, model.backbone)
        shown = Shown(backbone, poses(model, data), data[1], data[2], data[3])
        count = torch.bincount(shown.found.sample)
        kinds = len(molecules.NAMES)
        hard = in_parts(self._wrapped(backbone, "minimal").eval(), data)
        return {
            "poses": {name: float(count[i::kinds].double().mean()) for i, name in enumerate(molecules.NAMES)},
            "parts_of_forces": shown.parts(torch.arange(len(data[0]))),
            "in_hard_frames": errors(hard[0] - data[3], hard[1] - data[4], data[2]),
        }


def in_parts(model: nn.Module, data: Batch, size: int = 200) -> tuple[Tensor, Tensor]:
    """Energies and forces, computed for some samples at a time."""
    found = [with_forces(model, tuple(x[i : i + size] for x in data)) for i in range(0, len(data[0]), size)]
    return torch.cat([e for e, _ in found]), torch.cat([f for _, f in found])


def _loss(energy: Tensor, force: Tensor, batch: Batch) -> Tensor:
    """Mean squares of what energies and forces differ by from those of a batch of masks, energies and forces."""
    return (force - batch[2])[batch[0]].square().mean() + (energy - batch[1]).square().mean()


def _step(model: nn.Module, batch: Batch) -> None:
    """Gradients of the loss, through the frames."""
    energy, force = with_forces(model, batch, training=True)
    torch.autograd.backward(_loss(energy, force, batch[2:]))


def _median_seconds(function: Callable[[], object], rounds: int = 7) -> float:
    """Seconds of the processor for a call, the median."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return sorted(times)[rounds // 2]


def run_potential(experiment: Dynamics, folder: Path) -> dict[str, Any]:
    """Integrate the potential that is learned, and write what it conserves to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    found = record.begin(experiment.name, experiment.configuration() | {"limit": None})
    started = time.process_time()
    measured = of_the_potential(experiment.picoseconds, experiment.repeats)
    found |= {"complete": True, "seconds": round(time.process_time() - started, 1), "measured": measured}
    record.write(found, folder)
    return found
