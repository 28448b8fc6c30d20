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


def test_every_example_has_a_result_and_a_picture() -> None:
    assert {path.name for path in RESULTS.glob("*")} == {f"{n}.{kind}" for n in EXAMPLES for kind in ("json", "png")}


def means(name: str) -> dict[str, list[float]]:
    """Of every row and part of a stored result, the mean over seeds."""
    return {row: [mean(part) for part in of] for row, of in stored(name).items()}


def test_a_prior_saves_what_was_learned_upright() -> None:
    results = means("pretrained")
    assert results["trained upright"][0] > 95
    assert results["trained upright"][1] < 50
    for name, (upright, turned) in results.items():
        if "wrapped" in name or "frames" in name:
            assert abs(upright - turned) < 0.2  # single precision: an answer or two may flip
    assert results["pretrained, wrapped, with a prior"][1] > results["pretrained, wrapped"][1]
    assert results["pretrained, wrapped, with a prior, fine-tuned"][1] > results["pretrained, wrapped, fine-tuned"][1]


def test_boosts_do_not_confuse_a_tagger_in_frames() -> None:
    results = means("jets")
    assert abs(results["in frames"][0] - results["in frames"][1]) < 0.2
    assert results["in frames"][1] > max(results["plain"][1], results["boosts in training"][1])


def test_crystals_do_not_change_by_turning() -> None:
    for energy, _, _, change in stored("crystal"):
        assert change < 1e-11
        assert energy < 0.1  # of about three


def test_numberings_do_not_matter_to_an_mlp_in_frames() -> None:
    results = means("graph_mlp")
    assert abs(results["mf.S()"][0] - results["mf.S()"][1]) < 1e-6
    assert results["mf.S()"][1] < min(results[name][1] for name in results if name != "mf.S()")


def test_answers_turn_with_shapes() -> None:
    results = means("point_clouds")
    assert abs(results["mf.SE(3)"][0] - results["mf.SE(3)"][1]) < 0.1
    assert results["mf.SE(3)"][1] < results["plain"][1]


def test_smooth_frames_conserve_energy() -> None:
    results = stored("molecular_dynamics")
    for (_, coarse, fine), (_, jumping, _) in zip(results["smooth"], results["one pose"], strict=True):
        assert fine < coarse < jumping / 100


def test_a_transformer_in_local_frames_learns() -> None:
    """It is no better than one frame of the whole on this task, and the documentation says so."""
    results = means("local_frames")
    page = (ROOT / "docs" / "recipes" / "local.md").read_text()
    assert results["local frames"][0] < 1
    for name, of in results.items():
        assert f"| {name} | {of[0]:.2f} | {of[1]:.2f} | {of[2]:.1f} |" in page


def test_the_page_on_pretrained_models_has_these_figures() -> None:
    page = (ROOT / "docs" / "pretrained.md").read_text()
    for name, (upright, turned) in means("pretrained").items():
        assert f"| {name} | {upright:.1f} | {turned:.1f} |" in page
