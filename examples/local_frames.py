"""A transformer whose every atom looks at its neighbours in a frame of its own, beside one frame for the whole cloud.

Points in a box, in four kinds; each is pushed by all pairs of its neighbours (a force of three bodies), so that what
matters is near. The same layers of attention run in local frames, found once for all layers, in one smooth frame of the
cloud, and in no frame, with random poses in training. They are also tested on clouds of twice as many points.
"""

from __future__ import annotations

import time

import torch
from attention import Attention, Cloud, clouds
from common import arguments, bars, save, show, spread, track
from torch import Tensor, nn

import minframe as mf

CUTOFF, LAYERS, WIDTH = 1.3, 2, 48
GROUP = mf.SO(3)


class Transformer(nn.Module):
    """Layers of attention among neighbours: numbers ``h`` and vectors ``v`` of points."""

    def __init__(self, local: bool) -> None:
        super().__init__()
        self.kinds = nn.Embedding(4, WIDTH)
        layers = [Attention(WIDTH, CUTOFF) for _ in range(LAYERS)]
        if local:
            edges, nodes = {"vectors": "vector", "own": "node"}, {"h": "node", "v": "vector"}
            layers = [mf.Local(layer, GROUP, edges, nodes, nodes, cutoff=CUTOFF) for layer in layers]
        self.layers = nn.ModuleList(layers)
        self.local = local

    def forward(self, pos: Tensor, z: Tensor, edge_index: Tensor) -> Tensor:
        sender, receiver = edge_index
        vectors, h, v = pos[sender] - pos[receiver], self.kinds(z), torch.zeros_like(pos)
        found = self.layers[0].neighbourhoods(edge_index, len(z), vectors=vectors) if self.local else None
        for layer in self.layers:
            plain = () if self.local else (vectors, h[receiver], h[sender], v[sender], receiver, len(z))
            out = layer(*plain) if plain else layer(found, vectors=vectors, own=h[receiver], h=h, v=v)
            h, v = h + out["h"], v + out["v"]
        return v


def models() -> dict[str, nn.Module]:
    """Of equal size."""
    types, smooth = {"pos": "point", "z": "node", "edge_index": "edge_index"}, mf.frames.Smooth()
    whole = mf.Equivariant(Transformer(False), mf.SE(3), types, "vector", "pos", batch="batch", frames=smooth)
    return {"random poses": Transformer(False), "one frame": whole, "local frames": Transformer(True)}


def answer(model: nn.Module, cloud: Cloud) -> Tensor:
    """Forces ``(N, 3)``."""
    batch = {"batch": cloud.batch} if isinstance(model, mf.Equivariant) else {}
    return model(cloud.pos, cloud.z, cloud.edge_index, **batch)


def fit(model: nn.Module, data: list[Cloud], epochs: int, what: str, augment: bool) -> float:
    """Train; milliseconds of the processor for each step."""
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    start = time.process_time()
    for _ in track(range(epochs), what):
        for k in torch.randperm(len(data)).tolist():
            cloud = data[k].turned(GROUP.random()) if augment else data[k]
            optimizer.zero_grad()
            (answer(model, cloud) - cloud.force).square().mean().backward()
            optimizer.step()
        schedule.step()
    return 1000 * (time.process_time() - start) / (epochs * len(data))


def main() -> None:
    """All models, over all seeds."""
    options = arguments(__doc__ or "")
    count, epochs, seeds = (2, 1, 1) if options.quick else (40, 25, options.seeds or 3)
    results: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        torch.manual_seed(seed)
        train, test, large = (clouds(k, n, CUTOFF) for k, n in ((count, 24), (max(count // 4, 1), 24), (4, 48)))
        for name, model in models().items():
            cost = fit(model, train, epochs, f"{name}, seed {seed}", name == "random poses")
            model.eval()
            with torch.no_grad():
                found = [
                    sum(float((answer(model, c) - c.force).abs().mean()) for c in s) / len(s) for s in (test, large)
                ]
            results[name] = [[*a, b] for a, b in zip(results.get(name, [[]] * 3), [*found, cost], strict=True)]
    parts = ("mean error", "twice as many points", "ms for a step")
    show("Forces of three bodies", ("frames", *parts), [(n, *map(spread, of)) for n, of in results.items()])
    save("local_frames", {"batches": count, "epochs": epochs, "seeds": seeds}, results, options.quick)
    bars("local_frames", "mean error of forces", {n: of[:2] for n, of in results.items()}, parts[:2], options.quick)


if __name__ == "__main__":
    main()
