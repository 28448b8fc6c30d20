"""Frames that were found before the call: pickled, from workers of a loader, from files, and combined to batches."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import clouds
import minframe as mf
from minframe.frame.collate import collated
from minframe.testing import DEGENERATIONS
from molecular_graphs import molecule_like
from table import GROUPS

METHODS = (mf.frames.Minimal(), mf.frames.Unordered())
COLLATED = [mf.O(3), mf.SE(3), mf.S() * mf.SO(3), mf.Sim(3), mf.Lorentz(), mf.OrthochronousLorentz(), mf.U(3), mf.GL(3)]
COLLATED += [mf.Octahedral(), mf.E(2) + mf.Trivial(1), mf.Poincare()]
Graph = tuple[Tensor, Tensor, Tensor]  # edge_index, numbers of the nodes, numbers of the edges
TYPES = {"edge_index": "edge_index", "x": "node", "weight": "edge_attr"}


def backbone(x: Tensor) -> Tensor:
    """Depends on the order of rows and on the pose."""
    step = torch.linspace(0, 1, x.shape[-1], dtype=x.dtype)
    return x * 1.5 + x.roll(1, -2) * step + x.abs().square().sum(-1, keepdim=True) * x


def like(x: Tensor, group: mf.Group) -> Tensor:
    return x.to(torch.complex128) * (1 + 0.3j) if getattr(group, "complex", False) else x


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("group", [g for g in GROUPS if getattr(g, "d", 9) in (2, 3, 4)], ids=str)
def test_pickled_frames_give_the_outputs_of_the_model(group: Any) -> None:
    model = mf.Equivariant(backbone, group, group.frame_types[0], group.frame_types[0])
    generic = like(clouds.generic(6, group.d).expand(3, -1, -1) + torch.arange(3.0).view(3, 1, 1), group)
    for name in ("none", "collinear", "planar", "two duplicated points"):
        x = DEGENERATIONS[name](generic) if name in DEGENERATIONS else generic
        frame = model.frame(x)
        again = pickle.loads(pickle.dumps(frame))
        close(model(x, frame=again), model(x))
        close(model(x, frame=frame), model(x))
        assert again.size == frame.size
        assert torch.equal(again.rank, frame.rank)
        assert torch.equal(again.margin, frame.margin)


@pytest.mark.parametrize("group", COLLATED, ids=str)
@pytest.mark.parametrize("frames", METHODS, ids=str)
def test_frames_of_samples_make_up_that_of_the_batch(group: Any, frames: mf.frames.Method) -> None:
    model = mf.Equivariant(lambda x, mask=None, batch=None: x * x.abs().sum(-1, keepdim=True), group, frames=frames)
    d = group.linear.d if isinstance(group, type(mf.S() * mf.O(2))) else group.d
    solids = [clouds.tetrahedron(), clouds.cube(), clouds.generic(5)]
    several = [torch.cat([s.norm(dim=-1, keepdim=True) + 1, s], -1)[:, 4 - d :] for s in solids]
    several += [clouds.generic(5, d, seed=1), clouds.generic(9, d, seed=2)]
    several = [like(x, group) for x in several]
    found = [pickle.loads(pickle.dumps(model.frame(x))) for x in several]
    if isinstance(group, type(mf.Octahedral())) and frames != mf.frames.Minimal():
        with pytest.raises(TypeError, match="whole batch"):
            mf.collate(found)
        return
    sizes = torch.tensor([len(x) for x in several])
    # with a batch vector
    whole, batch = torch.cat(several), torch.arange(len(several)).repeat_interleave(sizes)
    ragged = mf.Equivariant(model.backbone, group, frames=frames, batch="batch")
    close(ragged(whole, batch=batch, frame=found), ragged(whole, batch=batch))
    frame = pickle.loads(pickle.dumps(mf.collate(found)))
    close(ragged(whole, batch=batch, frame=frame), ragged(whole, batch=batch))
    # padded, with padding anywhere
    padded = torch.nn.utils.rnn.pad_sequence([*several, like(clouds.generic(11, d), group)], batch_first=True)[:-1]
    mask = torch.arange(11) < sizes.unsqueeze(-1)
    masked = mf.Equivariant(model.backbone, group, frames=frames, mask="mask")
    for shift in (0, 2):
        close(
            masked(padded.roll(shift, 1), mask=mask.roll(shift, 1), frame=found),
            masked(padded.roll(shift, 1), mask=mask.roll(shift, 1)),
        )
    frame = mf.collate(found, mask=mask)
    assert frame.size == [f.size for f in found]
    # of one length
    equal = torch.stack(several[2:4])
    close(model(equal, frame=found[2:4]), model(equal))
    close(model(equal, frame=mf.collate(found[2:4])), model(equal))


def pairs(edges: Tensor, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs of all types, which depend on the order."""
    place = torch.arange(x.shape[-2], dtype=x.dtype).unsqueeze(-1)
    nodes = edges @ (x * place.cos())
    return nodes, edges * place * place.mT + place, nodes.sin().sum((-1, -2))


def graph(k: int) -> Tensor:
    """Graphs of several sizes with much symmetry, little and none."""
    if k % 3 == 0:
        return 1 - torch.eye(4 + k % 2, dtype=torch.float64)
    if k % 3 == 1:
        ring = torch.eye(6, dtype=torch.float64)
        return ring.roll(1, 0) + ring.roll(-1, 0)
    upper = (torch.rand(7, 7, generator=torch.Generator().manual_seed(k)) < 0.4).double().triu(1)
    return upper + upper.mT


def nodes(n: int) -> Tensor:
    return torch.ones(n, 2, dtype=torch.float64)


DENSE = mf.Equivariant(pairs, mf.S(), {"edges": "edge", "x": "node"}, ("node", "edge", "scalar"), mask="mask")


class Graphs(Dataset[Any]):
    """Graphs with their frames, found by workers."""

    def __init__(self, equal: bool) -> None:
        self.numbers = [1, 4, 7, 10] if equal else [0, 1, 2, 3, 5, 8]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: int) -> Any:
        edges = graph(self.numbers[i])
        return edges, nodes(len(edges)), DENSE.frame(edges, nodes(len(edges)))


def padded_batch(samples: Sequence[Any]) -> Any:
    n = max(len(edges) for edges, _, _ in samples)
    edges = torch.stack([torch.nn.functional.pad(a, (0, n - len(a), 0, n - len(a))) for a, _, _ in samples])
    x = torch.stack([torch.nn.functional.pad(x, (0, 0, 0, n - len(x))) for _, x, _ in samples])
    mask = torch.stack([torch.arange(n) < len(a) for a, _, _ in samples])
    return edges, x, mask, mf.collate([frame for _, _, frame in samples], mask=mask)


def test_matrices_with_frames_from_workers() -> None:
    for edges, x, frames in DataLoader(Graphs(equal=True), batch_size=2, num_workers=2):
        assert isinstance(frames, list)  # as the loader collates them by itself
        close(DENSE(edges, x, frame=frames), DENSE(edges, x))
    for edges, x, mask, frame in DataLoader(Graphs(equal=False), 3, num_workers=2, collate_fn=padded_batch):
        found, expected = DENSE(edges, x, mask=mask, frame=frame), DENSE(edges, x, mask=mask)
        both = mask.unsqueeze(-1) & mask.unsqueeze(-2)
        close((found[0][mask], found[1][both], found[2]), (expected[0][mask], expected[1][both], expected[2]))
        own = DENSE.frame(edges, x, mask=mask)
        assert frame.size == own.size
        assert torch.equal(frame.element, own.element)


def listed(count: int, attributes: bool) -> list[Graph]:
    source = torch.Generator().manual_seed(count)
    found = []
    for k in range(count):
        edges = graph(k) if k % 2 else molecule_like(k)[0]
        index = edges.nonzero().T
        weight = edges[index[0], index[1]] * (1 + (index.sum(0) % 2 if k == 3 else 0))
        x = torch.randint(0, 2, (len(edges), 1), generator=source).double()
        found.append((index, x if attributes else torch.zeros_like(x), weight.unsqueeze(-1)))
    return found


def messages(edge_index: Tensor, x: Tensor, weight: Tensor, batch: Tensor | None = None) -> tuple[Tensor, ...]:
    """Outputs of all types, which depend on the order of nodes and of edges."""
    along = weight * torch.arange(len(weight), dtype=x.dtype).unsqueeze(-1).cos()
    out = x.index_add(0, edge_index[1], along * x[edge_index[0]].exp())
    owner = torch.zeros(len(x), dtype=torch.int64) if batch is None else batch
    return out, along, torch.zeros(int(owner.max()) + 1, 1, dtype=x.dtype).index_add(0, owner, out.sin()), edge_index


SPARSE = mf.Equivariant(messages, mf.S(), TYPES, ("node", "edge_attr", "scalar", "edge_index"), batch="batch")


class Listed(Dataset[Any]):
    def __init__(self, graphs: list[Graph]) -> None:
        self.graphs = graphs

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, i: int) -> Any:
        return (*self.graphs[i], SPARSE.frame(*self.graphs[i]))


def joined(samples: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor, Tensor, mf.Frame]:
    index, x, weight, frames = zip(*samples, strict=True)
    sizes = torch.tensor([len(part) for part in x])
    first = sizes.cumsum(0) - sizes
    edges = torch.cat([part + start for part, start in zip(index, first, strict=True)], 1)
    batch = torch.arange(len(x)).repeat_interleave(sizes)
    return edges, torch.cat(x), torch.cat(weight), batch, mf.collate(frames)


@pytest.mark.parametrize("attributes", [False, True])
def test_listed_edges_with_frames_from_workers(attributes: bool, tmp_path: Path) -> None:
    data = Listed(listed(8, attributes))
    for *inputs, batch, frame in DataLoader(data, batch_size=4, num_workers=2, collate_fn=joined):
        expected = SPARSE(*inputs, batch=batch)
        close(SPARSE(*inputs, batch=batch, frame=frame), expected)
        own = SPARSE.frame(*inputs, batch=batch)
        assert torch.equal(frame.element, own.element)
        assert frame.size == own.size
        assert torch.equal(frame.rank, own.rank)
    torch.save([data[i] for i in range(8)], tmp_path / "graphs.pt")
    stored = torch.load(tmp_path / "graphs.pt", weights_only=False)
    *inputs, batch, _ = joined(stored)
    close(SPARSE(*inputs, batch=batch, frame=[sample[-1] for sample in stored]), SPARSE(*inputs, batch=batch))
    single = stored[3]
    close(SPARSE(*single[:3], frame=single[3]), SPARSE(*single[:3]))


def test_a_whole_batch_found_in_collate_fn() -> None:
    smooth = mf.Equivariant(backbone, mf.SE(3), frames=mf.frames.Smooth())

    def with_frame(samples: Sequence[Tensor]) -> tuple[Tensor, mf.Frame]:
        x = torch.stack(list(samples))
        return x, smooth.frame(x)

    data: Any = [clouds.generic(8, seed=k) for k in range(6)] + [clouds.cube(), clouds.cube()]
    for x, frame in DataLoader(data, batch_size=4, num_workers=2, collate_fn=with_frame):
        close(smooth(x, frame=frame), smooth(x))


def test_a_stored_frame_is_a_constant() -> None:
    x = clouds.generic(6).requires_grad_()
    constant = mf.Equivariant(backbone, mf.O(3), detach_frame=True)
    (expected,) = torch.autograd.grad(constant(x).pow(2).sum(), x)
    model = mf.Equivariant(backbone, mf.O(3))
    frame = pickle.loads(pickle.dumps(model.frame(x)))
    (found,) = torch.autograd.grad(model(x, frame=frame).pow(2).sum(), x)
    close(found, expected)
    (through,) = torch.autograd.grad(model(x, frame=model.frame(x)).pow(2).sum(), x)  # of this process: with gradients
    (own,) = torch.autograd.grad(model(x).pow(2).sum(), x)
    close(through, own)


@pytest.mark.parametrize("group", [mf.O(3), mf.S() * mf.O(3)], ids=str)
def test_a_frame_serves_other_inputs_than_its_own(group: mf.Group) -> None:
    model = mf.Equivariant(backbone, group)
    x, noisy = clouds.generic(6), clouds.generic(6) + 0.01 * clouds.generic(6, seed=5)
    frame = model.frame(x)
    expected = frame.from_canonical(backbone(frame.to_canonical(noisy)))
    close(model(noisy, frame=frame), expected)
    close(model(noisy, frame=pickle.loads(pickle.dumps(frame))), expected)


def test_moved_to_a_device() -> None:
    for model, inputs in ((DENSE, (graph(1), nodes(6))), (SPARSE, listed(2, True)[1])):
        frame = model.frame(*inputs).to("cpu")
        close(model(*inputs, frame=frame), model(*inputs))
        assert frame.to("meta").element.is_meta
    x = clouds.generic(6)
    assert mf.SE(3).frame(x).to(torch.device("meta")).element.is_meta


def test_an_argument_called_frame_goes_to_the_backbone() -> None:
    model = mf.Equivariant(lambda x, frame=1.0: x * (0 if frame is None else frame), mf.O(3))
    x = clouds.generic(6)
    close(model(x, frame=2.0), 2 * x)
    close(model(x, frame=None), 0 * x)
    close(model(x, frame=model.frame(x)), x)
    close(mf.Equivariant(backbone, mf.O(3))(x, frame=None), mf.Equivariant(backbone, mf.O(3))(x))
    with pytest.raises(TypeError, match="frame"):
        mf.Equivariant(backbone, mf.O(3))(x, frame=2.0)


X = clouds.generic(6)
MASK = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
MASKED = mf.Equivariant(lambda x, mask=None: x, mf.O(3), mask="mask")
SOFT = mf.Equivariant(backbone, mf.O(3), frames=mf.frames.Smooth())
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "group": (lambda: MASKED(X, frame=mf.SO(3).frame(X)), r"SO\(3\).*O\(3\)"),
    "rows": (lambda: MASKED(X, frame=mf.O(3).frame(X[:5])), "5 rows.*6 rows"),
    "batch axes": (lambda: MASKED(X.expand(2, 6, 3), frame=mf.O(3).frame(X)), r"axes \(\).*axes \(2,\)"),
    "mask": (
        lambda: MASKED(X.expand(2, 6, 3), mask=MASK, frame=mf.O(3).frame(X.expand(2, 6, 3), mask=MASK.flip(0))),
        "mask",
    ),
    "number": (lambda: MASKED(X.expand(2, 6, 3), frame=[mf.O(3).frame(X)]), "1 entries.*2 samples"),
    "sizes": (
        lambda: MASKED(X.expand(2, 6, 3), mask=MASK, frame=[mf.O(3).frame(X), mf.O(3).frame(X[:5])]),
        "sample 1 .* 5 rows.* 4",
    ),
    "a batch in a list": (
        lambda: MASKED(X.expand(2, 6, 3), frame=[mf.O(3).frame(X.expand(2, 6, 3))] * 2),
        "one sample",
    ),
    "other edges": (
        lambda: SPARSE(
            *listed(3, True)[1],
            frame=SPARSE.frame(*[x.flip(0) for x in listed(3, True)[1]][:1], *listed(3, True)[1][1:]),
        ),
        "other graphs",
    ),
    "poses": (lambda: SOFT(X.expand(2, 6, 3), frame=[SOFT.frame(X)] * 2), "whole batch"),
    "kinds": (
        lambda: collated(
            [mf.S().frame(graph(1), type="edge"), SPARSE.frame(*listed(2, False)[1])],
            MASKED.frame(X.expand(2, 6, 3)).layout,
        ),
        "kinds",
    ),
    "nothing": (lambda: mf.collate([]), "list of frames"),
    "groups": (lambda: mf.collate([mf.O(3).frame(X), mf.SO(3).frame(X)]), "one group"),
}


@pytest.mark.parametrize("name", WRONG)
def test_frames_that_do_not_fit(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_frames_of_another_labelling_are_refused() -> None:
    frame = pickle.loads(pickle.dumps(DENSE.frame(graph(1), nodes(6))))
    assert frame.labelling == mf.S().labelling
    frame.labelling = "a library of old"
    with pytest.raises(ValueError, match="a library of old"):
        DENSE(graph(1), nodes(6), frame=frame)
