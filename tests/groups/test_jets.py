"""Between the massive and the null: collimated jets at every opening, particles of every mass, and the margins there."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import minframe as mf

EPS = {torch.float64: torch.finfo(torch.float64).eps, torch.float32: torch.finfo(torch.float32).eps}
OPENINGS = [10 ** (-k / 2) for k in range(19)]  # 1 to 1e-9
SIZES = (2, 3, 8, 30, 200)
KINDS = ("massless", "six decades of energy", "mixed", "all but one collinear")
GROUPS = (
    *(mf.Lorentz(4), mf.ProperLorentz(4), mf.OrthochronousLorentz(4), mf.OrthochronousLorentz(4, parity=True)),
    mf.Poincare(4),
)
PARITY = torch.diag(torch.tensor([1.0, -1, -1, -1], dtype=torch.float64))
by_dtype = pytest.mark.parametrize("dtype", EPS, ids=["float64", "float32"])
by_kind = pytest.mark.parametrize("kind", KINDS)


def jets(count: int, n: int, opening: float, kind: str, seed: int = 0) -> Tensor:
    """``(2 count, n, 4)``: jets about random axes, and the same boosted, in float64."""
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, dtype=torch.float64, generator=generator)

    axis = torch.randn(count, 1, 3, dtype=torch.float64, generator=generator)
    axis = axis / axis.norm(dim=-1, keepdim=True)
    across = torch.linalg.cross(axis, torch.randn(count, n, 3, dtype=torch.float64, generator=generator), dim=-1)
    angle = opening * rand(count, n, 1).sqrt()
    if kind == "all but one collinear":
        angle[:, 1:] = 0
    direction = axis * angle.cos() + across / across.norm(dim=-1, keepdim=True) * angle.sin()
    energy = 10 ** (1 - 6 * rand(count, n, 1)) if kind == "six decades of energy" else 1 + 9 * rand(count, n, 1)
    mass = opening * energy * rand(count, n, 1) * (rand(count, n, 1) < 0.5) if kind == "mixed" else 0 * energy
    x = torch.cat([energy, direction * (energy.square() - mass.square()).sqrt()], -1)
    g = mf.OrthochronousLorentz().random(count, dtype=torch.float64, max_rapidity=2.0, generator=generator)
    return torch.cat([x, x @ g.mT])


def opening_of(x: Tensor) -> Tensor:
    """The largest angle of a momentum with their sum, per sample."""
    p = x[..., 1:] / x[..., 1:].norm(dim=-1, keepdim=True)
    axis = x[..., 1:].sum(-2, keepdim=True)
    return (2 * ((p - axis / axis.norm(dim=-1, keepdim=True)).norm(dim=-1) / 2).clamp(max=1).asin()).amax(-1)


def thickness(x: Tensor) -> Tensor:
    """The same of points about their mean: their width as a part of their length.

    A translation knows of differences only. Of a hard particle and two soft ones, those of the soft ones to the hard
    one have one direction, whatever the angle between them is: the opening that counts is smaller by the energies'
    ratio.
    """
    widths = torch.linalg.svdvals(x - x.mean(-2, keepdim=True))
    return torch.where(widths[..., 1] > 0, widths[..., 1] / widths[..., 0].clamp_min(1e-300), 1.0)


def error(y: Tensor, x: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float64)
    y, x = y.to(wide).flatten(1), x.to(wide).flatten(1)
    return (y - x).norm(dim=1) / x.norm(dim=1)


def allowed(opening: Tensor, dtype: torch.dtype) -> Tensor:
    """What rounding and the opening allow, whichever is less."""
    return 100 * torch.minimum(opening.clamp_min(EPS[dtype]), EPS[dtype] / opening.square())


@by_dtype
@by_kind
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_jets_come_back(group: mf.Group, kind: str, dtype: torch.dtype) -> None:
    type = "point" if isinstance(group, mf.Poincare) else "vector"
    model = mf.Equivariant(lambda x: x, group, inputs=type, outputs=type)
    for opening in OPENINGS:
        for n in SIZES:
            exact = jets(20, n, opening, kind, seed=n)
            x = exact.to(dtype)
            bound = allowed(opening_of(exact), dtype)
            if type == "point" and n > 2 and kind == "six decades of energy":
                bound = torch.maximum(bound, allowed(thickness(exact), dtype))
            within = error(model(x), x) <= bound
            assert within.all(), (opening, n)
            assert group.contains(group.frame(x, type=type).element).all(), (opening, n)


def test_three_points_near_a_null_line_have_an_element() -> None:
    # One of their two differences may be null beside the other, which is as strong a boost as it is nearly null.
    group, contained = mf.Poincare(4), 1e-13  # times the squared norm of the element
    model = mf.Equivariant(lambda x: x, group)
    for opening in OPENINGS[6:15]:
        for kind in ("massless", "mixed", "all but one collinear"):
            x = jets(150, 3, opening, kind, seed=7)
            assert group.contains(group.frame(x).element, atol=contained).all(), (opening, kind)
            assert (error(model(x), x) <= allowed(opening_of(x), x.dtype)).all(), (opening, kind)


def test_soft_particles_beside_a_hard_one_come_back_in_single_precision() -> None:
    # Their momenta across the plane of the boost are not rounded by the boost of the hard one.
    x = jets(500, 3, 1.0, "six decades of energy", seed=8)
    x = x[(x[..., 0].amax(-1) > 1e3 * x[..., 0].sort(-1).values[..., 1])].float()
    assert len(x) > 100
    bound = allowed(opening_of(x.double()), x.dtype)
    for group in (mf.Lorentz(), mf.OrthochronousLorentz()):
        model = mf.Equivariant(lambda x: x, group, inputs="vector", outputs="vector")
        assert (error(model(x), x) <= bound).all()


@by_dtype
@pytest.mark.parametrize("group", [*GROUPS, mf.Lorentz(2), mf.OrthochronousLorentz(3)], ids=str)
def test_copies_of_null_lines_come_back_in_every_unit(group: mf.Group, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(2)
    momentum = torch.randn(20, 1, group.d - 1, dtype=torch.float64, generator=generator)
    line = torch.cat([momentum.norm(dim=-1, keepdim=True), momentum], -1)
    x = line * torch.randn(20, 5, 1, dtype=torch.float64, generator=generator)
    for unit in (1e-4, 1.0, 1e4, 1e8):
        given = (unit * x).to(dtype)
        frame = group.frame(given)
        back = frame.from_canonical(frame.to_canonical(given.clone()))
        assert error(back, given).max() <= 10 * EPS[dtype], unit


def ring(n: int, opening: float, count: int, seed: int = 0) -> Tensor:
    """``(count, n, 4)``: massless particles of one energy, evenly around an axis, boosted."""
    phase = torch.arange(n, dtype=torch.float64) * (2 * torch.pi / n)
    angle = torch.tensor(opening, dtype=torch.float64)
    one = torch.ones(n, dtype=torch.float64)
    x = torch.stack([one, one * angle.cos(), angle.sin() * phase.cos(), angle.sin() * phase.sin()], -1)
    generator = torch.Generator().manual_seed(seed)
    return x @ mf.OrthochronousLorentz().random(count, dtype=torch.float64, max_rapidity=2.0, generator=generator).mT


UNORDERED = (
    (mf.S() * mf.Lorentz(), mf.frames.Minimal()),
    (mf.S() * mf.OrthochronousLorentz(), mf.frames.Minimal()),
    (mf.Lorentz(), mf.frames.Unordered()),
)


@by_dtype
@pytest.mark.parametrize("kind", [*KINDS, "ring"])
@pytest.mark.parametrize(("group", "frames"), UNORDERED, ids=["product", "orthochronous product", "unordered"])
def test_jets_come_back_where_order_does_not_count(
    group: mf.Group, frames: mf.frames.Minimal, kind: str, dtype: torch.dtype
) -> None:
    # Two massless particles are mirror images at rest, whatever their energies. The average over that symmetry mixes
    # their rounding, eps gamma of the longer, and the way back makes it eps gamma^2 with gamma = E / M, which is the
    # inverse of the opening unless energies differ.
    model = mf.Equivariant(lambda x: x, group, inputs="vector", outputs="vector", frames=frames)
    for opening in OPENINGS[::2]:
        for n in (2, 3, 8):
            exact = ring(n, opening, 4, seed=n) if kind == "ring" else jets(2, n, opening, kind, seed=n)
            x = exact.to(dtype)
            bound = allowed(opening_of(exact), dtype)
            if n == 2:
                total = exact.sum(-2)
                mass = (total[..., 0] ** 2 - total[..., 1:].square().sum(-1)).clamp_min(0).sqrt()
                weakest = torch.minimum(opening_of(exact), mass / (2 * total[..., 0]))
                bound = torch.maximum(bound, allowed(weakest, dtype))
            assert (error(model(x), x) <= bound).all(), (opening, n)


@by_dtype
@pytest.mark.parametrize(("group", "frames"), UNORDERED, ids=["product", "orthochronous product", "unordered"])
def test_rings_reordered_and_boosted(group: mf.Group, frames: mf.frames.Minimal, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(4, 6, dtype=torch.float64, generator=generator).to(dtype)
    model = mf.Invariant(lambda x: torch.tanh(x @ weight).sum(-2), group, inputs="vector", frames=frames)
    for opening in (1.0, 0.3, 0.1) if dtype == torch.float32 else (1.0, 0.3, 0.1, 1e-2, 1e-3):
        for n in (2, 3, 6, 8):
            x = ring(n, opening, 6, seed=n).to(dtype)
            y = model(x)
            order = torch.randperm(n, generator=generator)
            known = 100 * EPS[dtype] / opening**2  # of the rows in units of the pose: |x| is up to 1 / opening of it
            assert (model(x[:, order]) - y).abs().max() <= max(known, 100 * EPS[dtype]) * n, (opening, n)
            assert (y - y[:1]).abs().max() <= known * n * 50, (opening, n)  # the boosts of ring have gamma up to 4


@by_dtype
def test_jets_come_back_with_derivatives_and_in_ragged_batches(dtype: torch.dtype) -> None:
    model = mf.Equivariant(lambda x: x, mf.Lorentz(), inputs={"x": "vector"}, outputs="vector", batch="batch")
    for opening in OPENINGS:
        exact = jets(10, 5, opening, "massless")
        x = exact.to(dtype).requires_grad_()
        bound = allowed(opening_of(exact), dtype)
        y = mf.Equivariant(lambda x: x, mf.Lorentz(), inputs="vector", outputs="vector")(x)
        assert (error(y.detach(), x.detach()) <= bound).all(), opening
        (gradient,) = torch.autograd.grad(y.square().sum(), x)
        assert gradient.isfinite().all(), opening
        flat = x.detach().flatten(0, 1)
        y = model(flat, batch=torch.arange(len(x)).repeat_interleave(5)).view(x.shape)
        assert (error(y, x.detach()) <= bound).all(), opening


@pytest.mark.parametrize("frames", [mf.frames.Minimal(), mf.frames.Unordered()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_padding_in_front_of_a_jet_is_not_chosen(frames: mf.frames.Minimal, dtype: torch.dtype) -> None:
    """After a strong boost the noise may exceed every length along an axis; padding then ties with the rows."""
    random = torch.Generator().manual_seed(0)
    for k in range(10):
        axis, spread = (torch.randn(8, m, 2, generator=random).double() for m in (1, 5))
        direction = axis / axis.norm(dim=-1, keepdim=True) + 10.0**-k * spread
        energy = 10 ** (2 * torch.rand(8, 5, 1, generator=random).double())
        jet = energy * torch.cat([direction.norm(dim=-1, keepdim=True), direction], -1)
        x = torch.cat([torch.full((8, 2, 3), torch.nan), jet.to(dtype)], 1)
        mask = (torch.arange(7) >= 2).expand(8, 7)
        for group in (mf.OrthochronousLorentz(3), mf.Lorentz(3)):
            padded = mf.Equivariant(lambda x: x, group, "vector", "vector", mask="mask", frames=frames)(x, mask=mask)
            plain = mf.Equivariant(lambda x: x, group, "vector", "vector", frames=frames)(x[:, 2:])
            assert (padded[:, 2:] - plain).abs().max() <= 32 * torch.finfo(dtype).eps * plain.abs().max(), k


@by_dtype
@by_kind
def test_products_of_a_jet_are_those_of_its_pose(kind: str, dtype: torch.dtype) -> None:
    # <x_i, x_j> is known to the rounding of |x_i| |x_j|. Poses that leave thin directions out have squares of what is
    # left out besides: up to 64 times 3 eps, or 1e-12, of the sum of squares (COARSE and ``negligible``).
    group = mf.Lorentz()
    for opening in OPENINGS:
        x = jets(20, 8, opening, kind).to(dtype)
        frame = group.frame(x, type="vector")
        pose = mf.canonicalize(x, group, type="vector")[0].double()
        regular = frame.rank > 1
        products, expected = (group.inner(y.unsqueeze(-2), y.unsqueeze(-3)) for y in (pose, x.double()))
        size = x.double().square().sum((-2, -1))[:, None, None]
        off = (products - expected).abs() / size
        assert (off[regular] <= 100 * max(3 * EPS[dtype], 1e-12)).all(), opening


@pytest.mark.parametrize("group", [mf.O(2, 1), mf.O(2, 2), mf.SO(2, 2), mf.U(2, 1), mf.SU(2, 2)], ids=str)
@by_dtype
def test_clouds_near_a_null_line_come_back(group: mf.Isometry, dtype: torch.dtype) -> None:
    number = torch.complex128 if group.complex else torch.float64
    generator = torch.Generator().manual_seed(1)
    null = torch.zeros(group.d, dtype=number)
    null[0] = null[-1] = 1
    model = mf.Equivariant(lambda x: x, group, inputs="vector", outputs="vector")
    for opening in OPENINGS:
        for n in (1, 2, 3, 8, 30):
            x = torch.randn(40, n, 1, dtype=number, generator=generator) * null
            x = x + opening * x.abs() * torch.randn(40, n, group.d, dtype=number, generator=generator)
            x = group.act(group.random(40, dtype=number, generator=generator), x, "vector")
            x = x.to(torch.promote_types(dtype, torch.complex64) if group.complex else dtype)
            # Thin by the opening, in every direction: products of rows are first order in it.
            bound = 100 * max(min(opening, EPS[dtype] / opening**2), 10 * EPS[dtype])
            assert error(model(x), x).max() <= bound, (opening, n)
            assert group.contains(group.frame(x, type="vector").element).all(), (opening, n)


def _answer(x: Tensor) -> Tensor:
    weight = 2 * torch.linspace(0, 20, 32, dtype=torch.float64).view(4, 8).cos()
    return torch.tanh(mf.canonicalize(x, mf.Lorentz(), type="vector")[0].double() @ weight).flatten(1)


def _unit_of_rounding(x: Tensor) -> Tensor:
    """The largest change of the answer when every coordinate goes up or down by one unit in the last place."""
    change = torch.zeros(len(x), dtype=torch.float64)
    for pattern in range(16):
        to = torch.tensor([1.0 if pattern >> k & 1 else -1.0 for k in range(4)], dtype=x.dtype) * torch.inf
        moved = torch.nextafter(x, to.expand_as(x))
        change = torch.maximum(change, (_answer(moved) - _answer(x)).abs().amax(-1))
    return change


def _boosted(mass: float, energy: float, dtype: torch.dtype, count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    direction = torch.tensor([0.48, -0.6, 0.64], dtype=torch.float64)
    x = torch.cat([torch.tensor([energy], dtype=torch.float64), direction * (energy**2 - mass**2) ** 0.5]).view(1, 1, 4)
    g = mf.OrthochronousLorentz().random(count, dtype=torch.float64, max_rapidity=3.0, generator=generator)
    return x.to(dtype), (x @ g.mT).to(dtype)


def test_no_boost_makes_an_electron_massless() -> None:
    x, gx = _boosted(0.000511, 50.0, torch.float64, 20_000)
    assert set(mf.Lorentz().frame(gx, type="vector").size) == {math.inf}
    null = mf.Lorentz().frame(gx, type="vector").stabiliser.null
    assert null is None or not null.here.any()
    # The rounding of a boost, of both its sides: up to e^3 times that of x, where it makes the energy smaller.
    units = torch.maximum(_unit_of_rounding(gx), _unit_of_rounding(x)) * 20
    assert ((_answer(gx) - _answer(x)).abs().amax(-1) <= units.clamp_min(1e-11)).all()


@pytest.mark.parametrize(("mass", "energy"), [(0.10566, 60.0), (0.13957, 100.0)], ids=["muon", "pion"])
def test_a_particle_is_massless_only_where_its_mass_is_rounding(mass: float, energy: float) -> None:
    # Of a null vector, rounded once, <p, p> is at most eps |p|^2: 2 p_i dp_i with dp_i <= eps p_i / 2. A particle of
    # more than twice that and some is massive however it is rounded; one of less may be massless.
    _, gx = _boosted(mass, energy, torch.float32, 20_000)
    frame = mf.Lorentz().frame(gx, type="vector")
    here = frame.stabiliser.null.here if frame.stabiliser.null is not None else torch.zeros(len(gx), dtype=torch.bool)
    clear = mass**2 > 2.1 * EPS[torch.float32] * gx.double().square().sum((-2, -1))
    assert clear.sum() > 5_000
    assert not here[clear].any()
    assert (here & ~clear).any()


@pytest.mark.parametrize("rapidity", [0.0, 0.5, 1.0])
def test_massless_particles_that_were_moved_in_single_precision(rapidity: float) -> None:
    # <p, p> is at most eps |p|^2 before, and e^(2 rapidity) + 1 times that once moved: then no bar is right for all.
    generator, eps = torch.Generator().manual_seed(5), EPS[torch.float32]
    momentum = torch.randn(5_000, 1, 3, dtype=torch.float64, generator=generator)
    x = torch.cat([momentum.norm(dim=-1, keepdim=True), momentum], -1).float()
    group = mf.OrthochronousLorentz()
    g = group.random(len(x), dtype=torch.float64, max_rapidity=rapidity, generator=generator)
    for given, roundings in ((x, 1.0), ((x.double() @ g.mT).float(), 1 + math.exp(2 * rapidity))):
        p = given.double().squeeze(-2)
        mass2 = (group.inner(p, p) / p.square().sum(-1)) / eps
        assert mass2.abs().max() <= roundings
        null = group.frame(given, type="vector").stabiliser.null.here
        assert null[mass2.abs() <= 1].all()
        assert (~null).double().mean() <= 0.02


@pytest.mark.parametrize(("mass", "energy"), [(0.10566, 60.0), (0.13957, 100.0)], ids=["muon", "pion"])
def test_what_a_boost_changes_is_explained_by_rounding(mass: float, energy: float) -> None:
    # Either one unit in the last place changes the answer as much, at most 10 times less; or a particle without any
    # mass would have been rounded to the same numbers, so that nothing in them tells which of the two it was.
    x, gx = _boosted(mass, energy, torch.float32, 1_000)
    generator, units = torch.Generator().manual_seed(1), torch.zeros(len(gx), dtype=torch.float64)
    answers = _answer(gx)
    for _ in range(50):
        for at, expected in ((gx, answers), (x, _answer(x))):
            to = (torch.randint(0, 2, at.shape, generator=generator) * 2 - 1) * torch.inf
            units = torch.maximum(units, (_answer(torch.nextafter(at, to.to(at.dtype))) - expected).abs().amax(-1))
    unexplained = (answers - _answer(x)).abs().amax(-1) > 10 * units.clamp_min(1e-6)
    wide, spacing = gx.double(), torch.nextafter(gx.abs(), torch.tensor(torch.inf)).double() - gx.abs().double()
    mass2 = mf.Lorentz().inner(wide, wide).squeeze(-1)
    could_be_massless = mass2.abs() <= (wide.abs() * spacing).sum((-2, -1))  # 2 p_k dp_k, dp_k half a spacing
    assert (~unexplained | could_be_massless).all()
    assert unexplained.double().mean() < 0.02


SCALES = (1e-30, 1e-12, 1e-8, 1e-4, 1.0, 1e4, 1e8, 1e12, 1e30)


def null_spans(group: mf.Isometry, count: int, kind: str) -> Tensor:
    """``(count, n, d)``: rows in a subspace on which the form is degenerate, of size one, moved."""
    number = torch.complex128 if group.complex else torch.float64
    generator = torch.Generator().manual_seed(4)
    basis = torch.eye(group.d, dtype=number)
    lines = [basis[0] + basis[-1]]
    if kind == "two lines" and min(group.p, group.q) > 1:
        lines.append(basis[1] + basis[-2])
    if kind == "hyperplane":
        lines += list(basis[1:-1])
    x = torch.randn(count, 5, len(lines), dtype=number, generator=generator) @ torch.stack(lines)
    return group.act(group.random(count, dtype=number, generator=generator), x, "vector")


@by_dtype
@pytest.mark.parametrize("kind", ["line", "two lines", "hyperplane"])
@pytest.mark.parametrize(
    "group",
    [
        *(make(d) for make in (mf.Lorentz, mf.ProperLorentz, mf.OrthochronousLorentz) for d in (2, 3, 4)),
        *(mf.O(2, 1), mf.O(2, 2), mf.U(1, 1), mf.SU(2, 1), mf.Poincare(2), mf.Poincare(3)),
    ],
    ids=str,
)
def test_null_spans_come_back_at_every_scale(group: mf.Group, kind: str, dtype: torch.dtype) -> None:
    # A boost by the scale takes null rows to their pose, and its inverse multiplies their partners: in products with
    # its matrix nothing would be left of them.
    linear = getattr(group, "linear", group)
    type = "vector" if linear is group else "point"
    number = torch.promote_types(dtype, torch.complex64) if linear.complex else dtype
    model = mf.Equivariant(lambda x: x, group, inputs=type, outputs=type)
    for scale in SCALES if kind == "line" else SCALES[3:6]:
        x = (scale * null_spans(linear, 50, kind)).to(number)
        assert error(model(x), x).max() <= 20 * EPS[dtype], scale
        frame = group.frame(x, type=type)
        assert group.contains(frame.element).all(), scale
        assert error(frame.from_canonical(frame.to_canonical(x, type), type), x).max() <= 20 * EPS[dtype], scale


@pytest.mark.parametrize("group", [mf.O(1, 2), mf.Lorentz(4), mf.Poincare(3), mf.O(2, 2), mf.U(2, 1)], ids=str)
def test_thin_clouds_are_as_exact_as_others(group: mf.Group) -> None:
    # Thin in one direction, or in two of opposite signs, but far from null: directions are known down to rounding, so
    # that invariants are too, and nothing is left out. The eigenvalues that belong to thin directions are the squares
    # of the noise, below the rounding of the largest.
    linear = getattr(group, "linear", group)
    type = "vector" if linear is group else "point"
    number = torch.complex128 if linear.complex else torch.float64
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(linear.d, 7, dtype=number, generator=generator)
    model = mf.Invariant(lambda x: (x @ weight).abs().mean(-2), group, inputs=type)
    for thin in ([0], [linear.d - 1], [0, linear.d - 1]):
        if len(thin) == linear.d - 1 and linear is not group:
            continue  # all on a line: its boost is as weak as the line is thin
        for k in range(1, 11):
            widths = torch.ones(linear.d, dtype=torch.float64)
            widths[thin] = 10.0**-k
            x = torch.randn(40, 9, linear.d, dtype=number, generator=generator) * widths
            x = x - x.mean(1, keepdim=True)
            gx = linear.act(linear.random(40, dtype=number, generator=generator), x, "vector")
            assert (group.frame(gx, type=type).rank == linear.d).all(), (thin, k)
            change = (model(gx) - model(x)).abs().amax(-1) / model(x).abs().amax(-1)
            assert change.quantile(0.9) <= 1e-11, (thin, k)
            identity = mf.Equivariant(lambda x: x, group, inputs=type, outputs=type)
            assert error(identity(gx), gx).max() <= 1e-13, (thin, k)


def test_points_that_coincide_but_for_rounding_have_a_frame() -> None:
    group = mf.Poincare(4)
    generator = torch.Generator().manual_seed(6)
    model = mf.Equivariant(lambda x: x, group, inputs="point", outputs="point")
    for dtype in EPS:
        for k in range(2, 18):
            for n in (1, 2, 5, 12):
                x = torch.randn(60, 1, 4, dtype=torch.float64, generator=generator)
                x = x + 10.0**-k * torch.randn(60, n, 4, dtype=torch.float64, generator=generator)
                x = x.to(dtype)
                # Up to 10 times the rounding of n such rows, sqrt(n) in length, counts as no line at all.
                assert error(model(x), x).max() <= 10 * n**0.5 * max(3 * EPS[dtype], 1e-12), (k, n)
                assert group.contains(group.frame(x, type="point").element).all(), (k, n)


@pytest.mark.parametrize("group", [mf.ProperLorentz(4), mf.OrthochronousLorentz(4), mf.SO(2, 2)], ids=str)
def test_determinants_of_strong_boosts(group: mf.Isometry) -> None:
    # Signs of blocks, whatever the rapidity: a determinant of the whole has errors of its entries to the power d.
    one = torch.eye(group.d, dtype=torch.float64)
    mirror = one.clone()
    mirror[-1, -1] = -1
    for rapidity in (1.0, 5.0, 10.0, 15.0):
        g = group.random(100, dtype=torch.float64, max_rapidity=rapidity)
        assert group.contains(g).all(), rapidity
        assert not group.contains(g @ mirror).any(), rapidity
        assert (group.determinant(g) == 1).all(), rapidity
        assert (group.determinant(g @ mirror) == -1).all(), rapidity


@by_dtype
@pytest.mark.parametrize("n", [1, 4])
def test_a_particle_loses_its_mass_without_a_jump(n: int, dtype: torch.dtype) -> None:
    # Rows along one line have a pose of the size of the mass, or of 2^-20 if they count as massless: invariant outputs
    # hardly depend on which it is. The mass of what is rounded is known to sqrt(rounding) of the energy.
    generator = torch.Generator().manual_seed(7)
    direction = torch.randn(200, 1, 3, dtype=torch.float64, generator=generator)
    direction = direction / direction.norm(dim=-1, keepdim=True)
    for energy in (1.0, 60.0, 1e3):
        for k in range(1, 12):
            mass = energy * 10.0**-k
            one = torch.cat([torch.full((200, 1, 1), energy).double(), direction * (energy**2 - mass**2) ** 0.5], -1)
            x = (one * torch.linspace(0.1, 1, n, dtype=torch.float64).flip(0).view(1, n, 1)).to(dtype)
            pose = mf.canonicalize(x, mf.Lorentz(), type="vector")[0].double()
            known = (2 * max(EPS[dtype], 1e-13)) ** 0.5 * energy
            assert pose.flatten(1).norm(dim=1).max() <= n**0.5 * (mass + 2 * known + 2.0**-19), (energy, k)


@pytest.mark.slow
@pytest.mark.parametrize("group", [mf.Lorentz(), mf.OrthochronousLorentz(), mf.Lorentz(3), mf.O(2, 1)], ids=str)
@pytest.mark.parametrize("kind", ["Gaussian", "massless", "massive", "nearly collinear"])
def test_the_margin_at_a_jump_is_rounding(group: mf.Isometry, kind: str) -> None:
    _bisect(group, kind)


@pytest.mark.slow
@pytest.mark.parametrize("group", [mf.O(2, 2), mf.U(2, 1), mf.SU(2, 2)], ids=str)
def test_the_margin_at_a_jump_is_rounding_with_other_forms(group: mf.Isometry) -> None:
    _bisect(group, "Gaussian")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Gaussian", "massless", "massive"])
def test_the_margin_at_a_jump_is_rounding_with_longest_rows(kind: str) -> None:
    _bisect(mf.Lorentz(), kind, mf.frames.Unordered())


def _ends(group: mf.Isometry, kind: str, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    count, d = 60, group.d
    number = torch.complex128 if group.complex else torch.float64
    if kind == "Gaussian":
        start, end = torch.randn(2, count, n, d, dtype=number, generator=generator)
        return start, end
    p = torch.randn(2, count, n, d - 1, dtype=torch.float64, generator=generator)
    x = torch.cat([(p.square().sum(-1, keepdim=True) + (0.09 if kind == "massive" else 0)).sqrt(), p], -1)
    if kind == "nearly collinear":
        x[:] = x[0, :, :1] * torch.rand(count, n, 1, dtype=torch.float64, generator=generator)
        x[1, ..., 0] *= 1 + 1e-3 * torch.rand(count, n, dtype=torch.float64, generator=generator)
    x = x if group.p == 1 else x.roll(-1, -1)
    return x[0], x[1]


def _bisect(group: mf.Isometry, kind: str, frames: mf.frames.Minimal | mf.frames.Unordered | None = None) -> None:
    frames = mf.frames.Minimal() if frames is None else frames
    generator, jumps = torch.Generator().manual_seed(2), 0
    for n in (1, 2, 3, 5, 12):
        start, end = _ends(group, kind, n, generator)

        def at(t: Tensor, start: Tensor = start, end: Tensor = end) -> Tensor:
            return start + (end - start) * t[:, None, None]

        def pose(t: Tensor, at=at) -> Tensor:  # type: ignore[no-untyped-def]
            return mf.canonicalize(at(t), group, type="vector", frames=frames)[0].flatten(1)

        grid = torch.linspace(0, 1, 17, dtype=torch.float64)
        poses = torch.stack([pose(t.expand(len(start))) for t in grid])
        size = poses.abs().amax((0, 2))
        steepest = (poses[1:] - poses[:-1]).abs().amax(-1).argmax(0)
        low, high = grid[steepest], grid[steepest + 1]
        for _ in range(52):
            middle = (low + high) / 2
            at_middle = pose(middle)
            left = (at_middle - pose(low)).abs().amax(-1) > (pose(high) - at_middle).abs().amax(-1)
            low, high = torch.where(left, low, middle), torch.where(left, middle, high)
        jump = (pose(high) - pose(low)).abs().amax(-1) > 1e-3 * size
        jumps += int(jump.sum())
        nearest = torch.minimum(
            *(mf.canonicalize(at(t), group, type="vector", frames=frames)[1].margin for t in (low, high))
        )
        assert (nearest[jump] <= 1e-9).all(), n
    # One null row has a pose that is all but 0, as a light one has: next to nothing jumps where it becomes massive.
    assert jumps > (0 if kind == "nearly collinear" else 20)


def test_the_margin_of_one_particle_tells_how_far_it_is_from_massless() -> None:
    group = mf.Lorentz()
    rows = torch.tensor([[[5.0, 0, 0, 3]], [[5, 0, 0, 5]], [[50, 0, 0, (2500 - 0.000511**2) ** 0.5]]])
    margin = group.frame(rows.double(), type="vector").margin
    assert 0.1 < margin[0] < 1
    assert margin[1] < 1e-12
    electron = group.frame(
        torch.tensor([[50.0, 0, 0, (2500 - 0.000511**2) ** 0.5]], dtype=torch.float64), type="vector"
    )
    assert float(electron.margin) == pytest.approx(0.000511**2 / 5000, rel=1e-2)  # m^2 / |p|^2


def test_parity_and_no_time_reversal() -> None:
    group = mf.OrthochronousLorentz(4, parity=True)
    assert repr(group) == "OrthochronousLorentz(4, parity=True)"
    assert group != mf.OrthochronousLorentz(4)
    assert group.contains(PARITY)
    assert not group.contains(-PARITY)
    assert not group.contains(-torch.eye(4, dtype=torch.float64))
    assert not mf.OrthochronousLorentz().contains(PARITY)
    x = jets(1, 6, 1.0, "mixed")[:1]
    model = mf.Invariant(lambda x: x.tanh().sum((-2, -1)), group, inputs="vector")
    torch.testing.assert_close(model(x @ PARITY), model(x))
    assert (model(-x) - model(x)).abs() > 1e-3
    determinants = torch.linalg.det(group.random(400, dtype=torch.float64))
    assert 140 < int((determinants > 0).sum()) < 260
    # All of space fixes the direction of time, which cannot be reversed: nothing is left to average over.
    frame = group.frame(torch.eye(4, dtype=torch.float64)[1:] * torch.tensor([1.0, 2, 3, 4]), type="vector")
    assert (int(frame.rank), float(frame.size)) == (3, 1.0)
    future = frame.from_canonical(torch.eye(4, dtype=torch.float64)[:1], "vector")
    torch.testing.assert_close(future, torch.eye(4, dtype=torch.float64)[:1])
    assert frame.from_canonical(torch.ones(1, dtype=torch.float64), "pseudoscalar").abs() == 1


@pytest.mark.parametrize("group", [mf.Lorentz(), mf.OrthochronousLorentz(), mf.O(2, 2), mf.GL(4)], ids=str)
@pytest.mark.parametrize("opening", [1e-3, 1e-6, 1e-7, 1e-8])
def test_the_order_of_rows_changes_no_bit_under_products_that_enlarge_rounding(group: mf.Group, opening: float) -> None:
    """Sums over rows are rounded in an order of their own: of collimated jets their rounding is all that is left."""
    space = torch.randn(50, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    space = space + opening * torch.randn(50, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    x = torch.cat([space.norm(dim=-1, keepdim=True), space], -1)
    order = torch.rand(50, 7, generator=torch.Generator().manual_seed(3)).argsort(-1)[..., None].expand(x.shape)
    place = torch.arange(1, 8).view(7, 1)
    model = mf.Equivariant(lambda y: (y * (1 + place.sin())).abs().sin(), mf.S() * group, "vector", "vector")
    assert torch.equal(model(x.gather(1, order)), model(x).gather(1, order))
