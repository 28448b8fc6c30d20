"""Local frames: laws for every number of neighbours."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import minframe as mf

GROUPS = [mf.O(3), mf.SO(3), mf.Lorentz(), mf.OrthochronousLorentz()]
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


def local(group: mf.Group, frames: mf.frames.Method) -> mf.Local:
    outputs = {"vector": "vector", "scalar": "scalar"}
    return mf.Local(layer, group, nodes={"h": "node", "v": "vector"}, outputs=outputs, frames=frames).eval()


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


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ValueError, match="argument 'index'"):
        mf.Local(lambda vectors: vectors, mf.O(3))
    with pytest.raises(ValueError, match="lists rows from"):
        mf.Local(lambda vectors, index: vectors, mf.O(3))(torch.tensor([[0], [5]]), 3, vectors=torch.randn(1, 3))
