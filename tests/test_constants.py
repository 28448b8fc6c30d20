"""Constants are made once, whatever looks on then, and copied to a device once."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import minframe as mf
from minframe import constants
from minframe.constants import beside, constant

ELSEWHERE = torch.empty(0, device="meta")
MIRROR = {"o": [[1, 2, 3], [2, 1, -3]]}


def test_copied_to_a_device_once_and_forgotten_with_the_constant() -> None:
    group = mf.Finite(MIRROR)
    fixed = group.matrices("o")
    assert beside(fixed, torch.empty(0)) is fixed
    assert beside(fixed, ELSEWHERE).device == ELSEWHERE.device
    assert beside(fixed, ELSEWHERE) is beside(group.matrices("o"), ELSEWHERE)
    assert beside(mf.Dihedral(5).matrices, ELSEWHERE) is beside(mf.Dihedral(5).matrices, ELSEWHERE)
    known = len(constants._copies)
    del group, fixed
    gc.collect()
    assert len(constants._copies) == known - 1


def test_copies_are_no_part_of_groups_and_models() -> None:
    group = mf.Finite(MIRROR)
    model = mf.Equivariant(torch.nn.Linear(3, 3), group, "o", "o")
    before = pickle.dumps(group)
    beside(group.matrices("o"), ELSEWHERE)
    assert pickle.dumps(group) == before
    assert not list(model.buffers())
    assert copy.deepcopy(model).group == pickle.loads(before) == group


@pytest.mark.parametrize(
    "context",
    [
        torch.inference_mode,
        lambda: torch.device("meta"),
        FakeTensorMode,
    ],
    ids=["inference", "default device", "no values"],
)
def test_constants_are_the_same_in_any_context(context: Callable[[], AbstractContextManager[object]]) -> None:
    """One that was made where tensors have no values, or no derivatives, would be of no use ever after."""

    @constant(maxsize=1)
    def made() -> torch.Tensor:
        return torch.arange(3.0, dtype=torch.float64)

    with context():
        made()
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (x * made()).sum().backward()
    assert torch.equal(x.grad, torch.arange(3.0, dtype=torch.float64))  # type: ignore[arg-type]


@pytest.mark.parametrize("group", [mf.Cyclic(11), mf.Octahedral(reflections=True), mf.Finite(MIRROR)], ids=str)
def test_shapes_can_be_found_without_values(group: mf.Group) -> None:
    kind = group.frame_types[0]
    x = torch.randn(2, 3, getattr(group, "d", 3))
    with FakeTensorMode(), mf.unchecked():
        empty = torch.empty(x.shape)
        pose, _ = mf.canonicalize(empty, group, kind)
        mapped = torch.vmap(lambda x: mf.canonicalize(x, group, kind)[0])(empty)
    assert pose.shape == mapped.shape == x.shape
    assert mf.canonicalize(x, group, kind)[0].isfinite().all()
