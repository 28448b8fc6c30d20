"""What is trained: a backbone on poses that are computed once, or on random rotations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments.experiment import Batch


def with_forces(model: Callable[..., Tensor], batch: Batch, training: bool = False) -> tuple[Tensor, Tensor]:
    """Energies ``(B,)`` of positions, kinds of atoms and mask, and forces ``(B, n, 3)``, less the gradient."""
    with torch.enable_grad():
        pos = batch[0].detach().requires_grad_()
        energy = model(pos, batch[1], mask=batch[2])
        (gradient,) = torch.autograd.grad(energy.sum(), pos, create_graph=training)
    return (energy if training else energy.detach()), -gradient


class Posed(nn.Module):
    """Energies and forces of samples by their number, shown to a backbone in one way for ``steps``, then in another.

    The force in smooth frames has a term ``sum_k grad w_k f(pose k)``. It is small where the backbone gives all poses
    of a molecule the same energy, and noise where it knows nothing yet. In hard frames it is spared this; in random
    orientations it learns to give all of them one energy.
    """

    calls: Tensor

    def __init__(self, backbone: nn.Module, early: nn.Module, late: nn.Module, steps: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.shown = (early, late)  # in a tuple, so that the backbone that they share is found once
        self.steps = steps
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        late = int(self.calls) >= self.steps
        self.calls += 1
        energy, force, spread = self.shown[late](index)
        return energy, force, spread


class Turned(nn.Module):
    """Energies and forces of samples by their number, in random orientations, without a frame."""

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        super().__init__()
        self.model, self.batch = model, batch

    def forward(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        pos, species, mask = (x[index] for x in self.batch[:3])
        turn = mf.SO(3).random(len(pos), dtype=pos.dtype, device=pos.device)
        energy, force = with_forces(self.model, (pos @ turn.mT, species, mask), training=True)
        return energy, force @ turn, torch.zeros_like(energy)
