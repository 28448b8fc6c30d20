"""What a GPU would be asked to do: how many operations a frame takes, and how often the host waits for one.

On the PyTorch path: compiled loops step aside where a dispatch mode looks on. What is done on other devices than a CPU
(``linalg.few``) is done here, too, where a test asks for it. Operations are those that launch a
kernel, and not views, which cost the host alone; a frame is counted with its canonical pose.

Waits are counted inside ``unchecked()``. What still has some is listed in ``WAITING_FOR``: labelling and poses of smooth
frames by nature, as the host orders rows, and as the number of poses depends on the data; and indefinite groups, as
``torch.linalg`` reads whether eigenvalues were found.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.linalg import loops
from operations import Operations, counted
from table import EUCLIDEAN, FINITE, LINEAR, SCALED, SUMS, randn

WAITING_FOR = {
    "_linalg_eigh": "eigenvectors, of which it is read whether they were found",
    "_linalg_svd": "singular values, likewise",
}


def is_indefinite(group: object) -> bool:
    return any(getattr(getattr(part, "linear", part), "q", 0) for part in getattr(group, "groups", (group,)))


CALM = [g for g in [*EUCLIDEAN, *LINEAR, *SUMS, *SCALED] if not is_indefinite(g)]
CALM += [g for g in FINITE if isinstance(g, mf.Signs | mf.SignedPermutations)]
OTHERS = [g for g in [*LINEAR, *SUMS] if is_indefinite(g)]


def cost(group: mf.Group, x: Tensor, grad: bool = False) -> Operations:
    """Of a wrapped call, with its derivative if asked for."""
    model = mf.Equivariant(lambda y: y, group, outputs="vector")
    x = x.clone().requires_grad_(grad)

    def run() -> None:
        y = model(x)
        if grad:
            y.abs().square().sum().backward()

    with mf.unchecked():
        return counted(run)


@pytest.mark.parametrize("grad", [False, True], ids=["values", "derivatives"])
@pytest.mark.parametrize("group", CALM, ids=str)
def test_nothing_waits(group: mf.Group, grad: bool) -> None:
    x = randn(group, 2, 12, group.d)  # type: ignore[attr-defined]
    found = cost(group, x, grad)
    assert not found.waits, found.waits


@pytest.mark.parametrize("group", OTHERS, ids=str)
def test_only_errors_of_solvers_are_waited_for(group: mf.Group) -> None:
    """A shortfall that is known, and must not grow."""
    x = randn(group, 2, 12, group.d)  # type: ignore[attr-defined]
    assert set(cost(group, x).waits) <= set(WAITING_FOR)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on another device, where operations are launched."""
    monkeypatch.setattr(loops, "launches", lambda x: True)


def operations(group: mf.Group, n: int = 20) -> Operations:
    """Of a frame with its pose."""
    x = randn(group, 16, n, group.d)  # type: ignore[attr-defined]
    x = x if group.complex else x.float()  # type: ignore[attr-defined]
    with mf.unchecked():
        return counted(lambda: mf.canonicalize(x, group))


@pytest.mark.parametrize(
    ("group", "most"),
    [(mf.O(3), 67), (mf.SO(3), 70), (mf.E(3), 73), (mf.SE(3), 76), (mf.O(8), 223), (mf.U(3), 97)],
    ids=str,
)
def test_operations_of_a_frame_with_its_pose(group: mf.Group, most: int) -> None:
    """On a CPU, where they are those that take the least time."""
    assert (found := operations(group).kernels).total() <= most, found


@pytest.mark.parametrize(
    ("group", "most"), [(mf.O(3), 37), (mf.SO(3), 40), (mf.E(3), 40), (mf.SE(3), 43), (mf.O(8), 102)], ids=str
)
def test_operations_where_each_is_a_launch(elsewhere: None, group: mf.Group, most: int) -> None:
    found = operations(group)
    assert found.kernels.total() <= most, found.kernels
    assert not found.waits
    assert operations(group, 1000).kernels.total() <= most + 6  # the longest row counts for the rank


def lorentz_operations() -> Operations:
    """With checks, which read that all samples have a rest frame: else every way is gone, for all samples."""
    space = torch.randn(16, 20, 3, generator=torch.Generator().manual_seed(0))
    x = torch.cat([(space.square().sum(-1, keepdim=True) + 0.1).sqrt(), space], -1)
    found = counted(lambda: mf.canonicalize(x, mf.Lorentz()))
    assert found.waits["_local_scalar_dense"] <= 6
    return found


def test_operations_of_a_lorentz_frame_at_full_rank() -> None:
    assert (found := lorentz_operations().kernels).total() <= 206, found


def test_operations_of_a_lorentz_frame_where_each_is_a_launch(elsewhere: None) -> None:
    assert (found := lorentz_operations().kernels).total() <= 180, found


def test_the_counter_sees_waits() -> None:
    x = torch.randn(4, 3)
    for run in (
        lambda: bool((x > 0).any()),
        lambda: (x > 0).nonzero(),
        lambda: x[x > 0],
        lambda: x.sum().item(),
        lambda: torch.equal(x, x),
        lambda: torch.tensor([1.0, 2.0]) + x[:, :1],
        lambda: torch.linalg.eigh(x.mT @ x),
        lambda: torch.linalg.inv(x.mT @ x),
    ):
        assert counted(run).waits, run
    assert not counted(lambda: (x.mT @ x + torch.arange(3, device=x.device)).sum(0)).waits
    assert counted(lambda: x.mT.unsqueeze(0)[..., 1:]).kernels.total() == 0
