"""What a minimal frame costs: ratios within one run, in processor time on one thread; of two threads, in wall time.

    python lab/benchmarks/frames.py

The floor is what any frame has to do at least: a batched QR decomposition of d points and one product with the result.
Every ratio is the median over rounds in which all contestants take turns, with the quartiles behind it. Bounds relative
to O(d) were set when large clouds were decomposed by PyTorch's loops, and are compared with those; what is relative to
O(d) as it is now is printed beside them. How much faster two threads are at all is that of the machine at this hour: on
one that is busy there is nothing to gain, and loops of PyTorch, timed in the same way, show it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import minframe as mf
from minframe.linalg import native

SHAPES = ((1024, 100, 3), (100, 5, 3), (1024, 20, 5), (1, 100_000, 3))
AT_MOST = {(100, 5, 3): 6.0}  # times the floor
OVER_THE_FLOOR = 1.2  # of all other shapes
OVER_O4 = {"O(1, 3)": 2.0, "O(1, 3), massless particles": 2.0, "U(4)": 2.5, "GL(4, complex=True)": 3.0}
FASTER_WITH_TWO_THREADS = 1.6
ROUNDS = 15
LINEAR = (
    *(mf.SO(4), mf.E(4), mf.SE(4), mf.Lorentz(), mf.ProperLorentz(), mf.OrthochronousLorentz(), mf.Poincare()),
    *(mf.O(2, 2), mf.U(4), mf.SU(4), mf.U(2, 2), mf.GL(4), mf.SL(4), mf.Aff(4), mf.GL(4, complex=True)),
)


def floor(x: Tensor) -> Tensor:
    d = x.shape[-1]
    return x @ torch.linalg.qr(x[:, :d].mT)[0]


def without_c(x: Tensor, group: mf.Group) -> object:
    with native.disabled():
        return mf.canonicalize(x, group)


def seconds(function: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats


def two_threads(function: Callable[[], object], repeats: int = 20) -> float:
    """How much less time a call takes with two threads than with one, the best of many.

    Each call is timed by itself: on a busy machine a turn of several is never left alone on both cores.
    """
    best = {1: float("inf"), 2: float("inf")}
    for _ in range(4 * ROUNDS):
        for threads in best:
            torch.set_num_threads(threads)
            for _ in range(repeats):
                start = time.perf_counter()
                function()
                best[threads] = min(best[threads], time.perf_counter() - start)
    torch.set_num_threads(1)
    return best[1] / best[2]


def ratios(
    contestants: dict[str, Callable[[], object]], reference: str, turn: float = 0.03
) -> dict[str, tuple[float, float, float]]:
    """Quartiles of the time of each over that of the reference, round by round; a turn takes so many seconds.

    With ``turn=0`` it is a single call. A backbone with large intermediate results wants that: the system's allocator
    gives memory back and asks for it again, some milliseconds' worth of it, in a rhythm of its own. In turns this falls
    on one contestant or the other.
    """
    for function in contestants.values():
        function()
        function()
    repeats = max(1, round(turn / seconds(contestants[reference], 3)))
    count = ROUNDS if turn else 20 * ROUNDS
    rounds = [{name: seconds(f, repeats) for name, f in contestants.items()} for _ in range(count)]
    return {
        name: tuple(statistics.quantiles([r[name] / r[reference] for r in rounds], n=4, method="inclusive"))  # type: ignore[misc]
        for name in contestants
        if name != reference
    }


def peak_bytes(function: Callable[[], object]) -> int:
    """The most that the tensors made by a call occupy at one time."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        function()
    now = peak = 0
    for event in sorted(record.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


class GNN(nn.Module):
    """Four layers of width 60 on all pairs, the size of the paper's n-body backbone."""

    def __init__(self, width: int = 60, layers: int = 4) -> None:
        super().__init__()
        self.encode = nn.Linear(3, width)
        self.edge = nn.ModuleList(nn.Sequential(nn.Linear(width + 1, width), nn.SiLU()) for _ in range(layers))
        self.node = nn.ModuleList(nn.Sequential(nn.Linear(2 * width, width), nn.SiLU()) for _ in range(layers))
        self.decode = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 3))

    def forward(self, x: Tensor) -> Tensor:
        distance = (x.unsqueeze(-2) - x.unsqueeze(-3)).square().sum(-1, keepdim=True)
        h = self.encode(x)
        for edge, node in zip(self.edge, self.node, strict=True):
            message = edge(torch.cat([h.unsqueeze(-2) - h.unsqueeze(-3), distance], -1)).sum(-2)
            h = h + node(torch.cat([h, message], -1))
        return x + self.decode(h)


def line(text: str, value: tuple[float, float, float], at_most: float | None) -> None:
    low, middle, high = value
    if at_most is None:
        print(f"{text:58s} {middle:7.2f}  [{low:.2f}, {high:.2f}]")
        return
    print(
        f"{text:58s} {middle:7.2f}  [{low:.2f}, {high:.2f}]  at most {at_most:g}  {'' if middle <= at_most else 'OVER'}"
    )


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("Frame and canonical coordinates, over the floor (median and quartiles of the ratio)")
    with torch.no_grad():
        for shape in SHAPES:
            x = torch.randn(*shape)
            for group in (mf.O(shape[-1]), mf.SE(shape[-1])):
                compiled = torch.compile(lambda x, group=group: mf.canonicalize(x, group)[0], fullgraph=True)
                contest = {
                    "floor": lambda x=x: floor(x),
                    "eager": lambda x=x, group=group: mf.canonicalize(x, group),
                    "compiled": lambda x=x, compiled=compiled: compiled(x),
                }
                contest["eager, without C"] = lambda x=x, group=group: without_c(x, group)
                for name, value in ratios(contest, "floor").items():
                    bound = AT_MOST.get(shape, OVER_THE_FLOOR) if name == "eager" else None
                    line(f"  {group} on {shape}, {name}", value, bound)

        print("The same with two threads: how many times faster than with one, the best of many calls")
        numbers = torch.rand(1_000_000)
        result = torch.empty_like(numbers)
        for name, function in (
            ("the machine itself: sines of a million numbers", lambda: torch.sin(numbers, out=result)),
            ("the machine itself: a copy of 4 MB", lambda: result.copy_(numbers)),
        ):
            print(f"  {name:56s} {two_threads(function):7.2f}")
        for shape in SHAPES:
            if shape not in AT_MOST:
                x = torch.randn(*shape)
                for group in (mf.O(shape[-1]), mf.SE(shape[-1])):
                    faster = two_threads(lambda x=x, group=group: mf.canonicalize(x, group))
                    note = "" if faster >= FASTER_WITH_TWO_THREADS else "UNDER"
                    print(f"  {f'{group} on {shape}':56s} {faster:7.2f}  at least {FASTER_WITH_TWO_THREADS:g}  {note}")

        print("Frame and canonical coordinates of every group on (1024, 100, 4), over those of O(4) by PyTorch's loops")
        x = torch.randn(1024, 100, 4)
        momenta = torch.cat([torch.linalg.vector_norm(x[..., 1:], dim=-1, keepdim=True), x[..., 1:]], -1)  # massless
        waves = torch.randn(1024, 100, 4, dtype=torch.complex64)
        contest = {"O(4) by PyTorch": lambda: without_c(x, mf.O(4)), "O(4)": lambda: mf.canonicalize(x, mf.O(4))}
        for group in LINEAR:
            cloud = waves if group.complex else x
            contest[str(group)] = lambda cloud=cloud, group=group: mf.canonicalize(cloud, group)
        contest["O(1, 3), massless particles"] = lambda: mf.canonicalize(momenta, mf.Lorentz())
        found = ratios(contest, "O(4) by PyTorch")
        for name, value in found.items():
            line(f"  {name} ({value[1] / found['O(4)'][1]:.2f} times O(4))", value, OVER_O4.get(name))

        print("A product with permutations on (256, 32, 3), over O(3) by PyTorch's loops")
        points = torch.randn(256, 32, 3)
        contest = {
            "O(3) by PyTorch": lambda: without_c(points, mf.O(3)),
            "O(3)": lambda: mf.canonicalize(points, mf.O(3)),
            "S() * O(3)": lambda: mf.canonicalize(points, mf.S() * mf.O(3)),
        }
        found = ratios(contest, "O(3) by PyTorch")
        for name, value in found.items():
            line(f"  {name} ({value[1] / found['O(3)'][1]:.2f} times O(3))", value, 3.0 if "S()" in name else None)

        print("Growth from n = 100 to n = 10,000, batch 16, O(3)")
        small, large = torch.randn(16, 100, 3), torch.randn(16, 10_000, 3)
        growth = ratios(
            {"small": lambda: mf.canonicalize(small, mf.O(3)), "large": lambda: mf.canonicalize(large, mf.O(3))},
            "small",
        )
        line("  time of large over small", growth["large"], 110)

        print("Peak memory of what a call allocates, over the size of its input")
        for group in (mf.O(3), mf.SE(3)):
            x = torch.randn(1, 100_000, 3)
            mf.canonicalize(x, group)
            value = peak_bytes(lambda x=x, group=group: mf.canonicalize(x, group)) / x.nbytes
            line(f"  {group} on (1, 100000, 3), float32", (value, value, value), 6)

        print("A 4-layer GNN of width 60 on (100, 5, 3): time over the plain backbone")
        x = torch.randn(100, 5, 3)
        net = GNN().eval()
        for group in (mf.O(3), mf.E(3)):
            model = mf.Equivariant(net, group)
            pair = {"plain": lambda: net(x), "wrapped": lambda model=model: model(x)}
            line(f"  wrapped for {group}", ratios(pair, "plain", turn=0)["wrapped"], 1.25)
            line(f"  wrapped for {group}, in turns", ratios(pair, "plain")["wrapped"], None)


if __name__ == "__main__":
    main()
