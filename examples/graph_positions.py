"""Graphs like molecules, with and without positional encodings: how far each node is from the furthest one.

Two rounds of message passing do not see that far; eigenvectors of the Laplacian do. Those that a library returns have
arbitrary signs and bases, which depend on how the nodes are numbered; the usual remedy is to train with random signs.
``mf.spectral.encodings`` follow the nodes exactly, at the price of zeros where an automorphism flips an eigenvector.
"""

from __future__ import annotations

import torch
from common import arguments, bars, save, show, spread, track
from molecules import K, N, Network, library_encodings, molecule
from torch import Tensor

import minframe as mf

VARIANTS = ("none", "eigenvalues", "random signs", "mf.spectral")


def tensors(graphs: list[tuple[Tensor, Tensor]], exact: bool) -> list[Tensor]:
    """Adjacency, kinds, eigenvectors, eigenvalues and distances to the furthest node, padded to ``N`` nodes."""
    found: list[list[Tensor]] = []
    for a, kinds in track(graphs, "mf.spectral" if exact else "eigh"):
        reach, far = torch.eye(len(a), dtype=a.dtype), torch.ones(len(a))
        while not reach.all():
            reach = ((reach + reach @ a) > 0).to(a.dtype)
            far = far + ~reach.bool().all(-1)
        vectors, values = mf.spectral.encodings(a, K, kinds) if exact else library_encodings(a)
        padded = [torch.zeros(size) for size in ((N, N), (N, 4), (N, K), (K,), (N,))]
        for whole, part in zip(padded, (a, torch.eye(4)[kinds], vectors, values, far), strict=True):
            whole[tuple(slice(m) for m in part.shape)] = part
        found.append(padded)
    return [torch.stack(x) for x in zip(*found, strict=True)]


def train(variant: str, seed: int, data: list[Tensor], epochs: int) -> Network:
    """A trained network."""
    net = Network(variant)
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in track(range(epochs), f"{variant}, seed {seed}"):
        for batch in torch.randperm(len(data[0])).split(64):
            *given, target = (x[batch] for x in data)
            error = (net(*given) - target).abs()[target > 0].mean()
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
        schedule.step()
    return net.eval()


def main() -> None:
    """All variants, over all seeds."""
    options = arguments(__doc__ or "")
    count, epochs, seeds = (40, 2, 1) if options.quick else (1500, 20, options.seeds or 3)
    random = torch.Generator().manual_seed(0)
    graphs = [molecule(random) for _ in range(count)]
    cut = count * 4 // 5
    orders = [torch.randperm(len(a), generator=random) for a, _ in graphs[cut:]]
    moved = [(a[p][:, p], kinds[p]) for (a, kinds), p in zip(graphs[cut:], orders, strict=True)]
    back = torch.stack([torch.cat([p.argsort(), torch.arange(len(p), N)]) for p in orders])
    data = {exact: (tensors(graphs, exact), tensors(moved, exact)) for exact in (False, True)}
    results, rows = {}, []
    for variant in VARIANTS:
        (*given, target), (*other, _) = data[variant == "mf.spectral"]
        change = (other[2].gather(1, back.unsqueeze(-1).expand_as(other[2])) - given[2][cut:]).abs().amax((1, 2))
        change = change * (variant in ("random signs", "mf.spectral"))
        errors, differences = [], []
        for seed in range(seeds):
            torch.manual_seed(seed)
            net = train(variant, seed, [x[:cut] for x in (*given, target)], epochs)
            with torch.no_grad():
                y = net(*(x[cut:] for x in given))
                errors.append(float((y - target[cut:]).abs()[target[cut:] > 0].mean()))
                differences.append(float((net(*other).gather(1, back) - y).abs()[target[cut:] > 0].max()))
        share = float((change > 1e-4).float().mean())
        results[variant] = {"mae": errors, "share": share, "change": float(change.max()), "difference": differences}
        rows.append((variant, spread(errors), f"{100 * share:.3g} %", f"{change.max():.2g}", f"{max(differences):.1e}"))
    columns = ("encodings", "test error", "graphs whose encodings change", "largest change", "change of outputs")
    show("Distance to the furthest node; changes by relabelling", columns, rows)
    save("graph_positions", {"graphs": count, "epochs": epochs, "seeds": seeds}, results, options.quick)
    errors = {variant: [of["mae"]] for variant, of in results.items()}
    bars("graph_positions", "test error", errors, ("error",), options.quick)


if __name__ == "__main__":
    main()
