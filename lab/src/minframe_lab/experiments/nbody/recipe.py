"""The n-body experiment: exact E(3) and permutation equivariance around the paper's network."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments import plots
from minframe_lab.experiments.experiment import Advance, Batch, Experiment, Recipe
from minframe_lab.experiments.methods import POINT_METHODS, frames_of
from minframe_lab.experiments.nbody import data
from minframe_lab.experiments.nbody.backbone import ParticleNetwork
from minframe_lab.experiments.trainer import in_parts, resampled_error

TYPES = {"pos": "point", "vel": "vector", "charge": "node"}
IN_REST_FRAME = TYPES | {"pos": "vector"}


def poses(count: int) -> Tensor:
    """1, 8 or 48 isometries ``(count, 3, 3)``: the identity, changes of signs, or these with exchanges of axes."""
    orders: Iterable[tuple[int, ...]] = permutations(range(3)) if count == 48 else [(0, 1, 2)]
    signs = product((1.0, -1.0), repeat=3) if count > 1 else [(1.0, 1.0, 1.0)]
    found = [torch.diag(torch.tensor(s))[list(o)] for o, s in product(orders, signs)]
    if len(found) != count:
        raise ValueError(f"there are 1, 8 or 48 poses to average over, not {count}")
    return torch.stack(found)


class Turned(nn.Module):
    """A network of particles shown other poses than the canonical one, and its answer turned back.

    In training each sample is shown in a random pose, which keeps the network from learning by heart a canonical pose
    that jumps. Otherwise it is shown in ``count`` fixed poses, whose answers are averaged. They are fixed with respect
    to the canonical pose, so the whole is as equivariant as with one of them.
    """

    def __init__(self, network: nn.Module, count: int = 1) -> None:
        super().__init__()
        self.network = network
        self.count = count

    def forward(self, pos: Tensor, vel: Tensor, charge: Tensor) -> Tensor:
        if self.training:
            turn = mf.O(3).random(len(pos), dtype=pos.dtype, device=pos.device)
            return self.network(pos @ turn.mT, vel @ turn.mT, charge) @ turn
        if self.count == 1:
            return cast(Tensor, self.network(pos, vel, charge))
        turns = poses(self.count).to(pos)
        answers = [self.network(pos @ turn.mT, vel @ turn.mT, charge) @ turn for turn in turns]
        return torch.stack(answers).mean(0)


class RestFrame(nn.Module):
    """A model of particles as seen by somebody who moves with them.

    Nothing in mechanics depends on a common velocity of all particles, and their mean moves uniformly, because forces
    between them cancel. So their mean position and velocity are taken from what the model sees, and the mean of what it
    answers is put where it must be after the time ``duration``.
    """

    def __init__(self, model: nn.Module, duration: float = data.DURATION) -> None:
        super().__init__()
        self.model = model
        self.duration = duration

    def forward(self, pos: Tensor, vel: Tensor, charge: Tensor) -> Tensor:
        centre, velocity = pos.mean(1, keepdim=True), vel.mean(1, keepdim=True)
        y = self.model(pos - centre, vel - velocity, charge)
        return y - y.mean(1, keepdim=True) + centre + self.duration * velocity


def _as_seen(pos: Tensor, vel: Tensor, charge: Tensor, target: Tensor) -> Batch:
    """A backbone that tells what it is shown."""
    return pos, vel, charge, target


@dataclass(frozen=True, kw_only=True)
class NBody(Experiment):
    """Positions of five charged particles after one unit of time.

    Attributes:
        edges: what the network is told of a pair of particles, ``"potential"``, or ``"fourth"`` as in the paper.
        dropout: of the network; the paper has 0.1.
        copies: random poses of each sample in a step; the paper has 6.
        together: whether the loss is of the mean answer over these poses, as that of FA is over its own, and not of
            each answer.
        rest_frame: whether to use that a common velocity changes nothing; the paper does not. Positions are then
            relative to their mean, so that only rotations and reflections are left for the frame to deal with. The
            frame is taken of positions alone: were they all in a plane, velocities out of it would not be seen.
        turns: fixed poses that are averaged over in validation and test: 1, 8 or 48.
    """

    name: ClassVar[str] = "nbody"

    recipe: Recipe = field(
        default_factory=lambda: Recipe(
            epochs=2400,
            batch_size=100,
            learning_rate=2e-3,
            weight_decay=5e-6,
            warmup=0.01,
            ema=0.999,
            validate_every=20,
            clip=1.0,
        )
    )
    edges: str = "potential"
    dropout: float = 0.0
    copies: int = 1
    together: bool = False
    rest_frame: bool = True
    turns: int = 1

    @property
    def _symmetry(self) -> tuple[mf.Group, dict[str, str]]:
        """The group that the frame belongs to, and the types of inputs; the output moves as positions do."""
        if self.rest_frame:
            return mf.O(3), IN_REST_FRAME
        return mf.E(3), TYPES

    def data(
        self, split: str, path: Path | None = None, limit: int | None = None, advance: Advance = lambda _: None
    ) -> Batch:
        if limit is not None and path is None:
            found = data.generate(split, limit, advance=advance)
        else:
            found = data.load(split, path, advance)[slice(limit)]
        return found.pos, found.vel, found.charge, found.target

    def model(self) -> nn.Module:
        model: nn.Module = Turned(ParticleNetwork(dropout=self.dropout, edges=self.edges), self.turns)
        if self.method != "plain":
            group, types = self._symmetry
            frames = frames_of(self.method, unordered=True)
            model = mf.Equivariant(model, group, types, types["pos"], frame_on="pos", frames=frames)
        return RestFrame(model) if self.rest_frame else model

    def trained(self, model: nn.Module, train: Batch) -> tuple[nn.Module, Batch]:
        """With the minimal frame: the part inside it, and samples in their canonical pose, found once for all."""
        if self.method not in ("minimal", "ordered"):
            return model, train
        pos, vel, charge, target = train
        part: nn.Module = next(m for m in model.modules() if isinstance(m, Turned))
        if self.rest_frame:
            centre, velocity = pos.mean(1, keepdim=True), vel.mean(1, keepdim=True)
            pos, vel, target = pos - centre, vel - velocity, target - centre - data.DURATION * velocity
            part = RestFrame(part)
        group, types = self._symmetry
        posed = mf.Invariant(
            _as_seen,
            group,
            types | {"target": types["pos"]},
            frame_on="pos",
            frames=frames_of(self.method, unordered=True),
        )
        return part, posed(pos, vel, charge, target)

    def costly(self, model: nn.Module) -> nn.Module:
        return next(m for m in model.modules() if isinstance(m, ParticleNetwork))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        pos, vel, charge, target = (x.repeat(self.copies, 1, 1) for x in batch)
        error = cast(Tensor, model(pos, vel, charge)) - target
        if self.together:
            error = torch.stack(error.chunk(self.copies)).mean(0)
        return error.abs().mean()

    def score(self, model: nn.Module, data: Batch) -> float:
        return self.evaluate(model, data)["mse"]

    def evaluate(self, model: nn.Module, data: Batch) -> dict[str, float]:
        error = in_parts(model, data[:3]) - data[3]
        return {"mse": float(error.double().square().mean()), "mae": float(error.double().abs().mean())}

    def measure(self, model: nn.Module, data: Batch) -> dict[str, Any]:
        """Errors averaged over more poses, relative equivariance errors, and times of a pass with a batch of 100."""
        found: dict[str, Any] = {"equivariance_error": equivariance_error(model, tuple(x[:200] for x in data))}
        weights = model.state_dict()
        for turns in (1, 8, 48):
            averaged = replace(self, turns=turns).model().eval()
            averaged.load_state_dict(weights)
            found[f"mse_{turns}"] = self.evaluate(averaged, data)["mse"]
        if self.method == "pca":  # what one of its poses says by itself
            single = replace(self, method="minimal", turns=1).model().eval()
            single.load_state_dict(weights)
            found["mse_one_pose"] = self.evaluate(single, data)["mse"]
        found["mse_error"] = resampled_error((in_parts(model, data[:3]) - data[3]).double().square().mean((1, 2)))
        found["mse_uniform_motion"] = float((data[0] + data[1] - data[3]).double().square().mean())
        return found | {"seconds": inference_times(tuple(x[:100] for x in data[:3]))}

    def draw(self, model: nn.Module, data: Batch, folder: Path) -> None:
        pos, vel, charge, target = (x[:4] for x in data)
        with torch.no_grad():
            plots.trajectories(pos, target, model(pos, vel, charge), charge[..., 0], folder / "trajectories.png")


def equivariance_error(model: nn.Module, data: Batch) -> float:
    """The worst relative error under rotations, reflections, shifts of length 10 and permutations, all together."""
    shift = nn.functional.normalize(torch.randn(len(data[0]), 1, 3), dim=-1) * 10
    worst = 0.0
    with torch.no_grad():
        for pos in (data[0], data[0] + shift):
            error = mf.testing.equivariance_error(
                model, mf.E(3), pos, data[1], data[2], inputs=TYPES, outputs="point", permute=True
            )
            worst = max(worst, float(error.max()))
        here, there = model(*data[:3]), model(data[0] + shift, *data[1:3])
        moved = (there - shift - here).flatten(1).norm(dim=1) / (here + shift).flatten(1).norm(dim=1)
    return max(worst, float(moved.max()))


def inference_times(batch: Batch, rounds: int = 15) -> dict[str, float]:
    """Median seconds of the processor for a pass by each method; they take turns, so that times compare."""
    models = {method: NBody(method=method).model().eval() for method in POINT_METHODS}
    times: dict[str, list[float]] = {method: [] for method in POINT_METHODS}
    with torch.no_grad():
        for _ in range(rounds):
            for method, model in models.items():
                started = time.process_time()
                model(*batch)
                times[method].append(time.process_time() - started)
    return {method: statistics.median(t) for method, t in times.items()}
