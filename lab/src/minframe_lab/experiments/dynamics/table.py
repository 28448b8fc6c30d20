"""What the dynamics experiment gave, as tables: every number comes from a metrics file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minframe_lab.experiments.dynamics.molecules import KINDS, NAMES

Record = dict[str, Any]
LABELS = {
    "potential": "the potential itself",
    "smooth": "smooth frames",
    "drawn": "smooth frames, trained on one drawn pose",
    "minimal": "hard frames",
    "pca": "PCA frames",
    "plain": "no frame, random rotations",
}
TITLE = "## Molecules in motion, SE(3)"
NOTE = """
A set transformer (two layers, width 48) learns energies and forces of GFN2-xTB for methane, CHFClBr, ethylene and
ethanol in a heat bath at 500 K (1,600 snapshots of each). Then all molecules move at constant energy, about 300 K, by
velocity Verlet with steps of 0.5 fs. The range is the largest less the smallest total energy along the path, the drift
the slope of a straight line through it times its length, the jump its largest change in one step. Errors of forces are
mean absolute ones on 800 snapshots of other paths. [What this shows](../../docs/dynamics.md)."""


def label(r: Record) -> str:
    """The method of a run, and what is special about it."""
    c = r["configuration"]
    text = LABELS[c["method"]]
    if c["method"] in ("smooth", "drawn"):
        text += f", sharpness {c['sharpness']:g}" + (
            f", {c['warm']:.0%} of the epochs in hard ones" if c["warm"] else ""
        )
    return text


def section(records: list[Record]) -> Iterable[str]:
    """The part of the page of results on this experiment."""
    order = list(LABELS)
    found = sorted(
        records, key=lambda r: (order.index(r["configuration"]["method"]), -r["configuration"]["recipe"]["epochs"])
    )
    if not found:
        return
    yield from ("", TITLE, NOTE, "")
    yield from _errors([r for r in found if "test" in r])
    yield from ("", "Total energy along the path, in eV: range / drift / largest jump in one step.", "")
    yield from _conserved(found)
    yield from ("", "Half the step: the range over the same time with steps of 0.5 fs over that with 0.25 fs.", "")
    yield from _halved(found)
    yield from ("", "Range of the energy in 115 random orientations, in eV, float64; and what else is conserved.", "")
    yield from _symmetry(found)


def _rows(columns: list[str], rows: Iterable[list[str]]) -> Iterable[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.2g}"


def _errors(records: list[Record]) -> Iterable[str]:
    columns = ["method", "epochs", "CPU ms: forces of 64", "a training step of 32", "force MAE, eV/A", "energy MAE, eV"]
    rows = []
    for r in records:
        test, epochs = r["test"], r["configuration"]["recipe"]["epochs"]
        ms, step = (1000 * r["measured"][k] for k in ("seconds", "seconds_of_training_step"))
        each = ", ".join(f"{test[f'force_mae_{name}']:.3f}" for name in NAMES)
        rows.append([label(r), str(epochs), f"{ms:.0f}", f"{step:.0f}", f"**{test['force_mae']:.4f}** ({each})"])
        rows[-1] += [f"{test['energy_mae']:.4f}", f"`{r['command']}`"]
    return _rows([*columns, "command"], rows)


def _conserved(records: list[Record]) -> Iterable[str]:
    rows = []
    for r in records:
        paths = r["measured"]["paths"]
        cells = [" / ".join(_number(paths[name][k]) for k in ("range", "drift", "jump")) for name in NAMES]
        rows.append([label(r), _length(r), *cells])
    return _rows(["method", "ps", *(f"{name} ({KINDS[name]})" for name in NAMES)], rows)


def _length(r: Record) -> str:
    return f"{r['measured']['paths'][NAMES[0]]['picoseconds']:g}"


def _halved(records: list[Record]) -> Iterable[str]:
    rows = []
    for r in records:
        cells = []
        for name in NAMES:
            whole, half = (values["range"] for values in r["measured"]["halved"][name].values())
            cells.append(f"{whole / half:.1f}" if whole is not None and half else "not finite")
        time = r["measured"]["halved"][NAMES[0]]["0.5"]["picoseconds"]
        rows.append([label(r), f"{time:g}", *cells])
    return _rows(["method", "ps", *NAMES], rows)


def _symmetry(records: list[Record]) -> Iterable[str]:
    rows = []
    for r in records:
        measured = r["measured"]
        turned, poses = measured.get("orientations"), measured.get("poses")
        worst = {k: [measured["paths"][name][k] for name in NAMES] for k in ("momentum", "angular_relative")}
        rows.append(
            [
                label(r),
                ", ".join(_number(turned[name]) for name in NAMES) if turned else "",
                ", ".join(_number(x) for x in worst["momentum"]),
                ", ".join(_number(x) for x in worst["angular_relative"]),
                ", ".join(f"{poses[name]:.1f}" for name in NAMES) if poses else "",
            ]
        )
    columns = ["method", "energy, orientations", "momentum", "angular momentum, relative", "poses"]
    return _rows(columns, rows)
