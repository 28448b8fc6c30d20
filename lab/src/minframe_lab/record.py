"""Results as files: JSON with all that is needed to repeat a run and to draw its tables and figures again."""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import minframe as mf


def hardware() -> dict[str, Any]:
    """What a measurement of time depends on."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return {
        "processor": name,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
    }


def commit() -> str | None:
    """The commit that the code is of, with a ``+`` if files differ from it; ``None`` outside a repository."""
    folder = Path(__file__).parent
    try:
        options: dict[str, Any] = {"cwd": folder, "capture_output": True, "text": True, "check": True}
        head = subprocess.run(["git", "rev-parse", "HEAD"], **options).stdout.strip()
        code = [":/src", ":/lab/src"]
        changed = subprocess.run(["git", "status", "--porcelain", "--", *code], **options).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


class Record:
    """The results of one run so far, and the files that hold them.

    Files are written at the start, to be sure that they can be, and whenever ``save`` is called; each time all at once,
    so that a run which is cut off leaves a whole file, with ``"complete": false``.
    """

    def __init__(self, command: str, configuration: dict[str, Any], paths: Iterable[Path]) -> None:
        self.paths = list(paths)
        self.started = time.perf_counter()
        self.rows: list[dict[str, Any]] = []
        self.content: dict[str, Any] = {
            "command": command,
            "complete": False,
            "configuration": configuration,
            "commit": commit(),
            "minframe": mf.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "hardware": hardware(),
            "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        }
        for path in self.paths:
            check_writable(path)
        self.save()

    def save(self, complete: bool = False) -> None:
        """Write all files."""
        self.content |= {"complete": complete, "seconds": round(time.perf_counter() - self.started, 1)}
        text = json.dumps(_plain(self.content | {"rows": self.rows}), indent=1)
        for path in self.paths:
            if path.exists() and not path.is_file():  # a device, such as /dev/stdout
                if complete:
                    path.write_text(text)
                continue
            write_whole(path, text)


def check_writable(path: Path) -> None:
    """Make the folder of a file, and see that a file can be written there: an ``OSError`` says why not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if path.exists() and not path.is_file():
        return
    partial = _partial(path)
    partial.write_text("")
    partial.unlink()


def write_whole(path: Path, text: str) -> None:
    """All at once, so that there is never half a file."""
    partial = _partial(path)
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def load(path: Path) -> dict[str, Any]:
    """What a run has written, with numbers that JSON does not know put back."""
    return _numbers(json.loads(path.read_text()))


def _plain(value: Any) -> Any:
    """Infinity and NaN as strings: they are no JSON."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return float(value) if value in ("inf", "-inf", "nan") else value
