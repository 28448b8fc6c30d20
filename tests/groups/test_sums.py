"""Direct sums, and groups with scale: what the laws in test_laws do not say."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.cloud import Cloud
from minframe.frame.point_set import point_set, weights_of
from minframe.layout import Dense
from table import gentle, relative, wild

D = torch.float64
SLAB = mf.E(2) + mf.Trivial(1)
TYPES = ("vector", "covector", "pseudovector", "pseudoscalar", "tensor", "cotensor")


def test_a_slab_moves_in_its_plane_only() -> None:
    x = torch.randn(5, 7, 3, dtype=D)
    g = SLAB.random(5, dtype=D)
    assert torch.equal(SLAB.act(g, x)[..., 2], x[..., 2])
    assert not torch.allclose(SLAB.act(g, x)[..., :2], x[..., :2])
    up, moved = (mf.Equivariant(gentle, SLAB)(y) for y in (x, SLAB.act(g, x)))
    torch.testing.assert_close(moved[..., 2], up[..., 2], atol=1e-12, rtol=0)
    # Along z the backbone may do what it likes: turning the slab over is no symmetry of the sum.
    over = x * torch.tensor([1.0, 1.0, -1.0], dtype=D)
    assert relative(mf.Equivariant(gentle, SLAB)(over)[..., :2], up[..., :2]) > 1e-3


def members(group: mf.Group, x: Tensor, count: int) -> list[Tensor]:
    """Elements of the stabiliser of ``x`` for groups that are sums of O(d), as each part fixes its own cloud."""
    blocks = []
    start = 0
    for part in group.groups:
        frame = part.frame(x[..., start : start + part.d])
        start += part.d
        q, free = frame.element, ~frame.stabiliser.determined
        k = torch.eye(part.d, dtype=D).repeat(count, 1, 1)
        m = int(free.sum())
        if m:
            k[:, -m:, -m:] = mf.O(m).random(count, dtype=D)
        blocks.append(q @ k @ q.mT)
    return [torch.block_diag(*parts) for parts in zip(*blocks, strict=True)]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("ranks", [(1, 1), (1, 2), (2, 1), (0, 1), (2, 2), (1, 0)])
def test_averages_over_the_stabiliser_are_block_by_block(type: str, ranks: tuple[int, int]) -> None:
    group = mf.O(2) + mf.O(2)
    kind = group.type(type)
    x = torch.zeros(4, 4, dtype=D)
    for block, rank in enumerate(ranks):
        x[:, 2 * block : 2 * block + rank] = torch.randn(4, rank, dtype=D)
    frame = group.frame(x)
    y = torch.randn((4,) * kind.core_ndim, dtype=D)
    elements = torch.stack(members(group, x, 20_000))
    assert torch.stack([relative(group.act(h, x)[None], x[None]) * torch.ones(()) for h in elements[:20]]).max() < 1e-12
    expected = group.act(elements, group.act(frame.element, y, type).expand(20_000, *y.shape), type).mean(0)
    torch.testing.assert_close(frame.from_canonical(y, type), expected, atol=0.04, rtol=0)


@pytest.mark.parametrize(
    "group", [SLAB, mf.SO(2) + mf.Trivial(1), mf.Sim(2) + mf.Trivial(1), mf.Sim(3), mf.Scaling(3)], ids=str
)
def test_masks_batch_vectors_and_single_clouds_agree(group: mf.Group) -> None:
    clouds = [torch.randn(n, 3, dtype=D) for n in (4, 7, 5)]
    alone = [mf.canonicalize(x, group)[0] for x in clouds]
    batch = torch.tensor([0] * 4 + [1] * 7 + [2] * 5)
    ragged = mf.canonicalize(torch.cat(clouds), group, batch=batch)[0]
    torch.testing.assert_close(ragged, torch.cat(alone), atol=1e-13, rtol=1e-13)
    padded = torch.full((3, 7, 3), torch.nan, dtype=D)
    mask = torch.zeros(3, 7, dtype=torch.bool)
    for i, x in enumerate(clouds):
        padded[i, : len(x)], mask[i, : len(x)] = x, True
    pose = mf.canonicalize(padded, group, mask=mask)[0]
    torch.testing.assert_close(pose[mask], torch.cat(alone), atol=1e-13, rtol=1e-13)
    assert (pose[~mask] == 0).all()


@pytest.mark.parametrize("group", [SLAB, mf.Sim(3), mf.Scaling(3), mf.Sim(2) + mf.Trivial(1)], ids=str)
def test_several_inputs_and_gradients(group: mf.Group) -> None:
    x, v = torch.randn(4, 6, 3, dtype=D), torch.randn(4, 6, 3, dtype=D)

    def net(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return wild(x) + v, gentle(v) * x, (x.unsqueeze(-1) * v.unsqueeze(-2)).tanh()

    model = mf.Equivariant(net, group, inputs={"x": "point", "v": "vector"}, outputs=("point", "vector", "tensor"))
    assert mf.testing.equivariance_error(model, group, x, v).max() < 1e-11
    energy = mf.Invariant(lambda x: gentle(x).pow(2).sum((-1, -2)), group)
    assert torch.autograd.gradcheck(energy, torch.randn(2, 4, 3, dtype=D, requires_grad=True))
    assert torch.autograd.gradgradcheck(energy, torch.randn(1, 4, 3, dtype=D, requires_grad=True))


@pytest.mark.parametrize("group", [mf.Sim(3), mf.Scaling(3), mf.Sim(2) + mf.Trivial(1)], ids=str)
def test_a_cloud_without_size_has_invariants_and_nothing_else(group: mf.Group) -> None:
    far = torch.tensor([3.3, -2.2, 7.7], dtype=D) * (0 if group == mf.Scaling(3) else 1)
    x = torch.stack([torch.randn(4, 3, dtype=D), far.expand(4, 3)])
    energy = mf.Invariant(lambda x: gentle(x).sum((-1, -2)), group)
    assert mf.testing.equivariance_error(energy, group, x).max() < 1e-12
    model = mf.Equivariant(gentle, group)
    with pytest.raises(ValueError, match=r"'point' has no value under .* in sample 1 of 2: the cloud has no size"):
        model(x)
    with mf.unchecked():
        y = model(x)
    assert y[0].isfinite().all()
    assert y[1].isnan().all()
    frame = group.frame(x)
    assert frame.size[1] == float("inf")
    assert bool(group.contains(frame.element).all())


def test_random_members_of_sums_stay_in_the_sum() -> None:
    group = mf.O(2) + mf.O(2)
    x = torch.tensor([[1.0, 0, 0, 2], [3, 0, 0, 1]], dtype=D).expand(50, 2, 4)
    frame = mf.frames.Minimal(mode="sample", seed=0)(group, group.cloud([mf.groups.base.Input("x", x, "point")]))
    assert bool(group.contains(frame.element).all())
    assert relative(group.act(frame.element, frame.to_canonical(x)), x) < 1e-12
    assert len({tuple(g.flatten().round(decimals=6).tolist()) for g in frame.element}) == 4
    cloud = mf.Sim(2).cloud([mf.groups.base.Input("x", torch.ones(3, 2), "point")])
    with pytest.raises(ValueError, match="no random frame"):
        mf.frames.Minimal(mode="sample")(mf.Sim(2), cloud)


def test_sums_are_values() -> None:
    assert mf.Trivial(1) + mf.Trivial(2) == mf.Trivial(3)
    assert mf.Translation(1) + mf.Translation(2) == mf.Translation(3)
    assert (mf.O(2) + mf.Trivial(1)) + mf.E(2) == mf.O(2) + (mf.Trivial(1) + mf.E(2))
    assert mf.O(2) + mf.Trivial(1) != mf.Trivial(1) + mf.O(2)
    assert repr(mf.S() * SLAB) == "S() * (E(2) + Trivial(1))"


def test_bad_sums_are_refused() -> None:
    with pytest.raises(TypeError, match="can be added to a group that acts on coordinates"):
        mf.O(2) + mf.S()
    with pytest.raises(TypeError, match="real and on complex"):
        mf.O(2) + mf.U(2)
    with pytest.raises(TypeError, match=r"no group of .* has the option 'max_condition'"):
        SLAB.random(max_condition=1.0)
    with pytest.raises(ValueError, match="needs a 'point'"):
        SLAB.frame(torch.randn(4, 3), type="vector")
    with pytest.raises(ValueError, match="max_scale"):
        mf.Sim(3).random(max_scale=0.5)


@pytest.mark.parametrize(
    "group",
    [
        mf.O(2) + mf.Trivial(1),
        mf.E(2) + mf.Trivial(1),
        mf.Trivial(1) + mf.SO(2),
        mf.O(2) + mf.Translation(1),
        mf.SE(2) + mf.E(1),
    ],
    ids=repr,
)
def test_smooth_frames(group: mf.Group) -> None:
    """Exact, also where poses of a block are many or its rank is low, and whatever the order of the rows."""
    draw = torch.Generator().manual_seed(0)
    into, out = (torch.randn(*s, dtype=torch.float64, generator=draw) for s in ((3, 16), (16, 3)))

    def on_sets(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ into) @ out + torch.tanh(x.mean(-2, keepdim=True) @ into) @ out

    model = mf.Equivariant(on_sets, group, frames=mf.frames.Smooth())
    square = torch.tensor([[1.0, 0, 0.3], [0, 1, 0.3], [-1, 0, 0.3], [0, -1, 0.3]], dtype=torch.float64)
    for x in (torch.randn(4, 9, 3, dtype=torch.float64, generator=draw), square.expand(2, 4, 3), square[None, :1]):
        g, p = group.random(len(x), dtype=x.dtype), torch.randperm(x.shape[1])
        want = group.act(g, model(x), "point")[:, p]
        assert float((model(group.act(g, x)[:, p]) - want).abs().max()) <= 1e-11 * float(want.abs().max())


def ring(noise: float, columns: int, count: int, corners: int = 7) -> Tensor:
    """A regular polygon in the first two coordinates, and noise in all."""
    angle = 2 * math.pi / corners * torch.arange(corners, dtype=torch.float64)
    x = torch.nn.functional.pad(torch.stack([angle.cos(), angle.sin()], -1), (0, columns - 2))
    return x + noise * torch.randn(
        count, corners, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize(
    ("group", "noise"), [(mf.Aff(2) + mf.SO(2), 1e-99), (mf.O(2) + mf.O(2), 1e-13), (mf.O(2) + mf.Trivial(1), 1e-14)]
)
def test_the_symmetry_of_one_term_is_none_where_another_breaks_it(group: mf.Group, noise: float) -> None:
    x = ring(noise, group.d, 12)
    order = torch.rand(12, 7, generator=torch.Generator().manual_seed(1)).argsort(-1).unsqueeze(-1)
    vectors = lambda x: (x.sum(-1, keepdim=True) + 0.3 * torch.arange(group.d)).sin()  # noqa: E731
    for model in (
        mf.Equivariant(vectors, group, inputs="point", outputs="vector", frames=mf.frames.Unordered()),
        mf.Equivariant(vectors, mf.S() * group, inputs="point", outputs="vector"),
    ):
        y = model(x)
        moved = model(x.gather(1, order.expand(x.shape)))
        assert (moved - y.gather(1, order.expand(y.shape))).abs().max() < 1e-11 * y.abs().max()


def test_one_term_is_not_as_uncertain_as_another_that_is_far_away() -> None:
    group = mf.E(2) + mf.O(2)
    x = torch.randn(50, 6, 4, generator=torch.Generator().manual_seed(0))
    x[..., :2] += 1e4
    x[:, 1:3, 2:] = x[:, :1, 2:] * (1 + 1e-4 * torch.randn(50, 2, 1, generator=torch.Generator().manual_seed(1)))
    x[:, 1:3, :2] = x[:, :1, :2]
    model = mf.Equivariant(lambda x: x, mf.S() * group, inputs="point", outputs="point")
    assert ((model(x) - x)[..., 2:].norm(dim=(1, 2)) / x[..., 2:].norm(dim=(1, 2))).max() < 1e-5


def test_what_one_term_proposes_as_equal_does_not_follow_another() -> None:
    """The rounding of white rows is another for each observer, and what is equal with it. Proposals are not."""
    group = mf.GL(2) + mf.O(2)
    x = torch.randn(50, 6, 4, generator=torch.Generator().manual_seed(0))
    g = torch.eye(4).repeat(50, 1, 1)
    g[:, :2, :2] = torch.tensor([[1.0, 0.0], [0.0, 1e-4]])

    def scales(x: Tensor) -> tuple[Tensor, Tensor]:
        points = point_set(group, Cloud([(x, group.type("vector"))], Dense((50,), 6)))
        return weights_of(points.equals), weights_of(points.slacks)

    (equal, proposed), (equal_of_thin, proposed_of_thin) = scales(x), scales(group.act(g, x))
    assert (equal_of_thin / equal)[:, 0].median() < 0.1
    assert torch.equal(proposed, proposed_of_thin)


def test_jets_beside_a_fixed_coordinate_come_back() -> None:
    group = mf.Trivial(1) + mf.OrthochronousLorentz(4)
    axis = torch.randn(100, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    momenta = axis / axis.norm(dim=-1, keepdim=True) + 1e-4 * torch.randn(100, 6, 3, dtype=torch.float64)
    x = torch.cat([torch.rand(100, 6, 1), momenta.norm(dim=-1, keepdim=True), momenta], -1)
    model = mf.Equivariant(lambda x: x, group, inputs="vector", outputs="vector")
    assert ((model(x) - x).norm(dim=(1, 2)) / x.norm(dim=(1, 2))).max() < 1e-13


def test_margins_of_smooth_frames_know_the_rank_of_each_term() -> None:
    x = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[0, :, 1] = 1e-14 * x[0, :, 1]  # flat in the first term, but for a little
    margin = mf.canonicalize(x, mf.SL(2) + mf.Trivial(2), frames=mf.frames.Smooth())[1].margin
    alone = mf.canonicalize(x[..., :2], mf.SL(2), frames=mf.frames.Smooth())[1].margin
    assert torch.equal(margin, alone)
    assert margin[0] < 1e-13
