"""The methods that choose frames: what each promises, and where the baselines fail."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.cloud import Input
from minframe.frames.perturb import CLOSE, separating_weights
from minframe.testing import DEGENERATIONS, equivariance_error, polytopes
from table import gentle, wild

PCA, Haar, Minimal, Sorting = mf.frames.PCA, mf.frames.Haar, mf.frames.Minimal, mf.frames.Sorting
FAMILIES: tuple[Callable[[int], Any], ...] = (mf.O, mf.SO, mf.E, mf.SE)
EUCLIDEAN = [make(d) for make in FAMILIES for d in (1, 2, 3, 5)]
OTHERS = (mf.Translation(3), mf.Lorentz(), mf.O(2, 1), mf.U(3), mf.GL(3), mf.Poincare(), mf.S(), mf.S() * mf.O(3))
METHODS = (PCA(), PCA(samples=2, seed=0), PCA(perturb=True), Haar(samples=3, seed=0), Minimal(mode="sample", seed=0))


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def error(group: mf.Group, frames: Any, x: Tensor, net: Callable[[Tensor], Tensor] = wild, **options: Any) -> Tensor:
    return equivariance_error(mf.Equivariant(net, group, frames=frames), group, x, elements=1, **options)


def frames_of(method: Any, group: mf.Group, x: Tensor, type: str = "point", **options: Any) -> list[Any]:
    found = method(group, group.cloud([Input("x", x, type)], **options))
    return found if isinstance(found, list) else [found]


def centred(x: Tensor) -> Tensor:
    return x - x.mean(-2, keepdim=True)


def permuted(frames: Any, x: Tensor, net: Callable[[Tensor], Tensor], type: str) -> float:
    """The largest difference that an exchange of the nodes makes, in units of the output."""
    model, g = (
        mf.Equivariant(net, mf.S(), inputs=type, outputs=type, frames=frames),
        mf.S().random(len(x), n=x.shape[1]),
    )
    expected = mf.S().act(g, model(x), type)
    return float((model(mf.S().act(g, x, type)) - expected).norm() / expected.norm())


# What all methods share


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (Minimal(), "Minimal()"),
        (Minimal(mode="sample", seed=3), "Minimal(mode='sample', seed=3)"),
        (PCA(), "PCA()"),
        (PCA(samples=1), "PCA(samples=1)"),
        (PCA(1, True), "PCA(samples=1, perturb=True)"),
        (PCA(perturb=True), "PCA(perturb=True)"),
        (Haar(samples=4, seed=0), "Haar(samples=4, seed=0)"),
        (Sorting(samples=2), "Sorting(samples=2)"),
    ],
)
def test_reprs_are_what_users_type(method: Any, text: str) -> None:
    assert repr(method) == text
    assert eval(text, {"Minimal": Minimal, "PCA": PCA, "Haar": Haar, "Sorting": Sorting}) == method


@pytest.mark.parametrize("make", [PCA, Haar, Sorting])
def test_numbers_of_samples_are_checked(make: Any) -> None:
    with pytest.raises(ValueError, match="at least one sample, got 0"):
        make(samples=0)
    with pytest.raises(TypeError, match=r"integer number of samples, got 1\.5"):
        make(samples=1.5)


def test_other_bad_options() -> None:
    with pytest.raises(ValueError, match="'average' or 'sample', got 'mean'"):
        Minimal(mode="mean")
    with pytest.raises(ValueError, match="not both"):
        Haar(samples=1, seed=0, generator=torch.Generator())


@pytest.mark.parametrize("group", OTHERS, ids=str)
def test_pca_says_which_groups_it_serves(group: mf.Group) -> None:
    x = torch.randn(
        2, 5, 3 if not hasattr(group, "d") else group.d, dtype=torch.complex128 if group == mf.U(3) else torch.float64
    )
    with pytest.raises(ValueError, match=r"PCA\(\) serves O\(d\), SO\(d\), E\(d\) and SE\(d\), not"):
        mf.Equivariant(lambda x: x, group, frames=PCA())(x)


def test_sorting_says_which_groups_it_serves() -> None:
    with pytest.raises(ValueError, match=r"serves S\(\) on rows and adjacency matrices, not O\(3\)"):
        mf.Equivariant(lambda x: x, mf.O(3), frames=Sorting())(randn(2, 5, 3))


@pytest.mark.parametrize("method", METHODS[1:2] + METHODS[3:], ids=repr)
def test_a_seed_makes_results_reproducible(method: Any) -> None:
    x = DEGENERATIONS["collinear"](randn(4, 6, 3))
    model = mf.Equivariant(gentle, mf.O(3), frames=copy.deepcopy(method))
    again = pickle.loads(pickle.dumps(model))
    first, second = model(x), model(x)
    assert not torch.equal(first, second)  # each call goes on where the last one stopped
    assert torch.equal(first, again(x))
    assert torch.equal(second, again(x))
    by_hand = type(method)(
        **{k: v for k, v in vars(method).items() if k not in ("seed", "generator")},
        generator=torch.Generator().manual_seed(0),
    )
    assert torch.equal(first, mf.Equivariant(gentle, mf.O(3), frames=by_hand)(x))


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("group", [mf.O(3), mf.SE(3)], ids=str)
def test_layouts_agree(method: Any, group: mf.Group) -> None:
    """Dense, masked and with a batch vector: the same frames, drawn in the same order."""
    x, n = randn(3, 7, 3), 5
    mask = (torch.arange(7) < n).expand(3, 7)
    padded = torch.where(mask.unsqueeze(-1), x, torch.nan)
    dense = frames_of(copy.deepcopy(method), group, x[:, :n])
    masked = frames_of(copy.deepcopy(method), group, padded, mask=mask)
    ragged = frames_of(
        copy.deepcopy(method), group, x[:, :n].reshape(-1, 3), batch=torch.arange(3).repeat_interleave(n)
    )
    for a, b, c in zip(dense, masked, ragged, strict=True):
        assert torch.allclose(a.element, b.element, atol=1e-10)
        assert torch.allclose(a.element, c.element, atol=1e-10)
        assert bool(group.contains(a.element).all())
        assert torch.allclose(a.from_canonical(a.pose(x[:, :n], own=True)), x[:, :n])
        assert a.margin.shape == (3,)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_more_batch_axes_and_none(method: Any) -> None:
    x = randn(2, 3, 6, 3)
    model = mf.Equivariant(gentle, mf.E(3), frames=method)
    assert model(x).shape == x.shape
    assert model(x[0, 0]).shape == (6, 3)


@pytest.mark.parametrize("method", [PCA(), PCA(perturb=True), Haar(samples=2)], ids=repr)
def test_nan_is_an_error_or_stays_where_it_is(method: Any) -> None:
    x = randn(3, 5, 3)
    x[1, 2, 0] = torch.nan
    model = mf.Equivariant(gentle, mf.E(3), frames=method)
    with pytest.raises(ValueError, match=r"NaN or infinite coordinates .* in sample 1 of 3"):
        model(x)
    with mf.unchecked():
        bad = model(x).isnan().flatten(1).any(-1)
    assert bad.tolist() == [False, True, False]


# Principal axes


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_numbers_of_frames(group: mf.Group) -> None:
    d = group.d  # type: ignore[attr-defined]
    x = randn(4, 9, d)
    expected = 2**d if isinstance(group, mf.O) or type(group) is mf.E else 2 ** (d - 1)
    elements = [f.element for f in frames_of(PCA(), group, x)]
    assert len(elements) == expected
    assert all(bool(group.contains(g).all()) for g in elements)
    assert all(not torch.allclose(a, b) for i, a in enumerate(elements) for b in elements[:i])
    assert len(frames_of(PCA(samples=3), group, x)) == 3


@pytest.mark.parametrize("method", [PCA(), PCA(perturb=True)], ids=repr)
@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_exact_on_generic_clouds(group: mf.Group, method: Any) -> None:
    x = randn(50, 12, group.d)  # type: ignore[attr-defined]
    assert error(group, method, x).max() < 1e-11
    assert error(group, method, x.float()).max() < 1e-5


def test_principal_axes_heed_no_order_of_the_rows() -> None:
    net = lambda x: torch.tanh(x) + x.mean(-2, keepdim=True)  # noqa: E731
    assert error(mf.O(3), PCA(), randn(20, 9, 3), net, permute=True).max() < 1e-11


SYMMETRIC = {"repeated singular values": lambda d: DEGENERATIONS["repeated singular values"](centred(randn(12, d))), **{name: (lambda d, name=name: polytopes(d)[name]) for name in ("simplex", "cross-polytope", "cube")}}  # fmt: skip


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("group", [make(d) for make in FAMILIES for d in (2, 3, 5)], ids=str)
def test_principal_axes_fail_where_eigenvalues_coincide_unless_perturbed(group: mf.Group, name: str) -> None:
    cloud = SYMMETRIC[name](group.d)  # type: ignore[attr-defined]
    x = cloud.expand(20, *cloud.shape)
    assert error(group, PCA(), x).max() > 1e-2
    assert error(group, PCA(perturb=True), x).max() < 1e-11
    assert error(group, PCA(perturb=True), x.float()).max() < 1e-5
    assert error(group, Minimal(), x).max() < 1e-11


@pytest.mark.parametrize("name", DEGENERATIONS)
@pytest.mark.parametrize("group", [mf.O(3), mf.SO(3), mf.SE(3), mf.O(5)], ids=str)
def test_perturbed_axes_on_degenerate_clouds(group: mf.Group, name: str) -> None:
    cloud = DEGENERATIONS[name](randn(12, group.d))  # type: ignore[attr-defined]
    x = cloud.expand(20, *cloud.shape)
    # An outlier 1e4 times as far out leaves the squares that the axes come from eight digits.
    assert error(group, PCA(perturb=True), x).max() < (1e-9 if name == "one far outlier" else 1e-11)


@pytest.mark.parametrize("group", [mf.O(3), mf.SO(3), mf.O(4), mf.SO(4)], ids=str)
def test_free_axes_are_averaged_in_closed_form(group: Any) -> None:
    """Every type, on collinear clouds, which leave all axes but one free."""
    x = DEGENERATIONS["collinear"](randn(6, group.d)).expand(20, 6, group.d)

    def net(x: Tensor) -> dict[str, Tensor]:
        bent = torch.tanh(x) + 0.3
        return {
            "vector": bent,
            "pseudovector": 2 * bent,
            "tensor": bent.unsqueeze(-1) * x.roll(1, -2).unsqueeze(-2) + 1,
            "pseudoscalar": bent.sum((-1, -2)),
        }

    model = mf.Equivariant(net, group, outputs={name: name for name in net(x)}, frames=PCA(perturb=True))
    assert equivariance_error(model, group, x, elements=1).max() < 1e-11


def test_weights_separate_eigenvalues() -> None:
    group, x = mf.O(5), torch.cat([polytopes(5)["cube"], polytopes(5)["cube"] * torch.tensor([2.0, 2, 1, 1, 1])])
    layout = group.cloud([Input("x", x, "point")]).layout
    weights = separating_weights(x, layout, torch.tensor([1e-13], dtype=torch.float64))
    values = torch.linalg.eigvalsh(x.mT @ (weights.unsqueeze(-1) * x)).flip(-1)
    assert bool((values[:-1] - values[1:] > CLOSE * values[:-1]).all())
    assert bool((weights >= 1).all())
    assert 2 <= int((weights > 1).sum()) <= 3  # one step for the two, two for the three that coincide
    assert bool(
        (
            separating_weights(randn(9, 5) * torch.tensor([5.0, 4, 3, 2, 1]) ** 3, layout, torch.tensor([1e-13])) == 1
        ).all()
    )


def test_stochastic_frames_are_members_and_exact_on_average() -> None:
    group, x = mf.O(3), randn(6, 3)
    full = torch.stack([f.element for f in frames_of(PCA(), group, x)])
    drawn = torch.stack([f.element for f in frames_of(PCA(samples=64, seed=0), group, x)])
    distance = (drawn.unsqueeze(1) - full).flatten(2).norm(dim=-1)
    assert distance.amin(1).max() < 1e-12
    assert len(distance.argmin(1).unique()) == 8
    many = mf.Equivariant(gentle, group, frames=PCA(samples=4000, seed=0))(x)
    exact = mf.Equivariant(gentle, group, frames=PCA())(x)
    assert torch.allclose(many, exact, atol=0.1)
    assert error(group, PCA(samples=1, seed=0), randn(50, 9, 3)).median() > 1e-2


@pytest.mark.parametrize("group", [mf.O(3), mf.SE(3)], ids=str)
def test_gradients_through_principal_axes(group: mf.Group) -> None:
    model = mf.Invariant(lambda x: (x**3 + x.roll(1, -1) ** 2).sum((-1, -2)), group, frames=PCA())
    assert torch.autograd.gradcheck(model, (randn(2, 5, 3).requires_grad_(),))
    assert torch.autograd.gradgradcheck(model, (randn(1, 4, 3).requires_grad_(),))


# Random elements


@pytest.mark.parametrize("group", [mf.O(3), mf.U(2), mf.E(2), mf.S(), mf.S() * mf.O(3)], ids=str)
def test_monte_carlo_converges_like_the_square_root(group: Any) -> None:
    dtype = torch.complex128 if isinstance(group, mf.U) else torch.float64
    x = torch.randn(200, 5, getattr(group, "d", 3), dtype=dtype)
    g = group.random(200, n=5, dtype=dtype)

    def off(samples: int) -> float:
        model = mf.Equivariant(wild, group, frames=Haar(samples=samples, seed=0))
        return float((model(group.act(g, x)) - group.act(g, model(x))).abs().mean())

    few, many = off(4), off(64)
    assert 3 < few / many < 5
    for frame in frames_of(Haar(samples=2), group, x):
        assert bool(group.contains(frame.element).all())


def test_translations_are_exact() -> None:
    assert error(mf.Translation(3), Haar(samples=4), randn(9, 5, 3)).max() < 1e-11
    assert len(frames_of(Haar(samples=4), mf.Translation(3), randn(5, 3))) == 1


@pytest.mark.parametrize("group", [mf.Lorentz(), mf.GL(3), mf.SL(3), mf.Poincare()], ids=str)
def test_groups_that_are_not_compact_are_drawn_from_as_well(group: Any) -> None:
    x = randn(3, 5, group.d)
    linear = mf.Equivariant(lambda x: 2 * x, group, outputs="vector", frames=Haar(samples=3))(x)
    centred = x - x.mean(-2, keepdim=True) if isinstance(group, mf.Poincare) else x
    assert torch.allclose(linear, 2 * centred)


# One member of the minimal frame


@pytest.mark.parametrize("method", [Minimal, mf.frames.Unordered])
@pytest.mark.parametrize("group", [mf.O(3), mf.SO(3), mf.E(3), mf.U(3), mf.SU(3), mf.S() * mf.O(3)], ids=str)
@pytest.mark.parametrize("name", ["planar", "collinear", "all at the origin"])
def test_members_average_to_the_average(group: Any, method: Any, name: str) -> None:
    dtype = torch.complex128 if isinstance(group, mf.U) else torch.float64
    x = DEGENERATIONS[name](torch.randn(5, 3, dtype=dtype))
    if method is mf.frames.Unordered:
        net = lambda x: torch.tanh(x) + 0.5 * x.mean(-2, keepdim=True).roll(1, -1) + 0.2  # noqa: E731
    else:
        net = gentle
    count = 6000
    drawn = mf.Equivariant(net, group, frames=method(mode="sample", seed=0))(x.expand(count, 5, 3))
    average = mf.Equivariant(net, group, frames=method())(x)
    off = (drawn.mean(0) - average).abs()
    assert bool((off <= 5 * drawn.std(0) / count**0.5 + 1e-12).all())
    for frame in frames_of(method(mode="sample"), group, x):
        assert bool(group.contains(frame.element).all())
        _, expected = mf.canonicalize(x, group, frames=method())
        assert torch.allclose(frame.to_canonical(x), expected.to_canonical(x), atol=1e-10)


def test_a_member_may_break_the_symmetry_of_the_input() -> None:
    x = torch.zeros(3, 1, 3, dtype=torch.float64)
    assert mf.Equivariant(gentle, mf.O(3))(x).abs().max() < 1e-12
    broken = mf.Equivariant(gentle, mf.O(3), frames=Minimal(mode="sample", seed=0))(x)
    assert bool((broken.norm(dim=-1) > 0.1).all())
    assert not torch.allclose(broken[0], broken[1])


def test_without_symmetry_the_member_is_the_frame() -> None:
    x = randn(9, 6, 3)
    for group in (mf.O(3), mf.SE(3), mf.GL(3), mf.S() * mf.O(3)):
        a, b = (mf.Equivariant(wild, group, frames=Minimal(mode=mode))(x) for mode in ("average", "sample"))
        assert torch.allclose(a, b, atol=1e-12)


def test_members_of_frames_of_graphs_are_uniform() -> None:
    ring = torch.eye(5, dtype=torch.float64).roll(1, 0)
    ring = ring + ring.mT
    (frame,) = frames_of(Minimal(mode="sample", seed=0), mf.S(), ring.expand(4000, 5, 5), "edge")
    assert torch.equal(
        frame.to_canonical(ring.expand(4000, 5, 5), "edge")[0], mf.S().frame(ring, "edge").to_canonical(ring, "edge")
    )
    counts = torch.unique(frame.element, dim=0, return_counts=True)[1]
    assert len(counts) == 10
    assert bool(((counts - 400).abs() < 5 * 400**0.5).all())


@pytest.mark.parametrize("group", [mf.Lorentz(), mf.GL(4)], ids=str)
def test_stabilisers_that_are_not_compact_have_no_random_member(group: Any) -> None:
    x = randn(3, 6, 4)
    x[1] = DEGENERATIONS["collinear"](x[1]) if group == mf.GL(4) else 0
    model = mf.Equivariant(lambda x: x, group, frames=Minimal(mode="sample"))
    with pytest.raises(ValueError, match="sample 1 of 3 has no random frame"):
        model(x)
    with mf.unchecked():
        assert model(x).isnan().flatten(1).any(-1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "method", [Haar(samples=2, seed=0), Sorting(samples=2, seed=0), Minimal(mode="sample", seed=0)], ids=repr
)
def test_orders_are_of_each_sample_by_itself(method: Any) -> None:
    """Rows come back to their places, from masked clouds and from rows of samples that are mixed up."""
    x, mask = randn(4, 9, 3), torch.arange(9) < torch.tensor([9, 5, 7, 1]).unsqueeze(-1)
    x[1] = x[1, :1]  # rows that may be exchanged
    model = mf.Equivariant(lambda x, mask: 2 * x, mf.S(), inputs="node", outputs="node", mask="mask", frames=method)
    assert torch.equal(model(x, mask=mask)[mask], 2 * x[mask])
    owner = torch.tensor([0, 1, 0, 2, 1, 1, 0])
    ragged = mf.Equivariant(
        lambda x, batch: 2 * x + batch.unsqueeze(-1),
        mf.S(),
        inputs="node",
        outputs="node",
        batch="batch",
        frames=method,
    )
    assert torch.equal(ragged(x[0, :7], batch=owner), 2 * x[0, :7] + owner.unsqueeze(-1))


# Sorting


def by_place(x: Tensor) -> Tensor:
    return torch.tanh(x) * torch.linspace(0.5, 1.5, x.shape[-2], dtype=x.dtype).unsqueeze(-1)


def test_sorting_is_exact_without_ties() -> None:
    weights = torch.triu(randn(20, 8, 8), 1)
    assert permuted(Sorting(samples=1), randn(20, 8, 3), by_place, "node") == 0
    assert permuted(Sorting(samples=2), weights + weights.mT, by_place, "edge") < 1e-11


def test_sorting_draws_among_ties_and_tells_padding_apart() -> None:
    path = torch.diag(torch.ones(5, dtype=torch.float64), 1)
    graph = torch.nn.functional.pad(path + path.mT, (0, 2, 0, 2)).expand(500, 8, 8)
    mask = (torch.arange(8) < 6).expand(500, 8)
    for frame in frames_of(Sorting(samples=2, seed=0), mf.S(), graph, "edge", mask=mask):
        assert bool((frame.element[:, 6:].sort(-1)[0] == torch.tensor([6, 7])).all())
        assert len(torch.unique(frame.element, dim=0)) == 8  # three pairs are tied; the path has but one mirror
    assert permuted(Sorting(samples=1), graph[:20, :6, :6], by_place, "edge") > 1e-2
    assert permuted(Minimal(), graph[:20, :6, :6], by_place, "edge") < 1e-11
