"""Draw clouds between the named families and look for a wrong answer that the rounding of the input does not explain.

    python benchmarks/fuzz.py --minutes 60 --seed 0 --processes 2 --json lab/results/fuzz/hour.json
    python benchmarks/fuzz.py --group "S() * E(3)" --structure methane --frames unordered
    python benchmarks/fuzz.py --replay '<line of a report>'     # one batch again, its worst cloud printed
    python benchmarks/fuzz.py --margins --minutes 5             # jumps of the pose, and frame.margin there

Every batch draws a structure at a level (``fuzzing/structures.py``), a group, a way of choosing frames, a dtype and a
layout. Each cloud is moved by a random element, and reordered where order does not count (also without an element, so
that nothing is rounded); wrapped backbones, invariant and equivariant, have to answer the same. What explains an error
above 1e-5 (float32) or 1e-11 (float64) stands in ``fuzzing/judge.py``. Exit status 1 if anything does not.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import math
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from fuzzing import workers
from fuzzing.cases import CASES, FRAMES, family, serves
from fuzzing.judge import Verdict, judge
from fuzzing.layouts import LAYOUTS
from fuzzing.margins import Margins, margins
from fuzzing.report import Report
from fuzzing.structures import GRAPHS, STRUCTURES
from fuzzing.trial import Key, Trial
from minframe_lab.experiments.record import commit, hardware
from minframe_lab.record import write_whole

BATCH = 2000
SECONDS = 0.5  # that a batch may take; structures that the library is slow on are drawn in smaller ones
FIRST = 32  # clouds of a structure, level and way of choosing frames whose speed is not known
CAUTION = 4  # times: how much slower a level may be than another that is known
SMALLEST = 8
PARTICLES = ("event", "jet", "mixed-jet", "light-particle")
PATIENCE = 20  # seconds of the process's own time, for a batch
SAVE = 20  # seconds, between files that one process of several leaves for the others


def matching(names: list[str], patterns: list[str] | None) -> list[str]:
    if not patterns:
        return names
    found = [n for n in names if any(n == p or fnmatch.fnmatchcase(n, p) for p in patterns)]
    if not found:
        raise SystemExit(f"nothing is called {patterns}: there are {', '.join(names)}")
    return found


def pairs(options: argparse.Namespace) -> list[tuple[str, str, list[str]]]:
    """Every group and frames, with the structures that fit."""
    structures = matching([*STRUCTURES, *GRAPHS], options.structure)
    found = []
    for name in matching(list(CASES), options.group):
        fit = [s for s in structures if s in STRUCTURES and STRUCTURES[s].fits(CASES[name].space)]
        if name == "S()":
            fit += [s for s in structures if s in GRAPHS]
        for frames in options.frames or FRAMES:
            # Of an indefinite form smooth frames exist where the total is time-like: particles, that is.
            particles = frames == "smooth" and CASES[name].indefinite
            mine = [s for s in fit if s.startswith(PARTICLES)] if particles else fit
            if mine and serves(name, frames):
                found.append((name, frames, mine))
    return found


class OutOfTime(BaseException):
    """Not an ``Exception``: what looks for crashes of the library must not catch it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``OutOfTime`` after so many seconds of this process's own time, as soon as Python has its turn."""

    def stop(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Sizes:
    """How many clouds to draw together, so that a batch takes ``SECONDS`` at most."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.cost: dict[tuple[object, ...], float] = {}  # seconds for a cloud

    @staticmethod
    def where(key: Key) -> list[tuple[object, ...]]:
        """What a cost is known by, the most special first."""
        kind = key.structure, family(key.group), key.frames
        return [(*kind, key.level), kind]

    def of(self, key: Key) -> int:
        special, kind = (self.cost.get(where) for where in self.where(key))
        if special is not None:
            size = SECONDS / special
        else:  # another level may be slower
            size = FIRST if kind is None else max(FIRST, SECONDS / kind / CAUTION)
        return max(SMALLEST, min(self.most, int(size)))

    def learn(self, key: Key, clouds: int, seconds: float) -> None:
        for where in self.where(key):
            self.cost[where] = max(seconds / clouds, 0.5 * self.cost.get(where, 0.0))


def keys(options: argparse.Namespace, sizes: Sizes) -> Iterator[Key]:
    """Without end. Groups of a kind share a turn, so that the many dimensions of O(d) do not crowd out the rest."""
    generator = torch.Generator().manual_seed(options.seed)
    found = pairs(options)
    if not found:
        raise SystemExit("no group has such structures and frames")

    def pick(items: list) -> object:
        return items[int(torch.randint(len(items), (), generator=generator))]

    while True:
        group, frames, structures = pick(found)
        name = pick(structures)
        level = pick(list((STRUCTURES | GRAPHS)[name].levels))
        layout = "dense" if name in GRAPHS else pick([LAYOUTS[0], *LAYOUTS])
        dtype = pick(["float64", "float32"] if not options.dtype else options.dtype)
        seed = int(torch.randint(2**31, (), generator=generator))
        key = Key(seed, name, level, group, frames, dtype, layout, 0)
        yield Key(**(vars(key) | {"size": sizes.of(key)}))


def fuzz(options: argparse.Namespace, path: Path | None = None) -> Report:
    """One process. ``path``: where to keep what is found so far, for another process to show."""
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    report, sizes = Report(), Sizes(options.batch)
    started = shown = time.perf_counter()
    for key in keys(options, sizes):
        before = time.perf_counter()
        trial = Trial(key)
        try:
            with time_limit(PATIENCE):
                verdict = judge(trial)
        except OutOfTime:
            # Of a few clouds it is a fault of its own; of many they are drawn again, fewer together.
            late = [f"more than {PATIENCE} s for {len(trial.x)} clouds"] if key.size <= FIRST else []
            verdict = Verdict(len(trial.x) if late else 0, crashes=late)
        now = time.perf_counter()
        report.add(key, verdict)
        sizes.learn(key, max(1, len(trial.x)), now - before)
        over = now - started > 60 * options.minutes
        if path is not None and (over or now - shown > SAVE):
            workers.save(report, path)
            shown = now
        elif path is None and now - shown > 60:
            print(f"{(now - started) / 60:.0f} min, {report.clouds:,} clouds", file=sys.stderr, flush=True)
            shown = now
        if over:
            break
    return report


def fuzz_all(options: argparse.Namespace) -> tuple[Report, dict[str, object]]:
    """With as many processes as are asked for: the report, and what else is to be known about the run."""
    started = time.perf_counter()
    lost: list[int] = []
    if options.processes == 1:
        report = fuzz(options)
    else:
        seeds = [options.seed * workers.SEEDS + k for k in range(options.processes)]
        each = [argparse.Namespace(**(vars(options) | {"seed": seed})) for seed in seeds]
        report, lost = workers.run(fuzz, each)
    seconds = time.perf_counter() - started
    speed = report.clouds / seconds * 3600
    print(f"{report.clouds:,} clouds in {seconds:.0f} s: {speed:,.0f} an hour; seed {options.seed}")
    if lost:
        print(f"{len(lost)} processes were lost, with exit codes {lost}")
    print()
    return report, {"seconds": round(seconds), "processes lost": lost}


def replay(text: str) -> Verdict:
    line, _, number = text.partition("#")
    trial = Trial(Key.parse(line))
    verdict = judge(trial)
    for name, value in asdict(verdict).items():
        print(f"{name:12}{len(value) if name == 'wrong' else value}")
    sample = int(number) if number else verdict.sample
    if sample >= 0:
        torch.set_printoptions(precision=17, linewidth=160)
        print(f"scale       {trial.scale}\ncloud {sample}:\n{trial.x[sample]}")
    return verdict


def look_at_margins(options: argparse.Namespace) -> dict[tuple[str, str, str], tuple[Margins, str]]:
    """By group, frames and layout: the sums, and the line of the worst."""
    options.dtype = ["float64"]
    options.structure = options.structure or ["generic", "simplex", "cross", "methane", "ring", "jet", "mixed-jet"]
    found: dict[tuple[str, str, str], tuple[Margins, str]] = {}
    started, sizes = time.perf_counter(), Sizes(64)
    for key in keys(options, sizes):
        if key.structure in GRAPHS or key.group == "S()":
            continue
        if key.structure not in ("generic", "jet", "mixed-jet"):
            key = Key(**(asdict(key) | {"level": 1 + key.level % 3}))
        before = time.perf_counter()
        try:
            with time_limit(PATIENCE):
                new = margins(key)
        except OutOfTime:  # drawn again, fewer together
            new = Margins(key.size // 2)
        sizes.learn(key, max(1, 2 * new.paths), time.perf_counter() - before)
        where = (key.group, key.frames, key.layout)
        old, line = found.get(where, (Margins(0), ""))
        worse = (new.above and new.worst > old.worst) or (new.changed and new.change > old.change)
        if worse or new.crashes:
            line = str(key)
        for name in ("paths", "jumps", "above", "changed"):
            setattr(old, name, getattr(old, name) + getattr(new, name))
        for name in ("worst", "change"):
            setattr(old, name, max(getattr(old, name), getattr(new, name)))
        old.crashes += [c for c in new.crashes if c not in old.crashes]
        found[where] = old, line
        if time.perf_counter() - started > 60 * options.minutes:
            break
    print(
        f"{'group':26}{'frames':10}{'layout':8}{'paths':>8}{'jumps':>7}{'above':>7}{'margin':>10}{'changed':>9}{'by':>10}"
    )
    for (group, frames, layout), (sums, line) in sorted(found.items()):
        print(
            f"{group:26}{frames:10}{layout:8}{sums.paths:8}{sums.jumps:7}{sums.above:7}{sums.worst:10.1e}"
            f"{sums.changed:9}{sums.change:10.1e}"
        )
        if line:
            print(f"    --margins --replay '{line}' {' '.join(sums.crashes)}")
    return found


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--minutes", type=float, default=1.0)
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--group", action="append", help='such as "O(3)", or a pattern, "S() * *"; default all')
    found.add_argument("--structure", action="append", help="a name or a pattern; default all")
    found.add_argument("--frames", action="append", choices=FRAMES)
    found.add_argument("--dtype", action="append", choices=["float64", "float32"])
    found.add_argument("--threads", type=int, default=1)
    found.add_argument("--processes", type=int, default=1, help="each with a seed of its own; one report")
    found.add_argument("--batch", type=int, default=BATCH, help="clouds to draw together, at most")
    found.add_argument("--all", action="store_true", help="print rows without a fault too")
    found.add_argument("--json", type=Path, help="write counts, and rows with a fault, to this file")
    found.add_argument("--replay", help="one batch, from the line that a report prints")
    found.add_argument("--margins", action="store_true", help="bisect jumps of the pose; look at frame.margin there")
    return found


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    if options.margins:
        if options.replay:
            sums = margins(Key.parse(options.replay.partition("#")[0]))
            print(sums)
            return int(bool(sums.above or sums.changed or sums.crashes))
        rows = look_at_margins(options)
        if options.json:
            where = ("group", "frames", "layout")
            data = [dict(zip(where, k, strict=True)) | asdict(v) | {"replay": line} for k, (v, line) in rows.items()]
            write(options, {"rows": data})
        return int(any(sums.above or sums.changed or sums.crashes for sums, _ in rows.values()))
    if options.replay:
        verdict = replay(options.replay)
        return int(bool(verdict.violations or verdict.crashes))
    report, about = fuzz_all(options)
    print(report.text(options.all))
    if options.json:
        write(options, about | report.data())
    return int(report.failed or bool(about["processes lost"]))


def write(options: argparse.Namespace, data: dict[str, object]) -> None:
    """The results of a run as a small file, with all that is needed to repeat it."""
    asked = {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items() if k != "json"}
    about = {"command": "fuzz", "configuration": asked, "seed": options.seed, "commit": commit()}
    about |= {"torch": str(torch.__version__), "hardware": hardware(), "date": time.strftime("%Y-%m-%d")}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.json, json.dumps(_plain(about | data), indent=1) + "\n")


def _plain(value: object) -> object:
    """Infinity and NaN as strings: they are no JSON."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
