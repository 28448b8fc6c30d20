"""Which way is up? A point-cloud network that answers with a vector, and turns its answer with the shape.

Shapes made of boxes, of ten kinds, upright or turned. The network is a PointNet with three outputs. ``mf.Equivariant``
makes it turn with its input exactly; beside it the same network as it is, and trained on turned shapes. The error is
the angle between the answer and the axis that was up.
"""

from __future__ import annotations

import torch
from common import arguments, bars, save, show, spread, track
from shapes import PointNet, shapes
from torch import Tensor, nn

import minframe as mf

UP = torch.tensor([0.0, 0.0, 1.0])
METHODS = ("plain", "turned in training", "mf.SE(3)")
GROUP = mf.SE(3)


def turned(x: Tensor) -> tuple[Tensor, Tensor]:
    """Shapes in random poses, and what was up in them."""
    g = GROUP.random(len(x))
    return GROUP.act(g, x), GROUP.act(g, UP.expand(len(x), 3), "vector")


def fit(model: nn.Module, x: Tensor, epochs: int, what: str, augment: bool) -> nn.Module:
    """Train on the direction."""
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in track(range(epochs), what):
        for batch in torch.randperm(len(x)).split(50):
            shown, up = turned(x[batch]) if augment else (x[batch], UP.expand(len(batch), 3))
            optimizer.zero_grad()
            (model(shown) - up).square().mean().backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def angle(model: nn.Module, x: Tensor, up: Tensor) -> float:
    """Mean angle of the answers, in degrees."""
    with torch.no_grad():
        return float(torch.rad2deg(torch.acos(nn.functional.cosine_similarity(model(x), up).clamp(-1, 1))).mean())


def main() -> None:
    """All methods, over all seeds."""
    options = arguments(__doc__ or "")
    count, epochs, seeds = (50, 1, 1) if options.quick else (1000, 12, options.seeds or 3)
    results: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        torch.manual_seed(seed)
        train, test = shapes(count)[0], shapes(max(count // 4, 20))[0]
        for method in METHODS:
            net: nn.Module = PointNet(3, 256)
            if method == "mf.SE(3)":
                net = mf.Equivariant(net, GROUP, outputs="vector", frames=mf.frames.Unordered())
            fit(net, train, epochs, f"{method}, seed {seed}", method == "turned in training")
            angles = angle(net, test, UP.expand_as(test[:, 0])), angle(net, *turned(test))
            results[method] = [[*old, new] for old, new in zip(results.get(method, [[], []]), angles, strict=True)]
    columns = ("network", "upright", "turned")
    show("Up: mean angle, degrees", columns, [(n, *map(spread, of)) for n, of in results.items()])
    save("point_clouds", {"shapes": count, "epochs": epochs, "seeds": seeds}, results, options.quick)
    bars("point_clouds", "mean angle to the right answer, degrees", results, columns[1:], options.quick)


if __name__ == "__main__":
    main()
