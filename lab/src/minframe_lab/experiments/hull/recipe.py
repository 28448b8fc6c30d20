"""The convex hull experiment: volumes that neither the order of the points nor a rotation changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments import plots
from minframe_lab.experiments.experiment import Advance, Batch, Experiment, Recipe
from minframe_lab.experiments.hull import data
from minframe_lab.experiments.hull.backbone import CloudNetwork
from minframe_lab.experiments.methods import frames_of
from minframe_lab.experiments.trainer import in_parts, resampled_error

D = data.DIMENSION
GROUP = mf.S() * mf.O(D)


def centred(x: Tensor) -> Tensor:
    """Points relative to their mean: volumes do not depend on where they are."""
    return x - x.mean(1, keepdim=True)


def by_length(x: Tensor) -> Tensor:
    """Points in the order of their distance from the mean, for methods that do not know permutations."""
    return x.gather(1, x.norm(dim=-1).argsort(1).unsqueeze(-1).expand_as(x))


class Volume(nn.Module):
    """The volume of each cloud ``(B, n, d)``, from a network that sees canonical poses.

    With ``shear`` the pose is that of a larger group, all invertible matrices, under which a volume is not invariant
    but known all the same: ``vol(x g^T) = |det g| vol(x)``. The network then has to know the volumes of clouds without
    any correlation between coordinates only, which differ far less than those of all clouds.
    """

    def __init__(self, network: nn.Module, method: str, shear: bool) -> None:
        super().__init__()
        self.method = method
        self.shear = shear
        model = network
        if method == "minimal" and not shear:
            model = mf.Invariant(network, GROUP)
        elif method in ("pca", "stochastic"):
            model = mf.Invariant(network, mf.O(D), frames=frames_of(method))
        self.model = model

    def pose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the model is shown, and the factor ``(B,)`` that its answer is multiplied with."""
        x = centred(x)
        if self.method == "minimal" and self.shear:
            x, frame = mf.canonicalize(x, mf.S() * mf.GL(D))
            return x, torch.linalg.det(frame.element[1].double()).abs().to(x.dtype)
        if self.method in ("pca", "stochastic"):
            x = by_length(x)
        return x, torch.ones_like(x[:, 0, 0])

    def forward(self, x: Tensor) -> Tensor:
        pose, factor = self.pose(x)
        return factor * cast(Tensor, self.model(pose))


@dataclass(frozen=True, kw_only=True)
class Hull(Experiment):
    """The volume of the convex hull of sixteen points in five dimensions.

    Attributes:
        shear: use how volumes change under all invertible matrices; the paper uses orthogonal ones. Only for the
            method ``"minimal"``.
        width: of the network, the paper's 32.
        rounds: of mixing both axes.
    """

    name: ClassVar[str] = "hull"

    recipe: Recipe = field(
        default_factory=lambda: Recipe(
            epochs=200, batch_size=128, learning_rate=2e-3, warmup=0.02, ema=0.999, validate_every=2, clip=1.0
        )
    )
    shear: bool = True
    width: int = 32
    rounds: int = 3

    def data(
        self, split: str, path: Path | None = None, limit: int | None = None, advance: Advance = lambda _: None
    ) -> Batch:
        if path is not None:
            stored = torch.load(path)[split]
            return tuple(x[:limit] for x in stored)
        return data.load(split, advance) if limit is None else data.generate(split, limit, advance)

    def model(self) -> nn.Module:
        network = CloudNetwork(data.POINTS, D, self.width, self.rounds, 13.5 if self.shear else 12.0)
        return Volume(network, self.method, self.shear)

    def trained(self, model: nn.Module, train: Batch) -> tuple[nn.Module, Batch]:
        """The network and all poses, which the minimal frame gives once for all epochs."""
        assert isinstance(model, Volume)
        pose, factor = model.pose(train[0])
        if self.method == "minimal" and not self.shear:
            wrapped = cast(mf.Invariant, model.model)
            return cast(nn.Module, wrapped.backbone), (mf.canonicalize(pose, GROUP)[0], factor, train[1])
        return model.model, (pose, factor, train[1])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        pose, factor, volume = batch
        return (factor * cast(Tensor, model(pose)) - volume).square().mean()

    def score(self, model: nn.Module, data: Batch) -> float:
        return self.evaluate(model, data)["mse"]

    def evaluate(self, model: nn.Module, data: Batch) -> dict[str, float]:
        error = (in_parts(model, data[:1]) - data[1]).double()
        return {"mse": float(error.square().mean()), "mae": float(error.abs().mean())}

    def measure(self, model: nn.Module, data: Batch) -> dict[str, Any]:
        """How far permutations and isometries change a volume, the worst relative to it and on average; its error."""
        x = data[0][:500]
        with torch.no_grad():
            relative = mf.testing.equivariance_error(model, GROUP, x, inputs="point", outputs="scalar")
            g = GROUP.random(len(x), n=x.shape[1])
            difference = (model(GROUP.act(g, x)) - model(x)).abs()
        each = (in_parts(model, data[:1]) - data[1]).double().square()
        return {
            "invariance_error": float(relative.max()),
            "invariance_error_l1": float(difference.double().mean()),
            "mse_error": resampled_error(each),
        }

    def draw(self, model: nn.Module, data: Batch, folder: Path) -> None:
        plots.scatter(in_parts(model, data[:1]), data[1], "volume", folder / "volumes.png")
