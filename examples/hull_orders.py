"""Volumes of convex hulls, by a network that sees points in a canonical order: the default one, or a Hilbert curve's.

The data and the network are those of `minframe reproduce hull --no-shear`, but with fewer clouds and epochs: sixteen
points from a normal distribution in five dimensions, under S() * O(5). The weights of the last epoch are tested.
"""

from __future__ import annotations

from typing import Any

import torch
from common import arguments, bars, save, show, spread, track
from torch import Tensor, nn

import minframe as mf
from minframe_lab.experiments.hull.backbone import CloudNetwork
from minframe_lab.experiments.hull.data import DIMENSION, generate

ORDERS = {"default": mf.S() * mf.O(DIMENSION), "Hilbert curve": mf.S(curve="hilbert") * mf.O(DIMENSION)}


def train(x: Tensor, y: Tensor, seed: int, epochs: int, what: str) -> nn.Module:
    """A network for poses ``(B, 16, 5)`` with volumes ``(B,)``."""
    torch.manual_seed(seed)
    net = CloudNetwork()
    optimizer = torch.optim.AdamW(net.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, epochs * -(-len(x) // 128))
    for _ in track(range(epochs), what):
        for batch in torch.randperm(len(x)).split(128):
            loss = (net(x[batch]) - y[batch]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return net.eval()


def main() -> None:
    """Both orders, over all seeds."""
    options = arguments(__doc__ or "")
    count, epochs, seeds = (50, 1, 1) if options.quick else (2000, 25, options.seeds or 3)
    data = {split: generate(split, count if split == "train" else count // 3) for split in ("train", "test")}
    rows: list[tuple[str, str, str]] = []
    results: dict[str, Any] = {}
    for name, group in ORDERS.items():
        # Poses are the same in every epoch, and volumes invariant: they are computed once.
        poses = {
            split: torch.cat([mf.canonicalize(part - part.mean(1, keepdim=True), group)[0] for part in x.split(500)])
            for split, (x, _) in data.items()
        }
        step = poses["test"].diff(dim=1).norm(dim=-1).mean()
        errors = []
        for seed in range(seeds):
            net = train(poses["train"], data["train"][1], seed, epochs, f"{name}, seed {seed}")
            with torch.no_grad():
                errors.append(float((net(poses["test"]) - data["test"][1]).square().mean()))
        results[name] = {"mse": errors, "step": float(step)}
        rows.append((name, spread(errors), f"{step:.3f}"))
    variance = float(data["test"][1].var())
    rows.append(("the mean of all volumes", f"{variance:.4g}", ""))
    show("Volumes of convex hulls", ("order", "test MSE", "mean distance of neighbours in the order"), rows)
    results["variance"] = variance
    save("hull_orders", {"clouds": count, "epochs": epochs, "seeds": seeds}, results, options.quick)
    bars("hull_orders", "test MSE", {name: [results[name]["mse"]] for name in ORDERS}, ("MSE",), options.quick)


if __name__ == "__main__":
    main()
