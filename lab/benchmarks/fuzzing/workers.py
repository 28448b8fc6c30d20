"""Several processes, each with a seed of its own; what they have found so far is in a file of each."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzzing.report import Report

Task = Callable[[Any, Path | None], Report]  # options, and where to save
SEEDS = 1_000_000  # that the processes of one run may be apart: seeds are multiplied by it


def save(report: Report, path: Path) -> None:
    """All at once, so that there is never half a file."""
    partial = path.with_suffix(".part")
    partial.write_bytes(pickle.dumps(report))
    partial.replace(path)


def _load(paths: list[Path]) -> Report:
    whole = Report()
    for path in paths:
        if path.exists():
            whole.merge(pickle.loads(path.read_bytes()))
    return whole


def run(task: Task, options: list[Any]) -> tuple[Report, list[int]]:
    """Run the task in a process for each of the options. Their reports together, and the exit codes of the lost."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k}.pickle" for k in range(len(options))]
        workers = [context.Process(target=task, args=pair) for pair in zip(options, paths, strict=True)]
        for worker in workers:
            worker.start()
        started = shown = time.perf_counter()
        try:
            while any(worker.is_alive() for worker in workers):
                workers[0].join(1.0)
                if not workers[0].is_alive():
                    time.sleep(0.2)
                now = time.perf_counter()
                if now - shown > 60:
                    print(
                        f"{(now - started) / 60:.0f} min, {_load(paths).clouds:,} clouds", file=sys.stderr, flush=True
                    )
                    shown = now
        finally:
            for worker in workers:
                worker.terminate()
                worker.join()
        return _load(paths), [worker.exitcode or 0 for worker in workers if worker.exitcode]
