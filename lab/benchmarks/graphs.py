"""What frames of small graphs cost: ratios within one run, on one thread, with new graphs in every call.

    python lab/benchmarks/graphs.py

The reference for labelling is pynauty, asked for every graph in a Python loop: a graph is built from a prepared dict
and labelled. "Frames" are what ``model.frame`` finds; "wrapped calls" are whole calls of a model with edges and node
features, there and back, whose backbone returns its input. GRAPH8c is compared with frame averaging by sorting with 16
samples, a whole call of a perceptron each. Times are those of the processor, so that other programs on the machine
disturb little. Needs pynauty.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments.graphs import data, separation

ROUNDS = 9
KINDS = 4
AT_MOST = {128: 1.0, 32: 1.5, 1: 8.0}
AT_MOST_OF_SORTING = {100: 1 / 3, 1: 1 / 5}
Graph = tuple[Tensor, Tensor]  # edges (2, E) in both directions, kinds of the nodes (n,)


def molecule(source: random.Random) -> Graph:
    """A random graph of about 23 nodes with the valences, rings and twins of molecules."""
    kinds, free, edges = [0], [4], set[tuple[int, int]]()
    wanted = source.randint(19, 27)
    while len(kinds) < wanted and any(free):
        at = source.choice([i for i, k in enumerate(free) if k])
        kind = source.choices(range(KINDS), (5, 2, 2, 4))[0] if sum(free) > 2 else 0
        for _ in range(1 + (source.random() < 0.3)):
            if free[at]:
                edges.add((at, len(kinds)))
                free[at] -= 1
                kinds.append(kind)
                free.append(3 - kind)
    for _ in range(source.randint(0, 3)):  # rings
        i, j = source.sample(range(len(kinds)), 2)
        if free[i] and free[j] and (min(i, j), max(i, j)) not in edges:
            edges.add((min(i, j), max(i, j)))
            free[i] -= 1
            free[j] -= 1
    index = torch.tensor(sorted(edges | {(j, i) for i, j in edges})).T
    return index, torch.tensor(kinds)


def one_hot(kinds: Tensor) -> Tensor:
    return nn.functional.one_hot(kinds, KINDS).float()


def dense(graphs: Sequence[Graph]) -> tuple[Tensor, Tensor, Tensor]:
    """Adjacency matrices, features and a mask."""
    n = max(len(kinds) for _, kinds in graphs)
    a, x = torch.zeros(len(graphs), n, n), torch.zeros(len(graphs), n, KINDS)
    mask = torch.zeros(len(graphs), n, dtype=torch.bool)
    for b, (index, kinds) in enumerate(graphs):
        a[b, index[0], index[1]] = 1
        x[b, : len(kinds)] = one_hot(kinds)
        mask[b, : len(kinds)] = True
    return a, x, mask


def listed(graphs: Sequence[Graph]) -> tuple[Tensor, Tensor, Tensor]:
    """Edges, features and a batch vector."""
    sizes = torch.tensor([len(kinds) for _, kinds in graphs])
    first = (sizes.cumsum(0) - sizes).tolist()
    index = torch.cat([edges + start for start, (edges, _) in zip(first, graphs, strict=True)], 1)
    batch = torch.arange(len(graphs)).repeat_interleave(sizes)
    return index, one_hot(torch.cat([kinds for _, kinds in graphs])), batch


def pynauty_loop(graphs: Sequence[Graph]) -> Callable[[], None]:
    import pynauty

    prepared = []
    for index, kinds in graphs:
        neighbours = {i: index[1, index[0] == i].tolist() for i in range(len(kinds))}
        cells = [set((kinds == kind).nonzero().squeeze(-1).tolist()) for kind in kinds.unique()]
        prepared.append((len(kinds), neighbours, cells))

    def run() -> None:
        for n, neighbours, cells in prepared:
            pynauty.canon_label(pynauty.Graph(n, adjacency_dict=neighbours, vertex_coloring=cells))

    return run


def line(text: str, found: Sequence[float], at_most: float) -> None:
    low, middle, high = statistics.quantiles(found, n=4, method="inclusive")
    over = "" if middle <= at_most else "OVER"
    print(f"  {text:62s} {middle:6.2f} [{low:.2f}, {high:.2f}]  at most {at_most:.3g}  {over}", flush=True)


def compare(contestants: dict[str, Callable[[], object]], reference: str, bounds: dict[str, float]) -> None:
    for function in contestants.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, function in contestants.items():
            start = time.process_time()
            function()
            times[name].append(time.process_time() - start)
    for name, at_most in bounds.items():
        line(name, [mine / its for mine, its in zip(times[name], times[reference], strict=True)], at_most)


def labelling(pool: list[Graph]) -> None:
    matrices = mf.Equivariant(lambda a, x, mask: x, mf.S(), {"a": "edge", "x": "node"}, "node", mask="mask")
    lists = mf.Equivariant(
        lambda edge_index, x, batch: x, mf.S(), {"edge_index": "edge_index", "x": "node"}, "node", batch="batch"
    )
    for size, at_most in AT_MOST.items():
        calls = [pool[k : k + size] for k in range(0, min(len(pool), max(384, 100 * (size == 1))), size)][:100]
        references = [pynauty_loop(graphs) for graphs in calls]
        a, e = [dense(graphs) for graphs in calls], [listed(graphs) for graphs in calls]
        contestants: dict[str, Callable[[], object]] = {
            "pynauty": lambda references=references: [run() for run in references],
            f"frames of {size} matrices over pynauty": lambda a=a: [matrices.frame(*x, mask=m) for *x, m in a],
            f"wrapped calls of {size} matrices": lambda a=a: [matrices(*x, mask=m) for *x, m in a],
            f"frames of {size} lists of edges": lambda e=e: [lists.frame(*x, batch=b) for *x, b in e],
            f"wrapped calls of {size} lists of edges": lambda e=e: [lists(*x, batch=b) for *x, b in e],
        }
        with torch.no_grad():
            compare(contestants, "pynauty", dict.fromkeys(list(contestants)[1:], at_most))


class GIN(nn.Module):
    """Four layers of width 64, with an output per node."""

    def __init__(self) -> None:
        super().__init__()
        widths = [KINDS, 64, 64, 64, 64]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(i, 64), nn.ReLU(), nn.Linear(64, o)) for i, o in itertools.pairwise(widths)
        )

    def forward(self, edge_index: Tensor, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x.index_add(0, edge_index[1], x[edge_index[0]])).relu()
        return x


def training(pool: list[Graph]) -> None:
    net = GIN()
    model = mf.Equivariant(net, mf.S(), {"edge_index": "edge_index", "x": "node"}, "node", batch="batch")
    batches = [listed(pool[k : k + 128]) for k in range(0, 384, 128)]

    def step(function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        for index, x, batch in batches:
            net.zero_grad()
            function(index, x, batch).square().mean().backward()

    contestants: dict[str, Callable[[], object]] = {
        "plain": lambda: step(lambda index, x, batch: net(index, x)),
        "training step of a GIN, 128 graphs, wrapped over plain": lambda: step(lambda i, x, b: model(i, x, batch=b)),
    }
    compare(contestants, "plain", {list(contestants)[1]: 1.3})


def graph8c() -> None:
    """All connected graphs of eight nodes, a perceptron in minimal frames over the same in 16 frames by sorting."""
    graphs = data.graph8c()
    for size, at_most in AT_MOST_OF_SORTING.items():
        found = [separation.seconds_each(graphs, (16,), size) for _ in range(ROUNDS)]
        ratios = [seconds["minimal"] / seconds["FA, 16 samples"] for seconds in found]
        line(f"GRAPH8c in batches of {size}, over FA with 16 samples", ratios, at_most)


def symmetry() -> None:
    """Exact group orders in polynomial time."""
    source = random.Random(0)
    tree = torch.tensor([[source.randrange(i), i] for i in range(1, 10_000)]).T
    left, right = torch.cartesian_prod(torch.arange(200), torch.arange(200, 400)).T
    for name, half in (("a tree of 10,000 nodes", tree), ("K(200, 200)", torch.stack([left, right]))):
        index = torch.cat([half, half.flip(0)], 1)
        start = time.process_time()
        size = mf.Equivariant(lambda i: i, mf.S(), "edge_index", "edge_index").frame(index).size
        seconds = time.process_time() - start
        line(f"seconds for the size of {name}, {len(str(size))} digits", [seconds, seconds], 1)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    source = random.Random(0)
    pool = [molecule(source) for _ in range(384)]
    print(f"Small graphs, {sum(len(k) for _, k in pool) / len(pool):.1f} nodes (median and quartiles)")
    labelling(pool)
    training(pool)
    graph8c()
    symmetry()


if __name__ == "__main__":
    main()
