"""Molecules in motion: the integrator, the potential, frames that conserve energy and frames that do not, a short run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ase.md.verlet import VelocityVerlet
from torch import Tensor
from typer.testing import CliRunner

import minframe as mf
import minframe.ase
from ase import units
from minframe_lab.experiments import record
from minframe_lab.experiments.app import app
from minframe_lab.experiments.dynamics import data, molecules, potential, verlet
from minframe_lab.experiments.dynamics import found as comparison
from minframe_lab.experiments.dynamics.errors import errors
from minframe_lab.experiments.dynamics.motion import orientation_error, trajectories
from minframe_lab.experiments.dynamics.poses import Shown, poses
from minframe_lab.experiments.dynamics.recipe import METHODS, Dynamics, in_parts
from minframe_lab.experiments.dynamics.training import with_forces
from minframe_lab.experiments.run import run
from minframe_lab.experiments.table import collect, write_table

KINDS = len(molecules.NAMES)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache of generated data for these tests alone, whose sets are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(data, "COUNTS", {"train": 8, "validation": 4, "test": 4})
        patch.setattr(data, "TRAINED", dict.fromkeys(molecules.NAMES, 8))
        yield


def springs(stiffness: float = 30.0) -> verlet.Field:
    """Pairs of atoms ``(B, 2, 3)`` of rest length one."""

    def field(x: Tensor) -> tuple[Tensor, Tensor]:
        apart = x[:, 0] - x[:, 1]
        length = apart.norm(dim=-1)
        pull = stiffness * (length - 1)[:, None] * apart / length[:, None]
        return stiffness * (length - 1) ** 2 / 2, torch.stack([-pull, pull], 1)

    return field


def _force_error(folder: Path) -> float:
    return float(record.read(folder)["test"]["force_mae"])


class TestVerlet:
    def test_order_and_conservation(self) -> None:
        x = torch.tensor([[[0.0, 0, 0], [1.1, 0, 0]]] * 2, dtype=torch.float64)
        v = torch.tensor([[[0.0, 0.1, 0], [0, -0.1, 0]]] * 2, dtype=torch.float64)
        m = torch.tensor([[[1.0], [12.0]]] * 2, dtype=torch.float64)
        steps = torch.tensor([0.5, 0.25], dtype=torch.float64)
        found = verlet.integrate(springs(), x, v, m, steps, 800)
        paths = [[y[:n, i] for y in (found.energy, found.momentum, found.angular)] for i, n in ((0, 401), (1, 801))]
        whole, half = (verlet.summary(path, float(h)) for path, h in zip(paths, steps, strict=True))
        assert whole["picoseconds"] == half["picoseconds"] == 0.2
        assert 3.8 < whole["range"] / half["range"] < 4.2
        for one in (whole, half):
            assert one["momentum"] < 1e-13
            assert one["angular"] < 1e-12

    def test_same_as_ase(self) -> None:
        atoms = potential.started("methane")
        lowest = potential.relaxed("methane").get_potential_energy()

        def field(x: Tensor) -> tuple[Tensor, Tensor]:
            atoms.positions[:] = x[0]
            return torch.tensor([atoms.get_potential_energy() - lowest]), torch.tensor(atoms.get_forces())[None]

        x, v = (torch.tensor(y)[None].clone() for y in (atoms.positions, atoms.get_velocities()))
        masses = torch.tensor(atoms.get_masses())[None, :, None]
        mine = verlet.integrate(field, x, v, masses, torch.tensor([0.5], dtype=torch.float64), 30)
        theirs = potential.integrate("methane", 0.5, 30)
        torch.testing.assert_close(mine.energy[:, 0], torch.tensor(theirs.energy), atol=1e-6, rtol=0)
        torch.testing.assert_close(mine.angular[:, 0], torch.tensor(theirs.angular), atol=1e-6, rtol=0)

    def test_an_interrupt_ends_the_path(self) -> None:
        def stop(_: int) -> None:
            raise KeyboardInterrupt

        x = torch.tensor([[[0.0, 0, 0], [1.1, 0, 0]]], dtype=torch.float64)
        one = torch.ones(1, dtype=torch.float64)
        found = verlet.integrate(springs(), x, torch.zeros_like(x), torch.ones_like(x[..., :1]), one, 1000, stop)
        assert len(found.energy) == 101

    def test_a_molecule_that_comes_apart_stops(self) -> None:
        x = torch.tensor([[[0.0, 0, 0], [1.0, 0, 0]]] * 2, dtype=torch.float64)
        v = torch.zeros_like(x)
        v[1, 1, 0] = 1.0  # so fast that nothing holds it
        one = torch.full((2,), 1.0, dtype=torch.float64)
        found = verlet.integrate(springs(0.01), x, v, torch.ones_like(x[..., :1]), one, 60)
        assert found.whole.tolist() == [60, 25]  # at 25 steps of 0.098 it is 3.4 away
        assert 3.3 < float(found.positions[1, 1, 0] - found.positions[1, 0, 0]) < 3.5  # it rests where it was then
        assert float(found.energy[:, 0].diff().abs().max()) < 1e-12
        found = verlet.integrate(springs(0.01), x[1:], v[1:], torch.ones_like(x[1:, :, :1]), one[1:], 1000)
        assert len(found.energy) == 31  # the look after the last one that found it whole

    def test_the_error_of_a_drift_is_how_much_drifts_differ(self) -> None:
        """Of many paths of correlated noise, each value the mean of the 40 before it, on a line."""
        torch.manual_seed(0)
        noise = torch.randn(400, 2000 + 39, dtype=torch.float64).unfold(-1, 40, 1).mean(-1)
        slopes, errors = (torch.stack(x) for x in zip(*(verlet.line(y) for y in noise), strict=True))
        assert 0.85 < errors.square().mean().sqrt() / slopes.std() < 1.15
        tilted, _ = verlet.line(noise[0] + 3.0 * torch.arange(2000))
        torch.testing.assert_close(tilted, 3.0 + slopes[0])

    def test_a_path_of_no_steps(self) -> None:
        found = verlet.summary([torch.zeros(1), torch.zeros(1, 3), torch.ones(1, 3)], 0.5)
        assert found["picoseconds"] == 0
        assert found["range"] != found["range"]


class TestErrors:
    def test_means_and_spread(self) -> None:
        torch.manual_seed(0)
        mask = (molecules.species().sum(-1) > 0).repeat(400, 1)
        force = torch.randn(400 * KINDS, molecules.MAX_ATOMS, 3) * mask.unsqueeze(-1)
        found = errors(torch.ones(400 * KINDS), force, mask)
        assert found["energy_mae"] == 1
        assert found["force_mae"] == pytest.approx(float(force[mask].abs().mean()))
        # The mean of n independent |x| of a normal x has a standard deviation of sqrt((1 - 2 / pi) / n).
        for name, atoms in zip(molecules.NAMES, (5, 5, 6, 9), strict=True):
            expected = ((1 - 2 / torch.pi) / (400 * 3 * atoms)) ** 0.5
            assert found[f"force_mae_{name}_spread"] == pytest.approx(expected, rel=0.4)
        assert found["force_mae_spread"] < found["force_mae_methane_spread"]


class TestData:
    def test_forces_are_those_of_the_energy(self) -> None:
        atoms = potential.relaxed("ethanol")
        atoms.rattle(0.05, seed=1)
        force, h = atoms.get_forces()[2, 1], 1e-3
        energies = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.calc = potential.calculator()
            moved.positions[2, 1] += sign * h
            energies.append(moved.get_potential_energy())
        assert (energies[1] - energies[0]) / (2 * h) == pytest.approx(force, abs=1e-3)

    def test_splits(self) -> None:
        pos, species, mask, energy, force = data.load("validation")
        assert pos.shape == force.shape == (4 * KINDS, molecules.MAX_ATOMS, 3)
        assert mask.sum(-1).tolist() == [5, 5, 6, 9] * 4
        assert torch.equal(species.sum(-1) > 0, mask)
        assert float(energy.min()) > 0  # above the minimum
        assert float(force[~mask].abs().max()) == 0
        first = data.load("validation", KINDS)
        assert torch.equal(first[0], pos[:KINDS])

    @pytest.mark.parametrize("name", molecules.NAMES)
    def test_kinds_of_atoms(self, name: str) -> None:
        atoms, roles = molecules.atoms(name), molecules.ROLES[name]
        heavy = atoms.numbers > 1
        bonded = (atoms.get_all_distances() < 1.95) & (heavy[:, None] | heavy) & ~np.eye(len(atoms), dtype=bool)
        around = [tuple(sorted(roles[j] for j in np.flatnonzero(row))) for row in bonded]
        seen = set(zip(roles, atoms.symbols, around, strict=True))
        assert len(seen) == len(set(roles))  # atoms of one kind are of one element, and bonded to the same kinds

    def test_the_four_kinds(self) -> None:
        flat = potential.relaxed("ethylene").positions
        assert torch.linalg.svdvals(torch.tensor(flat - flat.mean(0)))[-1] < 1e-2
        chiral = molecules.atoms("CHFClBr").positions
        assert abs(torch.linalg.det(torch.tensor(chiral[1:4] - chiral[0]))) > 1


class TestFrames:
    @pytest.mark.parametrize("method", METHODS)
    def test_orientations(self, method: str) -> None:
        found = orientation_error(Dynamics(method=method).model().double().eval())
        if method == "plain":
            assert min(found.values()) > 1e-4
        else:
            assert max(found.values()) < 1e-11

    def test_forces(self) -> None:
        model = Dynamics(method="smooth").model().double().eval()
        pos, species, mask, _, _ = (x[:KINDS] for x in data.load("validation"))
        pos, way = pos.double(), torch.randn(pos.shape, dtype=torch.float64) * mask.unsqueeze(-1)
        _, force = with_forces(model, (pos, species.double(), mask))
        h = 1e-5
        there, back = (with_forces(model, (pos + s * h * way, species.double(), mask))[0] for s in (1, -1))
        torch.testing.assert_close((back - there) / (2 * h), (force * way).sum((-2, -1)), atol=1e-7, rtol=1e-5)

    def test_an_interrupt_ends_all_paths(self) -> None:
        def stop(_: int) -> None:
            raise KeyboardInterrupt

        found = trajectories(Dynamics(method="minimal").model().double().eval(), 0.5, advance=stop)["paths"]
        assert max(path["picoseconds"] for path in found.values()) == 0.05
        assert all(path["apart"] == (path["picoseconds"] < 0.05) for path in found.values())

    def test_smooth_conserves_and_hard_jumps(self) -> None:
        jumps = {}
        for method in ("minimal", "smooth"):
            torch.manual_seed(0)
            model = Dynamics(method=method).model().double().eval()
            found = trajectories(model, 0.1)
            jumps[method] = max(path["jump"] for path in found["paths"].values())
            assert max(path["momentum"] for path in found["paths"].values()) < 1e-12
            assert max(path["angular_relative"] for path in found["paths"].values()) < 1e-11
        assert jumps["minimal"] > 10 * jumps["smooth"]

    @pytest.mark.parametrize("method", ["minimal", "pca", "smooth"])
    def test_poses_computed_once_give_the_same(self, method: str) -> None:
        model = Dynamics(method=method).model().double().eval()
        batch = tuple(x.double() if x.is_floating_point() else x for x in data.load("validation"))
        shown = Shown(model.backbone, poses(model, batch), *batch[1:4])
        index = torch.tensor([5, 2, 11, 2])
        energy, force, spread = shown(index)
        wanted = with_forces(model, tuple(x[index] for x in batch))
        torch.testing.assert_close(energy.detach(), wanted[0], atol=1e-12, rtol=0)
        torch.testing.assert_close(force.detach(), wanted[1], atol=1e-10, rtol=0)
        assert (spread > 0).any() == (method != "minimal")  # of energies over poses

    def test_drawn_poses_have_the_energy_and_force_of_all_in_the_mean(self) -> None:
        model = Dynamics(method="smooth").model().double().eval()
        batch = tuple(x.double() if x.is_floating_point() else x for x in data.load("validation"))
        found = poses(model, batch)
        shown = Shown(model.backbone, found, *batch[1:4], draw=True)
        energy, force = torch.zeros(1, dtype=torch.float64), torch.zeros_like(batch[0][:1])
        for k in range(int(shown.first[1])):  # every pose of the first molecule, by its weight
            one, weight, terms = shown._parts(torch.tensor([0]), torch.tensor([k]), torch.tensor([0]))
            energy = energy + found.weight[k] * weight * one
            force = force - found.weight[k] * sum(terms)
        assert int(shown.first[1]) > 1
        wanted = with_forces(model, tuple(x[:1] for x in batch))
        torch.testing.assert_close(energy.detach(), wanted[0], atol=1e-12, rtol=0)
        torch.testing.assert_close(force.detach(), wanted[1], atol=1e-10, rtol=0)
        picked = torch.stack([shown.pick(torch.tensor([0]))[0] for _ in range(2000)])
        share = torch.bincount(picked.flatten(), minlength=int(shown.first[1])) / 2000
        torch.testing.assert_close(share.double(), found.weight[: int(shown.first[1])], atol=0.05, rtol=0)

    @pytest.mark.parametrize("method", METHODS)
    def test_all_methods_can_begin_in_random_rotations(self, method: str) -> None:
        """The first steps then are those without a frame, number for number; later ones are those of the method."""
        found = []
        for one in (Dynamics(method="plain"), Dynamics(method=method, start="plain", warm=0.5)):
            torch.manual_seed(0)
            part, batch = one.trained(one.model(), data.load("train"))
            steps = one.recipe.epochs // 2
            torch.manual_seed(1)
            found.append([part(batch[0])[1].detach() for _ in range(steps + 1)])
        same = [torch.equal(a, b) for a, b in zip(*found, strict=True)]
        assert all(same[:-1])
        assert same[-1] == (method == "plain")

    def test_parts_of_forces_add_up(self) -> None:
        model = Dynamics(method="minimal").model().double().eval()
        batch = tuple(x.double() if x.is_floating_point() else x for x in data.load("validation"))
        parts = Shown(model.backbone, poses(model, batch), *batch[1:4]).parts(torch.arange(len(batch[0])))
        assert parts["weights"] == 0  # one pose, whose weight is one
        assert parts["turning"] > 0
        whole = float(in_parts(model, batch)[1][batch[2]].abs().mean())
        assert abs(parts["backbone"] - parts["turning"]) <= whole <= parts["backbone"] + parts["turning"]

    @pytest.mark.parametrize("method", ["smooth", "drawn"])
    def test_training_starts_in_hard_frames(self, method: str) -> None:
        train = data.load("train")
        torch.manual_seed(0)
        experiment = Dynamics(method=method, warm=0.5)
        model = experiment.model()
        part, batch = experiment.trained(model, train)
        assert set(part.state_dict()) == {*model.state_dict(), "calls"}
        hard = Dynamics(method="minimal").model()
        hard.load_state_dict(model.state_dict())
        energy, force, _ = part(batch[0])
        wanted = with_forces(hard, train)
        torch.testing.assert_close(energy.detach(), wanted[0], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(force.detach(), wanted[1], atol=1e-3, rtol=1e-3)
        part.calls.fill_(part.steps)
        assert not torch.allclose(part(batch[0])[1].detach(), wanted[1], atol=1e-3, rtol=1e-3)

    def test_the_calculator_of_ase_moves_the_same_way(self) -> None:
        """``minframe.ase`` and ASE's integrator against the laboratory's."""
        torch.manual_seed(0)
        model = Dynamics(method="smooth").model().double().eval().requires_grad_(False)
        atoms = potential.started("CHFClBr")
        kinds = molecules.species()[molecules.NAMES.index("CHFClBr"), : len(atoms)]

        def energy(z: Tensor, batch: Tensor, pos: Tensor) -> Tensor:
            count = len(z) // len(atoms)
            shape = (count, len(atoms))
            real = torch.ones(shape, dtype=torch.bool)
            return model.backbone(pos.view(*shape, 3), kinds.expand(count, -1, -1), real)

        x, v = (torch.tensor(y)[None].clone() for y in (atoms.positions, atoms.get_velocities()))
        whole = torch.ones(1, len(atoms), dtype=torch.bool)
        mine = verlet.integrate(
            lambda y: with_forces(model, (y, kinds[None], whole)),
            x,
            v,
            torch.tensor(atoms.get_masses())[None, :, None],
            torch.tensor([0.5], dtype=torch.float64),
            40,
        )
        atoms.calc = mf.ase.Calculator(energy, group=mf.SE(3), frames=model.frames)
        energies = [atoms.get_total_energy()]
        motion = VelocityVerlet(atoms, 0.5 * units.fs)
        for _ in range(40):
            motion.run(1)
            energies.append(atoms.get_total_energy())
        torch.testing.assert_close(torch.tensor(energies), mine.energy[:, 0], atol=1e-11, rtol=0)
        torch.testing.assert_close(torch.tensor(atoms.positions), mine.positions[0], atol=1e-11, rtol=0)


class TestRuns:
    @pytest.mark.parametrize("method", ["minimal", "smooth", "drawn"])
    def test_short(self, method: str, tmp_path: Path) -> None:
        folder = tmp_path / f"dynamics-{method}-0"
        words = ["dynamics", "--method", method, "--epochs", 2, "--picoseconds", 0.1, "--output", folder]
        done = CliRunner().invoke(app, [str(w) for w in words])
        assert done.exit_code == 0, done.output
        again = CliRunner().invoke(app, ["dynamics", "--evaluate", str(folder)])
        assert again.exit_code == 0, again.output
        found = record.read(folder)
        assert found["complete"]
        assert found["measured"]["paths"]["methane"]["picoseconds"] == 0.1

    def test_runs_that_began_alike_are_compared(self) -> None:
        """Runs in random rotations from the beginning, if hard and smooth frames have them; without a frame, any."""

        def one(method: str, **more: Any) -> dict[str, Any]:
            return {"configuration": {"method": method, "seed": 0, "sharpness": 8.0, "recipe": {"epochs": 32}, **more}}

        old = [one("potential"), one("plain"), one("smooth"), one("smooth", seed=1), one("minimal"), one("drawn")]
        new = [one("smooth", start="plain"), one("minimal", start="plain")]
        before, partly, after = (comparison.Runs.of(x) for x in (old, old + new[:1], old + new))
        assert before is not None
        assert after is not None
        assert before == partly
        assert [r["configuration"]["seed"] for r in before.smooth] == [0, 1]
        assert after.smooth == new[:1]
        assert after.methods == {"minimal": new[1:], "plain": old[1:2]}

    def test_drifts_are_compared_over_all_paths(self) -> None:
        def one(method: str, drifts: list[float], seed: int = 0) -> dict[str, Any]:
            paths = [{"drift": d, "range": 1.0, "picoseconds": 20.0} for d in drifts]
            measured = {"repeats": dict.fromkeys(molecules.NAMES, paths), "paths": {}}
            return {"configuration": {"method": method, "seed": seed}, "measured": measured}

        lucky, usual, large = [0.1, 3.0], [2.0, 2.0], [9.0, 9.0]  # small by chance in one path
        runs = comparison.Runs(one("potential", lucky), {}, [one("smooth", usual), one("smooth", large, 1)])
        told = comparison._drifts(runs).split("; ")
        unit, mean = math.hypot(*lucky) / math.sqrt(2), math.sqrt((4 + 81) / 2)
        assert len(told) == KINDS
        first = f"methane {2 / unit:.2g}, **{9 / unit:.2g}** (within error), together {mean / unit:.2g} ± "
        assert told[0].startswith(first), told[0]
        many = comparison.Runs(one("potential", lucky * 50), {}, [one("smooth", large * 50)])
        assert "within error" not in comparison._drifts(many)

    @pytest.mark.slow
    def test_table(self, tmp_path: Path) -> None:
        results, page = tmp_path / "lab" / "results", tmp_path / "docs" / "dynamics.md"
        page.parent.mkdir()
        page.write_text(f"before\n{comparison.BEGIN}\nold\n{comparison.END}\nafter\n")
        for method in ("smooth", "minimal", "plain"):
            experiment = Dynamics(method=method, picoseconds=0.1)
            run(experiment, tmp_path / f"dynamics-{method}-0", limit=8)
            collect(tmp_path / f"dynamics-{method}-0", results)
        folder = str(results / "dynamics-potential-0")
        words = ["dynamics", "--method", "potential", "--picoseconds", "0.1", "--output", folder]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        text = write_table(results).read_text()
        assert "the potential itself | 0.1 |" in text
        assert "no frame, random rotations | 32 |" in text
        assert (results / "dynamics.png").stat().st_size > 1000
        written = page.read_text()
        assert written.startswith("before\n")
        assert written.endswith("after\n")
        assert "old" not in written
        ratio = _force_error(results / "dynamics-smooth-0") / _force_error(results / "dynamics-minimal-0")
        assert f"{ratio:.2f}" in written
        again = page.read_text()
        write_table(results)
        assert page.read_text() == again

    def test_unknown_method(self) -> None:
        done = CliRunner().invoke(app, ["dynamics", "--method", "sharp"])
        assert done.exit_code == 2
