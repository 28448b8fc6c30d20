"""Group averaging by Monte Carlo: random elements, whatever the input is."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from minframe.checks import check_finite
from minframe.cloud import Cloud
from minframe.frame import Frame, LinearFrame
from minframe.frame.product import ProductFrame
from minframe.frames.method import Method, check_samples
from minframe.frames.orders import no_margin, ordered_frame, random_order
from minframe.groups.affine import Affine, Translation
from minframe.groups.base import Group
from minframe.groups.linear import LinearGroup
from minframe.groups.permutation import S
from minframe.groups.product import Product
from minframe.linalg.stabiliser import IsometryStabiliser


@dataclass(frozen=True, repr=False)
class Haar(Method):
    """The average over ``samples`` random elements of the group, drawn for each sample of a batch by itself.

    Equivariant in expectation, with an error that falls like ``samples ** -0.5`` where the group is compact. Where it
    is not there is no average to converge to: elements are then drawn as ``group.random`` does. Translations are not
    drawn but taken from the mean of the cloud, which is exact.

    Args:
        samples: number of elements, and of forward passes.
        seed: of the random choices.
        generator: of the random choices.
    """

    samples: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_samples(self.samples, "Haar")

    def __call__(self, group: Group, cloud: Cloud) -> list[Frame]:
        if isinstance(group, LinearGroup):
            return [self._linear(group, cloud) for _ in range(1 if isinstance(group, Translation) else self.samples)]
        if isinstance(group, S) and cloud.relations is not None and cloud.relations.edge_index is None:
            return [self._order(group, cloud) for _ in range(self.samples)]
        if isinstance(group, Product):
            return [self._pair(group, cloud) for _ in range(self.samples)]
        raise self._unable(group, "all groups, but graphs only as adjacency matrices")

    def _linear(self, group: LinearGroup, cloud: Cloud) -> LinearFrame:
        if isinstance(group, Affine | Translation):
            cloud = cloud.centred()
            assert cloud.origin is not None
            check_finite(cloud.origin.detach().abs().sum(-1), cloud.name)
        shape, device = cloud.layout.batch_shape, cloud.inputs[0][0].device
        linear = group.linear if isinstance(group, Affine) else group
        matrix = inverse = None
        if not isinstance(linear, Translation):
            number = torch.complex128 if group.complex else torch.float64
            drawn = linear.random(*shape, dtype=number, device=self._source(device), generator=self.generator)
            matrix = drawn.to(device)
            inverse = linear.inverse(matrix)
        determined = torch.ones(*shape, group.d, dtype=torch.bool, device=device)
        return LinearFrame(
            group=group,
            linear=matrix,
            inverse=inverse,
            stabiliser=IsometryStabiliser(determined, special=True, metric=(1,) * group.d, complex=group.complex),
            cloud=cloud,
            margin=no_margin(cloud.layout, device),
        )

    def _order(self, group: S, cloud: Cloud) -> Frame:
        assert cloud.relations is not None
        device = (*cloud.relations.nodes, *cloud.relations.edges)[0].device
        order = random_order(cloud.layout, self._uniform, device)
        return ordered_frame(group, cloud.layout, order, no_margin(cloud.layout, device))

    def _pair(self, group: Product, cloud: Cloud) -> Frame:
        device = cloud.inputs[0][0].device
        order = cloud.layout.unpad_order(random_order(cloud.layout, self._uniform, device))
        linear = self._linear(group.linear, cloud.reordered(order))
        return ProductFrame(group, cloud, order, linear, None, (), True, no_margin(cloud.layout, device))
