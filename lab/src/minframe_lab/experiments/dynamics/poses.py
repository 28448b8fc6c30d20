"""Poses of all snapshots, computed once: a frame depends on the positions alone, and the same ones return every epoch.

Let ``c = (x - mean) R`` be what the backbone ``f`` is shown of positions ``x``, with rotations ``R_k`` and weights
``w_k`` that depend on ``x``. A rotation changes by ``dR = R W`` with ``W`` antisymmetric, so that the energy
``E = sum_k w_k f(c_k)`` changes by

    dE = sum_k f(c_k) dw_k + w_k <G_k, d(x - mean) R_k> + w_k <c_k^T G_k, W_k>,     G_k = grad f(c_k),

the last term being the torque on the pose times how fast its frame turns. So ``w_k``, ``R_k`` and ``c_k``, the slopes
of ``w_k``, and those of the three entries of ``W_k`` are all that forces need to know of a frame.

**One drawn pose.** If ``k`` is drawn with probability ``w_k``, then ``f(c_k)`` and the above divided by ``w_k`` are
``E`` and ``dE`` in expectation. But ``f(c_k) dw_k / w_k`` is large even if all poses have one energy. As
``sum_k dw_k = 0``, any number ``b`` that does not depend on ``k`` may be taken off, ``(f(c_k) - b) dw_k / w_k``,
without a change of the expectation. With the energy that is to be learned for ``b``, what is left is as small as the
network's error. The mean of ``|F - F*|^2`` over draws is that of the whole force plus its variance: to make it small is
to ask every pose for the right energy and force.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments.experiment import Batch

PAIRS = ((0, 1), (0, 2), (1, 2))  # the entries of an antisymmetric matrix
CHUNK = 250  # samples at once


@dataclass(frozen=True)
class Poses:
    """``K`` poses of all samples, those of each sample together.

    Attributes:
        sample: ``(K,)``, ascending.
        weight: ``(K,)``.
        slope: ``(K, n, 3)``, the gradient of the weight.
        shown: ``(K, n, 3)``, the positions as the backbone sees them.
        turn: ``(K, 3, 3)``, the matrix ``R``.
        spin: ``(K, 3, n, 3)``, the gradients of the entries ``PAIRS`` of ``R^T dR``.
    """

    sample: Tensor
    weight: Tensor
    slope: Tensor
    shown: Tensor
    turn: Tensor
    spin: Tensor


def poses(model: mf.Invariant, data: Batch) -> Poses:
    """The poses that a model shows its backbone of positions, elements and mask; computed in float64."""
    parts = [_poses(model, tuple(x[i : i + CHUNK] for x in data[:3])) for i in range(0, len(data[0]), CHUNK)]
    found = {f.name: torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Poses)}
    counts = torch.tensor([int(part.sample[-1]) + 1 for part in parts])
    found["sample"] += (counts.cumsum(0) - counts).repeat_interleave(torch.tensor([len(p.sample) for p in parts]))
    return Poses(**{name: x if name == "sample" else x.to(data[0].dtype) for name, x in found.items()})


def _poses(model: mf.Invariant, data: Batch) -> Poses:
    pos, species, mask = data[0].double(), data[1].double(), data[2]
    with torch.no_grad():
        sample, _, _ = _elements(model, (pos, species, mask))
    # Each pose gets a copy of its sample, so that derivatives of one do not mix with those of the others.
    x, species, mask = pos[sample].requires_grad_(), species[sample], mask[sample]
    copy, weight, turn = _elements(model, (x, species, mask))
    number = torch.arange(len(sample)) - torch.searchsorted(sample, sample)  # of each pose within its sample
    own = torch.searchsorted(copy, torch.arange(len(sample))) + number
    weight, turn = weight[own], turn[own]
    entries = [(turn[:, :, a].detach() * turn[:, :, b]).sum() for a, b in PAIRS]
    slopes = [_gradient(y, x) for y in (weight.sum(), *entries)]
    x, weight, turn = x.detach(), weight.detach(), turn.detach()
    return Poses(sample, weight, slopes[0], centred(x, mask) @ turn, turn, torch.stack(slopes[1:], 1))


def _elements(model: mf.Invariant, data: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Samples, weights and rotations of all poses."""
    if isinstance(model.frames, mf.frames.PCA):
        turn = _principal(data[0], data[2])
        sample = torch.arange(len(turn)).repeat_interleave(turn.shape[1])
        return sample, torch.full((len(sample),), 1 / turn.shape[1], dtype=turn.dtype), turn.flatten(0, 1)
    found: Any = model.frame(data[0], data[1], mask=data[2])
    if hasattr(found, "weights"):
        return found.sample, found.weights, found.elements.linear
    return torch.arange(len(found.linear)), torch.ones(len(found.linear), dtype=torch.float64), found.linear


def _principal(x: Tensor, mask: Tensor) -> Tensor:
    """The four choices of principal axes of determinant one, ``(B, 4, 3, 3)``; a model has no single frame to show."""
    rows = centred(x, mask)
    axes = torch.linalg.eigh(rows.mT @ rows)[1].flip(-1)  # the longest first
    axes = torch.cat([axes[..., :2], axes[..., 2:] * torch.linalg.det(axes.detach()).sign()[:, None, None]], -1)
    signs = torch.tensor([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=x.dtype)
    return axes.unsqueeze(1) * signs.unsqueeze(-2)


def _gradient(y: Tensor, x: Tensor) -> Tensor:
    if not y.requires_grad:
        return torch.zeros_like(x)
    return torch.autograd.grad(y, x, retain_graph=True)[0]


def centred(x: Tensor, mask: Tensor) -> Tensor:
    """Rows ``(..., n, 3)`` less their mean; zero for padding."""
    real = mask.unsqueeze(-1)
    return (x - (x * real).sum(-2, keepdim=True) / real.sum(-2, keepdim=True)) * real


class Shown(nn.Module):
    """A backbone that is shown poses of samples by their number, with energies and forces as the model in frames has.

    Args:
        backbone: energies ``(B,)`` of positions, elements and mask.
        found: poses of all samples.
        species: of all samples.
        mask: of all samples.
        expected: energies that are taken off, ``(N,)``; see the derivation above.
        draw: show one pose of each sample, drawn by weight, instead of all.
    """

    def __init__(
        self, backbone: nn.Module, found: Poses, species: Tensor, mask: Tensor, expected: Tensor, draw: bool = False
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.found, self.species, self.mask, self.expected, self.draw = found, species, mask, expected, draw
        self.first = torch.searchsorted(found.sample, torch.arange(len(mask) + 1))

    def pick(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of the poses that samples ``(B,)`` are shown in, and which of the samples each belongs to."""
        first, count = self.first[index], self.first[index + 1] - self.first[index]
        owner = torch.arange(len(index)).repeat_interleave(count)
        number = torch.arange(len(owner)) - (count.cumsum(0) - count)[owner]
        chosen = first[owner] + number
        if not self.draw:
            return chosen, owner
        table = self.found.weight.new_zeros(len(index), int(count.max())).index_put(
            (owner, number), self.found.weight[chosen]
        )
        return first + torch.multinomial(table, 1).squeeze(-1), torch.arange(len(index))

    def forward(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Energies ``(B,)``, forces ``(B, n, 3)`` and the variance of energies over the poses ``(B,)``."""
        chosen, owner = self.pick(index)
        each, weight, (turned, torque, slope) = self._parts(index, chosen, owner)
        force = -each.new_zeros(len(index), *turned.shape[1:]).index_add(0, owner, turned + torque + slope)
        energy = each.new_zeros(len(index)).index_add(0, owner, weight * each)
        spread = each.new_zeros(len(index)).index_add(0, owner, weight * (each - energy[owner]).square())
        return energy, force, spread

    def _parts(self, index: Tensor, chosen: Tensor, owner: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Of each pose the energy, the weight, and the three terms of its gradient."""
        found, mask = self.found, self.mask[index][owner]
        weight, slope, turn, spin = (x[chosen] for x in (found.weight, found.slope, found.turn, found.spin))
        if self.draw:  # a drawn pose stands for 1 / w of its kind
            weight, slope = torch.ones_like(weight), slope / weight[:, None, None]
        with torch.enable_grad():
            c = found.shown[chosen].requires_grad_()
            energy = self.backbone(c, self.species[index][owner], mask)
            (pull,) = torch.autograd.grad(energy.sum(), c, create_graph=True)
        moment = c.detach().mT @ pull
        moment = torch.stack([moment[:, a, b] - moment[:, b, a] for a, b in PAIRS], -1)
        share = weight[:, None, None]
        turned, torque = share * centred(pull @ turn.mT, mask), share * torch.einsum("ka,kanc->knc", moment, spin)
        known = energy - self.expected[index][owner]
        return energy, weight, (turned, torque, slope * known[:, None, None])

    def parts(self, index: Tensor) -> dict[str, float]:
        """Mean absolute values of the three terms of the forces on atoms, in the order of the formula above."""
        totals = [torch.zeros(()) for _ in range(3)]
        for start in range(0, len(index), CHUNK):
            some = index[start : start + CHUNK]
            chosen, owner = self.pick(some)
            _, _, terms = self._parts(some, chosen, owner)
            for number, term in enumerate(terms):
                force = term.new_zeros(len(some), *term.shape[1:]).index_add(0, owner, term.detach())
                totals[number] = totals[number] + force.abs().sum()
        atoms = 3 * self.mask[index].sum()
        return dict(zip(("backbone", "turning", "weights"), (float(x / atoms) for x in totals), strict=True))
