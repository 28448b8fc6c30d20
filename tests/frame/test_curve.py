"""Orders along a Hilbert curve."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import minframe as mf
from clouds import all_clouds
from minframe.linalg.hilbert import hilbert_position

D = torch.float64
S = mf.S(curve="hilbert")


@pytest.mark.parametrize(("d", "bits"), [(1, 4), (2, 1), (2, 4), (3, 3), (4, 2), (5, 1)])
def test_the_curve_visits_every_cell_and_steps_to_neighbours(d: int, bits: int) -> None:
    cells = torch.tensor(list(itertools.product(range(1 << bits), repeat=d)))
    position = hilbert_position(cells, bits)
    assert position.sort()[0].tolist() == list(range(len(cells)))
    path = cells[position.argsort()]
    assert (path.diff(dim=0).abs().sum(-1) == 1).all()


def net(x: Tensor) -> Tensor:
    place = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * 0.1
    return torch.tanh(x + 0.2) + place * x.roll(1, -2)


@pytest.mark.parametrize(
    "linear", [mf.O(3), mf.SO(3), mf.E(3), mf.E(2) + mf.Trivial(1), mf.Octahedral(), mf.Sim(3)], ids=str
)
def test_products_stay_exact(linear: mf.Group) -> None:
    group = S * linear
    assert eval(repr(group), vars(mf).copy()) == group != mf.S() * linear
    model = mf.Equivariant(net, group)
    symmetric = {name: x for name, x in all_clouds().items() if len(x) <= 30 and x.shape[-1] == 3}
    assert len(symmetric) > 5
    for name, x in {"generic": torch.randn(15, 3, dtype=D), **symmetric}.items():
        if linear == mf.Sim(3) and (x - x[0]).abs().max() < 1e-6:
            continue  # without size there are no equivariant outputs
        copies = x.to(D).expand(6, *x.shape).contiguous()
        g = group.random(6, n=len(x), dtype=D)
        plain, moved = model(copies), model(group.act(g, copies))
        error = (moved - group.act(g, plain)).flatten(1).norm(dim=1).max()
        assert error <= 1e-11 * (1 + plain.flatten(1).norm(dim=1).max()), name
        frame = group.frame(copies)
        torch.testing.assert_close(frame.from_canonical(frame.to_canonical(copies)), copies, atol=1e-11, rtol=1e-11)
        pose = mf.canonicalize(copies, group)[0]
        torch.testing.assert_close(mf.canonicalize(group.act(g, copies), group)[0], pose, atol=1e-10, rtol=0)
        assert bool(group.contains(frame.element).all())


def test_neighbours_in_the_order_are_neighbours_in_space() -> None:
    x = torch.rand(8, 200, 3, dtype=D)
    steps = {}
    for permutations in (mf.S(), S):
        pose, _ = mf.canonicalize(x, permutations * mf.E(3))
        steps[permutations] = float(pose.diff(dim=-2).norm(dim=-1).mean())
    assert steps[S] < 0.5 * steps[mf.S()]


def test_masks_and_batch_vectors() -> None:
    group = S * mf.E(3)
    clouds = [torch.randn(n, 3, dtype=D) for n in (4, 7, 5)]
    alone = [mf.canonicalize(x, group)[0] for x in clouds]
    batch = torch.tensor([0] * 4 + [1] * 7 + [2] * 5)
    p = torch.randperm(16)
    ragged = mf.canonicalize(torch.cat(clouds)[p], group, batch=batch[p])[0]
    torch.testing.assert_close(ragged, torch.cat(alone), atol=1e-12, rtol=0)
    padded, mask = torch.full((3, 7, 3), torch.nan, dtype=D), torch.zeros(3, 7, dtype=torch.bool)
    for i, x in enumerate(clouds):
        padded[i, -len(x) :], mask[i, -len(x) :] = x, True
    pose = mf.canonicalize(padded, group, mask=mask)[0]
    for i, x in enumerate(alone):
        torch.testing.assert_close(pose[i, : len(x)], x, atol=1e-12, rtol=0)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="curve must be"):
        mf.S(curve="peano")
    with pytest.raises(ValueError, match="in a product"):
        S.frame(torch.randn(4, 3))
