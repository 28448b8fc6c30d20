"""Errors of energies and forces, and how far they depend on the snapshots that happen to be tested."""

from __future__ import annotations

import torch
from torch import Tensor

from minframe_lab.experiments.dynamics import molecules

BLOCK = 20  # successive snapshots of a path that are drawn together: 240 fs, as neighbours are alike
DRAWS = 1000


def errors(energy: Tensor, force: Tensor, mask: Tensor) -> dict[str, float]:
    """Mean absolute deviations, from those of energies ``(B,)`` and forces ``(B, n, 3)``, the molecules in turn.

    ``..._spread`` is the standard deviation of the mean over a block bootstrap of the snapshots of each molecule.
    """
    found = {"energy_mae": float(energy.abs().mean()), "force_mae": float(force[mask].abs().mean())}
    kinds = len(molecules.NAMES)
    each = (force.abs() * mask.unsqueeze(-1)).sum((-2, -1)).double()
    atoms = mask.sum(-1)[:kinds]
    draws = []
    for number, name in enumerate(molecules.NAMES):
        one = slice(number, None, kinds)
        found[f"force_mae_{name}"] = float(force[one][mask[one]].abs().mean())
        draws.append(_bootstrap(each[one]) / (3 * atoms[number]))
        found[f"force_mae_{name}_spread"] = float(draws[-1].std())
    whole = sum(draw * n for draw, n in zip(draws, atoms, strict=True)) / atoms.sum()
    found["force_mae_spread"] = float(torch.as_tensor(whole).std())
    return found


def _bootstrap(values: Tensor) -> Tensor:
    """Means ``(DRAWS,)`` of values ``(n,)``, drawn with repetition in blocks of successive ones."""
    block = min(BLOCK, max(1, len(values) // 2))
    blocks = values[: len(values) // block * block].view(-1, block).mean(-1)
    pick = torch.randint(len(blocks), (DRAWS, len(blocks)), generator=torch.Generator().manual_seed(0))
    return blocks[pick].mean(-1)
