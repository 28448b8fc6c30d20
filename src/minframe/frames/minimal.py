"""The minimal frame: one canonical pose, one forward pass, the stabiliser averaged in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from minframe.cloud import Cloud
from minframe.frame import Frame, LinearFrame
from minframe.frame.orbit import OrbitFrame
from minframe.frame.permutation import PermutationFrame
from minframe.frame.product import ProductFrame
from minframe.frames.coset import random_member
from minframe.frames.method import Method
from minframe.frames.orders import ordered_frame, random_order, relabelled
from minframe.groups.base import Group
from minframe.groups.finite import Finite
from minframe.groups.linear import LinearGroup
from minframe.groups.permutation import S
from minframe.groups.product import Product
from minframe.labelling.action import take_nodes

MODES = ("average", "sample")


@dataclass(frozen=True, repr=False)
class Minimal(Method):
    """The default of ``Equivariant``: exact, at the cost of one forward pass.

    The frame of a linear group depends on the order of the rows, which decides between rows that are equally suitable.
    For backbones on sets (GNNs, transformers) use ``Unordered``.

    Args:
        mode: ``"average"`` over the symmetry of the input itself, in closed form. ``"sample"`` takes one random element
            of the frame instead: outputs may break the symmetry of the input, and are equivariant in distribution. On
            inputs without symmetry both are the same.
        seed: of the random choices.
        generator: of the random choices.
    """

    mode: str = "average"
    ignores_row_order: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in MODES:
            raise ValueError(f"mode must be 'average' or 'sample', got {self.mode!r}")

    def __call__(self, group: Group, cloud: Cloud) -> Frame:
        if self.mode == "average":
            return self._frame(group, cloud)
        if isinstance(group, Finite):
            chosen = group.frame_of(cloud)
            weights = chosen.choice.weights
            return chosen.sampled(self._uniform(*weights.shape, device=weights.device))
        relations = cloud.relations
        if relations is not None and relations.edge_index is not None:
            raise self._unable(group, "graphs as adjacency matrices, not as lists of edges")
        if isinstance(group, LinearGroup) and not self.ignores_row_order:
            frame = group.frame_of(cloud)
            assert isinstance(frame, LinearFrame)
            return random_member(frame, self._normal)
        return self._relabelled(group, cloud)

    def _frame(self, group: Group, cloud: Cloud) -> Frame:
        return group.frame_of(cloud)

    def _relabelled(self, group: Group, cloud: Cloud) -> Frame:
        """A random member of a frame that permutations take part in: that of the rows in a random order.

        A frame is equivariant, so the one of ``p . x`` is ``p`` times that of ``x``. Of all that it holds, the element
        found for ``p . x`` depends on ``p . x`` alone; and the ``p`` that lead to it, if all are equally likely, are
        spread evenly over a coset of the symmetry of ``x``. So is what is found, brought back by ``p^-1``.
        """
        layout = cloud.layout
        device = cloud.inputs[0][0].device if cloud.inputs else _first(cloud).device
        drawn = random_order(layout, self._uniform, device)
        shuffle = layout.unpad_order(drawn)
        frame = self._frame(group, relabelled(cloud, shuffle))
        if isinstance(frame, LinearFrame):  # no permutation plays a role
            return random_member(self._frame(group, cloud), self._normal)  # type: ignore[arg-type]
        if isinstance(frame, PermutationFrame):
            assert isinstance(group, S)
            return ordered_frame(group, layout, drawn.gather(-1, frame.symmetry.order), lambda: frame.margin)
        if isinstance(frame, OrbitFrame):
            raise ValueError(f"mode='sample' does not serve orders of rows with {group}: use mode='average'")
        assert isinstance(frame, ProductFrame)
        order = take_nodes(shuffle, frame.order)
        linear = random_member(frame.linear, self._normal)
        return ProductFrame(group, cloud, order, linear, None, (), isinstance(group, Product), lambda: frame.margin)


def _first(cloud: Cloud) -> Tensor:
    assert cloud.relations is not None
    return (*cloud.relations.nodes, *cloud.relations.edges)[0]
