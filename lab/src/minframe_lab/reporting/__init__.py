"""``minframe report``: one page that shows what the library does, how exact it is and what it costs."""

from __future__ import annotations

from pathlib import Path

from minframe_lab.record import write_whole
from minframe_lab.reporting.page import build, pictures
from minframe_lab.reporting.sources import Run, read_run


class Page:
    """The page of a folder, written again whenever there is more to show.

    Args:
        folder: where ``verify.json``, ``bench.json`` and ``peers.json`` are, and where the page goes.
        results: folder of the results of experiments.
    """

    NAME = "index.html"

    def __init__(self, folder: Path, results: Path) -> None:
        self.folder, self.results = folder, results
        self.path = folder / self.NAME
        self.runs: dict[str, Run] = {}
        self.read()
        self._pictures = ""

    def read(self) -> None:
        """Take up what has been measured; a ``ValueError`` says which file cannot be read."""
        self.runs = {command: read_run(self.folder, command) for command in ("verify", "bench", "peers")}

    def missing(self) -> list[str]:
        """Commands whose measurements are not there, or not all of them."""
        return [command for command in ("verify", "bench") if not self.runs[command].complete]

    def write(self) -> None:
        """Write the page, all at once."""
        self._pictures = self._pictures or pictures()
        write_whole(self.path, build(self.runs, self.results, self._pictures))
