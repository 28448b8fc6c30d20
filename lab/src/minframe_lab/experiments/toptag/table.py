"""What the top-tagging experiment gave, as a table and figures: every number comes from a metrics file."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from minframe_lab.experiments import paper
from minframe_lab.experiments.plots import STYLE
from minframe_lab.experiments.rows import Record, command, data_kind, difference, grouped, seeds, spread, table

NETWORKS = {"transformer": "transformer", "minkgnn": "MinkGNN", "mass": "jet mass alone"}
METHODS = {
    "minimal": "minimal frame",
    "unordered": "minimal frame, unordered",
    "invariant": "invariant by design",
    "preprocessed": "usual preprocessing",
    "augmented": "raw momenta, boosts as augmentation",
    "plain": "raw momenta, no frame",
}
COLOURS = {
    "minimal": "#1f77b4",
    "unordered": "#17becf",
    "invariant": "#2ca02c",
    "preprocessed": "#ff7f0e",
    "augmented": "#9467bd",
    "plain": "#d62728",
}
TITLE = "## Top tagging, O(1, 3)"
NOTE = """
Jets of top quarks against those of light quarks and gluons. **Rows marked "surrogate" are not the reference set**,
which is too large to be here, but jets that `minframe data toptag` makes with Pythia and fastjet and a crude
calorimeter in its layout: close to it, and a little easier, so that their figures compare with each other and not
with the paper's. All networks see the 30 hardest constituents, and train with the same recipe at each size. "Raw
momenta" alone are a straw man: the usual preprocessing and the mass of the jet stand beside them. Errors of AUC are
by resampling the test set. The change of logits is the largest over 1,000 jets under elements of O(1, 3) with
rapidity up to 2, relative to the size of a logit; frames are found in float64. Rejection at an efficiency of 0.3 is
given only with 20,000 background jets."""
LEAST_BACKGROUND = 20  # background jets that pass, below which a curve is not drawn
FIGURES = ("toptag-roc.png", "toptag-size.png")


def key(r: Record) -> tuple[Any, ...]:
    """What sets a row apart: in the order of the table."""
    c = r["configuration"]
    return (
        list(NETWORKS).index(c["network"]),
        c["jets"] or r["data"].get("counts", {}).get("train", 0),
        list(METHODS).index(c["method"]),
        c["width"],
        c["layers"],
        c["recipe"]["epochs"],
        tested(r),
    )


def tested(r: Record) -> int:
    """Jets of the test set."""
    return int(r["measured"]["jets"]["test"])


def widest(records: list[Record]) -> list[Record]:
    """For figures: of each network, method and size of the training set those tested on most jets."""
    groups = grouped(records, lambda r: (*key(r)[:3], tested(r)))
    last = {k[:3]: k for k in groups}  # sorted, so that the largest test set comes last
    return [r for k in last.values() for r in groups[k]]


def label(r: Record) -> str:
    """The network of a run and what it is shown."""
    c = r["configuration"]
    return NETWORKS[c["network"]] if c["network"] == "mass" else f"{NETWORKS[c['network']]}, {METHODS[c['method']]}"


def section(records: list[Record]) -> Iterable[str]:
    """The part of the page of results on this experiment."""
    if not records:
        return
    groups = grouped(records, key)
    yield from ("", TITLE, NOTE, "")
    columns = [
        "network",
        "data",
        "jets",
        "test jets",
        "paper: accuracy / AUC",
        "accuracy",
        "AUC",
        "background rejection at 0.5",
    ]
    columns += ["at 0.3", "change of logits", "CPU ms a jet", "seeds", "epochs", "command"]
    yield from table(columns, (_row(group) for group in groups.values()))
    yield ""
    yield f"![Background over signal efficiency, {data_kind(records)} jets]({FIGURES[0]})"
    yield f"![AUC over size of the training set, {data_kind(records)} jets]({FIGURES[1]})"
    yield ""
    yield contribution(groups)


def _row(group: list[Record]) -> list[str]:
    first = group[0]
    test, c = [r["test"] for r in group], first["configuration"]
    known = paper.TOPTAG.get((c["network"], c["method"]))
    error = statistics.mean(t["auc_error"] for t in test)
    return [
        label(first),
        data_kind(group),
        f"{key(first)[1]:,}",
        f"{tested(first):,}",
        f"{known[0]:.4f} / {known[1]:.4f} (published set)" if known else "",
        spread([t["accuracy"] for t in test]),
        f"{spread([t['auc'] for t in test])} (± {error:.1g} of the test set)",
        spread([t["rejection_50"] for t in test], 3) if all("rejection_50" in t for t in test) else "",
        spread([t["rejection_30"] for t in test], 3) if all("rejection_30" in t for t in test) else "",
        f"{max(r['measured']['invariance_error'] for r in group):.1e}",
        f"{statistics.mean(r['measured']['milliseconds_a_jet'] for r in group):.2f}",
        seeds(group),
        str(c["recipe"]["epochs"]),
        command(group),
    ]


def contribution(groups: dict[Any, list[Record]]) -> str:
    """What the frame itself contributes, by size of the training set."""
    parts = []
    by_size: dict[tuple[str, int, int, int], dict[str, list[Record]]] = {}
    for group in groups.values():  # what is compared has the same jets in training and tests, and the same epochs
        c = group[0]["configuration"]
        same = (c["network"], key(group[0])[1], c["recipe"]["epochs"], tested(group[0]))
        by_size.setdefault(same, {})[c["method"]] = group
    for (network, size, *_), methods in by_size.items():
        framed = methods.get("minimal")
        if framed is None:
            continue
        for other in ("preprocessed", "plain", "augmented", "invariant"):
            if other in methods:
                gain, error = difference(framed, methods[other], ("test", "auc"), ("test", "auc_error"))
                parts.append(f"{NETWORKS[network]} at {size:,} jets over {METHODS[other]}: {gain:+.4f} ± {error:.4f}")
    if not parts:
        return "What the frame itself contributes here: no pair of rows is there to say it."
    return f"What the frame itself contributes here, in AUC (errors: of the test set and of seeds): {'; '.join(parts)}."


def figures(records: list[Record], folder: Path) -> None:
    """Curves of the rows with most jets, and AUC over the size of the training set; they say what the data are."""
    kind, records = data_kind(records), widest(records)
    with mpl.rc_context(STYLE):
        _curves(records, kind, folder / FIGURES[0])
        _sizes(records, kind, folder / FIGURES[1])


def _curves(records: list[Record], kind: str, path: Path) -> None:
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    most = {r["configuration"]["network"]: 0 for r in records}
    for r in records:
        most[r["configuration"]["network"]] = max(most[r["configuration"]["network"]], key(r)[1])
    shown: set[str] = set()
    for r in sorted(records, key=key):
        c, curve = r["configuration"], r["measured"]["roc"]
        name = f"{label(r)}, {key(r)[1]:,} jets"
        if key(r)[1] < most[c["network"]] or name in shown:
            continue
        shown.add(name)
        style = {"transformer": "-", "minkgnn": "--", "mass": ":"}[c["network"]]
        least = LEAST_BACKGROUND / r["measured"]["jets"]["background"]
        points = [(s, 1 / b) for s, b in zip(curve["signal"], curve["background"], strict=True) if b >= least]
        axes.plot(*zip(*points, strict=True), style, color=COLOURS[c["method"]], linewidth=1, label=name)
    axes.set(xlabel="signal efficiency", ylabel="background rejection", yscale="log", title=f"Top tagging, {kind} jets")
    axes.legend(fontsize=6)
    figure.savefig(path, dpi=110)


def _sizes(records: list[Record], kind: str, path: Path) -> None:
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for network in ("transformer", "minkgnn"):
        for method, colour in COLOURS.items():
            mine = [
                r for r in records if (r["configuration"]["network"], r["configuration"]["method"]) == (network, method)
            ]
            if not mine:
                continue
            found = grouped(mine, lambda r: key(r)[1])
            values = [statistics.mean(1 - r["test"]["auc"] for r in group) for group in found.values()]
            errors = [statistics.mean(r["test"]["auc_error"] for r in group) for group in found.values()]
            style = "o-" if network == "transformer" else "s--"
            axes.errorbar(list(found), values, errors, fmt=style, color=colour, markersize=4, label=label(mine[0]))
    for r in records:
        if r["configuration"]["network"] == "mass":
            axes.axhline(1 - r["test"]["auc"], color="0.5", linestyle=":", linewidth=1, label=label(r))
    axes.set(xlabel="training jets", ylabel="1 - AUC", xscale="log", yscale="log", title=f"Top tagging, {kind} jets")
    axes.legend(fontsize=6)
    figure.savefig(path, dpi=110)
