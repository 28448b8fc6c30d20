"""Molecules that are symmetric up to noise, at every level of it, reordered and turned: no decision comes out another way."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf
from clouds import benzene, buckyball, cube, methane, polygon, water

LEVELS = [1, 3, 4, 4.5, 5, 5.5, 6, 7, 9, 10, 10.5, 11, 11.5, 12, 12.5, 13, 14, 16]  # noise 10^-level
BOUND = {torch.float64: 1e-11, torch.float32: 1e-5}
MARGIN = 32  # units of rounding: a decision this close to flipping is within the rounding of the turned input
GROUPS = {
    "E(3)": (mf.E(3), mf.frames.Unordered()),
    "SE(3)": (mf.SE(3), mf.frames.Unordered()),
    "S() * E(3)": (mf.S() * mf.E(3), mf.frames.Minimal()),
    "S() * SE(3)": (mf.S() * mf.SE(3), mf.frames.Minimal()),
}


def ethane() -> Tensor:
    """Staggered."""
    carbons = torch.tensor([[0, 0, 0.77], [0, 0, -0.77]], dtype=torch.float64)
    return torch.cat([carbons, polygon(3, 1.02, 1.16), polygon(3, 1.02, -1.16, torch.pi / 3)])


#: the cloud, and how many noisy copies of it are tried at each level
MOLECULES = {
    "methane": (methane()[0], 20),
    "ethane": (ethane(), 12),
    "benzene": (benzene()[0], 12),
    "water": (water()[0], 20),
    "cube": (cube(), 10),
    "C60": (buckyball(), 1),
}


def on_sets(x: Tensor) -> Tensor:
    """A backbone that respects the order of the rows, and no rotation."""
    y = torch.tanh(1.3 * x + 0.2)
    return y.roll(1, -1) + x * y.mean(-2, keepdim=True) + 0.3 * x.roll(1, -1) ** 2


def on_rows(x: Tensor) -> Tensor:
    """One that does not."""
    place = 0.3 * torch.arange(x.shape[-2], dtype=x.dtype).unsqueeze(-1)
    return torch.tanh(1.1 * x + 0.2) * (1 + place) + x.roll(1, -1) * place.cos()


def noisy(name: str, level: float, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    x, count = MOLECULES[name]
    noise = torch.randn(count, *x.shape, dtype=torch.float64, generator=generator)
    return (x + 10.0**-level * noise).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("which", GROUPS)
@pytest.mark.parametrize("name", MOLECULES)
def test_molecules_with_noise(name: str, which: str, dtype: torch.dtype) -> None:
    group, frames = GROUPS[which]
    linear = getattr(group, "linear", group) if which.startswith("S()") else group
    model = mf.Equivariant(on_rows if which.startswith("S()") else on_sets, group, frames=frames)
    generator = torch.Generator().manual_seed(7)
    for level in LEVELS[:: 6 if name == "C60" else 1]:
        x = noisy(name, level, dtype, generator)
        order = torch.randperm(x.shape[1], generator=generator)
        g = linear.random(len(x), dtype=torch.float64, generator=generator)
        y = model(x).double()
        turned = linear.act(g, x[:, order].double()).to(dtype)
        for case, z, wanted in (
            ("reordered", x[:, order], y[:, order]),
            ("turned", turned, linear.act(g, y[:, order])),
        ):
            error = (model(z).double() - wanted).norm(dim=(1, 2)) / wanted.norm(dim=(1, 2))
            wrong = error > BOUND[dtype]
            if case == "turned" and dtype == torch.float32:  # where rounding decides, the margin says so
                margin = mf.canonicalize(z, group, frames=frames)[1].margin
                wrong &= margin > MARGIN * torch.finfo(dtype).eps
            assert not wrong.any(), (case, level, float(error.max()), int(wrong.sum()))


def test_few_decisions_about_a_near_symmetry() -> None:
    """Where noise is about as large as what counts as equal, rounding decides rarely, and the margin says so.

    No rule that shows one pose is right for all: rounding of 3e-8 in a noise of 4.5e-6 has to decide for 0.6 % of
    tetrahedral molecules (``frame.pairs``). One decision about all poses, and one about the winner, come close to it.
    """
    group, generator = mf.S() * mf.E(3), torch.Generator().manual_seed(3)
    x = methane()[0] + 4.5e-6 * torch.randn(900, 5, 3, dtype=torch.float64, generator=generator)
    x, g = x.float(), mf.E(3).random(900, dtype=torch.float64, generator=generator)
    model = mf.Equivariant(on_rows, group)
    wanted = mf.E(3).act(g, model(x).double())
    turned = mf.E(3).act(g, x.double()).float()
    wrong = (model(turned) - wanted).norm(dim=(1, 2)) > 1e-5 * wanted.norm(dim=(1, 2))
    assert wrong.double().mean() < 0.011
    eps = torch.finfo(torch.float32).eps
    assert not (mf.canonicalize(turned[wrong], group)[1].margin > MARGIN * eps).any()


@pytest.mark.parametrize("size", [2.0, 4.0])
def test_an_average_over_poses_with_other_axes_is_no_symmetry(size: float) -> None:
    """Rows as short as what is equal carry the last axis, another one in each order."""
    generator = torch.Generator().manual_seed(0)
    long = torch.randn(800, 3, 3, generator=generator) * torch.tensor([1, 1, 0])
    x = torch.cat([long, size * 6.4e-6 * torch.randn(800, 4, 3, generator=generator)], 1)
    model = mf.Equivariant(lambda x: x, mf.S() * mf.E(3), inputs="point", outputs="point")
    assert ((model(x) - x).norm(dim=(1, 2)) / x.norm(dim=(1, 2))).max() < 1e-5
