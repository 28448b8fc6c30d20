"""Rows of tables in Markdown, and numbers in them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]
Path = tuple[str, ...]
BACKBONES = {"mlp": "MLP", "gin": "GIN", "gin-published": "GIN as published"}


def table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterable[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for line in lines:
        yield f"| {' | '.join(line)} |"


def spread(values: Sequence[float], digits: int = 4) -> str:
    """A mean, with the standard deviation over seeds where there are several."""
    mean = statistics.mean(values)
    return f"**{mean:.{digits}g}**" + (f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else "")


def seeds(group: Sequence[Record]) -> str:
    """Of runs that differ in nothing else."""
    return ", ".join(str(r["seed"]) for r in group)


def command(group: Sequence[Record]) -> str:
    """What makes a row again."""
    first = group[0]
    words = first["command"].replace(f"--seed {first['seed']}", "--seed SEED")
    return f"`{words}`"


def difference(group: Sequence[Record], other: Sequence[Record], value: Path, error: Path) -> tuple[float, float]:
    """Of the means of a result over seeds, and its standard error.

    That is made up of the errors of the test set, which are the same for every seed and taken as independent for the
    two, though they have the set in common, so that it is an upper bound; and of the spread over seeds, where there
    are several.

    Args:
        group: runs that differ in their seed alone.
        other: the same.
        value: where in a record the result is.
        error: where the error of the test set is.
    """
    squares = 0.0
    for runs in (group, other):
        squares += statistics.mean(at(r, error) for r in runs) ** 2
        squares += statistics.variance(at(r, value) for r in runs) / len(runs) if len(runs) > 1 else 0.0
    gain = statistics.mean(at(r, value) for r in group) - statistics.mean(at(r, value) for r in other)
    return gain, squares**0.5


def at(r: Record, path: Path) -> float:
    """A number in a record."""
    found: Any = r
    for key in path:
        found = found[key]
    return float(found)


def data_kind(group: Sequence[Record]) -> str:
    """Whether data are ours, which stand for others, or published."""
    kinds = {r.get("data", {}).get("surrogate") for r in group}
    return "surrogate" if kinds == {True} else "published" if kinds == {False} else "not recorded"


def grouped(records: Iterable[Record], key: Any) -> dict[Any, list[Record]]:
    """Runs that differ in their seed alone, under what makes them different from others."""
    groups: dict[Any, list[Record]] = {}
    for r in sorted(records, key=lambda r: (key(r), r["seed"])):
        groups.setdefault(key(r), []).append(r)
    return groups
