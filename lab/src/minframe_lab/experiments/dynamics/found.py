"""What was asked of smooth frames and what was found, as a table; shortfalls are in bold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minframe_lab.experiments.dynamics.molecules import NAMES

Record = dict[str, Any]
BEGIN, END = "<!-- found: written by `minframe reproduce table` -->", "<!-- end of found -->"
MAX_RANGE, MIN_GAIN, MAX_FORCE_ERROR = 2.0, 100.0, 1.05  # what was asked for
QUARTER = (3.0, 5.0)  # what is about four
NEEDED = ("potential", "smooth", "minimal")


def write(records: list[Record], page: Path) -> None:
    """Put the table between its two marks on a page, if all that it compares has been run."""
    runs = _runs(records)
    if any(name not in runs for name in NEEDED):
        return
    before, rest = page.read_text().split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text("\n".join([before + BEGIN, "", *table(runs), "", END]) + after)


def table(runs: dict[str, Record]) -> Iterable[str]:
    """The rows of the table."""
    yield "| asked for | found |"
    yield "|---|---|"
    yield f"| paths of 20 ps of all methods | {_lengths(runs)} |"
    for what, key in (("range of the total energy", "range"), ("its drift, a straight line's", "drift")):
        cells = [
            _judged(_path(runs["smooth"], name)[key], _path(runs["potential"], name)[key], MAX_RANGE, name, " eV")
            for name in NAMES
        ]
        yield f"| {what}, at most 2 times that in the potential | smooth frames over potential: {'; '.join(cells)} |"
    gains = [_gain(runs, name) for name in NAMES]
    yield f"| range at least 100 times less than in hard frames | hard over smooth: {'; '.join(gains)} |"
    halves = [_halved(runs, name) for name in NAMES]
    yield f"| half the step, about a quarter of the range | smooth (potential): {'; '.join(halves)} |"
    yield f"| force error at equal epochs at most 1.05 times that of hard frames | {_errors(runs)} |"
    if "equal cost" in runs:
        yield f"| the same at equal cost | {_equal_cost(runs)} |"
    yield f"| energy in 115 orientations, angular momentum | {_symmetry(runs)} |"
    parts = runs["smooth"]["measured"]["parts_of_forces"]
    yield (
        "| what the frame itself contributes | mean absolute force in smooth frames by way of the backbone "
        f"{parts['backbone']:.3f}, by the turning of poses {parts['turning']:.3f}, by the change of weights "
        f"{parts['weights']:.3f} eV/A; the same network in hard frames errs by "
        f"{runs['smooth']['measured']['in_hard_frames']['force_mae']:.4f} eV/A |"
    )


def _runs(records: list[Record]) -> dict[str, Record]:
    """By method, the first seed and the most epochs; smooth frames of fewer epochs are those at equal cost."""
    found: dict[str, Record] = {}
    order = sorted(records, key=lambda r: (-r["configuration"]["recipe"]["epochs"], r["configuration"]["seed"]))
    for r in order:
        method = r["configuration"]["method"]
        fewer = (
            method == "smooth"
            and r["configuration"]["recipe"]["epochs"] < order[0]["configuration"]["recipe"]["epochs"]
        )
        found.setdefault("equal cost" if fewer else method, r)
    return found


def _path(r: Record, name: str) -> Record:
    return dict(r["measured"]["paths"][name])


def _bold(text: str, short: bool) -> str:
    return f"**{text}**" if short else text


def _judged(value: float | None, unit: float, most: float, name: str, of: str) -> str:
    if value is None:
        return f"{name} **not finite**"
    text = f"{value:.2g} / {unit:.2g}{of} = {value / unit:.2g}"
    return f"{name} {_bold(text, value > most * unit)}"


def _lengths(runs: dict[str, Record]) -> str:
    words = {"smooth": "smooth frames", "minimal": "hard ones", "pca": "PCA frames", "drawn": "drawn poses"}
    words["plain"] = "no frame"
    wanted, told = runs["potential"]["configuration"]["picoseconds"], []
    for method in (m for m in words if m in runs):
        paths = {name: _path(runs[method], name) for name in NAMES}
        length = max(path["picoseconds"] for path in paths.values())
        apart = [f"{name} apart at {p['picoseconds']:.3g}" for name, p in paths.items() if p.get("apart")]
        whole = all(p.get("apart") or p["picoseconds"] >= wanted for p in paths.values())
        told.append(_bold(", ".join([f"{words[method]} {length:.3g} ps", *apart]), not whole))
    return "; ".join(told)


def _gain(runs: dict[str, Record], name: str) -> str:
    hard, smooth = (_path(runs[m], name) for m in ("minimal", "smooth"))
    if hard["range"] is None or smooth["range"] is None:
        return f"{name} **not finite**"
    gain = hard["range"] / smooth["range"]
    ended = f" in {hard['picoseconds']:.3g} ps" if hard["picoseconds"] < smooth["picoseconds"] else ""
    text = f"{hard['range']:.2g} / {smooth['range']:.2g} = {gain:.2g}{ended}"
    return f"{name} {_bold(text, gain < MIN_GAIN)}"


def _halved(runs: dict[str, Record], name: str) -> str:
    ratios = []
    for method in ("smooth", "potential"):
        whole, half = runs[method]["measured"]["halved"][name].values()
        ratios.append(whole["range"] / half["range"] if half["range"] and whole["range"] is not None else float("nan"))
    return f"{name} {_bold(f'{ratios[0]:.1f}', not QUARTER[0] <= ratios[0] <= QUARTER[1])} ({ratios[1]:.1f})"


def _error(r: Record) -> str:
    return f"{r['test']['force_mae']:.4f} +- {r['test']['force_mae_spread']:.4f}"


def _errors(runs: dict[str, Record]) -> str:
    ratio = runs["smooth"]["test"]["force_mae"] / runs["minimal"]["test"]["force_mae"]
    others = {"drawn": "drawn poses", "pca": "PCA", "plain": "without a frame"}
    more = [f"{words} {_error(runs[method])}" for method, words in others.items() if method in runs]
    text = f"{_bold(f'{ratio:.2f}', ratio > MAX_FORCE_ERROR)} (test, eV/A: smooth {_error(runs['smooth'])}, hard "
    return "; ".join([text + _error(runs["minimal"]), *more]) + ")"


def _equal_cost(runs: dict[str, Record]) -> str:
    ratio = runs["equal cost"]["test"]["force_mae"] / runs["minimal"]["test"]["force_mae"]
    epochs = [runs[m]["configuration"]["recipe"]["epochs"] for m in ("equal cost", "minimal")]
    text = f"{ratio:.2f} ({_error(runs['equal cost'])}): {epochs[0]} epochs show the backbone about as many poses as "
    return _bold(text + f"{epochs[1]} in hard frames", ratio > MAX_FORCE_ERROR)


def _symmetry(runs: dict[str, Record]) -> str:
    told = []
    for method, words in (("smooth", "smooth frames"), ("minimal", "hard"), ("pca", "PCA"), ("plain", "no frame")):
        if method not in runs:
            continue
        measured = runs[method]["measured"]
        angular = [_path(runs[method], name)["angular_relative"] for name in NAMES]
        lost = "not finite" if any(x is None for x in angular) else f"{max(angular):.1g}"
        told.append(
            f"{words}: at most {max(measured['orientations'].values()):.1g} eV, angular momentum changes by {lost}"
        )
    return "; ".join(told) + " of its size"
