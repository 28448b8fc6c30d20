"""Tables of the experiments on surrogates: what they are is said in every row and figure, and what a frame is worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jet_files import write_splits
from minframe_lab.data import parts
from minframe_lab.experiments import record
from minframe_lab.experiments.is2re import table as slabs
from minframe_lab.experiments.is2re.data import TESTS
from minframe_lab.experiments.rows import difference
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


def test_rows_of_different_test_sets_are_not_mixed(results: Path) -> None:
    records = [record.read(folder) for folder in runs_of(results)]
    wider = [{**r, "measured": {**r["measured"], "jets": {"test": 80, "background": 40}}} for r in records]
    wider = [r for r in wider if r["configuration"]["method"] == "minimal"]
    lines = list(tagging.section([*records, *wider]))
    rows = [line.split(" | ") for line in lines if line.startswith("| transformer")]
    assert sorted(row[3] for row in rows) == ["40", "40", "80"]
    assert lines[-1].count("over") == 1  # the wider one has nothing to be compared with
    shown = {(r["configuration"]["method"], tagging.tested(r)) for r in tagging.widest([*records, *wider])}
    assert shown == {("minimal", 80), ("plain", 40)}


def test_a_difference_has_errors_of_the_test_set_and_of_seeds() -> None:
    several = [{"value": v, "error": 0.3} for v in (1.0, 2.0, 3.0)]
    one = [{"value": 5.0, "error": 0.4}]
    assert difference(several, one, ("value",), ("error",)) == pytest.approx((-3.0, (0.3**2 + 0.4**2 + 1 / 3) ** 0.5))


def slab_record(method: str, count: int, potential: str = "emt", seed: int = 0) -> dict[str, Any]:
    """What a finished run of the catalyst experiment leaves, with numbers of no meaning."""
    per_split = {f"{name}_{split}{end}": 0.5 for name in ("mae", "within") for split in TESTS for end in ("", "_error")}
    recipe = {"epochs": 2}
    return {
        "experiment": "is2re",
        "command": "minframe reproduce is2re",
        "seed": seed,
        "configuration": {"method": method, "slabs": None, "width": 8, "recipe": recipe},
        "data": {"surrogate": True, "potential": potential, "counts": {"train": count, "id": 9}},
        "test": per_split,
        "measured": {
            "composition": per_split,
            "adsorbate_mean": per_split,
            "invariance_error": 0.0 if method == "unordered" else 1e-3,
            "order_error": 0.0,
            "samples_a_second": 100.0,
            "over_stochastic": 1.25 if method == "unordered" else 1.0,
            "parity": {"predicted": [0.0, 1.0], "true": [0.0, 1.1]},
        },
    }


def test_slabs_say_surrogate_in_rows_and_figures_and_end_with_the_frame(tmp_path: Path) -> None:
    records = [slab_record(m, n) for m in ("unordered", "stochastic") for n in (20, 40)]
    records += [slab_record("unordered", 20, "chgnet"), slab_record("stochastic", 20, seed=1)]
    lines = list(slabs.section(records))
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| method")]
    assert all("| surrogate (" in row for row in rows)
    assert sum("0, 1" in row for row in rows) == 1  # two seeds of the same share a row
    assert sum(row.startswith("| composition alone") for row in rows) == 3  # once for each dataset
    assert all("surrogate" in line for line in lines if line.startswith("!["))
    assert lines[-1].startswith("What the frame itself contributes here: EMT, 20 slabs, against stochastic FA")
    assert lines[-1].count("0.0e+00 instead of 1.0e-03 eV, 1.25 times") == 2
    slabs.figures(records, tmp_path)
    assert all((tmp_path / name).exists() for name in slabs.FIGURES)
