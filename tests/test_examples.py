"""Every example runs, and the stored results of its long form show what the documentation says of them."""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "lab" / "results" / "examples"
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if "__main__" in path.read_text())


@pytest.mark.parametrize("name", EXAMPLES)
def test_short_form(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {path: path.read_bytes() for path in RESULTS.glob("*")}
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(sys, "argv", [name, "--quick"])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "┃" in shown  # a table
    path = Path(shown.split("picture: ")[1].strip())
    assert path.parent == tmp_path
    assert path.read_bytes().startswith(b"\x89PNG")
    assert {path: path.read_bytes() for path in RESULTS.glob("*")} == before


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_short(name: str) -> None:
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) < 100


def stored(name: str) -> Any:
    content = json.loads((RESULTS / f"{name}.json").read_text())
    assert content["command"] == f"python examples/{name}.py"
    assert content["configuration"]["seeds"] >= 3
    assert content["commit"]
    assert content["hardware"]
    return content["results"]


def mean(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).mean())


def test_wrapped_policies_are_symmetric_and_no_worse() -> None:
    results = stored("mirrored_flight")
    assert all(len(of) == 5 for of in results.values())
    returns = {method: mean([r for r, _ in of]) for method, of in results.items()}
    residual = {method: max(e for _, e in of) for method, of in results.items()}
    for method in ("wrapped", "wrapped, smooth"):
        assert residual[method] <= 1e-6
        assert returns[method] >= returns["augmentation"]
    assert residual["symmetry loss"] > 1e-3
    assert residual["augmentation"] > 1e-3


def test_digits_in_all_poses() -> None:
    results = stored("rotated_digits")
    for group in ("Cyclic(4)", "Dihedral(4)"):
        wrapped, augmented = (
            results[f"{group}: then {how}"] for how in ("wrapped and fine-tuned", "trained on turned ones")
        )
        assert all(upright == turned and depends == 0 for upright, turned, depends in wrapped)
        assert mean([of[1] for of in wrapped]) > mean([of[1] for of in augmented])


def test_relabelling_changes_no_encoding() -> None:
    results = stored("graph_positions")
    assert results["mf.spectral"]["change"] == 0
    assert results["random signs"]["share"] > 0.5
    assert mean(results["mf.spectral"]["mae"]) < mean(results["none"]["mae"])
