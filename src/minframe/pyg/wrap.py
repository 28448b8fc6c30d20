"""``Equivariant`` and ``Invariant`` for models of PyTorch Geometric."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from minframe import wrap
from minframe.frame import Frame
from minframe.frames import Method, Unordered
from minframe.groups.base import Group
from minframe.signature import Signature

#: the types of attributes that have a fixed meaning in PyTorch Geometric
TYPES = {
    "pos": "point",
    "x": "node",
    "z": "node",
    "edge_index": "edge_index",
    "edge_attr": "edge_attr",
    "edge_weight": "edge_attr",
}
FRAME = "frame"  # the attribute that ``AddFrame`` adds
FRAME_PREFIX = "frame_"  # prefix of the attributes that ``Canonicalize`` keeps
IGNORED_ATTRIBUTES = ("y", "batch", "ptr")  # attributes that no frame depends on and that are never moved
GRAPH_KEY = "the graph"  # the key of the data among the values of a call
COUNT_KEY = "the number of graphs"  # and of what its batch vector counts, if the data knows it
UNORDERED = Unordered()


class Equivariant(wrap.Equivariant):
    """A model of PyTorch Geometric made exactly equivariant to ``group``; the model itself stays as it is.

    >>> import torch, minframe as mf, minframe.pyg
    >>> from torch_geometric.data import Batch, Data
    >>> from torch_geometric.nn import PointTransformerConv
    >>> model = mf.pyg.Equivariant(PointTransformerConv(8, 3), mf.SE(3), outputs="vector")
    >>> edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    >>> graph = lambda: Data(x=torch.randn(5, 8), pos=torch.randn(5, 3), edge_index=edges)
    >>> model(Batch.from_data_list([graph(), graph()])).shape
    torch.Size([10, 3])

    A model with one required argument, such as ``forward(data)``, is given a copy of the data with the attributes that
    have a type in their canonical pose. Any other model, such as ``SchNet``, is given the attributes that its arguments
    are named after: ``forward(z, pos, batch)``. Where the data has frames, by ``mf.pyg.AddFrame``, these are used.

    Args:
        backbone: the model.
        group: for example ``mf.E(3)``.
        inputs: types of attributes, besides (or instead of) those that are known: ``pos`` is a ``"point"``, ``x`` and
            ``z`` are ``"node"``, ``edge_index`` is an ``"edge_index"``, ``edge_attr`` and ``edge_weight`` are
            ``"edge_attr"``. Types of attributes that the data does not have are ignored, and so is ``y``.
        outputs: how the outputs move: one type, or a structure of types that matches the result of the model.
        frame_on: the attributes that determine the frame; by default all that can.
        frames: how the group elements are chosen. The default does not depend on the order of the nodes. For energies
            and forces use ``mf.frames.Smooth()``.
        detach_frame: let no gradient flow through the choice of the frame.
        prior: as of ``mf.Equivariant``: rotates canonical poses to the orientation on which the model was trained.
    """

    def __init__(
        self,
        backbone: Callable[..., Any],
        group: Group,
        inputs: Mapping[str, Any] | None = None,
        outputs: Any = "vector",
        frame_on: str | Sequence[str] | None = None,
        frames: Method = UNORDERED,
        detach_frame: bool = False,
        prior: Tensor | Callable[..., Any] | None = None,
    ) -> None:
        if inputs is not None and not isinstance(inputs, Mapping):
            raise TypeError(
                "inputs must be a dict from attributes of the data to types, such as {'vel': 'vector'}, got "
                f"{inputs!r}"
            )
        known = {name: kind for name, kind in TYPES.items() if kind in getattr(group, "types", TYPES)}
        types = known | dict(inputs or {})
        how = frames, detach_frame, prior, COUNT_KEY
        super().__init__(backbone, group, types, outputs, frame_on, None, "batch", *how)
        self.named = _arguments(backbone, set(types))

    def _signature(self, backbone: Callable[..., Any]) -> Signature:
        return Signature((), frozenset(), any_positional=False, any_keyword=True)  # any attribute can have a type

    def _named(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        data = args[0] if len(args) == 1 and not kwargs else None
        if not isinstance(data, Data):
            got = ", ".join([*(type(x).__name__ for x in args), *kwargs]) or "nothing"
            raise TypeError(
                f"a model wrapped by minframe.pyg takes one Data or Batch of PyTorch Geometric, got {got}; tensors go "
                "to minframe.Equivariant, without pyg"
            )
        values: dict[str, Any] = {
            name: x
            for name, x in data.to_dict().items()
            if name in self.inputs
            or (isinstance(x, Tensor) and name not in IGNORED_ATTRIBUTES and not name.startswith(FRAME_PREFIX))
        }
        return [], values | {"batch": batch_of(data), COUNT_KEY: count_of(data), GRAPH_KEY: data}

    def _given(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Frame | Sequence[Frame] | None:
        given = super()._given(args, kwargs)
        data = args[0] if given is None and args else None
        return data[FRAME] if isinstance(data, Data) and FRAME in data else given

    def _call(self, positional: Sequence[str], values: dict[str, Any]) -> Any:
        count = values.pop(COUNT_KEY)
        data = shown_data(values.pop(GRAPH_KEY), values, count)
        if self.named is None:
            return self.backbone(data)
        found = data.to_dict() | {"batch": values["batch"]}
        missing = [name for name, required in self.named.items() if required and name not in found]
        if missing:
            raise ValueError(
                f"the model has the argument {missing[0]!r}, but the data has no attribute of this name; it has: "
                f"{', '.join(sorted(found))}"
            )
        return self.backbone(**{name: found[name] for name in self.named if name in found})


class Invariant(Equivariant):
    """A model of PyTorch Geometric made exactly invariant to ``group``: ``Equivariant`` with ``outputs="scalar"``."""

    def __init__(
        self,
        backbone: Callable[..., Any],
        group: Group,
        inputs: Mapping[str, Any] | None = None,
        frame_on: str | Sequence[str] | None = None,
        frames: Method = UNORDERED,
        detach_frame: bool = False,
        prior: Tensor | Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(backbone, group, inputs, "scalar", frame_on, frames, detach_frame, prior)


def batch_of(data: Data) -> Tensor:
    """The batch vector, zeros for a single graph."""
    batch = data.batch
    if isinstance(batch, Tensor):
        return batch
    device = next((x.device for x in data.to_dict().values() if isinstance(x, Tensor)), None)
    return torch.zeros(data.num_nodes or 0, dtype=torch.int64, device=device)


def count_of(data: Data) -> int | None:
    """The number of graphs, if it is known without reading the batch vector."""
    if data.batch is None:
        return 1
    ptr = data.get("ptr")
    return len(ptr) - 1 if isinstance(ptr, Tensor) else None


def shown_data(data: Data, values: Mapping[str, Any], count: int | None) -> Data:
    """A copy of the data with these attributes, its batch vector among them, that of ``count`` graphs if known."""
    batch = values["batch"]
    shown: Data = copy.copy(data)
    if FRAME in shown:  # that of the graph as it was
        del shown[FRAME]
    if batch.shape != batch_of(data).shape and not isinstance(data, Batch):  # several poses of one graph are a batch
        shown = Batch(_base_cls=type(data), **data.to_dict())
    for name, x in values.items():
        if name != "batch":
            shown[name] = x
    if isinstance(shown, Batch) or data.batch is not None:
        count = int(batch.max()) + 1 if count is None else count
        sizes = batch.new_zeros(count).index_add_(0, batch, torch.ones_like(batch))  # ``bincount`` would be waited for
        shown.batch = batch
        shown.ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
        if isinstance(shown, Batch):
            shown._num_graphs = len(sizes)
    if "num_nodes" in shown:
        shown.num_nodes = len(batch)
    return shown


def _arguments(model: Callable[..., Any], attributes: set[str]) -> dict[str, bool] | None:
    """The arguments that are named after attributes, and whether they are required; ``None``: it takes the data."""
    try:
        parameters = inspect.signature(model.forward if isinstance(model, nn.Module) else model).parameters.values()
    except (TypeError, ValueError):
        return None
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = {p.name: p.default is p.empty for p in parameters if p.kind in by_name}
    required = [name for name, needed in named.items() if needed]
    several = len(required) > 1 or (len(required) == 1 and required[0] in attributes)
    return named if several else None
