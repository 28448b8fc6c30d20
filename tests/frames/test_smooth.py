"""Smooth frames: exact on every input, continuous along every path, few poses, one batch."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import clouds
import minframe as mf
from minframe.linalg.action import wide
from minframe.testing import particles, polytopes
from table import EUCLIDEAN, bound, clouds_for, number, options, randn, wild

SMOOTH = mf.frames.Smooth()
GROUPS = [
    *(g for g in EUCLIDEAN if g.d < 8),
    *(make(d) for make in (mf.U, mf.SU) for d in (1, 2, 3)),
    *(make(d) for make in (mf.GL, mf.SL) for d in (2, 3)),
    mf.SL(3, complex=True),
    mf.Aff(3),
]
LORENTZ = [mf.Lorentz(), mf.ProperLorentz(), mf.OrthochronousLorentz(), mf.O(3, 1)]
TYPES = ("scalar", "pseudoscalar", "point", "vector", "covector", "pseudovector", "tensor", "cotensor")


def centred(x: Tensor) -> Tensor:
    return x - x.mean(-2, keepdim=True)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def network(d: int = 3, seed: int = 0, scale: float = 1.0):
    """A smooth backbone on sets with no other symmetry; a vector for each row."""
    a, b, c = normal(d, 16, seed=seed), normal(16, 16, seed=seed + 1) / 4, normal(16, d, seed=seed + 2)

    def run(x: Tensor) -> Tensor:
        h = torch.tanh(scale * x @ a.to(x.dtype) + 0.2)
        h = torch.tanh(h @ b.to(x.dtype) + h.mean(-2, keepdim=True))
        return h @ c.to(x.dtype)

    return run


def outputs_of(run, type: str):
    """A backbone with outputs of that type."""

    def scalar(x: Tensor) -> Tensor:
        y = run(x).sum(-2)
        return y[..., 0] - 0.5 * y[..., -1]

    def tensor(x: Tensor) -> Tensor:
        y = run(x)
        return y.unsqueeze(-1) * run(0.7 * x).unsqueeze(-2) + torch.eye(3, dtype=x.dtype) * y.unsqueeze(-1)

    return {"scalar": scalar, "pseudoscalar": scalar, "tensor": tensor, "cotensor": tensor}.get(type, run)


def thermal(name: str, samples: int = 1000, seed: int = 0) -> Tensor:
    """A molecule with noise of a tenth of a bond."""
    build = pytest.importorskip("ase.build", reason="ASE has the molecules")
    x = torch.tensor(build.molecule(name).positions)
    bond = torch.cdist(x, x).fill_diagonal_(torch.inf).amin()
    return x + 0.1 * bond * normal(samples, *x.shape, seed=seed)


def frame_of(group: mf.Group, x: Tensor, method=SMOOTH):
    return method(group, group.cloud([mf.groups.base.Input("x", x, "point")]))


def mean_poses(x: Tensor, group: mf.Group = mf.SE(3), method=SMOOTH) -> float:  # noqa: B008
    return float(frame_of(group, x, method).poses.double().mean())


# Exactness


def worst_error(model, group: mf.Group, x: Tensor, dtype: torch.dtype, seed: int = 0) -> float:
    """``|f(g x) - g f(x)|`` relative to the outputs of the batch; translations in units of the clouds."""
    generator = torch.Generator().manual_seed(seed)
    g = group.random(len(x), dtype=number(group), generator=generator, **options(group, dtype))
    linear, shift = group.parts(g)
    if shift is not None:
        g = group.assemble(linear, shift * x.abs().amax((-2, -1)).double().unsqueeze(-1))
    want, got = group.act(g, wide(model(x))), wide(model(group.act(g, wide(x)).to(x.dtype)))
    return float((got - want).abs().max() / want.abs().max())


def rounding_alone(model, group: mf.Group, x: Tensor, seed: int = 0) -> float:
    """What rounding inputs to float32, once they are moved, changes in a model that runs in float64.

    No function does better than its slope times the rounding of its inputs.
    """
    g = group.random(len(x), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    linear, shift = group.parts(g)
    if shift is not None:
        g = group.assemble(linear, shift * x.abs().amax((-2, -1)).double().unsqueeze(-1))
    moved = group.act(g, x.double())
    want = model(moved)
    return float((model(moved.float().double()) - want).abs().max() / want.abs().max())


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_exact_on_all_named_families(group: mf.Group) -> None:
    """For a backbone that hides nothing."""
    for name, x in clouds_for(group).items():
        if group.d == 5 and name in polytopes(5):
            x = x[:6]  # of a whole one the point group has thousands of elements: see test_too_symmetric
        for dtype in (torch.float64, torch.float32):
            size = x.abs().square().mean().sqrt()
            other = randn(group, *x.shape, generator=torch.Generator().manual_seed(5)) * (size if size else 1.0)
            y = torch.stack([x, x, other]).to(number(group, dtype))
            model = mf.Equivariant(wild, group, frames=SMOOTH).eval()
            error = worst_error(model, group, y, dtype)
            assert error <= bound(group, dtype), (name, dtype)


@pytest.mark.parametrize(("d", "n"), [(2, 20), (3, 5), (3, 20), (3, 80), (5, 20), (5, 80)])
def test_float32_adds_nothing_to_the_rounding_of_its_input(d: int, n: int) -> None:
    """Frames are found in float64: what is left is the slope times the rounding. Of 80 points moments take part."""
    x = normal(2000, n, d, seed=n).float()
    model = mf.Equivariant(wild, mf.SE(d), frames=SMOOTH).eval()
    error = worst_error(model, mf.SE(d), x, torch.float32)
    assert error <= 1.1 * rounding_alone(model, mf.SE(d), x) + 3e-7  # that of the outputs
    assert error <= 1e-5


@pytest.mark.parametrize("group", LORENTZ, ids=str)
@pytest.mark.parametrize("name", list(particles()))
def test_exact_on_particles(group: mf.Group, name: str) -> None:
    x = particles()[name]
    x = x.roll(-1, -1) if group == mf.O(3, 1) else x
    model = mf.Equivariant(wild, group, frames=SMOOTH).eval()
    if name.startswith(("one massless", "three collinear", "space-like", "null")):
        with pytest.raises(ValueError, match=r"time-like.*Minimal"):
            model(x)
        return
    generator = torch.Generator().manual_seed(0)
    assert mf.testing.equivariance_error(model, group, x, generator=generator).max() <= 1e-11


def test_strongly_boosted_particles_do_not_lose_an_axis_to_noise() -> None:
    """The axis of space is 0.3 M long, and the rounding of the rows 3e-3 M: it neither fades nor jumps."""
    light = torch.tensor([1.7e-8, 0.0, 1.43e-7, 6e-8, 1e-8], dtype=torch.float64)  # E - p
    energy = torch.tensor([474.0, 874041.0, 86161.0, 18530.0, 3159.0], dtype=torch.float64)
    x = torch.stack([energy, light - energy], -1)
    gamma = float(2 * energy.sum() / light.sum()) ** 0.5 / 2  # of (E + p) (E - p) = M^2
    assert gamma > 1e6
    group = mf.OrthochronousLorentz(2)
    model = mf.Equivariant(wild, group, "vector", "vector", frames=SMOOTH)
    rapidity = torch.linspace(0, 3, 61, dtype=torch.float64)
    boost = torch.stack([torch.stack([rapidity.cosh(), rapidity.sinh()], -1)] * 2, -2)
    boost[:, 1] = boost[:, 1].flip(-1)  # against the jet: gamma becomes smaller, and rounding stays what it is
    x = x.expand(61, 5, 2)
    want, got = group.act(boost, model(x), "vector"), model(group.act(boost, x, "vector"))
    error = torch.linalg.matrix_norm(got - want) / torch.linalg.matrix_norm(want)
    assert float(error.max()) < 50 * torch.finfo(x.dtype).eps * gamma**2


def test_poincare_takes_momenta_beside_points() -> None:
    group = mf.Poincare()
    x, p = normal(3, 6, 4), clouds.momenta(normal(3, 6, 3, seed=1))
    model = mf.Equivariant(
        lambda x, p: (wild(x + 0.3 * p), wild(p)),
        group,
        {"x": "point", "p": "vector"},
        ("point", "vector"),
        frames=SMOOTH,
    ).eval()
    for unit in (1e-3, 1.0, 30.0, 1e3):  # of places, which are measured in other units than momenta
        mf.testing.assert_equivariant(model, group, unit * x, p)
    with pytest.raises(ValueError, match="'vector'"):
        mf.Equivariant(wild, group, frames=SMOOTH)(x)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("group", [mf.O(3), mf.SO(3), mf.E(3), mf.SE(3)], ids=str)
def test_exact_for_every_type(group: mf.Group, type: str) -> None:
    """On clouds of every rank, and on the way from one to the next, where components fade."""
    x = normal(12, 3)
    near = [
        x * torch.tensor([1, a, b]) for a in (1, 0.03, 0.01, 1e-3, 1e-9, 0) for b in (1, 0.03, 0.01, 1e-9, 0) if b <= a
    ]
    near += [*clouds.solids().values(), torch.zeros(4, 3, dtype=torch.float64)]
    for y in near:
        model = mf.Equivariant(outputs_of(network(), type), group, outputs=type, frames=SMOOTH).eval()
        # Relative to the size of the outputs of a batch in which not all vanish.
        batch = torch.stack([centred(y), normal(len(y), 3, seed=2)])
        g = group.random(2, dtype=torch.float64)
        want = group.act(g, model(batch), type)
        got = model(group.act(g, batch))
        assert (got - want).abs().max() <= 1e-11 * want.abs().max(), y


@pytest.mark.parametrize("name", ["methane", "benzene", "water", "carbon dioxide"])
def test_exact_on_near_symmetric_molecules(name: str) -> None:
    """At every noise, turned and reordered: nothing is decided, so rounding decides nothing."""
    x, _ = clouds.MOLECULES[name]
    run = network()
    model = mf.Equivariant(
        lambda x: (outputs_of(run, "scalar")(x), run(x)), mf.E(3), outputs=("scalar", "vector"), frames=SMOOTH
    )
    model.eval()
    for dtype, rtol in ((torch.float64, 1e-11), (torch.float32, 1e-5)):
        noise = torch.cat([torch.zeros(1), 10.0 ** -torch.arange(1, 17)]).to(torch.float64)
        noisy = (x + noise.view(-1, 1, 1) * normal(len(noise), *x.shape)).to(dtype)
        for seed in range(5):
            generator = torch.Generator().manual_seed(seed)
            q = mf.SO(3).random(len(noise), dtype=torch.float64, generator=generator)
            order = torch.randperm(len(x), generator=generator)
            energy, force = model(noisy)
            moved_energy, moved_force = model((noisy.double() @ q.mT).to(dtype)[:, order])
            want = (force.double() @ q.mT)[:, order]
            assert (moved_energy - energy).abs().max() <= rtol * energy.abs().max()
            assert (moved_force - want).abs().max() <= rtol * want.abs().max()


@pytest.mark.parametrize("group", [mf.E(3), mf.SE(2)], ids=str)
def test_where_a_small_cloud_stands_changes_nothing(group: mf.Group) -> None:
    """Points some 1e-5 apart, shifted without rounding: outputs along their axes fade for no observer."""
    grid = torch.randint(-32, 33, (50, 9, group.d), generator=torch.Generator().manual_seed(0))
    x = 1 + (grid * 2.0**-20).float()
    moved = x + 2.0
    assert torch.equal(moved.double() - 3, x.double() - 1)
    model = mf.Equivariant(lambda x: wild(x * 2.0**15), group, outputs="vector", frames=SMOOTH).eval()
    want = model(x)
    assert (model(moved) - want).abs().max() <= 1e-5 * want.abs().max()
    assert want.abs().amax((-2, -1)).min() > 0.1 * want.abs().max()


def test_order_of_rows_does_not_matter() -> None:
    x = torch.stack([normal(20, 3, seed=k) for k in range(10)])
    model = mf.Equivariant(network(), mf.SE(3), frames=SMOOTH).eval()
    order = torch.randperm(20)
    torch.testing.assert_close(model(x[:, order]), model(x)[:, order], rtol=0, atol=1e-12)


def test_weights_add_up_and_nothing_is_near_a_decision() -> None:
    x = torch.stack([*(normal(8, 3, seed=k) for k in range(20)), clouds.cube()])
    frame = frame_of(mf.E(3), x)
    total = torch.zeros(21, dtype=torch.float64).index_add(0, frame.sample, frame.weights)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-14)
    assert (frame.weights > 0).all()
    assert frame.margin.isinf().all()
    assert mf.E(3).contains(frame.element).all()
    assert frame.rank.tolist() == [3] * 21
    assert frame.poses.sum() == len(frame.weights)
    assert frame.size == frame.poses.tolist()
    y = frame.from_canonical(frame.to_canonical(x))
    torch.testing.assert_close(y, x, rtol=0, atol=1e-12)


def test_the_margin_of_general_groups_is_that_of_the_rank() -> None:
    """Smooth frames of GL jump where the rank changes, and nowhere else: the margin says so."""
    x = normal(1, 6, 3)
    thin = [x * torch.tensor([1.0, 1.0, t], dtype=x.dtype) for t in (1.0, 1e-12, 1e-15)]
    generic, thick, near = (float(frame_of(mf.GL(3), y).margin) for y in thin)
    assert generic == torch.inf
    assert thick < 1e-11
    assert near < 1e-14
    assert float(frame_of(mf.O(3), thin[2]).margin) == torch.inf


def test_model_frame_shows_poses_and_weights() -> None:
    x = torch.stack([normal(8, 3), clouds.cube()])
    model = mf.Invariant(outputs_of(network(), "scalar"), mf.SO(3), frames=SMOOTH).eval()
    frame = model.frame(x)
    assert frame.poses.tolist()[1] == 48
    assert frame.margin.isinf().all()
    energies = outputs_of(network(), "scalar")(frame.to_canonical(x, "vector"))
    total = torch.zeros(2, dtype=torch.float64).index_add(0, frame.sample, frame.weights * energies)
    torch.testing.assert_close(total, model(x), rtol=1e-12, atol=1e-12)


# Continuity


def refines(function, path, start: float, stop: float, steps: int = 400, levels: int = 3) -> list[float]:
    """What the largest change over a step of a path is divided by when the step is divided by eight: for each output.

    It is divided again and again, and each time finer steps are looked at where the coarser ones changed most, and
    beside them. The last division counts: by then steps are small enough for a smooth function to be all but linear over
    them, while a jump is as large as it was.
    """
    step = (stop - start) / steps
    times = (start + step * torch.arange(steps + 1, dtype=torch.float64)).unsqueeze(0)
    largest: list[Tensor] = []
    for _ in range(levels + 1):
        y = function(path(times.flatten()))
        parts = [part.reshape(*times.shape, -1) for part in (y if isinstance(y, tuple) else (y,))]
        change = torch.stack([(part[:, 1:] - part[:, :-1]).norm(dim=-1).flatten() for part in parts])
        largest.append(change.amax(-1))
        most = change.topk(8).indices.flatten().unique()
        begins = times[:, :-1].flatten()[most]
        step = step / 8
        times = begins.unsqueeze(-1) - 8 * step + step * torch.arange(25, dtype=torch.float64)
    return torch.where(largest[-1] > 0, largest[-2] / largest[-1], math.inf).tolist()


def paths() -> dict[str, tuple]:
    """Through symmetric and rank-deficient configurations at t = 0, and at random."""
    found = {}
    named = clouds.symmetric_clouds() | clouds.deficient_clouds()
    wanted = (
        "tetrahedron",
        "cube",
        "octahedron",
        "icosahedron",
        "benzene",
        "methane",
        "water",
        "carbon dioxide",
        "6-gon",
    )
    wanted += ("prism", "antiprism", "mirrored", "inverted", "two tetrahedra", "symmetric line", "every point twice")
    wanted += (
        "plane",
        "tilted plane",
        "line",
        "tilted line",
        "opposite points",
        "three points",
        "cube, one corner twice",
    )
    for k, name in enumerate(wanted):
        x = centred(named[name])
        x = x / x.norm(dim=-1).max()
        found[name] = (x, 0.3 * normal(*x.shape, seed=k + 50))
    for k in range(6):
        found[f"random {k}"] = (normal(6 + k, 3, seed=k), normal(6 + k, 3, seed=k + 20))
    x = normal(60, 3, seed=60)
    found["shell"] = (x / x.norm(dim=-1, keepdim=True), normal(60, 3, seed=61))  # in which moments compete
    return found


PATHS = paths()


MANY_POSES = ("icosahedron", "cube", "antiprism", "benzene", "prism", "two tetrahedra", "inverted")


@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(
            group, name, marks=[pytest.mark.slow] if name == "icosahedron" or (name in MANY_POSES and k) else []
        )
        for k, group in enumerate((mf.SE(3), mf.E(3)))
        for name in PATHS
    ],
    ids=str,
)
def test_continuous(group: mf.Group, name: str) -> None:
    x, v = PATHS[name]
    path = lambda t: x + t.view(-1, 1, 1) * v  # noqa: E731
    types = ("scalar", "vector", "pseudovector", "tensor")
    backbones = [outputs_of(network(), type) for type in types]
    model = mf.Equivariant(lambda x: tuple(run(x) for run in backbones), group, outputs=types, frames=SMOOTH).eval()
    # grids on which rank and symmetry are met exactly, and that step over them
    for start, stop in ((-0.05, 0.05), (-0.0503, 0.05), (-2.03e-4, 2e-4), (-2.03e-7, 2e-7)):
        for ratio in refines(model, path, start, stop, 400 if stop > 0.01 else 16):
            assert ratio >= 7, start


def swapped_axes(t: Tensor) -> Tensor:
    """Two principal axes that exchange their places at t = 0."""
    x = torch.linalg.qr(centred(normal(9, 3, seed=3)))[0]
    stretch = torch.stack([1 + t / 10, 1 - t / 10, torch.full_like(t, 0.5)], -1)
    return x * stretch.unsqueeze(-2)


def random_path(t: Tensor) -> Tensor:
    x, v = PATHS["random 1"]
    return x + t.view(-1, 1, 1) * v


@pytest.mark.parametrize(
    ("method", "path"), [(mf.frames.Minimal(), random_path), (mf.frames.PCA(), swapped_axes)], ids=("minimal", "PCA")
)
def test_other_frames_are_not_continuous(method, path) -> None:
    """The same test fails where it has to."""
    model = mf.Invariant(outputs_of(network(), "scalar"), mf.SE(3), frames=method).eval()
    assert min(refines(model, path, -2.01, 2)) < 2
    smooth = mf.Invariant(outputs_of(network(), "scalar"), mf.SE(3), frames=SMOOTH).eval()
    assert min(refines(smooth, path, -2.01, 2)) >= 7


@pytest.mark.parametrize(("group", "name"), [(mf.SE(3), n) for n in ("methane", "6-gon", "random 0", "random 5", "plane", "shell")]
                         + [(mf.E(3), n) for n in ("water", "random 0", "random 5")], ids=str)  # fmt: skip
def test_forces_are_continuous_where_the_rank_is_full(group: mf.Group, name: str) -> None:
    """A plane has full rank under rotations, as the last axis follows from the others."""
    x, v = PATHS[name]
    model = mf.Invariant(outputs_of(network(), "scalar"), group, frames=SMOOTH).eval()

    def force(y: Tensor) -> Tensor:
        y = y.requires_grad_()
        return torch.autograd.grad(model(y).sum(), y)[0]

    path = lambda t: x + t.view(-1, 1, 1) * v  # noqa: E731
    for start, stop in ((-0.05, 0.05), (-0.0503, 0.05), (-2.03e-4, 2e-4)):
        assert min(refines(force, path, start, stop, 400 if stop > 0.01 else 16, levels=4)) >= 7, start


def test_lorentz_and_general_groups_are_continuous() -> None:
    p, v = normal(5, 3), normal(5, 3, seed=1)
    jet = lambda t: clouds.momenta(p + t.view(-1, 1, 1) * v, mass=0.0)  # noqa: E731
    a, b = normal(7, 4, seed=2), normal(7, 4, seed=3)
    line = lambda t: a + t.view(-1, 1, 1) * b  # noqa: E731
    for group, path in ((mf.Lorentz(), jet), (mf.OrthochronousLorentz(), jet), (mf.GL(4), line), (mf.SL(4), line)):
        model = mf.Equivariant(network(4, scale=0.3), group, outputs="vector", frames=SMOOTH).eval()
        assert min(refines(model, path, -0.05, 0.05)) >= 7, group


# Derivatives


@pytest.mark.parametrize(
    "group", [mf.O(2), mf.SE(3), mf.E(3), mf.U(2), mf.SU(2), mf.Lorentz(3), mf.SL(2), mf.GL(2)], ids=str
)
@pytest.mark.parametrize("moments", [False, True])
def test_twice_differentiable(group: mf.Group, moments: bool) -> None:
    """Of few rows, and of so many that moments compete with them."""
    method = mf.frames.Smooth(12)

    def drawn(seed: int) -> Tensor:
        x = randn(group, 1, 55 if moments else 5, group.d, generator=torch.Generator().manual_seed(seed))
        return clouds.momenta(x[..., 1:]) if getattr(group, "q", 0) else x

    def competing(x: Tensor) -> bool:
        poses = frame_of(group, x, method).poses
        more = frame_of(group, x, replace(method, moments=False)).poses
        return bool(2 <= poses <= 4) and (not moments or bool(poses < more))

    x = next(filter(competing, map(drawn, range(100))))
    w = randn(group, group.d, 4, generator=torch.Generator().manual_seed(4))

    def energy(y: Tensor) -> Tensor:
        z = y @ w
        z = z.real + 0.5 * z.imag if z.is_complex() else z
        return torch.sin(z).sum((-1, -2)) + (z[..., 0] * z[..., 1]).sum(-1)

    model = mf.Invariant(energy, group, frames=method).eval()
    x.requires_grad_()
    assert torch.autograd.gradcheck(model, x, atol=1e-5, rtol=1e-4, fast_mode=moments)
    assert torch.autograd.gradgradcheck(model, x, atol=1e-4, rtol=1e-3, fast_mode=moments)


@pytest.mark.parametrize("name", [*clouds.deficient_clouds(), "cube", "icosahedron", "6-gon", "symmetric line"])
def test_derivatives_are_finite(name: str) -> None:
    x = (clouds.symmetric_clouds() | clouds.deficient_clouds())[name].clone().requires_grad_()
    for group in (mf.SE(3), mf.E(3), mf.O(3)):
        model = mf.Equivariant(
            lambda x: (network()(x), outputs_of(network(), "scalar")(x)),
            group,
            outputs=("vector", "scalar"),
            frames=SMOOTH,
        )
        y, e = model.eval()(x)
        force = torch.autograd.grad(e + y.square().sum(), x, create_graph=True)[0]
        assert force.isfinite().all()
        again = torch.autograd.grad(force.square().sum(), x, allow_unused=True)[0]
        assert again is None or again.isfinite().all()


def test_training_on_forces() -> None:
    """Double backward reaches the parameters."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    model = mf.Invariant(lambda x: net(x).sum((-1, -2)), mf.SE(3), frames=SMOOTH)
    x = normal(4, 6, 3).requires_grad_()
    force = torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]
    force.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net[0].parameters())


def test_a_detached_frame_lets_no_gradient_through() -> None:
    x = normal(4, 6, 3).requires_grad_()
    model = mf.Invariant(outputs_of(network(), "scalar"), mf.SE(3), frames=SMOOTH, detach_frame=True).eval()
    got = torch.autograd.grad(model(x).sum(), x)[0]
    frame = frame_of(mf.SE(3), x.detach())
    y = frame.to_canonical(x)
    want = torch.autograd.grad((frame.weights * outputs_of(network(), "scalar")(y)).sum(), x)[0]
    torch.testing.assert_close(got, want)


# How many poses


def ball(b: int, n: int) -> Tensor:
    x = normal(b, n, 3)
    radius = torch.rand(b, n, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) ** (1 / 3)
    return x / x.norm(dim=-1, keepdim=True) * radius


def shell(b: int, n: int) -> Tensor:
    x = normal(b, n, 3)
    thickness = torch.rand(b, n, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x / x.norm(dim=-1, keepdim=True) * (1 - 0.02 * thickness)


def box_surface(b: int, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    x = 2 * torch.rand(b, n, 3, dtype=torch.float64, generator=generator) - 1
    side = torch.randint(0, 3, (b, n, 1), generator=generator)
    return x.scatter(-1, side, torch.randint(0, 2, (b, n, 1), generator=generator).double() * 2 - 1)


def test_poses_of_random_clouds() -> None:
    assert mean_poses(normal(1000, 20, 3)) <= 1.5


@pytest.mark.parametrize("make", [ball, shell, box_surface])
@pytest.mark.parametrize("n", [100, 1000, 10_000])
@pytest.mark.parametrize("group", [mf.SO(3), mf.SE(3)], ids=str)
def test_poses_of_compact_clouds(make, n: int, group: mf.Group) -> None:
    assert mean_poses(make(300 if n == 100 else 50 if n == 1000 else 10, n), group) <= 2.5


@pytest.mark.parametrize(
    ("name", "most"),
    [("CH4", 6), ("C2H6", 6), ("trans-butane", 2), ("C3H8", 2), ("butadiene", 2), ("bicyclobutane", 2), ("C3H7Cl", 2)],
)
def test_poses_of_thermal_molecules(name: str, most: float) -> None:
    assert mean_poses(thermal(name)) <= most


def test_poses_of_all_molecules_of_ten_atoms() -> None:
    """Those of the G2 set, rigid and symmetric ones included: nine of 24 have more than two poses, benzene most."""
    ase = pytest.importorskip("ase.collections", reason="ASE has the molecules")
    build = pytest.importorskip("ase.build")
    found = {name: mean_poses(thermal(name)) for name in ase.g2.names if len(build.molecule(name)) >= 10}
    assert len(found) == 24
    assert sum(found.values()) / len(found) <= 2
    more = ["isobutene", "C4H4NH", "cyclobutane", "isobutane", "2-butyne", "C3H9N", "C3H9C", "C5H8", "C6H6"]
    assert {name for name, poses in found.items() if poses > 2} == set(more)
    assert max(found.values()) <= 3.5


@pytest.mark.parametrize("name", list(clouds.solids()))
def test_poses_of_symmetric_solids(name: str) -> None:
    x = clouds.solids()[name]
    whole = clouds.ORDERS[name]
    assert whole <= mean_poses(x, mf.O(3)) <= 4 * whole
    assert whole / 2 <= mean_poses(x, mf.SO(3)) <= 4 * whole / 2
    for seed in range(3):
        for noise in (1e-12, 1e-6, 1e-3, 1e-2):
            assert mean_poses(x + noise * normal(*x.shape, seed=seed), mf.SO(3)) <= 4 * whole / 2


def test_molecules_have_rows_alone_and_larger_clouds_moments() -> None:
    """Up to 40 rows moments have no share at all, padded or not; from 60 on they keep poses few."""
    rows_only = replace(SMOOTH, moments=False)
    x = shell(20, 40)
    alone, usual = frame_of(mf.SE(3), x, rows_only), frame_of(mf.SE(3), x)
    assert torch.equal(alone.sample, usual.sample)
    assert torch.equal(alone.weights, usual.weights)
    wide = torch.cat([x, torch.zeros(20, 30, 3, dtype=x.dtype)], -2)
    mask = (torch.arange(70) < 40).expand(20, 70)
    model = mf.Invariant(
        lambda x, mask: torch.where(mask, network()(x)[..., 0], 0).sum(-1), mf.SE(3), mask="mask", frames=SMOOTH
    ).eval()
    padded = model.frame(wide, mask=mask)
    assert torch.equal(alone.sample, padded.sample)
    torch.testing.assert_close(alone.weights, padded.weights, rtol=1e-12, atol=0)
    for n in (60, 80):
        assert mean_poses(shell(20, n)) <= 2.5 < mean_poses(shell(20, n), mf.SE(3), rows_only)


@pytest.mark.parametrize("moments", [True, False])
def test_cost_is_linear_in_the_number_of_points(moments: bool) -> None:
    """A row of a pose takes as long in large clouds as in small ones, gradients included: the processor's fastest runs."""
    method, costs = replace(SMOOTH, moments=moments), []
    for n in (4_000, 256_000):
        x = normal(2, n, 3).requires_grad_()
        runs = []
        for _ in range(4):
            start = time.process_time()
            frame = frame_of(mf.SE(3), x, method)
            (frame.weights.sum() + frame.elements.linear.sum()).backward()
            runs.append(time.process_time() - start)
        costs.append(min(runs) / (n * len(frame.weights)))
    assert costs[1] <= 1.5 * costs[0]


def test_sharper_is_fewer() -> None:
    counts = [mean_poses(normal(500, 20, 3), mf.SE(3), mf.frames.Smooth(a)) for a in (8, 16, 32, 64)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 1.3


def test_too_symmetric() -> None:
    with pytest.raises(ValueError, match=r"sample 0 of 1 .*Minimal"):
        frame_of(mf.O(8), polytopes(8)["cross-polytope"])


# One batch


class Counting(torch.nn.Module):
    """A graph network of sorts that counts its calls and takes rows in every layout."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []
        self.a, self.b = normal(5, 16, seed=7), normal(16, 3, seed=8)

    def forward(self, x, h, mask=None, batch=None, edge_index=None, w=None, charge=None, shift=None):
        self.shapes.append(tuple(x.shape))
        z = torch.tanh(torch.cat([x, h], -1) @ self.a)
        if shift is not None:
            assert shift.shape == (16,)
            z = z + shift
        if edge_index is not None:
            z = z + torch.zeros_like(z).index_add(0, edge_index[1], z[edge_index[0]] * w)
        y = z @ self.b
        if batch is not None:
            count = int(batch.max()) + 1
            total = y.new_zeros(count, 3).index_add(0, batch, y)
        else:
            y = y if mask is None else torch.where(mask.unsqueeze(-1), y, 0)
            total = y.sum(-2)
        energy = total[..., 0] - 0.3 * total[..., 1]
        return {"v": y, "e": energy if charge is None else energy * charge}


SOFTER = mf.frames.Smooth(8)
OPTIONS = {"inputs": {"x": "point", "h": "node"}, "outputs": {"v": "vector", "e": "scalar"}, "frames": SOFTER}
X, H = normal(5, 7, 3), normal(5, 7, 2, seed=1)


def close(a: dict, b: dict) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_one_call_of_the_backbone() -> None:
    net = Counting()
    model = mf.Equivariant(net, mf.E(3), **OPTIONS).eval()
    whole = model(X, H)
    count = int(frame_of(mf.E(3), X, SOFTER).poses.sum())
    assert count > 5
    assert net.shapes == [(count, 7, 3)]
    net.shapes.clear()
    parts = mf.Equivariant(net, mf.E(3), **OPTIONS | {"frames": replace(SOFTER, chunk=4)}).eval()(X, H)
    assert [s[0] for s in net.shapes] == [4] * (count // 4) + [count % 4] * (count % 4 > 0)
    close(parts, whole)


def test_all_layouts_agree() -> None:
    net = Counting()
    whole = mf.Equivariant(net, mf.E(3), **OPTIONS).eval()(X, H)
    alone = [mf.Equivariant(net, mf.E(3), **OPTIONS).eval()(x, h) for x, h in zip(X, H, strict=True)]
    close({k: torch.stack([y[k] for y in alone]) for k in whole}, whole)
    several = mf.Equivariant(net, mf.E(3), **OPTIONS).eval()(X.view(5, 1, 7, 3), H.view(5, 1, 7, 2))
    close({k: y.squeeze(1) for k, y in several.items()}, whole)
    mask = (torch.arange(9) < 7).expand(5, 9)
    padded = torch.cat([X, torch.full((5, 2, 3), torch.nan, dtype=X.dtype)], 1), torch.cat([H, H[:, :2]], 1)
    masked = mf.Equivariant(net, mf.E(3), **OPTIONS, mask="mask").eval()(*padded, mask=mask)
    close({"v": masked["v"][:, :7], "e": masked["e"]}, whole)
    order = torch.randperm(35, generator=torch.Generator().manual_seed(0))
    batch = torch.arange(5).repeat_interleave(7)[order]
    ragged = mf.Equivariant(net, mf.E(3), **OPTIONS, batch="batch").eval()
    rows = ragged(X.view(35, 3)[order], H.view(35, 2)[order], batch=batch)
    close(rows, {"v": whole["v"].view(35, 3)[order], "e": whole["e"]})


def test_layouts_agree_in_gradients_across_sizes() -> None:
    """Clouds of a row, of a molecule's size and with moments, in one batch: by mask, by batch vector, each alone."""
    sizes = [1, 2, 5, 39, 41, 64]
    alone = [normal(n, 3, seed=n).requires_grad_() for n in sizes]
    padded = torch.full((6, 70, 3), torch.nan, dtype=torch.float64)
    mask = torch.arange(70) < torch.tensor(sizes).unsqueeze(-1)
    padded[mask] = torch.cat([x.detach() for x in alone])
    rows = padded[mask].requires_grad_()
    padded.requires_grad_()

    def with_mask(x: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask, torch.tanh(x @ normal(3, 4)).sum(-1), 0).sum(-1)

    def with_batch(x: Tensor, batch: Tensor) -> Tensor:
        return x.new_zeros(int(batch.max()) + 1).index_add(0, batch, energy_of(x))

    def energy_of(x: Tensor) -> Tensor:
        return torch.tanh(x @ normal(3, 4)).sum(-1)

    single = mf.Invariant(lambda x: energy_of(x).sum(-1), mf.SE(3), frames=SOFTER).eval()
    want = torch.cat([torch.autograd.grad(single(x), x)[0] for x in alone])
    masked = mf.Invariant(with_mask, mf.SE(3), mask="mask", frames=SOFTER).eval()(padded, mask=mask)
    torch.testing.assert_close(torch.autograd.grad(masked.sum(), padded)[0][mask], want, rtol=0, atol=1e-11)
    batch = torch.arange(6).repeat_interleave(torch.tensor(sizes))
    ragged = mf.Invariant(with_batch, mf.SE(3), batch="batch", frames=SOFTER).eval()(rows, batch=batch)
    torch.testing.assert_close(torch.autograd.grad(ragged.sum(), rows)[0], want, rtol=0, atol=1e-11)


def test_edges_scalars_and_constants() -> None:
    net = Counting()
    types = OPTIONS["inputs"] | {"edge_index": "edge_index", "w": "edge_attr", "charge": "scalar", "shift": "constant"}
    model = mf.Equivariant(net, mf.E(3), **OPTIONS | {"inputs": types}, batch="batch").eval()
    sizes = torch.tensor([7, 4, 1, 6, 5])
    batch = torch.arange(5).repeat_interleave(sizes)
    x, h = normal(23, 3), normal(23, 2, seed=1)
    first = (sizes.cumsum(0) - sizes)[batch]
    edges = torch.stack([torch.arange(23), first + (torch.arange(23) - first + 2) % sizes[batch]])
    w, charge, shift = normal(23, 1, seed=2), normal(5, seed=3), normal(16, seed=4)
    rest = {"charge": charge, "shift": shift}
    y = model(x, h, batch=batch, edge_index=edges, w=w, **rest)
    for s in range(5):  # each alone
        at = batch == s
        local = edges[:, at] - int((sizes.cumsum(0) - sizes)[s])
        own = {"charge": charge[s : s + 1], "shift": shift}
        one = model(x[at], h[at], batch=torch.zeros(int(sizes[s]), dtype=torch.int64), edge_index=local, w=w[at], **own)
        close(one, {"v": y["v"][at], "e": y["e"][s : s + 1]})
    q = mf.E(3).random(5, dtype=torch.float64)
    order = torch.randperm(23)
    back = torch.empty_like(order)
    back[order] = torch.arange(23)
    moved = mf.E(3).act(q[batch], x)[order]
    z = model(moved, h[order], batch=batch[order], edge_index=back[edges], w=w, **rest)
    close(z, {"v": mf.E(3).act(q[batch], y["v"], "vector")[order], "e": y["e"]})


def test_inputs_beside_the_cloud_fade_with_it() -> None:
    """A field that does not determine the frame is continuous in what it is shown as, and exact."""
    net = network(6)

    def backbone(x: Tensor, field: Tensor) -> Tensor:
        return net(torch.cat([x, field.unsqueeze(-2).expand_as(x)], -1))[..., :3]

    model = mf.Equivariant(
        backbone, mf.SO(3), {"x": "point", "field": "vector"}, "vector", frame_on="x", frames=SMOOTH
    ).eval()
    x, v, field = normal(6, 1) * normal(1, 3, seed=1), normal(6, 3, seed=2), normal(3, seed=3)
    path = lambda t: x + t.view(-1, 1, 1) * v  # noqa: E731
    assert min(refines(lambda y: model(y, field.expand(len(y), 3)), path, -2.03e-2, 2e-2)) >= 7
    mf.testing.assert_equivariant(model, mf.SO(3), path(torch.tensor([0.1, 0.02])), field.expand(2, 3))


def test_several_inputs_determine_the_frame() -> None:
    x, v = normal(4, 6, 1) * normal(4, 1, 3, seed=1), 1e-3 * normal(4, 6, 3, seed=2)
    net = network(6)
    backbone = lambda x, v: net(torch.cat([x, 1e3 * v], -1))[..., :3]  # noqa: E731
    model = mf.Equivariant(backbone, mf.E(3), {"x": "point", "v": "vector"}, "vector", frames=SMOOTH).eval()
    mf.testing.assert_equivariant(model, mf.E(3), x, v)
    assert model(x, v).norm(dim=-1).min() > 0
    path = lambda t: v[:1] + t.view(-1, 1, 1) * v[1:2]  # noqa: E731
    assert min(refines(lambda w: model(x[:1].expand(len(w), 6, 3), w), path, -0.1, 0.1)) >= 7


def test_untyped_tensors_are_refused() -> None:
    model = mf.Equivariant(Counting(), mf.E(3), {"x": "point"}, {"v": "vector", "e": "scalar"}, frames=SMOOTH)
    with pytest.raises(ValueError, match=r"h holds a tensor without a type.*'scalar'.*'node'.*'constant'"):
        model(X, H)


def test_messages() -> None:
    for group in (mf.S(), mf.S() * mf.O(3)):
        with pytest.raises(ValueError, match="backbone on sets"):
            mf.Equivariant(wild, group, frames=SMOOTH)(X)
    with pytest.raises(ValueError, match="Smooth"):
        mf.Equivariant(wild, mf.O(2, 2), frames=SMOOTH)(normal(5, 4))
    with pytest.raises(ValueError, match="keeps the samples of a batch apart"):
        mf.Invariant(lambda x: x.sum(), mf.O(3), frames=SMOOTH)(X)
    with pytest.raises(ValueError, match="batch axes"):
        mf.Invariant(lambda x, h: x.sum((-1, -2)), mf.O(3), {"x": "point", "h": "scalar"}, frames=SMOOTH)(X, H[0])
    types = {"x": "point", "e": "edge_index"}
    with pytest.raises(ValueError, match="batch vector"):
        mf.Invariant(lambda x, e: x.sum((-1, -2)), mf.O(3), types, frames=SMOOTH)(
            X[0], torch.zeros(2, 3, dtype=torch.int64)
        )
    with pytest.raises(ValueError, match="NaN"):
        mf.Invariant(lambda x: x.sum((-1, -2)), mf.O(3), frames=SMOOTH)(X / 0)
    for wrong in (
        {"sharpness": 2},
        {"fade": 0},
        {"samples": 0},
        {"chunk": 0},
        {"seed": 1, "generator": torch.Generator()},
    ):
        with pytest.raises(ValueError, match=r"sharpness|fade|sample|chunk|seed"):
            mf.frames.Smooth(**wrong)
    assert repr(mf.frames.Smooth(16, samples=1, seed=3)) == "Smooth(sharpness=16, samples=1, seed=3)"


def test_unchecked_shows_nan_in_its_sample() -> None:
    x = X.clone()
    x[2, 1, 0] = torch.nan
    model = mf.Equivariant(network(), mf.SE(3), frames=SMOOTH).eval()
    with mf.unchecked():
        y = model(x)
    assert y[2].isnan().all()
    torch.testing.assert_close(y[[0, 1, 3, 4]], model(X)[[0, 1, 3, 4]], rtol=0, atol=1e-12)


def test_unchecked_shows_nan_without_a_rest_frame() -> None:
    x = clouds.momenta(normal(3, 5, 3))
    model = mf.Equivariant(wild, mf.Lorentz(), frames=SMOOTH).eval()
    whole = model(x)
    bad = x.clone()
    bad[1, :, 0] = 0
    with mf.unchecked():
        y = model(bad)
    assert y[1].isnan().all()
    torch.testing.assert_close(y[[0, 2]], whole[[0, 2]], rtol=1e-12, atol=0)


# Training on drawn poses


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_drawn_poses_are_unbiased(samples: int) -> None:
    """Values, forces and how forces change: many draws of one sample, as a batch, against all of its poses."""
    x = clouds.methane()[0] + 0.03 * normal(5, 3)
    energy = lambda x: torch.sin(network()(x)).mean((-1, -2))  # noqa: E731
    draws = 5_000
    drawn = mf.Invariant(energy, mf.SE(3), frames=mf.frames.Smooth(16, samples=samples, seed=0))
    assert drawn(x).shape == ()
    assert frame_of(mf.SE(3), x, drawn.frames).poses > 4
    direction = normal(5, 3)

    def derivatives(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        e = drawn(y.requires_grad_())
        force = torch.autograd.grad(e.sum(), y, create_graph=True)[0]
        return e, force, torch.autograd.grad((force * direction).sum(), y)[0]

    found = derivatives(x.expand(draws, 5, 3).clone())
    drawn.eval()
    for name, many, wanted in zip(("value", "force", "curvature"), found, derivatives(x.clone()), strict=True):
        assert ((many.mean(0) - wanted).abs() <= 5 * many.std(0) / math.sqrt(draws)).all(), name
    assert found[1].std(0).max() < 100 * derivatives(x.clone())[1].abs().max()


def test_what_all_poses_agree_about_makes_no_noise_in_two() -> None:
    """The weights of two draws add up to one wherever the cloud moves: a constant in the energy costs nothing."""
    x = (clouds.methane()[0] + 0.03 * normal(5, 3)).expand(200, 5, 3)

    def forces(samples: int, constant: float) -> Tensor:
        energy = lambda x: torch.sin(network()(x)).mean((-1, -2)) + constant  # noqa: E731
        model = mf.Invariant(energy, mf.SE(3), frames=mf.frames.Smooth(16, samples=samples, seed=0))
        y = x.clone().requires_grad_()
        return torch.autograd.grad(model(y).sum(), y)[0]

    torch.testing.assert_close(forces(2, 100.0), forces(2, 0.0), atol=1e-10, rtol=0)
    assert (forces(1, 100.0) - forces(1, 0.0)).abs().max() > 1


def test_drawing_is_seeded_costs_one_pose_and_stops_in_evaluation() -> None:
    x = clouds.cube() + 0.01 * normal(6, 8, 3)
    shapes = []

    def energy(x: Tensor) -> Tensor:
        shapes.append(x.shape[0])
        return outputs_of(network(), "scalar")(x)

    runs = []
    for _ in range(2):
        model = mf.Invariant(energy, mf.SE(3), frames=mf.frames.Smooth(samples=1, seed=5))
        runs.append(torch.stack([model(x), model(x)]))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0][0], runs[0][1])
    assert set(shapes) == {6}
    shapes.clear()
    mf.Invariant(energy, mf.SE(3), frames=mf.frames.Smooth(samples=3, seed=5))(x)
    model.eval()(x)
    assert shapes[0] == 18
    assert shapes[1] > 60


def test_points_of_space_time_need_momenta() -> None:
    """Where points stand is no momentum: a frame of it would change with a translation."""
    x = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 5
    model = mf.Invariant(lambda x: x.square().sum((-1, -2)), mf.Poincare(4), frames=mf.frames.Smooth())
    with pytest.raises(ValueError, match="need momenta beside them"):
        model(x)


@pytest.mark.parametrize("group", [mf.O(3), mf.Octahedral()], ids=str)
def test_constants_are_the_same_however_many_passes_there_are(group: Any) -> None:
    """They were added up over chunks."""
    constants = torch.tensor([0.1, 3.0]), torch.tensor([2, 5]), torch.tensor([True, False]), "a word"
    x = torch.randn(6, 9, 3)
    for chunk in (None, 1, 4):
        frames = mf.frames.Smooth(chunk=chunk)
        types = ("scalar", *["constant"] * len(constants))
        model = mf.Equivariant(lambda x: (x.sin().sum((-1, -2)), *constants), group, "vector", types, frames=frames)
        energy, *found = model(x)
        assert energy.shape == (6,)
        for y, constant in zip(found, constants, strict=True):
            if isinstance(constant, Tensor):
                torch.testing.assert_close(y, constant, rtol=0, atol=0)
            else:
                assert y == constant
