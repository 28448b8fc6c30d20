"""Models, transforms and loaders of PyTorch Geometric."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GIN,
    EdgeConv,
    GINEConv,
    GPSConv,
    PointNetConv,
    PointTransformerConv,
    SchNet,
    global_mean_pool,
)

import minframe as mf
import minframe.pyg
from operations import counted

BOUND = {torch.float64: 1e-11, torch.float32: 1e-5}
FRAMES = [mf.frames.Unordered(), mf.frames.Minimal(), mf.frames.Smooth()]
GROUPS = [mf.SE(3), mf.E(3)]
#: what symmetric and thin graphs look like, and a few that are neither
SHAPES = {
    "generic": torch.tensor([[0.3, 1, 2], [0.1, -1, 0.4], [2, 0.3, -0.7], [-1.5, 0.6, 0.2], [0.9, -0.8, 1.3]]),
    "more": torch.randn(9, 3, generator=torch.Generator().manual_seed(0)),
    "one": torch.tensor([[1.0, 2.0, 3.0]]),
    "two": torch.tensor([[0.0, 0, 0], [1, 1, 0.3]]),
    "line": torch.tensor([[0.0, 0, 0], [0, 0, 1.1], [0, 0, -1.3]]),
    "square": torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]]),
    "tetrahedron": torch.tensor([[0.0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]),
}


def graph(name: str, dtype: torch.dtype = torch.float64, bonds: bool = False) -> Data:
    """All edges between nodes less than 2.5 apart; ``bonds``: of kinds that are less symmetric than the points."""
    pos = SHAPES[name].to(dtype)
    edge_index = ((torch.cdist(pos, pos) < 2.5) & ~torch.eye(len(pos), dtype=torch.bool)).nonzero().T
    z = torch.ones(len(pos), dtype=torch.int64)
    if name == "more":
        z[2:] = 6
    kinds = (edge_index.sum(0) % 3 == 0) if bonds else torch.zeros(edge_index.shape[1])
    data = Data(pos=pos, z=z, x=torch.nn.functional.one_hot(z, 8).to(dtype), edge_index=edge_index, y=torch.ones(1))
    data.edge_attr = kinds.to(dtype).unsqueeze(-1).expand(-1, 4).contiguous()
    return data


def batch(dtype: torch.dtype = torch.float64, bonds: bool = False) -> Batch:
    return Batch.from_data_list([graph(name, dtype, bonds) for name in SHAPES])


def moved(data: Batch, group: mf.Group) -> tuple[Batch, Tensor]:
    g = group.random(data.num_graphs, dtype=data.pos.dtype)
    other = data.clone()
    other.pos = group.act(g[data.batch], data.pos)
    return other, g


class PointNet(nn.Module):
    """A model of data."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = PointNetConv(nn.Sequential(nn.Linear(11, 16), nn.SiLU()), nn.Linear(16, 3), add_self_loops=False)

    def forward(self, data: Data) -> Tensor:
        return self.conv(data.x, data.pos, data.edge_index)


class DGCNN(nn.Module):
    """Edges that see coordinates, and one number for each graph."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = EdgeConv(nn.Sequential(nn.Linear(22, 16), nn.SiLU(), nn.Linear(16, 16)))
        self.head = nn.Linear(16, 1)

    def forward(self, data: Batch) -> Tensor:
        x = self.conv(torch.cat([data.x, data.pos], -1), data.edge_index)
        return self.head(global_mean_pool(x, data.batch, data.num_graphs if isinstance(data, Batch) else 1))


class GPS(nn.Module):
    """Message passing with kinds of edges, and attention within each graph."""

    def __init__(self) -> None:
        super().__init__()
        local = GINEConv(nn.Sequential(nn.Linear(16, 16), nn.SiLU()), edge_dim=4)
        self.into, self.conv, self.out = nn.Linear(11, 16), GPSConv(16, local, heads=2, norm=None), nn.Linear(16, 3)

    def forward(self, x: Tensor, pos: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
        h = self.conv(self.into(torch.cat([x, pos], -1)), edge_index, batch, edge_attr=edge_attr)
        return self.out(h)


def neighbours(pos: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
    near = (batch[:, None] == batch) & (torch.cdist(pos, pos) < 3) & ~torch.eye(len(pos), dtype=torch.bool)
    edge_index = near.nonzero().T
    return edge_index, (pos[edge_index[0]] - pos[edge_index[1]]).norm(dim=-1)


EQUIVARIANT: dict[str, Callable[[], nn.Module]] = {
    "PointTransformer": lambda: PointTransformerConv(8, 3, add_self_loops=False),
    "PointNet": PointNet,
    "GPS": GPS,
}


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("frames", FRAMES, ids=repr)
@pytest.mark.parametrize("group", GROUPS, ids=repr)
@pytest.mark.parametrize("name", EQUIVARIANT)
@torch.no_grad()
def test_real_models_move_with_their_graphs(
    name: str, group: mf.Group, frames: mf.frames.Method, dtype: torch.dtype
) -> None:
    model = mf.pyg.Equivariant(EQUIVARIANT[name](), group, frames=frames).to(dtype).eval()
    data = batch(dtype)
    turned, g = moved(data, group)
    want = group.act(g[data.batch], model(data), "vector")
    assert float((model(turned) - want).abs().max()) <= BOUND[dtype] * float(want.abs().max())
    plain = mf.pyg.Equivariant(model.backbone, mf.Trivial(3)).eval()
    assert float((plain(turned) - group.act(g[data.batch], plain(data), "vector")).abs().max()) > 1e-2


@pytest.mark.parametrize("frames", FRAMES, ids=repr)
@torch.no_grad()
def test_invariant_models(frames: mf.frames.Method) -> None:
    data = batch()
    turned, _ = moved(data, mf.E(3))
    net = DGCNN().double()
    model = mf.pyg.Invariant(net, mf.E(3), frames=frames).eval()
    assert model(data).shape == (len(SHAPES), 1)
    assert torch.allclose(model(turned), model(data), rtol=1e-11, atol=1e-12)
    assert not torch.allclose(net(turned), net(data), rtol=1e-3)


@pytest.mark.parametrize("frames", FRAMES, ids=repr)
def test_what_is_invariant_already_stays(frames: mf.frames.Method) -> None:
    """SchNet, with arguments ``z``, ``pos``, ``batch``."""
    data = batch()
    net = SchNet(hidden_channels=16, num_filters=16, num_interactions=2, interaction_graph=neighbours).double().eval()
    model = mf.pyg.Invariant(net, mf.E(3), frames=frames).eval()
    assert torch.allclose(model(data), net(data.z, data.pos, data.batch), rtol=1e-11)


@pytest.mark.parametrize("frames", [mf.frames.Unordered(), mf.frames.Smooth()], ids=repr)
@pytest.mark.parametrize("name", ["square", "tetrahedron", "generic"])
@torch.no_grad()
def test_edges_that_are_less_symmetric_than_points(name: str, frames: mf.frames.Method) -> None:
    """Bonds of a symmetric molecule: every relabelling gives the same, relabelled."""
    data = graph(name, bonds=True)
    model = mf.pyg.Equivariant(GPS().double(), mf.O(3), frames=frames).eval()
    want = model(data)
    for order in itertools.islice(itertools.permutations(range(len(data.pos))), 0, None, 5):
        p = torch.tensor(order)
        g = mf.O(3).random(dtype=torch.float64)
        other = Data(pos=(data.pos @ g.mT)[p], x=data.x[p], z=data.z[p], edge_attr=data.edge_attr)
        other.edge_index = p.argsort()[data.edge_index]
        assert torch.allclose(model(other), (want @ g.mT)[p], rtol=0, atol=1e-11 * float(want.abs().max()))


def test_permutations() -> None:
    """A model that depends on the order of nodes, made invariant to it."""
    net = GIN(8, 16, 2, 4).double()

    def ordered(x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = net(x, edge_index)
        place = torch.arange(len(h), dtype=h.dtype).unsqueeze(-1)
        return (torch.sin(place) * h).sum(0, keepdim=True)

    data = graph("more")
    data.x = torch.randn(9, 8, dtype=torch.float64)
    model = mf.pyg.Invariant(ordered, mf.S())
    p = torch.randperm(9)
    other = Data(x=data.x[p], edge_index=p.argsort()[data.edge_index])
    same = Data(x=data.x, edge_index=data.edge_index)
    assert torch.allclose(model(other), model(same), rtol=1e-11)
    batch = torch.zeros(9, dtype=torch.int64)
    assert not torch.allclose(
        ordered(other.x, other.edge_index, batch), ordered(same.x, same.edge_index, batch), rtol=1e-3
    )


def test_one_graph_is_as_good_as_a_batch() -> None:
    for frames in FRAMES:
        model = mf.pyg.Equivariant(PointNet().double(), mf.SE(3), frames=frames).eval()
        together = model(batch())
        alone = torch.cat([model(graph(name)) for name in SHAPES])
        assert torch.allclose(together, alone, rtol=0, atol=1e-11)


def test_the_number_of_graphs_is_not_read() -> None:
    """The data knows it, and so nothing is waited for."""
    data, found = Batch.from_data_list([graph("generic"), graph("more")]), []
    model = mf.pyg.Equivariant(lambda data: data.pos.sin(), mf.SE(3), frames=mf.frames.Minimal())
    expected = model(data)
    with mf.unchecked():
        waits = counted(lambda: found.append(model(data))).waits
    assert not waits, waits
    torch.testing.assert_close(found[0], expected, rtol=1e-11, atol=1e-11)
    ptr: list[Tensor] = []
    mf.pyg.Invariant(lambda data: ptr.append(data.ptr) or data.pos[:2], mf.SE(3))(data)  # type: ignore[func-returns-value]
    assert torch.equal(ptr[0], data.ptr)


def test_forces() -> None:
    data = graph("more")
    data.pos.requires_grad_()
    model = mf.pyg.Invariant(DGCNN().double(), mf.E(3), frames=mf.frames.Smooth()).eval()
    (force,) = torch.autograd.grad(model(data).sum(), data.pos, create_graph=True)
    still = force.detach()
    assert float(still.sum(0).abs().max()) < 1e-11 < float(still.abs().max())
    assert float(torch.linalg.cross(data.pos.detach(), still).sum(0).abs().max()) < 1e-11
    force.square().sum().backward()


def test_a_model_leaves_no_trace() -> None:
    model = mf.pyg.Equivariant(PointNet(), mf.E(3))
    assert set(model.state_dict()) - {"labelling"} == {f"backbone.{name}" for name in PointNet().state_dict()}
    data = batch(torch.float32)
    before = data.pos.clone()
    model(data)
    assert torch.equal(data.pos, before)
    assert torch.equal(pickle.loads(pickle.dumps(model))(data), model(data))


# Loaders


def shapes() -> list[Data]:
    return [graph(name, torch.float32) for name in SHAPES for _ in range(3)]


class Shapes(InMemoryDataset):
    """All shapes, three times."""

    def __init__(self, transform: object = None) -> None:
        super().__init__(None, transform)
        self.data, self.slices = self.collate(shapes())


class OnDisk(InMemoryDataset):
    """The same, processed once."""

    def __init__(self, root: str, pre_transform: Callable[[Data], Data]) -> None:
        super().__init__(root, None, pre_transform)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self) -> list[str]:
        return ["shapes.pt"]

    def process(self) -> None:
        self.save([self.pre_transform(data) for data in shapes()], self.processed_paths[0])


@pytest.mark.parametrize("frames", FRAMES[:2], ids=repr)
@pytest.mark.parametrize("group", [*GROUPS, mf.O(3)], ids=repr)
@pytest.mark.parametrize("type", ["vector", "scalar", "tensor", "pseudovector"])
def test_loader_and_model_agree(type: str, group: mf.Group, frames: mf.frames.Method) -> None:
    """Also on symmetric and thin graphs, where there is something to average over."""
    net = EQUIVARIANT["PointNet"]()

    def run(data: Data) -> Tensor:
        y = net(data)
        return y.unsqueeze(-1) * torch.sin(y).unsqueeze(-2) if type == "tensor" else y

    model = mf.pyg.Equivariant(run, group, outputs=type, frames=frames)
    canonical = mf.pyg.Canonicalize(group, frames=frames)
    for shown, raw in zip(DataLoader(Shapes(transform=canonical), 5), DataLoader(Shapes(), 5), strict=True):
        assert torch.allclose(canonical.from_canonical(run(shown), shown, type), model(raw), rtol=0, atol=1e-6)


def test_workers_and_data_on_disk(tmp_path: Path) -> None:
    canonical, net = mf.pyg.Canonicalize(mf.E(3)), PointNet()
    model = mf.pyg.Equivariant(net, mf.E(3))
    raw = Batch.from_data_list(list(Shapes()))
    for dataset in (Shapes(transform=canonical), OnDisk(str(tmp_path), canonical)):
        loader = DataLoader(dataset, 4, num_workers=2)
        found = torch.cat([canonical.from_canonical(net(shown), shown, "vector") for shown in loader])
        assert torch.allclose(found, model(raw), rtol=0, atol=1e-6)


def test_per_graph_outputs_are_carried_back() -> None:
    def dipole(data: Data) -> Tensor:
        number = data.batch if data.batch is not None else torch.zeros(len(data.pos), dtype=torch.int64)
        return global_mean_pool(torch.sin(data.pos) + data.pos**2, number)

    canonical, model = mf.pyg.Canonicalize(mf.O(3)), mf.pyg.Equivariant(dipole, mf.O(3))
    shown = Batch.from_data_list([canonical(graph(name)) for name in SHAPES])
    assert torch.allclose(canonical.from_canonical(dipole(shown), shown), model(batch()), rtol=0, atol=1e-12)
    one = canonical(graph("tetrahedron"))
    assert torch.allclose(canonical.from_canonical(dipole(one), one), model(graph("tetrahedron")), rtol=0, atol=1e-12)


# Errors


def test_what_is_wrong_is_said() -> None:
    data = batch(torch.float32)
    with pytest.raises(TypeError, match=r"minframe\.pyg\.Equivariant"):
        mf.Equivariant(PointNet(), mf.E(3))(data)
    with pytest.raises(TypeError, match=r"minframe\.pyg\.Invariant"):
        mf.Equivariant(lambda pos, data: pos, mf.E(3))(data)
    with pytest.raises(TypeError, match=r"import minframe\.pyg"):
        mf.Equivariant(lambda data, pos: data, mf.E(3), {"pos": "point"})(data)
    with pytest.raises(TypeError, match=r"import minframe\.pyg"):
        mf.Invariant(lambda data: data, mf.S(), inputs="node")(data)
    with pytest.raises(TypeError, match="takes one Data or Batch"):
        mf.pyg.Equivariant(PointNet(), mf.E(3))(data.pos)
    with pytest.raises(TypeError, match="must be a dict"):
        mf.pyg.Equivariant(PointNet(), mf.E(3), "point")
    with pytest.raises(ValueError, match="argument 'edge_attr'"):
        mf.pyg.Equivariant(GPS(), mf.E(3))(Data(pos=data.pos, x=data.x, edge_index=data.edge_index))
    with pytest.raises(TypeError, match="one graph at a time"):
        mf.pyg.Canonicalize(mf.E(3))(data)
    with pytest.raises(TypeError, match="several poses"):
        mf.pyg.Canonicalize(mf.E(3), frames=mf.frames.Smooth())(graph("generic"))
    with pytest.raises(TypeError, match="acts on coordinates"):
        mf.pyg.Canonicalize(mf.S())
    with pytest.raises(ValueError, match="has no frame"):
        mf.pyg.Canonicalize(mf.E(3)).from_canonical(data.pos, data)
    other = data.clone()
    other.charge = torch.randn(len(data.pos))
    with pytest.raises(ValueError, match="charge has an entry for each row"):
        mf.pyg.Equivariant(PointNet(), mf.E(3))(other)
    mf.pyg.Equivariant(PointNet(), mf.E(3), inputs={"charge": "node"})(other)


@pytest.mark.parametrize(("module", "missing"), [("pyg", "torch_geometric"), ("ase", "ase")])
def test_without_the_package(module: str, missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import minframe; import minframe.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(f"pip install {missing.replace('_', '-')}")


# Frames beside the data


class Both(nn.Module):
    """Outputs of nodes and of the graph, which depend on the order of nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.net = GIN(8, 16, 2, 4)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        y = self.net(x + torch.linspace(0, 1, len(x), dtype=x.dtype).unsqueeze(-1), edge_index)
        return y, global_mean_pool(y, batch)


@pytest.mark.parametrize("workers", [0, 2])
def test_graphs_with_frames_from_workers(workers: int, tmp_path: Path) -> None:
    model = mf.pyg.Equivariant(Both().double(), mf.S(), outputs=("node", "scalar"), frame_on=("x", "edge_index"))
    transform = mf.pyg.AddFrame(mf.S(), frame_on=("x", "edge_index"))
    names = [name for name in SHAPES if name != "one"]

    class Set(InMemoryDataset):
        def __init__(self) -> None:
            super().__init__(str(tmp_path), transform=transform if workers else None)
            kept = [graph(name) for name in names]
            self.data, self.slices = self.collate(kept if workers else [transform(one) for one in kept])

    loader = DataLoader(Set(), batch_size=3, num_workers=workers)
    plain = DataLoader([graph(name) for name in names], batch_size=3)
    for data, expected in zip(loader, plain, strict=True):
        assert len(data.frame) == data.num_graphs
        for found, own in zip(model(data.to("cpu")), model(expected), strict=True):
            torch.testing.assert_close(found, own)


@pytest.mark.parametrize("group", GROUPS, ids=str)
@pytest.mark.parametrize("frames", FRAMES[:2], ids=str)
def test_poses_with_frames_beside_the_data(group: mf.Group, frames: mf.frames.Method) -> None:
    model = mf.pyg.Equivariant(PointNet().double(), group, outputs="vector", frames=frames)
    transform = mf.pyg.AddFrame(group, frames=frames)
    data = Batch.from_data_list([pickle.loads(pickle.dumps(transform(graph(name)))) for name in SHAPES])
    torch.testing.assert_close(model(data), model(batch()), rtol=1e-10, atol=1e-10)
    assert "frame" in data
    single = transform(graph("square"))
    torch.testing.assert_close(model(single), model(graph("square")), rtol=1e-10, atol=1e-10)


def test_frames_that_make_up_no_batch() -> None:
    with pytest.raises(TypeError, match="one graph at a time"):
        mf.pyg.AddFrame(mf.E(3))(batch())
    with pytest.raises(TypeError, match="several poses"):
        mf.pyg.AddFrame(mf.E(3), frames=mf.frames.Smooth())(graph("more"))
    assert repr(mf.pyg.AddFrame(mf.E(3))) == "AddFrame(E(3), frames=Unordered())"


def test_models_are_tested_on_their_own_data() -> None:
    """What is equivariant passes, and what is not fails, whatever frame the data have with them."""

    def forces(pos: Tensor, vel: Tensor, x: Tensor, batch: Tensor) -> Tensor:
        return pos.roll(1, -1) + vel.flip(-1) * x[:, :1]

    graphs = [Data(pos=torch.randn(n, 3), vel=torch.randn(n, 3), x=torch.randn(n, 2)) for n in (4, 6)]
    model = mf.pyg.Equivariant(forces, mf.E(3), inputs={"vel": "vector"}, outputs="vector")
    batch = Batch.from_data_list([mf.pyg.AddFrame(mf.E(3), inputs={"vel": "vector"})(data) for data in graphs])
    for data in (batch, *graphs):
        mf.pyg.assert_equivariant(model, data, degenerate=True)
    wrong = mf.pyg.Equivariant(lambda pos, batch: torch.randn_like(pos), mf.E(3), inputs={"vel": "vector"})
    with pytest.raises(AssertionError, match="not equivariant"):
        mf.pyg.assert_equivariant(wrong, graphs[0])
    with pytest.raises(TypeError, match="acts on coordinates"):
        mf.pyg.assert_equivariant(mf.pyg.Invariant(forces, mf.S()), graphs[0])
