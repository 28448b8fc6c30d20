"""The frame of ordinary momenta in few operations is the frame that all other clouds get, too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.cloud import Input
from minframe.frame import LinearFrame, indefinite
from minframe.linalg import loops, native
from minframe.linalg.at_rest import at_rest, in_one_call
from minframe.testing import particles
from operations import counted
from table import DTYPES, clouds_for, options

GROUPS = [
    mf.Lorentz(2),
    mf.Lorentz(3),
    mf.Lorentz(),
    mf.ProperLorentz(2),
    mf.ProperLorentz(5),
    mf.ProperLorentz(),
    mf.OrthochronousLorentz(3),
    mf.OrthochronousLorentz(),
    mf.OrthochronousLorentz(parity=True),
]
by_group = pytest.mark.parametrize("group", GROUPS, ids=str)


def events(d: int, mass: float = 0.3) -> Tensor:
    """Events, and the same with negative energies, ``(40, 9, d)``."""
    space = torch.randn(40, 9, d - 1, dtype=torch.float64)
    x = torch.cat([(space.square().sum(-1, keepdim=True) + mass**2).sqrt(), space], -1)
    x[20:, :, 0] *= -1
    return x


def watched(monkeypatch: pytest.MonkeyPatch, name: str) -> list[bool]:
    """For each call of one of the two ways whether it found a frame."""
    calls: list[bool] = []
    run = {"at_rest": at_rest, "in_one_call": in_one_call}[name]

    def watch(*args: object) -> object:
        frame = run(*args)  # type: ignore[operator]
        calls.append(frame is not None)
        return frame

    monkeypatch.setattr(indefinite, name, watch)
    return calls


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """As on another device; whether each frame was found in few operations."""
    monkeypatch.setattr(loops, "launches", lambda x: True)
    monkeypatch.setattr(loops, "is_native", lambda x: False)
    return watched(monkeypatch, "at_rest")


@pytest.fixture(params=["in C", "on another device"])
def found_anywhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The same; and by the loops in C, in one call."""
    if request.param != "in C":
        calls: list[bool] = request.getfixturevalue("found")
        return calls
    if native.library is None:
        pytest.skip("there are no compiled loops")
    return watched(monkeypatch, "in_one_call")


def assert_same(group: mf.Group, x: Tensor, name: str = "", mask: Tensor | None = None) -> None:
    frame = indefinite.split_frame(group, group.cloud([Input("x", x, "vector")], mask))  # type: ignore[arg-type]
    other = indefinite._split_frame(group, group.cloud([Input("x", x, "vector")], mask))  # type: ignore[arg-type]
    assert torch.equal(frame.rank, other.rank), name
    assert frame.linear is not None
    assert group.contains(frame.linear).all(), name
    for mine, theirs in ((frame.canonical_rows(x.dtype), other.canonical_rows(x.dtype)), (frame.linear, other.linear)):
        assert theirs is not None
        size = theirs.abs().amax((-2, -1), keepdim=True)
        assert ((mine - theirs).abs() <= max(1e-11, torch.finfo(x.dtype).eps) * size).all(), name


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rapidity", [0.0, 1.0, 4.0])
@by_group
def test_events(group: mf.Group, rapidity: float, dtype: torch.dtype, found_anywhere: list[bool]) -> None:
    """Slow and fast ones, where coordinates are found_anywhere by substitution, and both in one batch."""
    d = group.d  # type: ignore[attr-defined]
    rapidity = min(rapidity, 2.0) if dtype == torch.float32 else rapidity
    g = mf.OrthochronousLorentz(d).random(40, dtype=torch.float64, max_rapidity=rapidity)
    x = mf.Lorentz(d).act(g, events(d), "vector")
    mask = torch.rand(40, 9) < 0.8
    mask[:, :d] = True
    for scale in (1.0, 1e-12, 1e9):
        for given in (None, mask):
            moved = (scale * x).to(dtype) if given is None else (scale * x * given.unsqueeze(-1)).to(dtype)
            assert_same(group, moved.view(4, 10, 9, d), f"{scale}", None if given is None else given.view(4, 10, 9))
            pose, frame = mf.canonicalize(moved, group, mask=given)
            off = (frame.to_canonical(moved, "vector") - pose).abs()
            assert (off <= max(1e-11, torch.finfo(dtype).eps) * pose.abs().amax((-2, -1), keepdim=True)).all()
    assert sum(found_anywhere) >= (12 if dtype == torch.float64 or rapidity <= 1 else 0)


@by_group
def test_all_families(group: mf.Group, found_anywhere: list[bool]) -> None:
    """What is not ordinary is found_anywhere as ever."""
    families = clouds_for(group)
    families |= particles() if group.d == 4 else {}  # type: ignore[attr-defined]
    for dtype in DTYPES:
        for name, x in families.items():
            g = group.random(3, dtype=x.dtype, **options(group, dtype))  # type: ignore[call-arg]
            assert_same(
                group, torch.cat([x.unsqueeze(0), group.act(g, x.expand(3, *x.shape), "vector")]).to(dtype), name
            )
    assert not all(found_anywhere)


def test_what_is_not_a_number_is_no_ordinary_cloud(found: list[bool]) -> None:
    x = events(4)
    for bad in (torch.nan, torch.inf, 1e200):
        given = x.clone()
        given[3, 2, 1] = bad
        with pytest.raises(ValueError, match="sample 3 of 40"), native.disabled():
            mf.canonicalize(given, mf.Lorentz())
    nothing = x.clone()
    nothing[5] = 0
    assert mf.Lorentz().frame(nothing).rank[5] == 0
    tiny = mf.Lorentz().frame(1e-140 * x)
    assert (tiny.rank == 4).all()
    assert not any(found)


def test_its_margin(found_anywhere: list[bool]) -> None:
    x = events(4)
    frame = mf.Lorentz().frame(x)
    assert found_anywhere == [True]
    torch.testing.assert_close(frame.margin, indefinite._split_frame(mf.Lorentz(), frame.cloud).margin)  # type: ignore[attr-defined]


@by_group
def test_a_promise(group: mf.Group, found: list[bool]) -> None:
    """Nothing is read, ordinary samples are the same, and others NaN."""
    d = group.d  # type: ignore[attr-defined]
    g = mf.OrthochronousLorentz(d).random(40, dtype=torch.float64, max_rapidity=2.5)
    x = mf.Lorentz(d).act(g, events(d), "vector")
    want, frame = mf.canonicalize(x, group)
    x[0] = x[0, :1]  # a line
    x[1, :, 0] = 0  # no time
    x[2, 3, 1] = torch.nan
    x[3] = 0
    x[4] *= 1e-140
    x[5, 1:] = 0
    x[6, :, :] = torch.ones(d, dtype=x.dtype)  # null in two dimensions, else space-like
    results = []
    with mf.unchecked(ordinary=True):
        run = counted(lambda: results.append(mf.canonicalize(x, group)))
    assert not run.waits
    assert found[-1:] == [True]
    pose, promised = results[0]
    assert isinstance(promised, LinearFrame)
    for part in (pose, promised.element, promised.inverse):
        assert isinstance(part, Tensor)
        assert part[:7].isnan().flatten(1).any(-1).all()
        assert part[7:].isfinite().all()
    torch.testing.assert_close(pose[7:], want[7:], rtol=0, atol=1e-12 * float(want.abs().max()))
    torch.testing.assert_close(
        promised.element[7:], frame.element[7:], rtol=0, atol=1e-12 * float(frame.element.abs().max())
    )
    y = torch.randn(40, 3, d, dtype=x.dtype)
    assert promised.from_canonical(y, "vector")[:7].isnan().flatten(1).all(-1).all()
    with mf.unchecked(ordinary=True):  # has no effect where nothing is waited for
        assert (mf.canonicalize(x, group)[1].rank[3:6:2] < d).all()


def test_in_c_samples_of_a_batch_vector_and_without_an_axis() -> None:
    """Any layout is served."""
    x, group = events(4), mf.Lorentz()
    order = torch.randperm(360, generator=torch.Generator().manual_seed(0))
    batch = torch.arange(40).repeat_interleave(9)[order]
    pose, listed = mf.canonicalize(x.flatten(0, 1)[order], group, batch=batch)
    assert listed.rank.eq(4).all()
    first = [int((batch == b).nonzero()[0]) for b in range(40)]
    assert len(first) == 40
    again = mf.canonicalize(torch.stack([x.flatten(0, 1)[order][batch == b] for b in range(40)]), group)[0]
    for b in range(40):
        torch.testing.assert_close(pose[batch == b], again[b], rtol=0, atol=1e-12 * float(again[b].abs().max()))


@by_group
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_c_some_samples_may_not_be_ordinary(group: mf.Group, dtype: torch.dtype) -> None:
    """A line, a plane, a cloud of no time and none at all, found in the general way, among others, slow and fast."""
    d = group.d  # type: ignore[attr-defined]
    g = mf.OrthochronousLorentz(d).random(40, dtype=torch.float64, max_rapidity=2.0)
    x = mf.Lorentz(d).act(g, events(d), "vector")
    x[3] = x[3, :1] * torch.linspace(1, 2, 9).view(9, 1)
    x[7, ..., -1] = 0
    x[11, :, 0] = 0
    x[20] = 0
    x = x.to(dtype)
    found = indefinite.found_at_rest(group, group.cloud([Input("x", x, "vector")]))  # type: ignore[arg-type]
    assert found is not None
    assert found.missing is not None
    assert {3, 11, 20} <= set(found.missing.tolist())
    assert_same(group, x)
    assert_same(group, x.view(8, 5, 9, d))
    frame = group.frame(x)
    general = indefinite._split_frame(group, group.cloud([Input("x", x, "point")]))  # type: ignore[arg-type]
    assert torch.equal(frame.rank, general.rank)
    assert torch.equal(torch.as_tensor(frame.size), torch.as_tensor(general.size))
    y = torch.randn(40, 3, d, dtype=dtype)
    for mine, theirs in (
        (frame.to_canonical(y, "vector"), general.to_canonical(y, "vector")),
        (frame.from_canonical(y, "vector"), general.from_canonical(y, "vector")),
        (frame.to_canonical(x, "vector"), general.to_canonical(x, "vector")),
    ):
        size = theirs.abs().amax((-2, -1), keepdim=True)
        assert ((mine - theirs).abs() <= 100 * max(1e-11, torch.finfo(dtype).eps) * size).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 1e200])
def test_in_c_what_is_not_a_number_is_an_error_or_nan(bad: float) -> None:
    x = events(4)
    x[3, 2, 1] = bad
    with pytest.raises(ValueError, match="sample 3 of 40"):
        mf.canonicalize(x, mf.Lorentz())
    if bad == 1e200:  # its square is not finite, which is said where values are looked at
        return
    with mf.unchecked():
        pose = mf.canonicalize(x, mf.Lorentz())[0]
    assert pose[3].isnan().any()
    assert pose[:3].isfinite().all()
    assert pose[4:].isfinite().all()


@by_group
@pytest.mark.parametrize("rapidity", [0.0, 2.0])
def test_compiled_frames_know_all_that_eager_ones_do(group: mf.Group, rapidity: float) -> None:
    """Of ordinary clouds the operator returns no more than is asked for."""
    d = group.d  # type: ignore[attr-defined]
    g = mf.OrthochronousLorentz(d).random(40, dtype=torch.float64, max_rapidity=rapidity)
    x = mf.Lorentz(d).act(g, events(d), "vector")
    vectors = torch.randn(40, 3, d, dtype=torch.float64)

    def run(x: Tensor) -> tuple[Tensor, ...]:
        pose, frame = mf.canonicalize(x, group)
        inward, outward = frame.to_canonical(vectors, "vector"), frame.from_canonical(vectors, "vector")
        return pose, frame.element, frame.rank, inward, outward, frame.to_canonical(x, "vector")

    torch.compiler.reset()
    for mine, theirs in zip(torch.compile(run, fullgraph=True)(x), run(x), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-11 * float(theirs.abs().max()))


@pytest.mark.parametrize("shape", [(1, 20_000), (2, 5_000)], ids=str)
@pytest.mark.parametrize("rapidity", [0.0, 2.0])
def test_in_c_large_samples_are_shared_by_threads(shape: tuple[int, int], rapidity: float) -> None:
    generator = torch.Generator().manual_seed(0)
    space = torch.randn(*shape, 3, dtype=torch.float64, generator=generator)
    x = torch.cat([(space.square().sum(-1, keepdim=True) + 0.1).sqrt(), space], -1)
    x = mf.Lorentz().act(
        mf.Lorentz().random(shape[0], dtype=x.dtype, generator=generator, max_rapidity=rapidity), x, "vector"
    )
    assert indefinite.found_at_rest(mf.Lorentz(), mf.Lorentz().cloud([Input("x", x, "vector")])) is not None  # type: ignore[arg-type]
    assert_same(mf.Lorentz(), x)
    several = mf.canonicalize(x, mf.Lorentz())[0]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(mf.canonicalize(x, mf.Lorentz())[0], several)
    finally:
        torch.set_num_threads(threads)


def test_in_c_there_is_room_for_sixteen_dimensions() -> None:
    for d in (16, 17, 24):
        space = torch.randn(3, 30, d - 1, dtype=torch.float64, generator=torch.Generator().manual_seed(d))
        x = torch.cat([(space.square().sum(-1, keepdim=True) + 0.1).sqrt(), space], -1)
        group = mf.ProperLorentz(d)
        rows = group.act(group.random(3, dtype=x.dtype, generator=torch.Generator().manual_seed(d)), x, "vector")
        assert_same(group, x)
        torch.testing.assert_close(mf.canonicalize(rows, group)[0], mf.canonicalize(x, group)[0], rtol=1e-9, atol=1e-9)
