"""The experiments: their data, a shortened run of each, going on after a kill, and the stored results."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import minframe as mf
from minframe_lab.experiments import record, trainer
from minframe_lab.experiments.app import app
from minframe_lab.experiments.graphs import classify
from minframe_lab.experiments.graphs import data as graph_data
from minframe_lab.experiments.graphs import run as separating
from minframe_lab.experiments.graphs.backbones import backbone
from minframe_lab.experiments.graphs.components import components
from minframe_lab.experiments.hull import data as hull_data
from minframe_lab.experiments.hull.recipe import Hull
from minframe_lab.experiments.nbody import data as nbody_data
from minframe_lab.experiments.nbody.backbone import ParticleNetwork
from minframe_lab.experiments.nbody.recipe import TYPES, NBody, equivariance_error, poses
from minframe_lab.experiments.run import CHECKED, evaluate, run
from minframe_lab.experiments.table import write_table

RESULTS = Path(__file__).parent.parent / "results"
STORED = sorted(path.parent for path in RESULTS.glob(f"*/{record.METRICS}"))
PUBLISHED = os.environ.get("MINFRAME_EXP")  # the file with the published EXP graphs, which is not ours to ship
DATA_FOLDERS = {"toptag": "MINFRAME_TOPTAG", "is2re": "MINFRAME_IS2RE"}

FIRST_CHARGES = [1.0, 1.0, -1.0, -1.0, 1.0]
FIRST_POSITIONS = [
    [1.729898, 0.763515, 0.327371],
    [1.347156, -0.244602, -1.403061],
    [0.744827, 0.967605, -1.373524],
    [2.11925, 0.456747, -0.163104],
    [-1.991791, 1.50564, 1.659303],
]
FIRST_TARGETS = [
    [2.202855, 0.962163, -0.679564],
    [1.527378, 0.686271, -1.631559],
    [0.563352, 0.687498, -1.807318],
    [2.051502, 0.112565, -0.103108],
    [-2.15892, 1.923824, 1.917975],
]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache of generated data for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def particles() -> tuple[torch.Tensor, ...]:
    return NBody().data("test", limit=CHECKED)


@pytest.fixture(scope="module")
def particle_file(tmp_path_factory: pytest.TempPathFactory, particles: tuple[torch.Tensor, ...]) -> Path:
    """A file with 20 simulations for each split."""
    path = tmp_path_factory.mktemp("particles") / "particles.npz"
    pos, vel, charge, target = (x[:60].numpy() for x in particles)
    split = np.repeat(np.arange(3, dtype=np.int8), 20)
    np.savez(path, loc0=pos, vel0=vel, loc1=target, charges=charge[..., 0], split=split)
    return path


def command(*words: object) -> str:
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == 0, result.output
    return result.output


class TestParticleData:
    def test_the_published_set(self, particles: tuple[torch.Tensor, ...]) -> None:
        # The first simulation of the published test set, as the literature has it.
        pos, vel, charge, target = particles
        assert charge[0, :, 0].tolist() == FIRST_CHARGES
        torch.testing.assert_close(pos[0], torch.tensor(FIRST_POSITIONS), atol=1e-5, rtol=0)
        torch.testing.assert_close(target[0], torch.tensor(FIRST_TARGETS), atol=1e-5, rtol=0)
        uniform = (pos + vel - target).square().mean()
        assert 0.05 < float(uniform) < 0.2  # 0.108 on all 2,000

    def test_splits_are_parts_of_one_sequence(self) -> None:
        charges, _, _ = nbody_data.initial_states(10_002)
        made = nbody_data.generate("validation", 2)
        assert np.array_equal(made.charge[..., 0].numpy(), charges[10_000:])

    def test_momentum_is_conserved(self, particles: tuple[torch.Tensor, ...]) -> None:
        pos, vel, _, target = particles
        expected = pos.mean(1) + nbody_data.DURATION * vel.mean(1)
        assert float((target.mean(1) - expected).abs().median()) < 1e-5

    def test_from_a_file(self, particle_file: Path, particles: tuple[torch.Tensor, ...]) -> None:
        read = NBody().data("test", particle_file)
        for mine, theirs in zip(read, particles, strict=True):
            assert torch.equal(mine, theirs[40:60])


class TestParticleModel:
    def test_size(self) -> None:
        assert sum(p.numel() for p in NBody().model().parameters()) == 49_383

    def test_backbone_knows_permutations_and_nothing_else(self, particles: tuple[torch.Tensor, ...]) -> None:
        network, few = ParticleNetwork().eval(), tuple(x[:20] for x in particles[:3])
        order = torch.randperm(5)
        moved = network(*(x[:, order] for x in few))
        torch.testing.assert_close(moved, network(*few)[:, order], atol=1e-5, rtol=1e-5)
        error = mf.testing.equivariance_error(network, mf.O(3), *few, inputs=TYPES, outputs="point")
        assert float(error.min()) > 1e-3

    @pytest.mark.parametrize("turns", [1, 8, 48])
    @pytest.mark.parametrize("rest_frame", [True, False])
    def test_exact_equivariance(self, particles: tuple[torch.Tensor, ...], turns: int, rest_frame: bool) -> None:
        torch.manual_seed(turns)
        model = NBody(turns=turns, rest_frame=rest_frame).model().eval()
        assert equivariance_error(model, tuple(x[: 96 // turns] for x in particles)) < 1e-5

    def test_common_velocity(self, particles: tuple[torch.Tensor, ...]) -> None:
        pos, vel, charge, _ = (x[:50] for x in particles)
        model, boost = NBody().model().eval(), torch.tensor([0.5, -1.0, 2.0])
        with torch.no_grad():
            moved = model(pos, vel + boost, charge)
            torch.testing.assert_close(moved, model(pos, vel, charge) + boost, atol=1e-4, rtol=0)

    def test_training_on_poses_is_training_through_the_frame(self, particles: tuple[torch.Tensor, ...]) -> None:
        experiment, few = NBody(), tuple(x[:30] for x in particles)
        model = experiment.model().eval()
        part, posed = experiment.trained(model, few)
        with torch.no_grad():  # without random turns an error has the same length in either pose
            inside = (part.eval()(*posed[:3]) - posed[3]).norm(dim=-1)
            outside = (model(*few[:3]) - few[3]).norm(dim=-1)
        torch.testing.assert_close(inside, outside, atol=1e-5, rtol=1e-4)

    def test_a_loss_of_the_mean_answer(self, particles: tuple[torch.Tensor, ...]) -> None:
        few = tuple(x[:10] for x in particles)
        answers = few[3].repeat(4, 1, 1) + torch.randn(40, 5, 3)

        def model(*_: torch.Tensor) -> torch.Tensor:
            return answers

        mean = (answers.view(4, 10, 5, 3).mean(0) - few[3]).abs().mean()
        found = [NBody(copies=4, together=together).loss(model, few) for together in (True, False)]  # type: ignore[arg-type]
        torch.testing.assert_close(found[0], mean)
        torch.testing.assert_close(found[1], (answers - few[3].repeat(4, 1, 1)).abs().mean())

    def test_poses_form_a_group(self) -> None:
        for count in (1, 8, 48):
            found = poses(count)
            products = {tuple(m.flatten().tolist()) for m in (found[:, None] @ found[None]).flatten(0, 1)}
            assert len(products) == count
        with pytest.raises(ValueError, match="1, 8 or 48"):
            poses(5)


class TestHull:
    def test_volumes(self) -> None:
        points, volumes = hull_data.generate("train", 8)
        assert points.shape == (8, 16, 5)
        again, same = hull_data.generate("train", 4)
        assert torch.equal(again, points[:4])
        assert torch.equal(same, volumes[:4])
        assert float(volumes.min()) > 0

    @pytest.mark.parametrize("shear", [True, False])
    def test_exact_invariance(self, shear: bool) -> None:
        x = torch.randn(50, 16, 5)
        model = Hull(shear=shear).model()
        mf.testing.assert_equivariant(model, mf.S() * mf.O(5), x, inputs="point", outputs="scalar", rtol=1e-6)

    def test_a_volume_changes_as_it_must(self) -> None:
        x, g = torch.randn(20, 16, 5), torch.randn(5, 5)
        model = Hull().model()
        expected = model(x) * torch.linalg.det(g).abs()
        torch.testing.assert_close(model(x @ g.mT), expected, rtol=1e-3, atol=1e-4)


class TestGraphs:
    def test_numbers_of_connected_graphs(self) -> None:
        for n in range(1, 7):
            assert len(graph_data.connected_graphs(n)) == graph_data.CONNECTED[n - 1]

    def test_graph6(self, tmp_path: Path) -> None:
        path = tmp_path / "graphs.g6"
        path.write_text("CF\nC~\n")  # the star and the complete graph on four nodes
        star, complete = graph_data.read_graph6(path)
        assert star.sum(0).tolist() == [1, 1, 1, 3]
        assert torch.equal(complete, 1 - torch.eye(4))

    def test_generated_pairs(self) -> None:
        adjacency, colour, mask, label = graph_data.generate_exp(pairs=10)
        assert label.view(-1, 2).tolist() == [[1.0, 0.0]] * 10
        sizes = mask.sum(-1)
        assert 32 <= int(sizes.min()) <= int(sizes.max()) <= 64
        with torch.no_grad():
            blind = backbone("gin", 64, 2, ordered=False)(adjacency, colour, mask)
            seeing = classify.canonical(adjacency, colour, mask)
        torch.testing.assert_close(blind[::2], blind[1::2], atol=1e-3, rtol=1e-4)  # the same by message passing
        assert bool((seeing[0][::2] != seeing[0][1::2]).flatten(1).any(1).all())  # but different graphs

    def test_components(self) -> None:
        adjacency = torch.zeros(2, 5, 5)
        for graph, i, j in ((0, 0, 3), (0, 1, 2), (1, 0, 1), (1, 1, 2)):
            adjacency[graph, i, j] = adjacency[graph, j, i] = 1
        owner, nodes = components(adjacency, torch.tensor([[True] * 5, [True] * 4 + [False]]))
        assert owner.tolist() == [0, 0, 0, 1, 1]
        assert [row.nonzero().flatten().tolist() for row in nodes] == [[0, 3], [1, 2], [4], [0, 1, 2], [3]]


SHORT = {
    "nbody": ("--epochs", 2, "--limit", 20),
    "hull": ("--epochs", 2, "--limit", 40),
    "exp-classify": ("--epochs", 1, "--limit", 20),
}


@pytest.mark.usefixtures("cache")
class TestShortRuns:
    @pytest.mark.parametrize("method", ["minimal", "pca", "stochastic", "plain"])
    @pytest.mark.parametrize("name", SHORT)
    def test_trained(self, name: str, method: str, tmp_path: Path, particle_file: Path) -> None:
        data = ("--data", particle_file) if name == "nbody" else ()
        command(name, "--method", method, *SHORT[name], *data, "--output", tmp_path / "run")
        found = record.read(tmp_path / "run")
        assert found["complete"]
        assert found["seed"] == 0
        assert found["configuration"]["method"] == method
        assert len(found["history"]) >= 1
        assert (tmp_path / "run" / "learning.png").exists()
        if method in ("minimal", "plain"):  # the others are random, or much work
            assert "the same" in command(name, *data, "--evaluate", tmp_path / "run")

    @pytest.mark.parametrize("method", ["minimal", "pca", "stochastic", "plain"])
    @pytest.mark.parametrize("network", ["mlp", "gin"])
    def test_separation(self, method: str, network: str, tmp_path: Path) -> None:
        path = tmp_path / "six.g6"
        path.write_text("\n".join(to_graph6(g) for g in graph_data.connected_graphs(6)))
        folder = tmp_path / "run"
        words = ("--method", method, "--backbone", network, "--data", path)
        command("graph8c", *words, "--initialisations", 2, "--output", folder)
        found = record.read(folder)
        assert found["graphs"] == 112
        if method == "minimal":
            assert found["test"]["unseparated"] == 0
            assert "the same" in command("graph8c", "--data", path, "--evaluate", folder)
        elif method == "plain" and network == "gin":
            assert found["test"]["unseparated"] > 0

    @pytest.mark.parametrize("method", ["minimal", "plain"])
    def test_pairs(self, method: str, tmp_path: Path) -> None:
        words = ("--method", method, "--backbone", "gin", "--limit", 20, "--initialisations", 2)
        command("exp", *words, "--output", tmp_path / "run")
        assert record.read(tmp_path / "run")["test"]["unseparated"] == (0 if method == "minimal" else 10)

    def test_other_settings_are_refused(self, tmp_path: Path) -> None:
        words = ("hull", "--limit", 64, "--epochs", 1, "--output", str(tmp_path))
        command(*words)
        result = CliRunner().invoke(app, [*map(str, words), "--seed", "1"])
        assert result.exit_code == 2
        assert "other settings" in " ".join(result.output.split())

    def test_unknown_method(self) -> None:
        result = CliRunner().invoke(app, ["hull", "--method", "best"])
        assert result.exit_code == 2
        assert "minimal" in result.output


def refused(*words: object) -> str:
    """What a command says that fails: one line, and no traceback."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("minframe reproduce: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.usefixtures("cache")
class TestFoldersThatCannotBeUsed:
    SEPARATE = ("exp", "--backbone", "gin", "--limit", 20, "--initialisations", 1)
    TRAIN = ("hull", "--limit", 64, "--epochs", 1)

    @pytest.mark.parametrize("words", [SEPARATE, TRAIN])
    @pytest.mark.parametrize("checkpoint", [True, False])
    def test_a_finished_run_survives_other_settings(self, words: Any, checkpoint: bool, tmp_path: Path) -> None:
        command(*words, "--output", tmp_path)
        if not checkpoint:  # as in the folder of results
            (tmp_path / record.CHECKPOINT).unlink()
        before = files(tmp_path)
        assert "holds a run with other settings" in refused(*words, "--seed", 1, "--output", tmp_path)
        assert files(tmp_path) == before
        other = self.TRAIN if words is self.SEPARATE else self.SEPARATE
        assert "holds a run with other settings" in refused(*other, "--output", tmp_path)
        assert files(tmp_path) == before

    def test_a_finished_run_stays_finished_while_it_is_done_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        command(*self.SEPARATE, "--output", tmp_path)
        before = files(tmp_path)

        def kill(*_: object) -> None:
            raise KilledError

        monkeypatch.setattr(separating.Separate, "graphs", kill)
        with pytest.raises(KilledError):
            separating.run(separating.stored(tmp_path), tmp_path)
        assert files(tmp_path) == before

    @pytest.mark.parametrize("words", [SEPARATE, TRAIN])
    def test_truncated_checkpoint(self, words: Any, tmp_path: Path) -> None:
        command(*words, "--output", tmp_path)
        path = tmp_path / record.CHECKPOINT
        for size in (0, 10, path.stat().st_size // 2):
            path.write_bytes(path.read_bytes()[:size])
            assert f"{path} is damaged" in refused(*words, "--output", tmp_path)

    def test_files_are_written_all_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        record.save({"x": torch.zeros(3)}, tmp_path / "state")

        def cut(state: object, path: Path) -> None:
            path.write_bytes(b"half")
            raise KilledError

        monkeypatch.setattr(torch, "save", cut)
        with pytest.raises(KilledError):
            record.save({"x": torch.ones(3)}, tmp_path / "state")
        assert torch.equal(record.load(tmp_path / "state")["x"], torch.zeros(3))

    @pytest.mark.parametrize("name", ["exp", "hull"])
    def test_metrics(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / record.METRICS
        assert "holds no run" in refused(name, "--evaluate", tmp_path)
        for text in ("", '{"experiment": "ex', "[]", "{}"):
            path.write_text(text)
            assert str(path) in refused(name, "--evaluate", tmp_path)
            assert str(path) in refused(name, "--limit", 20, "--output", tmp_path)
            assert str(path) in refused("table", tmp_path.parent)
            assert path.read_text() == text
        record.write(record.begin(name, {"seed": 0}), tmp_path)
        assert "is not finished" in refused(name, "--evaluate", tmp_path)
        record.write(record.begin(name, {"seed": 0, "new": 1}) | {"complete": True}, tmp_path)
        assert "has settings that are not known here" in refused(name, "--evaluate", tmp_path)

    def test_weights(self, tmp_path: Path) -> None:
        command(*self.TRAIN, "--output", tmp_path)
        path = tmp_path / record.WEIGHTS
        path.write_bytes(path.read_bytes()[:100])
        assert f"{path} is damaged" in refused("hull", "--evaluate", tmp_path)
        path.unlink()
        assert f"{path} is missing" in refused("hull", "--evaluate", tmp_path)

    @pytest.mark.parametrize("words", [SEPARATE, TRAIN])
    def test_a_folder_that_cannot_be_written(self, words: Any, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert str(tmp_path / "file") in refused(*words, "--output", tmp_path / "file")
        assert str(tmp_path / "file") in refused(*words, "--output", tmp_path / "file" / "run")
        (tmp_path / "run" / f".{record.METRICS}.part").mkdir(parents=True)  # as good as no permission, also for root
        assert "directory" in refused(*words, "--output", tmp_path / "run").lower()


def to_graph6(graph: torch.Tensor) -> str:
    n = len(graph)
    bits = [int(graph[i, j]) for j in range(n) for i in range(j)]
    bits += [0] * (-len(bits) % 6)
    values = [sum(b << (5 - k) for k, b in enumerate(bits[i : i + 6])) for i in range(0, len(bits), 6)]
    return "".join(chr(63 + v) for v in [n, *values])


class KilledError(Exception):
    pass


class TestGoingOn:
    @pytest.mark.parametrize("kind", [NBody, Hull])
    @pytest.mark.parametrize("saved_each_epoch", [True, False])
    def test_a_killed_run_ends_with_the_same_result(
        self, kind: Any, saved_each_epoch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, particle_file: Path
    ) -> None:
        experiment = kind()
        recipe = replace(experiment.recipe, epochs=6, batch_size=16, validate_every=1)
        experiment = replace(experiment, recipe=recipe)
        path = particle_file if kind is NBody else None
        train, validation = (experiment.data(split, path, 40) for split in ("train", "validation"))
        whole = trainer.fit(experiment, train, validation, tmp_path / "whole.ckpt")
        monkeypatch.setattr(trainer, "SAVE_SECONDS", 0.0 if saved_each_epoch else 1e9)

        def kill(done: trainer.Progress) -> None:
            if done.epoch == 4:
                raise KilledError

        with pytest.raises(KilledError):
            trainer.fit(experiment, train, validation, tmp_path / "cut.ckpt", told=kill)
        cut = trainer.fit(experiment, train, validation, tmp_path / "cut.ckpt")
        assert cut.history == whole.history
        assert all(torch.equal(cut.weights[k], whole.weights[k]) for k in whole.weights)

    def test_separation_goes_on(self, tmp_path: Path) -> None:
        path = tmp_path / "six.g6"
        path.write_text("\n".join(to_graph6(g) for g in graph_data.connected_graphs(6)))
        whole = separating.run(separating.Separate("graph8c", "gin", "plain"), tmp_path / "whole", path)
        wanted = separating.Separate("graph8c", "gin", "plain", initialisations=100)
        graphs = wanted.graphs(path, separating.Bars(quiet=True))
        begun = wanted.start(graphs)
        begun.step()
        (tmp_path / "cut").mkdir()
        torch.save(begun.state() | {"configuration": vars(wanted)}, tmp_path / "cut" / record.CHECKPOINT)
        cut = separating.run(wanted, tmp_path / "cut", path)
        assert (cut["test"], cut["networks"]) == (whole["test"], whole["networks"])

    def test_seeds_differ(self, tmp_path: Path) -> None:
        recipe = replace(Hull().recipe, epochs=1, batch_size=16)
        found = [run(Hull(seed=s, recipe=recipe), tmp_path / str(s), limit=32)["test"]["mse"] for s in (0, 1, 0)]
        assert found[0] == found[2] != found[1]


class TestPublishedIsomorphismNetwork:
    def test_relabelling_changes_it_only_with_places(self) -> None:
        torch.manual_seed(0)
        adjacency = torch.triu((torch.rand(20, 8, 8) < 0.5).float(), 1)
        adjacency = adjacency + adjacency.mT
        moved = mf.S().act(mf.S().random(20, n=8), adjacency, "edge")
        colour = adjacency.new_zeros(20, 8, 0)
        for ordered in (True, False):
            network = backbone("gin-published", 8, 0, ordered=ordered)
            assert torch.allclose(network(moved, colour), network(adjacency, colour), atol=1e-5) is not ordered


class TestMeasureAgain:
    def test_test_results_stay(self, particle_file: Path, tmp_path: Path) -> None:
        for method in ("ordered", "smooth"):
            folder = tmp_path / method
            command("nbody", "--method", method, "--epochs", 1, "--data", particle_file, "--output", folder)
            before = record.read(folder)
            command("measure", folder, "--data", particle_file)
            after = record.read(folder)
            assert after["test"] == before["test"]
            assert after["measured"]["mse_error"] == pytest.approx(before["measured"]["mse_error"])
            assert after["measured_by"] == record.commit()


class TestStoredResults:
    def test_the_table_is_that_of_the_files(self, tmp_path: Path) -> None:
        for folder in STORED:
            (tmp_path / folder.name).mkdir()
            (tmp_path / folder.name / record.METRICS).write_text((folder / record.METRICS).read_text())
        assert write_table(tmp_path).read_text() == (RESULTS / "README.md").read_text()

    @pytest.mark.parametrize("folder", [f for f in STORED if (f / record.WEIGHTS).exists()], ids=lambda f: f.name)
    def test_checkpoints(self, folder: Path) -> None:
        configuration = record.read(folder)["configuration"]
        path = None
        if configuration.get("published"):
            if PUBLISHED is None:
                pytest.skip("the published EXP graphs are not part of the repository: set MINFRAME_EXP to their file")
            path = Path(PUBLISHED)
        if (variable := DATA_FOLDERS.get(record.read(folder)["experiment"])) is not None:
            if variable not in os.environ:
                pytest.skip(f"the data take long to make: set {variable} to the folder that minframe data has made")
            path = Path(os.environ[variable])
        found = evaluate(folder, path, CHECKED)
        assert found["now"] == pytest.approx(found["recorded"], rel=1e-3)
