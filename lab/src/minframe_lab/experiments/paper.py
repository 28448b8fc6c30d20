"""What the paper reports, to stand beside what a run reaches."""

from __future__ import annotations

NBODY = {"minimal": 0.0036, "pca": 0.0054}
HULL = {"minimal": 1.5291}
HULL_INVARIANCE = 2e-7
UNSEPARATED = {"graph8c": {"minimal": 0, "pca": 0}, "exp": {"minimal": 0, "pca": 0}}
UNSEPARATED_GIN = {"graph8c": 386, "exp": 600}
GINS = ("gin", "gin-published")
ACCURACY = {"minimal": 1.0, "pca": 1.0}
ACCURACY_GIN = 0.5
GRAPH8C_ERRORS = {
    "plain": 8.60e-2,
    "minimal": 0.0,
    "FA, 1 samples": 1.28e-2,
    "FA, 4 samples": 0.68e-2,
    "FA, 16 samples": 0.34e-2,
    "FA, 64 samples": 0.17e-2,
}
GRAPH8C_MILLISECONDS = {
    "plain": 0.27,
    "minimal": 1.10,
    "FA, 1 samples": 2.20,
    "FA, 4 samples": 2.54,
    "FA, 16 samples": 3.70,
    "FA, 64 samples": 8.36,
}

TOPTAG = {  # accuracy and AUC, on the published set
    ("minkgnn", "plain"): (0.942136, 0.9868),
    ("minkgnn", "minimal"): (0.942178, 0.9869),
    ("minkgnn", "invariant"): (0.942, 0.9868),
}


def reference(experiment: str, method: str, backbone: str | None = None) -> float | None:
    """The paper's figure for the main number of an experiment, if it has one."""
    if experiment in UNSEPARATED:
        quoted = "gin-published" if experiment == "graph8c" else "gin"  # message passing of any kind leaves all of EXP
        plain = UNSEPARATED_GIN[experiment] if method == "plain" and backbone == quoted else None
        return UNSEPARATED[experiment].get(method, plain)
    if experiment == "exp-classify" and method == "plain":
        return ACCURACY_GIN if backbone in GINS else None
    return {"nbody": NBODY, "hull": HULL, "exp-classify": ACCURACY}.get(experiment, {}).get(method)
