"""``Canonicalize``: the canonical pose as a transform of data sets and data loaders."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import BaseTransform

from minframe.dtypes import wide
from minframe.frame import Frame, LinearFrame
from minframe.frame.product import ProductFrame, mean_of_pairs
from minframe.frame.weighted import WeightedFrame
from minframe.frames import Method, Minimal, Unordered
from minframe.groups.base import Group
from minframe.groups.linear import LinearGroup
from minframe.pyg.wrap import FRAME, Equivariant, batch_of
from minframe.signature import leaves
from minframe.types import EDGE_ATTR, EDGE_INDEX

UNORDERED = Unordered()
Levels = tuple[tuple[Tensor, Tensor], ...]


class Canonicalize(BaseTransform):  # type: ignore[misc]
    """Graphs in their canonical pose, as a ``transform`` or a ``pre_transform``: workers do it, once, beside training.

    >>> import torch, minframe as mf, minframe.pyg
    >>> from torch_geometric.data import Data
    >>> canonical = mf.pyg.Canonicalize(mf.SE(3))
    >>> graph = Data(pos=torch.randn(9, 3, dtype=torch.float64))
    >>> turned = Data(pos=mf.SE(3).act(mf.SE(3).random(dtype=torch.float64), graph.pos))
    >>> torch.allclose(canonical(graph).pos, canonical(turned).pos)
    True

    Invariant outputs of a model need nothing else. Other outputs are carried back by the frame, which stays on the
    data and goes into batches: ``canonical.from_canonical(y, batch, "vector")``. It is kept as ``frame_linear``
    ``(1, d, d)``, ``frame_shift`` ``(1, d)`` and ``frame_rank`` ``(1,)``, and ``frame_symmetry``, which is empty unless
    the graph has a symmetry to average over.

    Args:
        group: a group that acts on coordinates, such as ``mf.E(3)``.
        inputs: types of attributes, as for ``mf.pyg.Equivariant``.
        frame_on: the attributes that determine the frame; by default all that can.
        frames: how the group element is chosen: ``mf.frames.Unordered()`` or ``Minimal()``, which choose one.
    """

    def __init__(
        self,
        group: Group,
        inputs: Mapping[str, Any] | None = None,
        frame_on: str | Sequence[str] | None = None,
        frames: Method = UNORDERED,
    ) -> None:
        if not isinstance(group, LinearGroup):
            raise TypeError(f"group must be one that acts on coordinates, such as mf.E(3), got {group!r}")
        self.group = group
        self._wrapped = Equivariant(_itself, group, inputs, "constant", frame_on, frames)
        moving = [".".join(path) for path in self._wrapped.frame_on if _type(self._wrapped, path) in group.frame_types]
        self._rows = Equivariant(_itself, group, inputs, "constant", moving, Minimal())

    def forward(self, data: Data) -> Data:
        if isinstance(data, Batch):
            raise TypeError(
                "Canonicalize takes one graph at a time, as transform= or pre_transform= of a data set; a model that "
                "is to take batches is wrapped in mf.pyg.Equivariant"
            )
        frame = self._wrapped.frame(data)
        if isinstance(frame, WeightedFrame):
            raise TypeError(
                f"mf.frames.{self._wrapped.frames!r} shows several poses, and Canonicalize keeps one: use "
                "mf.frames.Unordered() here, or mf.pyg.Equivariant with smooth frames in the model"
            )
        linear = frame.linear if isinstance(frame, ProductFrame) else frame
        assert isinstance(linear, LinearFrame)
        shown: Data = self._wrapped._pass(frame, [], self._wrapped._named((data,), {})[1])
        if linear.linear is not None:
            shown.frame_linear = linear.linear.detach()
        if linear.shift is not None:
            shown.frame_shift = linear.shift.detach()
        shown.frame_rank = linear.rank
        shown.frame_symmetry = _levels(frame)
        return shown

    def from_canonical(self, y: Tensor, data: Data, type: str = "vector") -> Tensor:
        """The output of a model for canonical poses, averaged and carried back to the original poses of the graphs.

        Args:
            y: with an entry per node, ``(N, ..., d)``, or per graph.
            data: the graph or batch that the model was given.
            type: of ``y``; none that has an entry per edge.
        """
        if "frame_rank" not in data:
            raise ValueError("data has no frame: it did not come through Canonicalize, as the transform of a data set")
        kind = self.group.type(type)
        if kind.nodes == 2 or kind in (EDGE_INDEX, EDGE_ATTR):
            raise ValueError(
                f"outputs of type {type!r} are not carried back: put the model in mf.pyg.Equivariant instead"
            )
        batch = batch_of(data)
        moved = bool(kind.core_ndim or kind.parity)
        if moved and bool((data.frame_rank < self.group.d).any()):
            # With h in the stabiliser of the pose c and c = g c', the elements g^-1 h g are that of c': the average
            # over the frame of c there and back, g^-1 first, is the one over its stabiliser, whichever g was found.
            frame = self._rows.frame(data)
            y = frame.from_canonical(frame.to_canonical(y, type), type)
        per_node = len(y) == len(batch)
        for k, levels in enumerate(data.frame_symmetry if isinstance(data, Batch) else [data.frame_symmetry]):
            if levels and (per_node or moved):
                rows = (batch == k).nonzero().squeeze(-1) if per_node else torch.tensor([k], device=y.device)
                x = wide(y[rows])
                for permutations, matrices in reversed(levels):
                    x = mean_of_pairs(permutations, matrices, x if per_node else x[0], kind, int(per_node))
                    x = x if per_node else x.unsqueeze(0)
                y = y.index_copy(0, rows, x.to(y.dtype))
        if not moved:
            return y
        linear, shift = (data.get(name) for name in ("frame_linear", "frame_shift"))
        g = self.group.assemble(linear, shift)
        return self.group.act(g[batch] if per_node else g, y, type)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group}, frames={self._wrapped.frames!r})"


class AddFrame(BaseTransform):  # type: ignore[misc]
    """Graphs with their frame beside them, as a ``transform`` or a ``pre_transform``; all else stays as it is.

    >>> import torch, minframe as mf, minframe.pyg
    >>> from torch_geometric.data import Batch, Data
    >>> from torch_geometric.nn import GIN
    >>> model = mf.pyg.Equivariant(GIN(4, 16, 2), mf.S(), outputs="node")
    >>> graph = Data(x=torch.randn(5, 4), edge_index=torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]))
    >>> with_frame = mf.pyg.AddFrame(mf.S())(graph)
    >>> torch.allclose(model(with_frame), model(graph), atol=1e-6)
    True

    The frame is the attribute ``frame``, of a batch a list of them. ``mf.pyg.Equivariant`` uses it instead of finding
    one, and carries all outputs back by it. It is a constant: gradients with respect to positions do not flow through
    it.

    Args:
        group: any group, the same as that of the model.
        inputs: types of attributes, as for ``mf.pyg.Equivariant``.
        frame_on: the attributes that determine the frame; by default all that can.
        frames: how the group element is chosen: ``mf.frames.Unordered()`` or ``Minimal()``, which choose one.
    """

    def __init__(
        self,
        group: Group,
        inputs: Mapping[str, Any] | None = None,
        frame_on: str | Sequence[str] | None = None,
        frames: Method = UNORDERED,
    ) -> None:
        self._wrapped = Equivariant(_itself, group, inputs, "constant", frame_on, frames)

    def forward(self, data: Data) -> Data:
        if isinstance(data, Batch):
            raise TypeError("AddFrame takes one graph at a time, as transform= or pre_transform= of a data set")
        frame = self._wrapped.frame(data)
        if isinstance(frame, WeightedFrame):
            raise TypeError(
                f"mf.frames.{self._wrapped.frames!r} shows several poses, whose frames make up no batch: use "
                "mf.frames.Unordered(), or find frames in the model"
            )
        with_frame: Data = copy.copy(data)
        with_frame[FRAME] = frame
        return with_frame

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wrapped.group}, frames={self._wrapped.frames!r})"


def _itself(data: Data) -> Data:
    return data


def _type(wrapped: Equivariant, path: tuple[str, ...]) -> str:
    return dict(leaves(wrapped.inputs))[path]


def _levels(frame: Frame) -> Levels:
    """The symmetry that is left to average over, as pairs of permutations of nodes and matrices, level by level."""
    if not isinstance(frame, ProductFrame):
        return ()
    order = frame.order.cpu()
    n = len(order)

    def of_nodes(permutations: Tensor) -> Tensor:  # the row at position p goes where position permutation[p] is
        return torch.empty_like(permutations).index_copy(-1, order, order[permutations])

    return tuple(
        (of_nodes(level.permutations[:, :n]), level.matrices) for pairs in frame.pairs for level in pairs.levels
    )
