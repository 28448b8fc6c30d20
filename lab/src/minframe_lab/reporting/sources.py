"""What a report is made of: the files of ``verify``, ``bench`` and ``peers``, and results of experiments."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minframe_lab.record import load

NEEDED = {
    "verify": ("paper", "group", "data", "cloud", "backbone", "method", "dtype", "worst", "bound", "passed", "passes"),
    "bench": ("sweep", "case", "variable", "value", "method", "low", "ratio", "high", "plain_seconds"),
    "peers": ("method", "installed"),
}


@dataclass(frozen=True)
class Run:
    """What one command has measured so far.

    Attributes:
        content: the file; empty if there is none.
        rows: its measurements.
    """

    content: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return bool(self.content.get("complete"))


@dataclass(frozen=True)
class Result:
    """One file under ``results/``; ``problem`` says why it could not be read."""

    path: Path
    content: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


def read_run(folder: Path, command: str) -> Run:
    """The file of a command, if there is one; a ``ValueError`` says what is wrong with it."""
    path = folder / f"{command}.json"
    if not path.exists():
        return Run()
    try:
        content = load(path)
        rows = content["rows"]
        short = [key for row in rows for key in NEEDED[command] if key not in row]
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"has no {error}" if isinstance(error, KeyError) else f"cannot be read: {error}"
        raise ValueError(f"{path} {reason}; delete it to have it measured again") from None
    if short:
        raise ValueError(f"{path} has rows without {short[0]!r}; delete it to have it measured again")
    return Run(content, rows)


def read_results(folder: Path) -> list[Result]:
    """Every JSON file below a folder, in order; none if there is no such folder."""
    found = []
    for path in sorted(folder.rglob("*.json")) if folder.is_dir() else []:
        name = path.relative_to(folder)
        try:
            content = load(path)
        except (OSError, ValueError, RecursionError) as error:
            found.append(Result(name, problem=str(error)))
            continue
        for entry in content if isinstance(content, list) else [content]:
            found.append(Result(name, entry) if isinstance(entry, dict) else Result(name, problem="it is no object"))
    return found


def leaves(content: dict[str, Any], prefix: str = "", depth: int = 2) -> dict[str, float]:
    """The numbers in an object and, by ``name.name``, in objects within it."""
    found: dict[str, float] = {}
    for key, value in content.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[prefix + key] = value
        elif isinstance(value, dict) and depth > 1:
            found |= leaves(value, f"{prefix}{key}.", depth - 1)
    return found


def one_line(value: Any) -> str:
    """A configuration in a few words."""
    if isinstance(value, dict):
        kept = {key: v for key, v in value.items() if v is not None and v is not False and v not in ("", [], {})}
        return ", ".join(key if v is True else f"{key} {one_line(v)}" for key, v in kept.items())
    if isinstance(value, list):
        return " ".join(map(one_line, value))
    return value if isinstance(value, str) else json.dumps(value, default=str)
