"""What a GPU would be asked to do: how many operations a frame takes, and how often the host waits for one.

On the PyTorch path: compiled loops step aside where a dispatch mode looks on. What is done on other devices than a CPU
(``linalg.few``) is done here, too, where a test asks for it. Operations are those that launch a
kernel, and not views, which cost the host alone; a frame is counted with its canonical pose.

Inside ``unchecked()`` nothing is waited for in minimal frames. The host orders rows that are tied, unless there is a
promise that none are, and the number of poses of smooth frames depends on the data, unless it is fixed.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.linalg import loops, split
from minframe.testing import particles
from operations import Operations, counted, on_another_device
from table import DTYPES, EUCLIDEAN, FINITE, LINEAR, SCALED, SUMS, clouds_for, number, options, randn

QUIET = [*EUCLIDEAN, *LINEAR, *SUMS, *SCALED, *FINITE]
INDEFINITE = [mf.O(1, 1), mf.O(2, 2), mf.SO(3, 1), mf.OrthochronousLorentz(4), mf.Poincare(3), mf.U(2, 2), mf.SU(2, 1)]
INDEFINITE += [g for g in SUMS if g == mf.O(1, 2) + mf.E(2)]


def pads(group: mf.Group) -> bool:
    """Whether rows of a batch vector are padded to the length of the largest sample, which is read."""
    return any(isinstance(part, mf.SignedPermutations) for part in getattr(group, "groups", (group,)))


def is_indefinite(group: mf.Group) -> bool:
    """Whether it takes thousands of operations, of which a mask adds some and takes none away."""
    return any(getattr(getattr(part, "linear", part), "q", 0) for part in getattr(group, "groups", (group,)))


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
@pytest.mark.parametrize("group", QUIET, ids=str)
def test_nothing_waits(group: mf.Group, grad: bool) -> None:
    x = randn(group, 2, 12, group.d)  # type: ignore[attr-defined]
    found = cost(group, x, grad)
    assert not found.waits, found.waits


@pytest.mark.parametrize(
    ("group", "ordinary"), [(g, False) for g in QUIET] + [(mf.OrthochronousLorentz(), True)], ids=str
)
def test_nothing_is_copied_to_another_device_or_read_there(group: mf.Group, ordinary: bool) -> None:
    """Not with a mask or a batch vector of known size either, nor by the averages of further types."""
    with on_another_device() as device, mf.unchecked(ordinary=ordinary), Operations() as found:
        x = torch.empty(2, 12, group.d, dtype=number(group), device=device)  # type: ignore[attr-defined]
        mask = torch.empty(2, 12, dtype=torch.bool, device=device)
        batch = torch.empty(24, dtype=torch.int64, device=device)
        layouts: list[dict[str, Any]] = [{"mask": mask}, {"batch": batch, "batch_size": 2}]
        for layout in layouts if is_indefinite(group) and not ordinary else [{}, *layouts]:
            if "batch" in layout and pads(group):
                continue
            _, frame = mf.canonicalize(x.flatten(0, 1) if "batch" in layout else x, group, **layout)
            for name in ("vector", "covector", "tensor", "pseudovector"):
                if name in group.types:
                    y = torch.empty(2, *(2 if name == "tensor" else 1) * (group.d,), dtype=x.dtype, device=device)  # type: ignore[attr-defined]
                    frame.from_canonical(y, name)
    assert not found.waits, found.waits


UNTIED = [mf.O(3), mf.SE(3), mf.U(2), mf.Aff(3), mf.Lorentz(), mf.Trivial(2), mf.E(2) + mf.Trivial(1), mf.Sim(3)]


@pytest.mark.parametrize("kind", ["unordered", "unordered, batch vector", "product", "product, 70 points"])
@pytest.mark.parametrize("group", UNTIED, ids=str)
def test_nothing_waits_where_no_rows_are_tied(group: Any, kind: str) -> None:
    """That is promised. Results are those found by looking; a sample that breaks the promise is NaN, and it alone."""
    symmetry, frames = group, mf.frames.Unordered()
    if kind.startswith("product"):
        symmetry = mf.S() * group
    x = randn(group, 3, 70 if "70" in kind else 8, group.d)
    x[1] = torch.cat([x[1, ::2], -x[1, ::2]])  # symmetric
    layout: dict[str, Any] = {}
    if "vector" in kind:
        layout = {"batch": torch.arange(3).repeat_interleave(x.shape[1]), "batch_size": 3}
    model = mf.Equivariant(
        lambda x, batch=None: x * x.abs(),
        symmetry,
        outputs="vector",
        frames=frames,
        batch="batch",
        batch_size="batch_size",
    )
    given = x.flatten(0, 1) if layout else x
    expected, found = model(given, **layout).view(x.shape), []
    with mf.unchecked(ordinary=True):
        waits = counted(lambda: found.append(model(given, **layout).view(x.shape))).waits
    assert not waits, waits
    broken = found[0].isnan().flatten(1)
    assert torch.equal(broken.any(-1), broken.all(-1))
    kept = ~broken.any(-1)
    assert kept[[0, 2]].all()
    assert not kept[1] or "Trivial" in repr(group)  # invariant coordinates tell the points apart
    torch.testing.assert_close(found[0][kept], expected[kept], rtol=1e-11, atol=1e-11)


def test_one_coordinate_of_many_that_tells_points_apart_keeps_the_promise() -> None:
    x = torch.nn.functional.pad(torch.randn(4, 100, 1, dtype=torch.float64), (3, 6))
    group, found = mf.S() * mf.Trivial(10), []
    with mf.unchecked(ordinary=True):
        waits = counted(lambda: found.append(mf.canonicalize(x, group)[0])).waits
    assert not waits, waits
    torch.testing.assert_close(found[0], mf.canonicalize(x, group)[0], rtol=0, atol=0)


PRINCIPAL = [mf.frames.PCA(), mf.frames.PCA(samples=1), mf.frames.PCA(perturb=True)]


@pytest.mark.parametrize("frames", PRINCIPAL, ids=str)
@pytest.mark.parametrize("group", [mf.O(2), mf.SE(3)], ids=str)
def test_nothing_waits_for_principal_axes(group: Any, frames: mf.frames.Method) -> None:
    x = torch.randn(3, 7, group.d, dtype=torch.float64)
    model = mf.Equivariant(lambda x: x * x.abs(), group, frames=frames)
    torch.manual_seed(0)
    want, found = model(x), []
    with mf.unchecked():
        torch.manual_seed(0)
        waits = counted(lambda: found.append(model(x))).waits
        assert not waits, waits
        if frames.samples is None:  # type: ignore[attr-defined]
            torch.testing.assert_close(found[0], want)
        with on_another_device() as device, Operations() as there:
            model(torch.empty(3, 7, group.d, device=device))
    assert not there.waits, there.waits


SMOOTH = [mf.O(3), mf.SE(2), mf.U(2), mf.GL(2), mf.Lorentz(3), mf.Translation(2), mf.Cyclic(5), mf.Octahedral()]
SMOOTH += [mf.O(2) + mf.Trivial(1)]


@pytest.mark.parametrize("kind", ["dense", "mask", "moments"])
@pytest.mark.parametrize("group", SMOOTH, ids=str)
def test_nothing_waits_for_a_fixed_number_of_poses(group: Any, kind: str) -> None:
    """Of smooth frames, whose outputs are the same, and so are first derivatives; one pose may be too few."""
    x = randn(group, 3, 45 if kind == "moments" else 6, group.d)
    if group == mf.Lorentz(3):
        x[..., 0] = x[..., 1:].norm(dim=-1) + 0.3
    mask = torch.arange(x.shape[1]) < torch.tensor([[6], [5], [4]]) if kind == "mask" else None

    def run(method: mf.frames.Smooth) -> tuple[Tensor, Tensor]:
        y = x.clone().requires_grad_()
        model = mf.Equivariant(lambda x: x * x.abs(), group, outputs="vector", frames=method, mask="mask")
        out = model(y, mask=mask)
        return out.detach(), torch.autograd.grad(out.abs().square().sum(), y)[0]

    usual, found = mf.frames.Smooth(sharpness=12), []
    expected = run(usual)
    number = mf.Equivariant(lambda x: x, group, frames=usual, mask="mask").frame(x, mask=mask).poses  # type: ignore[attr-defined]
    most = int(number.max())
    with mf.unchecked():
        waits = counted(lambda: found.append(run(mf.frames.Smooth(sharpness=12, poses=most)))).waits
    assert not waits, waits
    torch.testing.assert_close(found[0][0], expected[0], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(found[0][1], expected[1], rtol=1e-9, atol=1e-9)
    if most > 1:
        broken = run(mf.frames.Smooth(sharpness=12, poses=most - 1))[0].isnan().flatten(1)
        real = torch.ones_like(broken) if mask is None else mask.repeat_interleave(group.d, -1)
        assert torch.equal(broken & real, (number == most).unsqueeze(-1) & real)


@pytest.mark.parametrize("group", INDEFINITE, ids=str)
def test_what_is_found_without_reading_is_the_same(group: mf.Group) -> None:
    """On all families: eager mode reads which ways it can leave out."""
    families = clouds_for(group)
    if group.d == 4 and not group.complex:  # type: ignore[attr-defined]
        families |= particles()
    for dtype in DTYPES:
        for name, x in families.items():
            g = group.random(3, dtype=x.dtype, **options(group, dtype))  # type: ignore[call-arg]
            moved = group.act(g, x.expand(3, *x.shape), "point" if "point" in group.types else "vector")
            moved = torch.cat([x.unsqueeze(0), moved]).to(number(group, dtype))
            pose, frame = mf.canonicalize(moved, group)
            found: list[Any] = []
            with mf.unchecked():
                assert not counted(lambda found=found, x=moved: found.extend(mf.canonicalize(x, group))).waits
            assert torch.equal(found[1].rank, frame.rank), name
            assert group.contains(found[1].element).all(), name
            size = pose.abs().amax((-2, -1), keepdim=True).clamp_min(1e-30)
            assert ((found[0] - pose).abs() <= (1e-11 if dtype == torch.float64 else 1e-5) * size).all(), name


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


@pytest.mark.parametrize(
    ("group", "most"),
    [
        (mf.O(3), (37, 47, 100)),
        (mf.SO(3), (40, 50, 103)),
        (mf.E(3), (40, 57, 113)),
        (mf.SE(3), (43, 60, 116)),
        (mf.O(8), (102, 112, 295)),
        (mf.Lorentz(), (78,)),
        (mf.ProperLorentz(), (80,)),
        (mf.OrthochronousLorentz(), (80,)),
        (mf.U(3), (97, 103, 130)),
        (mf.SU(3), (104, 110, 137)),
        (mf.GL(3), (416, 418, 534)),
        (mf.SL(3), (444, 446, 563)),
        (mf.Aff(3), (421, 441, 558)),
        (mf.Octahedral(), (380, 387, 446)),  # poses are compared, whether any are tied or not
    ],
    ids=str,
)
def test_launches_on_another_device(group: Any, most: tuple[int, ...]) -> None:
    """Of a dense batch; with a mask; with a batch vector. Nothing but the device of a tensor decides on the way."""
    for layout, bound in zip(("dense", "mask", "batch"), most, strict=False):
        with on_another_device() as device, mf.unchecked(ordinary=True):
            x = torch.empty(16, 20, group.d, dtype=number(group, torch.float32), device=device)
            given: dict[str, Any] = {}
            if layout == "mask":
                given = {"mask": torch.empty(16, 20, dtype=torch.bool, device=device)}
            if layout == "batch":
                x = x.flatten(0, 1)
                given = {"batch": torch.empty(320, dtype=torch.int64, device=device), "batch_size": 16}
            found = counted(lambda x=x, given=given: mf.canonicalize(x, group, **given))  # type: ignore[misc]
        assert found.kernels.total() <= bound, (layout, found.kernels)
        assert not found.waits, found.waits


def lorentz_operations(group: mf.Group, rapidity: float = 0.0) -> Operations:
    """With checks, which read that all samples have a rest frame: else every way is gone, or a promise needed."""
    space = torch.randn(16, 20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = torch.cat([(space.square().sum(-1, keepdim=True) + 0.1).sqrt(), space], -1)
    boost = torch.eye(4, dtype=torch.float64)
    boost[0, 0] = boost[1, 1] = math.cosh(rapidity)
    boost[0, 1] = boost[1, 0] = math.sinh(rapidity)
    x = (x @ boost).float()
    return counted(lambda: mf.canonicalize(x, group))


def test_operations_of_a_lorentz_frame_at_full_rank() -> None:
    found = lorentz_operations(mf.Lorentz())
    assert found.kernels.total() <= 210, found.kernels
    assert found.waits.total() <= 6


@pytest.mark.parametrize("rapidity", [0.0, 2.5])
@pytest.mark.parametrize(
    ("group", "most"),
    [(mf.Lorentz(), 68), (mf.ProperLorentz(), 70), (mf.OrthochronousLorentz(), 70)],
    ids=str,
)
def test_operations_of_a_lorentz_frame_where_each_is_a_launch(
    elsewhere: None, group: mf.Group, most: int, rapidity: float
) -> None:
    """Once it is read whether all samples are ordinary, as numbers that no dispatch mode sees on a CPU."""
    found = lorentz_operations(group, rapidity)
    assert found.kernels.total() <= most + (8 if rapidity else 0), found.kernels  # coordinates by substitution
    assert not found.waits
    with mf.unchecked(ordinary=True):
        found = lorentz_operations(group, rapidity)
    assert found.kernels.total() <= 80, found.kernels
    assert not found.waits


@pytest.mark.parametrize(("group", "most"), [(mf.Lorentz(), 2410), (mf.O(2, 2), 2210), (mf.U(2, 2), 2550)], ids=str)
def test_operations_of_indefinite_groups_without_reading(elsewhere: None, group: mf.Group, most: int) -> None:
    """All cases, for all samples."""
    assert (found := operations(group).kernels).total() <= most, found


def test_cases_are_left_out_where_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, without checks too; where a dispatch mode looks on, as on a device, every way is gone."""
    calls: list[int] = []
    spectral = split.spectral

    def watched(*args: Any) -> Any:
        calls.append(1)
        return spectral(*args)

    monkeypatch.setattr(split, "spectral", watched)
    x = particles()["massless event, 20 particles"]
    with mf.unchecked():
        plain = mf.canonicalize(x, mf.Lorentz())[0]
        assert not calls
        found: list[Any] = []
        counted(lambda: found.extend(mf.canonicalize(x, mf.Lorentz())))
    assert calls
    torch.testing.assert_close(found[0], plain, rtol=0, atol=1e-11 * float(plain.abs().max()))


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
    with on_another_device() as device:
        there = torch.empty(4, 3, device=device)
        assert counted(lambda: torch.ones(3).to(device) + there).waits
        assert counted(lambda: there.cpu()).waits
        assert not counted(lambda: torch.ones(3, device=device) + there.double()).waits
        with pytest.raises(RuntimeError):
            bool((there > 0).any())
