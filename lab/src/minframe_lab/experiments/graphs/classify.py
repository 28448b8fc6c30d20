"""Learning which formulas can be satisfied, from graphs that message passing cannot tell apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from minframe_lab.experiments.experiment import Advance, Batch, Experiment, Recipe
from minframe_lab.experiments.graphs import data
from minframe_lab.experiments.graphs.backbones import backbone
from minframe_lab.experiments.graphs.components import components, places
from minframe_lab.experiments.graphs.separation import canonical, symmetric
from minframe_lab.experiments.trainer import in_parts

SPLITS = {"validation": (0, 200), "test": (200, 400), "train": (400, 1200)}


class Classifier(nn.Module):
    """The score ``(B,)`` of each graph, by a network made symmetric; if ``apart``, the sum over its components.

    A canonical order of the whole graph mixes the nodes of its components, so that a component which occurs in many
    graphs looks different in each. In the order of its own it always looks the same.
    """

    def __init__(self, network: nn.Module, method: str, apart: bool) -> None:
        super().__init__()
        self.network = network
        self.model = symmetric(network, method)
        self.apart = apart

    def forward(self, adjacency: Tensor, colour: Tensor, mask: Tensor) -> Tensor:
        if not self.apart:
            return cast(Tensor, self.model(adjacency, colour, mask=mask)).squeeze(-1)
        graph, part = components(adjacency, mask)
        scores = cast(Tensor, self.model(adjacency[graph], colour[graph], mask=part)).squeeze(-1)
        return scores.new_zeros(len(adjacency)).index_add(0, graph, scores)


class Posed(nn.Module):
    """The same for components ``(B, k, n, ...)`` that are in their canonical order already, some of them empty."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, adjacency: Tensor, colour: Tensor, mask: Tensor) -> Tensor:
        scores = self.network(adjacency.flatten(0, 1), colour.flatten(0, 1), mask.flatten(0, 1))
        return (cast(Tensor, scores).view(mask.shape[:2]) * mask.any(-1)).sum(1)


def posed(adjacency: Tensor, colour: Tensor, mask: Tensor, apart: bool) -> Batch:
    """Graphs or their components in canonical order, ``(B, k, n, ...)``, filled up with empty ones."""
    graph, part = components(adjacency, mask) if apart else (torch.arange(len(mask)), mask)
    shown = (*canonical(adjacency[graph], colour[graph], part), part.sort(dim=-1, descending=True)[0])
    place = places(graph)
    count = int(place.max()) + 1

    def filled(x: Tensor) -> Tensor:
        y = x.new_zeros(len(mask), count, *x.shape[1:])
        y[graph, place] = x
        return y

    return tuple(filled(x) for x in shown)


@dataclass(frozen=True, kw_only=True)
class ExpClassify(Experiment):
    """Whether a formula can be satisfied, of 1,200 that come in pairs.

    Attributes:
        backbone: ``"mlp"`` or ``"gin"``.
        apart: find the canonical order of each connected component by itself.
        published: whether the graphs are those of a file rather than the stand-in.
    """

    name: ClassVar[str] = "exp-classify"
    score_name: ClassVar[str] = "cross_entropy"

    recipe: Recipe = field(default_factory=lambda: Recipe(epochs=200, batch_size=100, learning_rate=1e-3, ema=0.99))
    backbone: str = "gin"
    apart: bool = True
    published: bool = False

    def data(
        self, split: str, path: Path | None = None, limit: int | None = None, advance: Advance = lambda _: None
    ) -> Batch:
        first, last = SPLITS[split]
        found = data.exp(path)
        advance(last - first)
        return tuple(x[first:last][:limit] for x in found)

    def model(self) -> nn.Module:
        network = backbone(self.backbone, data.SIZE, 2, ordered=self.method != "plain", out=1)
        return Classifier(network, self.method, self.apart and self.method != "plain")

    def trained(self, model: nn.Module, train: Batch) -> tuple[nn.Module, Batch]:
        """With the minimal frame: the network alone, and graphs in canonical order."""
        if self.method != "minimal":
            return model, train
        adjacency, colour, mask, label = train
        return Posed(cast(Classifier, model).network), (*posed(adjacency, colour, mask, self.apart), label)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(model(*batch[:3]), batch[3])

    def score(self, model: nn.Module, data: Batch) -> float:
        return self.evaluate(model, data)["cross_entropy"]

    def evaluate(self, model: nn.Module, data: Batch) -> dict[str, float]:
        score = in_parts(model, data[:3])
        loss = nn.functional.binary_cross_entropy_with_logits(score.double(), data[3].double())
        return {"accuracy": float(((score > 0) == (data[3] > 0)).double().mean()), "cross_entropy": float(loss)}

    def measure(self, model: nn.Module, data: Batch) -> dict[str, float]:
        """The largest change of a score when nodes are relabelled."""
        adjacency, colour, mask, _ = (x[:100] for x in data)
        order = torch.rand(mask.shape).argsort(-1)
        moved = adjacency.gather(1, order[..., None].expand_as(adjacency)).gather(
            2, order[:, None].expand_as(adjacency)
        )
        with torch.no_grad():
            changed = model(moved, colour.gather(1, order[..., None].expand_as(colour)), mask.gather(1, order))
            return {"invariance_error": float((changed - model(adjacency, colour, mask)).abs().max())}
