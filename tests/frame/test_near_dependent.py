"""Rows that depend on each other up to noise, at every level of it: exact turns and orders change no decision."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.linalg import native

BOUND = {torch.float64: 1e-11, torch.float32: 1e-5}
LEVELS = [k + part for k in range(17) for part in (0.0, 0.5)]  # noise 10^-level
by_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def along(*places: float, d: int = 3) -> Tensor:
    """Points on a line."""
    return torch.tensor(places, dtype=torch.float64).unsqueeze(-1) * torch.eye(d, dtype=torch.float64)[0]


def noisy(x: Tensor, level: float, dtype: torch.dtype, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return (x + 10.0**-level * torch.randn(count, *x.shape, dtype=torch.float64, generator=generator)).to(dtype)


def quarter(x: Tensor) -> Tensor:
    """A quarter turn of the first two coordinates, which rounds nothing."""
    return torch.stack([-x[..., 1], x[..., 0], *x.unbind(-1)[2:]], -1)


def on_sets(x: Tensor) -> Tensor:
    """A backbone that ignores the order of the rows, and no rotation."""
    return torch.tanh(x + 0.3).sum((-1, -2))


def share_wrong(model: mf.Invariant, x: Tensor, z: Tensor) -> float:
    y = model(x)
    return float(((model(z) - y).abs() > BOUND[x.dtype] * (1 + y.abs())).double().mean())


CLOUDS = {
    "two vectors": along(1, -1.3, d=2),
    "HCN": along(-1.63, -0.57, 0.58),
    "plane": torch.tensor([[1, 0.2, 0], [-0.4, 1.3, 0], [0.3, -0.5, 0]], dtype=torch.float64),
    "parallel": torch.tensor([[1, 0.5, 0], [2, 1, 0], [-1, -0.5, 0]], dtype=torch.float64),
}


@by_dtype
@pytest.mark.parametrize("compiled", [True, False], ids=["C", "PyTorch"])
@pytest.mark.parametrize("name", CLOUDS)
def test_a_row_that_carries_an_axis_does_not_tie_for_the_next(name: str, compiled: bool, dtype: torch.dtype) -> None:
    """What is left of such a row is zero or rounding, and neither is as long as another row."""
    cloud = CLOUDS[name]
    model = mf.Invariant(on_sets, mf.O(cloud.shape[-1]), inputs="vector", frames=mf.frames.Unordered())
    with contextlib.nullcontext() if compiled else native.disabled():
        for level in LEVELS:
            x = noisy(cloud, level, dtype, 60)
            assert share_wrong(model, x, quarter(x)) == 0, level
            assert share_wrong(model, x, quarter(x).flip(-2)) == 0, level


def on_rows(x: Tensor) -> Tensor:
    """A backbone that depends on the order of the rows."""
    weights = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype).sin().unsqueeze(-1)
    return (torch.tanh(x) * weights * torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)).sum((-1, -2))


PRODUCTS = {
    "Octahedral": mf.S() * mf.Octahedral(),
    "Octahedral with reflections": mf.S() * mf.Octahedral(reflections=True),
    "Dihedral(4)": mf.S() * mf.Dihedral(4),
    "Cyclic(4)": mf.S() * mf.Cyclic(4),
    "O(3), hilbert": mf.S(curve="hilbert") * mf.O(3),
    "E(3), hilbert": mf.S(curve="hilbert") * mf.E(3),
    "Octahedral, hilbert": mf.S(curve="hilbert") * mf.Octahedral(),
}
LINES = {"five": (-2, -1, 0, 1, 2), "CO2": (-1.16, 0, 1.16), "six": (-1.4, -0.9, 0.2, 0.5, 1.1, 1.3)}


@by_dtype
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("which", PRODUCTS)
def test_coordinates_along_axes_without_extent_order_no_rows(which: str, name: str, dtype: torch.dtype) -> None:
    """They are rounding, of whatever size, and equal if they differ by little relative to the whole cloud."""
    group = PRODUCTS[which]
    cloud = along(*LINES[name], d=2 if "(4)" in which else 3)
    model = mf.Invariant(on_rows, group)
    for level in [*LEVELS, torch.inf]:
        x = noisy(cloud, level, dtype, 20)
        assert share_wrong(model, x, quarter(x)) == 0, level
        assert share_wrong(model, x, quarter(x).flip(-2)) == 0, level
