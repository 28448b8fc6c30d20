"""A dataset made in parts by several processes, so that whatever is cut off goes on where it was.

Every part is a file that appears when it is whole, and depends on nothing but the seed and its own number: how many
processes there are, and how often the work is cut off, leaves no trace in what is made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

Advance = Callable[[int], None]

SETTINGS = "settings.json"


@dataclass(frozen=True)
class Part:
    """Samples of a split that are made together.

    Attributes:
        split: its name.
        split_number: its number, of which random numbers depend.
        number: of the part.
        count: samples in it.
        path: of its file.
    """

    split: str
    split_number: int
    number: int
    count: int
    path: Path

    def seeds(self, seed: int, count: int) -> list[int]:
        """Seeds of this part's own."""
        made = np.random.SeedSequence([seed, self.split_number, self.number]).generate_state(count, np.uint32)
        return [int(s) for s in made]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name to write to; the file gets its own when all is written, and is removed if that fails."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def claim(folder: Path, settings: dict[str, Any]) -> None:
    """Make a folder that of a dataset, or check that it is.

    Raises:
        ValueError: if it holds a dataset with other settings, or something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SETTINGS
    settings = json.loads(json.dumps(settings))
    if not path.exists():
        if others := sorted(p.name for p in folder.iterdir() if not p.name.endswith(".part")):
            raise ValueError(f"{folder} is not empty and holds no dataset ({others[0]}): choose another folder")
        with whole_file(path) as partial:
            partial.write_text(json.dumps(settings, indent=1) + "\n")
        return
    there = read_settings(folder)
    if there != settings:
        changed = [k for k in {**settings, **there} if settings.get(k) != there.get(k)]
        raise ValueError(f"{folder} holds a dataset with other settings ({', '.join(changed)}): choose another folder")


def read_settings(folder: Path) -> dict[str, Any]:
    """What a dataset was made with."""
    path = folder / SETTINGS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no dataset: it has no {SETTINGS}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged ({error})") from None
    return dict(found)


def divide(folder: Path, counts: dict[str, int], size: int, suffix: str) -> list[Part]:
    """The parts of all splits, of at most ``size`` samples each."""
    return [
        Part(split, i, number, min(size, count - number * size), folder / "parts" / f"{split}-{number:05d}{suffix}")
        for i, (split, count) in enumerate(counts.items())
        for number in range(-(-count // size))
    ]


def make_parts(parts: list[Part], make: Callable[[Part], Any], processes: int, advance: Advance) -> None:
    """Make those parts that are not there.

    Args:
        parts: all of them.
        make: writes a part; a function that other processes can import.
        processes: that work side by side; 1 works in this one.
        advance: told how many samples more are there.

    Raises:
        ValueError: if a process was killed. What is there stays, and the next call goes on.
    """
    for part in parts:
        part.path.parent.mkdir(parents=True, exist_ok=True)
    there = [part for part in parts if part.path.exists()]
    advance(sum(part.count for part in there))
    todo = [part for part in parts if part not in there]
    if processes == 1:
        for part in todo:
            make(part)
            advance(part.count)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(make, part): part for part in todo}
        try:
            for done in as_completed(running):
                done.result()
                advance(running[done].count)
        except BrokenProcessPool:
            whole = sum(part.path.exists() for part in parts)
            raise ValueError(
                f"a process was killed with {whole} of {len(parts)} parts made: give the same command again to go on"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
