"""The table of results: every number in it comes from a metrics file, but for the paper's."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from minframe_lab.experiments import paper, record
from minframe_lab.experiments.contribution import contribution
from minframe_lab.experiments.dynamics import found as moving_found
from minframe_lab.experiments.dynamics import plots as moving_plots
from minframe_lab.experiments.dynamics import table as moving
from minframe_lab.experiments.is2re import table as slabs
from minframe_lab.experiments.rows import BACKBONES
from minframe_lab.experiments.toptag import table as tagging

Record = dict[str, Any]
TITLES = {
    "nbody": ("Charged particles, E(3)", "test MSE"),
    "hull": ("Convex hull, S_n x O(5)", "test MSE"),
    "graph8c": ("GRAPH8c, S_n", "pairs not told apart"),
    "exp": ("EXP, S_n", "pairs not told apart"),
    "exp-classify": ("EXP-classify, S_n", "test accuracy"),
}
NOTES = {
    "nbody": """
The paper's network, of the paper's size, inside the minimal frame, which is chosen without regard to the order of the
particles and in their rest frame: a common velocity changes nothing, and their mean moves uniformly. One forward pass.
The network is told the energy of each pair and the logarithm of its distance (the paper: the product of the charges and
the fourth power of the distance), and is trained on one random pose of each sample in a step (the paper: six), with a
cosine schedule, averaged weights and no dropout. All methods have these settings; FA sees eight poses of each sample in
a step, and its loss is of the mean of their answers. Errors of the poses then cancel, which in short runs is worth more
than the choice of frame: with the same loss over eight random poses the minimal frame is as good ("by the mean of their
answers"), at the cost of FA. Without a frame, too, the network learns from random poses: it comes as close, and is not
equivariant. The gain over the paper comes from what the network is told of pairs and from the rest frame, not from the
frame. Rows compare with those of as many epochs only; with the paper's edge features and without the rest frame the
network is told what the paper's is.""",
    "hull": """
The paper's kind of network in the minimal frame. The row that compares with the paper's is that of O(5). With GL(5)
the frame is that of a larger group, under which a volume is known to change by `|det g|`: the network has only to
know volumes of clouds whose coordinates are not correlated. Permutations and O(5), which the task is about, leave the
answer as it is. FA sees points in the order of their distance from the mean, in 32 poses a step, and its loss is of the
mean of 32 answers: epoch for epoch it is far ahead, and pass for pass it is not, as its 6 epochs are 192 passes of each
cloud in training, and 32 in a test. Rows of 6 epochs are there to stand beside it.""",
    "graph8c": """
Random networks on canonical graphs. A pair is told apart if one of up to 100 networks gives embeddings that differ by
more than 1e-3; the run ends when no pair is left. FA sorts nodes by the spectrum and draws 16 orders. Without a frame
GIN does not see the order of the nodes; a perceptron does, and is not invariant. "GIN as published" has one linear map
a layer, the degree of nodes as input and tanh throughout, as in the comparison the paper quotes; the other two.""",
    "exp": """
"Published graphs" are read from a file with `--data`; generated ones are formulas of parities of the same make.""",
    "exp-classify": """
Each connected component is brought into its own canonical order, so that a component which occurs in many graphs always
looks the same; scores are added up. "Whole graphs" have one canonical order each, in which components are mixed, and
need more epochs for less. FA draws 16 orders. A perceptron without a frame sees the numbers that nodes happen
to have in the file, and these tell; under relabelling its scores change, and so do those of FA.""",
}
KEPT = (record.METRICS, record.WEIGHTS, "*.png")
LARGEST = 1_000_000  # bytes of weights that are worth keeping


def collect(folder: Path, results: Path) -> Path:
    """Copy what is worth keeping of a finished run: its metrics, small weights and figures."""
    record.read_finished(folder)
    target = results / folder.name
    target.mkdir(parents=True, exist_ok=True)
    for pattern in KEPT:
        for path in folder.glob(pattern):
            if path.stat().st_size <= LARGEST:
                shutil.copy(path, target / path.name)
    return target


def write_table(results: Path) -> Path:
    """Write ``README.md`` from all metrics files in a folder, and a figure that compares runs."""
    records = [record.read(path.parent) for path in sorted(results.glob(f"*/{record.METRICS}"))]
    path = results / "README.md"
    path.write_text("\n".join(_page(records)))
    if dynamics := [r for r in records if r["experiment"] == "dynamics"]:
        moving_plots.energies(dynamics, results / "dynamics.png")
        page = results.resolve().parents[1] / "docs" / "dynamics.md"
        if page.exists():
            shutil.copy(results / "dynamics.png", page.with_suffix(".png"))
            moving_found.write(dynamics, page)
    if jets := [r for r in records if r["experiment"] == "toptag"]:
        tagging.figures(jets, results)
    if catalysts := [r for r in records if r["experiment"] == "is2re"]:
        slabs.figures(catalysts, results)
    return path


def _page(records: list[Record]) -> Iterable[str]:
    yield "# Results"
    yield ""
    yield "Written by `minframe reproduce table` from the metrics files in this folder; do not edit it by hand. Each"
    yield "row is made again by its command with each of its seeds, and a stored model is tested again by"
    yield "`minframe reproduce EXPERIMENT --evaluate lab/results/RUN`. Of several seeds: mean ± standard deviation."
    for name, (title, unit) in TITLES.items():
        rows = _grouped([r for r in records if r["experiment"] == name])
        if not rows:
            continue
        yield from ("", f"## {title}", NOTES[name], "")
        yield f"| method | paper | ours: {unit} | seeds | epochs | minutes each | command |"
        yield "|---|---|---|---|---|---|---|"
        for label, group in rows.items():
            yield _row(label, group)
        for group in rows.values():
            yield from DETAILS[name](group)
        yield from ("", contribution(name, [r for r in records if r["experiment"] == name]))
    yield from tagging.section([r for r in records if r["experiment"] == "toptag"])
    yield from slabs.section([r for r in records if r["experiment"] == "is2re"])
    yield from moving.section([r for r in records if r["experiment"] == "dynamics"])
    yield ""
    machines = sorted({f"{r['hardware']['processor']}, {r['hardware']['threads']} thread(s)" for r in records})
    commits = sorted({_commit(r) for r in records})
    yield f"Hardware: {'; '.join(machines)}, shared with other work, which minutes include. PyTorch"
    yield f"{', '.join(sorted({r['torch'] for r in records}))}. Commits: {', '.join(commits)} (+: with changes)."
    yield ""


def _commit(r: Record) -> str:
    """The beginning of a commit, with the mark of code that was not committed."""
    commit = str(r["commit"])
    return commit[:12] + ("+" if commit.endswith("+") else "")


def _grouped(records: list[Record]) -> dict[str, list[Record]]:
    """Runs that differ in their seed alone, under what makes them different from others."""
    groups: dict[str, list[Record]] = {}
    for r in sorted(records, key=_place):
        groups.setdefault(_label(r), []).append(r)
    return groups


def _place(r: Record) -> tuple[int, bool, bool, int]:
    """The minimal frame first, and what compares with the paper: O(5) before GL(5), long runs before short."""
    c = r["configuration"]
    epochs = c["recipe"]["epochs"] if r["experiment"] in ("nbody", "hull") else 0
    return -epochs, c["method"] != "minimal", bool(c.get("shear")), r["seed"]


NAMES = {
    "minimal": "minimal frame",
    "ordered": "minimal frame by the order of rows",
    "smooth": "smooth frames",
    "pca": "FA",
    "stochastic": "stochastic FA",
    "plain": "no frame",
}


def _label(r: Record) -> str:
    c, names = r["configuration"], NAMES
    parts = [names[c["method"]]]
    if "backbone" in c:
        parts.append(BACKBONES[c["backbone"]])
    if "published" in c and r["experiment"] != "graph8c":
        parts.append("published graphs" if c["published"] else "generated graphs")
    if c["method"] == "pca" and "shear" in c:
        parts.append("32 poses of O(5)")
    if c["method"] == "minimal" and "shear" in c:
        parts.append("of S_n x GL(5)" if c["shear"] else "of S_n x O(5)")
    if "edges" in c:
        parts.append({"fourth": "paper's edge features", "potential": "potentials as edge features"}[c["edges"]])
    if c.get("copies", 1) > 1:
        how = " by the mean of their answers" if c.get("together") else ""
        parts.append(f"{c['copies']} random poses in a step{how}")
    if c.get("turns", 1) > 1:
        parts.append(f"mean of {c['turns']} poses in tests")
    if c.get("rest_frame") is False:
        parts.append("no rest frame")
    if c.get("apart") is False:
        parts.append("whole graphs")
    epochs = c["recipe"]["epochs"] if "recipe" in c else ""
    return ", ".join(parts) + (f"|{epochs}" if epochs else "|")


def _row(label: str, group: list[Record]) -> str:
    first = group[0]
    c = first["configuration"]
    name, epochs = label.split("|")
    key = {"graph8c": "unseparated", "exp": "unseparated", "exp-classify": "accuracy"}.get(first["experiment"], "mse")
    reference = paper.reference(first["experiment"], c["method"], c.get("backbone"))
    seeds = ", ".join(str(r["seed"]) for r in group)
    minutes = statistics.mean(r["seconds"] for r in group) / 60
    command = first["command"].replace(f"--seed {first['seed']}", "--seed SEED")
    cells = [
        name,
        _shown(reference),
        _spread([r["test"][key] for r in group]),
        seeds,
        epochs,
        f"{minutes:.1f}" if minutes >= 0.1 else "< 0.1",
    ]
    return f"| {' | '.join(cells)} | `{command}` |"


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _spread(values: list[float]) -> str:
    mean = statistics.mean(values)
    return f"**{mean:.4g}**" + (f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else "")


def _nbody(group: list[Record]) -> Iterable[str]:
    measured = [r["measured"] for r in group]
    label, epochs = _label(group[0]).split("|")
    means = " and ".join(f"{_spread([m[f'mse_{count}'] for m in measured])} over {count}" for count in (8, 48))
    yield f"\n{label}, {epochs} epochs (best: {_epochs(group)}): averaged over fixed poses {means}."
    yield f"Worst relative equivariance error, float32: {max(m['equivariance_error'] for m in measured):.1e}."
    if group[0]["configuration"]["method"] != "minimal":
        return
    if errors := [m["mse_error"] for m in measured if "mse_error" in m]:
        yield f"Error of the MSE by resampling the test set: {max(errors):.2g}, which is the larger one."
    times = {k: statistics.median(m["seconds"][k] for m in measured) for k in measured[0]["seconds"]}
    ms = ", ".join(f"{NAMES[k]} {1000 * v:.1f}" for k, v in times.items())
    ratios = f"{times['minimal'] / times['plain']:.2f} of plain, {times['minimal'] / times['pca']:.2f} of FA"
    yield f"Milliseconds of the processor for a batch of 100: {ms}; minimal is {ratios}."


def _hull(group: list[Record]) -> Iterable[str]:
    worst = max(r["measured"]["invariance_error"] for r in group)
    mean = statistics.mean(r["measured"]["invariance_error_l1"] for r in group)
    label, epochs = _label(group[0]).split("|")
    known = f"mean difference {mean:.1e} (paper: {paper.HULL_INVARIANCE:.0e})"
    yield f"\n{label}, {epochs} epochs: worst relative invariance error {worst:.1e}, {known}."


def _graph8c(group: list[Record]) -> Iterable[str]:
    measured = [r["measured"] for r in group if "measured" in r]
    if not measured:
        return
    batches = sorted({b for m in measured for b in m["seconds"]}, key=int)
    timed = {b: [m["seconds"][b] for m in measured if b in m["seconds"]] for b in batches}
    columns = ["GRAPH8c, MLP", "invariance error", "paper", *(f"CPU ms a graph, batch {b}" for b in batches), "paper"]
    yield from ("", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|")
    for name in measured[0]["invariance_error"]:
        error = statistics.mean(m["invariance_error"][name] for m in measured)
        times = [1000 * statistics.mean(seconds[name] for seconds in timed[b]) for b in batches]
        published = [paper.GRAPH8C_ERRORS.get(name), paper.GRAPH8C_MILLISECONDS.get(name)]
        cells = [name, f"{error:.2g}", _shown(published[0]), *(f"{t:.4f}" for t in times), _shown(published[1])]
        yield f"| {' | '.join(cells)} |"
    ratios = [statistics.mean(s["minimal"] / s["FA, 16 samples"] for s in timed[b]) for b in batches]
    yield f"\nMinimal against FA with 16 samples, ratio of times in one run: {', '.join(f'{r:.2f}' for r in ratios)}."


def _classify(group: list[Record]) -> Iterable[str]:
    worst = max(r["measured"]["invariance_error"] for r in group)
    label = _label(group[0]).split("|")[0]
    yield f"\n{label}: largest change of a score under relabelling {worst:.1e}; best epochs {_epochs(group)}."


def _epochs(group: list[Record]) -> str:
    return ", ".join(f"{r['best_epoch']:.0f}" for r in group)


def _none(group: list[Record]) -> Iterable[str]:
    return ()


DETAILS: dict[str, Callable[[list[Record]], Iterable[str]]] = {
    "nbody": _nbody,
    "hull": _hull,
    "graph8c": _graph8c,
    "exp": _none,
    "exp-classify": _classify,
}
