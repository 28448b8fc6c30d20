"""The command line: tables, files, figures, exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import minframe as mf
from minframe_lab import app as commands
from minframe_lab import bench, cases, graphs, peers, plots, record, runs, table, timing, verify
from minframe_lab.cases import OURS, SMOOTH

LITTLE = ["verify", "--quick", "--dtype", "float64"]


def run(*args: str | Path) -> Any:
    return CliRunner().invoke(commands.app, [str(a) for a in args])


@pytest.fixture(scope="module")
def spheres(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """One run for O(3) and O(5)."""
    folder = tmp_path_factory.mktemp("verify")
    return run(
        *LITTLE, "--group", "O(3)", "--group", "o(5)", "--output", folder, "--json", folder / "more" / "x.json"
    ), folder


def rows_of(folder: Path, name: str = "verify.json") -> list[dict[str, Any]]:
    return record.load(folder / name)["rows"]


# minframe verify


def test_ours_passes_everywhere_and_the_others_fail_where_they_must(spheres: tuple[Any, Path]) -> None:
    result, folder = spheres
    assert result.exit_code == 0, result.output
    rows = rows_of(folder)
    assert {row["group"] for row in rows} == {"O(3)", "O(5)"}
    assert all(row["passed"] for row in rows if row["method"] in (OURS, SMOOTH))
    assert all(row["passed"] == (row["worst"] <= row["bound"]) for row in rows)

    def worst(method: str, cloud: str) -> float:
        return max(row["worst"] for row in rows if (row["method"], row["cloud"]) == (method, cloud))

    for cloud in ("3 equal singular values", "repeated singular values", "cube"):
        assert worst("FA", cloud) > 0.1
        assert worst("perturbed FA", cloud) < 1e-11
    assert worst("FA", "Gaussian") < 1e-11
    for cloud in {row["cloud"] for row in rows} - {"all at the origin"}:
        assert worst("stochastic FA", cloud) > 0.1
        assert worst("plain", cloud) > 0.1


def test_forward_passes_are_eight_to_one_to_one(spheres: tuple[Any, Path]) -> None:
    result, folder = spheres
    rows = rows_of(folder)
    passes = {(row["group"], row["method"]): row["passes"] for row in rows}
    assert [passes["O(3)", m] for m in ("FA", "stochastic FA", OURS)] == [8, 1, 1]
    assert [passes["O(5)", m] for m in ("FA", "stochastic FA", OURS)] == [32, 1, 1]
    assert "8:1:1" in result.stdout
    assert max(row["frame_size"] for row in rows if row["method"] == OURS) == float("inf")
    poses = {row["cloud"]: row["passes"] for row in rows if (row["method"], row["group"]) == (SMOOTH, "O(3)")}
    assert 1 <= poses["Gaussian"] <= 4
    assert 48 <= poses["cube"] <= 4 * 48  # in proportion to its symmetries


def test_every_method_meets_the_same_rows(spheres: tuple[Any, Path]) -> None:
    rows = rows_of(spheres[1])
    seen = {
        method: [
            (r["group"], r["data"], r["cloud"], r["backbone"], r["dtype"], r["samples"])
            for r in rows
            if r["method"] == method
        ]
        for method in cases.METHODS
    }
    assert all(found == seen[OURS] for found in seen.values())
    assert {row["backbone"] for row in rows if row["paper"]} == {"GIN", "GCN", "MLP", "MLP+BN", "ReLU", "sine"}


def test_files(spheres: tuple[Any, Path]) -> None:
    result, folder = spheres
    content = record.load(folder / "verify.json")
    assert content["complete"] is True
    assert content["configuration"] == {"group": ["O(3)", "o(5)"], "dtype": ["float64"], "quick": True, "seed": 0}
    assert content["minframe"] == mf.__version__
    assert {"processor", "cores", "threads"} <= set(content["hardware"])
    text = (folder / "more" / "x.json").read_text()
    assert json.loads(text)["rows"] == json.loads((folder / "verify.json").read_text())["rows"]
    assert "Infinity" not in text
    assert "NaN" not in text
    for name in ("verify-paper-float64.png", "verify-degenerate-float64.png"):
        assert (folder / name).stat().st_size > 10_000
        assert f"wrote {folder / name}" in result.stdout
    assert not list(folder.glob(".*"))


@pytest.mark.slow
def test_two_runs_with_one_seed_print_the_same_table(tmp_path: Path) -> None:
    args = [*LITTLE, "--group", "SE(3)", "--output", tmp_path]
    first, second = run(*args), run(*args)
    assert first.exit_code == second.exit_code == 0
    assert first.stdout == second.stdout


@pytest.mark.slow
def test_another_seed_gives_other_figures() -> None:
    panel = next(panel for panel in cases.panels(True) if str(panel.group) == "SU(3)")
    one, two, again = ([row.worst for row in verify.verify_panel(panel, "float64", seed)[1]] for seed in (0, 1, 0))
    assert one == again
    assert all(a != b for a, b in zip(one, two, strict=True))


@pytest.mark.slow
def test_a_filter_changes_no_figure(spheres: tuple[Any, Path], tmp_path: Path) -> None:
    assert run(*LITTLE, "--group", "O(5)", "--output", tmp_path).exit_code == 0
    assert rows_of(tmp_path) == [row for row in rows_of(spheres[1]) if row["group"] == "O(5)"]


def test_permutations_and_float32(tmp_path: Path) -> None:
    result = run("verify", "--quick", "--dtype", "float32", "--group", "S()*O(3)", "--full", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert "Gaussian, GIN" in result.stdout
    assert {row["bound"] for row in rows_of(tmp_path)} == {1e-5}


def test_ours_beyond_the_bound_is_exit_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "bound", lambda group, dtype: 1e-20)
    result = run(*LITTLE, "--group", "U(3)", "--output", tmp_path)
    assert result.exit_code == 1
    assert "rows above the bound, the worst" in result.stdout


def test_an_interrupted_run_leaves_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = verify.verify_panel
    seen: list[str] = []

    def stop(panel: cases.Panel, *args: Any) -> Any:
        seen.append(panel.name)
        count, rows = measured(panel, *args)
        if len(seen) == 1:
            return count, rows

        def cut() -> Any:
            yield next(rows)
            raise KeyboardInterrupt

        return count, cut()

    monkeypatch.setattr(runs, "verify_panel", stop)
    result = run(*LITTLE, "--group", "SU(3)", "--output", tmp_path)
    assert result.exit_code == 130
    content = record.load(tmp_path / "verify.json")
    assert content["complete"] is False
    assert len(content["rows"]) == 25
    assert "interrupted after 25 measurements" in result.stderr
    assert "SU(3)" in result.stdout
    assert (tmp_path / "verify-paper-float64.png").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["verify", "--group", "X(3)"], "no group 'X(3)': use one of O(3)"),
        (["verify", "--dtype", "float16"], "'float16' is none of float64, float32 and both"),
        (["verify", "--seed", "-1"], "Invalid value for '--seed'"),
        (["verify", "--seed", "x"], "Invalid value for '--seed'"),
        (["verify", "--output", "/dev/null/x"], "cannot write /dev/null/x/verify.json"),
        (["verify", "--json", "/dev/null/x"], "cannot write /dev/null/x"),
        (["verify", "--json", "."], "cannot write .: it is a folder"),
        (["bench", "--output", "/dev/null/x"], "cannot write /dev/null/x/bench.json"),
        (["bench", "--threads", "0"], "Invalid value for '--threads'"),
        (["verify", "--sed", "1"], "No such option: --sed"),
        (["prove"], "No such command 'prove'"),
    ],
)
def test_bad_arguments_get_one_line_and_exit_status_2(
    args: list[str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*args: Any) -> Any:
        raise AssertionError("work was done")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "verify_panel", never)
    monkeypatch.setattr(bench, "run_case", never)
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("minframe: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_help_and_version() -> None:
    assert "verify" in run().stdout
    assert run("--version").stdout == f"minframe {mf.__version__}\n"
    assert "--quick" in run("verify", "--help").stdout


@pytest.mark.slow
def test_the_command_writes_nothing_to_standard_error(tmp_path: Path) -> None:
    python = [sys.executable, "-W", "error", "-m", "minframe_lab"]
    command = [*python, *LITTLE, "--group", "Translation", "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "minimal frame: all 19 rows within the bound" in done.stdout


def test_narrow_terminals_leave_columns_out(spheres: tuple[Any, Path], capsys: pytest.CaptureFixture[str]) -> None:
    table.error_tables(table.Console(width=80, highlight=False), rows_of(spheres[1]))
    printed = capsys.readouterr().out
    assert "perturbed" not in printed.split("All rows")[0]
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed


# minframe bench


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        few = [
            case
            for case in bench.cases(True)
            if case.name in ("O(3), GNN, 100 x 5 x 3", "d = 2", "d = 3", "path, 2", "complete, 20922789888000")
        ]
        patch.setattr(bench, "cases", lambda quick: few)
        return run("bench", "--quick", "--output", folder), folder


def test_costs(costs: tuple[Any, Path]) -> None:
    result, folder = costs
    assert result.exit_code == 0, result.output
    rows = rows_of(folder, "bench.json")
    assert all(0 < row["low"] <= row["ratio"] <= row["high"] for row in rows)
    assert {row["method"] for row in rows if "GNN" in row["case"]} == set(cases.EVERY) - {"plain"}
    assert {row["method"] for row in rows if row["variable"] == "|Aut|"} == {"Haar x8", "FA", OURS}
    assert "growth with the dimension d" in result.stdout
    assert "smooth frame, sharpness 32" in result.stdout
    assert (folder / "bench.png").exists()


def test_an_interrupted_bench_leaves_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(case: bench.Case, *args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run_case", stop)
    result = run("bench", "--quick", "--output", tmp_path)
    assert result.exit_code == 130
    assert record.load(tmp_path / "bench.json")["rows"] == []


def test_ratios_take_turns() -> None:
    calls: list[str] = []
    found, plain = timing.ratios(
        {name: (lambda name=name: calls.append(name)) for name in "abc"}, "a", rounds=3, slot=0.0
    )  # type: ignore[misc]
    assert calls[6:] == list("abcbcacab")
    assert set(found) == {"b", "c"}
    assert plain > 0


# minframe peers


def test_peers_that_are_not_installed_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = peers.run_peers

    def broken(backbone: Any) -> Any:
        raise RuntimeError("no such thing")

    others = (peers.Peer("no-such-package", "none: such", broken), peers.Peer("torch", "torch: broken", broken))
    monkeypatch.setattr(peers, "PEERS", (peers.PEERS[0], *others))
    monkeypatch.setattr(peers, "run_peers", lambda *args: measured(*args, shape=(16, 10, 3)))
    result = run("peers", "--quick", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert "none: such: not installed; pip install no-such-package" in result.stdout
    assert "torch: broken: does not work here: RuntimeError: no such thing" in result.stdout
    rows = {row["method"]: row for row in rows_of(tmp_path, "peers.json")}
    ours = rows["minframe: minimal frame"]
    assert max(ours[key] for key in ("rotation_error", "reflection_error", "equal_error")) < ours["bound"]
    assert 0 < ours["low"] <= ours["ratio"] <= ours["high"]
    assert rows["none: such"]["ratio"] is None


@pytest.mark.filterwarnings("ignore")  # of their code
@pytest.mark.parametrize(
    "peer", [peer for peer in peers.PEERS if "compiled" not in peer.method], ids=lambda peer: peer.method
)
def test_peers_are_equivariant_to_rotations(peer: peers.Peer) -> None:
    import torch

    if peers.installed_version(peer.package) is None:
        pytest.skip(f"{peer.package} is not installed")
    if "stochastic" in peer.method:
        return
    with torch.no_grad():
        assert peers.errors(peer.make(bench.mlp(3)), torch.randn(8, 20, 3), 0)["rotation_error"] < 1e-3


# What they are made of


def test_figures_can_be_drawn_again_from_files(spheres: tuple[Any, Path], costs: tuple[Any, Path]) -> None:
    rows = rows_of(spheres[1])
    assert isinstance(plots.error_figure(rows, "float64"), Figure)
    assert isinstance(plots.degenerate_figure(rows, "float64"), Figure)
    assert isinstance(plots.cost_figure(rows_of(costs[1], "bench.json")), Figure)


def test_numbers_that_json_does_not_know(tmp_path: Path) -> None:
    kept = record.Record("verify", {}, [tmp_path / "a.json"])
    kept.rows = [{"worst": float("nan"), "frame_size": float("inf"), "passes": 1}]
    kept.save()
    row = record.load(tmp_path / "a.json")["rows"][0]
    assert row["worst"] != row["worst"]
    assert row["frame_size"] == float("inf")


def test_graphs_have_the_symmetries_that_they_claim() -> None:
    import torch

    for order, graph in graphs.graphs_by_order(torch.Generator().manual_seed(0)).values():
        assert mf.S().frame(graph, "edge").size == order
    sizes = {name: mf.S().frame(graph, "edge").size for name, graph in graphs.symmetric_graphs().items()}
    assert sizes == {
        "path": 2,
        "ring": 24,
        "two triangles": 72,
        "Petersen": 120,
        "hypercube": 384,
        "Shrikhande": 192,
        "rook's graph": 1152,
        "complete": 40320,
        "no edges": 40320,
    }
