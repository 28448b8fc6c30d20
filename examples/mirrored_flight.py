"""A flyer with two rotors, and its mirror image: augmentation, a symmetry loss, and exact symmetry by wrapping.

The state is (x, y, angle, vx, vy, spin) and the action the thrust of the left and of the right rotor. A mirror changes
the signs of x, angle, vx and spin, and exchanges the rotors. The task is to come to rest at the origin. Policies are
trained by gradients through the simulation, with equal numbers of flights; the return is measured on other flights.
"""

from __future__ import annotations

import torch
from common import arguments, bars, save, show, spread, track
from torch import Tensor, nn

import minframe as mf

MIRROR = mf.Finite({"observation": [[1, 2, 3, 4, 5, 6], [-1, 2, -3, -4, 5, -6]], "action": [[1, 2], [2, 1]]})
SWAP = torch.tensor(1)  # the element that is not the identity
WRAPPED = {"wrapped": mf.frames.Minimal(), "wrapped, smooth": mf.frames.Smooth(sharpness=8.0, unit=0.5)}
METHODS = {"plain": None, "augmentation": None, "symmetry loss": None, **WRAPPED}


def starts(count: int, generator: torch.Generator) -> Tensor:
    """States ``(count, 6)``."""
    return torch.randn(count, 6, generator=generator) * torch.tensor([1.5, 1.0, 0.4, 0.8, 0.8, 0.4])


def fly(policy: nn.Module, state: Tensor, steps: int, dt: float = 0.05) -> tuple[Tensor, Tensor]:
    """The return of each flight ``(B,)`` and all observations ``(steps, B, 6)``."""
    total, seen = torch.zeros(len(state)), []
    for _ in range(steps):
        seen.append(state)
        left, right = (2 * torch.sigmoid(policy(state))).unbind(-1)  # each holds half of the weight at 1
        (x, y, angle, vx, vy, spin), lift = state.unbind(-1), (left + right) / 2
        vx = vx - dt * 10 * lift * angle.sin()
        vy = vy + dt * 10 * (lift * angle.cos() - 1)
        spin = spin + dt * (6 * (right - left) - spin)
        state = torch.stack([x + dt * vx, y + dt * vy, angle + dt * spin, vx, vy, spin], -1).clamp(-20, 20)
        cost = x.square() + y.square() + 0.1 * (vx.square() + vy.square() + spin.square()) + (1 - angle.cos())
        total = total - dt * (cost + 0.01 * (left - 1).square() + 0.01 * (right - 1).square())
    return total, torch.stack(seen)


def asymmetry(policy: nn.Module, seen: Tensor) -> Tensor:
    """How far the action for a mirrored observation is from the mirrored action."""
    return policy(MIRROR.act(SWAP, seen)) - MIRROR.act(SWAP, policy(seen), "action")


def train(method: str, seed: int, iterations: int, steps: int, batch: int = 64) -> tuple[float, float]:
    """Mean return and largest residual of the action, on flights that were not trained on."""
    torch.manual_seed(seed)
    source = torch.Generator().manual_seed(seed)
    net: nn.Module = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
    if METHODS[method] is not None:
        net = mf.Equivariant(net, MIRROR, inputs="observation", outputs="action", frames=METHODS[method])
    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, iterations)
    for _ in track(range(iterations), f"{method}, seed {seed}"):
        state = starts(batch, source)
        if method == "augmentation":
            state = torch.cat([state[: batch // 2], MIRROR.act(SWAP, state[: batch // 2])])
        value, seen = fly(net, state, steps)
        loss = -value.clamp_min(-100).mean()
        if method == "symmetry loss":
            loss = loss + 4 * asymmetry(net, seen.detach().flatten(0, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        value, seen = fly(net, starts(1000, torch.Generator().manual_seed(2_000_000)), 100)
        actions = net(seen[::10].flatten(0, 1))
        residual = asymmetry(net, seen[::10].flatten(0, 1)).abs().max() / actions.abs().max()
    return float(value.mean()), float(residual)


def main() -> None:
    """All methods, over all seeds."""
    options = arguments(__doc__ or "")
    iterations, steps, seeds = (3, 10, 1) if options.quick else (120, 40, options.seeds or 5)
    results = {m: [train(m, seed, iterations, steps) for seed in range(seeds)] for m in METHODS}
    rows = [(m, spread([r for r, _ in of]), f"{max(e for _, e in of):.1e}") for m, of in results.items()]
    show("A flyer and its mirror image", ("method", "return", "largest residual over largest action"), rows)
    save("mirrored_flight", {"iterations": iterations, "steps": steps, "seeds": seeds}, results, options.quick)
    bars(
        "mirrored_flight", "return", {m: [[r for r, _ in of]] for m, of in results.items()}, ("return",), options.quick
    )


if __name__ == "__main__":
    main()
