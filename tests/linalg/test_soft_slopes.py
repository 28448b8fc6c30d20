"""Derivatives of smooth poses in C: those of PyTorch's operations, in every way that they can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.layout import Dense, Layout, Ragged
from minframe.linalg import loops, soft_slopes
from minframe.linalg.soft import Rule
from minframe.linalg.soft_derivatives import differentiable_poses

pytestmark = pytest.mark.skipif(soft_slopes.library is None, reason="the extension is not built")

Compute = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def derivatives(compute: Compute, rows: Tensor) -> Iterator[Tensor]:
    """Of a sum of weights and bases that is not linear in them, and of rows: first, and second along a direction."""
    rows = rows.clone().requires_grad_()
    weight, basis, length2 = compute(rows)
    total = (weight * normal(*weight.shape, seed=1)).sum() + (basis.sin() * normal(*basis.shape, seed=2)).sum()
    total = total + (weight[:, None, None] * basis.square() * normal(*basis.shape, seed=3)).sum() + rows.square().sum()
    total = total + (length2.sin() * normal(*length2.shape, seed=12)).sum()
    (slope,) = torch.autograd.grad(total, rows, create_graph=True)
    yield slope.detach()
    (change,) = torch.autograd.grad((slope * normal(*slope.shape, seed=4)).sum(), rows)
    yield change


def compare(rows: Tensor, layout: Layout, rule: Rule) -> int:
    """How many poses were compared; the lengths of the axes of every third are differentiated too."""
    found = loops.soft_poses(rows, layout, rule, 1e-15, None)
    short = torch.arange(len(found.sample)) % 3 == 0

    def by(module: Callable[..., object]) -> Compute:
        def compute(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            poses = module(x, layout, rule, found, short)
            return poses.weight, poses.basis, poses.length2[short]  # type: ignore[attr-defined]

        return compute

    compiled, plain = (derivatives(by(f), rows) for f in (soft_slopes.differentiable_poses, differentiable_poses))
    for got, want in zip(compiled, plain, strict=True):
        assert float((got - want).abs().max()) <= 1e-8 * float(want.abs().max().clamp_min(1e-12))
    return len(found.sample)


@pytest.mark.parametrize("sharpness", [8.0, 17.3])
@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_first_and_second_derivatives_are_those_of_pytorch(d: int, special: bool, sharpness: float) -> None:
    """Of clouds of many sizes, in planes and near solids too; with a mask and with a batch vector."""
    rule = Rule(sharpness, special, moments=False)
    sizes = 2 + torch.arange(20) % 7
    index = torch.repeat_interleave(torch.arange(20), sizes)
    order = torch.randperm(len(index), generator=torch.Generator().manual_seed(5))
    x, index = normal(len(index), d)[order], index[order]
    count = compare(x, Ragged(index, 20), rule)
    mask = torch.arange(9) < torch.tensor([9, 8, 7, 6] * 5).unsqueeze(-1)
    y = normal(20, 9, d, seed=6)
    flat = y.clone()
    flat[..., -1] = 0
    round_ = torch.nn.functional.normalize(y, dim=-1) + 0.05 * normal(20, 9, d, seed=7)
    for cloud in (y, flat, round_):
        count += compare(cloud * mask.unsqueeze(-1), Dense((20,), 9, mask), rule)
    assert count > 80 or (d == 1 and special)  # several poses of some


def energy(frames: mf.frames.Method, group: mf.Group) -> mf.Invariant:
    w = normal(group.d, 6, seed=8)
    return mf.Invariant(lambda x: torch.sin(x @ w).square().sum((-1, -2)), group, frames=frames).eval()


@pytest.mark.parametrize("group", [mf.SE(3), mf.E(2)], ids=str)
def test_every_way_to_differentiate(group: mf.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many directions at once, forwards, by transforms, and three times."""
    model, x = energy(mf.frames.Smooth(12), group), normal(3, 6, group.d, seed=9)
    x[0] = torch.nn.functional.normalize(x[0], dim=-1)  # several poses
    v = normal(*x.shape, seed=10)

    def total(y: Tensor) -> Tensor:
        return model(y).sum()

    def third(y: Tensor) -> Tensor:
        y = y.clone().requires_grad_()
        g = total(y)
        for _ in range(2):
            (g,) = torch.autograd.grad(g, y, create_graph=True)
            g = (g * v).sum()
        return torch.autograd.grad(g, y)[0]

    ways = {
        "gradient": lambda: torch.autograd.functional.jacobian(total, x),
        "rows of the Jacobian at once": lambda: torch.autograd.functional.jacobian(model, x, vectorize=True),
        "Hessian at once": lambda: torch.autograd.functional.hessian(total, x, vectorize=True),
        "Hessian": lambda: torch.autograd.functional.hessian(total, x),
        "third": lambda: third(x),
        "forward": lambda: torch.func.jvp(total, (x,), (v,))[1],
        "forward over backward": lambda: torch.func.jvp(torch.func.grad(total), (x,), (v,))[1],
    }
    found = {name: way() for name, way in ways.items()}
    monkeypatch.setattr(soft_slopes, "library", None)
    for name, way in ways.items():
        torch.testing.assert_close(found[name], way(), rtol=1e-7, atol=1e-7, msg=lambda m, name=name: f"{name}: {m}")


def test_huge_and_tiny_directions() -> None:
    """The imaginary step follows the size of the direction."""
    x = torch.nn.functional.normalize(normal(4, 6, 3), dim=-1).requires_grad_()
    (slope,) = torch.autograd.grad(energy(mf.frames.Smooth(12), mf.SE(3))(x).sum(), x, create_graph=True)
    v = normal(*x.shape, seed=11)
    (want,) = torch.autograd.grad(slope, x, v, retain_graph=True)
    for size in (1e-200, 1e-30, 1e30, 1e100):
        (got,) = torch.autograd.grad(slope, x, v * size, retain_graph=True)
        torch.testing.assert_close(got / size, want, rtol=1e-10, atol=1e-10)
    assert torch.autograd.grad(slope, x, torch.zeros_like(x), retain_graph=True)[0].eq(0).all()
    assert torch.autograd.grad(slope, x, v * torch.nan)[0].isnan().any()


def test_unchecked_models_are_served_too() -> None:
    """Checks of the data are off where molecules move, and all axes are long: nothing is slower for it."""
    x = normal(3, 6, 3).requires_grad_()
    model = energy(mf.frames.Smooth(12), mf.SE(3))
    with mf.unchecked():
        poses = model.frame(x)
    assert poses.weights.grad_fn is not None
    assert "_Poses" in type(poses.weights.grad_fn).__name__
