"""A property of graphs, learned by a network that knows nothing of graphs: an MLP of the adjacency matrix.

Graphs are like molecules, and the property is the mean distance between atoms along bonds. The MLP sees the matrix row
by row, so that it depends on how atoms are numbered; ``mf.S()`` shows it one numbering for all. Compared with the same
MLP as it is, and with random numberings in training. All are tested on graphs as they came, and renumbered.
"""

from __future__ import annotations

import torch
from common import arguments, bars, save, show, spread, track
from molecules import N, molecule
from torch import Tensor, nn

import minframe as mf

Data = tuple[Tensor, Tensor, Tensor]  # adjacency (B, N, N), kinds of atoms (B, N, 5), the property (B,)
GROUP = mf.S()


def graphs(count: int, random: torch.Generator) -> Data:
    """Random graphs, padded with atoms of a fifth kind."""
    adjacency, kinds, property = torch.zeros(count, N, N), torch.full((count, N), 4), torch.zeros(count)
    for k in range(count):
        a, kind = molecule(random)
        n = len(a)
        far, reach = torch.zeros(n, n), torch.eye(n)
        while not reach.bool().all():
            far = far + ~reach.bool()
            reach = reach + reach @ a.float()
        adjacency[k, :n, :n], kinds[k, :n], property[k] = a, kind, far.sum() / (n * (n - 1))
    return adjacency, nn.functional.one_hot(kinds, 5).float(), property


class Flat(nn.Module):
    """An MLP of all numbers."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N * N + 5 * N, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))  # fmt: skip # noqa: E501

    def forward(self, adjacency: Tensor, kinds: Tensor) -> Tensor:
        return self.net(torch.cat([adjacency.flatten(1), kinds.flatten(1)], -1)).squeeze(-1)


def renumbered(adjacency: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
    """In random orders."""
    order = GROUP.random(len(adjacency), n=N)
    return GROUP.act(order, adjacency, "edge"), GROUP.act(order, kinds, "node")


def fit(model: nn.Module, data: Data, epochs: int, what: str, augment: bool) -> nn.Module:
    """Train on the property."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in track(range(epochs), what):
        for batch in torch.randperm(len(data[0])).split(50):
            adjacency, kinds, property = (x[batch] for x in data)
            shown = renumbered(adjacency, kinds) if augment else (adjacency, kinds)
            optimizer.zero_grad()
            (model(*shown) - property).square().mean().backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def main() -> None:
    """All models, over all seeds."""
    options = arguments(__doc__ or "")
    count, epochs, seeds = (30, 1, 1) if options.quick else (600, 12, options.seeds or 3)
    random = torch.Generator().manual_seed(0)
    train, test = graphs(count, random), graphs(max(count // 2, 10), random)
    results: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        torch.manual_seed(seed)
        framed = mf.Invariant(Flat(), GROUP, inputs={"adjacency": "edge", "kinds": "node"})
        for name, model in {"plain": Flat(), "random numberings": Flat(), "mf.S()": framed}.items():
            fit(model, train, epochs, f"{name}, seed {seed}", name == "random numberings")
            with torch.no_grad():
                shown = (test[:2], renumbered(*test[:2]))
                errors = [float((model(*x) - test[2]).abs().mean()) for x in shown]
            results[name] = [[*old, new] for old, new in zip(results.get(name, [[], []]), errors, strict=True)]
    results["the mean"] = [[float((train[2].mean() - test[2]).abs().mean())]] * 2
    columns = ("model", "as they came", "renumbered")
    show("Mean distance in graphs: mean error", columns, [(n, *map(spread, of)) for n, of in results.items()])
    save("graph_mlp", {"graphs": count, "epochs": epochs, "seeds": seeds}, results, options.quick)
    bars("graph_mlp", "mean error", results, columns[1:], options.quick)


if __name__ == "__main__":
    main()
