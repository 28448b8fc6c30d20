"""Ratios of times that hold on a busy machine: all contestants take turns, round by round.

With one thread it is the time of the processor that counts, which what else runs on the machine does not change much.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch


class Ratio(NamedTuple):
    """Quartiles of a ratio over rounds."""

    low: float
    middle: float
    high: float


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Mean time of a call."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    for _ in range(repeats):
        function()
    return (clock() - start) / repeats


def ratios(
    contestants: Mapping[str, Callable[[], object]], reference: str, rounds: int, slot: float
) -> tuple[dict[str, Ratio], float]:
    """The time of each over that of the reference in the same round, and the median time of the reference.

    Each is called as often as fits in ``slot`` seconds, at least once; the order turns from round to round.
    """
    repeats = {}
    for name, function in contestants.items():
        function()  # what is done but once does not count
        repeats[name] = max(1, int(slot / max(seconds(function, 1), 1e-9)))
    names = list(contestants)
    taken: list[dict[str, float]] = []
    for i in range(rounds):
        turn = names[i % len(names) :] + names[: i % len(names)]
        taken.append({name: seconds(contestants[name], repeats[name]) for name in turn})
    found = {
        name: Ratio(*statistics.quantiles([t[name] / t[reference] for t in taken], n=4, method="inclusive"))
        for name in names
        if name != reference
    }
    return found, statistics.median(t[reference] for t in taken)
