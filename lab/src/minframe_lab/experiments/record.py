"""The metrics file of a run: what was asked for, by which code, on what machine, and what came of it."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import minframe as mf

METRICS, WEIGHTS, CHECKPOINT = "metrics.json", "model.pt", "last.ckpt"


def hardware() -> dict[str, Any]:
    """What times depend on."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return {"processor": name, "cores": os.cpu_count(), "threads": torch.get_num_threads()}


def commit() -> str | None:
    """The commit that the code is of, with a ``+`` if files differ from it; ``None`` outside a repository."""
    folder = Path(__file__).parent
    try:
        options: dict[str, Any] = {"cwd": folder, "capture_output": True, "text": True, "check": True}
        head = subprocess.run(["git", "rev-parse", "HEAD"], **options).stdout.strip()
        changed = subprocess.run(["git", "status", "--porcelain", "--", "."], **options).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def begin(experiment: str, configuration: dict[str, Any]) -> dict[str, Any]:
    """A record of a run that has no results yet."""
    return {
        "experiment": experiment,
        "complete": False,
        "command": command(experiment),
        "configuration": configuration,
        "seed": configuration["seed"],
        "commit": commit(),
        "minframe": mf.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "labelling": mf.S().labelling,
        "hardware": hardware(),
        "date": time.strftime("%Y-%m-%d"),
    }


def command(experiment: str) -> str:
    """How this process was asked for the run, without where results go and in which folder data are."""
    words = sys.argv[1:]
    words = words[words.index(experiment) + 1 :] if experiment in words else []
    kept: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if "--output" not in (before, word):
            kept.append(Path(word).name if before == "--data" else word)
    return " ".join(["minframe reproduce", experiment, *kept])


def write(record: dict[str, Any], folder: Path) -> None:
    """Write the file all at once, so that a run that is cut off leaves a whole one."""
    partial = folder / f".{METRICS}.part"
    partial.write_text(json.dumps(_finite(record), indent=1) + "\n")
    partial.replace(folder / METRICS)


def read(folder: Path) -> dict[str, Any]:
    """The record in a folder."""
    return dict(json.loads((folder / METRICS).read_text()))


def _finite(value: Any) -> Any:
    """Infinity and NaN as ``null``, which JSON has."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
