"""Images and voxels under the finite groups that map a grid to itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf

D = torch.float64
IMAGES = [mf.Cyclic(1), mf.Cyclic(2), mf.Cyclic(4), mf.Dihedral(1), mf.Dihedral(2), mf.Dihedral(4)]
VOXELS = [mf.Octahedral(), mf.Octahedral(reflections=True)]
CASES = [(g, "image", (5, 5)) for g in IMAGES] + [(g, "voxels", (4, 4, 4)) for g in VOXELS]
by_case = pytest.mark.parametrize(("group", "type", "shape"), CASES, ids=lambda x: str(x))


def net(x: Tensor) -> Tensor:
    """No symmetry at all."""
    w = torch.linspace(-1, 1, x[0, 0].numel(), dtype=x.dtype).view(x.shape[2:]).cos()
    return torch.tanh(x * w) + 0.5 * x.roll(1, -1) * w.flip(-1) + 0.1 * x.roll(1, 1)


def families(shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
    x = torch.randn(2, *shape, dtype=D)
    striped = x[:, :1].expand_as(x).clone()
    half = (x + x.flip(-1)) / 2
    found = {"generic": x, "striped": striped, "mirrored": half, "constant": torch.ones_like(x), "zero": 0 * x}
    found["spinning"] = sum(x.rot90(k, (-1, -2)) for k in range(4)) / 4
    found["one channel"] = torch.stack([x[0], torch.zeros_like(x[1])])
    found["integers"] = x.round()
    found["binary"] = (x > 0).to(D)
    return {name: y.to(dtype) for name, y in found.items()}


@by_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_every_element_on_every_family(group: mf.Group, type: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    model = mf.Equivariant(net, group, inputs=type, outputs=type)
    elements = group.matrices.to(dtype)
    for name, x in families(shape, dtype).items():
        copies = x.expand(len(elements), *x.shape)
        moved = group.act(elements, copies, type)
        frame, moved_frame = group.frame(copies, type), group.frame(moved, type)
        pose = mf.canonicalize(copies, group, type)[0]
        atol = 1e-13 if dtype == D else 1e-6
        torch.testing.assert_close(mf.canonicalize(moved, group, type)[0], pose, atol=atol, rtol=0)
        torch.testing.assert_close(frame.from_canonical(pose, type), copies, atol=atol, rtol=0)
        torch.testing.assert_close(model(moved), group.act(elements, model(copies), type), atol=atol, rtol=0)
        assert frame.size == moved_frame.size, name
        fixed = [torch.equal(group.act(g, x, type), x) for g in elements] if name != "spinning" else []
        assert not fixed or int(frame.size[0]) == sum(fixed), name
        assert bool(group.contains(frame.element).all())


@by_case
def test_elements_compose_on_grids(group: mf.Group, type: str, shape: tuple[int, ...]) -> None:
    g, h = group.random(30, dtype=D), group.random(30, dtype=D)
    x = torch.randn(30, 1, *shape, dtype=D)
    assert torch.equal(group.act(g, group.act(h, x, type), type), group.act(group.compose(g, h), x, type))
    assert torch.equal(group.act(group.inverse(g), group.act(g, x, type), type), x)


def test_points_and_pixels_move_together() -> None:
    # One bright pixel at column, row: x, y from the centre, as grid_sample counts.
    group = mf.Dihedral(4)
    for g in group.matrices:
        for x, y in ((0, 0), (1, 0), (2, 3), (4, 1)):
            image, expected = torch.zeros(1, 5, 5, dtype=D), torch.zeros(1, 5, 5, dtype=D)
            image[0, y, x] = 1
            u, v = (group.act(g, torch.tensor([[x - 2.0, y - 2.0]], dtype=D))[0] + 2).round().int().tolist()
            expected[0, v, u] = 1
            assert torch.equal(group.act(g, image, "image"), expected)
    voxels = mf.Octahedral(reflections=True)
    for g in voxels.matrices:
        grid, expected = torch.zeros(1, 3, 3, 3, dtype=D), torch.zeros(1, 3, 3, 3, dtype=D)
        grid[0, 2, 1, 0] = 1  # x = -1, y = 0, z = 1
        u, v, w = (voxels.act(g, torch.tensor([[-1.0, 0.0, 1.0]], dtype=D))[0] + 1).round().int().tolist()
        expected[0, w, v, u] = 1
        assert torch.equal(voxels.act(g, grid, "voxels"), expected)


@pytest.mark.parametrize("group", [mf.Cyclic(4), mf.Dihedral(4)], ids=str)
def test_images_that_are_not_square(group: mf.Group) -> None:
    model = mf.Equivariant(net, group, inputs="image", outputs="image")
    label = mf.Invariant(lambda x: net(x).flatten(1).sum(-1), group, inputs="image")
    x = torch.randn(6, 3, 4, 7, dtype=D)
    assert mf.canonicalize(x, group, "image")[0].shape == (6, 3, 4, 7)
    for g in group.matrices:
        gx = group.act(g, x, "image")
        assert mf.canonicalize(gx, group, "image")[0].shape == (6, 3, 4, 7)
        torch.testing.assert_close(model(gx), group.act(g, model(x), "image"), atol=1e-13, rtol=0)
        torch.testing.assert_close(label(gx), label(x), atol=1e-12, rtol=0)
    with pytest.raises(ValueError, match="differ in shape"):
        group.act(group.matrices[:6].repeat(2, 1, 1)[:6], x, "image")


def test_voxels_that_are_no_cube() -> None:
    group = mf.Octahedral(reflections=True)
    model = mf.Equivariant(net, group, inputs="voxels", outputs="voxels")
    x = torch.randn(3, 1, 4, 2, 4, dtype=D)
    for g in group.matrices:
        gx = group.act(g, x, "voxels")
        torch.testing.assert_close(model(gx), group.act(g, model(x), "voxels"), atol=1e-13, rtol=0)


def test_images_with_points_and_vectors() -> None:
    group = mf.Dihedral(4)

    def act(image: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        push = image.flatten(1)[:, :2] + torch.tanh(keys.sum(1)) + 0.3
        return push, image * keys[:, :1, :1].unsqueeze(-1)

    model = mf.Equivariant(act, group, inputs={"image": "image", "keys": "point"}, outputs=("vector", "image"))
    image, keys = torch.randn(8, 1, 6, 6, dtype=D), torch.randn(8, 4, 2, dtype=D)
    image[1], keys[2] = 1.0, 0.0
    image[3], keys[3] = 1.0, 0.0
    push, shown = model(image, keys)
    moved = model(group.act(group.matrices, image, "image"), group.act(group.matrices, keys))
    torch.testing.assert_close(moved[0], group.act(group.matrices, push, "vector"), atol=1e-13, rtol=0)
    torch.testing.assert_close(moved[1], group.act(group.matrices, shown, "image"), atol=1e-13, rtol=0)
    assert push[3].abs().max() < 1e-15  # of what has all symmetries, no direction is left


def test_margin_is_rounding_where_the_pose_jumps() -> None:
    group = mf.Dihedral(4)
    one, other = torch.randn(2, 1, 1, 5, 5, dtype=D)
    low, high, start = 0.0, 1.0, int(group.frame(one, "image").choice.first)
    if int(group.frame(other, "image").choice.first) == start:
        other = other.flip(-1)
    assert int(group.frame(other, "image").choice.first) != start
    for _ in range(60):
        middle = (low + high) / 2
        x = one * (1 - middle) + other * middle
        low, high = (middle, high) if int(group.frame(x, "image").choice.first) == start else (low, middle)
    assert float(group.frame(one * (1 - low) + other * low, "image").margin) < 1e-10
    assert float(group.frame(one, "image").margin) > 1e-4


def test_gradients_reach_the_image() -> None:
    model = mf.Invariant(lambda x: net(x).flatten(1).pow(2).sum(-1), mf.Dihedral(4), inputs="image")
    x = torch.randn(3, 1, 4, 4, dtype=D)
    x[1] = x[1] + x[1].flip(-1)
    assert torch.autograd.gradcheck(model, x[::2].clone().requires_grad_())
    y = x.clone().requires_grad_()
    model(y).sum().backward()
    assert y.grad is not None
    assert y.grad.isfinite().all()


def test_bad_grids_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Cyclic\(3\) has no type 'image'"):
        mf.Cyclic(3).frame(torch.randn(2, 1, 4, 4), "image")
    with pytest.raises(TypeError, match="real floating"):
        mf.Cyclic(4).frame(torch.ones(2, 1, 4, 4, dtype=torch.int64), "image")
    with pytest.raises(ValueError, match="must have shape"):
        mf.Equivariant(lambda x: x[0], mf.Cyclic(4), inputs="image", outputs="image")(torch.randn(2, 1, 4, 4))
    with pytest.raises(ValueError, match="NaN"):
        mf.Cyclic(4).frame(torch.full((2, 1, 4, 4), torch.nan), "image")
    with pytest.raises(ValueError, match="mask is for rows"):
        mf.Cyclic(4).frame(torch.randn(2, 1, 4, 4), "image", mask=torch.ones(2, 1, dtype=torch.bool))
    with pytest.raises(ValueError, match="dimension of at least 1"):
        mf.Cyclic(0)
