"""The top-tagging experiment: jets of top quarks against others, exactly invariant to O(1, 3) or not."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments.experiment import Advance, Batch, Experiment, Recipe
from minframe_lab.experiments.toptag import data, metrics
from minframe_lab.experiments.toptag.lorentz import random_element
from minframe_lab.experiments.toptag.networks import JetMass, MinkGNN, Transformer
from minframe_lab.experiments.trainer import in_parts

METHODS = {
    "transformer": ("minimal", "unordered", "plain", "preprocessed", "augmented"),
    "minkgnn": ("minimal", "unordered", "plain", "augmented", "invariant"),
    "mass": ("invariant",),
}
FRAMES = {"minimal": mf.frames.Minimal(), "unordered": mf.frames.Unordered()}
GROUP = mf.Lorentz(4)
RAPIDITY = 2.0  # largest, of the elements that logits are tested under
AUGMENTED_RAPIDITY = 1.0  # largest, of boosts in training
CHECKED_JETS = 1000
TIMED_JETS, TIMED_ROUNDS = 200, 5


class InFrame(nn.Module):
    """A network that sees a jet in its canonical pose, which is found in double precision.

    Frames of boosted jets in single precision would lose up to three digits.
    """

    def __init__(self, network: nn.Module, frames: mf.frames.Method) -> None:
        super().__init__()
        self.model = mf.Invariant(network, GROUP, {"p": "vector"}, mask="mask", frames=frames)

    def forward(self, p: Tensor, mask: Tensor) -> Tensor:
        return cast(Tensor, self.model(p.double(), mask=mask))

    def pose(self, p: Tensor, mask: Tensor) -> Tensor:
        """What the network is shown, in single precision."""
        return mf.canonicalize(p.double(), GROUP, "vector", mask=mask, frames=self.model.frames)[0].float()


@dataclass(frozen=True, kw_only=True)
class TopTag(Experiment):
    """Whether a jet comes from a top quark.

    Attributes:
        network: ``"transformer"``, ``"minkgnn"`` or ``"mass"``.
        jets: how many jets of the training set are used; ``None`` is all.
        constituents: hardest ones of each jet that are used.
        width: of the network; the paper's MinkGNN has 72.
        layers: of the network; the paper's MinkGNN has 6.
    """

    name: ClassVar[str] = "toptag"
    score_name: ClassVar[str] = "cross_entropy"

    recipe: Recipe = field(
        default_factory=lambda: Recipe(
            epochs=20, batch_size=128, learning_rate=1e-3, weight_decay=1e-5, warmup=0.05, ema=0.995, clip=1.0
        )
    )
    network: str = "transformer"
    jets: int | None = None
    constituents: int = 30
    width: int = 64
    layers: int = 3

    def __post_init__(self) -> None:
        known = METHODS.get(self.network)
        if known is None:
            raise ValueError(f"no network {self.network!r}: use one of {', '.join(METHODS)}")
        if self.method not in known:
            raise ValueError(f"the {self.network} has no method {self.method!r}: use one of {', '.join(known)}")

    def data(
        self, split: str, path: Path | None = None, limit: int | None = None, advance: Advance = lambda _: None
    ) -> Batch:
        wanted = [n for n in (limit, self.jets if split == "train" else None) if n is not None]
        return data.load(split, path, self.constituents, min(wanted, default=None), advance)

    def source(self, path: Path | None) -> dict[str, Any]:
        return data.source(path)

    def model(self) -> nn.Module:
        network: nn.Module
        if self.network == "mass":
            network = JetMass()
        elif self.network == "minkgnn":
            network = MinkGNN(self.width, self.layers, invariant=self.method == "invariant")
        else:
            network = Transformer(self.width, self.layers, preprocessed=self.method == "preprocessed")
        return InFrame(network, FRAMES[self.method]) if self.method in FRAMES else network

    def trained(self, model: nn.Module, train: Batch) -> tuple[nn.Module, Batch]:
        """The network and all poses, which the frame gives once for all epochs."""
        if not isinstance(model, InFrame):
            return model, train
        p, mask, label = train
        poses = in_parts(model.pose, (p, mask), 5000)
        return cast(nn.Module, model.model.backbone), (poses, mask, label)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        p, mask, label = batch
        if self.method == "augmented":
            g = random_element(len(p), AUGMENTED_RAPIDITY, orthochronous=True)
            p = (p.double() @ g.to(p.device).mT).float()
        return nn.functional.binary_cross_entropy_with_logits(model(p, mask), label)

    def score(self, model: nn.Module, data: Batch) -> float:
        return self._cross_entropy(in_parts(model, data[:2]), data[2])

    def evaluate(self, model: nn.Module, data: Batch) -> dict[str, float]:
        logits = in_parts(model, data[:2])
        found = metrics.summary(logits.double().cpu().numpy(), data[2].cpu().numpy() > 0)
        return found | {"cross_entropy": self._cross_entropy(logits, data[2])}

    @staticmethod
    def _cross_entropy(logits: Tensor, label: Tensor) -> float:
        return float(nn.functional.binary_cross_entropy_with_logits(logits.double(), label.double()))

    def measure(self, model: nn.Module, data: Batch) -> dict[str, Any]:
        """Its curve, how far elements of O(1, 3) change the logits, and what a jet costs."""
        logits = in_parts(model, data[:2]).double().cpu().numpy()
        few = tuple(x[:CHECKED_JETS] for x in data)
        return {
            "roc": metrics.curve(logits, data[2].cpu().numpy() > 0),
            "invariance_error": invariance_error(model, few),
            "invariance_error_orthochronous": invariance_error(model, few, orthochronous=True),
            "rapidity": RAPIDITY,
            "milliseconds_a_jet": 1000 * seconds_a_jet(model, tuple(x[:TIMED_JETS] for x in data)),
            "jets": {"test": len(data[0]), "background": int((data[2] == 0).sum())},
        }


@torch.no_grad()
def invariance_error(model: nn.Module, data: Batch, orthochronous: bool = False) -> float:
    """The largest change of a logit under O(1, 3), relative to the typical size of a logit; inputs in float64."""
    p, mask = data[0].double(), data[1]
    torch.manual_seed(0)
    g = random_element(len(p), RAPIDITY, orthochronous).to(p.device)
    before, after = (in_parts(model, (x, mask)).double() for x in (p, p @ g.mT))
    return float((after - before).abs().max() / before.square().mean().sqrt())


@torch.no_grad()
def seconds_a_jet(model: nn.Module, data: Batch) -> float:
    """Of the processor, for a forward pass with frames; the least of several rounds, as others use the machine too."""
    times = []
    for _ in range(TIMED_ROUNDS):
        started = time.process_time()
        model(*data[:2])
        times.append(time.process_time() - started)
    return min(times) / len(data[0])
