"""What was found, by structure, group and frames."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fuzzing.cases import family
from fuzzing.judge import Verdict
from fuzzing.share import allowed
from fuzzing.trial import Key

SIGNIFICANCE = 1e-6  # of a number of edges: an hour has some 10^5 rows and levels, none of which is to fail by chance


@dataclass
class Row:
    """Of one structure, group, frames and dtype; ``levels``: clouds, edges and edges allowed of each."""

    clouds: int = 0
    violations: int = 0
    edges: int = 0
    conditioned: int = 0
    refused: int = 0
    error: float = 0.0
    margin: float = 0.0
    crashes: dict[str, str] = field(default_factory=dict)  # message: replay
    levels: dict[int, list[float]] = field(default_factory=dict)
    worst: float = -1.0
    replay: str = ""
    what: str = ""
    edge_replay: str = ""

    def add(self, key: Key, verdict: Verdict) -> None:
        for name in ("clouds", "violations", "edges", "conditioned", "refused"):
            setattr(self, name, getattr(self, name) + getattr(verdict, name))
        self.error, self.margin = max(self.error, verdict.error), max(self.margin, verdict.margin)
        tried = self.levels.setdefault(key.level, [0, 0, 0])
        for place, number in enumerate((verdict.clouds, verdict.edges, verdict.clouds * allowed(key))):
            tried[place] += number
        if verdict.violations and verdict.violation > self.worst:
            self.worst, self.replay, self.what = verdict.violation, f"{key}#{verdict.sample}", verdict.what
        if verdict.edges:
            self.edge_replay = str(key)
        for message in verdict.crashes:
            self.crashes.setdefault(message, str(key))

    def merge(self, other: Row) -> None:
        """Take in what another process found."""
        for name in ("clouds", "violations", "edges", "conditioned", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.error, self.margin = max(self.error, other.error), max(self.margin, other.margin)
        for level, numbers in other.levels.items():
            mine = self.levels.setdefault(level, [0, 0, 0])
            mine[:] = [a + b for a, b in zip(mine, numbers, strict=True)]
        if other.worst > self.worst:
            self.worst, self.replay, self.what = other.worst, other.replay, other.what
        self.edge_replay = self.edge_replay or other.edge_replay
        self.crashes = other.crashes | self.crashes

    @property
    def crowded(self) -> list[int]:
        """Levels at which more samples than are allowed are decided by rounding, and not by chance.

        Of clouds that are drawn independently, numbers of rare events are Poisson distributed.
        """
        return [k for k, (_, edges, most) in self.levels.items() if _tail(int(edges), most) < SIGNIFICANCE]

    @property
    def failed(self) -> bool:
        return bool(self.violations or self.crashes or self.crowded)


def _tail(least: int, mean: float) -> float:
    """The probability of at least so many events, if they have this mean (Poisson)."""
    if least <= mean:
        return 1.0
    term, total = math.exp(least * math.log(mean) - mean - math.lgamma(least + 1)) if mean > 0 else 0.0, 0.0
    while term > 1e-3 * total and term > 0:  # falls geometrically
        total, least = total + term, least + 1
        term *= mean / least
    return total


@dataclass
class Report:
    rows: dict[tuple[str, str, str, str], Row] = field(default_factory=dict)

    def add(self, key: Key, verdict: Verdict) -> None:
        where = (key.structure, key.group, key.frames, key.dtype)
        self.rows.setdefault(where, Row()).add(key, verdict)

    def merge(self, other: Report) -> None:
        for where, row in other.rows.items():
            self.rows.setdefault(where, Row()).merge(row)

    @property
    def clouds(self) -> int:
        return sum(row.clouds for row in self.rows.values())

    @property
    def failed(self) -> bool:
        return any(row.failed for row in self.rows.values())

    def text(self, everything: bool = False) -> str:
        lines = [self._summary(), ""]
        shown = [(k, r) for k, r in self.rows.items() if everything or r.failed]
        head = f"{'structure':22}{'group':26}{'frames':10}{'dtype':9}{'clouds':>9}{'wrong':>7}{'edge':>6}"
        lines.append(head + f"{'worst':>10}{'margin':>10}  what")
        for where, row in sorted(shown, key=lambda item: (item[0][0], -item[1].violations, item[0])):
            structure, group, frames, dtype = where
            lines.append(
                f"{structure:22}{group:26}{frames:10}{dtype:9}{row.clouds:9}{row.violations:7}{row.edges:6}"
                f"{max(row.worst, 0.0):10.1e}{row.margin:10.1e}  {row.what}"
            )
            if row.replay:
                lines.append(f"    --replay '{row.replay}'")
            if row.crowded:
                lines.append(f"    too many on the edge at levels {row.crowded}: --replay '{row.edge_replay}'")
            lines.extend(f"    {message}  --replay '{replay}'" for message, replay in row.crashes.items())
        return "\n".join(lines)

    def _summary(self) -> str:
        """By structure, and by kind of group, over all else."""
        lines = []
        for title, sums in (("structure", self.sums(lambda k: k[0])), ("group", self.sums(lambda k: family(k[1])))):
            head = f"{title:30}{'clouds':>10}{'wrong':>8}{'edge':>7}{'steep':>9}{'refused':>9}{'crashes':>9}"
            lines += [head, *(f"{name:30}" + _columns(row) for name, row in sums.items()), ""]
        return "\n".join(lines)

    def sums(self, key: Callable[[tuple[str, str, str, str]], str]) -> dict[str, dict[str, Any]]:
        """Of rows with the same key: how many clouds, what became of them, and the worst error of a violation."""
        found: dict[str, dict[str, Any]] = {}
        for where, row in self.rows.items():
            names = ("clouds", "violations", "edges", "conditioned", "refused")
            total = found.setdefault(key(where), dict.fromkeys((*names, "crashes"), 0) | {"worst": 0.0})
            for name in names:
                total[name] += getattr(row, name)
            total["crashes"] += len(row.crashes)
            total["worst"] = max(total["worst"], row.worst)
        return dict(sorted(found.items()))

    def data(self) -> dict[str, Any]:
        """What is kept of a run: counts, and every row that failed with the lines that repeat it."""
        names = ("structure", "group", "frames", "dtype")
        failed = [
            dict(zip(names, where, strict=True)) | {k: v for k, v in vars(row).items() if k != "levels"}
            for where, row in sorted(self.rows.items())
            if row.failed
        ]
        return {
            "clouds": self.clouds,
            "violations": sum(row.violations for row in self.rows.values()),
            "crashes": sum(len(row.crashes) for row in self.rows.values()),
            "by structure": self.sums(lambda k: k[0]),
            "by kind of group": self.sums(lambda k: family(k[1])),
            "by group": {name: sums["clouds"] for name, sums in self.sums(lambda k: k[1]).items()},
            "by frames and dtype": self.sums(lambda k: f"{k[2]}, {k[3]}"),
            "failed": failed,
        }


def _columns(row: dict[str, Any]) -> str:
    return (
        f"{row['clouds']:10}{row['violations']:8}{row['edges']:7}{row['conditioned']:9}{row['refused']:9}"
        f"{row['crashes'] or '':>9}"
    )
