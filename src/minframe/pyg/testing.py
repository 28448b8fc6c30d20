"""Tests of wrapped models of PyTorch Geometric, on the data that they are given."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from minframe import testing
from minframe.groups.linear import LinearGroup
from minframe.pyg.wrap import FRAME, Equivariant, batch_of


def assert_equivariant(model: Equivariant, data: Data, **options: Any) -> None:
    """``mf.testing.assert_equivariant`` for a wrapped model: attributes that its group moves are moved.

    >>> import torch, minframe as mf, minframe.pyg
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import PointTransformerConv
    >>> model = mf.pyg.Equivariant(PointTransformerConv(8, 3), mf.SE(3), outputs="vector")
    >>> edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    >>> mf.pyg.assert_equivariant(model, Data(x=torch.randn(5, 8), pos=torch.randn(5, 3), edge_index=edges))

    Args:
        model: for a group that acts on coordinates.
        data: a graph or a batch of graphs.
        **options: those of ``mf.testing.assert_equivariant``, such as ``rtol`` and ``degenerate``.
    """
    group = model.group
    if not isinstance(group, LinearGroup):
        raise TypeError(f"the group of the model must be one that acts on coordinates, such as mf.E(3), got {group}")
    types = {}
    for name, type in model.inputs.items():
        if name in data and isinstance(type, str) and (group.type(type).core_ndim or group.type(type).parity):
            types[name] = type

    def of_tensors(batch: Tensor, **tensors: Tensor) -> Any:
        moved = data.clone()
        if FRAME in moved:  # of the data as they were
            del moved[FRAME]
        moved.update(tensors)
        return model(moved)

    tensors = {name: data[name] for name in types}
    options = {"inputs": types, "outputs": model.outputs, "batch": batch_of(data)} | options
    testing.assert_equivariant(of_tensors, group, **tensors, **options)
