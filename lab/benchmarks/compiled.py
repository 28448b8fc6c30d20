"""What ``torch.compile`` does to frames: processor time over eager mode, in one run, on one thread.

    python lab/benchmarks/compiled.py

Compiled code calls operators that run the loops of eager mode, so that frames should cost the same. Contestants take
turns, and of each the best turn counts. A training step has the gradient of the parameters; with forces, that of the
inputs too, through the frame.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import minframe as mf

SHAPES = ((1024, 100), (100, 5))
GROUPS = (mf.O(3), mf.SE(3), mf.Lorentz())
AT_MOST = 1.1
TURNS = 15


def seconds(function: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats


def ratio(eager: Callable[[], object], compiled: Callable[[], object], turn: float = 0.05) -> tuple[float, float]:
    """Milliseconds of eager mode, and the time of compiled code over it."""
    for _ in range(3):
        eager()
        compiled()
    repeats = max(1, round(turn / seconds(eager, 3)))
    turns = [(seconds(eager, repeats), seconds(compiled, repeats)) for _ in range(TURNS)]
    best = [min(times) for times in zip(*turns, strict=True)]
    return 1e3 * best[0], best[1] / best[0]


def cloud(group: mf.Group, shape: tuple[int, ...]) -> Tensor:
    """Points, or momenta of positive energy and mass."""
    x = torch.randn(*shape, group.d)
    if group.d == 4:
        x[..., 0] = (x[..., 1:].square().sum(-1) + 0.1).sqrt()
    return x


class Cases:
    """What is timed: the frame with its pose, a wrapped MLP, a training step, and one through the frame."""

    def __init__(self, group: mf.Group, shape: tuple[int, ...]) -> None:
        self.x = cloud(group, shape)
        net = nn.Sequential(nn.Linear(group.d, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, group.d))
        self.group, self.net = group, net
        self.model = mf.Equivariant(net, group)

    def pose(self, x: Tensor) -> Tensor:
        return mf.canonicalize(x, self.group)[0]

    def all(self) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
        torch.compiler.reset()
        pose, model = (torch.compile(f, fullgraph=True) for f in (self.pose, self.model))
        return {
            "frame and pose": (self.without_gradient(self.pose), self.without_gradient(pose)),
            "wrapped MLP": (self.without_gradient(self.model), self.without_gradient(model)),
            "training step": (self.step(self.model, False), self.step(model, False)),
            "training step, with forces": (self.step(self.model, True), self.step(model, True)),
        }

    def without_gradient(self, function: Callable[[Tensor], Tensor]) -> Callable[[], object]:
        def run() -> None:
            with torch.no_grad():
                function(self.x)

        return run

    def step(self, model: Callable[[Tensor], Tensor], forces: bool) -> Callable[[], object]:
        def run() -> None:
            x = self.x.clone().requires_grad_(forces)
            model(x).square().mean().backward()
            self.net.zero_grad()

        return run


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    print("Compiled over eager, processor time of the best turns")
    for shape in SHAPES:
        for group in GROUPS:
            for name, pair in Cases(group, shape).all().items():
                if wanted and name not in wanted:
                    continue
                eager, value = ratio(*pair)
                verdict = "" if value <= AT_MOST else "OVER"
                text = f"  {group} on {(*shape, group.d)}, {name}"
                print(f"{text:60s} {value:6.2f}  ({eager:.3f} ms)  at most {AT_MOST:g}  {verdict}", flush=True)


if __name__ == "__main__":
    main()
