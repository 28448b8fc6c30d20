"""Local frames: each node of a graph has the frame of its neighbourhood, for layers of message passing.

**Cutoff.** With a cutoff ``c`` neighbours enter and leave, and outputs must not jump when they do. The rows that
determine frames are then not the vectors ``v`` themselves, but, with ``r = |v|``,

    v (1 - r^2 / c^2)^4 / (r^2 + (c / 16)^2)^(1/2),

which start from zero with three continuous derivatives. They get longer as neighbours come near, so that the nearest
ones carry the frame. Of points with a uniform density the distances of the nearest differ more than those of the
furthest, so that fewer of them share the weight: smooth frames of 13 neighbours have 1.1 poses instead of 2.8, both at
a sharpness of 32.

**Layers.** Frames depend on the vectors alone, and are computed once for all layers. Only where a neighbourhood is
symmetric do unordered frames distinguish its neighbours by their features, anew in each layer. Between layers, features
that are equal by symmetry differ by rounding: those that differ by at most ``eps^(3/4)`` of the largest are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from minframe.checks import check_edge_index, check_tensor
from minframe.cloud import Input
from minframe.frame import Frame
from minframe.frames import Method, Smooth
from minframe.groups.base import Group
from minframe.groups.isometry import Isometry
from minframe.linalg.alike import alike
from minframe.messages import Messages, Neighbourhoods, OfEdges, OfNodes
from minframe.signature import Signature
from minframe.tracing import tree_map

SMOOTH = Smooth(sharpness=64.0, moments=False)  # distances of nearest neighbours differ enough for this sharpness
ENVELOPE_EXPONENT = 4  # the exponent of the envelope
MIN_DISTANCE = 1 / 16  # distance, relative to the cutoff, below which rows get shorter again
UNMOVED_TYPES = ("node", "scalar")  # types of numbers without coordinates


class Local(nn.Module):
    """A layer in which every node looks at its neighbourhood in the frame of that neighbourhood; exactly equivariant.

    >>> import torch, minframe as mf
    >>> def layer(vectors, h, v, index):
    ...     messages = torch.tanh(torch.cat([vectors, h, v], -1))[:, :3]
    ...     return torch.zeros(int(index.max()) + 1, 3).index_add(0, index, messages)
    >>> model = mf.Local(layer, mf.SO(3), nodes={"h": "node", "v": "vector"}, outputs="vector")
    >>> edge_index = torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]])  # from senders to receivers
    >>> pos, h, v = torch.randn(3, 3), torch.randn(3, 4), torch.randn(3, 3)
    >>> vectors = pos[edge_index[0]] - pos[edge_index[1]]
    >>> model(edge_index, vectors=vectors, h=h, v=v).shape
    torch.Size([3, 3])

    The neighbourhoods are a batch whose rows are edges, and a frame is found for each, all at once, by the same
    decomposition as for whole clouds. What senders have (``nodes``) is brought into the frame of the receiver, and what
    the layer returns is carried back: so what one node sends arrives in the frame of another as the transition
    ``g_receiver^-1 g_sender`` says, and features between layers stay in common coordinates. Nodes with one or two
    neighbours are averaged over what their neighbourhood leaves open, in closed form. Nodes without any get zeros.

    Frames depend on the vectors, so that layers share them:

    >>> found = model.neighbourhoods(edge_index, vectors=vectors)
    >>> v = model(found, vectors=vectors, h=h, v=v)
    >>> v = model(found, vectors=vectors, h=h, v=v)

    Args:
        backbone: a module or a function of the ``edges`` and ``nodes``, all with an entry per edge, ``(M, ...)``, and
            of ``index`` ``(M,)``, the number of the neighbourhood that each edge belongs to. It returns an entry for
            each neighbourhood.
        group: for example ``mf.SO(3)``, ``mf.O(3)`` or ``mf.Lorentz()``: one without translations.
        edges: types of what belongs to edges; vectors among it determine the frames. ``"node"``: numbers of each edge.
        nodes: types of what belongs to nodes, and is taken from the sender of each edge. It determines no frames.
        outputs: types of what the backbone returns for each neighbourhood; ``"node"`` and ``"scalar"``: numbers.
        frames: how frames are chosen. ``mf.frames.Minimal()`` depends on the order of the edges, and is the fastest.
            Under ``mf.frames.Unordered()`` numbers of nodes and edges distinguish neighbours that a symmetry of the
            neighbourhood maps to each other.
        cutoff: length from which on vectors of ``edges`` have no part in the frames: outputs do not jump where
            neighbours come and go, if messages go to zero there, too. The first vector of ``edges`` has this length.
            For groups that leave lengths alone.
    """

    def __init__(
        self,
        backbone: Callable[..., Any],
        group: Group,
        edges: Mapping[str, str] | None = None,
        nodes: Mapping[str, str] | None = None,
        outputs: Any = "scalar",
        frames: Method = SMOOTH,
        cutoff: float | None = None,
    ) -> None:
        super().__init__()
        self.group = group
        self.frames = frames
        self.edges = dict(edges or {"vectors": "vector"})
        self.nodes = dict(nodes or {})
        self.cutoff = cutoff
        if not Signature.of(backbone).accepts_keyword("index"):
            raise ValueError("backbone must have an argument 'index', the neighbourhood that each edge belongs to")
        if cutoff is not None and not (isinstance(group, Isometry) and group.q == 0):
            raise ValueError(
                f"cutoff is a length, and needs a group that leaves it alone, such as mf.O(3), got {group}"
            )
        if cutoff is not None and not cutoff > 0:
            raise ValueError(f"cutoff must be a positive length, got {cutoff!r}")
        allowed = frames.frame_types(group)
        self.rows = [name for name, kind in self.edges.items() if kind in allowed and kind not in UNMOVED_TYPES]
        types = {name: "node" if kind == "scalar" else kind for name, kind in (self.edges | self.nodes).items()}
        outputs = tree_map(lambda type: "scalar" if type == "node" else type, outputs)  # one for each neighbourhood
        self.wrapped = Messages(backbone, group, types, outputs, self.rows, batch="index", frames=frames)
        if cutoff is not None:
            self.wrapped.frame_on = ()  # the rows determine the frame, not the vectors that the backbone is shown

    def neighbourhoods(self, edge_index: Tensor, num_nodes: int | None = None, **values: Tensor) -> Neighbourhoods:
        """The frames of all neighbourhoods, which any ``Local`` of this group takes in place of ``edge_index``.

        Args:
            edge_index: ``(2, M)``, from senders to receivers.
            num_nodes: by default as many as ``nodes`` have entries for or, without any, as ``edge_index`` names.
            **values: the vectors of ``edges``; others are not needed.
        """
        check_tensor(edge_index, "edge_index")
        num_nodes = self._num_nodes(edge_index, num_nodes, values)
        check_edge_index(edge_index, "edge_index", num_nodes)
        present, index = _numbered(edge_index[1], num_nodes)
        missing = [name for name in self.rows if name not in values]
        if missing:
            raise TypeError(f"the frames of neighbourhoods are determined by {missing[0]}, which was not given")
        for name in self.rows:
            if len(values[name]) != edge_index.shape[1]:
                raise ValueError(
                    f"{name} must have a row for each of the {edge_index.shape[1]} edges, got {len(values[name])}: "
                    "give vectors of edges, such as pos[sender] - pos[receiver]"
                )
        inputs = [Input(name, values[name], self.edges[name]) for name in self.rows]
        if self.cutoff is not None:
            inputs = _faded(inputs, self.cutoff)
        frame = self.frames(self.group, self.group.cloud(inputs, batch=index))
        return Neighbourhoods(edge_index, num_nodes, present, index, frame, inputs, self.frames.needs_features(frame))

    def _frame(self, found: Neighbourhoods, values: Mapping[str, Tensor]) -> Frame | Sequence[Frame]:
        """The frame for this layer: the one found, unless features of nodes and edges have a part in it."""
        types = self.edges | self.nodes
        features = [
            Input(name, _alike(x)[found.edge_index[0]] if name in self.nodes else _alike(x), "node")
            for name, x in values.items()
            if found.needs_features and types.get(name) in UNMOVED_TYPES
        ]
        if not features:
            return found.frame
        return self.frames(self.group, self.group.cloud([*found.rows, *features], batch=found.index))

    def forward(self, edge_index: Tensor | Neighbourhoods, num_nodes: int | None = None, **values: Tensor) -> Any:
        """What the backbone returns, with an entry for each node.

        Args:
            edge_index: ``(2, M)``, from senders to receivers; or what ``neighbourhoods`` returned.
            num_nodes: as of ``neighbourhoods``.
            **values: the ``edges`` and ``nodes``.
        """
        found = edge_index
        if not isinstance(found, Neighbourhoods):
            if isinstance(found, Tensor) and found.shape == (2, 0):
                return self._without_edges(found, num_nodes, values)
            found = self.neighbourhoods(found, num_nodes, **values)
        given: dict[str, Any] = {"index": found.index}
        for name, x in values.items():
            if name not in self.edges and name not in self.nodes:
                raise TypeError(f"{name!r} is named neither in edges= nor in nodes=: {[*self.edges, *self.nodes]}")
            given[name] = (OfNodes if name in self.nodes else OfEdges)(x, found)
        outputs = self.wrapped.averaged(self._frame(found, values), [], given)

        def of_all(y: Tensor) -> Tensor:
            return y.new_zeros((found.num_nodes, *y.shape[1:])).index_copy(0, found.present, y)

        in_order = len(found.index) > len(found.present) == found.num_nodes
        return outputs if in_order else tree_map(of_all, outputs)

    def _without_edges(self, edge_index: Tensor, num_nodes: int | None, values: Mapping[str, Tensor]) -> Any:
        """Zeros for each node, as for every node without neighbours, of the shapes that one with a neighbour has."""
        count = self._num_nodes(edge_index, num_nodes, values)
        one = {name: x.new_zeros((1, *x.shape[1:])) for name, x in values.items()}
        outputs = self.forward(edge_index.new_zeros(2, 1), 1, **one)
        return tree_map(lambda y: y.new_zeros((count, *y.shape[1:])), outputs)

    def _num_nodes(self, edge_index: Tensor, given: int | None, values: Mapping[str, Tensor]) -> int:
        if given is not None:
            return given
        known = [len(values[name]) for name in self.nodes if name in values]
        return known[0] if known else int(edge_index.max()) + 1 if edge_index.numel() else 0


def envelope(vectors: Tensor, cutoff: float) -> Tensor:
    """``(1 - r^2 / c^2)^4`` of vectors ``(..., d)``: from one to zero at the cutoff, with three derivatives there.

    Models should multiply messages with it, or with a similar function, so that outputs do not jump as neighbours
    enter.
    """
    return (1 - vectors.square().sum(-1) / cutoff**2).clamp_min(0) ** ENVELOPE_EXPONENT


def _faded(inputs: Sequence[Input], cutoff: float) -> list[Input]:
    """The rows that frames are taken of; see above."""
    first, *others = inputs
    fade = envelope(first.x, cutoff).unsqueeze(-1)
    near = first.x / (first.x.square().sum(-1, keepdim=True) + (MIN_DISTANCE * cutoff) ** 2).sqrt()
    return [first._replace(x=near * fade), *(other._replace(x=other.x * fade) for other in others)]


def _numbered(receiver: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The nodes that receive something, and the number among them of each edge's receiver.

    Where no node receives twice they are numbered like the edges, so that an entry per edge is one per neighbourhood.
    """
    some = torch.zeros(num_nodes, dtype=torch.bool, device=receiver.device).index_fill(0, receiver, True)
    present = some.nonzero().squeeze(-1)
    if len(present) == len(receiver):
        return receiver, torch.arange(len(receiver), device=receiver.device)
    return present, receiver if len(present) == num_nodes else (some.cumsum(0) - 1)[receiver]


@torch.no_grad()
def _alike(x: Tensor) -> Tensor:
    """Numbers ``(n,)`` of classes of entries that are equal up to rounding, in the order of their values."""
    if not x.is_floating_point():
        return x
    size = float(x.abs().amax()) if x.numel() else 0.0
    return alike(x, torch.finfo(x.dtype).eps ** 0.75 * size)
