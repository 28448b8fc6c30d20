"""Molecules in motion: the integrator, the potential, frames that conserve energy and frames that do not, a short run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from minframe_lab.experiments import record
from minframe_lab.experiments.app import app
from minframe_lab.experiments.dynamics import data, molecules, potential, verlet
from minframe_lab.experiments.dynamics.recipe import METHODS, Dynamics, orientation_error, trajectories, with_forces
from minframe_lab.experiments.run import run
from minframe_lab.experiments.table import collect, write_table

KINDS = len(molecules.NAMES)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache of generated data for these tests alone, whose sets are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(data, "COUNTS", {"train": 8, "validation": 4, "test": 4})
        yield


def springs(stiffness: float = 30.0) -> verlet.Field:
    """Pairs of atoms ``(B, 2, 3)`` of rest length one."""

    def field(x: Tensor) -> tuple[Tensor, Tensor]:
        apart = x[:, 0] - x[:, 1]
        length = apart.norm(dim=-1)
        pull = stiffness * (length - 1)[:, None] * apart / length[:, None]
        return stiffness * (length - 1) ** 2 / 2, torch.stack([-pull, pull], 1)

    return field


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

    def test_training_starts_in_hard_frames(self) -> None:
        torch.manual_seed(0)
        warm, hard = Dynamics(method="smooth").model(), Dynamics(method="minimal").model()
        hard.load_state_dict(
            {k.removeprefix("smooth."): v for k, v in warm.state_dict().items() if k != "calls"}, False
        )
        pos, species, mask, _, _ = data.load("validation")
        early = warm.train()(pos, species, mask)
        torch.testing.assert_close(early, hard(pos, species, mask=mask))
        assert int(warm.calls) == 1
        assert not torch.allclose(warm.eval()(pos, species, mask), early)


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

    @pytest.mark.slow
    def test_table(self, tmp_path: Path) -> None:
        results = tmp_path / "results"
        for method in ("smooth", "plain"):
            experiment = Dynamics(method=method, picoseconds=0.1)
            run(experiment, tmp_path / f"dynamics-{method}-0", limit=8)
            collect(tmp_path / f"dynamics-{method}-0", results)
        done = CliRunner().invoke(
            app,
            [
                "dynamics",
                "--method",
                "potential",
                "--picoseconds",
                "0.1",
                "--output",
                str(results / "dynamics-potential-0"),
            ],
        )
        assert done.exit_code == 0, done.output
        text = write_table(results).read_text()
        assert "the potential itself | 0.1 |" in text
        assert "no frame, random rotations | 24 |" in text
        assert (results / "dynamics.png").stat().st_size > 1000

    def test_unknown_method(self) -> None:
        done = CliRunner().invoke(app, ["dynamics", "--method", "sharp"])
        assert done.exit_code == 2
