"""S() times a linear group: neither the order of the points nor where they are makes a difference."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minframe as mf
from backbones import lopsided, scale_of
from clouds import (
    MOLECULES,
    ORDERS,
    all_clouds,
    antiprism,
    benzene,
    buckyball,
    cube,
    generic,
    generic_clouds,
    icosahedron,
    lattice,
    mirrored,
    momenta,
    octahedron,
    polygon,
    propeller,
    rows,
    solids,
    symmetric_clouds,
    tetrahedron,
)
from minframe.labelling.action import take_nodes
from table import bound, number, options

S = mf.S()
EUCLIDEAN = [S * make(3) for make in (mf.O, mf.SO, mf.E, mf.SE)]
CLOUDS = all_clouds()
DTYPES = {"float64": torch.float64, "float32": torch.float32}
by_group = pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
by_dtype = pytest.mark.parametrize("dtype", list(DTYPES.values()), ids=list(DTYPES))


def everything(x: Tensor) -> dict[str, Tensor]:
    """An output of every type, for every point, for pairs of points and for the cloud."""
    y, size = lopsided(x), scale_of(x)
    n = x.shape[-2]
    pair = (y / size).unsqueeze(-1) * (y / size).roll(1, -2).roll(1, -1).unsqueeze(-2)
    w = torch.sin(torch.arange(n, dtype=torch.float64)).to(x.dtype)
    node = (y / size)[..., :1] + w.unsqueeze(-1)
    return {
        "point": y,
        "vector": y.roll(1, -2),
        "covector": (y / size).flip(-1),
        "pseudovector": y.square().roll(1, -1) / size,
        "tensor": pair,
        "cotensor": pair.mT.roll(1, -3),
        "pseudoscalar": node.squeeze(-1),
        "scalar": y.sum((-1, -2)),
        "node": node,
        "edge": node * w + node.mT.square(),
        "one point": y[..., 0, :],
        "one tensor": pair[..., 0, :, :],
        "one pseudoscalar": (node.squeeze(-1) * w).sum(-1),
    }


OUTPUTS = {name: name for name in ("point", "vector", "covector", "pseudovector", "tensor", "cotensor", "pseudoscalar")}
OUTPUTS |= {"scalar": "scalar", "node": "node", "edge": "edge", "one point": "point", "one tensor": "tensor"}
OUTPUTS |= {"one pseudoscalar": "pseudoscalar"}


def compact_error(
    model: Callable[..., object], group: mf.Group, *x: Tensor, count: int, dtype: torch.dtype, **others: object
) -> float:
    """The largest error over ``count`` elements, one for each copy in a batch."""
    copies = [y.expand(count, *y.shape) for y in x]
    linear = group.linear
    error = mf.testing.equivariance_error(
        model, group, *copies, elements=1, element_options=options(linear, dtype), **others
    )
    return float(error.max())


def elements_for(x: Tensor, most: int) -> int:
    """As many as are quick: what costs is the symmetry of large clouds."""
    return most if len(x) <= 30 else 5 if len(x) <= 100 else 2


# Euclidean groups


@by_group
@by_dtype
@pytest.mark.parametrize("name", list(CLOUDS))
def test_clouds_by_name(group: mf.Group, dtype: torch.dtype, name: str) -> None:
    x = CLOUDS[name].to(dtype)
    model = mf.Equivariant(lopsided, group)
    count = elements_for(x, 10)
    assert compact_error(model, group, x, count=count, dtype=dtype) <= bound(group.linear, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*(n for n in symmetric_clouds() if len(CLOUDS[n]) <= 12), "duplicated", "16 random points"]
)
def test_hundreds_of_elements(name: str) -> None:
    x = CLOUDS[name]
    for group in EUCLIDEAN[1:3]:
        model = mf.Equivariant(lopsided, group)
        for _ in range(5):
            assert compact_error(model, group, x, count=100, dtype=torch.float64) <= 1e-11


@pytest.mark.parametrize("size", [1e-4, 1e4, 1e-12, 1e12])
@by_dtype
def test_the_unit_of_length_makes_no_difference(size: float, dtype: torch.dtype) -> None:
    for name in (
        "cube",
        "benzene",
        "water",
        "carbon dioxide",
        "lattice 3",
        "mirrored",
        "propeller",
        "duplicated",
        "16 random points",
    ):
        x = (CLOUDS[name] * size).to(dtype)
        for group in EUCLIDEAN:
            error = compact_error(mf.Equivariant(lopsided, group), group, x, count=4, dtype=dtype)
            assert error <= bound(group.linear, dtype), (name, group)


def test_every_type_of_output_by_itself() -> None:
    # Of which the largest cannot hide the others.
    for group in EUCLIDEAN[:2]:
        for kind, type in OUTPUTS.items():
            model = mf.Equivariant(lambda x, kind=kind: everything(x)[kind], group, outputs=type)
            for name in ("tetrahedron", "methane", "benzene", "propeller", "mirrored", "16 random points"):
                error = compact_error(model, group, CLOUDS[name], count=10, dtype=torch.float64)
                # What symmetry makes zero is rounding, relative to itself.
                size = max(float(v.abs().max()) for v in [model(CLOUDS[name])])
                assert error <= 1e-11 or size <= 1e-13, (group, kind, name)


@pytest.mark.parametrize("offset", [10.0, 100.0, 1000.0])
def test_molecules_far_from_the_origin(offset: float) -> None:
    for name in ("cube", "benzene", "methane", "water", "carbon dioxide", "mirrored", "propeller", "C60"):
        for dtype in DTYPES.values():
            x = (CLOUDS[name] + offset).to(dtype)
            for group in EUCLIDEAN[2:]:
                error = compact_error(mf.Equivariant(lopsided, group), group, x, count=5, dtype=dtype)
                assert error <= bound(group.linear, dtype), (name, group, dtype)


@pytest.mark.parametrize("d", [1, 2, 4, 5])
def test_other_dimensions(d: int) -> None:
    clouds = {
        "cube": cube(d),
        "octahedron": octahedron(d),
        "simplex": torch.eye(d + 1, dtype=torch.float64)[:, :d] - 1 / (d + 1),
        "random": generic(16, d),
        "mirrored": torch.cat([generic(5, d), generic(5, d) * torch.tensor([-1.0] + [1.0] * (d - 1))]),
        "lattice": lattice(3 if d < 4 else 2, d),
        "flat": generic(8, d) * torch.tensor([1.0] * (d - 1) + [0.0]),
        "one point": generic(1, d),
    }
    if d == 2:
        clouds |= {f"{n}-gon": polygon(n, height=None) for n in (3, 4, 5, 6, 17)}
    for make in (mf.O, mf.SO, mf.E, mf.SE, mf.Translation):
        group = S * make(d)
        for name, x in clouds.items():
            for dtype in DTYPES.values():
                error = compact_error(mf.Equivariant(lopsided, group), group, x.to(dtype), count=3, dtype=dtype)
                assert error <= bound(group.linear, dtype), (group, name)


# The other groups


def clouds_of(group: mf.Group) -> dict[str, Tensor]:
    """Clouds of the dimension of the group, with symmetry and without."""
    d, dtype = group.d, number(group)
    weights = torch.linspace(1.7, 1.0, d, dtype=torch.float64)
    clouds = {
        "random": torch.randn(12, d, dtype=dtype, generator=torch.Generator().manual_seed(d + 90)),
        "cube": cube(d).to(dtype) * weights,
        "octahedron": octahedron(d).to(dtype) * weights,
    }
    clouds["duplicated"] = torch.cat([clouds["random"], clouds["random"][:3]])
    if group.complex:
        w = torch.polar(torch.ones(5).double(), torch.arange(5).double() * (2 * math.pi / 5))
        clouds["phases"] = torch.cat([w.unsqueeze(-1) * clouds["random"][0], clouds["random"][:d]])
    if group in (mf.Lorentz(), mf.ProperLorentz(), mf.OrthochronousLorentz(), mf.Poincare()):
        clouds |= {name: momenta(CLOUDS[name]) for name in ("tetrahedron", "methane", "mirrored", "propeller", "3-gon")}
        clouds["massless"] = momenta(tetrahedron(), 0.0)
        clouds["massless, random"] = momenta(generic(9), 0.0)
    return clouds


LINEAR = [
    *(mf.Translation(3), mf.Lorentz(), mf.ProperLorentz(), mf.OrthochronousLorentz(), mf.Poincare(), mf.O(2, 2)),
    *(mf.GL(3), mf.SL(3), mf.Aff(3), mf.GL(2), mf.SL(2), mf.GL(2, complex=True), mf.SL(2, complex=True)),
    *(mf.U(1), mf.U(2), mf.U(3), mf.SU(2), mf.SU(3), mf.U(1, 1), mf.U(2, 1), mf.SU(1, 1)),
]


@pytest.mark.parametrize("linear", LINEAR, ids=str)
@by_dtype
def test_linear_groups(linear: mf.Group, dtype: torch.dtype) -> None:
    group = S * linear
    for name, x in clouds_of(linear).items():
        error = compact_error(mf.Equivariant(lopsided, group), group, x.to(number(linear, dtype)), count=8, dtype=dtype)
        assert error <= bound(linear, dtype), name


def test_many_phases() -> None:
    # Of U(2) these have as many symmetries as phases, of SU(2) none: as many poses compete.
    for k in (7, 60):
        w = torch.polar(torch.ones(k).double(), torch.arange(k).double() * (2 * math.pi / k))
        x = torch.zeros(k + 1, 2, dtype=torch.complex128)
        x[:k, 0], x[k, 1] = w, 2
        for group in (S * mf.U(2), S * mf.SU(2)):
            error = compact_error(mf.Equivariant(lopsided, group), group, x, count=2, dtype=torch.float64)
            assert error <= 1e-11, (group, k)


# Several inputs


def with_velocities(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return lopsided(x) + lopsided(v).roll(1, -2), lopsided(v - x.roll(1, -1)).sum(-2)


@pytest.mark.slow
@pytest.mark.parametrize("frame_on", [None, "x"])
def test_velocities(frame_on: str | None) -> None:
    for name in ("cube", "methane", "water", "carbon dioxide", "6-gon", "cube twice", "propeller", "16 random points"):
        x = CLOUDS[name]
        axis = rows((0, 0, 1)).expand_as(x)
        velocities = {
            "random": torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)),
            "rotating": torch.linalg.cross(x, axis, dim=-1),
            "breathing": x * 0.3,
            "drifting": axis,
            "at rest": torch.zeros_like(x),
        }
        for how, v in velocities.items():
            for group in EUCLIDEAN:
                if frame_on and float(group.frame(x).pose(v, "vector").abs().max()) <= 1e-13:
                    continue  # a backbone that scales with what it sees would be shown rounding
                model = mf.Equivariant(
                    with_velocities, group, {"x": "point", "v": "vector"}, ("point", "vector"), frame_on=frame_on
                )
                error = compact_error(model, group, x, v, count=5, dtype=torch.float64)
                total = float(model(x, v)[1].abs().max())  # zero by symmetry, in the middle of it
                assert error <= 1e-11 or total <= 1e-12, (name, how, group)


def test_a_vector_of_the_whole_cloud() -> None:
    field = rows((0, 0, 1.0))[0]

    def net(x: Tensor, field: Tensor) -> Tensor:
        return lopsided(x) * (1 + field.unsqueeze(-2))

    for name in ("cube", "C60", "methane", "6-gon", "lattice 3", "16 random points"):
        for group in EUCLIDEAN:
            model = mf.Equivariant(net, group, {"x": "point", "field": "vector"})
            assert compact_error(model, group, CLOUDS[name], field, count=10, dtype=torch.float64) <= 1e-11, name
            assert group.frame_of(
                group.cloud(
                    [mf.groups.base.Input("x", CLOUDS[name], "point"), mf.groups.base.Input("field", field, "vector")]
                )
            ).size


def typed(x: Tensor, h: Tensor, a: Tensor | None = None) -> dict[str, Tensor]:
    h = h.to(x.dtype)
    y = lopsided(x) * (1 + h[..., :1])
    node = h.cumsum(-2) + (y / scale_of(x)).sum(-1, keepdim=True)
    edge = node * node.mT.roll(1, -1) if a is None else a.to(x.dtype) * node
    return {"point": y, "node": node, "edge": edge, "scalar": node.square().sum((-1, -2))}


TYPED = {"point": "point", "node": "node", "edge": "edge", "scalar": "scalar"}


@by_group
def test_kinds_of_atoms(group: mf.Group) -> None:
    model = mf.Equivariant(typed, group, {"x": "point", "h": "node"}, TYPED)
    for x, kinds in MOLECULES.values():
        for h in (kinds.double(), kinds, torch.arange(len(x)) % 2, torch.arange(len(x)) * 0.1):
            error = compact_error(model, group, x, h.unsqueeze(-1), count=20, dtype=torch.float64)
            assert error <= 1e-11
    x, half = cube(), torch.tensor([1.0] * 4 + [2.0] * 4).unsqueeze(-1)
    error = compact_error(model, group, x, half, count=20, dtype=torch.float64)
    assert error <= 1e-11


@by_group
def test_bonds(group: mf.Group) -> None:
    model = mf.Equivariant(typed, group, {"x": "point", "h": "node", "a": "edge"}, TYPED)
    ring = torch.eye(6, dtype=torch.float64).roll(1, 0)
    kekule = torch.block_diag(*[torch.ones(2, 2, dtype=torch.float64) - torch.eye(2, dtype=torch.float64)] * 3)
    for bonds in (ring + ring.mT, ring, kekule, torch.zeros(6, 6)):
        for x in (polygon(6), torch.zeros(6, 3, dtype=torch.float64), torch.cat([polygon(3), polygon(3)]), generic(6)):
            h = torch.ones(6, 1)
            error = compact_error(model, group, x, h, bonds.double(), count=10, dtype=torch.float64)
            assert error <= 1e-11, (bonds, x)


# Masks and batch vectors


def shown_last(x: Tensor, mask: Tensor) -> Tensor:
    assert bool((mask.long().diff(dim=-1) <= 0).all()), "padding comes last"
    assert x.isfinite().all()
    return lopsided(x)


@by_group
def test_masks(group: mf.Group) -> None:
    names = [
        "cube",
        "methane",
        "water",
        "carbon dioxide",
        "duplicated",
        "one point",
        "cube twice",
        "coincident",
        "mirrored",
    ]
    n = 30
    model = mf.Equivariant(shown_last, group, mask="mask")
    x, mask = torch.full((len(names), n, 3), torch.nan).double(), torch.zeros(len(names), n, dtype=torch.bool)
    for k, name in enumerate(names):
        place = torch.randperm(n)[: len(CLOUDS[name])]
        x[k, place], mask[k, place] = CLOUDS[name], True
    error = mf.testing.equivariance_error(model, group, x, mask=mask, elements=20)
    assert error.max() <= 1e-11, dict(zip(names, error.tolist(), strict=True))
    assert group.frame(x, mask=mask).size == [group.frame(CLOUDS[name]).size for name in names]


@by_group
def test_batch_vectors(group: mf.Group) -> None:
    names = ["cube", "methane", "water", "carbon dioxide", "duplicated", "one point", "cube twice", "16 random points"]
    batch = torch.cat([torch.full((len(CLOUDS[name]),), k) for k, name in enumerate(names)])
    x = torch.cat([CLOUDS[name] for name in names])

    def net(x: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        assert bool((batch.diff() >= 0).all())
        w = torch.cos(torch.arange(len(x), dtype=x.dtype)).unsqueeze(-1)
        return torch.tanh(x) * w + x.roll(1, -1), w * x[:, :1] ** 2

    model = mf.Equivariant(net, group, outputs=("point", "node"), batch="batch")
    mixed = torch.randperm(len(x))
    for order in (torch.arange(len(x)), mixed):
        error = mf.testing.equivariance_error(model, group, x[order], batch=batch[order], elements=20)
        assert error.max() <= 1e-11, dict(zip(names, error.tolist(), strict=True))
        assert group.frame(x[order], batch=batch[order]).size == [group.frame(CLOUDS[name]).size for name in names]


def test_samples_do_not_see_each_other() -> None:
    names = ["cube", "6-gon", "propeller", "mirrored"]
    for group in EUCLIDEAN:
        n = max(len(CLOUDS[name]) for name in names)
        x, mask = torch.zeros(len(names), n, 3).double(), torch.zeros(len(names), n, dtype=torch.bool)
        for k, name in enumerate(names):
            x[k, : len(CLOUDS[name])], mask[k, : len(CLOUDS[name])] = CLOUDS[name], True
        form = group.frame(x, mask=mask).to_canonical(x)
        for k, name in enumerate(names):
            alone = group.frame(CLOUDS[name]).to_canonical(CLOUDS[name])
            torch.testing.assert_close(form[k, : len(alone)], alone, rtol=1e-12, atol=1e-12)


# Symmetry


@pytest.mark.parametrize("name", list(ORDERS))
def test_point_groups_of_solids(name: str) -> None:
    x, order = CLOUDS[name], ORDERS[name]
    for dtype in DTYPES.values():
        for linear, expected in ((mf.O(3), order), (mf.SO(3), order // 2), (mf.E(3), order), (mf.SE(3), order // 2)):
            frame = (S * linear).frame(x.to(dtype))
            assert frame.size == expected
            assert isinstance(frame.size, int)
            group = mf.point_group(x.to(dtype), linear)
            assert group.order == expected
    assert mf.point_group(x).orbits.tolist() == [0] * len(x)
    assert [g.order for g in mf.point_group(torch.stack([x, generic(len(x))]))] == [order, 1]


@pytest.mark.parametrize(
    ("x", "order", "rotations"),
    [
        (benzene()[0], 12, 12),
        (MOLECULES["methane"][0], 24, 12),
        (MOLECULES["water"][0], 2, 1),
        (MOLECULES["carbon dioxide"][0], 2, 2),
        (antiprism(4), 16, 8),
        (propeller(5), 5, 5),
        (mirrored(6), 2, 1),
        (torch.cat([generic(5), -generic(5)]), 2, 1),
        (lattice(3) - 1, 48, 24),
        (lattice(3), 6, 3),
        (generic(16), 1, 1),
        (cube(4), 384, 192),
        (octahedron(5), 3840, 1920),
        (torch.eye(6, dtype=torch.float64), 720, 360),
        (torch.eye(20, dtype=torch.float64), math.factorial(20), math.factorial(20) // 2),
    ],
)
def test_orders_of_point_groups(x: Tensor, order: int, rotations: int) -> None:
    d = x.shape[-1]
    assert mf.point_group(x).order == order
    if d == 3 and int(torch.linalg.matrix_rank(x)) < 3:
        return  # a reflection in its plane moves no point, so that rotations do what reflections would
    assert mf.point_group(x, mf.SO(d)).order == rotations


def test_what_the_size_counts_besides() -> None:
    assert (S * mf.O(3)).frame(torch.cat([cube(), cube()])).size == 48 * 2**8
    assert (S * mf.O(3)).frame(torch.cat([cube(), cube()[:1]])).size == 6 * 2
    assert (S * mf.O(3)).frame(benzene()[0]).size == 12 * 2  # the reflection in its plane
    assert (S * mf.SO(3)).frame(benzene()[0]).size == 12
    assert (S * mf.O(3)).frame(MOLECULES["carbon dioxide"][0]).size == math.inf
    assert (S * mf.O(3)).frame(torch.zeros(5, 3)).size == math.inf
    assert (S * mf.Translation(3)).frame(torch.zeros(5, 3)).size == 120
    assert (S * mf.GL(3)).frame(octahedron()).size == 48
    assert (S * mf.Aff(3)).frame(tetrahedron()).size == 24


@pytest.mark.parametrize(
    "name",
    [
        "tetrahedron",
        "cube",
        "icosahedron",
        "C60",
        "benzene",
        "methane",
        "antiprism",
        "mirrored",
        "propeller",
        "lattice 3",
        "3-gon",
    ],
)
@pytest.mark.parametrize("make", [mf.O, mf.SO])
def test_the_average_is_that_over_the_point_group(name: str, make: Callable[[int], mf.Group]) -> None:
    x = CLOUDS[name]
    linear = make(3)
    group = S * linear
    frame = group.frame(x)
    symmetry = mf.point_group(x, linear)
    elements = list(symmetry.elements())
    assert len(elements) == symmetry.order <= 1000
    permutations, matrices = torch.stack([p for p, _ in elements]), torch.stack([m for _, m in elements])
    for p, m in zip(permutations, matrices, strict=True):
        assert linear.contains(m)
        torch.testing.assert_close(group.act((p, m), x), x, rtol=1e-12, atol=1e-12)
    assert len(permutations.unique(dim=0)) == len(elements)
    # Of a planar cloud in O(3) each of these comes twice, with the reflection in the plane.
    if int(torch.linalg.matrix_rank(x)) < 3 and make is mf.O:
        normal = torch.linalg.svd(x)[2][2]
        mirror = torch.eye(3, dtype=torch.float64) - 2 * normal.outer(normal)
        permutations, matrices = torch.cat([permutations] * 2), torch.cat([matrices, mirror @ matrices])
    n = len(x)
    generator = torch.Generator().manual_seed(2)
    randn = partial(torch.randn, dtype=torch.float64, generator=generator)
    outputs = {
        "point": randn(n, 3),
        "vector": randn(n, 2, 3),
        "tensor": randn(n, 3, 3),
        "cotensor": randn(n, 3, 3),
        "covector": randn(n, 3),
        "pseudovector": randn(n, 3),
        "pseudoscalar": randn(n),
        "node": randn(n, 4),
        "edge": randn(n, n, 2),
    }
    count = len(permutations)
    for type, y in outputs.items():
        one = group.act(frame.element, y, type)
        every = group.act((permutations, matrices), one.expand(count, *y.shape), type)
        torch.testing.assert_close(frame.from_canonical(y, type), every.mean(0), rtol=1e-12, atol=1e-12, msg=type)
    for type, y in {"vector": randn(5, 3)[0], "tensor": randn(4, 3, 3)[0], "pseudoscalar": randn(())}.items():
        one = linear.act(frame.element[1], y, type)
        every = linear.act(matrices, one.expand(count, *y.shape), type)
        torch.testing.assert_close(frame.from_canonical(y, type), every.mean(0), rtol=1e-12, atol=1e-12, msg=type)


@pytest.mark.parametrize("name", ["C60", "lattice 4, centred", "30-gon"])
def test_one_forward_pass_whatever_the_symmetry(name: str) -> None:
    calls: list[int] = []

    def counting(x: Tensor) -> Tensor:
        calls.append(1)
        return lopsided(x)

    mf.Equivariant(counting, S * mf.O(3))(CLOUDS[name])
    assert calls == [1]


# Laws


@by_group
def test_laws(group: mf.Group) -> None:
    for name, cloud in CLOUDS.items():
        if len(cloud) > 60:
            continue
        x = cloud.expand(10, *cloud.shape)
        g, h = (group.random(10, n=len(cloud), dtype=torch.float64) for _ in range(2))
        both = group.act(group.compose(g, h), x)
        torch.testing.assert_close(group.act(g, group.act(h, x)), both, rtol=1e-12, atol=1e-12)
        moved = group.act(g, x)
        torch.testing.assert_close(group.act(group.inverse(g), moved), x, rtol=1e-11, atol=1e-11)
        one, other = group.frame(x), group.frame(moved)
        form = one.to_canonical(x)
        assert group.contains(other.element).all(), name
        torch.testing.assert_close(other.to_canonical(moved), form, rtol=1e-11, atol=1e-11, msg=name)
        torch.testing.assert_close(group.frame(form).to_canonical(form), form, rtol=1e-11, atol=1e-11, msg=name)
        torch.testing.assert_close(one.from_canonical(form), x, rtol=1e-11, atol=1e-11, msg=name)
        torch.testing.assert_close(group.act(one.element, form), x, rtol=1e-11, atol=1e-11, msg=name)


@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 7),
    copies=st.integers(1, 3),
    which=st.integers(0, 3),
    grid=st.integers(0, 3),
    exponent=st.integers(-6, 6),
)
def test_any_cloud(seed: int, n: int, copies: int, which: int, grid: int, exponent: int) -> None:
    # Points on a small grid coincide, lie in planes and have symmetries all the time.
    generator = torch.Generator().manual_seed(seed)
    x = generic(n, seed=seed) if grid == 0 else torch.randint(0, grid + 1, (n, 3), generator=generator).double()
    turn = [torch.eye(3).double(), -torch.eye(3).double(), torch.eye(3).double().roll(1, 0)]
    x = torch.cat([x @ t for t in turn[:copies]]) * 10.0**exponent
    group = EUCLIDEAN[which]
    copies_ = x.expand(15, *x.shape)
    error = mf.testing.equivariance_error(
        mf.Equivariant(lopsided, group), group, copies_, elements=1, generator=generator
    )
    assert float(error.max()) <= 1e-11


@pytest.mark.parametrize("step", [0.3, 0.6, 0.9])
@by_dtype
def test_points_that_all_but_coincide(step: float, dtype: torch.dtype) -> None:
    # The first coincides with the second, the second with the third, but the first and the third are told apart.
    gap = step * 32 * torch.finfo(dtype).eps
    thrice = rows((0, 0, 0), (gap, 0, 0), (2 * gap, 0, 0))
    for x in (torch.cat([polygon(4), -0.5 * polygon(4), thrice]), torch.cat([cube(), thrice + rows((0, 0, 0.5))])):
        for group in EUCLIDEAN:
            copies = x.expand(10, *x.shape)
            moved = group.act(group.random(10, n=len(x), dtype=torch.float64), copies).to(dtype)
            assert mf.Equivariant(lopsided, group)(moved).isfinite().all()
            assert S.contains(group.frame(moved).element[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_low_precision_gives_finite_values(dtype: torch.dtype) -> None:
    for name in ("cube", "benzene", "water", "mirrored", "16 random points", "duplicated"):
        x = CLOUDS[name].to(dtype)
        for group in EUCLIDEAN:
            y = mf.Equivariant(lambda x: lopsided(x.float()).to(x.dtype), group)(x)
            assert y.isfinite().all(), (name, group)
            assert S.contains(group.frame(x).element[0]).all()


# Citizens of PyTorch


@pytest.mark.parametrize("name", ["16 random points", "tetrahedron", "methane", "carbon dioxide", "cube twice"])
def test_gradients(name: str) -> None:
    x = CLOUDS[name] if name != "16 random points" else CLOUDS[name][:5]
    size = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
    matrix = mf.O(3).random(dtype=torch.float64)
    smooth = lambda x: torch.tanh(x) * torch.arange(1.0, len(x) + 1, dtype=x.dtype).unsqueeze(-1) + x.roll(1, -1)  # noqa: E731
    for group in EUCLIDEAN:
        model = mf.Equivariant(smooth, group)
        assert torch.autograd.gradcheck(lambda s, m=model: m(x @ matrix.mT * s), (size,))  # keeps the symmetry
        if name == "16 random points":
            y = x.clone().requires_grad_()
            assert torch.autograd.gradcheck(model, (y,))
            assert torch.autograd.gradgradcheck(model, (y,))


@by_group
def test_gradients_are_finite(group: mf.Group) -> None:
    for name in (*MOLECULES, "cube", "coincident", "at the origin", "one point", "duplicated", "line", "plane"):
        x = CLOUDS[name].clone().requires_grad_()
        y = mf.Equivariant(lopsided, group)(x)
        (d,) = torch.autograd.grad(y.square().sum(), x)
        assert d.isfinite().all(), name


@by_group
def test_values(group: mf.Group) -> None:
    assert pickle.loads(pickle.dumps(group)) == group
    assert hash(copy.deepcopy(group)) == hash(group)
    assert eval(repr(group), vars(mf).copy()) == group
    assert group.linear * mf.S() == group
    model = mf.Equivariant(lopsided, group)
    x = cube()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), model(x))
    assert "labelling" in model.state_dict()


def test_one_element_for_a_whole_batch() -> None:
    group = S * mf.O(3)
    g = group.random(n=5, dtype=torch.float64)
    x = torch.randn(4, 5, 3, dtype=torch.float64)
    torch.testing.assert_close(group.act(g, x), torch.stack([group.act(g, sample) for sample in x]))


@pytest.mark.parametrize("group", [S * mf.O(3), S * mf.E(3)], ids=str)
def test_empty_batches(group: mf.Group) -> None:
    assert mf.Equivariant(lopsided, group)(torch.zeros(0, 4, 3)).shape == (0, 4, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: (S * mf.O(3)).frame(torch.randn(4, 2)), "x .*3"),
        (lambda: (S * mf.O(3)).frame(torch.full((4, 3), torch.nan)), "NaN|nan|finite|infinit"),
        (lambda: (S * mf.O(3)).frame(torch.zeros(0, 3)), "no points"),
        (lambda: (S * mf.O(3)).frame(torch.randn(4, 3), type="node"), "point|vector"),
        (lambda: (S * mf.O(3)).frame(torch.randn(4, 3), type="nodes"), "no type 'nodes'"),
        (lambda: mf.Equivariant(lopsided, S * mf.O(3), {"x": "node"}), "'point' or a 'vector'|point"),
        (
            lambda: mf.Equivariant(typed, S * mf.O(3), {"x": "point", "h": "node"})(
                torch.randn(4, 3), torch.randn(3, 1)
            ),
            "h of type 'node'",
        ),
        (lambda: (S * mf.O(3)).random(3), "n="),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("wrong", [3, "O(3)", S, S * mf.O(3)], ids=str)
def test_what_is_no_linear_group(wrong: object) -> None:
    with pytest.raises(TypeError):
        S * wrong


def test_named_clouds_are_what_they_are_called() -> None:
    assert [len(x) for x in solids().values()] == [4, 8, 6, 12, 20, 60]
    assert len(buckyball().unique(dim=0)) == 60
    assert len(icosahedron().unique(dim=0)) == 12
    assert set(generic_clouds()) < set(CLOUDS)
    assert take_nodes(cube(), torch.arange(8)).shape == (8, 3)


WITHOUT_NUMPY = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] == "numpy" else self.finder.find_spec(name, path, target)

sys.meta_path = [Without(finder) for finder in sys.meta_path]
import torch, minframe as mf

square = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
assert mf.point_group(square).order == 8
assert (mf.S() * mf.O(2)).frame(square).size == 8
mf.Equivariant(lambda x: x.cumsum(-2), mf.S() * mf.SE(2))(square)
assert mf.graph.automorphism_group(torch.ones(5, 5)).order == 120
assert not any(name.split(".")[0] == "numpy" for name in sys.modules)
"""


def test_numpy_is_not_needed() -> None:
    """torch alone is a dependency, and torch does without numpy."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT_NUMPY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("group", [mf.Aff(3), mf.Aff(4), mf.Aff(2, complex=True), mf.GL(3), mf.SL(3)])
def test_units_make_no_symmetry_under_general_linear_groups(group: mf.Group, scale: float) -> None:
    """A few points are all alike under these groups; the rounding of where they stand is in the unit of the points."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(20, 3, group.d, generator=generator, dtype=torch.complex64 if group.complex else torch.float32)
    x[0] *= torch.tensor([1.0, 1e-3, 1.0])[:, None]  # thin, so that none of them is taken as it is
    x = x * scale
    frame = (mf.S() * group).frame(x)
    back = frame.from_canonical(frame.pose(x, own=True))
    assert ((back - x).flatten(1).norm(dim=1) <= 1e-5 * x.flatten(1).norm(dim=1)).all()
