"""Top tagging: what networks are invariant to, figures of merit, and runs on one process and on several."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from jet_files import random_jets, write_splits
from minframe_lab.experiments import record
from minframe_lab.experiments.app import app
from minframe_lab.experiments.run import evaluate, run
from minframe_lab.experiments.toptag import metrics
from minframe_lab.experiments.toptag.lorentz import minkowski, random_element, usual_features
from minframe_lab.experiments.toptag.networks import MinkowskiLayer, squashed
from minframe_lab.experiments.toptag.recipe import METHODS, RAPIDITY, TopTag, invariance_error

pytest.importorskip("h5py")
ALL = [(network, method) for network, methods in METHODS.items() for method in methods]
SMALL = {"constituents": 12, "width": 8, "layers": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_splits(tmp_path_factory.mktemp("jets"), 60)


def short(network: str, method: str) -> TopTag:
    made = TopTag(network=network, method=method, **SMALL)
    return replace(made, recipe=replace(made.recipe, epochs=2, batch_size=16))


class TestElements:
    def test_they_keep_the_metric(self) -> None:
        x, y = torch.randn(2, 50, 4, dtype=torch.float64)
        for orthochronous in (True, False):
            g = random_element(50, RAPIDITY, orthochronous)
            moved = [(g @ v.unsqueeze(-1)).squeeze(-1) for v in (x, y)]
            torch.testing.assert_close(minkowski(*moved), minkowski(x, y), atol=1e-10, rtol=1e-10)
            assert bool((g[:, 0, 0] < 0).any()) is not orthochronous
            assert float(g[:, 0, 0].abs().max()) <= np.cosh(RAPIDITY)

    def test_preprocessing_knows_the_beam_and_nothing_else(self) -> None:
        p = torch.tensor(random_jets(20)[0])
        mask = p[..., 0] > 0
        w = torch.tensor(0.7, dtype=torch.float64)
        along = torch.eye(4, dtype=torch.float64)
        along[0, 0] = along[3, 3] = w.cosh()
        along[0, 3] = along[3, 0] = w.sinh()
        turn = torch.eye(4, dtype=torch.float64)
        turn[1:3, 1:3] = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        before = usual_features(p, mask)
        torch.testing.assert_close(usual_features(p @ turn.mT, mask), before)
        boosted = usual_features(p @ along.mT, mask)
        for i in (1, 3, 4):  # azimuths and transverse momenta
            torch.testing.assert_close(boosted[..., i], before[..., i], atol=1e-9, rtol=1e-9)
        # Pseudorapidities of massless constituents all move by the same; that of a jet, which has a mass, does not.
        apart = [(x[..., 0] - x[:, :1, 0])[mask] for x in (before, boosted)]
        torch.testing.assert_close(*apart, atol=1e-9, rtol=1e-9)
        assert not torch.allclose(boosted[..., 5], before[..., 5])


class TestNetworks:
    @pytest.mark.parametrize(("network", "method"), ALL)
    def test_logits_under_the_lorentz_group(self, network: str, method: str) -> None:
        torch.manual_seed(1)
        p, _, label = random_jets(200, 12, 5)
        data = torch.tensor(p), torch.tensor(p[..., 0] > 0), torch.tensor(label)
        model = TopTag(network=network, method=method, **SMALL).model().eval()
        error = invariance_error(model, data)
        if method in ("minimal", "unordered") or network == "mass":
            assert error < 1e-4
        elif method == "invariant":
            assert error < 1e-2  # float32 throughout, as such networks are used
        else:
            assert error > 1e-2

    @pytest.mark.parametrize(("network", "method"), [a for a in ALL if a[1] != "minimal"])
    def test_order_and_padding(self, network: str, method: str) -> None:
        torch.manual_seed(1)
        p = torch.tensor(random_jets(30, 12, 5)[0])
        model = TopTag(network=network, method=method, **SMALL).model().eval()
        order = torch.randperm(12)
        padded = torch.cat([p[:, order], torch.zeros(30, 3, 4, dtype=p.dtype)], 1)
        with torch.no_grad():
            before, after = (model(x, x[..., 0] > 0) for x in (p, padded))
        torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-4)

    def test_messages_see_both_ends_and_the_pair(self) -> None:
        torch.manual_seed(0)
        layer = MinkowskiLayer(8, invariant=True, last=True)
        h, x, pair = torch.randn(2, 5, 8), torch.randn(2, 5, 4), torch.rand(2, 5, 5) < 0.7
        products = minkowski(x.unsqueeze(2), x.unsqueeze(1))
        apart = x.unsqueeze(2) - x.unsqueeze(1)
        edges = torch.stack([squashed(minkowski(apart, apart)), squashed(products)], -1)
        ends = h.unsqueeze(2).expand(-1, -1, 5, -1), h.unsqueeze(1).expand(-1, 5, -1, -1)
        m = layer.message(torch.cat([*ends, edges], -1)) * pair.unsqueeze(-1)
        expected = h + layer.node(torch.cat([h, (m * layer.weight(m)).sum(2)], -1))
        torch.testing.assert_close(layer(h, x, pair)[0], expected, atol=1e-5, rtol=1e-5)

    def test_training_sees_the_poses_that_tests_see(self, folder: Path) -> None:
        experiment = short("transformer", "minimal")
        torch.manual_seed(0)
        model = experiment.model().eval()
        p, mask, label = experiment.data("train", folder)
        part, (poses, _, _) = experiment.trained(model, (p, mask, label))
        torch.testing.assert_close(part(poses, mask), model(p, mask), atol=1e-5, rtol=1e-5)

    def test_what_does_not_go_together(self) -> None:
        with pytest.raises(ValueError, match="no method 'preprocessed'"):
            TopTag(network="minkgnn", method="preprocessed")
        with pytest.raises(ValueError, match="no network 'cnn'"):
            TopTag(network="cnn")


class TestMetrics:
    def test_auc(self) -> None:
        random = np.random.default_rng(0)
        signal = random.random(300) < 0.4
        score = np.round(random.normal(size=300) + signal, 1)  # with ties
        pairs = score[signal][:, None] - score[~signal][None]
        expected = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
        assert metrics.auc(score, signal) == pytest.approx(expected, abs=1e-12)
        weight = random.integers(0, 3, 300).astype(float)
        repeated = np.repeat(np.arange(300), weight.astype(int))
        assert metrics.auc(score, signal, weight) == pytest.approx(metrics.auc(score[repeated], signal[repeated]))

    def test_rejection(self) -> None:
        signal = np.array([True] * 10 + [False] * 1000)
        score = np.concatenate([np.linspace(1, 2, 10), np.linspace(-3, 1.75, 1000)])
        cut = np.sort(score[signal])[5]  # five of ten pass
        assert metrics.rejection(score, signal, 0.5) == pytest.approx(1000 / (score[~signal] > cut).sum())
        assert metrics.rejection(score, signal, 0.2) == float("inf")

    def test_errors_and_what_rests_on_too_few(self) -> None:
        random = np.random.default_rng(0)
        signal = np.arange(4000) % 2 == 0
        draws = [metrics.auc(random.normal(size=4000) + signal, signal) for _ in range(60)]
        found = metrics.summary(random.normal(size=4000) + signal, signal)
        assert found["auc_error"] == pytest.approx(np.std(draws), rel=0.4)
        assert "rejection_50" in found
        assert "rejection_30" not in found
        many = np.arange(2 * metrics.BACKGROUND_FOR_30) % 2 == 0
        assert "rejection_30" in metrics.summary(random.normal(size=len(many)) + many, many)


class TestRuns:
    @pytest.mark.parametrize(
        ("network", "method"), [("transformer", "minimal"), ("transformer", "augmented"), ("mass", "invariant")]
    )
    def test_a_short_run_and_again(self, network: str, method: str, folder: Path, tmp_path: Path) -> None:
        found = run(short(network, method), tmp_path / "run", folder)
        assert found["complete"]
        assert found["data"] == {"surrogate": False, "folder": folder.name}
        again = evaluate(tmp_path / "run", folder)
        assert again["now"] == pytest.approx(again["recorded"])

    def test_missing_data(self, tmp_path: Path) -> None:
        for words in ([], ["--data", str(tmp_path)]):
            result = CliRunner().invoke(app, ["toptag", "--output", str(tmp_path / "x"), *words])
            assert result.exit_code == 2
            assert len(result.output.splitlines()) == 1

    @pytest.mark.slow
    def test_two_processes_give_the_result_of_one(self, folder: Path, tmp_path: Path) -> None:
        words = [
            "-m",
            "minframe_lab",
            "reproduce",
            "toptag",
            "--data",
            str(folder),
            "--constituents",
            "12",
            "--width",
            "8",
        ]
        words += ["--epochs", "3", "--layers", "1"]
        two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        for name, start in (("one", [sys.executable]), ("two", two)):
            done = subprocess.run(
                [*start, *words, "--output", str(tmp_path / name)], capture_output=True, text=True, timeout=400
            )
            assert done.returncode == 0, done.stderr
        one, both = (json.loads((tmp_path / name / record.METRICS).read_text()) for name in ("one", "two"))
        assert both["processes"] == 2
        assert [r["cross_entropy"] for r in both["history"]] == pytest.approx(
            [r["cross_entropy"] for r in one["history"]], rel=1e-4
        )
        assert [r["loss"] for r in both["history"]] == pytest.approx([r["loss"] for r in one["history"]], rel=1e-4)
        for mine, theirs in zip(
            *(torch.load(tmp_path / name / record.WEIGHTS).values() for name in ("one", "two")), strict=True
        ):
            torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-3)
        # A run of two goes on as one, and nothing is trained again.
        done = subprocess.run(
            [sys.executable, *words, "--output", str(tmp_path / "two")], capture_output=True, text=True, check=True
        )
        again = json.loads((tmp_path / "two" / record.METRICS).read_text())
        assert again["history"] == both["history"]
