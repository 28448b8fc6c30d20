"""A plain CNN trained on upright digits, then wrapped: what it knows of turned and mirrored ones.

Canonical poses need not be upright: wrapped without any training a network sees digits in poses that it does not know.
A few epochs of fine-tuning inside the wrapper cure that, and it is then exactly as good on all poses. Digits are those
of scikit-learn, 8 x 8. Quarter turns make some sixes nines, so that no invariant classifier reaches what an upright one
does. Nothing was tuned.
"""

from __future__ import annotations

from typing import Any

import torch
from common import arguments, bars, save, show, spread, track
from sklearn.datasets import load_digits
from torch import Tensor, nn

import minframe as mf

GROUPS = {"Cyclic(4)": mf.Cyclic(4), "Dihedral(4)": mf.Dihedral(4)}


def data(seed: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Images ``(B, 1, 8, 8)`` and labels: 1,000 for training, 797 for the test."""
    digits = load_digits()
    x, y = torch.tensor(digits.images / 16).float().unsqueeze(1), torch.tensor(digits.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    return {name: (x[part], y[part]) for name, part in (("train", order[:1000]), ("test", order[1000:]))}


def cnn() -> nn.Module:
    """Two convolutions and a linear map."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(512, 10)),
    )


def all_poses(x: Tensor, group: mf.Dihedral | mf.Cyclic) -> Tensor:
    """Every image in every pose, ``(G * B, 1, 8, 8)``."""
    return torch.cat([group.act(g, x, "image") for g in group.matrices.to(x.dtype)])


def fit(model: nn.Module, x: Tensor, y: Tensor, epochs: int, what: str, turned: Any = None) -> None:
    """Train; ``turned``: in random poses of that group."""
    optimizer = torch.optim.Adam(model.train().parameters(), 2e-3)
    for _ in track(range(epochs), what):
        for batch in torch.randperm(len(x)).split(100):
            shown = x[batch] if turned is None else turned.act(turned.random(len(batch)), x[batch], "image")
            loss = nn.functional.cross_entropy(model(shown), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor, group: Any) -> list[float]:
    """Upright, over all poses, and the share of images that get more than one answer."""
    model.eval()
    upright = (model(x).argmax(-1) == y).float().mean()
    answers = model(all_poses(x, group)).argmax(-1).view(-1, len(x))
    return [float(upright), float((answers == y).float().mean()), float((answers != answers[0]).any(0).float().mean())]


def run(seed: int, epochs: int) -> dict[str, list[float]]:
    """All models of one seed."""
    torch.manual_seed(seed)
    parts, found, plain = data(seed), {}, cnn()
    x, y = parts["train"]
    fit(plain, x, y, epochs, f"upright, seed {seed}")
    weights = {k: v.clone() for k, v in plain.state_dict().items()}
    for name, group in GROUPS.items():
        plain.load_state_dict(weights)
        found[f"{name}: trained upright"] = accuracy(plain, *parts["test"], group)
        wrapped = mf.Invariant(plain, group, inputs="image")
        found[f"{name}: then wrapped"] = accuracy(wrapped, *parts["test"], group)
        fit(wrapped, x, y, epochs, f"fine-tuned, {name}")
        found[f"{name}: then wrapped and fine-tuned"] = accuracy(wrapped, *parts["test"], group)
        plain.load_state_dict(weights)
        fit(plain, x, y, epochs, f"augmented, {name}", group)
        found[f"{name}: then trained on turned ones"] = accuracy(plain, *parts["test"], group)
    return found


def main() -> None:
    """All seeds, and a table."""
    options = arguments(__doc__ or "")
    epochs, seeds = (1, 1) if options.quick else (15, options.seeds or 3)
    runs = [run(seed, epochs) for seed in range(seeds)]
    results = {name: [r[name] for r in runs] for name in runs[0]}
    rows = [(name, *(spread([100 * of[i] for of in values]) for i in range(3))) for name, values in results.items()]
    show("Digits, % of the test part", ("model", "upright", "all poses", "answer depends on the pose"), rows)
    save("rotated_digits", {"epochs": epochs, "seeds": seeds}, results, options.quick)
    parts = {name: [[100 * of[i] for of in values] for i in range(2)] for name, values in results.items()}
    bars("rotated_digits", "% right", parts, ("upright", "all poses"), options.quick)


if __name__ == "__main__":
    main()
