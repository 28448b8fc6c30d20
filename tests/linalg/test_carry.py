"""Products of rows with matrices: loops in C have the values and all derivatives of PyTorch's operations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from minframe.linalg import carry as module
from minframe.linalg.carry import Pairs, carry

pytestmark = pytest.mark.usefixtures("compiled")


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def pairs(rows: int, matrices: int, count: int, itself: bool) -> Pairs:
    draw = torch.Generator().manual_seed(3)
    entry = torch.randint(rows, (2, count), generator=draw)[0]
    owner = torch.randint(matrices, (count, 2), generator=draw)[:, 0]  # not one after the other in memory
    return Pairs.at(None if itself else entry, owner)


def results(x: Tensor, matrix: Tensor, which: Pairs) -> list[Tensor]:
    """Values, and derivatives of something that is not linear: first, second and third."""
    x, matrix = x.clone().requires_grad_(), matrix.clone().requires_grad_()
    y = carry(x, matrix, which)
    found, total = [y.detach()], (y.sin() * normal(*y.shape, seed=4, dtype=y.dtype)).sum()
    for step in range(3):
        slopes = torch.autograd.grad(total, (x, matrix), create_graph=True)
        found += [slope.detach() for slope in slopes]
        total = sum((s * normal(*s.shape, seed=5 + step, dtype=s.dtype)).sum() for s in slopes)  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [(3,), (4,), (1,), (6,), (2, 3), (20,)], ids=str)
def test_both_have_the_same_values_and_derivatives(
    shape: tuple[int, ...], dtype: torch.dtype, itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    d, count = shape[-1], 12
    x, matrix = normal(count if itself else 7, *shape, dtype=dtype), normal(5, d, d, seed=1)
    which = pairs(7, 5, count, itself)
    assert module.library is not None
    got = results(x, matrix, which)
    monkeypatch.setattr(module, "library", None)
    for one, other in zip(got, results(x, matrix, which), strict=True):
        assert one.dtype == other.dtype
        bound = 1e-12 if dtype == torch.float64 else 1e-5
        assert float((one - other).abs().max()) <= bound * float(other.abs().max())


def test_transforms_and_many_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    x, matrix, which = normal(7, 3), normal(5, 3, 3, seed=1), pairs(7, 5, 12, False)

    def total(x: Tensor) -> Tensor:
        return carry(x, matrix * x.square().sum(), which).sin().sum()

    ways = (
        lambda: torch.autograd.functional.hessian(total, x, vectorize=True),
        lambda: torch.func.hessian(total)(x),
        lambda: torch.func.vmap(total)(torch.stack([x, 2 * x])),
    )
    found = [way() for way in ways]
    monkeypatch.setattr(module, "library", None)
    for one, way in zip(found, ways, strict=True):
        torch.testing.assert_close(one, way(), rtol=1e-12, atol=1e-12)


def test_nothing_is_read_outside() -> None:
    x, matrix, zero = normal(4, 3), normal(2, 3, 3), torch.zeros(5, dtype=torch.int64)
    for entry, owner in ((zero + 4, zero), (zero - 1, zero), (zero, zero + 2), (None, zero)):
        with pytest.raises(IndexError, match="of 4"):
            carry(x, matrix, Pairs.at(entry, owner))


def test_without_entries() -> None:
    """A graph without edges, and rows without channels."""
    none = torch.zeros(0, dtype=torch.int64)
    x = normal(4, 3).requires_grad_()
    y = carry(x, normal(2, 3, 3), Pairs.at(none, none))
    y.sum().backward()
    assert y.shape == (0, 3)
    assert bool((x.grad == 0).all())
    assert carry(normal(4, 0, 3), normal(2, 3, 3), Pairs.at(None, none.new_zeros(4))).shape == (4, 0, 3)
