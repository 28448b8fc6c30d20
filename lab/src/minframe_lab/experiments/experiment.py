"""What the trainer asks of an experiment."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

Batch = tuple[Tensor, ...]
Advance = Callable[[int], None]


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Attributes:
        epochs: how often all of the training set is seen.
        batch_size: samples in a step.
        learning_rate: of Adam, at its highest.
        weight_decay: of Adam, as a part of the gradient.
        warmup: share of the steps in which the learning rate rises; behind it, it falls as a cosine does.
        final: what it falls to, as a share of the highest; 1 leaves it constant.
        ema: decay of the running average of the weights, which is what is validated and kept; 0 takes the last weights.
        validate_every: epochs between validations.
        clip: largest norm of the gradient.
    """

    epochs: int = 100
    batch_size: int = 100
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    warmup: float = 0.0
    final: float = 0.0
    ema: float = 0.0
    validate_every: int = 1
    clip: float | None = None

    def rate(self, progress: float) -> float:
        """The learning rate as a share of the highest, when ``progress`` of the steps are done."""
        if progress < self.warmup:
            return progress / self.warmup
        fallen = (progress - self.warmup) / max(1 - self.warmup, 1e-9)
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * fallen)) / 2


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """One experiment with all its settings, which a metrics file holds and which make it again.

    Attributes:
        method: ``"minimal"``, ``"pca"``, ``"stochastic"`` or ``"plain"``: how the backbone is made symmetric.
        seed: of weights, order of samples and everything random in training.
        recipe: how to train.
    """

    name: ClassVar[str]
    #: what validation measures, and its name in the history
    score_name: ClassVar[str] = "mse"

    method: str = "minimal"
    seed: int = 0
    recipe: Recipe = field(default_factory=Recipe)

    def configuration(self) -> dict[str, Any]:
        """All settings, as plain values."""
        return asdict(self)

    @classmethod
    def from_configuration(cls, configuration: dict[str, Any]) -> Experiment:
        """The experiment that has these settings."""
        return cls(**{**configuration, "recipe": Recipe(**configuration["recipe"])})

    @abstractmethod
    def data(
        self, split: str, path: Path | None = None, limit: int | None = None, advance: Advance = lambda _: None
    ) -> Batch:
        """The tensors of a split, all with samples along their first axis; ``limit`` asks for the first ones only."""

    def source(self, path: Path | None) -> dict[str, Any]:
        """Where data come from, for the metrics file; whether they are a surrogate is told by it."""
        return {}

    @abstractmethod
    def model(self) -> nn.Module:
        """A new model; its weights are drawn from PyTorch's generator."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """What a step makes smaller."""

    @abstractmethod
    def score(self, model: nn.Module, data: Batch) -> float:
        """What is to be small on the validation set."""

    @abstractmethod
    def evaluate(self, model: nn.Module, data: Batch) -> dict[str, float]:
        """All that is reported of a trained model on a set."""

    def measure(self, model: nn.Module, data: Batch) -> dict[str, Any]:
        """What else is worth knowing of a trained model, such as how symmetric it is and what it costs."""
        return {}

    def draw(self, model: nn.Module, data: Batch, folder: Path) -> None:
        """Figures of what was learned."""

    def trained(self, model: nn.Module, train: Batch) -> tuple[nn.Module, Batch]:
        """What is trained, and on what; both may leave out work that need not be done in every epoch."""
        return model, train

    def costly(self, model: nn.Module) -> nn.Module:
        """The part of a model that is worth compiling."""
        return model
