"""How well scores tell signal from background, with errors by resampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RESAMPLES = 200
BACKGROUND_FOR_30 = 20_000  # background jets below which a rejection at an efficiency of 0.3 rests on too few
POINTS = 101  # of a stored curve


def auc(score: Array, signal: NDArray[np.bool_], weight: Array | None = None) -> float:
    """The share of pairs of a signal and a background jet in which the signal has the higher score; ties count half."""
    weight = np.ones(len(score)) if weight is None else weight
    levels, which = np.unique(score, return_inverse=True)
    positive = np.bincount(which, weight * signal, len(levels))
    negative = np.bincount(which, weight * ~signal, len(levels))
    below = np.cumsum(negative) - negative / 2
    return float((positive * below).sum() / (positive.sum() * negative.sum()))


def rejection(score: Array, signal: NDArray[np.bool_], efficiency: float, weight: Array | None = None) -> float:
    """One over the share of background that a cut lets pass which keeps ``efficiency`` of the signal."""
    weight = np.ones(len(score)) if weight is None else weight
    order = np.argsort(-score, kind="stable")
    kept = np.cumsum((weight * signal)[order])
    place = np.searchsorted(kept, efficiency * kept[-1])
    passed = (weight * ~signal)[order][: place + 1].sum() / (weight * ~signal).sum()
    return float(1 / passed) if passed > 0 else float("inf")


def summary(score: Array, signal: NDArray[np.bool_], seed: int = 0) -> dict[str, float]:
    """Accuracy at a score of zero, AUC and background rejection, each with the standard deviation over resamples."""

    def figures(weight: Array | None) -> dict[str, float]:
        right = (score > 0) == signal
        found = {"accuracy": float(np.average(right, weights=weight)), "auc": auc(score, signal, weight)}
        found["rejection_50"] = rejection(score, signal, 0.5, weight)
        if (~signal).sum() >= BACKGROUND_FOR_30:
            found["rejection_30"] = rejection(score, signal, 0.3, weight)
        return found

    found = figures(None)
    random = np.random.default_rng(seed)
    share = np.full(len(score), 1 / len(score))
    drawn = [figures(random.multinomial(len(score), share).astype(float)) for _ in range(RESAMPLES)]
    for name in list(found):
        values = np.array([d[name] for d in drawn])
        if np.isfinite(values).all():
            found[f"{name}_error"] = float(values.std())
    return {name: value for name, value in found.items() if np.isfinite(value)}


def curve(score: Array, signal: NDArray[np.bool_]) -> dict[str, Any]:
    """Background efficiency over signal efficiency."""
    order = np.argsort(-score, kind="stable")
    kept, passed = np.cumsum(signal[order]) / signal.sum(), np.cumsum(~signal[order]) / (~signal).sum()
    grid = np.linspace(0, 1, POINTS)
    return {"signal": grid.tolist(), "background": np.interp(grid, kept, passed).tolist()}
