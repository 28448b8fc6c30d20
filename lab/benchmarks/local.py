"""Local frames: time of a message-passing network in frames of neighbourhoods over that of the same network without.

    python benchmarks/local.py

Points of unit density with some 20 neighbours, layers of width 128 that share their frames; forward alone, with the
gradient of the weights, and with that of the positions too. Medians of the processor's time, call by call.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import minframe as mf

POINTS, CUTOFF, WIDTH, LAYERS, REPEATS = 500, 1.7, 128, 4, 11
BOUND = 1.5
FRAMES = (mf.frames.Minimal(), mf.frames.Smooth(sharpness=64, moments=False), mf.frames.Unordered())


class Layer(nn.Module):
    """Messages, their sum, and what it means for numbers and vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.messages = nn.Sequential(nn.Linear(WIDTH + 6, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU())
        self.out = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH + 3))

    def forward(self, vectors: Tensor, h: Tensor, v: Tensor, index: Tensor) -> dict[str, Tensor]:
        messages = self.messages(torch.cat([vectors, h, v], -1))
        y = self.out(messages.new_zeros(int(index.max()) + 1, WIDTH).index_add(0, index, messages))
        return {"h": y[:, 3:], "v": y[:, :3]}


def networks(pos: Tensor, edge_index: Tensor, h: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    """Functions of positions: without frames, and in each kind of frames."""
    layers = [Layer() for _ in range(LAYERS)]
    sender, receiver = edge_index
    present, index = torch.unique(receiver, return_inverse=True)

    def plain(pos: Tensor) -> Tensor:
        vectors, scalars, v = pos[sender] - pos[receiver], h, torch.zeros_like(pos)
        for layer in layers:
            y = layer(vectors, scalars[sender], v[sender], index)
            scalars, v = scalars.index_add(0, present, y["h"]), v.index_add(0, present, y["v"])
        return scalars.sum() + v.square().sum()

    found: dict[str, Callable[[Tensor], Tensor]] = {"plain": plain}
    for group in (mf.SO(3), mf.O(3)):
        for frames in FRAMES:
            found[f"{group}, {frames}"] = _framed(layers, group, frames, edge_index, h)
    return found


def _framed(
    layers: list[Layer], group: mf.Group, frames: mf.frames.Method, edge_index: Tensor, h: Tensor
) -> Callable[[Tensor], Tensor]:
    types = {"h": "node", "v": "vector"}
    locals_ = [mf.Local(layer, group, nodes=types, outputs=types, frames=frames, cutoff=CUTOFF) for layer in layers]

    def run(pos: Tensor) -> Tensor:
        vectors, scalars, v = pos[edge_index[0]] - pos[edge_index[1]], h, torch.zeros_like(pos)
        shared = edge_index if locals_[0].of_nodes else locals_[0].neighbourhoods(edge_index, len(h), vectors=vectors)
        for layer in locals_:
            y = layer(shared, vectors=vectors, h=scalars, v=v)
            scalars, v = scalars + y["h"], v + y["v"]
        return scalars.sum() + v.square().sum()

    return run


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pos = torch.rand(POINTS, 3) * POINTS ** (1 / 3)
    edge_index = ((torch.cdist(pos, pos) < CUTOFF) & ~torch.eye(POINTS, dtype=torch.bool)).nonzero().T
    print(f"{POINTS} points, {edge_index.shape[1]} edges, {LAYERS} layers of width {WIDTH}")
    cases = networks(pos, edge_index, torch.randn(POINTS, WIDTH))
    for what, backward, moving in (("forward", False, False), ("weights", True, False), ("positions too", True, True)):
        times: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(REPEATS):
            for name, network in cases.items():
                start = time.process_time()
                loss = network(pos.clone().requires_grad_(moving))
                if backward:
                    loss.backward()
                times[name].append(time.process_time() - start)
        median = {name: sorted(of)[REPEATS // 2] for name, of in times.items()}
        for name, seconds in median.items():
            ratio = seconds / median["plain"]
            over = "  OVER" if ratio > BOUND else ""
            print(f"{what:14} {name:45} {1000 * seconds:7.1f} ms {ratio:6.2f}{over}", flush=True)


if __name__ == "__main__":
    main()
