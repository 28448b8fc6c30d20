"""Smooth frames of finite groups: exact, continuous across mirror planes, one larger batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import minframe as mf

D = torch.float64
SMOOTH = mf.frames.Smooth()
MIRROR = mf.Finite({"observation": [[1, 2, 3, 4], [2, 1, -3, 4]], "action": [[1, 2], [2, 1]]})
MATRICES = mf.Dihedral(4).matrices
ROWS = mf.Finite({"a": MATRICES, "action": torch.linalg.det(MATRICES)[:, None, None]}, rows="a")


def net(x: Tensor) -> Tensor:
    """Without any symmetry, from points, images and voxels to the same; smooth."""
    return torch.tanh(x + 0.3 * torch.arange(x.shape[-1], dtype=x.dtype)) + 0.2 * x.roll(1, -1) ** 2


def on_sets(x: Tensor) -> Tensor:
    return net(x) + net(x).mean(-2, keepdim=True)


def to_action(x: Tensor) -> Tensor:
    return torch.stack([net(x).sum(-1), torch.cos(x * torch.linspace(0.3, 1.7, 4, dtype=x.dtype)).sum(-1)], -1)


# (group, type of inputs, shape of a sample, type of outputs, backbone)
CASES: dict[str, tuple[mf.Group, str, tuple[int, ...], str, Callable[[Tensor], Tensor]]] = {
    "mirror": (MIRROR, "observation", (4,), "action", to_action),
    "rows": (ROWS, "a", (5, 2), "a", on_sets),
    "Cyclic(5)": (mf.Cyclic(5), "point", (6, 2), "point", on_sets),
    "Dihedral(3)": (mf.Dihedral(3), "point", (6, 2), "vector", on_sets),
    "image": (mf.Dihedral(4), "image", (2, 5, 5), "image", net),
    "wide image": (mf.Dihedral(2), "image", (2, 3, 5), "image", net),
    "Octahedral": (mf.Octahedral(reflections=True), "point", (5, 3), "pseudovector", on_sets),
    "voxels": (mf.Octahedral(), "voxels", (1, 3, 3, 3), "voxels", net),
    "Signs": (mf.Signs(3), "point", (5, 3), "point", on_sets),
    "sum": (mf.Cyclic(4) + mf.E(2), "point", (5, 4), "point", on_sets),
}
by_case = pytest.mark.parametrize(("group", "type", "shape", "output", "backbone"), CASES.values(), ids=CASES)


def elements(group: mf.Group, count: int, dtype: torch.dtype) -> Tensor:
    if isinstance(group, mf.Finite):
        return torch.arange(count) % group.order
    return group.random(count, dtype=dtype, generator=torch.Generator().manual_seed(3))


@by_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_exact(group, type, shape, output, backbone, dtype) -> None:
    model = mf.Equivariant(backbone, group, inputs=type, outputs=output, frames=SMOOTH)
    g = elements(group, 48, D)
    x = torch.randn(48, *shape, dtype=D)
    x[:12] = x[0]  # one input under several elements
    x[12:16] = 0
    x[16:24] = (x[16:24] + group.act(g[16:24], x[16:24], type)) / 2  # symmetric, if the element is its own inverse
    x[24:32] = x[16:24] + 1e-7 * x[24:32]  # nearly
    moved = group.act(g, x, type).to(dtype)
    y, z = model(x.to(dtype)).double(), model(moved).double()
    expected = group.act(g, y, output)
    size = y.flatten(1).norm(dim=-1).clamp_min(0.3)
    error = (z - expected).flatten(1).norm(dim=-1) / size
    assert error.max() <= (1e-11 if dtype == D else 1e-5)


def largest_step(model: Callable[[Tensor], Tensor], one: Tensor, other: Tensor) -> float:
    """The largest step of an output between neighbours on a path, refined where it changes most."""
    low, high = 0.0, 1.0
    step = torch.inf
    for _ in range(14):
        t = torch.linspace(low, high, 129, dtype=D)
        y = model(torch.stack([one + s * (other - one) for s in t])).flatten(1)
        steps = (y[1:] - y[:-1]).abs().amax(-1)
        at, step = int(steps.argmax()), float(steps.max())
        low, high = float(t[at]), float(t[at + 1])
    return step


@by_case
def test_continuous_along_paths(group, type, shape, output, backbone) -> None:
    model = mf.Equivariant(backbone, group, inputs=type, outputs=output, frames=SMOOTH)
    for _ in range(4):
        one, other = torch.randn(2, *shape, dtype=D)
        assert largest_step(model, one, other) < 1e-8


def test_continuous_across_the_mirror_plane() -> None:
    o = torch.randn(4, dtype=D)
    mirrored = MIRROR.act(torch.tensor(1), o)
    smooth = mf.Equivariant(to_action, MIRROR, inputs="observation", outputs="action", frames=SMOOTH)
    hard = mf.Equivariant(to_action, MIRROR, inputs="observation", outputs="action")
    assert largest_step(smooth, o, mirrored) < 1e-8
    assert largest_step(hard, o, mirrored) > 1e-3  # what the test would see
    middle = (o + mirrored) / 2
    assert smooth.frame(middle).size == 2
    action = smooth(middle)
    assert torch.equal(action[0], action[1])


def test_unit_makes_zero_continuous() -> None:
    def at_zero(frames: mf.frames.Smooth) -> float:
        model = mf.Equivariant(to_action, MIRROR, inputs="observation", outputs="action", frames=frames)
        return float((model(1e-9 * torch.randn(50, 4, dtype=D)) - model(torch.zeros(4, dtype=D))).abs().max())

    assert at_zero(SMOOTH) > 1e-2
    assert at_zero(mf.frames.Smooth(unit=1.0)) < 1e-6
    points = mf.Equivariant(on_sets, mf.Cyclic(4), frames=mf.frames.Smooth(unit=1.0))
    assert (points(1e-9 * torch.randn(50, 6, 2, dtype=D)) - points(torch.zeros(6, 2, dtype=D))).abs().max() < 1e-6
    with pytest.raises(ValueError, match="unit must be"):
        mf.frames.Smooth(unit=-1.0)


@pytest.mark.parametrize("name", ["rows", "Cyclic(5)", "Octahedral", "Signs", "sum"])
def test_independent_of_the_order_of_rows(name: str) -> None:
    group, type, shape, output, backbone = CASES[name]
    model = mf.Equivariant(backbone, group, inputs=type, outputs=output, frames=SMOOTH)
    x, p = torch.randn(7, *shape, dtype=D), torch.randperm(shape[0])
    torch.testing.assert_close(model(x[:, p]), model(x)[:, p], atol=1e-12, rtol=0)


def test_masks_and_batch_vectors_and_chunks() -> None:
    clouds = [torch.randn(n, 2, dtype=D) for n in (4, 2, 3)]
    group = mf.Dihedral(4)
    alone = [mf.Equivariant(net, group, frames=SMOOTH)(x) for x in clouds]
    batch = torch.tensor([0] * 4 + [1] * 2 + [2] * 3)
    for frames in (SMOOTH, mf.frames.Smooth(chunk=2)):
        ragged = mf.Equivariant(lambda x, batch: net(x), group, {"x": "point"}, batch="batch", frames=frames)
        torch.testing.assert_close(ragged(torch.cat(clouds), batch=batch), torch.cat(alone))
        padded, mask = torch.full((3, 6, 2), torch.nan, dtype=D), torch.zeros(3, 6, dtype=torch.bool)
        for i, x in enumerate(clouds):
            padded[i, 1 : 1 + len(x)], mask[i, 1 : 1 + len(x)] = x, True
        masked = mf.Equivariant(lambda x, mask: net(x), group, {"x": "point"}, mask="mask", frames=frames)
        torch.testing.assert_close(masked(padded, mask=mask)[mask], torch.cat(alone))


def test_one_call_of_the_backbone_and_few_poses() -> None:
    calls = []

    def backbone(o: Tensor) -> Tensor:
        calls.append(len(o))
        return to_action(o)

    model = mf.Equivariant(backbone, MIRROR, inputs="observation", outputs="action", frames=SMOOTH)
    model(torch.randn(10, 20, 4, dtype=D))
    assert len(calls) == 1
    assert 200 <= calls[0] < 240


@by_case
def test_gradients(group, type, shape, output, backbone) -> None:
    model = mf.Equivariant(backbone, group, inputs=type, outputs=output, frames=SMOOTH)
    x = torch.randn(1, *shape, dtype=D)
    g = elements(group, 2, D)[1:]
    near = x + group.act(g, x, type) + 1e-3 * torch.randn(1, *shape, dtype=D)
    for point in (x, near):
        assert torch.autograd.gradcheck(model, point.clone().requires_grad_(), fast_mode=True)
    zero = torch.zeros(1, *shape, dtype=D, requires_grad=True)
    assert torch.autograd.grad(model(zero).sum(), zero)[0].isfinite().all()


def test_draws_are_right_in_expectation() -> None:
    model = mf.Equivariant(to_action, MIRROR, inputs="observation", outputs="action")
    o = torch.randn(4, dtype=D)
    o = (o + MIRROR.act(torch.tensor(1), o)) / 2 + 1e-3 * torch.randn(4, dtype=D)
    drawn = mf.Equivariant(
        to_action, MIRROR, inputs="observation", outputs="action", frames=mf.frames.Smooth(samples=1, seed=0)
    )
    drawn.train()
    mean = drawn(o.expand(4000, 4)).mean(0)
    exact = drawn.eval()(o)
    assert (mean - exact).abs().max() < 0.1
    assert (model(o) - exact).abs().max() > 0.0


def test_unordered_is_refused_where_rows_have_an_order() -> None:
    unordered = mf.frames.Unordered()
    with pytest.raises(ValueError, match="Smooth"):
        mf.Equivariant(on_sets, ROWS, inputs="a", outputs="a", frames=unordered)(torch.randn(5, 2))
    with pytest.raises(ValueError, match="ignore the order of rows"):
        mf.Equivariant(on_sets, mf.SignedPermutations(3), frames=unordered)(torch.randn(5, 3))
    with pytest.raises(ValueError, match="serves"):
        mf.Equivariant(on_sets, mf.SignedPermutations(3), frames=SMOOTH)(torch.randn(5, 3))
    o = torch.randn(6, 4, dtype=D)  # without rows it is nothing special
    models = [
        mf.Equivariant(to_action, MIRROR, "observation", "action", frames=f) for f in (unordered, mf.frames.Minimal())
    ]
    assert torch.equal(models[0](o), models[1](o))
