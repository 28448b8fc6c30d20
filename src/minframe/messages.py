"""What layers on a graph share: the frames of its neighbourhoods, and what is shown of edges and senders in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from minframe.cloud import Input
from minframe.frame import Frame, LinearFrame
from minframe.frame.weighted import WeightedFrame
from minframe.layout import Ragged
from minframe.layout.expand import RaggedExpansion
from minframe.linalg.carry import Pairs, carry
from minframe.signature import Path
from minframe.types import Type
from minframe.wrap import Equivariant


@dataclass(frozen=True)
class View:
    """The rows that a backbone is shown in a frame: edges, repeated for each pose.

    Attributes:
        sender: ``(M',)``, the node that sends along each.
        pairs: the sender and the number of the pose of each.
        elements: the group elements that bring them there; ``None``, if these are not one for each pose.
        matrices: of the elements, ``(K, d, d)``, found once for each type.
    """

    sender: Tensor
    pairs: Pairs
    elements: LinearFrame | None
    matrices: dict[Type, Tensor | None] = field(default_factory=dict)

    @staticmethod
    def of(frame: Frame, sender: Tensor) -> View:
        if isinstance(frame, WeightedFrame) and isinstance(frame.expansion, RaggedExpansion):
            sender, frame = sender[frame.expansion.entry], frame.elements
        layout = frame.layout
        assert isinstance(layout, Ragged)
        return View(sender, Pairs.at(sender, layout.index), frame if isinstance(frame, LinearFrame) else None)

    def inward(self, kind: Type) -> Tensor | None:
        """The matrices for vectors of a type; ``None``, if it takes more than a matrix."""
        if self.elements is None or kind.core_ndim != 1 or kind.parity:
            return None
        if kind not in self.matrices:
            self.matrices[kind] = self.elements.inward(kind)
        return self.matrices[kind]


@dataclass(frozen=True)
class Neighbourhoods:
    """The frames of all neighbourhoods of a graph, for several layers.

    Attributes:
        edge_index: ``(2, M)``, from senders to receivers.
        num_nodes: of the graph.
        present: ``(B,)``, the nodes that have neighbours.
        index: ``(M,)``, the neighbourhood that each edge belongs to, ``present[index]`` being its receiver.
        frame: of all of them; several, if the method averages over several.
        rows: what determined the frame.
        needs_features: whether features of nodes and edges have a part in the frame, so that each layer finds it anew.
    """

    edge_index: Tensor
    num_nodes: int
    present: Tensor
    index: Tensor
    frame: Frame | Sequence[Frame]
    rows: Sequence[Input]
    needs_features: bool
    _views: dict[bool, View] = field(default_factory=dict, repr=False)
    _poses: dict[tuple[str, str, bool], tuple[Tensor, int, Tensor]] = field(default_factory=dict, repr=False)

    def view(self, frame: Frame) -> View:
        """The view of a frame, kept for the next layer if it is the common one."""
        if frame is not self.frame:
            return View.of(frame, self.edge_index[0])
        grad = torch.is_grad_enabled()
        if grad not in self._views:
            self._views[grad] = View.of(frame, self.edge_index[0])
        return self._views[grad]

    def known(self, name: str, type: str, x: Tensor) -> Tensor | None:
        """The pose of a tensor of edges in the common frame, if it was kept and the tensor has not changed since."""
        given, version, pose = self._poses.get((name, type, torch.is_grad_enabled()), (None, 0, None))
        return pose if given is x and version == x._version else None

    def keep(self, name: str, type: str, x: Tensor, pose: Tensor) -> None:
        """Keep a pose for the next layer."""
        self._poses[name, type, torch.is_grad_enabled()] = x, x._version, pose


@dataclass(frozen=True)
class OfNodes:
    """A tensor with an entry for each node, ``(num_nodes, ...)``, to be taken from the sender of each edge."""

    x: Tensor
    found: Neighbourhoods


@dataclass(frozen=True)
class OfEdges:
    """A tensor with an entry for each edge, ``(M, ...)``."""

    x: Tensor
    found: Neighbourhoods


class Messages(Equivariant):
    """A backbone that is shown, for each edge, what belongs to it and to its sender, in the frame of its receiver."""

    def _shown(self, frame: Frame, path: Path, type: str, x: Any) -> Any:
        if isinstance(x, OfNodes):
            return self._sent(frame, path, type, x)
        if not isinstance(x, OfEdges):
            return super()._shown(frame, path, type, x)
        pose = x.found.known(path[0], type, x.x) if frame is x.found.frame else None
        if pose is None:
            self.group.check(x.x, type, ".".join(path), frame.layout)
            pose = super()._shown(frame, path, type, x.x)
            if frame is x.found.frame:
                x.found.keep(path[0], type, x.x, pose)
        return pose

    def _sent(self, frame: Frame, path: Path, type: str, given: OfNodes) -> Tensor:
        view, kind = given.found.view(frame), self.group.types[type]
        if len(given.x) != given.found.num_nodes:
            raise ValueError(
                f"{'.'.join(path)} must have an entry for each of {given.found.num_nodes} nodes, got shape "
                f"{tuple(given.x.shape)}"
            )
        matrix = view.inward(kind)
        if matrix is not None:
            self.group.check(given.x, type, ".".join(path), frame.shown_layout)
            return carry(given.x, matrix, view.pairs)
        x = given.x[view.sender]  # already repeated for each pose
        self.group.check(x, type, ".".join(path), frame.shown_layout)
        return (view.elements or frame).shown(x, kind, own=False)
