"""Datasets: files that are damaged are refused with their name and row, and nothing half-written passes for whole."""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from jet_files import random_jets
from minframe_lab.data import parts, plain
from minframe_lab.data.app import app
from minframe_lab.data.jets import events, tables
from minframe_lab.data.jets.make import Jets
from minframe_lab.data.slabs import build, potentials, references, store
from minframe_lab.data.slabs import make as slab_maker

h5py = pytest.importorskip("h5py")
needs_pythia = pytest.mark.skipif(not events.available(), reason="Pythia and fastjet are an extra")


class Hostile:
    """What a pickle could do, were it loaded as one."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


class TestPlain:
    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_plain_data_come_back(self, protocol: int) -> None:
        given = {
            "names": ["E_0", "é"],
            "nested": (1, 2.5, None, True, b"bytes", {"a": [1]}, {3, 4}),
            "array": np.arange(6.0).reshape(2, 3),
            "number": np.float32(2.5),
            "tensor": torch.arange(6).reshape(2, 3),
            "slice": torch.arange(10.0)[2:8:2],
            "ordered": collections.OrderedDict(x=1),
        }
        found = plain.loads(pickle.dumps(given, protocol))
        assert found["names"] == given["names"]
        assert found["nested"] == given["nested"]
        assert np.array_equal(found["array"], given["array"])
        assert type(found["array"]) is np.ndarray
        assert found["number"] == 2.5
        assert torch.equal(found["tensor"], given["tensor"])
        assert torch.equal(found["slice"], given["slice"])
        assert found["ordered"] == {"x": 1}

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    @pytest.mark.parametrize(
        "function",
        [os.system, eval, exec, open, getattr, __import__, subprocess.Popen, pickle.loads, torch.load, np.load, type],
    )
    def test_calls_are_refused(self, function: Any, protocol: int, tmp_path: Path) -> None:
        mark = tmp_path / "mark"
        content = pickle.dumps({"x": [Hostile(function, f"touch {mark}")]}, protocol)
        with pytest.raises(plain.RefusedPickleError, match="no plain data"):
            plain.loads(content)
        assert not mark.exists()

    def test_state_of_admitted_names_is_refused(self) -> None:
        # REDUCE on an admitted class that stands for a type only, and BUILD with a state that is no state.
        for content in (
            b"cnumpy\nndarray\n(tR.",
            b"cbuiltins\nobject\n(tR.",
            b"ccollections\nOrderedDict\n.",
            b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I5\ntS'O'\nI00\nS'x'\ntb.",
        ):
            with pytest.raises(plain.RefusedPickleError):
                plain.loads(content)

    def test_admitted_functions_cannot_be_changed(self) -> None:
        for name in (
            b"ctorch._utils\n_rebuild_tensor_v2\n",
            b"ccollections\nOrderedDict\n",
            b"ctorch_geometric.data\nData\n",
        ):
            for state in (b"(dS'__defaults__'\n(I1\nts", b"(N(dS'__defaults__'\n(I1\ntst"):
                with pytest.raises(plain.RefusedPickleError):
                    plain.loads(name + state + b"b.")
        assert plain._tensor.__defaults__ is None

    def test_arrays_of_objects_are_refused(self) -> None:
        content = pickle.dumps(np.array([Hostile(os.system, "true")], dtype=object))
        with pytest.raises(plain.RefusedPickleError):
            plain.loads(content)

    def test_tensors_cannot_reach_over_their_storage(self) -> None:
        class Liar:
            def __reduce__(self) -> Any:
                whole = torch.arange(4.0)
                function, arguments = whole.__reduce_ex__(2)[:2]
                return function, (arguments[0], 0, (1000,), (1,), False, collections.OrderedDict())

        with pytest.raises(plain.RefusedPickleError, match="over the end"):
            plain.loads(pickle.dumps(Liar()))

    def test_damage_is_an_error_of_one_kind(self) -> None:
        whole = pickle.dumps({"a": np.arange(5), "b": torch.arange(5)})
        for end in range(len(whole) - 1):
            with pytest.raises(plain.RefusedPickleError):
                plain.loads(whole[:end])
        random = np.random.default_rng(0)
        for _ in range(300):  # any byte may be wrong: no exception of another kind, no crash
            content = bytearray(whole)
            content[random.integers(len(content))] = random.integers(256)
            with contextlib.suppress(plain.RefusedPickleError):
                plain.loads(bytes(content))


@pytest.fixture
def jet_file(tmp_path: Path) -> Path:
    path = tmp_path / "test.h5"
    tables.write(path, [random_jets(150, 12, 0), random_jets(150, 12, 1)], 2)
    return path


class TestJetFiles:
    def test_there_and_back_in_blocks(self, jet_file: Path) -> None:
        file = tables.JetFile(jet_file, 12)
        assert len(file) == 300
        found = list(file.blocks(10, 290, 64))
        momenta = np.concatenate([random_jets(150, 12, i)[0] for i in (0, 1)])[10:290]
        assert np.array_equal(np.concatenate([b[0] for b in found]), momenta.astype(np.float32))
        assert np.concatenate([b[2] for b in found]).tolist() == [bool(i % 2) for i in range(280)]
        assert next(iter(tables.JetFile(jet_file, 5).blocks()))[0].shape == (300, 5, 4)

    def test_layout_of_the_reference_set(self, jet_file: Path) -> None:
        # As pandas and PyTables write a table: a group of that name, blocks of columns, names as old pickles.
        with h5py.File(jet_file) as file:
            table = file["table"]["table"]
            assert table.dtype.names == ("index", "values_block_0", "values_block_1")
            names = pickle.loads(table.attrs["values_block_0_kind"])
            assert names[:5] == ["E_0", "PX_0", "PY_0", "PZ_0", "E_1"]
            assert names[-4:] == ["truthE", "truthPX", "truthPY", "truthPZ"]
            assert pickle.loads(table.attrs["values_block_1_kind"]) == ["ttv", "is_signal_new"]
            assert file["table"].attrs["pandas_type"] == b"frame_table"

    def test_other_orders_of_columns(self, tmp_path: Path) -> None:
        # A file of the same layout by another hand: labels as floats in the block of momenta, in another order.
        p, _, label = random_jets(20, 5)
        names = ["is_signal_new", *reversed(tables.columns(5))]
        rows = np.zeros(20, [("index", "<i8"), ("values_block_0", "<f4", (21,))])
        rows["values_block_0"] = np.concatenate([label[:, None], p.reshape(20, 20)[:, ::-1]], 1)
        path = tmp_path / "other.h5"
        with h5py.File(path, "w") as file:
            table = file.create_group("table").create_dataset("table", data=rows)
            table.attrs["values_block_0_kind"] = np.bytes_(pickle.dumps(names, 0))
        found, truth, marks = next(iter(tables.JetFile(path, 5).blocks()))
        assert np.array_equal(found, p.astype(np.float32))
        assert marks.tolist() == (label == 1).tolist()
        assert not truth.any()

    def test_missing_columns(self, jet_file: Path) -> None:
        with pytest.raises(ValueError, match=r"test.h5 lacks 4 columns of 53, first E_12"):
            tables.JetFile(jet_file, 13)

    def test_hostile_names_of_columns(self, jet_file: Path) -> None:
        with h5py.File(jet_file, "r+") as file:
            file["table"]["table"].attrs["values_block_0_kind"] = np.bytes_(pickle.dumps(Hostile(os.system, "true"), 0))
        with pytest.raises(ValueError, match=r"test.h5: the names of columns .* posix.system"):
            tables.JetFile(jet_file, 12)

    def test_truncated(self, jet_file: Path) -> None:
        whole = jet_file.read_bytes()
        for share in (0.0, 0.001, 0.3, 0.99):
            jet_file.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(ValueError, match=r"test.h5"):
                list(tables.JetFile(jet_file, 12).blocks())

    def test_corrupt_rows(self, jet_file: Path) -> None:
        with h5py.File(jet_file) as file:
            chunk = file["table"]["table"].id.get_chunk_info(1)
        content = bytearray(jet_file.read_bytes())
        content[chunk.byte_offset : chunk.byte_offset + 64] = bytes(64)
        jet_file.write_bytes(content)
        file = tables.JetFile(jet_file, 12)
        assert len(next(iter(file.blocks(0, 100, 50)))[0]) == 50
        with pytest.raises(ValueError, match=r"test.h5: rows 100 to 149 cannot be read") as told:
            list(file.blocks(0, 300, 50))
        assert "pip install" not in str(told.value)

    @pytest.mark.parametrize(("value", "what"), [(np.nan, "not finite"), (-1.0, "negative energy")])
    def test_wrong_numbers_are_told_with_their_row(self, jet_file: Path, value: float, what: str) -> None:
        with h5py.File(jet_file, "r+") as file:
            rows = file["table"]["table"][:]
            rows["values_block_0"][217, 0] = value
            file["table"]["table"][:] = rows
        with pytest.raises(ValueError, match=rf"test.h5: row 217 .*{what}"):
            list(tables.JetFile(jet_file, 12).blocks(size=100))

    def test_not_hdf5_and_not_there(self, tmp_path: Path) -> None:
        (tmp_path / "x.h5").write_text("no")
        with pytest.raises(ValueError, match=r"x.h5 is no whole HDF5 file"):
            tables.JetFile(tmp_path / "x.h5", 3)
        with pytest.raises(ValueError, match=r"y.h5 does not exist"):
            tables.JetFile(tmp_path / "y.h5", 3)
        with h5py.File(tmp_path / "z.h5", "w"):
            pass
        with pytest.raises(ValueError, match=r"z.h5 has no table"):
            tables.JetFile(tmp_path / "z.h5", 3)

    def test_a_write_that_fails_leaves_nothing(self, tmp_path: Path) -> None:
        def blocks() -> Any:
            yield random_jets(20)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            tables.write(tmp_path / "x.h5", blocks(), 0)
        assert list(tmp_path.iterdir()) == []


def command(*words: object) -> Any:
    return CliRunner().invoke(app, [str(w) for w in words])


@needs_pythia
class TestJets:
    def test_what_is_selected(self) -> None:
        for signal_jets in (True, False):
            p, truth = events.make(8, signal_jets, 1)
            total = p.sum(1)
            transverse = np.hypot(total[:, 1], total[:, 2])
            assert ((transverse >= 550) & (transverse <= 650)).all()
            assert (np.abs(np.arcsinh(total[:, 3] / transverse)) < 2).all()
            assert np.abs(p[..., 0] - np.linalg.norm(p[..., 1:], axis=2)).max() < 1e-9  # massless towers
            assert (np.diff(np.hypot(p[..., 1], p[..., 2]), axis=1) <= 0).all()
            mass = np.sqrt((truth[:, 0] ** 2 - (truth[:, 1:] ** 2).sum(1)).clip(0))
            assert (np.abs(mass - 173) < 25).all() if signal_jets else not truth.any()

    def test_energy_goes_through_the_calorimeter(self) -> None:
        p = random_jets(1, 40)[0][0, :-3]
        eta = np.arcsinh(p[:, 3] / np.hypot(p[:, 1], p[:, 2]).clip(1e-9))
        hits = events.towers(p)
        seen = p[(np.abs(eta) < events.CALORIMETER)]
        assert len(hits) <= len(seen)
        assert abs(hits[:, 0].sum() - seen[:, 0].sum()) < events.NOISE * np.cosh(events.CALORIMETER) * len(seen)

    @pytest.mark.slow
    def test_processes_leave_no_trace_and_a_kill_none_either(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr("minframe_lab.data.jets.make.JETS_IN_A_PART", 6)
        words = ["--train", 14, "--validation", 6, "--test", 6]
        for name, processes in (("one", 1), ("two", 2)):
            result = command("toptag", tmp_path / name, *words, "--processes", processes)
            assert result.exit_code == 0, result.output
        assert sorted(p.name for p in (tmp_path / "one").iterdir()) == [
            "settings.json",
            "test.h5",
            "train.h5",
            "validation.h5",
        ]
        one, two = (
            [
                next(iter(tables.JetFile(tmp_path / n / f"{s}.h5", 200).blocks()))
                for s in ("train", "validation", "test")
            ]
            for n in ("one", "two")
        )
        for mine, theirs in zip(one, two, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
        assert [int(b[2].sum()) for b in one] == [7, 3, 3]
        # Cut off in the middle of the first part of training: the parts that are there are kept, the rest is made.
        made = events.make
        calls: list[int] = []

        def killed(*arguments: Any) -> Any:
            calls.append(1)
            if len(calls) > 7:  # two a part: both small splits, one part of training and a half
                raise KeyboardInterrupt
            return made(*arguments)

        monkeypatch.setattr(events, "make", killed)
        command("toptag", tmp_path / "three", *words)
        assert not (tmp_path / "three" / "train.h5").exists()
        assert [p.name for p in sorted((tmp_path / "three" / "parts").iterdir())] == ["train-00000.h5"]
        monkeypatch.setattr(events, "make", made)
        assert command("toptag", tmp_path / "three", *words).exit_code == 0
        for split in ("train", "test"):
            mine, theirs = (
                next(iter(tables.JetFile(tmp_path / n / f"{split}.h5", 200).blocks())) for n in ("one", "three")
            )
            assert np.array_equal(mine[0], theirs[0])

    def test_other_settings_are_refused(self, tmp_path: Path) -> None:
        parts.claim(tmp_path / "x", Jets(10, 10, 10, 0).settings())
        result = command("toptag", tmp_path / "x", "--seed", 3)
        assert result.exit_code == 2
        assert "other settings (counts, seed)" in result.output
        (tmp_path / "y").mkdir()
        (tmp_path / "y" / "thesis.tex").write_text("")
        result = command("toptag", tmp_path / "y")
        assert result.exit_code == 2
        assert "not empty" in result.output


class TestSlabs:
    def test_splits_keep_apart_what_is_unseen(self) -> None:
        random = np.random.default_rng(0)
        hidden = {frozenset(pair) for pair in build.UNSEEN_PAIRS}
        for split in build.SPLITS:
            for _ in range(12):
                atoms, element = build.build(split, random)
                metals = frozenset(str(s) for s in atoms.symbols if s in build.METALS)
                assert (element == build.UNSEEN_ADSORBATE) == (split in ("adsorbate", "both"))
                if split in ("alloy", "both"):
                    assert any(metals <= pair for pair in hidden)
                else:
                    assert metals not in hidden

    @pytest.mark.slow
    def test_processes_leave_no_trace_and_a_kill_none_either(self, tmp_path: Path, monkeypatch: Any) -> None:
        words = ["is2re", "--train", "8", "--others", "1"]
        for name, processes in (("one", 1), ("two", 2)):
            assert command(*words, tmp_path / name, "--processes", processes).exit_code == 0
        running = subprocess.Popen(
            [sys.executable, "-m", "minframe_lab", "data", *words, str(tmp_path / "three")], start_new_session=True
        )
        while not (tmp_path / "three" / "both.npz").exists():
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        assert not (tmp_path / "three" / "train.npz").exists()
        assert command(*words, tmp_path / "three").exit_code == 0
        for split in build.SPLITS:
            found = [store.read(tmp_path / name / f"{split}.npz") for name in ("one", "two", "three")]
            for other in found[1:]:
                assert np.array_equal(found[0].energy, other.energy)
                assert np.array_equal(found[0].positions, other.positions)
        sample = found[0][0]
        assert sample.energy != 0
        assert np.array_equal(sample.relaxed[sample.fixed], sample.positions[sample.fixed])

    def test_files_that_are_not_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "train.npz"
        slabs = store.gather([_slab(5), _slab(7), _slab(4)])
        store.write(path, slabs)
        assert len(store.read(path)) == 3
        assert np.array_equal(store.read(path)[1].positions, _slab(7).positions)
        whole = path.read_bytes()
        for share in (0.0, 0.2, 0.9, 0.999):
            path.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(ValueError, match=r"train.npz"):
                store.read(path)
        content = bytearray(whole)
        content[len(content) // 3] ^= 255
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"train.npz"):
            store.read(path)
        wrong = store.gather([_slab(5), _slab(7), _slab(4)])
        wrong.positions[6] = np.nan
        store.write(path, wrong)
        with pytest.raises(ValueError, match=r"train.npz: sample 1 has a position that is not finite"):
            store.read(path)
        np.savez(path, start=np.array([0, 1]))
        with pytest.raises(ValueError, match=r"train.npz lacks an array"):
            store.read(path)
        np.savez(path, start=np.array([None, {}], dtype=object))
        with pytest.raises(ValueError, match=r"train.npz is no whole file"):
            store.read(path)

    @pytest.mark.slow
    def test_a_killed_process_is_told(self, tmp_path: Path) -> None:
        found = parts.divide(tmp_path, {"train": 4}, 1, ".npz")
        with pytest.raises(ValueError, match="a process was killed with 0 of 4 parts made"):
            parts.make_parts(found, _dies, 2, lambda _: None)
        assert not any(part.path.exists() for part in found)

    def test_forces_without_a_graph_of_their_own(self) -> None:
        grad = torch.autograd.grad

        def learned(task: str) -> None:
            assert task == "ef"
            x = torch.ones(2, requires_grad=True)
            (force,) = torch.autograd.grad(x.square().sum(), x, create_graph=True, retain_graph=True)
            assert not force.requires_grad
            raise RuntimeError("whatever happens")

        with pytest.raises(RuntimeError, match="whatever happens"):
            potentials._calculate(learned, task="efsm")
        assert torch.autograd.grad is grad

    def test_slabs_that_cost_more_are_small(self) -> None:
        harder = potentials.potential("chgnet")
        sizes = {len(build.build("train", np.random.default_rng(k), harder.sizes)[0]) for k in range(20)}
        assert max(sizes) <= 2 * 2 * build.LAYERS + build.MOST_ADSORBATES

    def test_energies_count_from_crystals_and_molecules(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from ase.calculators.emt import EMT
        from ase.data import chemical_symbols

        found = references.references(("Cu", "Pt"), EMT())
        assert list(found) == ["Cu", "Pt", "H", "C", "N", "O"]
        assert max(abs(found[metal]) for metal in ("Cu", "Pt")) < 0.01  # where this potential counts from itself
        assert 2 * found["H"] + found["O"] == pytest.approx(_emt_energy("H2O"), abs=1e-3)
        assert found["C"] + found["O"] == pytest.approx(_emt_energy("CO"), abs=1e-3)
        assert build.counted_from("emt") == {}
        free = build.relax("train", "emt", 3)
        symbols = [chemical_symbols[number] for number in free.numbers]
        monkeypatch.setattr(build, "counted_from", lambda _: dict.fromkeys(symbols, 2.0))
        assert build.relax("train", "emt", 3).energy == pytest.approx(free.energy - 2 * len(symbols))

    def test_unknown_potential(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="no potential"):
            slab_maker.make(slab_maker.Wanted(potential="dft"), tmp_path)


def _emt_energy(name: str) -> float:
    """Of a molecule at rest."""
    from ase.build import molecule
    from ase.calculators.emt import EMT
    from ase.optimize import BFGS

    atoms = molecule(name, calculator=EMT())
    assert BFGS(atoms, logfile=None).run(fmax=1e-3, steps=500)
    return float(atoms.get_potential_energy())


def _slab(n: int) -> build.Slab:
    random = np.random.default_rng(n)
    x = random.normal(size=(n, 3))
    return build.Slab(
        np.full(n, 29), x, np.eye(3) * 9, np.zeros(n, int), np.zeros(n, bool), float(n), x + 0.1, adsorbate=8
    )


def _dies(part: parts.Part) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
