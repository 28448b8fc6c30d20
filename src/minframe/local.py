"""Local frames: each node of a graph has the frame of its neighbourhood, for layers of message passing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from minframe.frames import Method, Unordered
from minframe.groups.base import Group
from minframe.relations import check_edge_index
from minframe.signature import Signature
from minframe.tracing import tree_map
from minframe.wrap import Equivariant

UNORDERED = Unordered()


class Local(nn.Module):
    """A layer in which every node looks at its neighbourhood in the frame of that neighbourhood; exactly equivariant.

    >>> import torch, minframe as mf
    >>> def layer(vectors, h, v, index):
    ...     messages = torch.tanh(torch.cat([vectors, h, v], -1))[:, :3]
    ...     return torch.zeros(int(index.max()) + 1, 3).index_add(0, index, messages)
    >>> model = mf.Local(layer, mf.SO(3), nodes={"h": "node", "v": "vector"}, outputs="vector")
    >>> edge_index = torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]])  # from senders to receivers
    >>> pos, h, v = torch.randn(3, 3), torch.randn(3, 4), torch.randn(3, 3)
    >>> model(edge_index, vectors=pos[edge_index[0]] - pos[edge_index[1]], h=h, v=v).shape
    torch.Size([3, 3])

    The neighbourhoods are a batch whose rows are edges, and a frame is found for each, all at once, by the same
    decomposition as for whole clouds. What senders have (``nodes``) is brought into the frame of the receiver, and what
    the layer returns is carried back: so what one node sends arrives in the frame of another as the transition
    ``g_receiver^-1 g_sender`` says, and features between layers stay in common coordinates. Nodes with one or two
    neighbours are averaged over what their neighbourhood leaves open, in closed form. Nodes without any get zeros.

    Args:
        backbone: a module or a function of the ``edges`` and ``nodes``, all with an entry per edge, ``(M, ...)``, and
            of ``index`` ``(M,)``, the number of the neighbourhood that each edge belongs to. It returns an entry for
            each neighbourhood.
        group: for example ``mf.SO(3)``, ``mf.O(3)`` or ``mf.Lorentz()``: one without translations.
        edges: types of what belongs to edges; vectors among it determine the frames. ``"node"``: numbers of each edge.
        nodes: types of what belongs to nodes, and is taken from the sender of each edge. It determines no frames, but
            ``"node"`` takes part in telling neighbours apart.
        outputs: types of what the backbone returns.
        frames: how frames are chosen; ``mf.frames.Smooth()`` for energies and forces.
    """

    def __init__(
        self,
        backbone: Callable[..., Any],
        group: Group,
        edges: Mapping[str, str] | None = None,
        nodes: Mapping[str, str] | None = None,
        outputs: Any = "scalar",
        frames: Method = UNORDERED,
    ) -> None:
        super().__init__()
        self.edges = dict(edges or {"vectors": "vector"})
        self.nodes = dict(nodes or {})
        if not Signature.of(backbone).accepts_keyword("index"):
            raise ValueError("backbone must have an argument 'index', the neighbourhood that each edge belongs to")
        allowed = frames.frame_types(group)
        frame_on = [name for name, type in self.edges.items() if type in allowed]
        frame_on += [name for name, type in self.nodes.items() if type == "node" and type in allowed]
        self.wrapped = Equivariant(
            backbone, group, self.edges | self.nodes, outputs, frame_on, batch="index", frames=frames
        )

    def forward(self, edge_index: Tensor, num_nodes: int | None = None, **values: Tensor) -> Any:
        """What the backbone returns, with an entry for each node.

        Args:
            edge_index: ``(2, M)``, from senders to receivers.
            num_nodes: by default as many as ``nodes`` have entries for or, without any, as ``edge_index`` names.
            **values: the ``edges`` and ``nodes``.
        """
        if num_nodes is None:
            known = [len(values[name]) for name in self.nodes if name in values]
            num_nodes = known[0] if known else int(edge_index.max()) + 1 if edge_index.numel() else 0
        check_edge_index(edge_index, num_nodes, "edge_index")
        sender, receiver = edge_index
        present, index = torch.unique(receiver, return_inverse=True)
        gathered = {name: x[sender] if name in self.nodes else x for name, x in values.items()}
        found = self.wrapped(**gathered, index=index)
        return tree_map(lambda y: y.new_zeros((num_nodes, *y.shape[1:])).index_copy(0, present, y), found)
