"""A molecule that moves by learned forces: smooth frames conserve energy, hard ones do not.

Energies and forces of methanol, displaced at random, by a potential that comes with ASE (EMT). A network that knows no
symmetry learns them in smooth frames and in frames of one pose, which jump. Then the molecule moves by learned forces:
how much does its total energy vary? With half the step it varies a quarter as much, if forces have an energy and steps
are short enough for it.
"""

from __future__ import annotations

import numpy as np
import torch
from ase.build import molecule
from ase.md.verlet import VelocityVerlet
from common import arguments, picture, save, show, spread, track
from matplotlib.figure import Figure
from methanol import Network, sample
from torch import Tensor

import minframe as mf
import minframe.ase
from ase import Atoms, units

FRAMES = {"smooth": mf.frames.Smooth(), "one pose": mf.frames.Unordered()}


def energies_and_forces(model: mf.ase.Energy, pos: Tensor, train: bool = False) -> tuple[Tensor, Tensor]:
    """Of molecules ``(B, 6, 3)``."""
    x = pos.reshape(-1, 3).clone().requires_grad_()
    z = torch.tensor(molecule("CH3OH").numbers).repeat(len(pos))
    energy = model(z, torch.arange(len(pos)).repeat_interleave(6), pos=x)
    return energy, -torch.autograd.grad(energy.sum(), x, create_graph=train)[0].view_as(pos)


def train(frames: mf.frames.Method, data: tuple[Tensor, Tensor, Tensor], epochs: int, what: str) -> mf.ase.Energy:
    """A network in these frames."""
    model = mf.ase.Energy(Network().double(), group=mf.SE(3), frames=frames)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in track(range(epochs), what):
        for batch in torch.randperm(len(data[0])).split(10):
            pos, energy, forces = (x[batch] for x in data)
            found = energies_and_forces(model, pos, train=True)
            optimizer.zero_grad()
            ((found[0] - energy).square().mean() + 3 * (found[1] - forces).square().mean()).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def totals(model: mf.ase.Energy, step: float, time: float) -> np.ndarray:
    """The total energy, in eV, in each step (fs) of a path (fs) that begins at 100 K."""
    atoms: Atoms = molecule("CH3OH", calculator=mf.ase.Calculator(model))
    spread_of = np.sqrt(100 * units.kB * atoms.get_masses())[:, None]
    atoms.set_momenta(np.random.default_rng(0).normal(size=(6, 3)) * spread_of)
    dynamics, found = VelocityVerlet(atoms, step * units.fs), []
    dynamics.attach(lambda: found.append(atoms.get_total_energy()))
    dynamics.run(round(time / step))
    return np.array(found)


def main() -> None:
    """Train, integrate, and draw the total energy."""
    options = arguments(__doc__ or "")
    count, epochs, time, seeds = (10, 1, 2.0, 1) if options.quick else (60, 40, 60.0, options.seeds or 3)
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axis, results = figure.add_subplot(xlabel="time, fs", ylabel="total energy less its mean, meV"), {}
    for name, frames in FRAMES.items():
        for seed in range(seeds):
            torch.manual_seed(seed)
            model = train(frames, sample(count, seed), epochs, f"{name}, seed {seed}")
            pos, _, forces = sample(max(count // 5, 2), 100 + seed)
            error = float((energies_and_forces(model, pos)[1] - forces).abs().mean())
            paths = [totals(model, step, time) for step in (0.5, 0.25)]
            results.setdefault(name, []).append([error, *(1000 * float(np.ptp(path)) for path in paths)])
            if seed == 0:
                axis.plot(0.5 * np.arange(len(paths[0])), 1000 * (paths[0] - paths[0].mean()), label=name)
    axis.legend(frameon=False)
    columns = ("frames", "force error, eV/Å", "energy varies by, meV", "with half the step")
    rows = [(name, *(spread([r[k] for r in of]) for k in range(3))) for name, of in results.items()]
    show("Methanol in learned forces", columns, rows)
    configuration = {"geometries": count, "epochs": epochs, "femtoseconds": time, "seeds": seeds}
    save("molecular_dynamics", configuration, results, options.quick)
    picture("molecular_dynamics", figure, options.quick)


if __name__ == "__main__":
    main()
