"""What was asked of smooth frames and what was found, as a table; shortfalls are in bold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minframe_lab.experiments.dynamics.molecules import NAMES

Record = dict[str, Any]
BEGIN, END = "<!-- found: written by `minframe reproduce table` -->", "<!-- end of found -->"
MAX_RANGE, MIN_GAIN, MAX_FORCE_ERROR = 2.0, 100.0, 1.05  # what was asked for
QUARTER = (3.0, 5.0)  # what is about four


@dataclass(frozen=True)
class Runs:
    """The runs that are compared: of each method the first seed, and of smooth frames each sharpness.

    Attributes:
        methods: by name, but for smooth frames.
        smooth: by sharpness, the gentlest first.
        cheaper: smooth frames of fewer epochs, at the cost of hard ones.
    """

    methods: dict[str, Record]
    smooth: list[Record]
    cheaper: Record | None

    @classmethod
    def of(cls, records: list[Record]) -> Runs:
        learned = [r for r in records if r["configuration"]["method"] != "potential"]
        most = max((r["configuration"]["recipe"]["epochs"] for r in learned), default=0)
        methods: dict[str, Record] = {}
        smooth: dict[float, Record] = {}
        cheaper = None
        for r in sorted(records, key=lambda r: r["configuration"]["seed"]):
            c = r["configuration"]
            if c["method"] != "smooth":
                methods.setdefault(c["method"], r)
            elif c["recipe"]["epochs"] == most:
                smooth.setdefault(c["sharpness"], r)
            else:
                cheaper = cheaper or r
        return cls(methods, [r for _, r in sorted(smooth.items())], cheaper)


def write(records: list[Record], page: Path) -> None:
    """Put the table between its two marks on a page, if all that it compares has been run."""
    runs = Runs.of(records)
    if not runs.smooth or any(name not in runs.methods for name in ("potential", "minimal")):
        return
    before, rest = page.read_text().split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text("\n".join([before + BEGIN, "", *table(runs), "", END]) + after)


def table(runs: Runs) -> Iterable[str]:
    """The rows of the table."""
    yield "| asked for | found |"
    yield "|---|---|"
    yield f"| paths of 20 ps of all methods | {'; '.join(_lengths(runs))} |"
    for what, key in (("range of the total energy", "range"), ("its drift, a straight line's", "drift")):
        yield f"| {what}, at most 2 times that in the potential | smooth over potential, eV: {_conserved(runs, key)} |"
    for what, key in (("range", "range"), ("drift", "drift")):
        yield f"| {what} at least 100 times less than in hard frames | hard over smooth, eV: {_gains(runs, key)} |"
    yield f"| half the step, about a quarter of the range | smooth (potential): {_each(runs, _halved)} |"
    yield f"| force error at equal epochs at most 1.05 times that of hard frames | {_errors(runs)} |"
    if runs.cheaper is not None:
        yield f"| the same at equal cost | {_equal_cost(runs.cheaper, runs.methods['minimal'])} |"
    yield f"| energy in 115 orientations, angular momentum | {_symmetry(runs)} |"
    yield f"| what the frame itself contributes | mean absolute force, eV/A: {'; '.join(map(_parts, runs.smooth))} |"


def _path(r: Record, name: str) -> Record:
    return dict(r["measured"]["paths"][name])


def _bold(text: str, short: bool) -> str:
    return f"**{text}**" if short else text


def _named(r: Record) -> str:
    return f"*sharpness {r['configuration']['sharpness']:g}*"


def _each(runs: Runs, cell: Callable[[Runs, Record, str], str]) -> str:
    """A cell for each molecule in smooth frames of each sharpness."""
    return "; ".join(f"{_named(r)} " + ", ".join(cell(runs, r, name) for name in NAMES) for r in runs.smooth)


def _conserved(runs: Runs, key: str) -> str:
    def cell(runs: Runs, r: Record, name: str) -> str:
        value, unit = _path(r, name)[key], _path(runs.methods["potential"], name)[key]
        if value is None:
            return f"{name} **not finite**"
        return f"{name} " + _bold(f"{value:.2g} / {unit:.2g} = {value / unit:.2g}", value > MAX_RANGE * unit)

    return _each(runs, cell)


def _gains(runs: Runs, key: str) -> str:
    def cell(runs: Runs, r: Record, name: str) -> str:
        hard, smooth = (_path(one, name) for one in (runs.methods["minimal"], r))
        if hard[key] is None or smooth[key] is None:
            return f"{name} **not finite**"
        gain = hard[key] / smooth[key]
        ended = f" in {hard['picoseconds']:.3g} ps" if hard["picoseconds"] < smooth["picoseconds"] else ""
        return f"{name} " + _bold(f"{hard[key]:.2g} / {smooth[key]:.2g} = {gain:.2g}{ended}", gain < MIN_GAIN)

    return _each(runs, cell)


def _lengths(runs: Runs) -> Iterable[str]:
    words = {"minimal": "hard frames", "pca": "PCA frames", "drawn": "drawn poses", "plain": "no frame"}
    wanted = runs.methods["potential"]["configuration"]["picoseconds"]
    named = [(f"smooth, {_named(r)}", r) for r in runs.smooth]
    named += [(word, runs.methods[method]) for method, word in words.items() if method in runs.methods]
    for word, r in named:
        paths = {name: _path(r, name) for name in NAMES}
        length = max(path["picoseconds"] for path in paths.values())
        short = [f"{name} until {p['picoseconds']:.3g}" for name, p in paths.items() if p["picoseconds"] < length]
        yield _bold(", ".join([f"{word} {length:.3g} ps", *short]), length < wanted or bool(short))


def _halved(runs: Runs, r: Record, name: str) -> str:
    ratios = []
    for one in (r, runs.methods["potential"]):
        whole, half = one["measured"]["halved"][name].values()
        ratios.append(whole["range"] / half["range"] if half["range"] and whole["range"] is not None else float("nan"))
    return f"{name} {_bold(f'{ratios[0]:.1f}', not QUARTER[0] <= ratios[0] <= QUARTER[1])} ({ratios[1]:.1f})"


def _error(r: Record) -> str:
    return f"{r['test']['force_mae']:.4f} +- {r['test']['force_mae_spread']:.4f}"


def _ratio(r: Record, hard: Record) -> str:
    ratio = r["test"]["force_mae"] / hard["test"]["force_mae"]
    return _bold(f"{ratio:.2f}", ratio > MAX_FORCE_ERROR)


def _errors(runs: Runs) -> str:
    hard = runs.methods["minimal"]
    cells = [f"{_named(r)} {_ratio(r, hard)} ({_error(r)} eV/A)" for r in runs.smooth]
    others = {"minimal": "hard frames", "drawn": "drawn poses", "pca": "PCA frames", "plain": "no frame"}
    cells += [f"{words} {_error(runs.methods[m])}" for m, words in others.items() if m in runs.methods]
    return "; ".join(cells)


def _equal_cost(r: Record, hard: Record) -> str:
    epochs = [one["configuration"]["recipe"]["epochs"] for one in (r, hard)]
    text = (
        f"{_named(r)} {_ratio(r, hard)} ({_error(r)} eV/A): {epochs[0]} epochs show the backbone about as many poses "
    )
    return text + f"as {epochs[1]} in hard frames"


def _parts(r: Record) -> str:
    parts, hard = r["measured"]["parts_of_forces"], r["measured"]["in_hard_frames"]["force_mae"]
    text = (
        f"{_named(r)} by way of the backbone {parts['backbone']:.3f}, by the turning of poses {parts['turning']:.3f}, "
    )
    return text + f"by the change of weights {parts['weights']:.3f}; the same network errs by {hard:.4f} in hard frames"


def _symmetry(runs: Runs) -> str:
    words = {"minimal": "hard frames", "pca": "PCA frames", "plain": "no frame"}
    named = [(f"smooth, {_named(r)}", r) for r in runs.smooth]
    named += [(word, runs.methods[method]) for method, word in words.items() if method in runs.methods]
    told = []
    for word, r in named:
        angular = [x for x in (_path(r, name)["angular_relative"] for name in NAMES) if x is not None]
        energy = max(r["measured"]["orientations"].values())
        told.append(f"{word} at most {energy:.1g} eV, angular momentum changes by {max(angular):.1g} of its size")
    return "; ".join(told)
