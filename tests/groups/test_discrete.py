"""Finite groups of matrices against brute force: the frame is all elements that lead to the canonical pose."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import minframe as mf
from table import randn

D = torch.float64
TYPES = ("point", "vector", "covector", "pseudovector", "pseudoscalar", "tensor", "cotensor")


def signed_permutations(k: int) -> Tensor:
    eye = torch.eye(k, dtype=D)
    signs = torch.tensor(list(itertools.product((1.0, -1.0), repeat=k)), dtype=D)
    return torch.cat([eye[list(p)] * signs.unsqueeze(-1) for p in itertools.permutations(range(k))])


def elements(group: mf.Group) -> Tensor:
    """All of them."""
    if isinstance(group, mf.SignedPermutations):
        return signed_permutations(group.d)
    if isinstance(group, mf.Signs):
        return torch.diag_embed(torch.tensor(list(itertools.product((1.0, -1.0), repeat=group.d)), dtype=D))
    return group.matrices


GROUPS = [
    *(mf.Cyclic(n) for n in (1, 2, 3, 4, 6)),
    *(mf.Dihedral(n) for n in (1, 2, 3, 4, 6)),
    mf.Octahedral(),
    mf.Octahedral(reflections=True),
    *(mf.Signs(k) for k in (1, 3)),
    *(mf.SignedPermutations(k) for k in (1, 2, 3, 4)),
]
by_group = pytest.mark.parametrize("group", GROUPS, ids=str)


def clouds(d: int) -> dict[str, Tensor]:
    x = torch.randn(4, d, dtype=D)
    found = {"generic": x, "zero": 0 * x}
    found["equal columns"] = x[:, :1].expand(4, d).clone()
    found["columns equal up to sign"] = found["equal columns"] * torch.linspace(-1, 1.5, d, dtype=D).sign()
    found["along the first axis"] = torch.cat([x[:, :1], 0 * x[:, 1:]], -1)
    found["two equal columns"] = torch.cat([x[:, :1], x[:, :1], x], -1)[:, :d]
    found["two zero columns"] = torch.cat([0 * x[:, :2], x], -1)[:, :d]
    found["an equal pair and a zero"] = torch.cat([0 * x[:, :1], x[:, :1], -x[:, :1], x], -1)[:, :d]
    found["the last axis"] = torch.cat([0 * x[:, 1:], x[:, :1]], -1)
    return found


@by_group
def test_elements_are_a_group(group: mf.Group) -> None:
    g = elements(group)
    assert len(torch.unique(g.round(decimals=9), dim=0)) == len(g)
    assert bool(group.contains(g).all())
    products = (g.unsqueeze(1) @ g).flatten(0, 1)
    assert bool(group.contains(products).all())
    assert not bool(group.contains(mf.O(group.d).random(20, dtype=D)).any()) or group.d == 1
    drawn = group.random(40 * len(g), dtype=D)
    counts = ((drawn.flatten(1) @ g.flatten(1).mT).argmax(-1)).bincount(minlength=len(g))
    assert counts.min() > 10


@by_group
@pytest.mark.parametrize("type", TYPES)
def test_averages_are_those_over_all_elements_that_lead_to_the_pose(group: mf.Group, type: str) -> None:
    g = elements(group)
    kind = group.type(type)
    for name, x in clouds(group.d).items():
        frame = group.frame(x)
        pose = frame.to_canonical(x)
        found = group.act(g, pose.expand(len(g), *pose.shape))
        members = g[(found - x).abs().amax((-2, -1)) <= 1e-12 * (1 + x.abs().max())]
        assert float(frame.size) == len(members), name
        y = torch.randn(2, *(group.d,) * kind.core_ndim, dtype=D)
        expected = group.act(members, y.expand(len(members), *y.shape), type).mean(0)
        torch.testing.assert_close(frame.from_canonical(y, type), expected, atol=1e-12, rtol=0)
        # What else a backbone is shown: the same for every element of the frame.
        inverses = torch.linalg.inv(members)
        expected = group.act(inverses, y.expand(len(members), *y.shape), type).mean(0)
        torch.testing.assert_close(frame.pose(y, type), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    "group", [mf.Cyclic(5), mf.Dihedral(4), mf.Octahedral(), mf.Signs(3), mf.SignedPermutations(3)], ids=str
)
def test_masks_batch_vectors_and_single_clouds_agree(group: mf.Group) -> None:
    clouds = [torch.randn(n, group.d, dtype=D) for n in (4, 7, 5)]
    alone = [mf.canonicalize(x, group)[0] for x in clouds]
    batch = torch.tensor([0] * 4 + [1] * 7 + [2] * 5)
    ragged = mf.canonicalize(torch.cat(clouds), group, batch=batch)[0]
    torch.testing.assert_close(ragged, torch.cat(alone), atol=1e-13, rtol=1e-13)
    padded, mask = torch.full((3, 7, group.d), torch.nan, dtype=D), torch.zeros(3, 7, dtype=torch.bool)
    for i, x in enumerate(clouds):
        padded[i, -len(x) :], mask[i, -len(x) :] = x, True
    pose = mf.canonicalize(padded, group, mask=mask)[0]
    torch.testing.assert_close(pose[mask], torch.cat(alone), atol=1e-13, rtol=1e-13)


def test_signed_permutations_are_not_enumerated() -> None:
    group = mf.SignedPermutations(40)
    x = randn(mf.O(40), 3, 10, 40)
    x[0, :, :20] = 0
    x[1, :, 5] = -x[1, :, 7]
    g = group.random(3, dtype=D)
    gx = group.act(g, x)
    assert torch.equal(mf.canonicalize(gx, group)[0], mf.canonicalize(x, group)[0])
    assert group.frame(x).size == [2.0**20 * 2432902008176640000, 2, 1]
    assert torch.equal(mf.canonicalize(gx[..., :16], mf.Signs(16))[0].abs(), gx[..., :16].abs())


def test_vectors_and_points_together() -> None:
    for group in (mf.Dihedral(4), mf.Signs(2), mf.SignedPermutations(2)):
        x = torch.tensor([[1.0, 0], [-1, 0]], dtype=D).expand(3, 2, 2)
        v = torch.randn(3, 2, 2, dtype=D)
        model = mf.Equivariant(lambda x, v: torch.tanh(x + 0.3) + v**3, group, inputs={"x": "point", "v": "vector"})
        assert mf.testing.equivariance_error(model, group, x, v).max() < 1e-12
        alone = mf.Equivariant(
            lambda x, v: torch.tanh(x + 0.3) + v**3, group, inputs={"x": "point", "v": "vector"}, frame_on="x"
        )
        assert mf.testing.equivariance_error(alone, group, x, v).max() < 1e-12


ROTATIONS = [mf.Cyclic(1), mf.Cyclic(4), mf.Cyclic(6), mf.Dihedral(4), mf.Octahedral(), mf.Octahedral(reflections=True)]


def ordered_net(x: Tensor) -> Tensor:
    place = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * 0.1
    return torch.tanh(x * torch.linspace(0.5, 2, x.shape[-1], dtype=x.dtype) + 0.2) + place * x


@pytest.mark.parametrize("group", ROTATIONS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_products_with_permutations(group: mf.Group, dtype: torch.dtype) -> None:
    both = mf.S() * group
    d = group.d
    x = torch.randn(6, d, dtype=D)
    axes = torch.cat([torch.eye(d, dtype=D), -torch.eye(d, dtype=D)])
    families = {
        "generic": x,
        "axes": axes,
        "zero": 0 * x,
        "opposite": torch.cat([x, -x]),
        "line": x * axes[0],
        "one": x[:1],
    }
    families["duplicated"] = torch.cat([x, x[:3]])
    model = mf.Equivariant(ordered_net, both)
    bound = mf.testing.bound(both, dtype)
    for name, cloud in families.items():
        copies = cloud.expand(30, *cloud.shape).contiguous()
        g = both.random(30, n=len(cloud), dtype=D)
        moved = both.act(g, copies).to(dtype)
        plain = model(copies.to(dtype)).double()
        error = (model(moved).double() - both.act(g, plain)).flatten(1).norm(dim=1).max()
        assert error <= bound * (1 + plain.flatten(1).norm(dim=1).max()), name
        pose, frame = mf.canonicalize(copies.to(dtype), both)
        torch.testing.assert_close(mf.canonicalize(moved, both)[0], pose, atol=10 * bound, rtol=0)
        back = frame.from_canonical(frame.to_canonical(copies.to(dtype)))
        torch.testing.assert_close(back, copies.to(dtype), atol=10 * bound, rtol=0)
        assert bool(both.contains(frame.element).all())


def test_size_of_products_counts_pairs() -> None:
    square = torch.tensor([[1.0, 1], [-1, 1], [-1, -1], [1, -1]], dtype=D)
    assert (mf.S() * mf.Dihedral(4)).frame(square).size == 8
    assert (mf.S() * mf.Cyclic(2)).frame(square).size == 2
    assert (mf.S() * mf.Cyclic(2)).frame(torch.cat([square, square])).size == 2 * 2**4
    assert (mf.S() * mf.Cyclic(3)).frame(square).size == 1


@pytest.mark.parametrize("frames", ["product", "unordered"])
def test_kinds_bonds_masks_and_batch_vectors(frames: str) -> None:
    group = mf.Dihedral(4)
    both = mf.S() * group if frames == "product" else group
    method = mf.frames.Minimal() if frames == "product" else mf.frames.Unordered()
    square = torch.tensor([[1.0, 1], [-1, 1], [-1, -1], [1, -1], [0, 0]], dtype=D)
    x = torch.stack([square, square, torch.randn(5, 2, dtype=D)])
    kinds = torch.tensor([[0, 0, 0, 0, 1], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]])
    bonds = torch.zeros(3, 5, 5, dtype=D)
    bonds[0, 0, 1] = bonds[0, 1, 0] = 1
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[2, 1] = False

    def net(x: Tensor, kinds: Tensor, bonds: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.tanh(x + 0.3 * kinds.unsqueeze(-1) + 0.1) * mask.unsqueeze(-1)
        y = y + bonds @ y + y.sum(-2, keepdim=True) * mask.unsqueeze(-1)
        return y, (y @ y.roll(1, -1).mT)

    types = {"x": "point", "kinds": "node", "bonds": "edge"}
    model = mf.Equivariant(net, both, inputs=types, outputs=("vector", "edge"), mask="mask", frames=method)
    y, pairs = model(x, kinds, bonds, mask=mask)
    for g in group.matrices:
        p = torch.randperm(5)
        z, moved = model((x @ g.mT)[:, p], kinds[:, p], bonds[:, p][:, :, p], mask=mask[:, p])
        torch.testing.assert_close(z[mask[:, p]], (y @ g.mT)[:, p][mask[:, p]], atol=1e-12, rtol=0)
        torch.testing.assert_close(moved, pairs[:, p][:, :, p], atol=1e-12, rtol=0)
    rows, batch = torch.cat([square, torch.randn(3, 2, dtype=D)]), torch.tensor([0, 1, 0, 0, 1, 0, 0, 1])
    flat = mf.Equivariant(
        lambda x, batch: torch.tanh(x + 0.3), both, inputs={"x": "point"}, batch="batch", frames=method
    )
    g, p = group.matrices[5], torch.randperm(8)
    moved = flat((rows @ g.mT)[p], batch=batch[p])
    torch.testing.assert_close(moved, (flat(rows, batch=batch) @ g.mT)[p], atol=1e-12, rtol=0)


@pytest.mark.parametrize("n", [5, 12, 30, 60, 100])
def test_regular_polygons_are_told_from_the_same_half_a_step_further(n: int) -> None:
    angle = 2 * torch.pi * torch.arange(n, dtype=D) / n + 0.1
    x = torch.stack([angle.cos(), angle.sin()], -1)
    both = mf.S() * mf.Cyclic(4)
    assert both.frame(x).size == {0: 4, 2: 2}.get(n % 4, 1)
    model = mf.Equivariant(ordered_net, both)
    for g in mf.Cyclic(4).matrices:
        p = torch.randperm(n)
        torch.testing.assert_close(model((x @ g.mT)[p]), (model(x) @ g.mT)[p], atol=1e-12, rtol=0)


def test_columns_that_differ_later_have_no_margin() -> None:
    """Any change of the first row decides between them; equal columns decide nothing."""
    group = mf.SignedPermutations(2)
    x = torch.tensor([[[1.0, 1], [3, 2]], [[1, 1], [3, 3]], [[2, 1], [3, 3]]], dtype=torch.float64)
    assert (group.frame(x).margin == 0).tolist() == [True, False, False]
    mask = torch.tensor([[False, True, True]]).expand(3, 3)
    padded = torch.cat([torch.full((3, 1, 2), torch.nan, dtype=torch.float64), x], 1)
    assert torch.equal(group.frame(padded, mask=mask).margin, group.frame(x).margin)


@pytest.mark.parametrize(("dtype", "noise", "bound"), [(torch.float32, 1.2e-5, 1e-5), (torch.float64, 3e-12, 3e-12)])
def test_poses_that_agree_in_all_scores_by_accident_are_not_averaged(
    dtype: torch.dtype, noise: float, bound: float
) -> None:
    angle = 2 * math.pi / 7 * torch.arange(7, dtype=torch.float64)
    flat = torch.stack([angle.cos(), angle.sin(), 0 * angle], -1)
    x = (flat + noise * torch.randn(4000, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).to(
        dtype
    )
    matrices = mf.Octahedral(reflections=True).matrices
    for group in (mf.Octahedral(reflections=True), mf.Finite({"point": matrices}, rows="point")):
        model = mf.Equivariant(lambda x: x, group, inputs="point", outputs="point")
        assert ((model(x) - x).norm(dim=(1, 2)) / x.norm(dim=(1, 2))).max() < bound


def test_grids_that_agree_in_all_scores_by_accident_are_not_averaged() -> None:
    half = torch.randn(3000, 1, 4, 2, generator=torch.Generator().manual_seed(0))
    x = torch.cat([half, half.flip(-1)], -1) + 1.2e-5 * torch.randn(
        3000, 1, 4, 4, generator=torch.Generator().manual_seed(1)
    )
    model = mf.Equivariant(lambda x: x, mf.Dihedral(4), inputs="image", outputs="image")
    assert ((model(x) - x).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1)).max() < 1e-5
