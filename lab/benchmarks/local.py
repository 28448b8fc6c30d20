"""Local frames: time of a message-passing network in frames of neighbourhoods over that of the same network without.

    python benchmarks/local.py --width 64 --width 128

Both networks have the same layers, which compute the same messages: of an edge from its vector and from the numbers and
the vector of its sender. Points of unit density have some 15 neighbours within the cutoff; particles have the others of
their jet. Layers share their frames, which each call finds anew. Forward alone, with the gradient of the weights (a
step of training), and with that of the positions too. The networks take turns, so that the load of the machine meets
all of them; medians of the processor's time. The C library keeps the memory that tensors leave, where it can be told
to: else it returns large blocks to the system and fetches them again, and these page faults, up to half of a forward
pass, meet one network or the other by the sizes of its tensors (``--page-faults`` measures them, too).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import minframe as mf

POINTS, CUTOFF, LAYERS = 500, 1.7, 4
JETS, PARTICLES = 25, 20
BOUND = 1.5
KEEP = {-1: 1 << 30, -2: 1 << 28, -3: 1 << 30}  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, in bytes
FRAMES = (mf.frames.Minimal(), mf.frames.Unordered(), mf.frames.Smooth(sharpness=64, moments=False))
PASSES = (("forward", False, False), ("weights", True, False), ("positions too", True, True))


class Layer(nn.Module):
    """Messages, their sum, and what it means for numbers and vectors."""

    def __init__(self, width: int, d: int) -> None:
        super().__init__()
        self.width, self.d = width, d
        self.messages = nn.Sequential(nn.Linear(width + 2 * d, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width + d))

    def forward(self, vectors: Tensor, h: Tensor, v: Tensor, index: Tensor) -> dict[str, Tensor]:
        messages = self.messages(torch.cat([vectors, h, v], -1))
        y = self.out(messages.new_zeros(int(index.max()) + 1, self.width).index_add(0, index, messages))
        return {"h": y[:, self.d :], "v": y[:, : self.d]}


class Task:
    """Positions or momenta ``x`` ``(n, d)``, the edges between them, and the vector of each edge."""

    def __init__(self, x: Tensor, edge_index: Tensor, relative: bool, groups: tuple[mf.Group, ...]) -> None:
        self.x, self.edge_index, self.relative, self.groups = x, edge_index, relative, groups

    def vectors(self, x: Tensor) -> Tensor:
        sender, receiver = self.edge_index
        return x[sender] - x[receiver] if self.relative else x[sender]


def points() -> Task:
    """Points of unit density, with vectors to neighbours within the cutoff."""
    x = torch.rand(POINTS, 3) * POINTS ** (1 / 3)
    near = (torch.cdist(x, x) < CUTOFF) & ~torch.eye(POINTS, dtype=torch.bool)
    return Task(x, near.nonzero().T, True, (mf.SO(3), mf.O(3)))


def jets() -> Task:
    """Massive particles; the vector of an edge is the momentum of its sender."""
    momenta = torch.randn(JETS * PARTICLES, 3)
    x = torch.cat([(momenta.square().sum(-1, keepdim=True) + 0.01).sqrt(), momenta], -1)
    jet = torch.arange(len(x)) // PARTICLES
    together = (jet == jet.unsqueeze(-1)) & ~torch.eye(len(x), dtype=torch.bool)
    return Task(x, together.nonzero().T, False, (mf.Lorentz(), mf.OrthochronousLorentz()))


def networks(task: Task, h: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    """Functions of positions or momenta: without frames, and in each kind of frames."""
    layers = [Layer(h.shape[-1], task.x.shape[-1]) for _ in range(LAYERS)]
    sender, receiver = task.edge_index
    present, index = torch.unique(receiver, return_inverse=True)

    def plain(x: Tensor) -> Tensor:
        vectors, scalars, v = task.vectors(x), h, torch.zeros_like(x)
        for layer in layers:
            y = layer(vectors, scalars[sender], v[sender], index)
            scalars, v = scalars.index_add(0, present, y["h"]), v.index_add(0, present, y["v"])
        return scalars.sum() + v.square().sum()

    found: dict[str, Callable[[Tensor], Tensor]] = {"plain": plain}
    for group in task.groups:
        for frames in FRAMES:
            found[f"{group}, {frames}"] = _framed(layers, group, frames, task, h)
    return found


def _framed(
    layers: list[Layer], group: mf.Group, frames: mf.frames.Method, task: Task, h: Tensor
) -> Callable[[Tensor], Tensor]:
    types = {"h": "node", "v": "vector"}
    cutoff = CUTOFF if task.relative else None
    locals_ = [mf.Local(layer, group, nodes=types, outputs=types, frames=frames, cutoff=cutoff) for layer in layers]

    def run(x: Tensor) -> Tensor:
        vectors, scalars, v = task.vectors(x), h, torch.zeros_like(x)
        shared = locals_[0].neighbourhoods(task.edge_index, len(h), vectors=vectors)
        for layer in locals_:
            y = layer(shared, vectors=vectors, h=scalars, v=v)
            scalars, v = scalars + y["h"], v + y["v"]
        return scalars.sum() + v.square().sum()

    return run


def measure(task: Task, width: int, repeats: int) -> None:
    cases = networks(task, torch.randn(len(task.x), width))
    for what, backward, moving in PASSES:
        times: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(repeats):
            for name, network in cases.items():
                x = task.x.clone().requires_grad_(moving)
                start = time.process_time()
                loss = network(x)
                if backward:
                    loss.backward()
                times[name].append(time.process_time() - start)
        median = {name: sorted(of)[repeats // 2] for name, of in times.items()}
        for name, seconds in median.items():
            ratio = seconds / median["plain"]
            over = "  OVER" if ratio > BOUND else ""
            print(f"{what:14} {name:58} {1000 * seconds:7.1f} ms {ratio:6.2f}{over}", flush=True)


def keep_memory() -> None:
    """Let the C library keep the memory that is freed; only glibc has this."""
    with contextlib.suppress(OSError, AttributeError):
        for option, size in KEEP.items():
            ctypes.CDLL(None).mallopt(option, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, action="append", help="of the layers; again for several (128)")
    parser.add_argument("--repeats", type=int, default=11, help="calls of each network (11)")
    parser.add_argument("--page-faults", action="store_true", help="let memory go back to the system")
    options = parser.parse_args()
    if not options.page_faults:
        keep_memory()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for task in (points(), jets()):
        for width in options.width or [128]:
            print(f"{len(task.x)} points, {task.edge_index.shape[1]} edges, {LAYERS} layers of width {width}")
            measure(task, width, options.repeats)


if __name__ == "__main__":
    main()
