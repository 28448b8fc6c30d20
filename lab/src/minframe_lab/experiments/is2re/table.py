"""What the catalyst experiment gave, as a table: every number comes from a metrics file."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from minframe_lab.experiments.is2re.data import TESTS
from minframe_lab.experiments.plots import STYLE
from minframe_lab.experiments.rows import Record, command, data_kind, difference, grouped, seeds, spread, table

METHODS = {
    "unordered": "minimal frame, unordered",
    "minimal": "minimal frame, by the order of atoms",
    "pca": "FA, 4 poses",
    "stochastic": "stochastic FA",
    "augmented": "no frame, random rotations in training",
    "plain": "no frame",
}
TITLE = "## Slabs with adsorbates (IS2RE), E(2) in the plane"
NOTE = """
The energy that a slab relaxes to, from the structure before. **Rows marked "surrogate" are not OC20**, which is too
large to be here, but strained, defective alloys with H, C and O that `minframe data is2re` relaxes with a cheap
potential; the target is the total energy, less what a ridge regression on the composition says. Splits: in
distribution (id), an unseen adsorbate (N), unseen pairs of metals, and both. A small network of FAENet's kind (width
64, cutoff 4.5 A) sees vectors to all neighbours; frames are taken of sums of these, so that neither the stored image
of an atom nor the basis of the lattice matters. Errors are standard errors of the test set. "Within": share of
energies within 0.02 eV. Changes are mean ones of the energy, in eV, float32 networks. The paper: FAENet 0.5446 and
with the minimal frame 0.5437 eV (id), changes of 6.2e-2 and 8.8e-6 eV, 3,863 and 3,920 samples a second, on OC20.
Samples a second count frames that are found anew in every pass; beside them, how many times those of stochastic FA
these are, in turns with it, and where poses are made once for a dataset, as in training. Energies by CHGNet count from
crystals of the metals and from H2, N2, H2O and CO. The slabs of CHGNet are few, as each takes seconds; seeds 1 and 2
without a frame were run there when the first had been seen."""
POTENTIALS = {"emt": "EMT", "chgnet": "CHGNet"}
COLOURS = {
    "unordered": "#17becf",
    "minimal": "#1f77b4",
    "pca": "#ff7f0e",
    "stochastic": "#9467bd",
    "augmented": "#8c564b",
    "plain": "#d62728",
}
FIGURES = ("is2re-parity.png", "is2re-size.png")
SHOWN = ("unordered", "stochastic")  # beside each other in the figure of energies


def key(r: Record) -> tuple[Any, ...]:
    """What sets a row apart: in the order of the table."""
    c = r["configuration"]
    sizes = (c["slabs"] or r["data"].get("counts", {}).get("train", 0), c["width"], c["recipe"]["epochs"])
    return (str(r["data"].get("potential")), *sizes, tested(r), list(METHODS).index(c["method"]))


def tested(r: Record) -> int:
    """Slabs in each of the test sets."""
    return int(r["data"].get("counts", {}).get(TESTS[0], 0))


def section(records: list[Record]) -> Iterable[str]:
    """The part of the page of results on this experiment."""
    if not records:
        return
    groups = grouped(records, key)
    yield from ("", TITLE, NOTE, "")
    columns = [
        "method",
        "data",
        "slabs",
        "in each test",
        *(f"MAE {split}, eV" for split in TESTS),
        "within: " + " / ".join(TESTS),
    ]
    columns += [
        "change: isometries / order",
        "samples a CPU second",
        "over stochastic FA / posed once",
        "seeds",
        "epochs",
        "command",
    ]
    yield from table(columns, [*(_row(group) for group in groups.values()), *_baselines(groups)])
    yield ""
    yield f"![Energies predicted over true ones, {data_kind(records)} slabs]({FIGURES[0]})"
    yield f"![Error over size of the training set, {data_kind(records)} slabs]({FIGURES[1]})"
    yield ""
    yield contribution(groups)


def named(potential: str) -> str:
    """A potential as it is written."""
    return POTENTIALS.get(potential, potential)


def _data(group: list[Record]) -> str:
    potential = group[0]["data"].get("potential")
    return data_kind(group) + (f" ({named(potential)})" if potential else "")


def _row(group: list[Record]) -> list[str]:
    first, test = group[0], [r["test"] for r in group]
    cells = []
    for split in TESTS:
        error = statistics.mean(t[f"mae_{split}_error"] for t in test)
        cells.append(f"{spread([t[f'mae_{split}'] for t in test])} (± {error:.1g})")
    measured = [r["measured"] for r in group]
    return [
        METHODS[first["configuration"]["method"]],
        _data(group),
        f"{key(first)[1]:,}",
        f"{tested(first):,}",
        *cells,
        " / ".join(f"{statistics.mean(t[f'within_{split}'] for t in test):.1%}" for split in TESTS),
        " / ".join(f"{statistics.mean(m[k] for m in measured):.1e}" for k in ("invariance_error", "order_error")),
        f"{statistics.mean(m['samples_a_second'] for m in measured):.0f}",
        " / ".join(_ratio(measured, k) for k in ("over_stochastic", "posed_over_stochastic")),
        seeds(group),
        str(first["configuration"]["recipe"]["epochs"]),
        command(group),
    ]


def _ratio(measured: list[Record], name: str) -> str:
    known = [m[name] for m in measured if name in m]
    return f"{statistics.mean(known):.2f}" if known else "-"


def _baselines(groups: dict[Any, list[Record]]) -> Iterable[list[str]]:
    """What composition and adsorbate alone say, once for each dataset."""
    seen = set()
    for group in groups.values():
        where = (_data(group), key(group[0])[1], tested(group[0]))
        if where in seen:
            continue
        seen.add(where)
        for name, measured in (
            ("composition alone (ridge)", "composition"),
            ("mean of the adsorbate", "adsorbate_mean"),
        ):
            found = group[0]["measured"][measured]
            cells = [f"{found[f'mae_{split}']:.4g} (± {found[f'mae_{split}_error']:.1g})" for split in TESTS]
            yield [name, where[0], f"{where[1]:,}", f"{where[2]:,}", *cells, *([""] * 7)]


def contribution(groups: dict[Any, list[Record]]) -> str:
    """What the frame itself contributes here."""
    parts = []
    for settings, same in grouped((r for group in groups.values() for r in group), lambda r: key(r)[:-1]).items():
        methods = grouped(same, lambda r: r["configuration"]["method"])
        framed = methods.get("unordered") or methods.get("minimal")
        for other in ("stochastic", "pca", "plain", "augmented") if framed else ():
            if other in methods:
                where = f"{named(settings[0])}, {settings[1]:,} slabs"
                parts.append(f"{where}, against {METHODS[other]} {_difference(framed or [], methods[other])}")
    if not parts:
        return "What the frame itself contributes here: there is no pair of rows that differ in the frame alone."
    return f"What the frame itself contributes here: {'; '.join(parts)}."


def _difference(framed: list[Record], other: list[Record]) -> str:
    def mean(group: list[Record], part: str, name: str) -> float:
        return statistics.mean(r[part][name] for r in group)

    gain, error = difference(framed, other, ("test", "mae_id"), ("test", "mae_id_error"))
    changes = [f"{mean(g, 'measured', 'invariance_error'):.1e}" for g in (framed, other)]
    paired = all("over_stochastic" in r["measured"] for r in (*framed, *other))  # in turns, in one process
    name = "over_stochastic" if paired else "samples_a_second"
    speed = mean(framed, "measured", name) / mean(other, "measured", name)
    how = "" if paired else " (in runs apart from each other)"
    return (
        f"MAE (id) {gain:+.3f} ± {error:.3f} eV, a change under isometries of {changes[0]} instead of {changes[1]} eV, "
        f"{speed:.2f} times the samples a second{how}"
    )


def figures(records: list[Record], folder: Path) -> None:
    """Energies of the rows with most slabs, and errors over sizes of the training set; they say what the data are."""
    with mpl.rc_context(STYLE):
        _energies(records, folder / FIGURES[0])
        _sizes(records, folder / FIGURES[1])


def _energies(records: list[Record], path: Path) -> None:
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    for axes, method in zip(figure.subplots(1, 2, sharex=True, sharey=True), SHOWN, strict=True):
        mine = sorted((r for r in records if r["configuration"]["method"] == method), key=key)
        title = f"{METHODS[method]}, no run"
        if mine:
            parity = mine[-1]["measured"]["parity"]
            axes.plot(parity["true"], parity["predicted"], ".", markersize=3, color=COLOURS[method])
            axes.axline((0, 0), slope=1, color="0.5", linewidth=0.8)
            title = f"{METHODS[method]}, all four test sets\n{key(mine[-1])[1]:,} {_data(mine[-1:])} slabs in training"
        axes.set_xlabel("energy over composition, eV")
        axes.set_title(title, fontsize=8)
    figure.axes[0].set_ylabel("predicted, eV")
    figure.savefig(path, dpi=110)


def _sizes(records: list[Record], path: Path) -> None:
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for (potential, method), mine in grouped(records, lambda r: (key(r)[0], r["configuration"]["method"])).items():
        found = grouped(mine, lambda r: key(r)[1])
        values = [statistics.mean(r["test"]["mae_id"] for r in group) for group in found.values()]
        errors = [statistics.mean(r["test"]["mae_id_error"] for r in group) for group in found.values()]
        name = f"{METHODS[method]} ({named(potential)})"
        style = "o-" if potential == "emt" else "s--"
        axes.errorbar(list(found), values, errors, fmt=style, color=COLOURS[method], markersize=4, label=name)
    for potential, mine in grouped(records, lambda r: key(r)[0]).items():
        found = grouped(mine, lambda r: key(r)[1])
        values = [group[0]["measured"]["composition"]["mae_id"] for group in found.values()]
        style = "ko:" if potential == "emt" else "ks:"
        axes.plot(
            list(found), values, style, linewidth=1, markersize=3, label=f"composition alone ({named(potential)})"
        )
    title = f"Slabs in distribution, {data_kind(records)}"
    axes.set(xlabel="training slabs", ylabel="MAE, eV", xscale="log", yscale="log", title=title)
    figure.legend(fontsize=6, loc="outside right upper")
    figure.savefig(path, dpi=110)
