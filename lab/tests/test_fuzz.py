"""The fuzzer finds what is broken, passes what is not, and says the same twice."""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.frame import components, invariant, point_set, poses
from minframe.frame.components import Components
from minframe.frame.point_set import PointSet
from minframe.frame.points import Ordering
from minframe.linalg import eigen, loops, native, qr
from minframe.linalg.rows import PivotedQR, Rows

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import fuzz
from fuzzing import share
from fuzzing.cases import CASES, FRAMES, serves
from fuzzing.condition import identity_loss, margin_unit, rounding_loss
from fuzzing.judge import judge
from fuzzing.margins import bisect, margins
from fuzzing.report import Report
from fuzzing.structures import GRAPHS, STRUCTURES
from fuzzing.trial import Key, Trial, distance

GENERIC = Key(3, "generic", 0, "O(3)", "minimal", "float64", "dense", 40)


class Answers(Trial):
    """A trial whose library is a function from clouds to canonical poses: the frame methods to catch."""

    def pose(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _outputs(self, x: Tensor, wild: bool) -> dict[str, Tensor]:
        pose = self.pose(x)
        return {"inv": pose.abs().mean(1), "span": x.clone(), "id": x.clone(), "vec": x.clone()}

    def frame(self, x: Tensor) -> mf.Frame:
        return mf.O(3).frame(x)


class Unmoved(Answers):
    def pose(self, x: Tensor) -> Tensor:
        return x


class Rational(Answers):
    """Invariant, but for a bar that small integers hit: the first row is long if its square is at least 9."""

    def pose(self, x: Tensor) -> Tensor:
        return (x.square().sum(-1) - 9 >= 0).to(x.dtype).unsqueeze(-1) + 1


class Exact(Answers):
    def pose(self, x: Tensor) -> Tensor:
        return x.norm(dim=-1, keepdim=True)


class Garbled(Exact):
    """The identity does not come back."""

    def _outputs(self, x: Tensor, wild: bool) -> dict[str, Tensor]:
        return super()._outputs(x, wild) | {"id": 1.001 * x}


class Spoilt(Exact):
    def pose(self, x: Tensor) -> Tensor:
        return torch.where(torch.arange(len(x))[:, None, None] == 7, torch.nan, super().pose(x))


class Broken(Exact):
    def pose(self, x: Tensor) -> Tensor:
        raise RuntimeError("singular matrix")


def test_exact_answers_pass() -> None:
    verdict = judge(Exact(GENERIC))
    assert not verdict.violations
    assert not verdict.crashes
    assert 0 < verdict.error < 1e-13


@pytest.mark.parametrize(("broken", "what"), [(Unmoved, "moved: inv"), (Garbled, "identity"), (Spoilt, "NaN")])
def test_broken_answers_are_caught(broken: type[Answers], what: str) -> None:
    verdict = judge(broken(GENERIC))
    assert what in verdict.what
    assert verdict.violations == (1 if broken is Spoilt else 40)


def test_crashes_are_caught() -> None:
    assert judge(Broken(GENERIC)).crashes == ["RuntimeError: singular matrix"]


def test_decisions_on_a_rational_number_are_too_many() -> None:
    """Each of them is explained by a unit of rounding; that there are so many is not."""
    report = Report()
    for seed in range(6):  # in units of 1, 1/2 or 1/10; the last never hit the bar
        key = replace(GENERIC, structure="integers", level=4, size=400, seed=seed)
        report.add(key, judge(Rational(key)))
    assert next(iter(report.rows.values())).crowded == [4]
    assert report.failed
    assert "on the edge" in report.text()


def reported(structure: str, level: int, group: str, frames: str = "minimal", size: int = 12, seeds: int = 3) -> Report:
    report = Report()
    for seed in range(seeds):
        key = Key(seed, structure, level, group, frames, "float64", "dense", size)
        report.add(key, judge(Trial(key)))
    return report


def test_a_bar_at_a_rational_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = functools.partial(reported, "integers", 2, "O(3)", size=300, seeds=4)
    assert not run().failed
    for module in (native, qr):
        monkeypatch.setattr(module, "FRACTION", 0.5)
    assert run().failed


def test_ties_without_room_for_rounding_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding decides between them, and explains each; but not that there are so many."""
    run = functools.partial(reported, "cube", 15, "O(3)", "unordered")
    assert not run().failed
    monkeypatch.setattr(qr, "TIE_TOLERANCES", 1e-300)
    monkeypatch.setattr(qr, "MIN_TIE_WIDTH", 1e-300)
    assert run().failed


def test_a_tolerance_of_its_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poses are compared by less than what invariants call equal."""
    run = functools.partial(reported, "methane", 15, "S() * E(3)", size=8, seeds=2)
    assert not run().failed
    monkeypatch.setattr(poses, "SAME_POSE_UNITS", 1e-6)
    assert run().failed


def test_an_average_over_what_is_not_equal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = functools.partial(reported, "methane", 10, "S() * E(3)", size=8, seeds=2)
    assert not run().failed
    monkeypatch.setattr(point_set, "EQUAL_UNITS", (1000.0, 2.5))
    assert run().failed


@pytest.mark.parametrize(("structure", "level", "size"), [("light-particle", 3, 40), ("one-row", 0, 200)])
def test_axes_of_rounding_are_found(structure: str, level: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank of particles at rest is not decided: each axis that rounding makes explains itself, but not so many.

    Of single rows they are one in twenty, and how many depends on the processor.
    """
    run = functools.partial(reported, structure, level, "Lorentz(4)", size=size, seeds=2)
    assert not run().failed

    def none(found: Components, chosen: PivotedQR, axes: slice, time: int) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(chosen.peaks), torch.zeros_like(chosen.peaks)

    monkeypatch.setattr(Components, "floors", none)
    assert run().failed


@pytest.mark.parametrize("group", ["O(2, 2)", "Lorentz(4)"])
def test_a_bar_for_thin_axes_that_is_too_high_is_found(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = functools.partial(reported, "specks", 8, group, size=40, seeds=2)
    assert not run().failed
    for module in (eigen, components):
        monkeypatch.setattr(module, "MIN_THICKNESS", 1e-7)
    assert run().failed


def test_a_wrong_sign_at_the_last_rank_but_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = functools.partial(reported, "few-rows", 0, "SO(3)")
    assert not run().failed
    decompose = loops._decomposed

    def flipped(by: loops.Loops, rows: Rows, special: bool) -> PivotedQR:
        found = decompose(by, rows, special)
        short = found.determined.sum(-1) == found.determined.shape[-1] - 1
        found.basis = found.basis.clone()
        found.basis[short & special, :, -1] *= -1
        return found

    monkeypatch.setattr(loops, "_decomposed", flipped)
    assert run().failed


def test_a_choice_that_depends_on_the_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The symmetry of a cloud is left out, so that the first of its canonical orders is taken."""
    run = functools.partial(reported, "ring", 99, "S() * SO(2)", size=6, seeds=1)
    assert not run().failed
    order = invariant.order_points

    def first(points: PointSet, backend: str) -> Ordering:
        found = order(points, backend)
        return replace(found, generators=found.generators[:0], owner=found.owner[:0])

    monkeypatch.setattr(invariant, "order_points", first)
    assert run().failed


def test_a_symmetry_that_is_missed_with_a_mask_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties have no margin; that alone excuses nothing."""
    key = Key(85248805, "shell", 9, "S() * Aff(3)", "minimal", "float64", "mask", 32)
    assert not judge(Trial(key)).violations
    monkeypatch.setattr(invariant, "with_matrices", lambda poses, chains, means: [])
    verdict, report = judge(Trial(key)), Report()
    report.add(key, verdict)
    assert verdict.violations + verdict.edges > 10
    assert report.failed


def test_frames_that_promise_nothing_are_caught() -> None:
    """Drawn anew in each call, they answer a unit of rounding with a jump too: all are on the edge."""
    verdict, report = judge(Trial(GENERIC, method=mf.frames.Haar(samples=1, seed=0))), Report()
    report.add(GENERIC, verdict)
    assert verdict.edges + verdict.violations == 40
    assert report.failed


def test_frames_of_rows_in_order_fail_when_reordered() -> None:
    """What is asked of frames without row order, of frames that depend on it."""
    trial = Trial(replace(GENERIC, frames="unordered"))
    trial.chosen = replace(trial.chosen, group=mf.O(3), frames=mf.frames.Minimal())
    assert judge(trial).violations > 10


def test_steep_answers_are_explained() -> None:
    """A near-planar cloud: its thin axis is as exact as the rounding of the input allows."""
    key = replace(GENERIC, structure="near-deficient", level=7, group="SO(3)")
    verdicts = [judge(Trial(replace(key, seed=seed))) for seed in range(6)]  # of several dimensions
    assert not any(verdict.violations for verdict in verdicts)
    assert any(verdict.conditioned > 20 for verdict in verdicts)


def test_jumps_are_bisected() -> None:
    """The answer jumps where the first coordinate of the first row passes 0."""

    class Jump(Exact):
        def pose(self, x: Tensor) -> Tensor:
            return super().pose(x) + (x[:, :1, :1] > 0)

    trial = Jump(GENERIC)
    start, end = trial.x[:20].clone(), trial.x[20:].clone()
    start[:, 0, 0], end[:, 0, 0] = -1.0, 2.0
    low, high, size = bisect(trial, start, end)
    assert (size > 0.05).all()
    assert low[:, 0, 0].abs().max() < 1e-14
    assert high[:, 0, 0].abs().max() < 1e-14
    assert bisect(Exact(GENERIC), start, end)[2].max() < 1e-13


@pytest.mark.parametrize("layout", ["dense", "mask", "batch"])
def test_layouts_give_the_same_answers(layout: str) -> None:
    dense, other = (Trial(replace(GENERIC, group="E(3)", layout=k)) for k in ("dense", layout))
    a, b = dense.answer(dense.x).outputs, other.answer(other.x).outputs
    for name in a:
        assert torch.allclose(a[name], b[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [*STRUCTURES, *GRAPHS])
def test_structures_are_what_they_are_drawn_as(name: str) -> None:
    """Finite, of the right shape, the same twice; every structure fits some group."""
    structure = (STRUCTURES | GRAPHS)[name]
    spaces = {case.space for case in CASES.values() if structure.fits(case.space)}
    assert spaces
    for space in spaces:
        for level in structure.levels:
            x, y = (structure.draw(space, 4, level, torch.Generator().manual_seed(5)) for _ in range(2))
            assert x.isfinite().all()
            assert x.numel()
            assert torch.equal(x, y)
            assert name in GRAPHS or (x.shape[-1] == space.d and x.dtype == space.dtype)


@pytest.mark.slow
def test_every_group_answers() -> None:
    """Every group and way of choosing frames: generic clouds, and a structure between the named families in turn."""
    between = ["duplicated", "specks", "mirrored", "near-deficient", "shell", "integers", "few-rows", "mixed-scales"]
    turn = 0
    for name, case in CASES.items():
        for frames in FRAMES:
            if not serves(name, frames):
                continue
            structures = ["jet"] if frames == "smooth" and case.space.q else ["generic"]
            if case.compact:
                fit = [s for s in between if STRUCTURES[s].fits(case.space)]
                structures.append(fit[turn % len(fit)])
            for structure in structures:
                if not STRUCTURES[structure].fits(case.space):
                    continue
                levels = STRUCTURES[structure].levels
                level = 0 if structure == "jet" else levels[turn % len(levels)]
                dtype = ("float64", "float32")[turn % 2]
                key = replace(GENERIC, group=name, frames=frames, size=4, structure=structure, level=level, dtype=dtype)
                verdict = judge(Trial(key))
                assert not verdict.violations, (str(key), verdict)
                assert not verdict.crashes, (str(key), verdict)
                turn += 1


def test_keys_are_read_back() -> None:
    key = replace(GENERIC, group="S() * GL(2, complex=True)")
    assert Key.parse(str(key)) == key


def test_short_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Structures that the library has to be right on, for a few seconds."""
    path = tmp_path / "rows.json"
    exact = ["generic", "few-rows", "shell", "equal-singular-values", "mirrored"]
    arguments = [f"--structure={name}" for name in exact] + ["--minutes=0.1", "--seed=1", f"--json={path}"]
    groups = ["O(?)", "SO(?)", "E(?)", "SE(?)", "Translation(?)", "U(?)"]
    status = fuzz.main([*arguments, *(f"--group={name}" for name in groups), "--frames=minimal", "--all"])
    shown = capsys.readouterr().out
    assert status == 0, shown
    data = json.loads(path.read_text())
    assert data["clouds"] > 1000
    assert set(data["by structure"]) <= set(exact)
    assert set(data["by kind of group"]) <= {"orthogonal", "with translations", "unitary"}
    assert data["failed"] == []
    assert data["configuration"]["seed"] == data["seed"] == 1
    assert data["hardware"]["cores"]


@pytest.mark.slow
def test_processes_share_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "both.json"
    options = ["--structure=generic", "--structure=integers", "--group=O(3)", "--frames=minimal", f"--json={path}"]
    assert fuzz.main(["--minutes=0.05", "--seed=2", "--processes=2", *options]) == 0
    assert json.loads(path.read_text())["processes lost"] == []
    assert json.loads(path.read_text())["clouds"] > 100
    assert "seed 2" in capsys.readouterr().out


def test_reports_are_merged() -> None:
    parts = [Report(), Report()]
    for seed, part in enumerate(parts):
        part.add(replace(GENERIC, seed=seed), judge((Exact, Unmoved)[seed](replace(GENERIC, seed=seed))))
    parts[0].merge(parts[1])
    (row,) = parts[0].rows.values()
    assert (row.clouds, row.violations) == (80, 40)
    assert row.replay.startswith("1:")
    assert parts[0].failed
    assert parts[0].data()["by kind of group"]["orthogonal"]["clouds"] == 80


def test_a_violation_is_the_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fuzz, "Trial", Unmoved)
    assert fuzz.main(["--minutes=0.01", "--structure=generic", "--group=O(3)", "--frames=minimal"]) == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if "--replay" in line)
    assert fuzz.main(["--replay", line.split("'")[1]]) == 1
    assert "moved: inv" in capsys.readouterr().out


def test_paths_to_where_there_is_no_smooth_frame_are_no_jumps() -> None:
    found = margins(Key(1252949478, "jet", 6, "Lorentz(3)", "smooth", "float64", "dense", 32))
    assert not found.above
    assert not found.crashes


def test_margins_of_linear_groups_are_rounding_at_jumps(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--margins", "--minutes=0.1", "--group=E(3)", "--group=SO(2)", "--frames=minimal"]
    assert fuzz.main([*arguments, "--structure=generic"]) == 0
    assert "E(3)" in capsys.readouterr().out


def test_terms_of_a_sum_are_rounded_each_by_itself() -> None:
    """A term that has nothing but noise, shifted by the size of the others, is a point to one observer."""
    key = Key.parse("2128303787:ring:10:Cyclic(6) + E(2):minimal:float32:batch:32")
    verdict = judge(Trial(key))
    assert (verdict.violations, verdict.edges, verdict.conditioned) == (0, 0, 32)
    steep = rounding_loss(Trial(key), Trial(key).x, Trial(key).x + 1)
    assert (steep["vec"] > 1).all()
    assert (steep["inv"] < 1e-5).all()  # the other term is not excused


def test_bounds_are_those_of_the_promise() -> None:
    assert Trial(GENERIC).bound == 1e-11
    assert Trial(replace(GENERIC, dtype="float32")).bound == 1e-5
    assert share.MAX_SHARE == 1e-3


class Askew(Trial):
    """Vectors that do not turn with the input, by a part of ``1e-3``, of clouds in a small unit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scale = 2.0**-27

    def _outputs(self, x: Tensor, wild: bool) -> dict[str, Tensor]:
        found = super()._outputs(x, wild)
        return found | ({"vec": found["vec"] + 1e-3 * x.abs()} if wild else {})


def test_vectors_under_groups_without_a_unit_are_measured_in_that_of_the_input() -> None:
    key = Key(1, "generic", 0, "GL(3)", "minimal", "float64", "dense", 40)
    assert judge(Askew(key)).violations > 20
    rounding = Key.parse("936470526:integers:10:Aff(3):unordered:float64:dense:187")  # vectors that cancel, unit 2^27
    verdict = judge(Trial(rounding))
    assert verdict.violations == verdict.edges == 0


def test_products_that_are_rounding_excuse_no_identity() -> None:
    """The opening of a jet below the root of eps is not in its products; rows of one null line have none."""
    trial = Trial(Key(1, "jet", 9, "Lorentz(3)", "minimal", "float64", "dense", 40))
    assert (identity_loss(trial, trial.x) <= 1e-7).all()
    line = trial.x[:, :1] * torch.tensor([1.0, 0.5], dtype=torch.float64).view(2, 1)
    assert (identity_loss(trial, line) <= 1e-15).all()
    assert all((loss == 0).all() for loss in rounding_loss(trial, line, line).values())


def test_rounding_of_far_rows_changes_singular_values_by_a_unit_of_the_margin() -> None:
    """All rows at once, along the thin axis; one number alone says less."""
    trial = Trial(Key(0, "specks", 14, "Aff(2)", "smooth", "float64", "dense", 1))
    distance, eps = 4.0, torch.finfo(torch.float64).eps
    flat = torch.stack([torch.arange(-4.0, 5.0), torch.zeros(9)], -1).double() / 9
    signs = torch.tensor([1.0, -1, -1, 1, 0, 1, -1, -1, 1]).double()  # uncorrelated with the first axis and the mean
    noise = torch.stack([torch.zeros(9), signs], -1).double() * distance  # in units of eps
    far = (flat + torch.tensor([0, distance])).unsqueeze(0)
    change = torch.linalg.svdvals(noise)[0] / torch.linalg.svdvals(flat)[0]
    unit = float(margin_unit(trial, far, far)) / eps
    assert change <= unit <= 2 * change


def test_answers_within_rounding_of_the_input_are_no_infinite_error() -> None:
    """Of points far from the origin one observer may see a cloud of rounding, and another one a single point."""
    nothing, little, much = (torch.full((1, 3), size) for size in (0.0, 1e-15, 1e-3))
    no, unknown = torch.zeros(1, dtype=torch.bool), torch.full((1,), 2e-15, dtype=torch.float64)

    def error(found: Tensor) -> float:
        return float(distance({"inv": found.double()}, {"inv": nothing.double()}, torch.ones(1), no, unknown)["inv"])

    assert error(little) == pytest.approx(1.0)
    assert error(much) > 1e11
