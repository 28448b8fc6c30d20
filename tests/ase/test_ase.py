"""The calculator of ASE: derivatives, laws of motion, and that the description of a crystal makes no difference."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import ase.units
import numpy as np
import pytest
import torch
from ase.build import bulk, fcc111, molecule
from ase.calculators.calculator import PropertyNotImplementedError
from ase.md.verlet import VelocityVerlet
from ase.stress import full_3x3_to_voigt_6_stress
from torch import Tensor

import minframe as mf
import minframe.ase
from ase import Atoms

CUTOFF = 4.0
SLAB = mf.E(2) + mf.Trivial(1)


class Network(torch.nn.Module):
    """Message passing that looks at coordinates, and so knows nothing of rotations; smooth, and still at the cutoff."""

    def __init__(self, rounds: int = 2) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        sizes = {"kinds": (100, 8), "into": (4, 16), "pair": (8, 16), "out": (16, 8), "up": (8, 16), "last": (16, 1)}
        for name, size in sizes.items():
            values = 0.5 * torch.randn(size, dtype=torch.float64, generator=draw)
            self.register_parameter(name, torch.nn.Parameter(values))
        self.rounds = rounds

    def forward(self, z: Tensor, vectors: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        i, j = edge_index
        h, faded = self.kinds[z], mf.ase.envelope(vectors, CUTOFF).unsqueeze(-1)
        seen = torch.cat([vectors, vectors.square().sum(-1, keepdim=True)], -1)
        for _ in range(self.rounds):
            messages = torch.tanh(seen @ self.into + (h[i] * h[j]) @ self.pair) @ self.out * faded
            h = h + torch.tanh(torch.zeros_like(h).index_add(0, i, messages))
        return torch.tanh(h @ self.up) @ self.last  # of each atom


def of_positions(z: Tensor, pos: Tensor, batch: Tensor) -> Tensor:
    """One energy for each molecule, by all pairs of its atoms."""
    same = (batch[:, None] == batch) & ~torch.eye(len(z), dtype=torch.bool)
    i, j = same.nonzero().T
    apart = pos[j] - pos[i]
    far = apart.square().sum(-1)
    pairs = torch.sin(apart @ torch.tensor([0.3, -0.7, 0.5], dtype=pos.dtype) + z[i] / 3) / (1 + far) + 0.5 / (
        0.3 + far
    )
    return torch.zeros(int(batch.max()) + 1, dtype=pos.dtype).index_add(0, batch[i], pairs)


def rattled(atoms: Atoms, size: float = 0.08) -> Atoms:
    atoms.rattle(size, seed=3)
    return atoms


STRUCTURES: dict[str, tuple[Callable[[], Atoms], Any]] = {
    "rattled ethanol": (lambda: rattled(molecule("CH3CH2OH")), mf.E(3)),
    "rattled ethanol, chiral": (lambda: rattled(molecule("CH3CH2OH")), mf.SE(3)),
    "methane": (lambda: molecule("CH4"), mf.E(3)),
    "benzene": (lambda: molecule("C6H6"), mf.E(3)),
    "planar, chiral": (lambda: molecule("H2O"), mf.SE(3)),
    "linear": (lambda: molecule("CO2"), mf.E(3)),
    "two atoms": (lambda: molecule("N2"), mf.SE(3)),
    "rattled salt": (lambda: rattled(bulk("NaCl", "rocksalt", 5.64)), mf.E(3)),
    "salt": (lambda: bulk("NaCl", "rocksalt", 5.64), mf.E(3)),
    "copper": (lambda: bulk("Cu", cubic=True), mf.E(3)),
    "rattled silicon": (lambda: rattled(bulk("Si", cubic=True)), mf.E(3)),
    "rattled silicon, chiral": (lambda: rattled(bulk("Si", cubic=True)), mf.SE(3)),
    "chain": (lambda: Atoms("NNO", [[0, 0, 1], [0, 0, 2.1], [0, 0, 3.3]], cell=[9, 9, 5.5], pbc=True), mf.E(3)),
    "rattled slab": (lambda: rattled(fcc111("Al", (2, 2, 2), vacuum=6.0)), SLAB),
    "slab": (lambda: fcc111("Al", (2, 2, 2), vacuum=6.0), SLAB),
}
every_structure = pytest.mark.parametrize("name", STRUCTURES)


def with_calculator(name: str) -> Atoms:
    make, group = STRUCTURES[name]
    atoms = make()
    atoms.calc = mf.ase.Calculator(Network(), CUTOFF, group)
    return atoms


def properties(atoms: Atoms) -> tuple[float, np.ndarray, np.ndarray]:
    """Energy, forces, and the derivative with respect to strain, which is in eV as well."""
    stress = atoms.get_stress(voigt=False) * atoms.get_volume() if atoms.cell.rank == 3 else np.zeros((3, 3))
    return atoms.get_potential_energy(), atoms.get_forces(), stress


def unit(found: tuple[float, np.ndarray, np.ndarray]) -> float:
    """What errors are relative to: forces of a perfect crystal are zero, but not what they are the sum of."""
    return max(abs(found[0]), np.abs(found[1]).max(), np.abs(found[2]).max())


def slope(energy: Callable[[float], float], h: float = 1e-4) -> float:
    """The derivative at zero, to fourth order."""
    terms = ((1, 2 / 3), (2, -1 / 12))
    return sum(c * (energy(k * h) - energy(-k * h)) for k, c in terms) / h


def moved(atoms: Atoms, positions: np.ndarray, cell: np.ndarray | None = None) -> Atoms:
    other = atoms.copy()
    if cell is not None:
        other.set_cell(cell)
    other.positions = positions
    other.calc = atoms.calc
    return other


@every_structure
def test_forces_and_stress_are_derivatives(name: str) -> None:
    atoms = with_calculator(name)
    found = properties(atoms)
    for atom in {0, 1}:
        for axis in range(3):
            step = np.zeros((len(atoms), 3))
            step[atom, axis] = 1
            want = -slope(lambda t, step=step: moved(atoms, atoms.positions + t * step).get_potential_energy())
            assert abs(found[1][atom, axis] - want) <= 1e-6 * unit(found)
    if atoms.cell.rank < 3:
        return
    for a in range(3):
        for b in range(a, 3):
            strain = np.zeros((3, 3))
            strain[a, b] += 0.5
            strain[b, a] += 0.5

            def energy(t: float, strain: np.ndarray = strain) -> float:
                stretch = np.eye(3) + t * strain
                return moved(atoms, atoms.positions @ stretch, atoms.cell.array @ stretch).get_potential_energy()

            assert abs(found[2][a, b] - slope(energy)) <= 1e-6 * unit(found)


@every_structure
def test_rotations_rotate(name: str) -> None:
    atoms = with_calculator(name)
    energy, forces, stress = found = properties(atoms)
    group = STRUCTURES[name][1]
    for _ in range(3):
        turn = group.parts(group.random(dtype=torch.float64))[0].numpy()
        turned = properties(moved(atoms, atoms.positions @ turn.T, atoms.cell.array @ turn.T))
        assert abs(turned[0] - energy) <= 1e-11 * unit(found)
        assert np.abs(turned[1] - forces @ turn.T).max() <= 1e-9 * unit(found)
        assert np.abs(turned[2] - turn @ stress @ turn.T).max() <= 1e-9 * unit(found)


@every_structure
def test_the_description_makes_no_difference(name: str) -> None:
    """Neither stored images, nor the basis of the lattice, nor the origin, nor the order of atoms."""
    atoms = with_calculator(name)
    found = properties(atoms)
    draw = np.random.default_rng(0)
    for _ in range(3):
        basis = np.eye(3, dtype=int)
        periodic = np.flatnonzero(atoms.pbc)
        for _ in range(3 if len(periodic) > 1 else 0):
            a, b = draw.choice(periodic, 2, replace=False)
            basis[a] += draw.choice([-1, 1]) * basis[b]
        images = draw.integers(-2, 3, (len(atoms), 3)) * atoms.pbc
        other = moved(
            atoms, atoms.positions + images @ atoms.cell.array + draw.normal(size=3), basis @ atoms.cell.array
        )
        order = draw.permutation(len(atoms))
        other, calculator = other[order], atoms.calc
        other.calc = calculator
        energy, forces, stress = properties(other)
        assert abs(energy - found[0]) <= 1e-9 * unit(found)
        assert np.abs(forces - found[1][order]).max() <= 1e-9 * unit(found)
        assert np.abs(stress - found[2]).max() <= 1e-9 * unit(found)


@pytest.mark.parametrize("name", ["rattled salt", "copper", "rattled slab"])
def test_a_network_alone_is_not_invariant(name: str) -> None:
    """What the other tests show is not the merit of the network."""
    make, group = STRUCTURES[name]
    atoms = make()
    turn = group.parts(group.random(dtype=torch.float64))[0].numpy()
    energies = []
    for turned in (np.eye(3), turn):
        other = moved(atoms, atoms.positions @ turned.T, atoms.cell.array @ turned.T)
        other.calc = mf.ase.Calculator(Network(), CUTOFF, mf.Trivial(3))
        energies.append(other.get_potential_energy())
    assert abs(energies[0] - energies[1]) > 1e-4 * abs(energies[0])


def test_supercells_have_as_many_times_the_energy() -> None:
    atoms = rattled(bulk("NaCl", "rocksalt", 5.64))
    atoms.calc = mf.ase.Calculator(Network(), CUTOFF)
    double = atoms * (2, 1, 1)
    double.calc = atoms.calc
    assert abs(double.get_potential_energy() - 2 * atoms.get_potential_energy()) <= 1e-9 * abs(
        atoms.get_potential_energy()
    )


def test_an_atom_that_comes_near_changes_nothing_at_once() -> None:
    def energy(distance: float) -> float:
        atoms = Atoms("OHHAr", [[0, 0, 0], [0.9, 0.2, 0], [-0.4, 0.8, 0.1], [0, 0, distance]])
        atoms.calc = mf.ase.Calculator(Network(), CUTOFF)
        return atoms.get_potential_energy()

    assert abs(energy(CUTOFF + 1e-4) - energy(CUTOFF - 1e-4)) < 1e-12
    assert abs(energy(CUTOFF + 1e-4) - energy(CUTOFF - 1.0)) > 1e-4


def test_atoms_without_neighbours() -> None:
    atoms = Atoms("ArArH", [[0, 0, 0], [0, 0, 20], [0, 1, 20]], cell=[30, 30, 30], pbc=True)
    atoms.calc = mf.ase.Calculator(Network(), CUTOFF)
    assert np.abs(atoms.get_forces()[0]).max() == 0
    del atoms[1:]
    assert np.abs(atoms.get_forces()).max() == 0
    assert np.abs(atoms.get_stress()).max() == 0


@pytest.mark.parametrize("model", [of_positions, Network(1)], ids=["positions", "vectors"])
def test_dynamics_conserve_energy(model: Callable[..., Any]) -> None:
    """At half the step the range of the total energy is a quarter, as Verlet has it for a force with a potential."""

    def spread(step: float) -> float:
        atoms = rattled(molecule("CH3OH"), 0.05)
        atoms.set_velocities(np.random.default_rng(0).normal(size=(6, 3)) * 0.02)
        atoms.calc = mf.ase.Calculator(model, CUTOFF, unit=0.2)
        dynamics = VelocityVerlet(atoms, step * ase.units.fs)
        totals = [atoms.get_total_energy()]
        for _ in range(round(10 / step)):
            dynamics.run(1)
            totals.append(atoms.get_total_energy())
        assert max(totals) > min(totals)
        return max(totals) - min(totals)

    coarse, fine = spread(0.25), spread(0.125)
    assert coarse < 5e-3
    assert fine < 0.4 * coarse


def test_positions_and_any_frames() -> None:
    atoms = rattled(molecule("CH3CH2OH"))
    for frames in (mf.frames.Smooth(), mf.frames.Unordered()):
        atoms.calc = mf.ase.Calculator(of_positions, frames=frames)
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        turn = mf.O(3).random(dtype=torch.float64).numpy()
        turned = moved(atoms, atoms.positions @ turn.T + 3)[::-1]
        turned.calc = atoms.calc
        assert abs(turned.get_potential_energy() - energy) < 1e-11 * abs(energy)
        assert np.abs(turned.get_forces() - (forces @ turn.T)[::-1]).max() < 1e-10


def test_batches_and_training() -> None:
    """The same energies for training; its forces can be trained on."""
    network = Network()
    energy = mf.ase.Energy(network, CUTOFF)
    structures = [STRUCTURES[name][0]() for name in ("rattled salt", "rattled silicon", "copper")]
    one = [_graph(atoms) for atoms in structures]
    z, vectors = torch.cat([g[0] for g in one]), torch.cat([g[1] for g in one])
    starts = np.cumsum([0, *(len(g[0]) for g in one)])
    edge_index = torch.cat([g[2] + int(start) for g, start in zip(one, starts[:-1], strict=True)], -1)
    batch = torch.repeat_interleave(torch.arange(3), torch.tensor([len(g[0]) for g in one]))
    together = energy(z, batch, vectors=vectors, edge_index=edge_index)
    for value, atoms in zip(together.tolist(), structures, strict=True):
        atoms.calc = mf.ase.Calculator(energy)
        assert abs(atoms.get_potential_energy() - value) < 1e-11 * abs(value)
    assert energy.training  # evaluation in the calculator leaves no trace
    vectors = vectors.requires_grad_()
    (grad,) = torch.autograd.grad(
        energy(z, batch, vectors=vectors, edge_index=edge_index).sum(), vectors, create_graph=True
    )
    grad.square().sum().backward()
    assert network.into.grad is not None
    assert float(network.into.grad.abs().max()) > 0
    assert set(energy.state_dict()) == {f"model.{name}" for name in network.state_dict()}


def _graph(atoms: Atoms) -> tuple[Tensor, Tensor, Tensor]:
    from ase.neighborlist import neighbor_list

    i, j, vectors = neighbor_list("ijD", atoms, CUTOFF)
    return torch.tensor(atoms.numbers), torch.tensor(vectors), torch.tensor(np.stack([i, j]))


def test_equal_poses_are_shown_once() -> None:
    shown = []

    def counted(z: Tensor, vectors: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        shown.append(int(batch.max()) + 1)
        return vectors.new_zeros(len(z)).index_add(0, edge_index[0], vectors.pow(4).sum(-1))

    atoms = bulk("Cu", cubic=True)
    energy = mf.ase.Energy(counted, CUTOFF)
    z, vectors, edge_index = _graph(atoms)
    values = [
        energy.train(mode)(z, torch.zeros_like(z), vectors=vectors, edge_index=edge_index) for mode in (True, False)
    ]
    assert shown == [768, 48]  # the order of the point group; 16 times, as four atoms have the same neighbour vectors
    assert torch.allclose(*values, rtol=1e-12)


def displaced(atoms: Atoms) -> Atoms:
    """As for phonons: all neighbour vectors but those of one atom are still equal."""
    atoms.positions[0] += [0.02, 0.05, -0.03]
    return atoms


@pytest.mark.parametrize("group", [mf.E(3), mf.SE(3), SLAB], ids=str)
def test_equal_neighbour_vectors_count_as_often_as_they_are(group: mf.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row in place of several has the same energy, forces and stress."""
    structures = [
        bulk("Cu", cubic=True),
        displaced(bulk("Cu", cubic=True)),
        displaced(bulk("Al", "bcc", 3.1) * (2, 1, 1)),
    ]
    model = mf.ase.Energy(Network(), CUTOFF, group).eval()
    data = mf.ase.Structures.of(structures, CUTOFF)

    def results() -> list[Tensor]:
        energies = model(**data.inputs())
        return [energies.detach(), *data.derivatives(energies, create_graph=False)]

    merged = results()
    monkeypatch.setattr("minframe.ase.energy._merged", lambda rows, owner, cutoff: (rows, owner, None))
    for one, other in zip(merged, results(), strict=True):
        assert float((one - other).abs().max()) <= 1e-11 * max(1.0, float(other.abs().max()))


def test_perfect_crystals_of_any_size() -> None:
    """As many poses as the primitive cell has, whatever the cell, and no jump where it ceases to be perfect."""
    one, many = bulk("Cu"), bulk("Cu", cubic=True) * (3, 3, 3)
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        calculator = mf.ase.Calculator(Network().to(dtype), CUTOFF)
        one.calc = many.calc = calculator
        energy, total = one.get_potential_energy(), many.get_potential_energy()
        assert abs(total - 108 * energy) <= bound * abs(total)
        assert np.abs(many.get_forces()).max() <= 10 * bound
        assert np.abs(many.get_stress() - one.get_stress()).max() <= bound
    few = bulk("Cu", cubic=True)
    few.calc = mf.ase.Calculator(Network(), CUTOFF)
    start, changes = few.get_potential_energy(), []
    for size in (1e-5, 1e-7, 1e-9, 1e-11, 1e-13):
        moved = rattled(few.copy(), size)
        moved.calc = few.calc
        changes.append(abs(moved.get_potential_energy() - start))
        assert changes[-1] <= 1e-11 + 10 * size * abs(start)
    assert changes[0] > 1e-13


def test_batches_of_structures() -> None:
    """Each has the energy, forces and stress that the calculator gives it, and all are trained through."""
    structures = [rattled(bulk("NaCl", "rocksalt", 5.64)), rattled(molecule("H2O")), rattled(bulk("Si", cubic=True))]
    parts = [mf.ase.Structures.of([atoms], CUTOFF) for atoms in structures]
    data = pickle.loads(pickle.dumps(mf.ase.Structures.joined(parts)))
    model = mf.ase.Energy(Network(), CUTOFF)
    energies = model(**data.inputs())
    forces, stress = data.derivatives(energies)
    (energies.sum() + forces.square().sum() + stress.square().sum()).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    calculator = mf.ase.Calculator(model)
    for k, atoms in enumerate(structures):
        atoms.calc = calculator
        assert abs(atoms.get_potential_energy() - float(energies[k].detach())) <= 1e-11
        assert np.abs(atoms.get_forces() - forces[data.batch == k].detach().numpy()).max() <= 1e-11
        if atoms.cell.rank == 3:
            assert np.abs(atoms.get_stress(voigt=False) - stress[k].detach().numpy()).max() <= 1e-11
    assert bool((stress[1] == 0).all())  # no volume
    positions = mf.ase.Structures.of([molecule("H2O"), molecule("CH4")], dtype=torch.float32)
    assert positions.inputs()["pos"].shape == (8, 3)
    assert positions.inputs()["pos"].dtype == torch.float32
    with pytest.raises(ValueError, match="one cutoff"):
        mf.ase.Structures.joined([positions, data])
    with pytest.raises(ValueError, match="no structures"):
        mf.ase.Structures.of([])


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ValueError, match="must be named z, batch"):
        mf.ase.Calculator(lambda positions: positions)
    with pytest.raises(ValueError, match="needs their cutoff"):
        mf.ase.Calculator(Network())
    with pytest.raises(ValueError, match="must show every pose"):
        mf.ase.Calculator(Network(), CUTOFF, frames=mf.frames.Unordered())
    with pytest.raises(TypeError, match="acts on coordinates"):
        mf.ase.Calculator(Network(), CUTOFF, mf.S())
    crystal = bulk("Cu")
    crystal.calc = mf.ase.Calculator(of_positions)
    with pytest.raises(ValueError, match="atoms are periodic"):
        crystal.get_potential_energy()
    water = molecule("H2O")
    water.calc = mf.ase.Calculator(lambda z, pos, batch: pos.sum())
    with pytest.raises(ValueError, match="must begin"):
        water.get_potential_energy()
    water.calc = mf.ase.Calculator(lambda z, vectors, edge_index, batch: vectors.sum(), CUTOFF)
    with pytest.raises(ValueError, match="one energy for each"):
        water.get_potential_energy()
    large = rattled(bulk("Cu", cubic=True) * (3, 3, 3), 1e-3)
    large.calc = mf.ase.Calculator(Network(), CUTOFF)
    with pytest.raises(ValueError, match=r"more than 50000 poses.*mf\.Local.*mf\.Trivial\(3\)"):
        large.get_potential_energy()
    water.calc = mf.ase.Calculator(of_positions)
    with pytest.raises(PropertyNotImplementedError):
        water.get_stress()


def test_stress_has_the_sign_of_ase() -> None:
    """Positive under tension: a crystal that wants to shrink."""
    atoms = bulk("Cu")
    atoms.calc = mf.ase.Calculator(
        lambda z, vectors, edge_index, batch: vectors.new_zeros(len(z)).index_add(
            0, edge_index[0], vectors.square().sum(-1)
        ),
        CUTOFF,
    )
    assert atoms.get_stress()[:3].min() > 0
    assert np.allclose(full_3x3_to_voigt_6_stress(atoms.get_stress(voigt=False)), atoms.get_stress())
