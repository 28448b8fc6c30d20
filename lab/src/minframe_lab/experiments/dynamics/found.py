"""What was asked of smooth frames and what was found, as a table; shortfalls are in bold."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minframe_lab.experiments.dynamics.molecules import NAMES
from minframe_lab.experiments.dynamics.table import turned

Record = dict[str, Any]
BEGIN, END = "<!-- found: written by `minframe reproduce table` -->", "<!-- end of found -->"
MAX_RANGE, MIN_GAIN, MAX_FORCE_ERROR = 2.0, 100.0, 1.05  # what was asked for
QUARTER = (3.0, 5.0)  # what is about four
SURE = 2.0  # standard errors from which on two drifts are told apart
NOT_FINITE = "**not finite**"
WORDS = {"minimal": "hard frames", "drawn": "drawn poses", "pca": "PCA frames", "plain": "no frame"}


@dataclass(frozen=True)
class Runs:
    """The runs that are compared, each a list over seeds; the longest trainings of each method, all begun alike.

    They began in random rotations if hard and smooth frames have such runs. Without a frame there is no other way.

    Attributes:
        potential: the potential itself.
        methods: by name, but for smooth frames.
        smooth: smooth frames of the settings that most seeds were run with, or of the least sharpness.
    """

    potential: Record
    methods: dict[str, list[Record]]
    smooth: list[Record]

    @classmethod
    def of(cls, records: list[Record]) -> Runs | None:
        """``None`` as long as something of what is compared is missing."""
        potential = [r for r in records if r["configuration"]["method"] == "potential"]
        learned = [r for r in records if r["configuration"]["method"] != "potential"]
        begun = {r["configuration"]["method"] for r in learned if turned(r["configuration"])}
        alike = begun >= {"smooth", "minimal"}
        learned = [r for r in learned if turned(r["configuration"]) == alike or r["configuration"]["method"] == "plain"]
        most = max((r["configuration"]["recipe"]["epochs"] for r in learned), default=0)
        groups: dict[str, dict[tuple[float, float], list[Record]]] = {}
        for r in sorted(learned, key=lambda r: r["configuration"]["seed"]):
            c = r["configuration"]
            if c["recipe"]["epochs"] == most:
                setting = (
                    (c["sharpness"], c.get("agreement", 0.0)) if c["method"] in ("smooth", "drawn") else (0.0, 0.0)
                )
                groups.setdefault(c["method"], {}).setdefault(setting, []).append(r)
        chosen = {
            method: min(found.items(), key=lambda item: (-len(item[1]), item[0]))[1] for method, found in groups.items()
        }
        if not potential or "smooth" not in chosen or "minimal" not in chosen:
            return None
        return cls(potential[0], {m: chosen[m] for m in WORDS if m in chosen}, chosen["smooth"])

    @property
    def named(self) -> list[tuple[str, list[Record]]]:
        """All methods, with words for them."""
        return [("smooth frames", self.smooth), *((WORDS[method], found) for method, found in self.methods.items())]


def write(records: list[Record], page: Path) -> None:
    """Put the table between its two marks on a page, if all that it compares has been run."""
    runs = Runs.of(records)
    if runs is None:
        return
    before, rest = page.read_text().split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text("\n".join([before + BEGIN, "", *table(runs), "", END]) + after)


def table(runs: Runs) -> Iterable[str]:
    """The rows of the table, with a value for each seed."""
    c = runs.smooth[0]["configuration"]
    weighed = f", variance of energies over poses weighed by {c['agreement']:g}" if c.get("agreement") else ""
    seeds = ", ".join(str(r["configuration"]["seed"]) for r in runs.smooth)
    start = ", all methods begun in random rotations" if turned(c) else ""
    yield f"| asked for | found: smooth frames of sharpness {c['sharpness']:g}{weighed}{start}, seeds {seeds} |"
    yield "|---|---|"
    yield f"| paths of 20 ps of all methods | {'; '.join(_lengths(runs))} |"
    paths = len(runs.potential["measured"].get("repeats", {}).get(NAMES[0], [0]))
    over = f"smooth over potential, root mean square of {paths} paths"
    yield f"| drift of the energy at most 2 times that in the potential | {over}: {_drifts(runs)} |"
    yield f"| its range, at most 2 times that in the potential | {over}: {_ranges(runs)} |"
    for key, bound in (("drift", MIN_GAIN), ("range", 0.0)):
        asked = f" at least {bound:.0f} times less than in hard frames" if bound else ", beside that in hard frames"
        yield f"| {key}{asked} | hard over smooth: {_gains(runs, key, bound)} |"
    yield f"| half the step, about a quarter of the range | smooth (potential): {_each(runs, _halved)} |"
    yield f"| force error at equal epochs at most 1.05 times that of hard frames | {_errors(runs)} |"
    if "drawn" in runs.methods:
        yield f"| the same at equal cost | {_equal_cost(runs)} |"
    yield f"| energy in 115 orientations, angular momentum | {_symmetry(runs)} |"


def _path(r: Record, name: str) -> Record:
    return dict(r["measured"]["paths"][name])


def _bold(text: str, short: bool) -> str:
    return f"**{text}**" if short else text


def _each(runs: Runs, cell: Callable[[Runs, str], str]) -> str:
    """A cell for each molecule."""
    return "; ".join(f"{name} {cell(runs, name)}" for name in NAMES)


def _ranges(runs: Runs) -> str:
    def cell(runs: Runs, name: str) -> str:
        unit, _ = _size(runs.potential, name, "range")
        values = [_size(r, name, "range")[0] for r in runs.smooth]
        ratios = [_bold(f"{v / unit:.2g}", v > MAX_RANGE * unit) if v < math.inf else NOT_FINITE for v in values]
        return f"{', '.join(ratios)} (of {unit:.2g} eV)"

    return _each(runs, cell)


def _drifts(runs: Runs) -> str:
    """Ratios of drifts, with their errors over all seeds; marked where what is too much is within the error.

    A drift has either sign, and is as often small by chance as large: what is compared is its root mean square over
    paths. That of m draws has the relative error sqrt(1 / (2 m)), if they are normal ones.
    """

    def cell(runs: Runs, name: str) -> str:
        still, draws = _size(runs.potential, name, "drift")
        found = [_size(r, name, "drift") for r in runs.smooth]
        told = []
        for value, count in found:
            ratio, error = value / still, math.sqrt(1 / (2 * count) + 1 / (2 * draws))
            mark = " (within error)" if 0 < math.log(ratio / MAX_RANGE) <= SURE * error else ""
            told.append(_bold(f"{ratio:.2g}", ratio > MAX_RANGE) + mark if ratio < math.inf else NOT_FINITE)
        ratio = math.sqrt(statistics.mean(value**2 for value, _ in found)) / still
        error = ratio * math.sqrt(1 / (2 * sum(count for _, count in found)) + 1 / (2 * draws))
        together = f", together {ratio:.2g} ± {error:.1g}" if len(found) > 1 and ratio < math.inf else ""
        return f"{', '.join(told)}{together} (of {still:.2g} eV)"

    return _each(runs, cell)


def _several(r: Record, name: str) -> list[Record]:
    """All paths of a molecule; runs from before there were several have one."""
    return list(r["measured"].get("repeats", {}).get(name) or [_path(r, name)])


def _size(r: Record, name: str, key: str) -> tuple[float, int]:
    """The root mean square over the paths of a molecule, and how many there are; infinite if one is not finite."""
    values = [math.inf if path[key] is None else path[key] for path in _several(r, name)]
    return math.sqrt(statistics.mean(v**2 for v in values)), len(values)


def _gains(runs: Runs, key: str, least: float) -> str:
    """Hard over smooth frames of the same seed."""
    hard = {r["configuration"]["seed"]: r for r in runs.methods["minimal"]}

    def cell(runs: Runs, name: str) -> str:
        told = []
        for r in runs.smooth:
            if r["configuration"]["seed"] not in hard:
                continue
            jumping = hard[r["configuration"]["seed"]]
            gain = _size(jumping, name, key)[0] / _size(r, name, key)[0]
            lengths = [min(path["picoseconds"] for path in _several(one, name)) for one in (jumping, r)]
            ended = f" in {lengths[0]:.2g} ps and more" if lengths[0] < lengths[1] else ""
            told.append((_bold(f"{gain:.2g}", gain < least) if 0 < gain < math.inf else NOT_FINITE) + ended)
        return ", ".join(told)

    return _each(runs, cell)


def _lengths(runs: Runs) -> Iterable[str]:
    wanted = runs.potential["configuration"]["picoseconds"]
    for word, group in runs.named:
        told = []
        for r in group:
            paths = {name: _path(r, name)["picoseconds"] for name in NAMES}
            length = max(paths.values())
            short = [f"{name} until {p:.2g}" for name, p in paths.items() if p < length]
            told.append(_bold(", ".join([f"{length:.3g}", *short]), length < wanted or bool(short)))
        yield f"{word} {' / '.join(told)} ps"


def _halved(runs: Runs, name: str) -> str:
    def ratio(r: Record) -> float:
        whole, half = r["measured"]["halved"][name].values()
        return whole["range"] / half["range"] if half["range"] and whole["range"] is not None else float("nan")

    told = [_bold(f"{x:.1f}", not QUARTER[0] <= x <= QUARTER[1]) for x in map(ratio, runs.smooth)]
    return f"{', '.join(told)} ({ratio(runs.potential):.1f})"


def _error(group: list[Record]) -> str:
    """The mean over seeds, and the larger of what seeds and snapshots make it differ by."""
    values = [r["test"]["force_mae"] for r in group]
    spread = max(r["test"]["force_mae_spread"] for r in group)
    spread = max(spread, statistics.stdev(values)) if len(values) > 1 else spread
    return f"{statistics.mean(values):.4f} ± {spread:.4f}"


def _ratio(group: list[Record], hard: list[Record]) -> str:
    """The error over that in hard frames, in the mean over the seeds that both have, or over all if there are none."""
    errors = [{r["configuration"]["seed"]: r["test"]["force_mae"] for r in one} for one in (group, hard)]
    both = errors[0].keys() & errors[1].keys()
    means = [statistics.mean(e for seed, e in one.items() if seed in both or not both) for one in errors]
    return _bold(f"{means[0] / means[1]:.2f}", means[0] > MAX_FORCE_ERROR * means[1])


def _errors(runs: Runs) -> str:
    cells = [f"{_ratio(runs.smooth, runs.methods['minimal'])} ({_error(runs.smooth)} eV/A)"]
    cells += [f"{WORDS[method]} {_error(group)}" for method, group in runs.methods.items()]
    return "; ".join(cells)


def _equal_cost(runs: Runs) -> str:
    drawn = runs.methods["drawn"]
    return (
        f"{_ratio(drawn, runs.methods['minimal'])} ({_error(drawn)} eV/A), tested in all poses: a step on a drawn pose "
        "shows the backbone as much as one in hard frames"
    )


def _symmetry(runs: Runs) -> str:
    told = []
    for word, group in runs.named:
        angular = [_path(r, name)["angular_relative"] for r in group for name in NAMES]
        energy = max(x for r in group for x in r["measured"]["orientations"].values())
        worst = max((x for x in angular if x is not None), default=float("nan"))
        told.append(f"{word} at most {energy:.1g} eV, angular momentum changes by {worst:.1g} of its size")
    return "; ".join(told)
