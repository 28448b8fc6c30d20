"""``Equivariant``: several inputs and outputs, frames on chosen inputs, masks, batch vectors, axes."""

from __future__ import annotations

import copy
import io
import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import minframe as mf
from table import FAMILIES, gentle, wild

EUCLIDEAN = [make(3) for make in FAMILIES]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) + x.roll(1, -2)


def everything(pos: Tensor, vel: Tensor, spin: Tensor, stress: Tensor, charge: Tensor) -> dict[str, Any]:
    bent = torch.tanh(pos) + 0.3 * vel.roll(1, -1) + spin * charge
    return {
        "moved": pos + 0.1 * vel + 0.1 * bent.sin(),
        "state": (
            bent,
            spin.roll(1, -1) * charge + 0.2,
            {"energy": (bent * pos).sum((-1, -2)), "twist": bent.sum((-1, -2))},
        ),
        "stress": stress.roll(1, -1) + bent.unsqueeze(-1) * vel.unsqueeze(-2),
        "dual": bent.flip(-1),
    }


INPUTS = {"pos": "point", "vel": "vector", "spin": "pseudovector", "stress": "tensor", "charge": "scalar"}
OUTPUTS = {
    "moved": "point",
    "state": ("vector", "pseudovector", {"energy": "scalar", "twist": "pseudoscalar"}),
    "stress": "tensor",
    "dual": "covector",
}


def sample(*batch: int, n: int = 6) -> tuple[Tensor, ...]:
    shapes = ((3,), (3,), (3,), (3, 3), (1,))
    return tuple(torch.randn(*batch, n, *shape, dtype=torch.float64) for shape in shapes)


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
@pytest.mark.parametrize("frame_on", [None, "pos", ("pos", "vel"), ("vel", "pos")])
def test_typed_inputs_and_outputs(group: mf.Group, frame_on: Any) -> None:
    model = mf.Equivariant(everything, group, INPUTS, OUTPUTS, frame_on)
    mf.testing.assert_equivariant(model, group, *sample(40))
    flat = list(sample(40))
    flat[0][..., 2] = 0  # a planar cloud; its vectors are not
    flat[1][..., 1:] = 0
    mf.testing.assert_equivariant(model, group, *flat)
    flat[0][..., 1] = 0  # collinear
    mf.testing.assert_equivariant(model, group, *flat)
    flat[0][...] = 0.5  # coincident
    mf.testing.assert_equivariant(model, group, *flat)


def test_velocities_complete_the_frame_of_a_collinear_molecule() -> None:
    pos = torch.tensor([[-1.0, 0, 0], [0, 0, 0], [1.2, 0, 0]], dtype=torch.float64)
    vel = torch.randn(3, 3, dtype=torch.float64)

    def net(pos: Tensor, vel: Tensor) -> Tensor:
        return vel.square().flip(-1) + 1

    types = {"pos": "point", "vel": "vector"}
    full = mf.Equivariant(net, mf.SE(3), types, "vector")(pos, vel)
    alone = mf.Equivariant(net, mf.SE(3), types, "vector", frame_on="pos")(pos, vel)
    assert torch.linalg.matrix_rank(full) > 1
    assert torch.linalg.matrix_rank(alone) == 1  # only the axis is determined


def test_inputs_of_different_units_are_equally_important() -> None:
    pos, vel = torch.randn(2, 30, 4, 3, dtype=torch.float64).unbind()
    types = {"pos": "point", "vel": "vector"}
    for scale in (1e-9, 1.0, 1e9):
        line = pos * torch.tensor([1.0, 0, 0])
        model = mf.Equivariant(lambda pos, vel: (pos / 1e3, vel * 0 + 1.0), mf.E(3), types, ("point", "vector"))
        moved, vector = model(line, vel * scale)
        assert torch.linalg.vector_norm(vector[0, 0]).item() == pytest.approx(3**0.5)
        assert moved.isfinite().all()


def test_nested_inputs() -> None:
    def net(state: dict[str, Any], scale: float = 1.0) -> Tensor:
        (vel, _), tag = state["vectors"], state["tag"]
        assert tag == "untouched"
        return gentle(state["pos"]) * scale + vel

    model = mf.Equivariant(net, mf.E(3), {"state": {"pos": "point", "vectors": ("vector", "vector")}}, "point")
    assert model.frame_on == (("state", "pos"), ("state", "vectors", "0"), ("state", "vectors", "1"))
    pos, vel = torch.randn(2, 10, 5, 3, dtype=torch.float64).unbind()
    mf.testing.assert_equivariant(model, mf.E(3), {"pos": pos, "vectors": [vel, vel], "tag": "untouched"}, scale=0.5)


def test_named_tuples_stay_named_tuples() -> None:
    class Pair(NamedTuple):
        force: Tensor
        energy: Tensor

    model = mf.Equivariant(lambda x: Pair(wild(x), x.sum((-1, -2))), mf.O(3), outputs=("vector", "scalar"))
    out = model(torch.randn(4, 5, 3))
    assert isinstance(out, Pair)
    assert out.energy.shape == (4,)


def test_optional_inputs_may_be_left_out() -> None:
    def net(pos: Tensor, vel: Tensor | None = None) -> Tensor:
        return gentle(pos) if vel is None else gentle(pos) + vel

    model = mf.Equivariant(net, mf.SE(3), {"pos": "point", "vel": "vector"})
    pos, vel = torch.randn(2, 10, 5, 3, dtype=torch.float64).unbind()
    mf.testing.assert_equivariant(model, mf.SE(3), pos)
    mf.testing.assert_equivariant(model, mf.SE(3), pos, None)
    mf.testing.assert_equivariant(model, mf.SE(3), pos, vel=vel)


def test_unnamed_arguments_pass_untouched() -> None:
    marker = object()

    def net(x: Tensor, thing: object, *, other: object = None) -> Tensor:
        assert thing is marker
        assert other is marker
        return x

    mf.Equivariant(net, mf.O(3))(torch.randn(4, 5, 3), marker, other=marker)


@pytest.mark.parametrize("function", [torch.tanh, lambda *args: args[0].tanh(), lambda **kwargs: kwargs["arg0"].tanh()])
def test_functions_without_names(function: Any) -> None:
    model = mf.Equivariant(function, mf.SO(3))
    x = torch.randn(4, 5, 3, dtype=torch.float64)
    if function is torch.tanh or function.__code__.co_flags & 0x04:
        mf.testing.assert_equivariant(model, mf.SO(3), x)
    else:
        mf.testing.assert_equivariant(model, mf.SO(3), arg0=x)


@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (1, 2, 2), (0,), (2, 0)])
@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_any_number_of_batch_axes(group: mf.Group, batch: tuple[int, ...]) -> None:
    x = torch.randn(*batch, 6, 3, dtype=torch.float64)
    model = mf.Equivariant(wild, group)
    y = model(x)
    assert y.shape == x.shape
    flat = torch.stack([model(sample) for sample in x.reshape(-1, 6, 3)]) if x.numel() else x.reshape(-1, 6, 3)
    torch.testing.assert_close(y.reshape(-1, 6, 3), flat, atol=1e-12, rtol=0)
    mf.testing.assert_equivariant(model, group, x)
    frame = group.frame(x)
    assert frame.rank.shape == frame.margin.shape == batch
    assert frame.size == torch.ones(batch, dtype=torch.int64).tolist()


def test_quantities_per_sample_and_with_channels() -> None:
    def net(pos: Tensor, field: Tensor, channels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dipole = pos.square().sum(-2) + field
        return dipole, channels.sin() + pos.unsqueeze(-2), dipole.unsqueeze(-1) * field.unsqueeze(-2)

    inputs = {"pos": "point", "field": "vector", "channels": "vector"}
    model = mf.Equivariant(net, mf.E(3), inputs, ("vector", "vector", "tensor"))
    pos, field, channels = torch.randn(20, 6, 3), torch.randn(20, 3), torch.randn(20, 6, 4, 3)
    args = tuple(x.double() for x in (pos, field, channels))
    mf.testing.assert_equivariant(model, mf.E(3), *args)
    mf.testing.assert_equivariant(model, mf.E(3), *(x[0] for x in args))  # without a batch axis
    assert model(*(x[:0] for x in args))[0].shape == (0, 3)
    args[0][...] = 0
    args[2][..., 1:] = 0  # the frame now lives on the field and one component
    mf.testing.assert_equivariant(model, mf.E(3), *args)


# --- padding and batch vectors ---------------------------------------------------------------------------------------


class Pooling(nn.Module):
    """A backbone that respects raggedness: it sees its own rows and the mean of its sample."""

    def forward(
        self, pos: Tensor, vel: Tensor, mask: Tensor | None = None, batch: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        h = torch.tanh(pos) + 0.3 * vel.roll(1, -1)
        if batch is not None:
            count = int(batch.max()) + 1
            mean = torch.zeros(count, 3, dtype=h.dtype).index_add(0, batch, h) / torch.bincount(batch)[:, None]
            return h + mean[batch], mean
        weight = torch.ones_like(h[..., :1]) if mask is None else mask.unsqueeze(-1).to(h.dtype)
        mean = (h * weight).sum(-2) / weight.sum(-2)
        return h + mean.unsqueeze(-2), mean


SIZES = (3, 1, 7, 2, 5)


def ragged_sample(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    mask = torch.arange(max(SIZES)) < torch.tensor(SIZES)[:, None]
    pos, vel = torch.randn(2, *mask.shape, 3, dtype=dtype).unbind()
    return pos, vel, mask, torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dense_masked_and_ragged_agree(group: mf.Group, dtype: torch.dtype) -> None:
    pos, vel, mask, batch = ragged_sample(dtype)
    types = dict(inputs={"pos": "point", "vel": "vector"}, outputs=("vector", "vector"))
    plain = mf.Equivariant(Pooling(), group, **types)
    masked = mf.Equivariant(Pooling(), group, mask="mask", **types)
    ragged = mf.Equivariant(Pooling(), group, batch="batch", **types)
    rows, means = masked(pos, vel, mask=mask)
    ragged_rows, ragged_means = ragged(pos[mask], vel[mask], batch=batch)
    tolerance = dict(atol=1e-6 if dtype == torch.float32 else 1e-12, rtol=0)
    torch.testing.assert_close(rows[mask], ragged_rows, **tolerance)
    torch.testing.assert_close(means, ragged_means, **tolerance)
    for i, n in enumerate(SIZES):
        row, mean = plain(pos[i, :n], vel[i, :n])
        torch.testing.assert_close(rows[i, :n], row, **tolerance)
        torch.testing.assert_close(means[i], mean, **tolerance)
    within = torch.arange(mask.shape[1]).expand(mask.shape)[mask]
    mixed = within.argsort(stable=True)  # the rows of a sample need not stand together, if they keep their order
    assert not torch.equal(batch[mixed], batch)
    mixed_rows, mixed_means = ragged(pos[mask][mixed], vel[mask][mixed], batch=batch[mixed])
    torch.testing.assert_close(mixed_rows, ragged_rows[mixed], **tolerance)
    torch.testing.assert_close(mixed_means, ragged_means, **tolerance)


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
@pytest.mark.parametrize("junk", [torch.nan, torch.inf, 1e30, -7.0])
def test_padding_reaches_nothing(group: mf.Group, junk: float) -> None:
    pos, vel, mask, _ = ragged_sample(torch.float32)
    model = mf.Equivariant(Pooling(), group, {"pos": "point", "vel": "vector"}, ("point", "vector"), mask="mask")
    pos.requires_grad_()
    dirty_pos = torch.where(mask[..., None], pos, junk)
    dirty_vel = torch.where(mask[..., None], vel, junk)
    for clean, dirty in zip(model(pos, vel, mask=mask), model(dirty_pos, dirty_vel, mask=mask), strict=True):
        assert torch.equal(clean[mask] if clean.ndim == 3 else clean, dirty[mask] if dirty.ndim == 3 else dirty)
    rows, means = model(dirty_pos, dirty_vel, mask=mask)
    (grad,) = torch.autograd.grad(rows[mask].square().sum() + means.square().sum(), pos)
    assert grad.isfinite().all()
    assert grad[~mask].abs().max() == 0


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
@pytest.mark.parametrize("permute", [False, True])
def test_ragged_models_are_equivariant(group: mf.Group, permute: bool) -> None:
    pos, vel, mask, batch = ragged_sample(torch.float64)
    types = dict(inputs={"pos": "point", "vel": "vector"}, outputs=("point", "vector"))
    if permute:  # frames depend on the order of the rows, so only translations commute with it
        group = mf.Translation(3)
    mf.testing.assert_equivariant(
        mf.Equivariant(Pooling(), group, mask="mask", **types), group, pos, vel, mask=mask, permute=permute
    )
    ragged = mf.Equivariant(Pooling(), group, batch="batch", **types)
    mf.testing.assert_equivariant(ragged, group, pos[mask], vel[mask], batch=batch, permute=permute)


def test_mask_is_not_forwarded_to_a_backbone_that_does_not_want_it() -> None:
    x, mask = torch.randn(4, 5, 3), torch.ones(4, 5, dtype=torch.bool)
    model = mf.Equivariant(gentle, mf.O(3), mask="real")
    torch.testing.assert_close(model(x, real=mask), model(x))


def test_channels_with_a_mask_or_a_batch_vector() -> None:
    pos, channels = torch.randn(6, 5, 3, dtype=torch.float64), torch.randn(6, 5, 4, 3, dtype=torch.float64)
    mask = torch.rand(6, 5) > 0.4
    mask[:, 0] = True
    types = dict(inputs={"pos": "point", "channels": "vector"}, outputs="vector")

    def net(pos: Tensor, channels: Tensor) -> Tensor:
        return channels.sin() + pos.unsqueeze(-2)

    model = mf.Equivariant(net, mf.SE(3), mask="mask", **types)
    mf.testing.assert_equivariant(model, mf.SE(3), pos, channels, mask=mask)
    ragged = mf.Equivariant(net, mf.SE(3), batch="batch", **types)
    batch = torch.arange(6).repeat_interleave(mask.sum(-1))
    mf.testing.assert_equivariant(ragged, mf.SE(3), pos[mask], channels[mask], batch=batch)
    torch.testing.assert_close(model(pos, channels, mask=mask)[mask], ragged(pos[mask], channels[mask], batch=batch))


def test_a_tensor_per_sample_is_not_mistaken_for_rows() -> None:
    # Three points in three dimensions: a stress tensor (B, 3, 3) begins with the axes of the mask, but has no rows.
    mask = torch.tensor([[True, True, False], [True, True, True]])
    model = mf.Equivariant(
        lambda x, t: x + t.sum(-1, keepdim=True).mT, mf.O(3), {"x": "point", "t": "tensor"}, mask="mask"
    )
    x, t = torch.randn(2, 2, 3, 3, dtype=torch.float64).unbind()
    mf.testing.assert_equivariant(model, mf.O(3), x, t, mask=mask)
    stress = mf.Equivariant(lambda x: x.mT @ x, mf.Translation(3), outputs="tensor")
    mf.testing.assert_equivariant(stress, mf.Translation(3), x, permute=True)


@pytest.mark.parametrize("group", [mf.O(3), mf.SO(3)], ids=str)
def test_pseudoscalar_of_a_single_sample(group: mf.Group) -> None:
    model = mf.Equivariant(lambda x: (x + 1).prod(), group, outputs="pseudoscalar")
    mf.testing.assert_equivariant(model, group, torch.randn(5, 3, dtype=torch.float64))


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e4, 1e6])
def test_coincident_points_far_away_do_not_hide_the_vectors(offset: float) -> None:
    types = dict(inputs={"pos": "point", "vel": "vector"}, outputs="vector")
    model = mf.Equivariant(lambda pos, vel: vel, mf.E(3), **types)
    vel = torch.randn(4, 3)
    torch.testing.assert_close(model(torch.full((4, 3), offset), vel), vel)
    nearly = torch.full((4, 3), offset).nextafter(torch.tensor(2e6) * torch.rand(4, 3).round())
    torch.testing.assert_close(model(nearly, vel), vel)


@pytest.mark.parametrize(("dtype", "offset"), [(torch.float32, 10.0), (torch.float64, 10.0), (torch.float64, 1e4)])
def test_where_points_stand_does_not_change_what_vectors_decide(dtype: torch.dtype, offset: float) -> None:
    def net(pos: Tensor, vel: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tanh(pos) + vel.roll(1, -1) + 0.3 * pos.roll(1, -2), torch.tanh(vel) + pos.roll(1, -1)

    pos, vel = torch.randn(2, 200, 5, 3, dtype=dtype)
    for group in (mf.E(3), mf.SE(3)):
        model = mf.Equivariant(net, group, dict(pos="point", vel="vector"), ("point", "vector"))
        rtol = 1e-5 if dtype == torch.float32 else 1e-15 * offset + 1e-14  # the rounding of the coordinates
        mf.testing.assert_equivariant(model, group, pos + offset, vel, elements=3, rtol=3 * rtol)


def test_each_of_several_point_inputs_has_its_own_rounding() -> None:
    small = torch.randn(50, 6, 3, dtype=torch.float64) * 1e-2
    small[..., 2] = 0
    small -= small.mean(-2, keepdim=True)
    large = torch.zeros(50, 2, 3, dtype=torch.float64)
    large[:, 0, 0], large[:, 1, 0] = 1e3, -1e3
    q = mf.O(3).random(50, dtype=torch.float64)
    a, b = (small @ q.mT).float(), (large @ q.mT).float()
    for order in ("ab", "ba"):
        model = mf.Equivariant(lambda a, b: a + b.mean(-2, keepdim=True), mf.E(3), dict.fromkeys(order, "point"))
        frame = model._frames({"a": a + 1000, "b": b + 1000})
        assert frame.rank.unique().tolist() in ([1], [2])  # the small cloud may drown in rounding, but never as noise


def test_backbones_behind_wrappers_keep_their_argument_names() -> None:
    class Two(nn.Module):
        def forward(self, pos: Tensor, vel: Tensor) -> Tensor:
            return torch.tanh(pos) + vel

    pos, vel = torch.randn(2, 4, 5, 3).unbind()
    types = {"pos": "point", "vel": "vector"}
    want = mf.Equivariant(Two(), mf.E(3), types)(pos, vel)
    for net in (torch.compile(Two(), backend="eager"), nn.DataParallel(Two())):
        torch.testing.assert_close(mf.Equivariant(net, mf.E(3), types)(pos, vel), want)


def test_mappings_keep_their_class() -> None:
    class Attributes(dict):
        def __getattr__(self, name: str) -> Any:
            return self[name]

    def net(state: Attributes) -> Attributes:
        return Attributes(force=state.pos.sin())

    model = mf.Equivariant(net, mf.O(3), {"state": {"pos": "point"}}, {"force": "vector"})
    assert model(Attributes(pos=torch.randn(4, 5, 3), tag=1)).force.shape == (4, 5, 3)


# --- being a module --------------------------------------------------------------------------------------------------


def test_state_dict_is_that_of_the_backbone() -> None:
    net = Net()
    model = mf.Equivariant(net, mf.E(3))
    assert list(model.state_dict()) == [f"backbone.{name}" for name in net.state_dict()]
    assert not list(model.buffers())
    assert {id(p) for p in model.parameters()} == {id(p) for p in net.parameters()}


def test_pickle_deepcopy_and_repr() -> None:
    model = mf.Equivariant(Net(), mf.E(3), mask="mask")
    x = torch.randn(4, 5, 3)
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), torch.load(stream, weights_only=False)):
        assert torch.equal(twin(x), model(x))
    assert "E(3), x: point -> point" in repr(model)
    assert "Net(" in repr(model)
    assert "E(3)" in repr(mf.E(3).frame(x))
    energy = mf.Invariant(Net(), mf.SO(3), inputs={"x": "vector"})
    assert "SO(3), x: vector -> scalar" in repr(energy)


def test_invariant_lets_any_structure_through() -> None:
    model = mf.Invariant(lambda x: {"a": x.sum((-1, -2)), "b": [x.amax((-1, -2)), "text"]}, mf.O(3))
    out = model(torch.randn(4, 5, 3))
    assert out["a"].shape == (4,)
    assert out["b"][1] == "text"


def test_the_backbone_runs_once() -> None:
    calls = []

    def net(x: Tensor) -> Tensor:
        calls.append(x.shape)
        return x

    mf.Equivariant(net, mf.E(3))(torch.randn(4, 5, 3))
    assert calls == [(4, 5, 3)]


def test_margin_sees_a_jump_coming() -> None:
    # Two rows of nearly the length at which the choice between them flips.
    x = torch.tensor([[1.0, 0, 0], [0, 2.0, 0], [0, 0, 1.5]], dtype=torch.float64)
    bar = (80 * math.pi / 481) ** 0.5 * 2
    far = mf.O(3).frame(x).margin
    x[0, 0] = bar * (1 - 1e-6)
    near = mf.O(3).frame(x).margin
    assert far > 0.03
    assert 1e-8 < near < 1e-5
    before, _ = mf.canonicalize(x, mf.O(3))
    x[0, 0] = bar * (1 + 1e-6)
    after, _ = mf.canonicalize(x, mf.O(3))
    assert (before - after).abs().max() > 0.1  # the jump is real
    assert mf.Translation(3).frame(x).margin == torch.inf
    assert mf.E(3).frame(torch.zeros(4, 3)).margin == 0


def test_margin_where_there_are_fewer_points_than_dimensions() -> None:
    # A rank that cannot grow is no decision.
    assert mf.O(3).frame(torch.randn(1, 3)).margin > 0.1
    assert mf.E(3).frame(torch.randn(2, 3)).margin > 0.1
    assert mf.E(3).frame(torch.randn(1, 3)).margin == torch.inf


def test_margin_ignores_padding() -> None:
    x, mask = torch.randn(6, 9, 3), torch.arange(9).expand(6, 9) < 5
    torch.testing.assert_close(mf.E(3).frame(x, mask=mask).margin, mf.E(3).frame(x[:, :5]).margin)
    batch = torch.arange(6).repeat_interleave(5)
    torch.testing.assert_close(
        mf.E(3).frame(x[:, :5].reshape(30, 3), batch=batch).margin, mf.E(3).frame(x[:, :5]).margin
    )


def atoms(pos: Tensor, kinds: Any = None, mask: Tensor | None = None, batch: Tensor | None = None) -> Tensor:
    return pos


UNORDERED = mf.frames.Unordered()  # of S() and its products, the minimal frame
ROWWISE = {
    "S()": mf.S(),
    "S() * E(3)": mf.S() * mf.E(3),
    "without row order": mf.E(3),
}


def test_what_no_wrapper_can_be_made_of() -> None:
    with pytest.raises(TypeError, match="got the class Linear: make one of it"):
        mf.Equivariant(nn.Linear, mf.E(3))
    with pytest.raises(ValueError, match=r"no positional argument to give the type 'point': name one.*It has: pos"):
        mf.Equivariant(lambda *, pos: pos, mf.E(3))
    x = torch.randn(4, 3)
    assert torch.equal(mf.Equivariant(torch.tanh, mf.E(3))(x, frame=None), mf.Equivariant(torch.tanh, mf.E(3))(x))
    with pytest.raises(TypeError, match=r"frame must be what model.frame returns, or a list of these, got Tensor"):
        mf.Equivariant(nn.Tanh(), mf.E(3))(x, frame=torch.eye(3))


@pytest.mark.parametrize("name", ROWWISE)
@pytest.mark.parametrize("typed", [False, True])
def test_what_has_an_entry_per_row_has_to_say_so(name: str, typed: bool) -> None:
    group, x = ROWWISE[name], torch.randn(4, 5, 3)
    inputs = {"pos": "point"} | ({"kinds": "scalar"} if typed else {})
    model = mf.Equivariant(atoms, group, inputs, frames=UNORDERED)
    for kinds in (torch.zeros(4, 5), torch.zeros(4, 5, 7, dtype=torch.int64)):
        for call in (lambda kinds=kinds: model(x, kinds), lambda kinds=kinds: model(x, kinds=kinds)):
            with pytest.raises(ValueError, match=r"kinds has an entry for each row.*'node'.*'constant'"):
                call()
    with pytest.raises(ValueError, match=r"for pairs of rows, 'edge'"):
        model(x, torch.zeros(4, 5, 5))
    ragged = mf.Equivariant(atoms, group, inputs, batch="batch", frames=UNORDERED)
    with pytest.raises(ValueError, match="kinds has an entry for each row"):
        ragged(x.flatten(0, 1), torch.zeros(20), batch=torch.arange(20) // 5)
    if not typed:
        with pytest.raises(ValueError, match=r"kinds\.1\.z has an entry for each row"):
            model(x, [1, {"z": torch.zeros(4, 5)}])
        with pytest.raises(ValueError, match="kinds has an entry for each row"):
            model(x, np.zeros((4, 5)))


@pytest.mark.parametrize("name", ROWWISE)
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (5, 1), (5, 7), (1, 5, 7)], ids=str)
def test_what_all_samples_share_belongs_to_rows_too(name: str, typed: bool, shape: tuple[int, ...]) -> None:
    """One list of atomic numbers for all snapshots of a molecule."""
    inputs = {"pos": "point"} | ({"kinds": "scalar"} if typed else {})
    model = mf.Equivariant(atoms, ROWWISE[name], inputs, frames=UNORDERED)
    with pytest.raises(
        ValueError, match=r"an entry for each row, the same for all.*expanded to the shape \(4, 5, ...\)"
    ):
        model(torch.randn(4, 5, 3), torch.zeros(shape))


@pytest.mark.parametrize("name", ROWWISE)
def test_lists_of_edges_have_to_say_so(name: str) -> None:
    """They name rows by their numbers, which change, and tell rows apart."""
    group, x = ROWWISE[name], torch.randn(4, 5, 3)
    edges, batch = torch.stack([torch.arange(20), torch.arange(20).roll(1)]), torch.arange(20) // 5
    dense, ragged = (mf.Equivariant(atoms, group, batch=b, frames=UNORDERED) for b in (None, "batch"))
    remedy = "S\\(\\) \\* E\\(3\\) has no type for a list of edges.*'edge'" if "*" in name else "kinds: 'edge_index'"
    for call in (
        lambda: dense(x, edges % 5),
        lambda: dense(x[0], edges % 5),
        lambda: dense(x[0, :2], edges[:, :1]),
        lambda: ragged(x.flatten(0, 1), edges, batch=batch),
        lambda: ragged(x.flatten(0, 1), [edges, torch.zeros(20, 2)], batch=batch),
    ):
        with pytest.raises(ValueError, match=f"has numbers of rows, as of edges.*{remedy.replace('kinds', 'kinds.*')}"):
            call()
    assert dense(x[:2], torch.zeros(2, 7, dtype=torch.int64)).shape == (2, 5, 3)  # a feature of two samples
    by_name = mf.Equivariant(lambda pos, edge_index: pos, group, frames=UNORDERED)
    with pytest.raises(ValueError, match="edge_index has numbers of rows"):
        by_name(x[:2], edges % 5)


def test_what_belongs_to_edges_has_to_say_so() -> None:
    edges = torch.stack([torch.arange(20), torch.arange(20).roll(1)])
    model = mf.Equivariant(
        lambda pos, edges, lengths: pos, mf.E(3), {"pos": "point", "edges": "edge_index"}, frames=UNORDERED
    )
    x = torch.randn(12, 3)
    with pytest.raises(ValueError, match=r"lengths has an entry for each edge.*lengths: 'edge_attr'"):
        model(x, edges % 12, torch.randn(20))
    assert model(torch.randn(20, 3), edges, torch.randn(20, 4)).shape == (20, 3)  # as many edges as rows


@pytest.mark.parametrize("name", ROWWISE)
def test_what_has_no_entry_per_row_passes(name: str) -> None:
    group, x = ROWWISE[name], torch.randn(4, 5, 3)
    model = mf.Equivariant(atoms, group, mask="mask", frames=UNORDERED)
    shapes = [(), (4,), (4, 3), (3, 5), (1, 4), (20,)]
    for passed in (None, 3, "a", x[0, 0], [x.sum()], {"weights": x[0].mT}, *(torch.zeros(s) for s in shapes)):
        assert model(x, passed).shape == x.shape
    assert model(x, mask=torch.ones(4, 5, dtype=torch.bool)).shape == x.shape
    assert model(x[:, :1], torch.zeros(4, 1)).shape == (4, 1, 3)  # single rows have no order
    ragged = mf.Equivariant(atoms, group, batch="batch", frames=UNORDERED)
    batch = torch.arange(20) // 5
    assert ragged(x.flatten(0, 1), torch.zeros(4), batch=batch).shape == (20, 3)
    assert ragged(x[:, 0], torch.zeros(4), batch=torch.arange(4)).shape == (4, 3)


@pytest.mark.parametrize("group", [mf.E(3), mf.GL(3), mf.Translation(3), mf.S(), mf.S() * mf.E(3)], ids=str)
@pytest.mark.parametrize("frames", [mf.frames.Minimal(), UNORDERED], ids=str)
def test_constants_pass_untouched(group: mf.groups.base.Group, frames: mf.frames.Method) -> None:
    x, kinds = torch.randn(4, 5, 3), torch.randn(4, 5)
    mask = torch.arange(5) < torch.tensor([[5], [3], [4], [1]])
    seen = []
    model = mf.Equivariant(
        lambda pos, kinds: (seen.append(kinds), (pos, kinds))[1],
        group,
        {"pos": "point", "kinds": "constant"},
        ("point", "constant"),
        mask="mask",
        frames=frames,
    )
    assert model(x, kinds, mask=mask)[1] is kinds
    assert seen[0] is kinds
    assert model(x, "a name", mask=mask)[1] == "a name"
    frame = group.frame(x, mask=mask)
    for way in (frame.to_canonical, frame.pose, frame.from_canonical):
        assert torch.equal(way(kinds, "constant"), kinds)
    assert torch.equal(group.act(group.random(4, n=5), kinds, "constant"), kinds)
    assert float(mf.testing.equivariance_error(model, group, x, kinds, mask=mask).max()) < 1e-5


@pytest.mark.parametrize("group", [mf.E(3), mf.SO(3), mf.Translation(3)], ids=str)
def test_linear_groups_leave_what_belongs_to_rows_alone(group: mf.groups.base.Group) -> None:
    x, kinds = torch.randn(4, 5, 3), torch.randn(4, 5)
    for inputs in ("point", {"pos": "point", "kinds": "scalar"}, {"pos": "point", "kinds": "node"}):
        model = mf.Equivariant(lambda pos, kinds: kinds, group, inputs, "node")
        assert torch.equal(model(x, kinds), kinds)


@pytest.mark.parametrize("frames", [mf.frames.Minimal(), mf.frames.Smooth(sharpness=8)], ids=str)
def test_the_number_of_samples_that_a_batch_vector_has(frames: mf.frames.Method) -> None:
    """A backbone is told how many it is shown; one without the argument is not."""
    seen: list[int] = []

    def pooled(x: Tensor, batch: Tensor, count: int) -> Tensor:
        seen.append(count)
        return x.new_zeros(count, 3).index_add(0, batch, x)

    x, batch = torch.randn(12, 3, dtype=torch.float64), torch.arange(12) // 4
    model = mf.Equivariant(pooled, mf.O(3), outputs="vector", batch="batch", batch_size="count", frames=frames)
    given = model(x, batch=batch, count=3)
    poses = model.frame(x, batch=batch, count=3).shown_layout.batch_shape[0]
    assert seen == [poses]
    assert poses >= 3
    silent = mf.Equivariant(
        lambda x, batch: x.new_zeros(int(batch.max()) + 1, 3).index_add(0, batch, x),
        mf.O(3),
        outputs="vector",
        batch="batch",
        batch_size="count",
        frames=frames,
    )
    torch.testing.assert_close(silent(x, batch=batch, count=3), given)
    torch.testing.assert_close(silent(x, batch=batch), given)


def test_a_number_of_samples_without_a_batch_vector_is_left_alone() -> None:
    seen: list[object] = []
    model = mf.Equivariant(
        lambda x, batch=None, count=None: (seen.append(count), x)[1], mf.O(3), batch="batch", batch_size="count"
    )
    for x in (torch.randn(5, 3), torch.randn(4, 5, 3)):
        torch.testing.assert_close(model(x, count=7), x)
    assert seen == [7, 7]
