"""What was found, by structure, group and frames."""

from __future__ import annotations

from dataclasses import dataclass, field

from fuzzing.judge import Verdict
from fuzzing.share import allowed
from fuzzing.trial import Key

MIN_EDGES = 3  # fewer than these say nothing about a share


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

    @property
    def crowded(self) -> list[int]:
        """Levels at which more samples than are allowed are decided by rounding."""
        return [k for k, (_, edges, most) in self.levels.items() if edges > max(MIN_EDGES - 1, most)]

    @property
    def failed(self) -> bool:
        return bool(self.violations or self.crashes or self.crowded)


@dataclass
class Report:
    rows: dict[tuple[str, str, str, str], Row] = field(default_factory=dict)

    def add(self, key: Key, verdict: Verdict) -> None:
        where = (key.structure, key.group, key.frames, key.dtype)
        self.rows.setdefault(where, Row()).add(key, verdict)

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
        """By structure and level, over all groups."""
        head = f"{'structure':22}{'clouds':>10}{'wrong':>8}{'edge':>7}{'steep':>9}"
        lines = [f"{head}{'refused':>9}  crashes"]
        for name in sorted({where[0] for where in self.rows}):
            rows = [row for where, row in self.rows.items() if where[0] == name]
            total = {k: sum(getattr(r, k) for r in rows) for k in ("clouds", "violations", "edges", "conditioned")}
            refused = sum(r.refused for r in rows)
            crashes = sum(len(r.crashes) for r in rows)
            lines.append(
                f"{name:22}{total['clouds']:10}{total['violations']:8}{total['edges']:7}{total['conditioned']:9}"
                f"{refused:9}  {crashes or ''}"
            )
        return "\n".join(lines)

    def data(self) -> list[dict[str, object]]:
        names = ("structure", "group", "frames", "dtype")
        return [dict(zip(names, where, strict=True)) | vars(row) for where, row in self.rows.items()]
