"""The line at the end of a table: what the frame itself contributes, beside the same network without one."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from minframe_lab.experiments.rows import BACKBONES, Record, at, difference, grouped

START = "What the frame itself contributes here: "


def contribution(name: str, records: list[Record]) -> str:
    """The line of an experiment, from its records."""
    said = LINES[name](records)
    return START + ("; ".join(said) + "." if said else "there is no pair of rows that differ in the frame alone.")


def _without(c: dict[str, object], *names: str) -> str:
    """Settings, less those that may differ, and those that early runs did not have and which change nothing."""
    left = {k: v for k, v in sorted(c.items()) if k not in ("method", "seed", *names)}
    return repr({k: v for k, v in left.items() if (k, v) != ("together", False)})


def _pairs(records: list[Record], *free: str) -> list[tuple[list[Record], list[Record]]]:
    """Runs in the minimal frame and those without, where all other settings are the same."""
    found = []
    for group in grouped(records, lambda r: _without(r["configuration"], *free)).values():
        framed = [r for r in group if r["configuration"]["method"] == "minimal"]
        plain = [r for r in group if r["configuration"]["method"] == "plain"]
        if framed and plain:
            found.append((framed, plain))
    return found


def _mean(group: list[Record], *path: str) -> float:
    return statistics.mean(at(r, path) for r in group)


MSE, MSE_ERROR = ("test", "mse"), ("measured", "mse_error")


def _errors(framed: list[Record], others: dict[str, list[Record]]) -> str:
    """The MSE in the minimal frame, and how far each of the others is from it."""
    said = []
    for name, group in others.items():
        gain, error = difference(group, framed, MSE, MSE_ERROR)
        said.append(f"{_mean(group, *MSE):.4g} {name} ({gain:+.2g} ± {error:.1g})")
    return f"the MSE is {_mean(framed, *MSE):.4g} with it, {', '.join(said)}"


def _alike(records: list[Record], method: str, framed: list[Record], **changed: object) -> list[Record]:
    """Runs by another method with the settings of those in the minimal frame, but for what is changed."""
    wanted = _without(framed[0]["configuration"] | changed)
    return [r for r in records if r["configuration"]["method"] == method and _without(r["configuration"]) == wanted]


def _particles(records: list[Record]) -> list[str]:
    said = []
    for framed, plain in _pairs(records):
        c = framed[0]["configuration"]
        edges = {"fourth": "the paper's edge features", "potential": "potentials"}[c["edges"]]
        exact = [max(r["measured"]["equivariance_error"] for r in group) for group in (framed, plain)]
        averaged = _alike(records, "pca", framed)
        others = {"without": plain} | ({"with all eight of FA": averaged} if averaged else {})
        said.append(
            f"with {edges}, {c['recipe']['epochs']} epochs, {_errors(framed, others)}, and the equivariance error "
            f"{exact[0]:.1e} instead of {exact[1]:.1e}"
        )
        together = _alike(records, "minimal", framed, copies=8, together=True, turns=8)
        each = _alike(records, "minimal", framed, copies=8)
        if averaged and together and each:
            gain, error = difference(together, averaged, MSE, MSE_ERROR)
            said.append(
                "in training FA has the loss of the mean of eight answers: the minimal frame, trained on the mean over "
                f"eight random poses and averaged over eight in tests, reaches {_mean(together, *MSE):.4g} "
                f"({gain:+.2g} ± {error:.1g} to FA), eight poses with a loss each "
                f"{_mean(each, 'measured', 'mse_8'):.4g} in the same test, "
                f"and one pose of FA's network {_mean(averaged, 'measured', 'mse_one_pose'):.4g}"
            )
    return said


def _volumes(records: list[Record]) -> list[str]:
    said = []
    for framed, plain in _pairs(records):
        exact = [max(r["measured"]["invariance_error"] for r in group) for group in (framed, plain)]
        averaged = _alike(records, "pca", framed)
        others = {"without": plain} | ({"with all 32 of FA": averaged} if averaged else {})
        said.append(
            f"with S_n x O(5), {framed[0]['configuration']['recipe']['epochs']} epochs, {_errors(framed, others)}, and "
            f"the largest relative change {exact[0]:.1e} instead of {exact[1]:.1e}"
        )
    return said


def _separated(records: list[Record]) -> list[str]:
    said = []
    for framed, plain in _pairs(records, "initialisations"):
        kind = BACKBONES[framed[0]["configuration"]["backbone"]]
        said.append(
            f"{kind} leaves {_mean(framed, 'test', 'unseparated'):.0f} pairs with it and "
            f"{_mean(plain, 'test', 'unseparated'):.0f} without"
        )
    return said


def _classified(records: list[Record]) -> list[str]:
    said = []
    for framed, plain in _pairs(records, "apart"):
        kind = BACKBONES[framed[0]["configuration"]["backbone"]]
        orders = {True: "an order for each component", False: "one order for the whole graph"}
        each = [
            f"{_mean(group, 'test', 'accuracy'):.1%} with {orders[apart]}"
            for apart in (True, False)
            if (group := [r for r in framed if r["configuration"]["apart"] is apart])
        ]
        said.append(f"{kind} classifies {' and '.join(each)}, {_mean(plain, 'test', 'accuracy'):.1%} without a frame")
    return said


def _moving(records: list[Record]) -> list[str]:
    """Smooth frames beside hard ones and none, trained equally long; every seed counts."""
    most = max((r["configuration"]["recipe"]["epochs"] for r in records if "test" in r), default=0)
    full = [r for r in records if "test" in r and r["configuration"]["recipe"]["epochs"] == most]
    groups = grouped(
        full, lambda r: (r["configuration"]["method"], _without(r["configuration"], "picoseconds", "warm"))
    )
    best: dict[str, list[Record]] = {}
    for (method, _), group in groups.items():
        if len(group) > len(best.get(method, [])):
            best[method] = group
    if any(method not in best for method in ("smooth", "minimal", "plain")):
        return []
    error, turned, lost = {}, {}, {}
    for method in ("smooth", "minimal", "plain"):
        measured = [r["measured"] for r in best[method]]
        error[method] = _mean(best[method], "test", "force_mae")
        turned[method] = max(x for m in measured for x in m["orientations"].values())
        lost[method] = max(p["angular_relative"] or 0.0 for m in measured for p in m["paths"].values())
    parts = {
        key: _mean(best["smooth"], "measured", "parts_of_forces", key) for key in ("backbone", "turning", "weights")
    }
    return [
        f"forces err by {error['smooth']:.4f} eV/A in smooth frames, {error['minimal']:.4f} in hard ones and "
        f"{error['plain']:.4f} with random rotations instead",
        f"the energy depends on the orientation by {turned['smooth']:.1g} eV instead of {turned['plain']:.1g}, and the "
        f"angular momentum changes by {lost['smooth']:.1g} of its size instead of {lost['plain']:.1g}",
        f"of the mean absolute force {parts['backbone']:.3f} eV/A pass through the backbone, {parts['turning']:.3f} "
        f"come from the turning of poses and {parts['weights']:.3f} from the change of weights",
    ]


LINES: dict[str, Callable[[list[Record]], list[str]]] = {
    "nbody": _particles,
    "hull": _volumes,
    "graph8c": _separated,
    "exp": _separated,
    "exp-classify": _classified,
    "dynamics": _moving,
}
