"""Local frames: laws for every number of neighbours."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf

GROUPS = [mf.O(3), mf.SO(3), mf.Lorentz(), mf.OrthochronousLorentz()]
WAVES = torch.tensor([[1.0, 0.4, 0.2], [0.3, 1.2, -0.5], [0.1, 0.7, 0.9]], dtype=torch.float64)
FRAMES = [mf.frames.Unordered(), mf.frames.Minimal(), mf.frames.Smooth()]


def layer(vectors: Tensor, h: Tensor, v: Tensor, index: Tensor) -> dict[str, Tensor]:
    """A sum over neighbours that depends on coordinates as it likes."""
    d = vectors.shape[-1]
    draw = torch.Generator().manual_seed(1)
    into, out = (torch.randn(*s, generator=draw, dtype=vectors.dtype) for s in ((2 * d + 4, 16), (16, d)))
    messages = torch.tanh(torch.cat([vectors, v, h], -1) @ into)
    total = messages.new_zeros(int(index.max()) + 1, 16).index_add(0, index, messages)
    return {"vector": total.tanh() @ out, "scalar": total.tanh().sum(-1)}


def neighbourhoods(group: mf.Group, dtype: torch.dtype) -> tuple[Tensor, dict[str, Tensor]]:
    """Nodes with 0 to 30 neighbours; vectors within the light cone, if there is one."""
    counts = torch.tensor([0, *range(1, 31), 0, 1, 2])
    receiver = torch.repeat_interleave(torch.arange(len(counts)), counts)
    edge_index = torch.stack([torch.randint(len(counts), receiver.shape), receiver])
    edge_index = edge_index[:, torch.randperm(edge_index.shape[1])]
    d = group.d
    vectors, v = torch.randn(edge_index.shape[1], d, dtype=dtype), torch.randn(len(counts), d, dtype=dtype)
    if d == 4:
        vectors[:, 0] = vectors[:, 1:].norm(dim=-1) + 0.2
    return edge_index, {"vectors": vectors, "v": v, "h": torch.randn(len(counts), 4, dtype=dtype)}


def local(group: mf.Group, frames: mf.frames.Method, cutoff: float | None = None) -> mf.Local:
    outputs = {"vector": "vector", "scalar": "scalar"}
    nodes = {"h": "node", "v": "vector"}
    return mf.Local(layer, group, nodes=nodes, outputs=outputs, frames=frames, cutoff=cutoff).eval()


@pytest.mark.parametrize("frames", FRAMES, ids=repr)
@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_exact_for_every_number_of_neighbours(group: mf.Group, frames: mf.frames.Method) -> None:
    edge_index, values = neighbourhoods(group, torch.float64)
    model = local(group, frames)
    found = model(edge_index, **values)
    for _ in range(3):
        g = group.random(dtype=torch.float64)
        moved = {name: group.act(g, x, "vector") if name != "h" else x for name, x in values.items()}
        again = model(edge_index, **moved)
        want = group.act(g, found["vector"], "vector")
        bound = mf.testing.bound(group, torch.float64)
        assert float((again["vector"] - want).abs().max()) <= bound * float(want.abs().max())
        assert float((again["scalar"] - found["scalar"]).abs().max()) <= bound * float(found["scalar"].abs().max())
    assert bool((found["vector"][[0, 31]] == 0).all())  # no neighbours
    assert bool((found["vector"][1:31] != 0).any(-1).all())


@pytest.mark.parametrize("frames", [FRAMES[0], FRAMES[2]], ids=repr)
def test_neither_edges_nor_nodes_have_an_order(frames: mf.frames.Method) -> None:
    edge_index, values = neighbourhoods(mf.O(3), torch.float64)
    model = local(mf.O(3), frames)
    found = model(edge_index, **values)["vector"]
    edges, nodes = torch.randperm(edge_index.shape[1]), torch.randperm(len(found))
    moved = {"vectors": values["vectors"][edges], "v": values["v"][nodes], "h": values["h"][nodes]}
    again = model(nodes.argsort()[edge_index[:, edges]], **moved)["vector"]
    assert torch.allclose(again, found[nodes], rtol=0, atol=1e-11)


def test_entries_for_other_nodes_are_refused() -> None:
    edge_index, values = neighbourhoods(mf.O(3), torch.float64)
    for name in ("h", "v"):
        with pytest.raises(ValueError, match=rf"{name} must have an entry for each of 34 nodes, got shape \(33"):
            local(mf.O(3), mf.frames.Smooth())(edge_index, 34, **(values | {name: values[name][:-1]}))


def test_two_layers_and_forces() -> None:
    """What one layer returns goes into the next; smooth frames give forces that add up to nothing."""
    first, second = (local(mf.SO(3), mf.frames.Smooth()) for _ in range(2))
    pos = torch.randn(8, 3, dtype=torch.float64, requires_grad=True)
    edge_index = (torch.cdist(pos, pos).detach() + 9 * torch.eye(8) < 2).nonzero().T
    h, v = torch.randn(8, 4, dtype=torch.float64), torch.zeros(8, 3, dtype=torch.float64)
    vectors = pos[edge_index[0]] - pos[edge_index[1]]
    v = first(edge_index, vectors=vectors, h=h, v=v)["vector"]
    (force,) = torch.autograd.grad(second(edge_index, vectors=vectors, h=h, v=v)["scalar"].sum(), pos)
    assert float(force.sum(0).abs().max()) < 1e-11 < float(force.abs().max())
    assert float(torch.linalg.cross(pos.detach(), force).sum(0).abs().max()) < 1e-11


SYMMETRIC = {
    "methane": [[0.0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]],
    "square": [[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]],
    "line": [[-1.0, 0, 0], [0, 0, 0], [1, 0, 0]],
}


@pytest.mark.parametrize("cutoff", [None, 4.0])
@pytest.mark.parametrize("frames", FRAMES, ids=repr)
@pytest.mark.parametrize("group", [mf.O(3), mf.SO(3)], ids=repr)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_layers_on_symmetric_molecules(
    name: str, group: mf.Group, frames: mf.frames.Method, cutoff: float | None
) -> None:
    """Numbers that symmetry makes equal are so but for rounding in the second layer, which must not count."""
    pos = torch.tensor(SYMMETRIC[name], dtype=torch.float64)
    n = len(pos)
    edge_index = (~torch.eye(n, dtype=torch.bool)).nonzero().T
    model = local(group, frames, cutoff)

    def network(pos: Tensor) -> tuple[Tensor, Tensor]:
        vectors = pos[edge_index[0]] - pos[edge_index[1]]
        h, v = torch.eye(4, dtype=pos.dtype)[[0] + [1] * (n - 1)], torch.zeros_like(pos)
        if name == "square":
            h = h[:1].expand(n, 4)
        for _ in range(3):
            out = model(edge_index, vectors=vectors, h=h, v=v)
            h, v = out["scalar"].unsqueeze(-1) * torch.arange(1.0, 5.0, dtype=pos.dtype), out["vector"]
        return h, v

    h, v = network(pos)
    for g in group.random(10, dtype=torch.float64):
        again_h, again_v = network(pos @ g.mT)
        assert float((again_h - h).abs().max()) < 1e-11 * float(h.abs().max())
        assert float((again_v - v @ g.mT).abs().max()) < 1e-11 * max(float(v.abs().max()), 1)


@pytest.mark.parametrize("group", [mf.O(3), mf.SO(3)], ids=repr)
def test_features_tell_symmetric_neighbours_apart(group: mf.Group) -> None:
    """Unordered frames are shared by layers, but where neighbours are equivalent: there their features count."""
    pos = torch.tensor(SYMMETRIC["methane"], dtype=torch.float64)
    edge_index = torch.stack([torch.arange(1, 5), torch.zeros(4, dtype=torch.int64)])
    model = local(group, mf.frames.Unordered())
    found = model.neighbourhoods(edge_index, 5, vectors=pos[1:])
    assert found.needs_features
    equal, v = torch.ones(5, 4, dtype=torch.float64), torch.zeros(5, 3, dtype=torch.float64)
    different = equal.clone()
    different[:, 0] = torch.arange(5.0, dtype=torch.float64) / 4
    alike, apart = (model(found, vectors=pos[1:], h=h, v=v)["vector"][0] for h in (equal, different))
    assert float(alike.abs().max()) < 1e-11  # nothing but zero has the symmetry of a tetrahedron
    assert float(apart.abs().max()) > 1e-2
    again = model(edge_index, vectors=pos[1:], h=different, v=v)["vector"][0]
    assert torch.equal(again, apart)


@pytest.mark.parametrize("frames", FRAMES, ids=repr)
@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_layers_share_frames(group: mf.Group, frames: mf.frames.Method) -> None:
    edge_index, values = neighbourhoods(group, torch.float64)
    model = local(group, frames)
    once = model.neighbourhoods(edge_index, len(values["h"]), vectors=values["vectors"])
    for _ in range(2):
        shared, alone = model(once, **values), model(edge_index, **values)
        assert all(bool((shared[key] == alone[key]).all()) for key in alone)
        values["v"] = alone["vector"]
    values["vectors"].mul_(-1)  # what was shown before is not shown again
    assert bool((model(once, **values)["vector"] != alone["vector"]).any())


@pytest.mark.parametrize("group", [mf.O(3), mf.SO(3)], ids=repr)
def test_a_neighbour_that_comes_near_changes_nothing_at_once(group: mf.Group) -> None:
    cutoff = 2.0
    start = torch.randn(4, 3, dtype=torch.float64)
    start = start / start.norm(dim=-1, keepdim=True) * torch.tensor([[0.7], [1.1], [1.5], [1.0]])

    def fading(vectors: Tensor, index: Tensor) -> Tensor:
        wave = mf.envelope(vectors, cutoff).unsqueeze(-1) * torch.sin(vectors @ WAVES)
        return wave.new_zeros(int(index.max()) + 1, 3).index_add(0, index, wave)

    model = mf.Local(fading, group, outputs="vector", cutoff=cutoff).eval()

    def at(distance: float) -> Tensor:
        vectors = torch.cat([start[:3], start[3:] * distance])
        near = vectors.norm(dim=-1) < cutoff
        edges = torch.stack([torch.arange(1, 5), torch.zeros(4, dtype=torch.int64)])[:, near]
        return model(edges, 5, vectors=vectors[near])[0]

    away = at(cutoff + 1e-3)
    for step in (1e-2, 1e-3):  # the rows begin with the fourth power of the step
        assert float((at(cutoff - step) - away).abs().max()) < 1e3 * step**4
    assert float((at(1.2) - away).abs().max()) > 1e-3


def test_single_precision_stays_single() -> None:
    edge_index, values = neighbourhoods(mf.O(3), torch.float32)
    model = mf.Local(
        layer, mf.O(3), nodes={"h": "node", "v": "vector"}, outputs={"vector": "vector", "scalar": "scalar"}, cutoff=3.0
    ).eval()
    found = model(edge_index, **values)
    assert {x.dtype for x in found.values()} == {torch.float32}
    g = mf.O(3).random()
    again = model(edge_index, **{k: x @ g.mT if k != "h" else x for k, x in values.items()})
    assert float((again["vector"] - found["vector"] @ g.mT).abs().max()) < 1e-5 * float(found["vector"].abs().max())


def test_what_is_wrong_is_said() -> None:
    edge_index, values = neighbourhoods(mf.O(3), torch.float64)
    with pytest.raises(ValueError, match="leaves it alone"):
        local(mf.Lorentz(), mf.frames.Smooth(), 2.0)
    with pytest.raises(ValueError, match="positive length"):
        local(mf.O(3), mf.frames.Smooth(), -2.0)
    with pytest.raises(TypeError, match="which was not given"):
        local(mf.O(3), mf.frames.Smooth())(edge_index, h=values["h"])
    with pytest.raises(TypeError, match="neither in edges"):
        local(mf.O(3), mf.frames.Smooth())(edge_index, **values, w=values["h"])
    with pytest.raises(ValueError, match="argument 'index'"):
        mf.Local(lambda vectors: vectors, mf.O(3))
    with pytest.raises(ValueError, match="has nodes up to 5, but there are 3"):
        mf.Local(lambda vectors, index: vectors, mf.O(3))(torch.tensor([[0], [5]]), 3, vectors=torch.randn(1, 3))


@pytest.mark.parametrize("frames", [mf.frames.Minimal(), mf.frames.Unordered(), mf.frames.Smooth()], ids=str)
def test_as_many_neighbourhoods_as_edges(frames: mf.frames.Method) -> None:
    """Pairs: an entry per edge and one per neighbourhood have the same shape, and belong to different nodes."""
    generator = torch.Generator().manual_seed(0)
    pos = torch.randn(4, 3, dtype=torch.float64, generator=generator)
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    vectors = pos[edge_index[0]] - pos[edge_index[1]]

    def summed(vectors: Tensor, index: Tensor) -> Tensor:
        return vectors.new_zeros(int(index.max()) + 1, 3).index_add(0, index, vectors)

    layer = mf.Local(summed, mf.SO(3), outputs="vector", frames=frames)
    want = torch.zeros_like(pos).index_add(0, edge_index[1], vectors)
    for order in (torch.arange(4), torch.tensor([2, 0, 3, 1])):
        got = layer(edge_index[:, order], 4, vectors=vectors[order])
        assert torch.allclose(got, want, atol=1e-12)


def test_graphs_without_edges_give_zeros() -> None:
    """As every node without neighbours does."""
    model = local(mf.O(3), mf.frames.Smooth())
    edge_index, values = neighbourhoods(mf.O(3), torch.float64)
    nodes = len(values["h"])
    wanted = model(edge_index, **values)
    none = {name: x[:0] if len(x) == edge_index.shape[1] else x for name, x in values.items()}
    found = model(edge_index[:, :0], **none)
    for name, y in found.items():
        assert y.shape == (nodes, *wanted[name].shape[1:])
        assert y.dtype == wanted[name].dtype
        assert not y.any()


def test_vectors_belong_to_edges() -> None:
    edge_index, values = neighbourhoods(mf.O(3), torch.float64)
    with pytest.raises(
        ValueError, match=r"vectors must have a row for each of the 3 edges, got \d+: give vectors of edges"
    ):
        local(mf.O(3), mf.frames.Smooth())(edge_index[:, :3], **values)
