"""Rows of tables in Markdown, and numbers in them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]
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
