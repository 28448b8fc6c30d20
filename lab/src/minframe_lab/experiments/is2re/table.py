"""What the catalyst experiment gave, as a table: every number comes from a metrics file."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from minframe_lab.experiments.is2re.data import TESTS
from minframe_lab.experiments.rows import Record, command, data_kind, grouped, seeds, spread, table

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
with the minimal frame 0.5437 eV (id), changes of 6.2e-2 and 8.8e-6 eV, 3,863 and 3,920 samples a second, on OC20."""


def key(r: Record) -> tuple[Any, ...]:
    """What sets a row apart: in the order of the table."""
    c = r["configuration"]
    sizes = (c["slabs"] or r["data"].get("counts", {}).get("train", 0), c["width"], c["recipe"]["epochs"])
    return (str(r["data"].get("potential")), *sizes, list(METHODS).index(c["method"]))


def section(records: list[Record]) -> Iterable[str]:
    """The part of the page of results on this experiment."""
    if not records:
        return
    groups = grouped(records, key)
    yield from ("", TITLE, NOTE, "")
    columns = ["method", "data", "slabs", *(f"MAE {split}, eV" for split in TESTS), "within: " + " / ".join(TESTS)]
    columns += ["change: isometries / order", "samples a CPU second", "seeds", "epochs", "command"]
    yield from table(columns, [*(_row(group) for group in groups.values()), *_baselines(groups)])
    yield ""
    yield contribution(groups)


def _data(group: list[Record]) -> str:
    potential = group[0]["data"].get("potential")
    return data_kind(group) + (f" ({str(potential).upper()})" if potential else "")


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
        *cells,
        " / ".join(f"{statistics.mean(t[f'within_{split}'] for t in test):.1%}" for split in TESTS),
        " / ".join(f"{statistics.mean(m[k] for m in measured):.1e}" for k in ("invariance_error", "order_error")),
        f"{statistics.mean(m['samples_a_second'] for m in measured):.0f}",
        seeds(group),
        str(first["configuration"]["recipe"]["epochs"]),
        command(group),
    ]


def _baselines(groups: dict[Any, list[Record]]) -> Iterable[list[str]]:
    """What composition and adsorbate alone say, once for each dataset."""
    seen = set()
    for group in groups.values():
        where = (_data(group), key(group[0])[1])
        if where in seen:
            continue
        seen.add(where)
        for name, measured in (
            ("composition alone (ridge)", "composition"),
            ("mean of the adsorbate", "adsorbate_mean"),
        ):
            found = group[0]["measured"][measured]
            cells = [f"{found[f'mae_{split}']:.4g} (± {found[f'mae_{split}_error']:.1g})" for split in TESTS]
            yield [name, where[0], f"{where[1]:,}", *cells, "", "", "", "", "", ""]


def contribution(groups: dict[Any, list[Record]]) -> str:
    """What the frame itself contributes here."""
    parts = []
    for settings, same in grouped((r for group in groups.values() for r in group), lambda r: key(r)[:-1]).items():
        methods = grouped(same, lambda r: r["configuration"]["method"])
        framed = methods.get("unordered") or methods.get("minimal")
        for other in ("stochastic", "pca", "plain", "augmented") if framed else ():
            if other in methods:
                parts.append(
                    f"{settings[1]:,} slabs, against {METHODS[other]} {_difference(framed or [], methods[other])}"
                )
    if not parts:
        return "What the frame itself contributes here: there is no pair of rows that differ in the frame alone."
    return f"What the frame itself contributes here: {'; '.join(parts)}."


def _difference(framed: list[Record], other: list[Record]) -> str:
    def mean(group: list[Record], part: str, name: str) -> float:
        return statistics.mean(r[part][name] for r in group)

    gain = mean(framed, "test", "mae_id") - mean(other, "test", "mae_id")
    error = sum(mean(g, "test", "mae_id_error") ** 2 for g in (framed, other)) ** 0.5
    changes = [f"{mean(g, 'measured', 'invariance_error'):.1e}" for g in (framed, other)]
    speed = mean(framed, "measured", "samples_a_second") / mean(other, "measured", "samples_a_second")
    return (
        f"MAE (id) {gain:+.3f} ± {error:.3f} eV, a change under isometries of {changes[0]} instead of {changes[1]} eV, "
        f"{speed:.2f} times the samples a second"
    )
