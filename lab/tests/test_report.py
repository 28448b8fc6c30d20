"""The report: one page that needs nothing else, from whatever has been measured."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import minframe as mf
from minframe_lab import app as commands
from minframe_lab import bench, cases, peers, record, runs
from minframe_lab.cases import METHODS, OURS
from minframe_lab.palette import marker
from minframe_lab.reporting import Page, jumps, networks, page, solids, sources, svg
from minframe_lab.reporting.svg import SHAPES

VOID = {"meta", "br", "link", "img", "hr", "input"}


def run(*args: str | Path) -> Any:
    return CliRunner().invoke(commands.app, [str(a) for a in args])


def error_row(method: str, worst: float, passes: int, **changed: Any) -> dict[str, Any]:
    row = dict(paper=True, group="O(3)", data="Gaussian 100 x 3", cloud="Gaussian", backbone="MLP", dtype="float64")
    row |= dict(method=method, samples=20, worst=worst, median=worst, absolute=worst, bound=1e-11, passes=passes)
    row |= dict(frame_size=passes) | changed
    return row | {"passed": row["worst"] <= row["bound"]}


ERRORS = [
    error_row("plain", 1.5, 1),
    error_row("stochastic FA", 1.1, 1),
    error_row("FA", 2e-14, 8),
    error_row(OURS, 1e-15, 1),
    error_row("FA", 0.7, 8, cloud="cube", data="degenerate", paper=False, backbone="<rough>"),
    error_row(OURS, 3e-15, 1, cloud="cube", data="degenerate", paper=False, backbone="<rough>"),
    error_row(OURS, float("nan"), 1, cloud="Gaussian", dtype="float32", bound=1e-5) | {"passed": True, "worst": 2e-6},
]
COSTS = [
    dict(sweep=sweep, case=case, variable=variable, value=value, method=method, low=0.9 * ratio, ratio=ratio)
    | dict(high=1.1 * ratio, plain_seconds=1e-3, rounds=7, group="O(3)", shape=[1, 2, 3])
    for sweep, case, variable, value in (
        ("methods on one backbone", "O(3), GNN", "", None),
        ("growth with n", "n = 10", "n", 10.0),
        ("growth with n", "n = 1000", "n", 1000.0),
        ("growth with |Aut|", "path", "|Aut|", 2),
        ("growth with |Aut|", "complete", "|Aut|", 20922789888000),
    )
    for method, ratio in (("FA", 8.4), (OURS, 1.25))
]


def keep(folder: Path, command: str, rows: list[dict[str, Any]], complete: bool = True) -> None:
    kept = record.Record(command, {"quick": True, "seed": 0}, [folder / f"{command}.json"])
    kept.rows = rows
    kept.save(complete=complete)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    keep(tmp_path, "verify", ERRORS)
    keep(tmp_path, "bench", COSTS)
    return tmp_path


@pytest.fixture(autouse=True)
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is not measured again."""

    def never(*args: Any) -> Any:
        raise AssertionError("work was done")

    monkeypatch.setattr(runs, "verify_panel", never)
    monkeypatch.setattr(bench, "run_case", never)


class Checker(HTMLParser):
    """Collects what a page refers to, and that its tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)
        self.handle_attributes(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.handle_attributes(attrs)

    def handle_attributes(self, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "srcset", "data", "xlink:href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    return checker


def report(folder: Path, *args: str | Path) -> tuple[Any, str]:
    result = run("report", "--output", folder, "--results", folder / "results", *args)
    path = folder / "index.html"
    return result, path.read_text() if path.exists() else ""


def words(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text.split("</style>")[1]))


# The page


def test_the_page_needs_nothing_else(measured: Path) -> None:
    result, text = report(measured)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == f"wrote {measured / 'index.html'}"
    found = checked(text)
    assert found.links
    assert all(link.startswith("#") for link in found.links)
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))
    assert not {"script", "link", "iframe", "object", "embed", "img"} & set(found.tags)
    assert "http" not in text
    assert "@import" not in text
    assert set(re.findall(r"url\(([^)]*)\)", text)) <= {"#atom-C", "#atom-O", "#atom-H"}
    assert not list(measured.glob(".*"))


def test_the_page_fits_narrow_windows(measured: Path) -> None:
    text = report(measured)[1]
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "@media (max-width:" in text
    found = checked(text)
    assert found.tags["table"] == text.count('<div class="scroll"')  # wide tables scroll by themselves
    assert not re.search(r'<svg[^>]* width="[1-9]', text)


def test_numbers_come_from_the_data(measured: Path) -> None:
    seen = words(report(measured)[1])
    assert "Passed Minimal frame: all 3 rows within the bound" in seen
    assert "3 / 3 rows within the bound: minimal frame" in seen
    assert "1 / 2 rows within the bound: FA" in seen
    assert "0 / 1 rows within the bound: stochastic FA" in seen
    assert "8 : 1 : 1 forward passes on O(3): FA, stochastic FA, minimal frame" in seen
    assert "1.25 x time of the plain backbone: minimal frame (O(3), GNN)" in seen
    assert "3e-15 worst error of minimal frame in float64" in seen
    keep(measured, "verify", ERRORS[:4])
    seen = words(report(measured)[1])
    assert "1 / 1 rows within the bound: minimal frame" in seen
    assert "1e-15 worst error of minimal frame in float64" in seen


def test_markup_in_the_data_is_text(measured: Path) -> None:
    keep(measured, "verify", [error_row(OURS, 1e-15, 1, backbone="<script>x</script>", group="<b>O</b>")])
    text = report(measured)[1]
    assert "script" not in checked(text).tags
    assert "&lt;script&gt;" in text


def test_a_failure_is_said_first_and_is_exit_status_1(measured: Path) -> None:
    keep(measured, "verify", [*ERRORS, error_row(OURS, 0.5, 1, cloud="cube")])
    result, text = report(measured)
    assert result.exit_code == 1
    assert "1 of 4 rows above the bound" in result.stdout
    seen = words(text)
    assert "Failed Minimal frame: 1 of 4 rows above the bound, the worst 5.0e-01 on O(3), cube" in seen
    assert 'class="banner failed"' in text


def test_errors_that_are_no_numbers_are_drawn(measured: Path) -> None:
    keep(measured, "verify", [error_row("FA", float("nan"), 8), error_row(OURS, 0.0, 1)])
    result, text = report(measured)
    assert result.exit_code == 0
    assert "nan" in words(text)
    assert not re.search(r' (x|y|x1|x2|y1|y2|cx|cy|points|transform)="[^"]*nan', text)


# What is missing


def test_what_is_missing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def verify(kept: record.Record, *args: Any) -> None:
        assert "Not measured" in (tmp_path / "index.html").read_text()  # there is a page from the start
        seen.append("verify")
        kept.rows = ERRORS

    def measure(kept: record.Record, *args: Any) -> None:
        assert "all 3 rows within the bound" in (tmp_path / "index.html").read_text()
        seen.append("bench")
        kept.rows = COSTS

    monkeypatch.setattr(runs, "verify", verify)
    monkeypatch.setattr(runs, "bench", measure)
    result, text = report(tmp_path, "--quick", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert seen == ["verify", "bench"]
    assert record.load(tmp_path / "verify.json")["configuration"]["seed"] == 3
    assert "there is no complete" in result.stderr
    assert "Not measured yet" not in text
    assert report(tmp_path)[0].stderr == ""
    keep(tmp_path, "bench", COSTS[:2], complete=False)
    report(tmp_path)
    assert seen == ["verify", "bench", "bench"]


@pytest.mark.parametrize("at", ["verify", "bench"])
def test_an_interrupted_run_leaves_a_usable_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def work(rows: list[dict[str, Any]], cut: bool) -> Any:
        def measure(kept: record.Record, *args: Any) -> None:
            kept.rows = rows
            if cut:
                raise KeyboardInterrupt

        return measure

    monkeypatch.setattr(runs, "verify", work(ERRORS, at == "verify"))
    monkeypatch.setattr(runs, "bench", work(COSTS[:2], at == "bench"))
    result, text = report(tmp_path)
    assert result.exit_code == 130
    assert "interrupted after" in result.stderr
    assert result.stdout.splitlines()[-1] == f"wrote {tmp_path / 'index.html'}"
    checked(text)
    seen = words(text)
    if at == "verify":
        assert "Passed so far Minimal frame: all 3 rows within the bound; the run was cut short" in seen
        assert "Not measured yet: run minframe bench" in seen
    assert "cut short" in seen


def test_nothing_at_all_makes_a_page_too(tmp_path: Path) -> None:
    found = Page(tmp_path, tmp_path / "none")
    found.write()
    seen = words(found.path.read_text())
    assert "Not measured run minframe verify" in seen.replace("Run ", "run ")
    assert "No experiments have left results" in seen
    assert 'pip install -e "lab[peers]"' in seen.replace("&quot;", '"')
    assert found.missing() == ["verify", "bench"]


def test_results_of_experiments(measured: Path) -> None:
    for seed, method in ((0, "minimal"), (1, "minimal"), (0, "fa")):
        folder = measured / "results" / f"nbody-{method}-{seed}"
        folder.mkdir(parents=True)
        content = {
            "experiment": "nbody",
            "configuration": {"method": method, "epochs": 10, "seed": seed},
            "seed": seed,
            "commit": "0123456789abcdef+",
            "test": {"mse": 0.00567 + seed, "samples": None},
            "history": [{"epoch": i, "mse": 1 / (i + 1)} for i in range(5)],
            "hardware": {"cores": 2},
        }
        (folder / "metrics.json").write_text(json.dumps(content))
    (measured / "results" / "broken.json").write_text("{")
    (measured / "results" / "list.json").write_text('[{"experiment": "<other>", "test": {"mse": NaN}}, 3]')
    result, text = report(measured)
    assert result.exit_code == 0, result.output
    seen = words(text)
    checked(text)
    assert "nbody setting seed commit test mse course" in seen
    assert "method fa 0 01234567 0.00567" in seen
    assert "method minimal 1 01234567 1.006" in seen
    assert "broken.json could not be read" in seen
    assert "&lt;other&gt;" in seen
    assert "course of mse" in text


def test_peers_in_the_page(measured: Path) -> None:
    rows = [
        peers.Row("minframe: minimal frame", "minframe", True, True, "0.1.0").as_dict()
        | dict(rotation_error=1e-7, reflection_error=1e-7, equal_error=1e-7, low=1.1, ratio=1.2, high=1.3),
        peers.Row("e3nn: layers", "e3nn", False, False, install="pip install e3nn").as_dict(),
        peers.Row("lloca: frames", "lloca", False, True, "2.0", problem="does not work here: <x>").as_dict(),
    ]
    keep(measured, "peers", rows)
    seen = words(report(measured)[1])
    assert "minframe: minimal frame 0.1.0 1e-07 ✓ 1e-07 ✓ 1e-07 ✓ 1.20 [1.10,1.30]" in seen
    assert "e3nn: layers: not installed; pip install e3nn" in seen
    assert "lloca: frames: does not work here: &lt;x&gt;" in seen


# Bad arguments


def one_line(result: Any, said: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("minframe: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--output", "/dev/null/x"], "cannot write /dev/null/x/index.html"),
        (["--results", "/dev/null"], "/dev/null is no folder"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--fast"], "No such option: --fast"),
    ],
)
def test_bad_arguments_get_one_line_and_exit_status_2(
    args: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one_line(run("report", *args), said)


def test_files_that_cannot_be_read_get_one_line(measured: Path) -> None:
    (measured / "verify.json").write_text("{")
    one_line(report(measured)[0], "verify.json cannot be read")
    (measured / "verify.json").write_text("{}")
    one_line(report(measured)[0], "verify.json has no 'rows'; delete it")
    (measured / "verify.json").write_text('{"rows": [{"group": 1}]}')
    one_line(report(measured)[0], "has rows without 'paper'")
    (measured / "verify.json").write_text("[]")
    one_line(report(measured)[0], "verify.json cannot be read")


def test_a_page_that_is_a_folder(measured: Path) -> None:
    (measured / "index.html").mkdir()
    one_line(run("report", "--output", measured), "index.html: it is a folder")


# The pictures


@pytest.fixture(scope="module")
def pictures() -> str:
    return page.pictures()


def test_pictures_say_what_they_show(pictures: str) -> None:
    found = checked(pictures)
    assert found.tags["figure"] == found.tags["figcaption"] == 5
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", pictures, re.DOTALL)
    for caption in captions[:2]:
        spread = re.search(r"differ by (\S+) of the", caption)
        assert spread is not None
        assert float(spread.group(1)) < 1e-13
    assert "differ in 0." in captions[2]
    assert "120 symmetries" in captions[2]
    assert "jumps 5 times" in captions[3]
    changes = re.search(r"a step of \S+ is (\S+), and (\S+) over.* it is (\S+) and (\S+):", captions[4], re.DOTALL)
    assert changes is not None
    hard, hard_finer, smooth, smooth_finer = map(float, changes.groups())
    assert hard_finer > 0.8 * hard > 5 * smooth
    assert smooth_finer < smooth / 6
    assert pictures == page.pictures()


def test_the_pose_jumps_where_the_margin_is_small() -> None:
    clouds = jumps.path_between_clouds()
    poses, frame = mf.canonicalize(clouds, mf.O(3))
    found = jumps.find_jumps(poses)
    assert found
    assert all(float(frame.margin[i : i + 2].min()) < 0.02 * float(frame.margin.max()) for i in found)


def test_boosts_are_in_the_group() -> None:
    group = mf.OrthochronousLorentz()
    assert all(bool(group.contains(solids.boost(r))) for r in solids.RAPIDITIES)


def test_without_a_labelling_library_the_graph_is_left_out(monkeypatch: pytest.MonkeyPatch, measured: Path) -> None:
    monkeypatch.setattr(mf.S, "labelling", property(lambda self: None))
    assert "pip install igraph" in networks.graph_figure()
    assert all("S()" not in str(panel.group) for panel in cases.panels(True))
    monkeypatch.setattr(bench, "cases", lambda quick: [])
    result = run("bench", "--quick", "--output", measured)
    assert result.stderr == "minframe: permutations are left out, for they need igraph: pip install igraph\n"


# Pieces


def test_scales_and_words() -> None:
    assert svg.number(1.0) == "1"
    assert svg.number(-0.126) == "-0.13"
    assert sources.one_line({"quick": True, "seed": 0, "group": None, "dtype": ["float64", "float32"]}) == (
        "quick, seed 0, dtype float64 float32"
    )
    assert sources.leaves({"a": 1, "b": {"c": 2.0, "d": {"e": 3}}, "f": True, "g": "x"}) == {"a": 1, "b.c": 2.0}


def test_every_marker_has_a_shape() -> None:
    assert {marker(method) for method in METHODS} <= set(SHAPES)
