"""The dynamics experiment: an energy learned in one kind of frames, then integrated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments import record
from minframe_lab.experiments.dynamics import data, molecules, verlet
from minframe_lab.experiments.dynamics.backbone import SetTransformer
from minframe_lab.experiments.experiment import Advance, Batch, Experiment, Recipe

METHODS = ("minimal", "pca", "smooth", "drawn", "plain")
TYPES = {"pos": "point", "species": "node"}
STEPS = (0.5, 0.25)  # fs
ORIENTATIONS = 115
SHOWN = 250  # points of a path that are kept


class Centred(nn.Module):
    """A model of molecules whose mean is at the origin, which leaves rotations to be learned from random ones."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, pos: Tensor, species: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1)
        centre = (pos * real).sum(-2, keepdim=True) / real.sum(-2, keepdim=True)
        return cast(Tensor, self.backbone((pos - centre) * real, species, mask))


class WarmedUp(nn.Module):
    """A model in smooth frames, whose backbone is trained in hard frames first.

    The force in smooth frames has a term ``sum_k grad w_k f(pose k)``. It is small where the backbone gives all poses
    of a molecule the same energy, and noise where it knows nothing yet. In the first ``steps`` steps of the training it
    is spared this, and sees one pose of each sample.
    """

    calls: Tensor

    def __init__(self, smooth: mf.Invariant, hard: mf.Invariant, steps: int) -> None:
        super().__init__()
        self.smooth = smooth
        self.hard = [hard]  # in a list, so that the backbone that they share is found once
        self.steps = steps
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, pos: Tensor, species: Tensor, mask: Tensor) -> Tensor:
        if self.training and int(self.calls) < self.steps:
            self.calls += 1
            return cast(Tensor, self.hard[0](pos, species, mask=mask))
        return cast(Tensor, self.smooth(pos, species, mask=mask))


def with_forces(model: Callable[..., Tensor], batch: Batch, training: bool = False) -> tuple[Tensor, Tensor]:
    """Energies ``(B,)`` of positions, elements and mask, and forces ``(B, n, 3)``, less the gradient."""
    with torch.enable_grad():
        pos = batch[0].detach().requires_grad_()
        energy = model(pos, batch[1], mask=batch[2])
        (gradient,) = torch.autograd.grad(energy.sum(), pos, create_graph=training)
    return (energy if training else energy.detach()), -gradient


@dataclass(frozen=True, kw_only=True)
class Dynamics(Experiment):
    """Energies and forces of four molecules, and what they conserve in motion.

    Attributes:
        sharpness: of smooth frames.
        warm: share of the training in smooth frames that goes on in hard ones, at the beginning.
        picoseconds: length of the paths. Those at half the step have as many steps, and half the length.
    """

    name: ClassVar[str] = "dynamics"
    score_name: ClassVar[str] = "force_mae"

    recipe: Recipe = field(
        default_factory=lambda: Recipe(
            epochs=24, batch_size=32, learning_rate=3e-3, warmup=0.05, ema=0.99, validate_every=2, clip=1.0
        )
    )
    sharpness: float = 16.0
    warm: float = 0.6
    picoseconds: float = 20.0

    def data(
        self, split: str, path: Path | None = None, limit: int | None = None, advance: Advance = lambda _: None
    ) -> Batch:
        if path is not None:
            raise ValueError("the data of this experiment are generated; --data has no use here")
        return data.load(split, limit, advance)

    def model(self) -> nn.Module:
        backbone = SetTransformer(len(molecules.ELEMENTS))
        if self.method == "plain":
            return Centred(backbone)
        frames: dict[str, mf.frames.Method] = {
            "minimal": mf.frames.Unordered(),
            "pca": mf.frames.PCA(),
            # Moments keep poses few in large round clouds; in small molecules they turn fast, and forces suffer.
            "smooth": mf.frames.Smooth(self.sharpness, moments=False),
            "drawn": mf.frames.Smooth(self.sharpness, samples=1, moments=False),
        }

        def wrapped(method: str) -> mf.Invariant:
            return mf.Invariant(backbone, mf.SE(3), TYPES, mask="mask", frames=frames[method])

        if self.method in ("smooth", "drawn") and self.warm:
            steps = len(molecules.NAMES) * data.COUNTS["train"] // self.recipe.batch_size * self.recipe.epochs
            return WarmedUp(wrapped(self.method), wrapped("minimal"), round(self.warm * steps))
        return wrapped(self.method)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        pos, species, mask, energy, force = batch
        if self.method == "plain":
            turn = mf.SO(3).random(len(pos), dtype=pos.dtype, device=pos.device)
            pos, force = pos @ turn.mT, force @ turn.mT
        found, pull = with_forces(model, (pos, species, mask), training=True)
        return (pull - force)[mask].square().mean() + (found - energy).square().mean()

    def score(self, model: nn.Module, data: Batch) -> float:
        return self.evaluate(model, data)["force_mae"]

    def evaluate(self, model: nn.Module, data: Batch) -> dict[str, float]:
        """Mean absolute errors, in eV and eV per angstrom, over all and for each molecule."""
        parts = [tuple(x[i : i + 200] for x in data) for i in range(0, len(data[0]), 200)]
        found = [with_forces(model, part) for part in parts]
        mask = data[2]
        energy = torch.cat([e for e, _ in found]) - data[3]
        force = torch.cat([f for _, f in found]) - data[4]
        result = {"energy_mae": float(energy.abs().mean()), "force_mae": float(force[mask].abs().mean())}
        for number, name in enumerate(molecules.NAMES):
            one = slice(number, None, len(molecules.NAMES))
            result[f"force_mae_{name}"] = float(force[one][mask[one]].abs().mean())
        return result

    def measure(self, model: nn.Module, data: Batch) -> dict[str, Any]:
        """Poses, times, errors under rotations, and paths of all molecules at once with two lengths of steps."""
        found: dict[str, Any] = {"seconds": _median_seconds(lambda: with_forces(model, tuple(x[:64] for x in data)))}
        few = tuple(x[: self.recipe.batch_size] for x in data)
        model.train()
        found["seconds_of_training_step"] = _median_seconds(lambda: torch.autograd.backward(self.loss(model, few)))
        model.zero_grad()
        model.eval()
        if self.method in ("smooth", "drawn"):
            smooth = model.smooth if isinstance(model, WarmedUp) else model
            found["poses"] = _poses(cast(mf.Invariant, smooth), data)
        return found | trajectories(model.double(), self.picoseconds)


def trajectories(model: nn.Module, picoseconds: float, advance: Advance = lambda _: None) -> dict[str, Any]:
    """What paths in a learned energy conserve, and its errors under rotations; in float64."""
    model.requires_grad_(False)  # a step then takes no gradients but those of the positions
    positions, velocities = data.starts()
    species = molecules.species()
    kinds, steps = len(molecules.NAMES), torch.tensor(STEPS, dtype=torch.float64)
    count, started = round(1000 * picoseconds / STEPS[0]), time.process_time()

    def twice(x: Tensor) -> Tensor:
        return torch.cat([x] * len(STEPS))

    fixed = (twice(species), twice(species).sum(-1) > 0)
    paths = verlet.integrate(
        lambda x: with_forces(model, (x, *fixed)),
        twice(positions),
        twice(velocities),
        twice(molecules.masses()),
        steps.repeat_interleave(kinds),
        count,
        advance,
    )
    rows = [(paths.energy[:, i], paths.momentum[:, i], paths.angular[:, i]) for i in range(kinds * len(STEPS))]
    return {
        "orientations": orientation_error(model),
        "seconds_per_step": (time.process_time() - started) / (len(paths.energy) - 1),
        **described(rows[:kinds], rows[kinds:]),
    }


def described(full: Sequence[Batch], half: Sequence[Batch]) -> dict[str, Any]:
    """What paths ``(steps + 1, ...)`` of each molecule conserve, with the first and the second of ``STEPS``.

    The two are compared over the first quarter of the time of the former.
    """
    quarter = (len(full[0][0]) - 1) // 4 + 1
    found: dict[str, Any] = {"paths": {}, "halved": {}, "energy": {}}
    for name, long, short in zip(molecules.NAMES, full, half, strict=True):
        found["paths"][name] = verlet.summary(long, STEPS[0])
        pair = [verlet.summary([x[:quarter] for x in long], STEPS[0])]
        pair.append(verlet.summary([x[: 2 * quarter - 1] for x in short], STEPS[1]))
        found["halved"][name] = {f"{step:g}": values for step, values in zip(STEPS, pair, strict=True)}
        every = max(1, (len(long[0]) - 1) // SHOWN)
        found["energy"][name] = [round(float(e), 7) for e in long[0][::every]]
    return found


def of_the_potential(picoseconds: float, advance: Advance = lambda _: None) -> dict[str, Any]:
    """The same of the potential itself, integrated by ASE."""
    count = round(1000 * picoseconds / STEPS[0])
    return described(data.reference(STEPS[0], count, advance), data.reference(STEPS[1], count // 2, advance))


def orientation_error(model: nn.Module) -> dict[str, float]:
    """The range of the energies of each molecule, thermally displaced, in 115 random orientations, in eV; float64."""
    pos, species, mask, _, _ = (x[: len(molecules.NAMES)] for x in data.load("validation"))
    generator = torch.Generator().manual_seed(0)
    turns = mf.SO(3).random(ORIENTATIONS, dtype=torch.float64, generator=generator)
    found = {}
    for number, name in enumerate(molecules.NAMES):
        turned = pos[number].double() @ turns.mT
        batch = (turned, species[number].double().expand(ORIENTATIONS, -1, -1), mask[number].expand(ORIENTATIONS, -1))
        with torch.no_grad():
            energy = model(batch[0], batch[1], mask=batch[2])
        found[name] = float(energy.max() - energy.min())
    return found


def _poses(model: mf.Invariant, data: Batch) -> dict[str, float]:
    """Mean number of poses of each molecule in the heat bath."""
    kinds = len(molecules.NAMES)
    found = {}
    for number, name in enumerate(molecules.NAMES):
        pos, species, mask = (x[number::kinds] for x in data[:3])
        found[name] = float(cast(Any, model.frame(pos, species, mask=mask)).poses.double().mean())
    return found


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
    measured = of_the_potential(experiment.picoseconds)
    found |= {"complete": True, "seconds": round(time.process_time() - started, 1), "measured": measured}
    record.write(found, folder)
    return found
