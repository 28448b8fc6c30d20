"""The closed-form averages over the stabiliser against Monte Carlo averages, for every type, rank and group."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf

SAMPLES = 100_000
CORE = {"scalar": 0, "pseudoscalar": 0, "point": 1, "vector": 1, "covector": 1, "pseudovector": 1, "tensor": 2}


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
