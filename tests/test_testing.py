"""The tools that users test their own models with."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.testing import assert_equivariant, equivariance_error
from table import gentle


def relative_to_mean(x: Tensor) -> Tensor:
    return x - x.mean(-2, keepdim=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_an_equivariant_function_passes(dtype: torch.dtype) -> None:
    x = torch.randn(6, 5, 3).to(dtype)
    assert_equivariant(relative_to_mean, mf.O(3), x, permute=True)
    assert_equivariant(lambda x: x, mf.E(3), x)
    assert_equivariant(lambda x: 0 * x, mf.O(3), x)


def test_a_function_of_less_symmetry_fails() -> None:
    x = torch.randn(6, 5, 3)
    with pytest.raises(
        AssertionError, match=r"not equivariant to O\(3\) on given inputs: relative error .* in sample \d"
    ):
        assert_equivariant(gentle, mf.O(3), x)
    with pytest.raises(AssertionError, match="6 of 6 samples fail"):
        assert_equivariant(relative_to_mean, mf.E(3), x)  # moves as a vector, not as a point
    assert_equivariant(relative_to_mean, mf.E(3), x, outputs="vector")
    handed = lambda x: torch.linalg.cross(x, x.roll(1, -2))  # noqa: E731
    assert_equivariant(handed, mf.SO(3), x)
    with pytest.raises(AssertionError):
        assert_equivariant(handed, mf.O(3), x)
    assert_equivariant(handed, mf.O(3), x, outputs="pseudovector")
    with pytest.raises(AssertionError):
        assert_equivariant(lambda x: x.roll(1, -2) - x, mf.O(3), x, permute=True)


def test_nan_is_a_failure() -> None:
    with pytest.raises(AssertionError, match=r"inf|nan"):
        assert_equivariant(lambda x: x * torch.nan, mf.O(3), torch.randn(2, 5, 3))


def test_degenerate_inputs_are_tried_by_name() -> None:
    def divides_by_volume(x: Tensor) -> Tensor:
        frame = torch.linalg.qr(x[..., :3, :].mT)[0]
        return (x @ frame).tanh() @ frame.mT  # signs of a QR decomposition: equivariant nowhere near planar clouds

    x = torch.randn(8, 5, 3, dtype=torch.float64)
    with pytest.raises(AssertionError, match=r"on (planar|collinear|first point at the centroid) inputs"):
        assert_equivariant(divides_by_volume, mf.O(3), x, degenerate=True)
    for n in (1, 2, 5, 9):
        assert_equivariant(mf.Equivariant(gentle, mf.SE(3)), mf.SE(3), torch.randn(8, n, 3), degenerate=True)


def test_errors_are_per_sample_and_reproducible() -> None:
    x = torch.randn(2, 3, 5, 3)
    first = equivariance_error(gentle, mf.O(3), x, generator=torch.Generator().manual_seed(1))
    again = equivariance_error(gentle, mf.O(3), x, generator=torch.Generator().manual_seed(1))
    assert first.shape == (2, 3)
    assert torch.equal(first, again)


def test_padding_and_types_of_plain_models() -> None:
    x, mask = torch.randn(4, 5, 3, dtype=torch.float64), torch.rand(4, 5) > 0.3
    mask[:, 0] = True

    def model(pos: Tensor, mask: Tensor) -> dict[str, Tensor]:
        weight = mask.unsqueeze(-1)
        mean = (pos * weight).sum(-2) / weight.sum(-2)
        return {"centre": mean, "size": (pos - mean.unsqueeze(-2)).mul(weight).norm(dim=(-2, -1))}

    assert_equivariant(model, mf.E(3), x, mask=mask, outputs={"centre": "point", "size": "scalar"}, permute=True)
    assert_equivariant(
        model,
        mf.E(3),
        x,
        mask=mask,
        inputs={"pos": "point"},
        outputs={"centre": "point", "size": "scalar"},
    )


def test_what_is_no_tensor_is_named() -> None:
    with pytest.raises(TypeError, match=r"x must be a torch.Tensor, got list"):
        mf.testing.equivariance_error(lambda x: x, mf.E(3), [[1.0, 2.0, 3.0]])
