"""The method ``Smooth``: its options, and the choice of the family that a group belongs to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from minframe.checks import check_finite, check_not_mapped
from minframe.cloud import Cloud
from minframe.frame.weighted import WeightedFrame, WeightedMembers
from minframe.frames.method import Method, check_samples
from minframe.frames.side_by_side import combined
from minframe.frames.smooth.choosing import Elements
from minframe.frames.smooth.definite import definite
from minframe.frames.smooth.general import general
from minframe.frames.smooth.lorentz import lorentz
from minframe.groups.affine import Affine, Translation
from minframe.groups.base import Group
from minframe.groups.discrete import Discrete
from minframe.groups.finite import Finite
from minframe.groups.general import GL
from minframe.groups.isometry import Isometry
from minframe.groups.linear import LinearGroup
from minframe.groups.signs import Signs
from minframe.groups.sum import Sum, side_by_side
from minframe.groups.trivial import Trivial
from minframe.linalg.fade import FadingStabiliser
from minframe.linalg.soft import Rule

SERVED_GROUPS = (
    "O, SO, E, SE, U, SU, GL, SL, Aff, Translation, the Lorentz groups, Poincare, Trivial, Signs, finite groups, and "
    "sums of these"
)


@dataclass(frozen=True, repr=False)
class Smooth(Method):
    """A few poses with weights that are smooth functions of the input: exact *and* continuous, for energies and forces.

    Every frame of one element jumps somewhere (Dym, Lawrence and Siegel, 2024), and a force that is the gradient of an
    energy is undefined there. Here rows that are nearly longest share the weight, step by step
    (``linalg.soft``), and the average is as smooth as the backbone, where the rank is full; at lower rank it is
    continuous (``linalg.fade``). It does not depend on the order of the rows, and nothing in it is decided by a
    tolerance, so that near-symmetric inputs are as exact as others. ``docs/smooth.md`` has the theorem and its figures.

    The backbone is called once, on all poses of all samples as one larger batch ``(K, n, d)``. So it must not mix the
    samples of a batch, and must return one entry per sample (or row). With a batch vector, rows and ``edge_index`` are
    repeated. Every tensor argument needs a type: ``"scalar"`` for an entry per sample, ``"node"`` for one per row,
    ``"constant"`` for what all samples share. ``torch.compile`` breaks its graph at the frame, whose size depends on
    the data, but for a fixed number of ``poses``.

    | group | continuous |
    |---|---|
    | O, SO, E, SE, U, SU, Translation | everywhere; vectors except where all points coincide |
    | Lorentz groups, Poincare | where the total momentum is time-like; else there is an error that says so |
    | GL, SL, Aff | where the rank is full |
    | sums, Trivial, Signs | where each block is |
    | Finite, Cyclic, Dihedral, Octahedral | except at zero; there too with ``unit`` |

    Args:
        sharpness: the exponent of the lengths that compete. The larger, the fewer poses, and the steeper the changes
            from one to the next.
        samples: in training, draw this many poses of each sample by weight instead of all of them: values and
            derivatives are right in expectation; a *square* of them is not, it has their variance in addition. With one
            draw forces are noisy in proportion to the energy itself, with two or more only in proportion to what poses
            disagree by: train on forces with ``samples=2``. In evaluation (``model.eval()``) all are taken.
        fade: length of an axis, relative to the longest row, below which outputs along it fade.
        moments: in clouds of more than 40 rows, where several of these are nearly longest, let moments of the cloud
            compete with them (``linalg.soft``). They keep poses few in balls, shells and surfaces, which have hundreds
            without. Smaller clouds, such as molecules, have rows alone anyway: forces are learned better so.
        unit: of finite groups, the size of inputs, in their own units, below which all elements come to share the
            weight equally, so that outputs are continuous at zero too. By default there is none.
        poses: show the backbone as many poses of each sample, whatever the data. Those that a sample does not need
            weigh nothing, and a sample that needs more is NaN (under a sum of groups: in one of its blocks, whose poses
            are combined). Then no shape depends on the data, and a GPU is not waited for under ``mf.unchecked()``, but
            for a batch vector. A cloud of few rows has less, as it cannot have so many.
        chunk: the largest number of poses that the backbone is shown at once; by default all.
        seed: of the draws.
        generator: of the draws.
    """

    sharpness: float = 40.0
    samples: int | None = None
    fade: float = 0.05
    moments: bool = True
    chunk: int | None = None
    unit: float = 0.0
    poses: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sharpness >= 6:
            raise ValueError(f"sharpness must be at least 6, for weights to be smooth, got {self.sharpness!r}")
        if not 0 < self.fade <= 1:
            raise ValueError(f"fade must be a part of the longest row, above 0 and at most 1, got {self.fade!r}")
        if not 0 <= self.unit < float("inf"):
            raise ValueError(f"unit must be a size, zero or more, got {self.unit!r}")
        if self.samples is not None:
            check_samples(self.samples, "Smooth")
        for name, number in (("chunk", self.chunk), ("poses", self.poses)):
            if number is not None and (type(number) is not int or number < 1):
                raise ValueError(f"{name} must be a number of poses, at least one, got {number!r}")

    def __call__(self, group: Group, cloud: Cloud) -> WeightedFrame:
        for x, _ in cloud.inputs:  # how many poses there are depends on the values
            check_not_mapped(x, f"{group} by mf.frames.Smooth()", cloud.name)
        if isinstance(group, Finite | Discrete):
            return self._finite(group, cloud)
        if not isinstance(group, LinearGroup):
            raise ValueError(
                f"mf.frames.{self!r} serves groups that act on coordinates, not {group}: no small continuous frame "
                "puts rows in order. Leave S() out, and use a backbone on sets (a transformer, a graph network), which "
                "respects permutations by itself: smooth frames do not depend on the order of the rows"
            )
        if isinstance(group, Sum | Signs):
            return self._sum(group, cloud)
        if isinstance(group, Trivial):
            return self._still(group, cloud)
        linear = group.linear if isinstance(group, Affine) else group
        if isinstance(group, Affine | Translation):
            cloud = cloud.centred()
        return self._frame(group, cloud, self._elements(group, linear, cloud))

    def _elements(self, group: LinearGroup, linear: LinearGroup, cloud: Cloud) -> Elements:
        """The elements of the linear group for the cloud, which is centred where the group has translations."""
        if isinstance(linear, Translation):
            return self._shifts(linear, cloud)
        if isinstance(linear, GL):
            return general(linear, cloud, self._rule(linear.special))
        if isinstance(linear, Isometry) and linear.q == 0:
            return definite(linear, cloud, self._rule(linear.special), self.fade)
        if isinstance(linear, Isometry) and min(linear.p, linear.q) == 1 and not linear.complex:
            return lorentz(group, linear, cloud, self._rule(linear.special), self.fade)
        raise self._unable(group, SERVED_GROUPS)

    def _rule(self, special: bool) -> Rule:
        return Rule(self.sharpness, special, self.moments, poses=self.poses)

    def _finite(self, group: Finite | Discrete, cloud: Cloud) -> WeightedFrame:
        weights = group.shares(cloud, self.sharpness, self.unit)[1].reshape(-1, group.order)
        if self.poses is None:
            sample, index = (~(weights.detach() <= 0)).nonzero().unbind(-1)  # NaN is shown, too
            found = weights[sample, index]
        else:
            number = min(self.poses, group.order)
            places = weights.detach().topk(number).indices.flip(-1)
            over = (weights.detach() > 0).sum(-1, keepdim=True) > number
            sample = torch.arange(len(weights), device=weights.device).repeat_interleave(number)
            found, index = weights.gather(-1, places).masked_fill(over, torch.nan).flatten(), places.flatten()
        return WeightedMembers(group, cloud, sample, found, index, self.chunk, self.samples, self._uniform)

    def _sum(self, group: Sum | Signs, cloud: Cloud) -> WeightedFrame:
        blocks = group.as_sum if isinstance(group, Signs) else group
        clouds = blocks.clouds(cloud)
        parts = [self(g, part) for g, part in zip(blocks.groups, clouds, strict=True)]
        found = combined(parts, [g.d for g in blocks.groups], self.poses is not None)
        if blocks.shifts:
            cloud = replace(cloud, origin=side_by_side([part.cloud.origin for part in parts], blocks.groups))
        matrices = found.linear, found.inverse, found.stabiliser, found.own_inverse
        elements = Elements(found.sample, found.weight, *matrices, found.own_columns, found.rank_margin)
        return self._frame(group, cloud, elements)

    def _still(self, group: Trivial, cloud: Cloud) -> WeightedFrame:
        frame = group.frame_of(cloud)
        assert frame.linear is not None
        eye = frame.linear.reshape(-1, group.d, group.d)
        sample, weight = torch.arange(len(eye), device=eye.device), eye[:, 0, 0].real
        alone = FadingStabiliser(torch.ones_like(eye[..., 0], dtype=torch.bool), None, ())
        return self._frame(group, cloud, Elements(sample, weight, eye, eye, alone))

    def _shifts(self, linear: Translation, cloud: Cloud) -> Elements:
        assert cloud.origin is not None
        origin = cloud.origin.reshape(-1, linear.d)
        check_finite(origin.detach().abs().sum(-1), cloud.name)
        weight = torch.ones(len(origin), dtype=torch.float64, device=origin.device)
        sample = torch.arange(len(origin), device=origin.device)
        alone = FadingStabiliser(torch.ones_like(origin, dtype=torch.bool), None, ())
        return Elements(sample, weight, None, None, alone)

    def _frame(self, group: LinearGroup, cloud: Cloud, found: Elements) -> WeightedFrame:
        return WeightedFrame(
            group,
            cloud,
            found.sample,
            found.weight,
            found.linear,
            found.inverse,
            found.stabiliser,
            found.own_inverse,
            found.own_columns,
            self.chunk,
            self.samples,
            self._uniform,
            found.rank_margin,
        )
