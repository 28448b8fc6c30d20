"""Tables of the experiments on surrogates: what they are is said in every row and figure, and what a frame is worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jet_files import write_splits
from minframe_lab.data import parts
from minframe_lab.experiments import record
from minframe_lab.experiments.run import run
from minframe_lab.experiments.table import collect, write_table
from minframe_lab.experiments.toptag import table as tagging
from minframe_lab.experiments.toptag.recipe import TopTag

pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs on jets that are said to be a surrogate."""
    folder = tmp_path_factory.mktemp("tables")
    jets = write_splits(folder / "jets", 40)
    (jets / parts.SETTINGS).write_text('{"counts": {"train": 40}}')
    for method in ("minimal", "plain"):
        wanted = TopTag(method=method, constituents=12, width=8, layers=1)
        wanted = replace(wanted, recipe=replace(wanted.recipe, epochs=1, batch_size=16))
        run(wanted, folder / f"toptag-{method}", jets)
        collect(folder / f"toptag-{method}", folder / "results")
    return folder / "results"


def runs_of(results: Path) -> list[Path]:
    return sorted(path.parent for path in results.glob(f"*/{record.METRICS}"))


def test_every_row_and_figure_says_surrogate(results: Path) -> None:
    page = write_table(results).read_text()
    rows = [line for line in page.splitlines() if line.startswith("| transformer")]
    assert len(rows) == 2
    assert all("| surrogate |" in row for row in rows)
    assert all("surrogate" in line for line in page.splitlines() if line.startswith("!["))
    assert all((results / name).exists() for name in tagging.FIGURES)


def test_the_last_line_is_what_the_frame_contributes(results: Path) -> None:
    page = write_table(results).read_text()
    line = next(line for line in page.splitlines() if line.startswith("What the frame itself contributes"))
    found = {r["configuration"]["method"]: r["test"]["auc"] for r in map(record.read, runs_of(results))}
    assert f"{found['minimal'] - found['plain']:+.4f}" in line


def test_the_mark_of_uncommitted_code_is_kept(results: Path) -> None:
    folder = runs_of(results)[0]
    stored: dict[str, Any] = record.read(folder)
    record.write(stored | {"commit": "0123456789abcdef0123+"}, folder)
    try:
        assert "0123456789ab+" in write_table(results).read_text()
    finally:
        record.write(stored, folder)
