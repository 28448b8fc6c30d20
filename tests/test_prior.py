"""Priors: whatever they return, wrapped models are exactly equivariant; and they do what they are told."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import minframe as mf

GROUPS = [mf.O(3), mf.SO(3), mf.E(3), mf.SE(3), mf.S() * mf.SE(3)]
FRAMES = [mf.frames.Minimal(), mf.frames.Unordered(), mf.frames.Smooth()]
OUTPUTS = {"point": "point", "tensor": "tensor", "axis": "pseudovector", "scalar": "scalar"}


def odd(pose: Tensor) -> Tensor:
    """Numbers from a pose that do not depend on the order of its rows."""
    return torch.stack([(pose[..., i] ** 3 + pose[..., i - 1]).sum(-1).sin() for i in range(3)] * 3, -1)


def backbone(x: Tensor) -> dict[str, Tensor]:
    """Depends on coordinates as it likes, and keeps the order of rows."""
    bent = torch.tanh(x + x.roll(1, -1) * 0.3 + 0.2)
    return {
        "point": bent,
        "tensor": bent.mT @ x,
        "axis": bent.roll(1, -1).sum(-2),
        "scalar": bent.square().sum((-1, -2)),
    }


def rotation() -> Tensor:
    return mf.SO(3).random(dtype=torch.float64)


PRIORS = {
    "given": lambda: rotation(),
    "learned": lambda: mf.prior.Learned(odd),
    "reflections": lambda: mf.prior.Learned(odd, reflections=True),
    "function": lambda: lambda pose: torch.eye(3, dtype=pose.dtype).roll(1, 0),
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("frames", FRAMES, ids=repr)
@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_exact_whatever_the_prior_says(group: mf.Group, frames: mf.frames.Method, prior: str) -> None:
    if isinstance(group, mf.groups.product.Product) and not isinstance(frames, mf.frames.Minimal):
        return
    model = mf.Equivariant(backbone, group, outputs=OUTPUTS, frames=frames, prior=PRIORS[prior]()).eval()
    generic = torch.randn(3, 7, 3, dtype=torch.float64)
    line = torch.randn(3, 4, 1, dtype=torch.float64) * torch.randn(3, 1, 3, dtype=torch.float64)
    for x in (generic, line, generic * torch.tensor([1.0, 1.0, 0.0])):
        mf.testing.assert_equivariant(model, group, x)


def test_the_backbone_is_shown_what_the_prior_says() -> None:
    seen = []
    turn = rotation()
    x = torch.randn(4, 6, 3, dtype=torch.float64)
    for prior in (None, turn):
        model = mf.Equivariant(lambda x: seen.append(x) or x, mf.SE(3), prior=prior)
        assert torch.allclose(model(x), x)
    assert torch.allclose(seen[1], seen[0] @ turn.mT)


def test_masks_and_batch_vectors() -> None:
    net = nn.Linear(3, 9).double()

    def pooled(pose: Tensor, batch: Tensor) -> Tensor:
        return mf.prior.Learned(lambda p: torch.zeros(2, 9).double().index_add(0, batch, net(p).sin()))(pose)

    def masked(pose: Tensor, mask: Tensor) -> Tensor:
        return mf.prior.Learned(lambda p: (net(p).sin() * mask.unsqueeze(-1)).sum(-2))(pose)

    x = torch.randn(2, 5, 3, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([[5], [3]])
    dense = mf.Equivariant(nn.Linear(3, 3).double(), mf.SE(3), mask="mask", prior=masked)
    ragged = mf.Equivariant(dense.backbone, mf.SE(3), batch="batch", prior=pooled)
    rows, batch = x[mask], torch.tensor([0] * 5 + [1] * 3)
    assert torch.allclose(dense(x, mask=mask)[mask], ragged(rows, batch=batch))
    assert torch.allclose(dense.prior_loss(x, mask=mask), ragged.prior_loss(rows, batch=batch))


@pytest.mark.parametrize("frames", FRAMES, ids=repr)
def test_a_prior_learns_what_upright_is(frames: mf.frames.Method) -> None:
    """One shape, noisy and upright: its canonical pose is always about the same, and so is the rotation to learn."""
    torch.manual_seed(0)
    shape = torch.tensor([[0.0, 0, 3], [2, 0, 0], [0, 1, 0], [-1, -0.5, -2]])
    x = shape + 0.01 * torch.randn(64, 4, 3)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 9))
    seen = []
    model = mf.Invariant(
        lambda x: seen.append(x) or x.sum((-1, -2)), mf.SE(3), frames=frames, prior=mf.prior.Learned(net)
    )
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    before = float(model.prior_loss(x).detach())
    for _ in range(150):
        optimizer.zero_grad()
        model.prior_loss(x).backward()
        optimizer.step()
    assert float(model.prior_loss(x).detach()) < 0.01 < before
    seen.clear()
    turned = mf.SE(3).act(mf.SE(3).random(), x[:1])
    model(turned)
    upright = x[:1] - x[:1].mean(1, keepdim=True)
    assert float((seen[0].detach() - upright).norm() / upright.norm()) < 0.1


def test_state_and_errors() -> None:
    model = mf.Equivariant(nn.Linear(3, 3), mf.O(3), prior=torch.eye(3))
    assert set(model.state_dict()) == {"backbone.weight", "backbone.bias", "prior.matrix"}
    assert set(mf.Equivariant(nn.Linear(3, 3), mf.O(3)).state_dict()) == {"backbone.weight", "backbone.bias"}
    with pytest.raises(ValueError, match="orthogonal"):
        mf.Equivariant(nn.Linear(3, 3), mf.O(3), prior=2 * torch.eye(3))
    with pytest.raises(ValueError, match=r"matrix \(3, 3\)"):
        mf.Equivariant(nn.Linear(3, 3), mf.O(3), prior=torch.eye(2))
    with pytest.raises(TypeError, match="real coordinates"):
        mf.Equivariant(nn.Linear(4, 4), mf.Lorentz(), prior=torch.eye(4))
    with pytest.raises(TypeError, match="a module or function"):
        mf.Equivariant(nn.Linear(3, 3), mf.O(3), prior="up")
    with pytest.raises(ValueError, match="for each pose"):
        mf.Equivariant(nn.Linear(3, 3), mf.O(3), prior=lambda pose: pose)(torch.randn(2, 5, 3))
    with pytest.raises(ValueError, match="9 numbers"):
        mf.Equivariant(nn.Linear(3, 3), mf.O(3), prior=mf.prior.Learned(nn.Linear(3, 3)))(torch.randn(2, 5, 3))
    with pytest.raises(ValueError, match="no prior"):
        mf.Equivariant(nn.Linear(3, 3), mf.O(3)).prior_loss(torch.randn(2, 5, 3))
