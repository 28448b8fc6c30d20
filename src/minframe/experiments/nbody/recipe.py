"""The n-body experiment: exact E(3) and permutation equivariance around the paper's network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations, product
from pathlib import Path
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

import minframe as mf
from minframe.experiments.experiment import Advance, Batch, Experiment, Recipe
from minframe.experiments.methods import frames_of
from minframe.experiments.nbody import data
from minframe.experiments.nbody.backbone import ParticleNetwork
from minframe.experiments.trainer import in_parts

TYPES = {"pos": "point", "vel": "vector", "charge": "scalar"}
GROUP = mf.E(3, permutation_invariant=True)


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
    between them cancel. So the mean velocity is taken from what the model sees, and the mean of what it answers is put
    where it must be after the time ``duration``.
    """

    def __init__(self, model: nn.Module, duration: float = data.DURATION) -> None:
        super().__init__()
        self.model = model
        self.duration = duration

    def forward(self, pos: Tensor, vel: Tensor, charge: Tensor) -> Tensor:
        mean = vel.mean(1, keepdim=True)
        y = self.model(pos, vel - mean, charge)
        return y + (pos - y).mean(1, keepdim=True) + self.duration * mean


def _as_seen(pos: Tensor, vel: Tensor, charge: Tensor, target: Tensor) -> Batch:
    """A backbone that tells what it is shown."""
    return pos, vel, charge, target


@dataclass(frozen=True, kw_only=True)
class NBody(Experiment):
    """Positions of five charged particles after one unit of time.

    Attributes:
        dropout: of the network; the paper has 0.1.
        copies: random poses of each sample in a step; the paper has 6.
        rest_frame: whether to use that a common velocity changes nothing; the paper does not.
        turns: fixed poses that are averaged over in validation and test: 1, 8 or 48.
    """

    name: ClassVar[str] = "nbody"

    recipe: Recipe = field(
        default_factory=lambda: Recipe(
            epochs=4000,
            batch_size=100,
            learning_rate=2e-3,
            weight_decay=5e-6,
            warmup=0.01,
            ema=0.999,
            validate_every=20,
            clip=1.0,
        )
    )
    dropout: float = 0.0
    copies: int = 1
    rest_frame: bool = True
    turns: int = 1

    def data(
        self, split: str, path: Path | None = None, limit: int | None = None, advance: Advance = lambda _: None
    ) -> Batch:
        if limit is not None and path is None:
            found = data.generate(split, limit, advance=advance)
        else:
            found = data.load(split, path, advance)[slice(limit)]
        return found.pos, found.vel, found.charge, found.target

    def model(self) -> nn.Module:
        model: nn.Module = Turned(ParticleNetwork(dropout=self.dropout), self.turns)
        if self.method != "plain":
            model = mf.Equivariant(
                model, GROUP, inputs=TYPES, outputs="point", frame_on=("pos", "vel"), frames=frames_of(self.method)
            )
        return RestFrame(model) if self.rest_frame else model

    def trained(self, model: nn.Module, train: Batch) -> tuple[nn.Module, Batch]:
        """With the minimal frame: the part inside it, and samples in their canonical pose, found once for all epochs."""
        if self.method != "minimal":
            return model, train
        pos, vel, charge, target = train
        part: nn.Module = next(m for m in model.modules() if isinstance(m, Turned))
        if self.rest_frame:
            mean = vel.mean(1, keepdim=True)
            part, vel, target = RestFrame(part), vel - mean, target - data.DURATION * mean
        types = TYPES | {"target": "point"}
        posed = mf.Invariant(_as_seen, GROUP, inputs=types, frame_on=("pos", "vel"))
        return part, posed(pos, vel, charge, target)

    def costly(self, model: nn.Module) -> nn.Module:
        return next(m for m in model.modules() if isinstance(m, ParticleNetwork))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        pos, vel, charge, target = (x.repeat(self.copies, 1, 1) for x in batch)
        return (model(pos, vel, charge) - target).abs().mean()

    def score(self, model: nn.Module, data: Batch) -> float:
        return self.evaluate(model, data)["mse"]

    def evaluate(self, model: nn.Module, data: Batch) -> dict[str, float]:
        error = in_parts(model, data[:3]) - data[3]
        return {"mse": float(error.double().square().mean()), "mae": float(error.double().abs().mean())}
