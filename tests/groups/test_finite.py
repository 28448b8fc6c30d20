"""Finite groups given by representations: the laws in the docstring of ``Group``, and what is special about them."""

from __future__ import annotations

import itertools
import pickle

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.cloud import Input
from table import relative

D = torch.float64


def cyclic(n: int, k: int = 2) -> Tensor:
    """Rotations of the first two of ``k`` components."""
    g = torch.eye(k, dtype=D).repeat(n, 1, 1)
    g[:, :2, :2] = mf.Cyclic(n).matrices
    return g


def symmetric(n: int) -> Tensor:
    return torch.stack([torch.eye(n, dtype=D)[list(p)] for p in itertools.permutations(range(n))])


SKEW = torch.tensor([[2.0, 0.3, 0.0], [0.0, 1.0, -0.4], [0.1, 0.0, 0.5]], dtype=D)
MIRROR = {"observation": [[1, 2, 3, 4], [2, 1, -3, 4]], "action": [[1, 2], [2, 1]]}
GROUPS = {
    "mirror": (mf.Finite(MIRROR), "observation", "action"),
    "trivial": (mf.Finite({"a": torch.eye(3)[None], "b": torch.eye(2)[None]}), "a", "b"),
    "three legs": (mf.Finite({"a": cyclic(3, 4), "b": symmetric(3)[[0, 3, 4]]}), "a", "b"),
    "S3": (mf.Finite({"a": symmetric(3), "b": torch.linalg.det(symmetric(3))[:, None, None]}), "a", "b"),
    "skew": (mf.Finite({"a": SKEW @ symmetric(3) @ SKEW.inverse(), "b": symmetric(3)}), "a", "b"),
    "float32": (mf.Finite({"a": cyclic(5).float(), "b": cyclic(5).roll(0, 0)}), "a", "b"),
    "not faithful": (mf.Finite({"a": cyclic(2).repeat(2, 1, 1), "b": cyclic(4)}), "a", "b"),
    "rows": (mf.Finite({"a": mf.Dihedral(4).matrices, "b": torch.linalg.det(mf.Dihedral(4).matrices)[:, None, None]}, rows="a"), "a", "b"),
}  # fmt: skip
by_group = pytest.mark.parametrize(("group", "a", "b"), GROUPS.values(), ids=GROUPS)


def inputs(group: mf.Finite, a: str) -> dict[str, Tensor]:
    """Single inputs of type ``a``, from none to all symmetries."""
    k = group.matrices(a).shape[-1]
    x = torch.randn(*(5,) * (a in group._rows), k, dtype=D)
    everything = torch.arange(group.order)
    found = {"generic": x, "zero": 0 * x, "tiny": 1e-9 * x, "huge": 1e9 * x, "small integers": (2 * x).round()}
    for h in range(1, min(group.order, 4)):  # symmetric under the powers of one element
        powers = [group._identity]
        while (after := int(group.compose(torch.tensor(powers[-1]), torch.tensor(h)))) != group._identity:
            powers.append(after)
        found[f"fixed by {h}"] = group.act(torch.tensor(powers), x.expand(len(powers), *x.shape), a).mean(0)
    found["fixed by all"] = group.act(everything, x.expand(group.order, *x.shape), a).mean(0)
    for k in (6, 9, 11, 13):
        found[f"all but fixed, 1e-{k}"] = found["fixed by all"] + 10.0**-k * x
    return found


def net(group: mf.Finite, a: str, b: str):
    """A backbone without symmetry from type ``a`` to type ``b``."""
    k, m = group.matrices(a).shape[-1], group.matrices(b).shape[-1]
    full = torch.linspace(-1.3, 1.1, k * m, dtype=D).view(k, m).sin() + 0.2

    def run(x: Tensor) -> Tensor:
        weight, x = full.to(x.dtype), x / (1 + x.abs()) + 0.1 * x
        return x.mean(-2) @ weight + 0.3 if a in group._rows else x @ weight + 0.3

    return run


@by_group
def test_action(group: mf.Finite, a: str, b: str) -> None:
    for type in (a, b):
        g, h = group.random(40), group.random(40)
        x = torch.randn(40, 3, group.matrices(type).shape[-1], dtype=D)
        both = group.act(group.compose(g, h), x, type)
        torch.testing.assert_close(group.act(g, group.act(h, x, type), type), both, atol=1e-13, rtol=0)
        torch.testing.assert_close(group.act(group.inverse(g), group.act(g, x, type), type), x, atol=1e-13, rtol=0)
    assert bool(group.contains(group.compose(g, h)).all())
    assert not bool(group.contains(torch.tensor([-1, group.order])).any())
    copy = pickle.loads(pickle.dumps(group))
    assert copy == group
    assert hash(copy) == hash(group)
    with pytest.raises(AttributeError):
        group.order = 3


@by_group
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_every_element_on_every_input(group: mf.Finite, a: str, b: str, dtype: torch.dtype) -> None:
    bound = 1e-11 if dtype == D else 1e-5
    model = mf.Equivariant(net(group, a, b), group, inputs=a, outputs=b)
    elements = torch.arange(group.order)
    for name, x in inputs(group, a).items():
        if dtype != D and name.startswith("all but"):
            continue  # float32 cannot hold them; see test_near_symmetric_inputs_in_float32
        copies = x.to(dtype).expand(group.order, *x.shape).contiguous()
        moved = group.act(elements, copies.double(), a).to(dtype)
        frame, moved_frame = group.frame(copies, a), group.frame(moved, a)
        assert frame.size == moved_frame.size, name
        pose = mf.canonicalize(copies, group, a)[0]
        assert relative(mf.canonicalize(moved, group, a)[0], pose) <= bound, name
        assert relative(mf.canonicalize(pose, group, a)[0], pose) <= bound, name
        assert relative(frame.from_canonical(frame.to_canonical(copies, a), a), copies) <= bound, name
        size = model(copies).double().norm(dim=-1).max() + 0.3
        error = (model(moved).double() - group.act(elements, model(copies).double(), b)).norm(dim=-1).max()
        assert error <= bound * size, name


def test_near_symmetric_inputs_in_float32() -> None:
    # Where noise is of the size of the tolerance the decision can be lost, and the margin says so.
    group = GROUPS["mirror"][0]
    model = mf.Equivariant(net(group, "observation", "action"), group, inputs="observation", outputs="action")
    for exponent in (3, 4, 5, 6, 7):
        o = torch.randn(2000, 4)
        o = (o + group.act(torch.tensor(1), o)) / 2 + 10.0**-exponent * torch.randn(2000, 4)
        mirrored = group.act(torch.tensor(1), o)  # exact: signs and places only
        error = (model(mirrored) - group.act(torch.tensor(1), model(o), "action")).abs().amax(-1)
        assert not bool((error > 1e-6).logical_and(group.frame(o).margin > 1e-7).any())
        assert float((error > 1e-6).float().mean()) < 1e-2


@pytest.mark.parametrize("noise", [0.0, 1e-14, 1e-13, 1e-10, 1e-8, 1e-3])
def test_size_is_that_of_the_stabiliser(noise: float) -> None:
    group = mf.Finite({"point": mf.Dihedral(4).matrices}, rows="point")
    square = torch.tensor([[1.0, 1], [-1, 1], [-1, -1], [1, -1]], dtype=D)
    line = torch.tensor([[1.0, 0], [2, 0], [-3, 0], [0.5, 0]], dtype=D)
    for x, size in ((square, 1), (line, 2), (0 * line, 8)):
        y = x + noise * torch.randn(4, 2, dtype=D) * (x.norm() > 0)
        expected = size if noise < 1e-12 or size in (1, 8) else 1
        assert float(group.frame(y).size) == expected


def test_several_inputs_of_several_types() -> None:
    group, _, _ = GROUPS["mirror"]

    def net(o: Tensor, last: Tensor, goal: Tensor) -> dict[str, Tensor]:
        return {"a": torch.tanh(o[..., :2] + last**2 + goal), "value": (o**3).sum(-1) + goal[..., 0]}

    types = {"o": "observation", "last": "action", "goal": "scalar"}
    model = mf.Equivariant(net, group, inputs=types, outputs={"a": "action", "value": "scalar"})
    o, last, goal = torch.randn(6, 4, dtype=D), torch.randn(6, 2, dtype=D), torch.randn(6, 2, dtype=D)
    o[:3] = (o[:3] + group.act(torch.tensor(1), o[:3])) / 2  # the last action decides
    last[0] = last[0].mean()
    assert mf.testing.equivariance_error(model, group, o, last, goal).max() < 1e-12
    mf.testing.assert_equivariant(model, group, o, last, goal)
    sizes = group.frame_of(group.cloud([Input("o", o, "observation"), Input("last", last, "action")])).size
    assert sizes == [2, 1, 1, 1, 1, 1]
    chunk = mf.Equivariant(
        lambda o: torch.stack([o[..., :2]] * 5, -2).tanh(), group, inputs="observation", outputs="action"
    )
    assert mf.testing.equivariance_error(chunk, group, o).max() < 1e-12
    assert mf.Equivariant(lambda o: o[:2] + 1, group, inputs="observation", outputs="action")(o[0]).shape == (2,)
    rollout = torch.randn(3, 7, 4, dtype=D)
    assert torch.tensor(mf.canonicalize(rollout, group, "observation")[1].size).shape == (3, 7)


def test_rows_masks_and_batch_vectors() -> None:
    group, _, _ = GROUPS["rows"]
    clouds = [torch.randn(n, 2, dtype=D) for n in (4, 2, 3)]
    alone = [mf.canonicalize(x, group, "a")[0] for x in clouds]
    batch = torch.tensor([0, 1, 0, 2, 0, 1, 0, 2, 2])
    x = torch.empty(9, 2, dtype=D)
    for i, cloud in enumerate(clouds):
        x[batch == i] = cloud
    ragged = mf.canonicalize(x, group, "a", batch=batch)[0]
    padded, mask = torch.full((3, 6, 2), torch.nan, dtype=D), torch.zeros(3, 6, dtype=torch.bool)
    for i, cloud in enumerate(clouds):
        padded[i, 1 : 1 + len(cloud)], mask[i, 1 : 1 + len(cloud)] = cloud, True
    pose = mf.canonicalize(padded, group, "a", mask=mask)[0]
    for i in range(3):
        torch.testing.assert_close(ragged[batch == i], alone[i])
        torch.testing.assert_close(pose[i][mask[i]], alone[i])
    assert (pose[~mask] == 0).all()
    model = mf.Equivariant(lambda x, batch: torch.tanh(x + 0.3), group, inputs={"x": "a"}, outputs="a", batch="batch")
    assert mf.testing.equivariance_error(model, group, x, batch=batch).max() < 1e-12


def test_one_pass_of_the_backbone() -> None:
    group, a, b = GROUPS["S3"]
    calls = []
    run = net(group, a, b)
    model = mf.Equivariant(lambda x: calls.append(len(x)) or run(x), group, inputs=a, outputs=b)
    model(torch.stack(list(inputs(group, a).values())))
    assert calls == [len(inputs(group, a))]


def test_random_members() -> None:
    group, a, _ = GROUPS["S3"]
    x = torch.ones(400, 3, dtype=D)
    frame = mf.frames.Minimal(mode="sample", seed=0)(group, group.cloud([Input("x", x, a)]))
    counts = torch.bincount(frame.element, minlength=6)
    assert counts.min() > 40
    points = mf.Dihedral(4).cloud([Input("x", torch.zeros(400, 3, 2, dtype=D), "point")])
    drawn = mf.frames.Minimal(mode="sample", seed=0)(mf.Dihedral(4), points).element
    assert torch.bincount(mf.Dihedral(4).index(drawn), minlength=8).min() > 25


def test_margin_is_rounding_where_the_output_jumps() -> None:
    group, a, b = GROUPS["S3"]
    model = mf.Equivariant(net(group, a, b), group, inputs=a, outputs=b)
    jumps = 0
    for seed in range(20):
        one, other = torch.randn(2, 3, dtype=D, generator=torch.Generator().manual_seed(seed))
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            values = [group.frame(one + t * (other - one)).choice.first for t in (low, middle, high)]
            low, high = (low, middle) if int(values[0]) != int(values[1]) else (middle, high)
        y, z = (model(one + t * (other - one)) for t in (low, high))
        if (y - z).abs().max() > 1e-6:
            jumps += 1
            assert float(group.frame(one + low * (other - one)).margin) < 1e-11
    assert jumps


@pytest.mark.parametrize("kind", ["representations", "matrices", "images"])
def test_shares_are_continuous_equivariant_and_few(kind: str) -> None:
    if kind == "representations":
        group, type, _ = GROUPS["S3"]
        shape, g = (3,), torch.tensor(4)
    elif kind == "matrices":
        group, type, shape = mf.Dihedral(6), "point", (5, 2)
        g = group.matrices[7]
    else:
        group, type, shape = mf.Dihedral(4), "image", (1, 5, 5)
        g = group.matrices[5]

    def weights(x: Tensor) -> Tensor:
        return group.shares(group.cloud([Input("x", x, type)]))[1]

    one, other = torch.randn(2, *shape, dtype=D)
    path = torch.stack([one + t * (other - one) for t in torch.linspace(0, 1, 2001)])
    w = weights(path)
    assert (w.sum(-1) - 1).abs().max() < 1e-12
    assert (w[1:] - w[:-1]).abs().max() < 0.2  # a jump would be of size one
    assert ((w > 0).sum(-1).double().mean()) < 3
    values = {round(float(v), 9) for v in w[777]}
    assert {round(float(v), 9) for v in weights(group.act(g, path[777], type))} == values
    assert torch.autograd.gradcheck(weights, one.clone().requires_grad_())


def test_what_is_no_group_is_refused() -> None:
    turn = mf.Cyclic(3).matrices
    cases = [
        ({}, TypeError, "dict from names"),
        ({"a": turn[:2]}, ValueError, "the product of number 1 and number 1 is none"),
        ({"a": turn, "b": turn[[0, 1, 1]]}, ValueError, "'b' are those of no group"),
        ({"a": turn, "b": mf.Cyclic(2).matrices}, ValueError, "'a': 3, 'b': 2"),
        ({"a": mf.Cyclic(4).matrices, "b": mf.Dihedral(2).matrices}, ValueError, "different groups, or list elements"),
        ({"a": mf.Cyclic(4).matrices, "b": mf.Cyclic(4).matrices[[0, 2, 1, 3]]}, ValueError, "different orders"),
        ({"a": torch.eye(2).repeat(2, 1, 1)}, ValueError, "elements 0 and 1 have the same matrices"),
        ({"a": torch.eye(2)}, ValueError, r"\(G, k, k\)"),
        ({"a": [[1, 2], [1, 1]]}, ValueError, "line 1 of type 'a' is no signed permutation"),
        ({"a": torch.full((1, 2, 2), torch.nan)}, ValueError, "NaN"),
    ]
    for given, error, message in cases:
        with pytest.raises(error, match=message):
            mf.Finite(given)
    with pytest.raises(ValueError, match="rows names 'b'"):
        mf.Finite({"a": turn}, rows=("b",))


def test_bad_inputs_are_refused() -> None:
    group = mf.Finite(MIRROR)
    with pytest.raises(ValueError, match=r"must have shape \(..., 4\)"):
        group.frame(torch.randn(3, 5))
    with pytest.raises(TypeError, match="real floating"):
        group.frame(torch.ones(3, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match="has no type 'point'"):
        mf.Equivariant(torch.nn.Linear(4, 2), group)
    with pytest.raises(ValueError, match="NaN"):
        group.frame(torch.full((3, 4), torch.nan))
    with pytest.raises(ValueError, match="mask is for rows"):
        group.frame(torch.randn(3, 4), mask=torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="'action' must have shape"):
        mf.Equivariant(lambda o: o, group, inputs="observation", outputs="action")(torch.randn(3, 4))
