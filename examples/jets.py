"""Jets of massless particles, from one parton or from two: a tagger that boosts do not confuse.

Signal: a particle of mass 80 decays into two partons; background: one parton. Each parton splits into massless
particles. Taggers are trained on jets of 300 to 500 GeV and tested on these, and on the same jets boosted at random. A
jet of massless particles has a frame as any other: the total momentum is time-like.
"""

from __future__ import annotations

import torch
from common import arguments, bars, save, show, spread, track
from torch import Tensor, nn

import minframe as mf

GROUP = mf.OrthochronousLorentz(parity=True)
PARTICLES, MASS = 16, 80.0


def massless(p: Tensor) -> Tensor:
    """Four-momenta ``(..., 4)`` with these three-momenta."""
    return torch.cat([p.norm(dim=-1, keepdim=True), p], -1)


def shower(parton: Tensor, count: int) -> Tensor:
    """``count`` massless particles ``(B, count, 4)`` around partons ``(B, 4)``, which carry its momentum on average."""
    share = torch.distributions.Dirichlet(torch.full((count,), 0.8)).sample((len(parton),)).unsqueeze(-1)
    aside = torch.randn(len(parton), count, 3) * 4 * share.clamp(0.02, 0.3).sqrt()
    return massless(share * parton[:, None, 1:] + aside)


def jets(count: int) -> tuple[Tensor, Tensor]:
    """Jets ``(count, PARTICLES, 4)`` and whether they are signal ``(count,)``."""
    energy = 300 + 200 * torch.rand(count, 1)
    axis, half = nn.functional.normalize(torch.randn(2, count, 3), dim=-1)
    half = half * MASS / 2  # momentum at rest, before the boost along the axis
    gamma, along = energy / MASS, (half * axis).sum(-1, keepdim=True)
    speed = (1 - gamma**-2).sqrt()
    pair = [s * half + axis * ((gamma - 1) * s * along + gamma * speed * MASS / 2) for s in (1, -1)]
    signal = torch.cat([shower(massless(p), PARTICLES // 2) for p in pair], 1)
    alone = shower(massless(axis * energy), PARTICLES)
    label = torch.rand(count) < 0.5
    return torch.where(label[:, None, None], signal, alone) / 100, label.float()


class Tagger(nn.Module):
    """Numbers of each particle, and of pairs through attention; then of the jet."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 32)
        self.attention = nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True)
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, p: Tensor) -> Tensor:
        h = self.first(torch.cat([p, p[..., :1].clamp_min(1e-3).log()], -1))
        return self.head(self.attention(h).mean(-2)).squeeze(-1)


def fit(model: nn.Module, x: Tensor, y: Tensor, epochs: int, what: str, augment: bool = False) -> nn.Module:
    """Train; ``augment``: on boosted jets."""
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in track(range(epochs), what):
        for batch in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            shown = boosted(x[batch]) if augment else x[batch]
            nn.functional.binary_cross_entropy_with_logits(model(shown), y[batch]).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def boosted(x: Tensor) -> Tensor:
    """By random elements, of rapidities up to 1."""
    return GROUP.act(GROUP.random(len(x), max_rapidity=1.0), x, "vector")


def main() -> None:
    """All models, over all seeds."""
    options = arguments(__doc__ or "")
    count, epochs, seeds = (100, 1, 1) if options.quick else (2000, 12, options.seeds or 3)
    results: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        torch.manual_seed(seed)
        (x, y), (test, label) = jets(count), jets(count)
        framed = mf.Invariant(Tagger(), GROUP, inputs="vector", frames=mf.frames.Unordered())
        for name, model in {"plain": Tagger(), "boosts in training": Tagger(), "in frames": framed}.items():
            fit(model, x, y, epochs, f"{name}, seed {seed}", name == "boosts in training")
            with torch.no_grad():
                found = [100 * float(((model(p) > 0) == (label > 0)).float().mean()) for p in (test, boosted(test))]
            results[name] = [[*old, new] for old, new in zip(results.get(name, [[], []]), found, strict=True)]
    show("Jets, % right", ("tagger", "as they are", "boosted"), [(n, *map(spread, of)) for n, of in results.items()])
    save("jets", {"jets": count, "epochs": epochs, "seeds": seeds}, results, options.quick)
    bars("jets", "% right", results, ("as they are", "boosted"), options.quick)


if __name__ == "__main__":
    main()
