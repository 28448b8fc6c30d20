"""What the dynamics experiment gave, as tables: every number comes from a metrics file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minframe_lab.experiments.contribution import contribution
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
FRAMED = ("smooth", "drawn", "minimal", "pca")
TITLE = "## Molecules in motion, SE(3)"
NOTE = """
A network of pairs of atoms (two layers, width 48), which knows nothing of rotations, learns energies and forces of
GFN2-xTB for methane, CHFClBr, ethylene (1,500 snapshots of each) and ethanol (4,000) in a heat bath at 500 K. Then all
molecules move at constant energy, about 300 K, by velocity Verlet with steps of 0.5 fs. The range is the largest less
the smallest total energy along the path, the drift the slope of a straight line through it times its length, the jump
its largest change in one step. A path ends where the molecule comes apart, an atom being 3.5 angstrom from all others;
then its length is given. Errors of forces are mean absolute ones on 1,600 snapshots of other paths, with the standard
deviation over a block bootstrap of these. Runs with most of their epochs in random rotations are the later ones, which
docs/dynamics.md compares; before, smooth frames were begun in hard ones. Drawn poses of sharpness 16 were trained by an
earlier recipe, which did not take the energy to be learned off. [What this shows](../../docs/dynamics.md)."""


FRAMES_NOTE = """What frames contribute: mean absolute force by way of the backbone in a fixed pose, by the turning of
the pose with the atoms, and by the change of weights, in eV/A; and the error of the same weights in hard frames."""
HALVED_NOTE = """Half the step: range / standard deviation of the total energy with steps of 0.5 fs, over those with
0.25 fs in the same time. The two paths part as neighbouring ones do, so that their largest values differ by chance."""


def label(r: Record) -> str:
    """The method of a run, and what is special about it."""
    c = r["configuration"]
    text = LABELS[c["method"]]
    if c["method"] in ("smooth", "drawn"):
        text += f", sharpness {c['sharpness']:g}"
        text += f", {c['warm']:.0%} of the epochs in hard ones" if c["warm"] and not turned(c) else ""
        text += f", variance over poses weighed by {c['agreement']:g}" if c.get("agreement") else ""
    text += f", {c['warm']:.0%} of the epochs in random rotations" if turned(c) and c["method"] in FRAMED else ""
    return text + (f", seed {c['seed']}" if c["seed"] else "")


def turned(configuration: Record) -> bool:
    """Whether training began in random rotations, for all methods."""
    return configuration.get("start") == "plain"


def section(records: list[Record]) -> Iterable[str]:
    """The part of the page of results on this experiment."""
    order = list(LABELS)
    found = sorted(
        records,
        key=lambda r: (
            order.index(r["configuration"]["method"]),
            -r["configuration"]["recipe"]["epochs"],
            r["configuration"]["seed"],
        ),
    )
    if not found:
        return
    yield from ("", TITLE, NOTE, "")
    yield from _errors([r for r in found if "test" in r])
    yield from ("", FRAMES_NOTE, "")
    yield from _frames([r for r in found if "parts_of_forces" in r["measured"]])
    yield from ("", "Total energy along the path, in eV: range / drift / largest jump in one step.", "")
    yield from _conserved(found)
    yield from ("", HALVED_NOTE, "")
    yield from _halved(found)
    yield from ("", "Range of the energy in 115 random orientations, in eV, float64; and what else is conserved.", "")
    yield from _symmetry(found)
    yield from ("", contribution("dynamics", found))


def _rows(columns: list[str], rows: Iterable[list[str]]) -> Iterable[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.2g}"


def _errors(records: list[Record]) -> Iterable[str]:
    columns = ["method", "epochs", "CPU ms: forces of 64", "a training step of 64", "force MAE, eV/A", *NAMES]
    rows = []
    for r in records:
        test, epochs = r["test"], r["configuration"]["recipe"]["epochs"]
        ms, step = (1000 * r["measured"][k] for k in ("seconds", "seconds_of_training_step"))
        row = [label(r), str(epochs), f"{ms:.0f}", f"{step:.0f}", f"**{_with_spread(test, 'force_mae')}**"]
        row += [_with_spread(test, f"force_mae_{name}") for name in NAMES]
        rows.append([*row, f"{test['energy_mae']:.4f}", f"`{r['command']}`"])
    return _rows([*columns, "energy MAE, eV", "command"], rows)


def _with_spread(test: Record, key: str) -> str:
    return f"{test[key]:.4f} +- {test[f'{key}_spread']:.4f}"


def _frames(records: list[Record]) -> Iterable[str]:
    rows = []
    for r in records:
        parts, hard, poses = (r["measured"][k] for k in ("parts_of_forces", "in_hard_frames", "poses"))
        row = [label(r), ", ".join(f"{poses[name]:.1f}" for name in NAMES)]
        row += [f"{parts[k]:.3f}" for k in ("backbone", "turning", "weights")]
        rows.append([*row, f"{r['test']['force_mae']:.4f}", f"{hard['force_mae']:.4f}"])
    columns = ["method", "poses", "backbone", "turning", "weights", "force MAE", "in hard frames"]
    return _rows(columns, rows)


def _conserved(records: list[Record]) -> Iterable[str]:
    rows = []
    for r in records:
        paths, length = r["measured"]["paths"], r["configuration"]["picoseconds"]
        longest = max(path["picoseconds"] for path in paths.values())
        cells = []
        for name in NAMES:
            path = paths[name]
            drift = _number(path["drift"]) + (f" ± {path['drift_error']:.1g}" if path.get("drift_error") else "")
            cells.append(" / ".join([_number(path["range"]), drift, _number(path["jump"])]))
            if path["picoseconds"] < length:
                why = "apart" if path["picoseconds"] < longest else "ended"
                cells[-1] += f" ({why} at {path['picoseconds']:g} ps)"
        rows.append([label(r), f"{length:g}", *cells])
    return _rows(["method", "ps", *(f"{name} ({KINDS[name]})" for name in NAMES)], rows)


def _halved(records: list[Record]) -> Iterable[str]:
    rows = []
    for r in records:
        cells = []
        for name in NAMES:
            whole, half = r["measured"]["halved"][name].values()
            ratios = [
                f"{whole[k] / half[k]:.1f}" if whole[k] is not None and half[k] else "not finite"
                for k in ("range", "deviation")
            ]
            cells.append(" / ".join(ratios) + f" in {whole['picoseconds']:g} ps")
        rows.append([label(r), *cells])
    return _rows(["method", *NAMES], rows)


def _symmetry(records: list[Record]) -> Iterable[str]:
    rows = []
    for r in records:
        measured = r["measured"]
        turned = measured.get("orientations")
        worst = {k: [measured["paths"][name][k] for name in NAMES] for k in ("momentum", "angular_relative")}
        rows.append(
            [
                label(r),
                ", ".join(_number(turned[name]) for name in NAMES) if turned else "",
                ", ".join(_number(x) for x in worst["momentum"]),
                ", ".join(_number(x) for x in worst["angular_relative"]),
            ]
        )
    columns = ["method", "energy, orientations", "momentum", "angular momentum, relative"]
    return _rows(columns, rows)
