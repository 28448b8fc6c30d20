"""Clouds of indefinite forms that are thin, nearly null, or both: one answer for every observer."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.groups.isometry import Isometry
from minframe.linalg import loops


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def spread(x: Tensor) -> dict[str, Tensor]:
    """Vectors that point anywhere, of a backbone on sets."""
    d = x.shape[-1]
    weight = normal(d, d, seed=5).to(x.dtype)
    return {"vector": (x @ weight).abs().to(x.dtype) + (x @ weight).abs().mean(-2, keepdim=True).to(x.dtype) / 2}


def error(found: Tensor, wanted: Tensor) -> Tensor:
    return (found - wanted).flatten(1).abs().amax(-1) / wanted.flatten(1).abs().amax(-1)


@pytest.mark.parametrize("group", [mf.O(2, 2), mf.O(2, 1), mf.SU(2, 1)], ids=str)
def test_boosts_do_not_change_the_rank_of_a_thin_cloud(group: Isometry) -> None:
    """Of rows along a line that is far from null, up to noise."""
    dtype = torch.complex128 if group.complex else torch.float64
    for level in (12.5, 12, 11.5, 11, 10.5, 10, 9.5):
        line, noise = normal(400, 1, group.d, dtype=dtype), normal(400, 6, group.d, seed=1, dtype=dtype)
        regular = (group.inner(line, line).abs() > 0.5 * line.abs().square().sum(-1))[:, 0]
        x = (line * (1 + torch.arange(6).view(6, 1)) + 10**-level * noise)[regular]
        g = group.random(len(x), dtype=dtype, generator=torch.Generator().manual_seed(2), max_rapidity=2.0)
        ranks = group.frame(x).rank, group.frame(group.act(g, x)).rank
        assert (ranks[0] != ranks[1]).double().mean() <= 0.02, level


@pytest.mark.parametrize("group", [mf.Poincare(4), mf.Lorentz(4), mf.O(2, 2)], ids=str)
def test_strong_boosts_do_not_change_the_rank_of_a_thin_cloud(group: mf.Group) -> None:
    """Up to a rapidity of 3, of lines that may be near to null; what rounding changes is far less than 1 %."""
    linear = getattr(group, "linear", group)
    for level in (12, 11.5, 11, 10.5, 10, 9.5):
        line, noise = normal(400, 1, 4), normal(400, 6, 4, seed=1)
        x = line * normal(400, 6, 1, seed=4) + 10**-level * noise
        g = linear.random(400, dtype=x.dtype, generator=torch.Generator().manual_seed(2), max_rapidity=3.0)
        changed = group.frame(x).rank != group.frame(x @ g.mT).rank
        assert changed.double().mean() <= 0.01, level


@pytest.mark.parametrize("group", [mf.O(2, 2), mf.Lorentz(3), mf.OrthochronousLorentz(3), mf.U(1, 3)], ids=str)
def test_specks_beside_a_long_row_are_not_called_null(group: mf.Group) -> None:
    dtype = torch.complex128 if group.complex else torch.float64
    for level in (12.5, 12, 11.5, 11, 10.5, 10, 9.5, 9):
        row, specks = normal(300, 1, group.d, dtype=dtype), normal(300, 3, group.d, seed=1, dtype=dtype)
        x = 1e8 * torch.cat([row, 10**-level * specks], 1)
        frame = group.frame(x)  # or an error: so nearly null
        assert group.contains(frame.element).all(), level
        back = mf.Equivariant(lambda y: y, group, inputs="vector", outputs="vector")(x)
        assert error(back, x).max() < 1e-9, level


def test_opposite_null_points_have_their_symmetry_in_every_unit() -> None:
    group = mf.Poincare(3)
    model = mf.Equivariant(spread, group, inputs="point", outputs={"vector": "vector"}, frames=mf.frames.Unordered())
    momenta = normal(20, 1, 2)
    ahead = torch.cat([momenta.norm(dim=-1, keepdim=True), momenta], -1)
    for unit in (1.0, 1e8, 1e-8):
        y = model(unit * torch.cat([ahead, ahead / 2], 1))["vector"]
        assert (y[:, 0] + y[:, 1]).abs().max() <= 1e-9 * y.abs().max()


def test_a_soft_particle_opposite_to_a_hard_one_is_no_axis() -> None:
    directions = normal(400, 2, 3)
    directions = directions / directions.norm(dim=-1, keepdim=True)
    energy = torch.stack([torch.ones(400), 10 ** -torch.linspace(0, 6, 400)], -1).unsqueeze(-1).double()
    x = torch.cat([energy, energy * directions], -1)
    g = mf.Lorentz().random(400, dtype=torch.float64, max_rapidity=3.0, generator=torch.Generator().manual_seed(1))
    for group in (mf.Lorentz(), mf.ProperLorentz()):
        assert (group.frame(x).rank == 2).all()
        assert (group.frame(x @ g.mT).rank == 2).all()


def test_rows_that_agree_about_a_time_axis_do_not_tie() -> None:
    group = mf.O(2, 1)
    x = normal(100, 4, 3)
    x[..., 2] = 1e-9 * (1 + 0.01 * normal(100, 4, seed=1))  # almost equal, and all in the future
    model = mf.Equivariant(spread, group, inputs="vector", outputs={"vector": "vector"}, frames=mf.frames.Unordered())
    g = group.random(100, dtype=torch.float64, max_rapidity=3.0, generator=torch.Generator().manual_seed(2))
    moved = model(group.act(g, x, "vector"))["vector"]
    wrong = error(moved, group.act(g, model(x)["vector"], "vector")) > 1e-2
    assert wrong.double().mean() <= 0.02


@pytest.mark.parametrize("group", [mf.Lorentz(3), mf.ProperLorentz(4)], ids=str)
def test_smooth_frames_bring_jets_back_in_single_precision(group: mf.Group) -> None:
    model = mf.Equivariant(lambda x: x, group, inputs="vector", outputs="vector", frames=mf.frames.Smooth())
    q = group.d - 1
    for opening in (3e-3, 1.5e-3):
        axis = normal(50, 1, q, seed=3)
        direction = axis / axis.norm(dim=-1, keepdim=True) + opening * normal(50, 8, q, seed=4)
        energy = 1 + torch.rand(50, 8, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
        x = torch.cat([energy, energy * direction / direction.norm(dim=-1, keepdim=True)], -1).float()
        total = x.double().sum(1)
        eps = torch.finfo(x.dtype).eps
        mass2 = (total[:, 0] ** 2 - total[:, 1:].square().sum(-1)) / total.square().sum(-1)
        if (mass2 < 5 * eps).any():  # axes are as long as noise
            with pytest.raises(ValueError, match="no smooth frame"):
                model(x)
        x = x[mass2 > 5.5 * eps]
        assert len(x) > 25
        assert mass2.min() < (3 * opening) ** 2
        assert error(model(x), x).max() <= 100 * min(opening, eps / opening**2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_smooth_frames_return_no_more_than_they_are_given(dtype: torch.dtype) -> None:
    """Of jets at every gamma that has a frame: less than ``fade`` of it is lost."""
    frames = mf.frames.Smooth()
    model = mf.Equivariant(lambda x: x, mf.Lorentz(), inputs="vector", outputs="vector", frames=frames)
    bar = max(5.5 * torch.finfo(dtype).eps, 2e-13)
    for level in range(8):
        axis, energy = normal(60, 1, 3, seed=level), 10 ** (2 * normal(60, 8, 1, seed=7))
        direction = axis / axis.norm(dim=-1, keepdim=True) + 10 ** (-level / 2) * normal(60, 8, 3, seed=8)
        x = torch.cat([energy, energy * direction / direction.norm(dim=-1, keepdim=True)], -1).to(dtype)
        total = x.double().sum(1)
        mass2 = (total[:, 0] ** 2 - total[:, 1:].square().sum(-1)) / total.square().sum(-1)
        x = x[mass2 > bar]
        if len(x):
            y = model(x)
            assert ((y - x).flatten(1).norm(dim=-1) <= 2 * frames.fade * x.flatten(1).norm(dim=-1)).all(), level


def test_the_symmetry_of_a_sample_does_not_depend_on_the_others() -> None:
    """A thin cloud beside it does not take a symmetry away that holds up to the tolerance of the rank."""
    corners = torch.tensor(list(itertools.product((1.0, -1.0), repeat=3)), dtype=torch.complex128)
    corners = corners * torch.tensor([1, 1j, -1, -1j], dtype=corners.dtype).repeat(2).unsqueeze(-1)
    x = corners + 1e-13 * normal(10, 8, 3, dtype=torch.complex128)
    thin = normal(1, 8, 3, seed=1, dtype=torch.complex128) * torch.tensor([1, 1, 1e-3])
    order = torch.randperm(8, generator=torch.Generator().manual_seed(2))
    group = mf.GL(3, complex=True)

    def backbone(x: Tensor) -> Tensor:
        parts = torch.view_as_real(x).flatten(-2)
        hidden = (parts @ normal(6, 6, seed=3)).abs()
        hidden = (hidden + hidden.mean(-2, keepdim=True)) @ normal(6, 6, seed=4)
        return torch.view_as_complex(hidden.unflatten(-1, (3, 2)))

    model = mf.Equivariant(backbone, group, inputs="vector", outputs="vector", frames=mf.frames.Unordered())
    alone, beside = model(x), model(torch.cat([x, thin]))
    assert error(beside[:10], alone).max() < 1e-9
    assert error(model(torch.cat([x, thin])[:, order])[:10], alone[:, order]).max() < 1e-9


@pytest.mark.parametrize("launches", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("group", [mf.U(1, 1), mf.Lorentz(3), mf.Lorentz(4), mf.O(3, 1)], ids=str)
def test_soft_rows_beside_a_hard_one_direct_the_axes_as_exactly_as_they_are_given(
    group: mf.Group, launches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the hard row has across the total momentum is minus what the soft ones have, and not its own rounding."""
    if launches:
        monkeypatch.setattr(loops, "launches", lambda x: True)
    dtype = torch.complex128 if group.complex else torch.float64
    time = 0 if group.p == 1 else group.p
    hard, soft = normal(100, 1, group.d, dtype=dtype), normal(100, 5, group.d, seed=1, dtype=dtype)
    hard[..., time] += 3 * hard.abs().sum(-1)
    model = mf.Equivariant(lambda x: spread(x)["vector"], group, "vector", "vector")
    for level in (4, 6, 8):
        x = torch.cat([10.0**-level * soft, hard], 1)
        g = group.random(100, dtype=dtype, generator=torch.Generator().manual_seed(2), max_rapidity=1.0)
        assert error(model(group.act(g, x)), group.act(g, model(x))).max() < 1e-11, level


@pytest.mark.parametrize("group", [mf.O(1, 2), mf.Lorentz(4), mf.O(2, 2), mf.Poincare(4)], ids=str)
def test_axes_of_a_thin_cloud_are_as_exact_as_those_of_a_thick_one(group: mf.Group) -> None:
    """Its thickness may be rounding, and its normal unknown; the axes within it are not."""
    width = torch.ones(group.d, dtype=torch.float64)
    turn = torch.linalg.qr(normal(group.d, group.d, seed=3)).Q
    for level in range(8, 16):
        width[-1] = 10.0**-level
        x = normal(100, 6, group.d) * width @ turn
        near = x * (1 + 2e-16 * normal(*x.shape, seed=4).sign())
        pose, other = (mf.canonicalize(y, group)[0] for y in (x, near))
        off = (pose - other).flatten(1).abs().amax(-1)
        assert off.quantile(0.9) < 1e-13, level  # within some of the clouds an axis is nearly null


@pytest.mark.parametrize("group", [mf.O(2, 2), mf.U(1, 3), mf.Lorentz(4)], ids=str)
def test_an_axis_beside_one_that_is_too_thin_to_count_is_the_same_for_all_observers(group: Isometry) -> None:
    """Specks around ``MIN_THICKNESS``: some axes count, others do not, and these have no influence on the first."""
    dtype = torch.complex128 if group.complex else torch.float64
    g = group.random(300, dtype=dtype, generator=torch.Generator().manual_seed(2), max_rapidity=3.0)
    for hard in (1, 2):
        rows, specks = normal(300, hard, group.d, dtype=dtype), normal(300, 4, group.d, seed=1, dtype=dtype)
        x = torch.cat([rows, 2e-11 * specks], 1)
        moved = group.act(g, x)
        same = group.frame(x).rank == group.frame(moved).rank
        assert (~same).sum() <= 1
        poses = [mf.canonicalize(cloud, group)[0][same] for cloud in (moved, x)]
        assert error(*poses).max() <= 5e-12
        model = mf.Equivariant(spread, group, inputs="vector", outputs={"vector": "vector"})
        wrong = error(model(moved)["vector"], group.act(g, model(x)["vector"], "vector")) > 1e-4
        assert wrong.sum() <= 1


def test_inputs_together_have_the_pose_that_they_have_as_one() -> None:
    """Of strongly boosted clouds with axes that are too thin to count: what lies along them is zero in any case."""
    group = mf.Lorentz(4)
    x = torch.cat([normal(50, 1, 4), 5e-12 * normal(50, 4, 4, seed=1)], 1)
    x = group.act(group.random(50, dtype=x.dtype, generator=torch.Generator().manual_seed(2), max_rapidity=3.0), x)
    both = mf.Equivariant(
        lambda a, b: torch.cat([a, b], -2).abs(), group, inputs={"a": "vector", "b": "vector"}, outputs="scalar"
    )
    alone = mf.Equivariant(lambda a: a.abs(), group, inputs="vector", outputs="scalar")
    assert error(both(x[:, :2], x[:, 2:]), alone(x)).max() <= 1e-14


@pytest.mark.parametrize("group", [mf.O(2, 2), mf.O(2, 3)], ids=str)
def test_planes_that_are_null_but_for_noise_lose_no_direction(group: Isometry) -> None:
    a, q = normal(200, 2, 2), torch.linalg.qr(normal(200, group.q, 2, seed=1)).Q
    exact = torch.cat([a, a @ q.mT], -1)
    g = group.random(200, dtype=a.dtype, generator=torch.Generator().manual_seed(2), max_rapidity=3.0)
    identity = mf.Equivariant(lambda y: y, group, inputs="vector", outputs="vector")
    for level in (9, 10, 11, 12, 13, 14):
        x = exact + 10**-level * normal(200, 2, group.d, seed=3)
        for cloud in (x, group.act(g, x)):
            frame = group.frame(cloud)
            assert (frame.rank == 2).all(), level
            assert group.contains(frame.element).all(), level
            assert error(identity(cloud), cloud).max() <= 1e-7, level


def test_which_row_comes_first_does_not_decide_whether_a_line_is_null() -> None:
    """Each row says something else about the line; what is asked is the line of all.

    A square that counts is known to ``eps`` over the least that counts, 2e-13, relative to itself.
    """
    group = mf.ProperLorentz(2)
    x = normal(2000, 2, 1) * torch.stack([torch.ones(2000, 2), 1 + 2e-13 * normal(2000, 2, seed=1)], -1).double()
    orders = x, x.flip(1)
    line = torch.stack([group.frame(y).rank == 1 for y in orders]).all(0)
    assert line.sum() > 1000
    poses = [mf.canonicalize(y, group)[0][line].abs() for y in orders]
    assert error(poses[1].flip(1), poses[0]).max() <= 1e-2
