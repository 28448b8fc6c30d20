"""Slabs: what energies do not depend on, published files and hostile ones, and a short run of each method."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ase import Atoms
from minframe_lab.data.slabs import build, published, store
from minframe_lab.experiments import record
from minframe_lab.experiments.is2re import data, plane
from minframe_lab.experiments.is2re.recipe import IS2RE, invariance_error, order_error, throughput
from minframe_lab.experiments.run import evaluate, run

CUTOFF = 4.5
SMALL = {"width": 8, "interactions": 2, "gaussians": 6}
SINGLE = ("minimal", "unordered")


def unrelaxed(split: str, seed: int) -> build.Slab:
    """A sample without its relaxation: its energy is that of the count of atoms."""
    atoms, element = build.build(split, np.random.default_rng(seed))
    return of_atoms(atoms, Atoms(element).numbers[0])


def of_atoms(atoms: Atoms, adsorbate: int) -> build.Slab:
    n = len(atoms)
    fixed = np.isin(np.arange(n), atoms.constraints[0].index) if atoms.constraints else np.zeros(n, bool)
    energy = float(np.sin(atoms.positions).sum())
    return build.Slab(
        atoms.numbers.astype(np.int64),
        atoms.positions.copy(),
        atoms.cell.array.copy(),
        atoms.get_tags().astype(np.int64),
        fixed,
        energy,
        atoms.positions.copy(),
        int(adsorbate),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every split, twelve samples each."""
    made = tmp_path_factory.mktemp("slabs")
    for i, split in enumerate(build.SPLITS):
        store.write(made / f"{split}.npz", store.gather(unrelaxed(split, 100 * i + j) for j in range(12)))
    return made


def model_of(method: str) -> torch.nn.Module:
    torch.manual_seed(0)
    return IS2RE(method=method, **SMALL).model().double().eval()


def energies(model: torch.nn.Module, slabs: list[build.Slab]) -> torch.Tensor:
    with torch.no_grad():
        return model(*data.tensors(slabs, CUTOFF))


def changed(slab: build.Slab, how: str, random: np.random.Generator) -> build.Slab:
    """Another description of the same structure."""
    atoms = Atoms(slab.numbers, slab.positions, cell=slab.cell, pbc=(True, True, False), tags=slab.tags)
    if how == "image":
        shift = random.integers(-2, 3, (len(atoms), 3)) * [1, 1, 0]
        atoms.positions += shift @ atoms.cell.array
    elif how == "basis":
        cell = np.array([[1, 1, 0], [1, 2, 0], [0, 0, 1]]) @ atoms.cell.array
        atoms.set_cell(cell)
    elif how == "turn":
        atoms.rotate(float(random.uniform(0, 360)), "z", rotate_cell=True)
    elif how == "mirror":
        atoms.set_cell(slab.cell * [-1, 1, 1])
        atoms.set_positions(slab.positions * [-1, 1, 1])
    elif how == "shift":
        atoms.positions += random.normal(size=3) * 5
    elif how == "order":
        atoms = atoms[random.permutation(len(atoms))]
    return of_atoms(atoms, slab.adsorbate)


class TestInvariance:
    @pytest.mark.parametrize("how", ["image", "basis", "turn", "mirror", "shift", "order"])
    @pytest.mark.parametrize("method", ["minimal", "unordered", "pca"])
    def test_descriptions_of_one_structure(self, method: str, how: str) -> None:
        if (method, how) == ("minimal", "order"):
            pytest.skip("minimal frames follow the order of the atoms")
        random = np.random.default_rng(3)
        slabs = [unrelaxed("train", seed) for seed in range(20)]
        model = model_of(method)
        before, after = energies(model, slabs), energies(model, [changed(s, how, random) for s in slabs])
        assert float((after - before).abs().max()) < 1e-9 * float(before.abs().max())

    def test_a_mirror_is_a_mirror(self) -> None:
        slab = unrelaxed("train", 0)
        mirrored = changed(slab, "mirror", np.random.default_rng(0))
        assert np.array_equal(mirrored.positions[:, 0], -slab.positions[:, 0])
        assert np.array_equal(mirrored.cell[:, 0], -slab.cell[:, 0])

    def test_a_network_without_a_frame_sees_turns_alone(self) -> None:
        random = np.random.default_rng(3)
        slabs, model = [unrelaxed("train", seed) for seed in range(10)], model_of("plain")
        before = energies(model, slabs)
        for how in ("image", "basis", "shift", "order"):
            torch.testing.assert_close(energies(model, [changed(s, how, random) for s in slabs]), before)
        turned = energies(model, [changed(s, "turn", random) for s in slabs])
        assert float((turned - before).abs().max()) > 1e-5 * float(before.abs().max())

    def test_the_normal_is_not_symmetric(self) -> None:
        slab = unrelaxed("train", 0)
        upside_down = replace(slab, positions=slab.positions * [1, 1, -1])
        model = model_of("unordered")
        one, other = energies(model, [slab]), energies(model, [upside_down])
        assert float((one - other).abs()) > 1e-9 * float(one.abs())

    def test_poses_are_isometries_of_the_plane(self) -> None:
        inputs = data.tensors([unrelaxed("train", seed) for seed in range(6)], CUTOFF)
        for method in (*SINGLE, "pca"):
            found = plane.poses(method, inputs[0], inputs[2], inputs[3], CUTOFF)
            one = torch.eye(3, dtype=torch.float64).expand_as(found)
            torch.testing.assert_close(found @ found.mT, one, atol=1e-10, rtol=0)
            assert not found[..., 2, :2].any()
            assert bool((found[..., 2, 2] == 1).all())

    def test_errors_are_measured(self, folder: Path) -> None:
        batch = IS2RE(**SMALL).data("test", folder)
        assert invariance_error(model_of("unordered"), batch) < 1e-9 < invariance_error(model_of("plain"), batch)
        assert order_error(model_of("unordered"), batch) < 1e-9 < order_error(model_of("minimal"), batch)

    @pytest.mark.parametrize(("method", "posed"), [("unordered", True), ("plain", False)])
    def test_throughput_beside_stochastic_frames(self, method: str, posed: bool, folder: Path) -> None:
        batch = IS2RE(**SMALL).data("test", folder)
        found = throughput(IS2RE(method=method, **SMALL).model().eval(), batch)
        assert found["samples_a_second"] > 0
        assert found["over_stochastic"] > 0
        assert ("posed_over_stochastic" in found) is posed


class TestRuns:
    @pytest.mark.parametrize("method", ["unordered", "pca", "stochastic", "augmented"])
    def test_a_short_run_and_again(self, method: str, folder: Path, tmp_path: Path) -> None:
        wanted = IS2RE(method=method, **SMALL)
        wanted = replace(wanted, recipe=replace(wanted.recipe, epochs=1, batch_size=6))
        found = run(wanted, tmp_path / "run", folder)
        assert {f"{name}_{split}" for name in ("mae", "within") for split in data.TESTS} <= set(found["test"])
        assert found["measured"]["composition"]["mae_id"] > 0
        again = evaluate(tmp_path / "run", folder)
        assert again["now"] == pytest.approx(again["recorded"])

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["unordered", "plain"])
    def test_two_processes_give_the_result_of_one(self, method: str, folder: Path, tmp_path: Path) -> None:
        words = ["-m", "minframe_lab", "reproduce", "is2re", "--data", str(folder), "--method", method]
        words += ["--width", "8", "--interactions", "1", "--gaussians", "6", "--epochs", "2"]
        two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        for name, start in (("one", [sys.executable]), ("two", two)):
            done = subprocess.run(
                [*start, *words, "--output", str(tmp_path / name)], capture_output=True, text=True, timeout=400
            )
            assert done.returncode == 0, done.stderr
        one, both = (record.read(tmp_path / name) for name in ("one", "two"))
        assert both["processes"] == 2
        assert [r["mae"] for r in both["history"]] == pytest.approx([r["mae"] for r in one["history"]], rel=1e-4)
        for split in data.TESTS:
            assert both["test"][f"mae_{split}"] == pytest.approx(one["test"][f"mae_{split}"], rel=1e-4)

    def test_training_sees_the_poses_that_tests_see(self, folder: Path) -> None:
        experiment = IS2RE(method="unordered", **SMALL)
        batch = experiment.data("train", folder)
        model = experiment.model().eval()
        part, posed = experiment.trained(model, batch)
        torch.testing.assert_close(part(*posed[:4]), model(*batch[:4]), atol=1e-4, rtol=1e-4)

    def test_few_slabs_are_all_that_baselines_see_too(self, folder: Path, tmp_path: Path) -> None:
        for split in build.SPLITS:
            shorter = data.read(split, folder, 5 if split == "train" else None)
            store.write(tmp_path / f"{split}.npz", shorter)
        for split in ("train", "test"):
            few = IS2RE(**SMALL, slabs=5).data(split, folder)
            for mine, theirs in zip(few, IS2RE(**SMALL).data(split, tmp_path), strict=True):
                torch.testing.assert_close(mine, theirs, atol=0, rtol=0)

    def test_a_limit_takes_the_first_of_all_test_sets(self, folder: Path) -> None:
        whole, few = (IS2RE(**SMALL).data("test", folder, limit) for limit in (None, 15))
        assert len(few[0]) == 15
        assert all(torch.equal(x, y[:15]) for x, y in zip(few[4:], whole[4:], strict=True))

    def test_baselines(self, folder: Path) -> None:
        train = data.read("train", folder)
        residual = train.energy - data.composition(train) @ data.fit_composition(train)
        assert np.abs(residual).mean() < np.abs(train.energy - train.energy.mean()).mean()
        means = data.adsorbate_means(train, data.read("adsorbate", folder))
        assert np.allclose(means, train.energy.mean())  # unseen: no mean of its own


class Hostile:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


class TestPublishedFiles:
    @pytest.fixture
    def lmdb(self) -> Any:
        return pytest.importorskip("lmdb")

    def written(self, lmdb: Any, path: Path, contents: dict[bytes, bytes]) -> Path:
        with (
            lmdb.open(str(path), subdir=False, map_size=2**24, lock=False) as database,
            database.begin(write=True) as t,
        ):
            for key, content in contents.items():
                t.put(key, content)
        return path

    def graph(self, slab: build.Slab) -> dict[str, Any]:
        return {
            "atomic_numbers": torch.tensor(slab.numbers).float(),
            "pos": torch.tensor(slab.positions).float(),
            "cell": torch.tensor(slab.cell).float().unsqueeze(0),
            "tags": torch.tensor(slab.tags),
            "fixed": torch.tensor(slab.fixed).float(),
            "natoms": len(slab.numbers),
            "y_relaxed": slab.energy,
            "y_init": 0.0,
            "pos_relaxed": torch.tensor(slab.relaxed).float(),
            "sid": 7,
        }

    def test_graphs_of_both_kinds(self, lmdb: Any, tmp_path: Path) -> None:
        pyg = pytest.importorskip("torch_geometric.data")
        slabs = [unrelaxed("train", seed) for seed in range(4)]
        newer = [pickle.dumps(pyg.Data(**self.graph(s)), protocol=-1) for s in slabs]
        # The older kind keeps its attributes itself, as the published files do.
        older = [
            b"\x80\x02ctorch_geometric.data.data\nData\nq\x00)\x81q\x01" + pickle.dumps(self.graph(s), 2)[2:-1] + b"b."
            for s in slabs
        ]
        for name, contents in (("newer", newer), ("older", older)):
            keyed = {str(i).encode(): c for i, c in enumerate(contents)}
            path = self.written(lmdb, tmp_path / f"{name}.lmdb", keyed | {b"length": pickle.dumps(4)})
            found = list(published.samples(path))
            assert len(found) == 4
            for mine, theirs in zip(found, slabs, strict=True):
                assert np.array_equal(mine.numbers, theirs.numbers)
                assert np.allclose(mine.positions, theirs.positions, atol=1e-5)
                assert np.array_equal(mine.fixed, theirs.fixed)
                assert mine.energy == theirs.energy
                assert mine.adsorbate == theirs.adsorbate

    def test_hostile_and_damaged_rows(self, lmdb: Any, tmp_path: Path) -> None:
        good = pickle.dumps(self.graph(unrelaxed("train", 0)))
        lacking = pickle.dumps({k: v for k, v in self.graph(unrelaxed("train", 1)).items() if k != "tags"})
        uneven = pickle.dumps(self.graph(unrelaxed("train", 1)) | {"tags": torch.zeros(2)})
        for number, (bad, what) in enumerate(
            [
                (pickle.dumps(Hostile()), "system, which is no plain data"),
                (good[: len(good) // 2], "damaged"),
                (b"", "damaged"),
                (lacking, "it lacks tags"),
                (uneven, "counted differently"),
                (pickle.dumps([1, 2]), "no graph"),
            ]
        ):
            path = self.written(lmdb, tmp_path / f"{number}.lmdb", {b"0": good, b"1": bad, b"2": good})
            with pytest.raises(ValueError, match=rf"{number}.lmdb: row 1: .*{what}"):
                list(published.samples(path))

    def test_rows_and_files_that_are_missing(self, lmdb: Any, tmp_path: Path) -> None:
        good = pickle.dumps(self.graph(unrelaxed("train", 0)))
        path = self.written(lmdb, tmp_path / "x.lmdb", {b"0": good, b"7": good})
        with pytest.raises(ValueError, match=r"x.lmdb: row 1 of 2 is missing"):
            list(published.samples(path))
        path = self.written(lmdb, tmp_path / "y.lmdb", {b"0": good, b"length": pickle.dumps(9)})
        with pytest.raises(ValueError, match=r"y.lmdb says that it has 9 graphs"):
            list(published.samples(path))
        with pytest.raises(ValueError, match=r"z.lmdb does not exist"):
            list(published.samples(tmp_path / "z.lmdb"))

    def test_truncated(self, lmdb: Any, tmp_path: Path) -> None:
        good = pickle.dumps(self.graph(unrelaxed("train", 0)))
        path = self.written(lmdb, tmp_path / "x.lmdb", {str(i).encode(): good for i in range(20)})
        whole = path.read_bytes()
        for share in (0.0, 0.01, 0.1, 0.5, 0.9):
            path.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(ValueError, match=r"x.lmdb"):
                list(published.samples(path))

    @pytest.mark.slow
    def test_damaged_pages_end_no_process_of_ours(self, lmdb: Any, tmp_path: Path) -> None:
        good = pickle.dumps(self.graph(unrelaxed("train", 0)))
        path = self.written(lmdb, tmp_path / "x.lmdb", {str(i).encode(): good for i in range(20)})
        assert len(published.read(path, 3)) == 3
        whole = bytearray(path.read_bytes())
        whole[2 * 4096 :] = os.urandom(len(whole) - 2 * 4096)
        path.write_bytes(whole)
        with pytest.raises(ValueError, match=r"x.lmdb"):
            published.read(path)
