"""The metrics file of a run: what was asked for, by which code, on what machine, and what came of it."""

from __future__ import annotations

import json
import math
import os
import pickle
import platform
import sys
import time
from pathlib import Path
from typing import Any

import torch

import minframe as mf
from minframe_lab.record import commit as commit

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
    """The record in a folder, or a ``ValueError`` that says why there is none."""
    path = folder / METRICS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{folder} holds no run: it has no {METRICS}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged ({error}): remove it, or restore it") from None
    lacking = [
        key for key in ("experiment", "configuration", "complete") if not isinstance(found, dict) or key not in found
    ]
    if lacking:
        raise ValueError(f"{path} is no record of a run (it lacks {', '.join(lacking)}): remove it, or restore it")
    return dict(found)


def read_finished(folder: Path) -> dict[str, Any]:
    """The record of a finished run."""
    found = read(folder)
    if not found["complete"]:
        raise ValueError(f"the run in {folder} is not finished: give the command that began it again")
    return found


def check_free(found: dict[str, Any], folder: Path) -> bool:
    """Whether a folder holds the finished run of a record; a ``ValueError`` if it holds another one, or a damaged one.

    Nothing is written.
    """
    if not (folder / METRICS).exists():
        return False
    there = read(folder)
    if there["complete"] or (folder / CHECKPOINT).exists():  # else there is nothing to lose
        check_same(found["experiment"], found["configuration"], there["experiment"], there["configuration"], folder)
    return bool(there["complete"])


def prepare(found: dict[str, Any], folder: Path) -> None:
    """Make a folder ready for the run of a record, which goes on with what is there.

    Everything is looked at before anything is written, and the record of a finished run stays until there is a new one.

    Raises:
        ValueError: if the folder holds a run with other settings, or a damaged one.
        OSError: if nothing can be written there.
    """
    finished = check_free(found, folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not finished:
        write(found, folder)
        return
    probe = folder / f".{METRICS}.part"
    probe.write_text("")
    probe.unlink()


def check_same(name: str, wanted: dict[str, Any], other: str, there: dict[str, Any], folder: Path) -> None:
    """Raise a ``ValueError`` that names the settings in which what a folder holds differs from what is wanted."""
    wanted, there = json.loads(json.dumps(wanted)), json.loads(json.dumps(there))  # tuples are lists in a file
    if (name, wanted) == (other, there):
        return
    changed = [key for key, value in wanted.items() if there.get(key) != value]
    raise ValueError(
        f"{folder} holds a run with other settings ({other}: {', '.join(changed) or 'other'}): "
        "choose another --output, or remove it"
    )


def save(state: Any, path: Path) -> None:
    """Write a file of tensors all at once, so that a run that is cut off leaves a whole one."""
    partial = path.with_name(f".{path.name}.part")
    torch.save(state, partial)
    partial.replace(path)


def load(path: Path) -> Any:
    """The content of a file of tensors, or a ``ValueError`` that says why there is none."""
    try:
        return torch.load(path)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: it belongs to the run in {path.parent}") from None
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception) -> ValueError:
    """What to say of a file that cannot be read."""
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return ValueError(f"{path} is damaged ({reason}): remove it to begin again without it, or restore it")


def _finite(value: Any) -> Any:
    """Infinity and NaN as ``null``, which JSON has."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
