"""How many pairs of graphs stay together under random networks, how invariant these are, and what that costs."""

from __future__ import annotations

import statistics
import time
from typing import Any, cast

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments.experiment import Batch
from minframe_lab.experiments.graphs.backbones import backbone

TYPES = {"adjacency": "edge", "colour": "node"}
THRESHOLD = 1e-3
GRAPHS_TIMED, LEAST_ROUNDS, MOST_ROUNDS = 3000, 7, 200


def graph_frames(method: str, samples: int = 16) -> mf.frames.Method:
    """Frames of graphs: the minimal one, ``samples`` orders that sort, or a single random one of these."""
    if method == "minimal":
        return mf.frames.Minimal()
    return mf.frames.Sorting(samples=samples if method == "pca" else 1)


def symmetric(network: nn.Module, method: str, samples: int = 16) -> nn.Module:
    """A network of graphs made invariant by a method."""
    if method == "plain":
        return network
    return mf.Invariant(network, mf.S(), inputs=TYPES, mask="mask", frames=graph_frames(method, samples))


def _as_seen(adjacency: Tensor, colour: Tensor) -> tuple[Tensor, Tensor]:
    return adjacency, colour


def canonical(adjacency: Tensor, colour: Tensor, mask: Tensor | None) -> Batch:
    """Graphs in their canonical order, which is found once for any number of networks."""
    shown = mf.Invariant(_as_seen, mf.S(), inputs=TYPES, mask="mask")(adjacency, colour, mask=mask)
    return cast(Batch, shown)


def together(embedding: Tensor, pairs: Tensor | None) -> Tensor:
    """The pairs ``(P, 2)`` whose embeddings are within the threshold, of those given or of all."""
    if pairs is not None:
        near = (embedding[pairs[:, 0]] - embedding[pairs[:, 1]]).abs().sum(-1) <= THRESHOLD
        return pairs[near]
    found = []
    for start in range(0, len(embedding), 512):
        near = torch.cdist(embedding[start : start + 512], embedding, p=1) <= THRESHOLD
        i, j = near.nonzero(as_tuple=True)
        found.append(torch.stack([i + start, j], -1)[i + start < j])
    return torch.cat(found)


class Separation:
    """Pairs that no network so far has told apart. All of it is in ``state``, so that it can go on later."""

    def __init__(self, graphs: Batch, name: str, method: str, seed: int, pairs: Tensor | None, samples: int = 16):
        self.adjacency, self.colour = graphs[:2]
        self.mask = graphs[2] if len(graphs) > 2 else None
        self.name, self.method, self.seed, self.samples = name, method, seed, samples
        self.pairs = pairs
        self.done = 0
        self.seconds = 0.0
        started = time.perf_counter()
        if method == "minimal":
            self.adjacency, self.colour = canonical(self.adjacency, self.colour, self.mask)
        self.seconds += time.perf_counter() - started

    @property
    def finished(self) -> bool:
        """Whether nothing is left to tell apart."""
        return self.done > 0 and self.pairs is not None and len(self.pairs) == 0

    @torch.no_grad()
    def step(self) -> int:
        """Try one more random network; how many pairs are left."""
        started = time.perf_counter()
        torch.manual_seed(1_000_003 * (self.seed + 1) + self.done)
        n, colours = self.adjacency.shape[-1], self.colour.shape[-1]
        network = backbone(self.name, n, colours, ordered=self.method != "plain").eval()
        model = network if self.method == "minimal" else symmetric(network, self.method, self.samples)
        parts = []
        for i in range(0, len(self.adjacency), 1000):
            part = slice(i, i + 1000)
            mask = None if self.mask is None else self.mask[part]
            parts.append(model(self.adjacency[part], self.colour[part], mask=mask))
        self.pairs = together(torch.cat(parts), self.pairs)
        self.done += 1
        self.seconds += time.perf_counter() - started
        return len(self.pairs)

    def state(self) -> dict[str, Any]:
        return {"done": self.done, "pairs": self.pairs, "seconds": self.seconds}

    def load(self, state: dict[str, Any]) -> None:
        self.done, self.pairs, self.seconds = state["done"], state["pairs"], state["seconds"]


def contenders(samples: tuple[int, ...]) -> dict[str, tuple[str, int]]:
    """Methods and their numbers of samples, by the names that tables have for them."""
    return {"plain": ("plain", 1), "minimal": ("minimal", 1)} | {f"FA, {k} samples": ("pca", k) for k in samples}


@torch.no_grad()
def invariance_errors(
    graphs: Tensor, samples: tuple[int, ...], seed: int = 0, networks: int = 10, count: int = 1000
) -> dict[str, float]:
    """Of the perceptron by every method: the mean of |f(g x) - f(x)| over outputs and graphs.

    All methods see the same graphs, permutations and networks.
    """
    torch.manual_seed(seed)
    chosen = graphs[torch.randperm(len(graphs))[:count]]
    colour = chosen.new_zeros(*chosen.shape[:2], 0)
    errors: dict[str, list[float]] = {name: [] for name in contenders(samples)}
    for _ in range(networks):
        network = backbone("mlp", chosen.shape[-1], 0)
        moved = mf.S().act(mf.S().random(len(chosen), n=chosen.shape[-1]), chosen, "edge")
        for name, (method, k) in contenders(samples).items():
            model = symmetric(network, method, k)
            errors[name].append(float((model(moved, colour) - model(chosen, colour)).abs().mean()))
    return {name: statistics.mean(e) for name, e in errors.items()}


@torch.no_grad()
def seconds_each(graphs: Tensor, samples: tuple[int, ...], batch: int) -> dict[str, float]:
    """Median seconds for a graph by every method in batches; methods take turns, so times compare.

    Of the processor, which other work on the machine does not add to.
    """
    network = backbone("mlp", graphs.shape[-1], 0)
    models = {name: symmetric(network, method, k) for name, (method, k) in contenders(samples).items()}
    times: dict[str, list[float]] = {name: [] for name in models}
    rounds = min(MOST_ROUNDS, max(LEAST_ROUNDS, GRAPHS_TIMED // batch))
    for i in range(rounds):
        start = i * batch % (len(graphs) - batch + 1)
        part = graphs[start : start + batch]
        for name, model in models.items():
            started = time.process_time()
            model(part, part.new_zeros(*part.shape[:2], 0))
            times[name].append((time.process_time() - started) / batch)
    return {name: statistics.median(t) for name, t in times.items()}
