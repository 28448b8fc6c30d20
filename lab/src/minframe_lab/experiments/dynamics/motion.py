"""Paths of molecules in a learned energy, and what they conserve."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments.dynamics import data, molecules, verlet
from minframe_lab.experiments.dynamics.training import with_forces
from minframe_lab.experiments.experiment import Advance, Batch

STEPS = (0.5, 0.25)  # fs
ORIENTATIONS = 115
BOTH = 8  # the part of the steps that is taken with both lengths
SHOWN = 250  # points of a path that are kept
REPEATED = ("picoseconds", "range", "drift", "drift_error", "jump")  # what is kept of each of several paths


def trajectories(
    model: nn.Module, picoseconds: float, repeats: int = 1, advance: Advance = lambda _: None
) -> dict[str, Any]:
    """What paths in a learned energy conserve, and its errors under rotations; in float64.

    All molecules move in one batch, from ``repeats`` draws of their velocities; the first with both lengths of steps
    for the first eighth of the number of steps.
    """
    model.requires_grad_(False)  # a step then takes no gradients but those of the positions
    kinds = len(molecules.NAMES)
    full = repeats * kinds  # paths with whole steps; those with halves come behind them
    steps = torch.tensor(STEPS, dtype=torch.float64).repeat_interleave(torch.tensor([full, kinds]))
    species, masses = (x.repeat(repeats + 1, 1, 1) for x in (molecules.species(), molecules.masses()))
    mask = species.sum(-1) > 0
    count, started = round(1000 * picoseconds / STEPS[0]), time.process_time()

    def field(x: Tensor) -> tuple[Tensor, Tensor]:
        return with_forces(model, (x, species[: len(x)], mask[: len(x)]))

    def moved(x: Tensor, v: Tensor, count: int) -> verlet.Paths:
        some = slice(0, len(x))
        return verlet.integrate(field, x, v, masses[some], steps[some], count, advance, mask[some])

    with mf.unchecked():  # a molecule that comes apart is no reason to stop
        positions, velocities = (torch.cat([x, x[:kinds]]) for x in data.starts(repeats))
        first = moved(positions, velocities, count // BOTH)
        taken = len(first.energy) - 1
        left = count - taken if taken == count // BOTH else 0  # none if it was interrupted, or all are apart
        last = moved(first.positions[:full], first.velocities[:full], left)
    rows = [tuple(x[: n + 1, i] for x in first.conserved) for i, n in enumerate(first.whole.tolist())]
    apart = (first.whole < taken)[:full]
    for i in (~apart).nonzero().flatten().tolist():
        end = int(last.whole[i])
        rows[i] = tuple(torch.cat([a, b[1 : end + 1, i]]) for a, b in zip(rows[i], last.conserved, strict=True))
    found = {
        "orientations": orientation_error(model),
        "seconds_per_step": (time.process_time() - started) / (taken + len(last.energy) - 1),
        **described([rows[i : i + kinds] for i in range(0, full, kinds)], rows[full:]),
    }
    apart = apart | (last.whole < len(last.energy) - 1)
    for name, value in zip(molecules.NAMES, apart[:kinds].tolist(), strict=True):
        found["paths"][name]["apart"] = value
    return found


def described(full: Sequence[Sequence[Batch]], half: Sequence[Batch]) -> dict[str, Any]:
    """What paths ``(steps + 1, ...)`` of each molecule conserve, with the first and the second of ``STEPS``.

    Of the first there are several, of which the first is described in full. The two lengths of steps are compared over
    the time that both have.
    """
    found: dict[str, Any] = {"paths": {}, "repeats": {}, "halved": {}, "energy": {}}
    for name, longs, short in zip(molecules.NAMES, zip(*full, strict=True), half, strict=True):
        several = [verlet.summary(path, STEPS[0]) for path in longs]
        found["paths"][name], long = several[0], longs[0]
        found["repeats"][name] = [{key: one[key] for key in REPEATED} for one in several]
        both = min(len(long[0]) - 1, (len(short[0]) - 1) // 2)
        pair = [verlet.summary([x[: both + 1] for x in long], STEPS[0])]
        pair.append(verlet.summary([x[: 2 * both + 1] for x in short], STEPS[1]))
        found["halved"][name] = {f"{step:g}": values for step, values in zip(STEPS, pair, strict=True)}
        every = max(1, (len(long[0]) - 1) // SHOWN)
        found["energy"][name] = [round(float(e), 7) for e in long[0][::every]]
    return found


def of_the_potential(picoseconds: float, repeats: int, advance: Advance = lambda _: None) -> dict[str, Any]:
    """The same of the potential itself, integrated by ASE."""
    count = round(1000 * picoseconds / STEPS[0])
    full = [data.reference(STEPS[0], count, repeat, advance) for repeat in range(repeats)]
    return described(full, data.reference(STEPS[1], count // 2, 0, advance))


def orientation_error(model: nn.Module) -> dict[str, float]:
    """The range of the energies of each molecule, thermally displaced, in 115 random orientations, in eV; float64."""
    pos, species, mask, _, _ = (x[: len(molecules.NAMES)] for x in data.load("validation"))
    generator = torch.Generator().manual_seed(0)
    turns = mf.SO(3).random(ORIENTATIONS, dtype=torch.float64, generator=generator)
    found = {}
    for number, name in enumerate(molecules.NAMES):
        turned = pos[number].double() @ turns.mT
        batch = (turned, species[number].double().expand(ORIENTATIONS, -1, -1), mask[number].expand(ORIENTATIONS, -1))
        with torch.no_grad():
            energy = model(batch[0], batch[1], mask=batch[2])
        found[name] = float(energy.max() - energy.min())
    return found
