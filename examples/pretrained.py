"""A point-cloud network that was trained on upright shapes, made invariant to rotations: with a prior and without.

Shapes are of ten kinds, made of boxes, tubes and discs in random proportions, and stand upright; 64 points of each. A
network is trained on 1,000 of them. Of 66 others labels are known too, to fine-tune with. Canonical poses are not
upright: wrapped as it is, the network sees what it does not know. A prior turns canonical poses upright, and learns how
from the 1,000 shapes without their labels. All are tested on 333 other shapes, upright and turned. The width of the
prior was chosen on other shapes.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from common import arguments, bars, save, show, spread, track
from shapes import KINDS, PointNet, shapes
from torch import Tensor, nn

import minframe as mf

GROUP, UNORDERED = mf.SE(3), mf.frames.Unordered()
Data = tuple[Tensor, Tensor]


def turned(x: Tensor) -> Tensor:
    """In random poses."""
    return GROUP.act(GROUP.random(len(x)), x)


def fit(model: nn.Module, data: Data, epochs: int, what: str, augment: bool = False, rate: float = 2e-3) -> nn.Module:
    """Train on labels."""
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in track(range(epochs), what):
        for batch in torch.randperm(len(data[0])).split(50):
            x = turned(data[0][batch]) if augment else data[0][batch]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), data[1][batch]).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def learn_prior(model: mf.Invariant, x: Tensor, epochs: int, what: str) -> None:
    """Train the prior alone, without labels, on upright shapes."""
    optimizer = torch.optim.Adam(model.prior.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in track(range(epochs), what):
        for batch in torch.randperm(len(x)).split(50):
            optimizer.zero_grad()
            model.prior_loss(x[batch]).backward()
            optimizer.step()
        schedule.step()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Upright, and turned."""
    return tuple(float((model(shown).argmax(-1) == y).float().mean()) for shown in (x, turned(x)))


def run(seed: int, count: int, epochs: int) -> dict[str, tuple[float, float]]:
    """All models of one seed."""
    torch.manual_seed(seed)
    many, few, test = shapes(count), shapes(max(count // 15, 20)), shapes(max(count // 3, 20))
    plain = fit(PointNet(len(KINDS)), many, epochs, f"upright, seed {seed}")
    found = {"trained upright": accuracy(plain, *test)}
    augmented = fit(PointNet(len(KINDS)), many, epochs, "augmented", augment=True)
    found["trained on turned shapes"] = accuracy(augmented, *test)
    framed = mf.Invariant(PointNet(len(KINDS)), GROUP, frames=UNORDERED)
    found["trained in frames"] = accuracy(fit(framed, many, epochs, "framed"), *test)
    prior = mf.prior.Learned(PointNet(9, 256))
    for name, given in {"": None, ", with a prior": prior}.items():
        wrapped = mf.Invariant(deepcopy(plain), GROUP, frames=UNORDERED, prior=given)
        if given is not None:
            learn_prior(wrapped, many[0], 2 * epochs, "prior")
        found[f"pretrained, wrapped{name}"] = accuracy(wrapped.eval(), *test)
        fit(wrapped, few, epochs, f"fine-tuned{name}", rate=5e-4)
        found[f"pretrained, wrapped{name}, fine-tuned"] = accuracy(wrapped, *test)
    scratch = mf.Invariant(PointNet(len(KINDS)), GROUP, frames=UNORDERED)
    found["frames, few labels, not pretrained"] = accuracy(fit(scratch, few, epochs, "few labels"), *test)
    return found


def main() -> None:
    """All seeds, a table and a picture."""
    options = arguments(__doc__ or "")
    count, epochs, seeds = (60, 1, 1) if options.quick else (1000, 15, options.seeds or 3)
    runs = [run(seed, count, epochs) for seed in range(seeds)]
    results = {name: [[100 * r[name][k] for r in runs] for k in range(2)] for name in runs[0]}
    show("Shapes, % right", ("model", "upright", "turned"), [(n, *map(spread, of)) for n, of in results.items()])
    save("pretrained", {"shapes": count, "epochs": epochs, "seeds": seeds}, results, options.quick)
    bars("pretrained", "% right", results, ("upright", "turned"), options.quick)


if __name__ == "__main__":
    main()
