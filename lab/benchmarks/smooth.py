"""Smooth frames: how many poses, how steep, how fast, for a range of sharpness.

    python benchmarks/smooth.py [poses] [slopes] [times] [path]

*Slope* is the gradient of the energy with respect to the points over that of the backbone itself on randomly turned
clouds: medians, and the largest of each. *Times* are of the wrapped model over the plain backbone on the same batch, in
turns, of the processor; they are to be at most 1.3 times the mean number of poses.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import minframe as mf
from minframe.cloud import Input

SHARPNESS = (8.0, 16.0, 32.0, 40.0, 64.0)
DEFAULT = mf.frames.Smooth()
MOST_OVER_POSES = 1.3  # time over that of the plain backbone, over the mean number of poses
MOST_POSES = 20  # mean number, above which gradients take too long
GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=GENERATOR)


def uniform(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=GENERATOR)


def sphere(b: int, n: int) -> Tensor:
    x = normal(b, n, 3)
    return x / x.norm(dim=-1, keepdim=True)


def box_surface(b: int, n: int) -> Tensor:
    side = torch.randint(0, 3, (b, n, 1), generator=GENERATOR)
    return (2 * uniform(b, n, 3) - 1).scatter(-1, side, (uniform(b, n, 1) < 0.5).double() * 2 - 1)


def thermal(name: str) -> Callable[[int], Tensor]:
    """A molecule with noise of a tenth of its shortest bond."""

    def make(b: int) -> Tensor:
        from ase.build import molecule

        x = torch.tensor(molecule(name).positions)
        bond = torch.cdist(x, x).fill_diagonal_(torch.inf).amin()
        return x + 0.1 * bond * normal(b, *x.shape)

    return make


def icosahedron(b: int) -> Tensor:
    x = mf.testing.polytopes(3)["icosahedron"]
    return x / x.norm(dim=-1).amax() + 0.05 * normal(b, 12, 3)


CLOUDS: dict[str, Callable[[int], Tensor]] = {
    "Gaussian, 20 points": lambda b: normal(b, 20, 3),
    "Gaussian, 100 points": lambda b: normal(b, 100, 3),
    "ball, 100 points": lambda b: sphere(b, 100) * uniform(b, 100, 1) ** (1 / 3),
    "ball, 1,000 points": lambda b: sphere(b // 10, 1000) * uniform(b // 10, 1000, 1) ** (1 / 3),
    "shell of 2 %, 100 points": lambda b: sphere(b, 100) * (1 - 0.02 * uniform(b, 100, 1)),
    "shell of 2 %, 1,000 points": lambda b: sphere(b // 10, 1000) * (1 - 0.02 * uniform(b // 10, 1000, 1)),
    "box surface, 100 points": lambda b: box_surface(b, 100),
    "box surface, 1,000 points": lambda b: box_surface(b // 10, 1000),
    "icosahedron, noise 0.05": icosahedron,
}
MOLECULES = ("CH4", "C2H6", "CH3CH2OH", "C6H6", "C3H8", "butadiene", "trans-butane")


def clouds() -> dict[str, Callable[[int], Tensor]]:
    try:
        import ase.build  # noqa: F401
    except ImportError:
        print("(without ASE: no molecules)")
        return CLOUDS
    return CLOUDS | {f"{name}, thermal": thermal(name) for name in MOLECULES}


class SetNetwork(nn.Module):
    """A smooth backbone on sets, with no symmetry but that of rows."""

    def __init__(self, width: int = 64, depth: int = 2, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(3, width)
        self.layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.last = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.nn.functional.silu(self.first(x))
        for layer in self.layers:
            pooled = h.mean(-2, keepdim=True).expand_as(h)
            h = h + torch.nn.functional.silu(layer(torch.cat([h, pooled], -1)))
        return self.last(h).mean((-1, -2))


def poses(x: Tensor, group: mf.Group, method: mf.frames.Smooth) -> float:
    return float(method(group, group.cloud([Input("x", x, "point")])).poses.double().mean())  # type: ignore[arg-type]


def gradient(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(model(x).sum(), x)[0].flatten(1).norm(dim=-1)


def show_poses() -> None:
    print("\nMean number of poses, SE(3) / E(3)\n")
    print(
        f"{'':28}"
        + "".join(f"{f'a = {a:g}':>16}" for a in SHARPNESS)
        + f"{f'a = {DEFAULT.sharpness:g}, rows only':>22}"
    )
    for name, make in clouds().items():
        x = make(200)
        row = [
            f"{poses(x, mf.SE(3), mf.frames.Smooth(a)):.2f} / {poses(x, mf.E(3), mf.frames.Smooth(a)):.2f}"
            for a in SHARPNESS
        ]
        rows_only = f"{poses(x, mf.SE(3), mf.frames.Smooth(moments=False)):.2f}" if x.shape[1] <= 100 else "too many"
        print(f"{name:28}" + "".join(f"{r:>16}" for r in row) + f"{rows_only:>22}", flush=True)


def show_slopes() -> None:
    print("\nSlope over that of the plain backbone, SE(3): median / 90 % / 98 %\n")
    net = SetNetwork().double()
    columns = [*(f"a = {a:g}" for a in SHARPNESS), f"a = {DEFAULT.sharpness:g}, rows only"]
    print(f"{'':28}" + "".join(f"{c:>20}" for c in columns))
    for name, make in clouds().items():
        x = make(200)
        x = x / x.norm(dim=-1).amax((-1, -2), keepdim=True).unsqueeze(-1) if x.ndim == 4 else x / x.norm(dim=-1).amax()
        q = mf.SO(3).random(len(x), dtype=torch.float64, generator=GENERATOR)
        plain = gradient(net, (x - x.mean(-2, keepdim=True)) @ q.mT).square().mean().sqrt()
        row = []
        for method in (*map(mf.frames.Smooth, SHARPNESS), mf.frames.Smooth(moments=False)):
            if not method.moments and (x.shape[1] > 100 or poses(x, mf.SE(3), method) > MOST_POSES):
                row.append("too many poses")
                continue
            ratio = gradient(mf.Invariant(net, mf.SE(3), frames=method).eval(), x) / plain
            row.append(" / ".join(f"{ratio.quantile(p):.1f}" for p in (0.5, 0.9, 0.98)))
        print(f"{name:28}" + "".join(f"{r:>20}" for r in row), flush=True)


class Transformer(nn.Module):
    """Attention written out, which has second derivatives on every device."""

    def __init__(self, width: int, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads = heads
        self.first, self.last = nn.Linear(3, width), nn.Linear(width, 1)
        self.queries = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.wide = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(depth))
        self.narrow = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for queries, wide, narrow in zip(self.queries, self.wide, self.narrow, strict=True):
            q, k, v = queries(h).unflatten(-1, (3, self.heads, -1)).movedim(-3, 0).transpose(-3, -2)
            mixed = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
            h = h + mixed.transpose(-3, -2).flatten(-2)
            h = h + narrow(nn.functional.silu(wide(h)))
        return self.last(h).mean((-1, -2))


def times_in_turns(functions: list[Callable[[], object]], seconds: float = 8.0, least: int = 12) -> list[float]:
    """The fastest run of each, as others share caches with other work: times of the processor, in turns."""
    times: list[list[float]] = [[] for _ in functions]
    while len(times[0]) < least or sum(map(sum, times)) < seconds:
        for function, found in zip(functions, times, strict=True):
            start = time.process_time()
            function()
            found.append(time.process_time() - start)
    return [min(found) for found in times]


def show_times() -> None:
    print(f"\nTime over the plain transformer, and over the mean number of poses, at most {MOST_OVER_POSES}: SE(3)\n")
    shapes = {
        "Gaussian (128, 20, 3)": lambda: normal(128, 20, 3),
        "ethanol (32, 9, 3)": lambda: thermal("CH3CH2OH")(32),
        "ball (64, 100, 3)": lambda: CLOUDS["ball, 100 points"](64),
    }
    for name, make in shapes.items():
        x = make().float()
        count = poses(x, mf.SE(3), DEFAULT)
        expanded = x.repeat(math.ceil(count), 1, 1)[: round(count * len(x))]  # batches need not cost what samples do
        for width in (64, 256):
            net = Transformer(width)
            model = mf.Invariant(net, mf.SE(3), frames=DEFAULT).eval()
            chunked = mf.Invariant(net, mf.SE(3), frames=mf.frames.Smooth(chunk=len(x))).eval()
            for run in (energy, forces, training):
                shown = [(model, x), (net, x), (net, expanded), (chunked, x)]
                functions = [lambda one=one: run(*one) for one in shown]  # noqa: B023
                wrapped, plain, alike, parts = times_in_turns(functions)
                ratio = wrapped / plain
                mark = "" if ratio / count <= MOST_OVER_POSES else "  OVER"
                measured = (
                    f"{1e3 * plain:7.2f} ms  x {ratio:5.2f}  poses {count:5.2f}  ratio {ratio / count:5.2f}{mark}"
                    f"  (plain on as many samples {alike / plain / count:.2f}; in chunks of {len(x)} poses"
                    f" {parts / plain / count:.2f})"
                )
                print(f"{name:24} width {width:4} {run.__name__:10} {measured}", flush=True)


def energy(model: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        model(x)


def forces(model: nn.Module, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    torch.autograd.grad(model(x).sum(), x)


def training(model: nn.Module, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    force = torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]
    force.square().mean().backward()


def show_path() -> None:
    print("\nLargest change of the energy in a step, a tetrahedron along a line: the step divided by 8 each time\n")
    net = SetNetwork().double()
    x, v = mf.testing.polytopes(3)["simplex"], 0.3 * normal(4, 3)
    for name, frames in (("hard", mf.frames.Minimal()), ("PCA", mf.frames.PCA()), ("smooth", mf.frames.Smooth())):
        model = mf.Invariant(net, mf.SE(3), frames=frames).eval()
        row = []
        for steps in (256, 2048, 16_384):
            with torch.no_grad():
                e = model(x + torch.linspace(-1, 1, steps + 1, dtype=torch.float64).view(-1, 1, 1) * v)
            row.append(float((e[1:] - e[:-1]).abs().max()))
        print(f"{name:8}" + "".join(f"{c:12.2e}" for c in row), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or ["poses", "slopes", "times", "path"]
    for part in wanted:
        {"poses": show_poses, "slopes": show_slopes, "times": show_times, "path": show_path}[part]()
