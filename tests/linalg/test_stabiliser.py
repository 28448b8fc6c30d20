"""The closed-form averages over the stabiliser against Monte Carlo averages, for every type, rank and group."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf

SAMPLES = 100_000
CORE = {
    "scalar": 0,
    "pseudoscalar": 0,
    "point": 1,
    "vector": 1,
    "covector": 1,
    "pseudovector": 1,
    "tensor": 2,
    "cotensor": 2,
}


def stabiliser_sample(group: mf.Group, d: int, rank: int) -> Tensor:
    """Haar-random elements of the linear part that fix the first ``rank`` axes."""
    special = isinstance(group, (mf.SO, mf.SE))
    h = torch.eye(d, dtype=torch.float64).repeat(SAMPLES, 1, 1)
    if rank < d:
        free = mf.SO(d - rank) if special else mf.O(d - rank)
        h[:, rank:, rank:] = free.random(SAMPLES, dtype=torch.float64)
    return h


@pytest.mark.parametrize("make", [mf.O, mf.SO, mf.E, mf.SE])
@pytest.mark.parametrize(("d", "rank"), [(d, rank) for d in (1, 2, 3, 4) for rank in range(d + 1)])
@pytest.mark.parametrize("type", CORE)
def test_average_is_the_haar_integral(make: type[mf.Group], d: int, rank: int, type: str) -> None:
    group = make(d)
    linear = getattr(group, "linear", group)
    # A cloud that spans exactly ``rank`` directions, also after its mean is taken away.
    span = torch.randn(rank, d, dtype=torch.float64)
    x = torch.cat([span, -span, torch.zeros(1, d, dtype=torch.float64)])
    frame = group.frame(x)
    assert int(frame.rank) == rank
    y = torch.randn(5, *(d,) * CORE[type], dtype=torch.float64)
    h = stabiliser_sample(group, d, rank)
    in_canonical_pose = linear.act(h, y.expand(SAMPLES, *y.shape), "vector" if type == "point" else type)
    g0, shift = group.parts(frame.element)
    expected = linear.act(g0, in_canonical_pose.mean(0), "vector" if type == "point" else type)
    if type == "point" and shift is not None:
        expected = expected + shift
    torch.testing.assert_close(frame.from_canonical(y, type), expected, atol=0.03, rtol=0)


@pytest.mark.parametrize("make", [mf.O, mf.SO])
@pytest.mark.parametrize("type", CORE)
def test_average_is_a_projection_and_invariant(make: type[mf.Group], type: str) -> None:
    # Exactly, not only within the noise of a Monte Carlo average: A(A y) = A y and A(h y) = A y.
    d = 4
    for rank in range(d + 1):
        group = make(d)
        x = torch.eye(d, dtype=torch.float64)[:rank] if rank else torch.zeros(1, d, dtype=torch.float64)
        frame = group.frame(x)
        y = torch.randn(5, *(d,) * CORE[type], dtype=torch.float64)
        once = frame.from_canonical(y, type)
        torch.testing.assert_close(frame.from_canonical(frame.to_canonical(once, type), type), once, atol=1e-12, rtol=0)
        torch.testing.assert_close(frame.pose(once, type), frame.to_canonical(once, type), atol=1e-12, rtol=0)
        h = stabiliser_sample(group, d, rank)[0]
        torch.testing.assert_close(frame.from_canonical(group.act(h, y, type), type), once, atol=1e-12, rtol=0)


def test_planar_molecule_keeps_what_its_mirror_allows() -> None:
    # Under O(3) a planar cloud has one reflection. A dipole lies in the plane, a magnetic moment stands upright on it.
    x = torch.tensor([[1.0, 0, 0], [0, 2.0, 0]], dtype=torch.float64)
    ones = torch.ones(1, 3, dtype=torch.float64)
    frame = mf.O(3).frame(x)
    assert frame.from_canonical(ones, "vector")[0, 2] == 0
    upright = frame.from_canonical(ones, "pseudovector")
    assert upright[0, :2].abs().max() == 0
    assert upright[0, 2].abs() == 1
    assert frame.from_canonical(torch.ones(1, dtype=torch.float64), "pseudoscalar") == 0
    # Under SO(3) nothing is lost.
    assert mf.SO(3).frame(x).from_canonical(ones, "vector").norm() == pytest.approx(3**0.5)


def test_single_atom_has_an_isotropic_tensor() -> None:
    frame = mf.E(3).frame(torch.randn(1, 3, dtype=torch.float64))
    t = torch.randn(3, 3, dtype=torch.float64)
    expected = torch.eye(3, dtype=torch.float64) * t.trace() / 3
    torch.testing.assert_close(frame.from_canonical(t, "tensor"), expected)


def free_isometries(group: mf.O, frame: mf.Frame, count: int) -> Tensor:
    """Random elements that fix the canonical pose: isometries of the free axes."""
    free = ~frame.stabiliser.determined
    p, q = int(free[: group.p].sum()), int(free[group.p :].sum())
    h = torch.eye(group.d, dtype=torch.complex128 if group.complex else torch.float64).repeat(count, 1, 1)
    if p + q:
        index = free.nonzero().flatten()
        orthochronous = isinstance(group, mf.OrthochronousLorentz) and p > 0
        part = mf.OrthochronousLorentz(q + 1) if orthochronous else type(group)(p, q) if p else _same(group)(q)
        h[:, index[:, None], index] = part.random(count, dtype=h.dtype)
    return h


def _same(group: mf.O) -> type[mf.O]:
    return mf.SO if isinstance(group, mf.OrthochronousLorentz) else type(group)


@pytest.mark.parametrize("make", [mf.U, mf.SU])
@pytest.mark.parametrize(("d", "rank"), [(d, rank) for d in (1, 2, 3, 4) for rank in range(d + 1)])
@pytest.mark.parametrize("type", CORE)
def test_unitary_average_is_the_haar_integral(make: type[mf.U], d: int, rank: int, type: str) -> None:
    group = make(d)
    span = torch.randn(rank, d, dtype=torch.complex128)
    frame = group.frame(torch.cat([span, torch.zeros(1, d, dtype=torch.complex128)]))
    assert int(frame.rank) == rank
    y = torch.randn(5, *(d,) * CORE[type], dtype=torch.complex128)
    h = free_isometries(group, frame, SAMPLES // 4)
    average = group.act(h, y.expand(len(h), *y.shape), type).mean(0)
    torch.testing.assert_close(
        frame.from_canonical(y, type), group.act(frame.element, average, type), atol=0.06, rtol=0
    )


@pytest.mark.parametrize(
    "group",
    [
        mf.O(1, 3),
        mf.SO(1, 3),
        mf.OrthochronousLorentz(4),
        mf.O(2, 2),
        mf.SO(2, 2),
        mf.U(2, 2),
        mf.SU(2, 2),
        mf.SU(1, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("type", CORE)
def test_projection_on_the_invariants(group: mf.O, type: str) -> None:
    """A is a projection and does not see what the stabiliser does, compact or not; it keeps what all of it keeps."""
    number = torch.complex128 if group.complex else torch.float64
    eye = torch.eye(group.d, dtype=number)
    g = group.random(dtype=number)
    for axes in ([], [0], [group.d - 1], [0, 1], [0, group.d - 1], list(range(group.d - 1)), list(range(1, group.d))):
        x = group.act(g, eye[axes] if axes else 0 * eye[:1])
        frame = group.frame(x)
        assert int(frame.rank) == len(axes)
        y = torch.randn(5, *(group.d,) * CORE[type], dtype=number)
        once = frame.from_canonical(y, type)
        close = {"atol": 1e-10, "rtol": 1e-10}
        torch.testing.assert_close(frame.from_canonical(frame.to_canonical(once, type), type), once, **close)
        for h in free_isometries(group, frame, 5):
            torch.testing.assert_close(frame.from_canonical(group.act(h, y, type), type), once, **close)
            torch.testing.assert_close(
                group.act(h, frame.to_canonical(once, type), type), frame.to_canonical(once, type), **close
            )


def test_a_particle_at_rest_has_an_isotropic_stress() -> None:
    # One massive particle: what is left of a tensor is its energy density, and a pressure times the metric of space.
    p = torch.tensor([[5.0, 0, 0, 3.0]], dtype=torch.float64)
    frame = mf.Lorentz().frame(p)
    t = torch.randn(4, 4, dtype=torch.float64)
    u = p[0] / 4
    eta = torch.diag(torch.tensor([1.0, -1, -1, -1], dtype=torch.float64))
    pressure = -t.diagonal()[1:].sum() / 3
    expected = t[0, 0] * torch.outer(u, u) + pressure * (eta - torch.outer(u, u))
    torch.testing.assert_close(frame.from_canonical(t, "tensor"), expected)
