"""``frames.Unordered``: a backbone that respects permutations still does inside the wrapper."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor

import minframe as mf
from clouds import MOLECULES, all_clouds, cube, generic, momenta, octahedron, tetrahedron
from minframe.frame import invariant
from minframe.labelling import backend
from table import GROUPS, ORDERED, bound, number, options, randn

CLOUDS = all_clouds()
EUCLIDEAN = [make(3) for make in (mf.O, mf.SO, mf.E, mf.SE)]
UNORDERED = mf.frames.Unordered()
DTYPES = {"float64": torch.float64, "float32": torch.float32}
by_dtype = pytest.mark.parametrize("dtype", list(DTYPES.values()), ids=list(DTYPES))


def set_net(x: Tensor) -> Tensor:
    """A backbone that respects permutations and nothing else, of the size of its input: sums over all points."""
    d = x.shape[-1]
    size = x.abs().flatten(-2).amax(-1)[..., None, None]
    size = torch.where(size > 0, size, 1.0)
    y = x / size
    mix = 2 * torch.linspace(-1.3, 1.1, d * d, dtype=torch.float64).view(d, d).sin().to(x.dtype)
    z = y @ mix
    z = torch.complex(torch.tanh(z.real), z.imag) if z.is_complex() else torch.tanh(z + 0.2)
    return size * (z + 0.5 * y.roll(1, -1) * z.mean(-2, keepdim=True) + 0.1)


def attention(x: Tensor) -> Tensor:
    """Another one, of real numbers: every point looks at every other."""
    size = x.abs().flatten(-2).amax(-1)[..., None, None]
    size = torch.where(size > 0, size, 1.0)
    y = x / size
    key = torch.tanh(y.roll(1, -1) - 0.3 * y)
    weight = torch.softmax(2 * y @ key.mT, -1)
    return size * (weight @ torch.tanh(y + 0.4 * y.roll(1, -1) + 0.1) - 0.2 * y.flip(-1))


def permuted_error(
    model: mf.Equivariant, group: mf.Group, x: Tensor, dtype: torch.dtype, count: int, **others
) -> float:
    """The largest error over ``count`` elements and over a permutation for each of three batches of them."""
    copies = x.expand(count, *x.shape)
    error = mf.testing.equivariance_error(
        model, group, copies, elements=3, permute=True, element_options=options(group, dtype), **others
    )
    return float(error.max())


@pytest.mark.parametrize("group", [g for g in GROUPS if g not in ORDERED], ids=str)
@by_dtype
def test_generic_clouds_of_every_group(group: mf.Group, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:

    generator = torch.Generator().manual_seed(group.d + 90)
    clouds = [randn(group, n, group.d, generator=generator).to(number(group, dtype)) for n in (12, 30)]
    model = mf.Equivariant(set_net, group, frames=UNORDERED)

    def asked(*_: object) -> object:
        raise AssertionError("a library was asked about a generic cloud")

    monkeypatch.setattr(backend, "get", asked)
    for x in clouds:
        assert permuted_error(model, group, x, dtype, 10) <= bound(group, dtype)


@pytest.mark.parametrize("group", [g for g in GROUPS if g not in ORDERED], ids=str)
def test_symmetric_clouds_of_every_group(group: mf.Group) -> None:

    d = group.d
    if d > 5:
        return
    weights = torch.linspace(1.7, 1.0, d, dtype=torch.float64)
    clouds = {"cube": cube(d) * weights, "octahedron": octahedron(d) * weights}
    generic_ = randn(group, 6, d, generator=torch.Generator().manual_seed(d + 91))
    clouds = {name: x.to(number(group)) for name, x in clouds.items()}
    clouds["duplicated"] = torch.cat([generic_, generic_[:3]])
    clouds["opposite"] = torch.cat([generic_, -generic_])
    if group in (mf.Lorentz(), mf.ProperLorentz(), mf.OrthochronousLorentz(), mf.Poincare()):
        clouds |= {name: momenta(CLOUDS[name]) for name in ("tetrahedron", "methane", "mirrored", "propeller")}
        clouds["massless"] = momenta(tetrahedron(), 0.0)
    model = mf.Equivariant(set_net, group, frames=UNORDERED)
    for name, x in clouds.items():
        assert permuted_error(model, group, x, torch.float64, 5) <= bound(group, torch.float64), name


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
@by_dtype
@pytest.mark.parametrize("name", [name for name, x in CLOUDS.items() if len(x) <= 300])
def test_clouds_by_name(group: mf.Group, dtype: torch.dtype, name: str) -> None:
    x = CLOUDS[name].to(dtype)
    for backbone in (set_net, attention):
        model = mf.Equivariant(backbone, group, frames=UNORDERED)
        count = 4 if len(x) <= 30 else 2
        assert permuted_error(model, group, x, dtype, count) <= bound(group, dtype), backbone.__name__


@pytest.mark.parametrize("offset", [10.0, 100.0, 1000.0])
@by_dtype
def test_molecules_far_from_the_origin(offset: float, dtype: torch.dtype) -> None:
    for name in ("benzene", "methane", "water", "carbon dioxide", "cube", "C60"):
        x = (CLOUDS[name] + offset).to(dtype)
        for group in EUCLIDEAN[2:]:
            model = mf.Equivariant(set_net, group, frames=UNORDERED)
            assert permuted_error(model, group, x, dtype, 3) <= bound(group, dtype), (name, group)


@pytest.mark.parametrize("size", [1e-4, 1e4])
@by_dtype
def test_the_unit_of_length_makes_no_difference(size: float, dtype: torch.dtype) -> None:
    for name in ("cube", "benzene", "water", "lattice 3", "propeller", "duplicated", "16 random points"):
        for group in EUCLIDEAN:
            model = mf.Equivariant(attention, group, frames=UNORDERED)
            assert permuted_error(model, group, (CLOUDS[name] * size).to(dtype), dtype, 3) <= bound(group, dtype), name


@pytest.mark.slow
def test_every_type_of_output() -> None:
    def net(x: Tensor) -> dict[str, Tensor]:
        y = attention(x)
        pair = y.unsqueeze(-1) * x.roll(1, -1).unsqueeze(-2)
        return {
            "point": y,
            "covector": y.flip(-1),
            "pseudovector": y.roll(1, -1).square(),
            "tensor": pair,
            "scalar": y.square().sum(-1),
            "pseudoscalar": y[..., 0],
            "one vector": y.sum(-2),
            "one tensor": pair.sum(-3),
            "one scalar": y.pow(3).sum((-1, -2)),
        }

    outputs = {name: name for name in ("point", "covector", "pseudovector", "tensor", "scalar", "pseudoscalar")}
    outputs |= {"one vector": "vector", "one tensor": "tensor", "one scalar": "scalar"}
    for kind, type in outputs.items():
        for group in EUCLIDEAN:
            model = mf.Equivariant(lambda x, kind=kind: net(x)[kind], group, outputs=type, frames=UNORDERED)
            for name in ("cube", "benzene", "methane", "propeller", "mirrored", "antiprism", "16 random points"):
                error = permuted_error(model, group, CLOUDS[name], torch.float64, 2)
                assert error <= 1e-11 or float(model(CLOUDS[name]).abs().max()) <= 1e-13, (kind, group, name)


def message_net(x: Tensor, h: Tensor) -> Tensor:
    """Messages between atoms of all kinds."""
    apart = x.unsqueeze(-2) - x.unsqueeze(-3)
    kind = h.to(x.dtype).unsqueeze(-3)
    return (torch.tanh(apart.roll(1, -1) * kind + 0.3 * x.unsqueeze(-2)) * kind).sum(-2) + h.to(x.dtype) * x.abs()


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_kinds_of_atoms_of_real_molecules(group: mf.Group) -> None:
    model = mf.Equivariant(message_net, group, {"x": "point", "h": "node"}, frames=UNORDERED)
    for name, (x, kinds) in MOLECULES.items():
        error = mf.testing.equivariance_error(model, group, x, kinds.unsqueeze(-1), elements=20, permute=True)
        assert error <= 1e-11, name


@pytest.mark.parametrize("name", ["tetrahedron", "cube", "benzene", "lattice 3"])
def test_kinds_of_atoms_that_break_the_symmetry(name: str) -> None:
    # Equal sites, different atoms: as in an alloy, or in a molecule drawn with ideal angles.
    x = CLOUDS[name]
    h = (torch.arange(len(x)).double() / len(x)).unsqueeze(-1)
    for group in EUCLIDEAN:
        model = mf.Equivariant(message_net, group, {"x": "point", "h": "node"}, frames=UNORDERED)
        error = mf.testing.equivariance_error(model, group, x, h, elements=20, permute=True)
        assert error <= 1e-11, group


@pytest.mark.slow
def test_velocities() -> None:
    def net(x: Tensor, v: Tensor) -> Tensor:
        return attention(x) + attention(v + 0.3 * x)

    for name in ("cube", "methane", "6-gon", "water", "16 random points"):
        x = CLOUDS[name]
        for v in (generic(len(x), seed=9), 0.3 * x, torch.zeros_like(x)):
            for group in EUCLIDEAN:
                for frame_on in (None, "x"):
                    model = mf.Equivariant(
                        net, group, {"x": "point", "v": "vector"}, frame_on=frame_on, frames=UNORDERED
                    )
                    error = mf.testing.equivariance_error(model, group, x, v, elements=10, permute=True)
                    assert error <= 1e-11, (name, group, frame_on)


@by_dtype
def test_points_and_velocities_do_not_tie_with_each_other(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each input has its own unit, in which its longest row has length one.
    def asked(*_: object) -> object:
        raise AssertionError("generic points and velocities were taken to be tied")

    monkeypatch.setattr(invariant, "order_points", asked)
    x, v = (generic(100 * 5, seed=seed).view(100, 5, 3).to(dtype) for seed in (3, 4))
    types = {"x": "point", "v": "vector"}
    for group in EUCLIDEAN:
        model = mf.Equivariant(lambda x, v: attention(x) + attention(v), group, types, frames=UNORDERED)
        error = mf.testing.equivariance_error(model, group, x, v, elements=3, permute=True)
        assert error.max() <= bound(group, dtype)


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_masks(group: mf.Group) -> None:
    names = ["cube", "methane", "water", "carbon dioxide", "duplicated", "one point", "cube twice", "mirrored"]
    x, mask = torch.full((len(names), 30, 3), torch.nan).double(), torch.zeros(len(names), 30, dtype=torch.bool)
    for k, name in enumerate(names):
        place = torch.randperm(30)[: len(CLOUDS[name])]
        x[k, place], mask[k, place] = CLOUDS[name], True

    def net(x: Tensor, mask: Tensor) -> Tensor:
        assert x.isfinite().all()
        y = torch.tanh(x + 0.2) * mask.unsqueeze(-1)
        return y.roll(1, -1) + x * y.sum(-2, keepdim=True)

    model = mf.Equivariant(net, group, mask="mask", frames=UNORDERED)
    error = mf.testing.equivariance_error(model, group, x, mask=mask, elements=20)
    assert error.max() <= 1e-11
    plain = model(x, mask=mask)
    for _ in range(20):
        p = torch.randperm(30)
        moved = model(x[:, p], mask=mask[:, p])
        assert ((moved - plain[:, p])[mask[:, p]]).abs().max() <= 1e-11


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_batch_vectors(group: mf.Group) -> None:
    names = ["cube", "methane", "water", "carbon dioxide", "duplicated", "one point", "mirrored", "16 random points"]
    batch = torch.cat([torch.full((len(CLOUDS[name]),), k) for k, name in enumerate(names)])
    x = torch.cat([CLOUDS[name] for name in names])

    def net(x: Tensor, batch: Tensor) -> Tensor:
        y = torch.tanh(x + 0.2)
        return y.roll(1, -1) + x * torch.zeros(len(names), 3, dtype=x.dtype).index_add(0, batch, y)[batch]

    model = mf.Equivariant(net, group, batch="batch", frames=UNORDERED)
    plain = model(x, batch=batch)
    assert mf.testing.equivariance_error(model, group, x, batch=batch, elements=10).max() <= 1e-11
    for _ in range(20):
        p = torch.randperm(len(x))
        assert (model(x[p], batch=batch[p]) - plain[p]).abs().max() <= 1e-11


def test_generic_batches_with_some_symmetric_samples() -> None:
    x = torch.randn(20, 8, 3, dtype=torch.float64)
    x[3], x[7] = cube(), cube() @ mf.O(3).random(dtype=torch.float64).mT
    for group in EUCLIDEAN:
        model = mf.Equivariant(attention, group, frames=UNORDERED)
        assert mf.testing.equivariance_error(model, group, x, elements=10, permute=True).max() <= 1e-11
        torch.testing.assert_close(model(x), torch.stack([model(sample) for sample in x]), rtol=1e-12, atol=1e-12)


def test_one_forward_pass() -> None:
    calls: list[int] = []
    model = mf.Equivariant(lambda x: calls.append(1) or attention(x), mf.O(3), frames=UNORDERED)
    model(CLOUDS["C60"])
    assert calls == [1]


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_gradients(group: mf.Group) -> None:
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    smooth = mf.Equivariant(lambda x: torch.tanh(x) + x.roll(1, -1) * x.mean(-2, keepdim=True), group, frames=UNORDERED)
    assert torch.autograd.gradcheck(smooth, (x,))
    assert torch.autograd.gradgradcheck(smooth, (x,))
    for name in (*MOLECULES, "cube", "duplicated", "coincident", "line"):
        y = CLOUDS[name].clone().requires_grad_()
        (d,) = torch.autograd.grad(smooth(y).square().sum(), y)
        assert d.isfinite().all(), name


def test_compiled() -> None:
    # Generic clouds need no library, and no break in the graph.
    group = mf.O(3)
    model = mf.Equivariant(attention, group, frames=UNORDERED)
    x = torch.randn(4, 10, 3, dtype=torch.float64)
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(compiled(x), model(x))


def test_values() -> None:
    for group in EUCLIDEAN:
        assert pickle.loads(pickle.dumps(group)) == group
        assert eval(repr(group), vars(mf).copy()) == group
        assert "labelling" in mf.Equivariant(attention, group, frames=UNORDERED).state_dict()
    assert mf.O(3).labelling is None


@pytest.mark.parametrize("group", ORDERED, ids=str)
def test_groups_without_such_frames_say_so(group: mf.Group) -> None:
    with pytest.raises(ValueError, match="no frames that ignore the order of rows"):
        mf.Equivariant(set_net, group, frames=UNORDERED)(torch.randn(2, 5, group.d))
    with pytest.raises(ValueError, match=r"mf.S\(\)"):
        (mf.S() * group).frame(torch.randn(2, 5, group.d))


@pytest.mark.parametrize("group", [mf.S() * mf.GL(4), mf.S() * mf.Aff(4), mf.GL(4)], ids=str)
def test_rows_of_many_sizes_under_general_groups(group: mf.Group) -> None:
    """Long rows have leverages of almost one: no observer's rounding may decide whether these are equal."""
    generator = torch.Generator().manual_seed(3)
    product = isinstance(group, mf.groups.product.Product)
    linear = group.linear if product else group
    x = torch.randn(300, 9, 4, dtype=torch.float64, generator=generator)
    x = x * 10 ** (6 * torch.rand(300, 9, 1, dtype=torch.float64, generator=generator) - 3)
    g = linear.random(300, dtype=torch.float64, generator=generator, max_condition=10.0)
    order = torch.randperm(9, generator=generator)
    method = mf.frames.Minimal() if product else mf.frames.Unordered()
    model = mf.Equivariant(lambda x: torch.tanh(x).roll(1, -1) + x, group, outputs="vector", frames=method)
    want, got = linear.act(g, model(x), "vector")[:, order], model(linear.act(g, x)[:, order])
    error = (got - want).abs().amax((-2, -1)) / want.abs().amax((-2, -1))
    assert float(error.max()) <= 1e-8


@pytest.mark.parametrize("group", [mf.S() * mf.SU(3), mf.S() * mf.O(3)], ids=str)
def test_which_of_coincident_rows_comes_first_decides_nothing(group: mf.Group) -> None:
    """Rows as far apart as what counts as zero: the rank does not depend on the order in which they are given."""
    generator = torch.Generator().manual_seed(1)
    number = torch.complex128 if group.linear.complex else torch.float64
    centre, noise = (torch.randn(100, k, 3, dtype=number, generator=generator) for k in (1, 8))
    x = centre + 1e-12 * noise
    order = torch.randperm(8, generator=generator)
    frame, again = (mf.canonicalize(y, group)[1] for y in (x, x[:, order]))
    assert torch.equal(frame.rank, again.rank)
    assert frame.size == again.size


@pytest.mark.parametrize("group", [mf.GL(2), mf.SL(2, complex=True), mf.GL(3)], ids=str)
def test_long_and_short_rows_that_tie_under_general_groups(group: mf.Group) -> None:
    """As many rows as dimensions always tie. Each is exact relative to its own length, and so are their poses."""
    generator = torch.Generator().manual_seed(3)
    dtype = torch.complex128 if group.complex else torch.float64
    x = torch.randn(100, group.d, group.d, dtype=dtype, generator=generator)
    x[:, 1:] *= 1e-9
    g = group.random(100, dtype=dtype, generator=generator)
    model = mf.Equivariant(lambda x: x.abs().to(x.dtype) + x.roll(1, -1), group, outputs="vector", frames=UNORDERED)
    want, got = group.act(g, model(x), "vector").flip(1), model(group.act(g, x).flip(1))
    assert float(((got - want).abs().amax((-2, -1)) / want.abs().amax((-2, -1))).max()) <= 1e-12


@pytest.mark.parametrize("noise", [1e-10, 1e-8, 1e-6])
def test_many_almost_symmetric_orders_whose_moments_vanish(noise: float) -> None:
    """A simplex with two points at each corner has 3,840 of them, and an odd moment that is of second order."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(4, 5, 4, dtype=torch.float64, generator=generator)
    x = torch.cat([x, x + noise * torch.randn(4, 5, 4, dtype=torch.float64, generator=generator)], 1)
    order = torch.randperm(10, generator=generator)
    pose, again = (mf.canonicalize(y, mf.Aff(4), frames=UNORDERED)[0] for y in (x, x[:, order]))
    assert torch.allclose(pose[:, order], again, rtol=0, atol=1e-11)
