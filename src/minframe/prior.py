"""Priors: canonical poses rotated to the orientation on which a backbone was trained.

A backbone that was trained on upright inputs expects upright inputs. The canonical pose ``c = g^-1 x`` is the same for
all poses of ``x``, but it need not be upright. A prior is a function ``R`` of canonical poses whose values are
matrices; the backbone ``f`` is shown ``R(c) c``, and what it returns is turned back by ``R(c)^-1``.

**It is exact.** ``y = R(c)^-1 f(R(c) c)`` is a function of ``c``, as ``f(c)`` is: the wrapped backbone is another one,
``f' = R^-1 f R``, and any backbone becomes equivariant. ``R`` is arbitrary: it may be wrong, untrained, or change in
training. (Under frames that ignore the order of rows ``R`` must ignore it too, as the backbone does.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from minframe.dtypes import wide
from minframe.frame import Frame
from minframe.frame.linear import LinearFrame
from minframe.frame.product import ProductFrame
from minframe.frame.weighted import WeightedFrame
from minframe.groups.affine import Affine
from minframe.groups.base import Group
from minframe.groups.isometry import Isometry
from minframe.groups.product import Product
from minframe.layout import Layout
from minframe.linalg.action import multiply, transform
from minframe.signature import Signature
from minframe.types import Type


class Given(nn.Module):
    """A prior that turns all canonical poses by one matrix ``(d, d)``, orthogonal."""

    matrix: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
        if not square or not torch.allclose(wide(matrix) @ wide(matrix).mT, torch.eye(len(matrix)).double(), atol=1e-5):
            raise ValueError(f"a prior must be an orthogonal matrix (d, d), got {matrix}")
        self.register_buffer("matrix", matrix)

    def forward(self, pose: Tensor) -> Tensor:
        return self.matrix


class Learned(nn.Module):
    """A prior given by a network, from canonical poses to rotations.

    >>> import torch, minframe as mf
    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(30, 9))
    >>> model = mf.Invariant(lambda x: x[..., 2].amax(-1), mf.SO(3), prior=mf.prior.Learned(net))
    >>> model.prior_loss(torch.randn(4, 10, 3)).backward()  # of inputs that are upright; no labels are needed

    Args:
        net: returns ``d^2`` numbers for each canonical pose that it is given, ``(*batch, d * d)``. They are added to
            the identity, and the rows of the matrix made orthonormal one after the other, the last one first. So what
            becomes the last axis, upwards as a rule, does not depend on where the others point, which inputs that are
            symmetric about it leave open.
        reflections: let the first row keep its sign, so that the matrix may be a reflection.
    """

    def __init__(self, net: Callable[..., Any], reflections: bool = False) -> None:
        super().__init__()
        self.net = net
        self.reflections = reflections

    def forward(self, pose: Tensor) -> Tensor:
        d = pose.shape[-1]
        numbers = self.net(pose)
        if numbers.shape[-1] != d * d:
            raise ValueError(f"the network of a prior must return {d * d} numbers for each pose, got {numbers.shape}")
        eye = torch.eye(d, dtype=torch.float64, device=numbers.device)
        wanted = wide(numbers).reshape(*numbers.shape[:-1], d, d) + eye
        q, r = torch.linalg.qr(wanted.flip(-2).mT)
        q = q * torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).unsqueeze(-2)
        rows = q.mT.flip(-2)
        if self.reflections:
            return rows
        sign = torch.linalg.det(rows.detach()).sign()
        return torch.cat([rows[..., :1, :] * sign[..., None, None], rows[..., 1:, :]], -2)


@dataclass(frozen=True)
class Turn:
    """There and back by matrices ``(*batch, d, d)`` with orthonormal rows."""

    matrix: Tensor
    layout: Layout

    def there(self, x: Tensor, kind: Type) -> Tensor:
        return self._moved(x, kind, self.matrix)

    def back(self, y: Tensor, kind: Type) -> Tensor:
        return self._moved(y, kind, self.matrix.mT)

    def _moved(self, x: Tensor, kind: Type, matrix: Tensor) -> Tensor:
        if not (kind.core_ndim or kind.parity):
            return x
        det = torch.linalg.det(matrix) if kind.parity else None
        det = None if det is None else self.layout.for_rows(det, x)
        return transform(x, kind, self.layout.for_rows(matrix, x), det).to(x.dtype)


def check_prior(prior: Any, group: Group) -> nn.Module | Callable[..., Any]:
    """The prior as a module or a function, if it can turn what the group does."""
    linear = group.linear if isinstance(group, Product | Affine) else group
    linear = linear.linear if isinstance(linear, Affine) else linear
    if not isinstance(linear, Isometry) or linear.q or linear.complex:
        raise TypeError(f"prior= turns real coordinates, for O, SO, E, SE and S() with these, not for {group}")
    if isinstance(prior, Tensor):
        prior = Given(prior)
    if not callable(prior):
        raise TypeError(f"prior must be a matrix, or a module or function of canonical poses, got {prior!r}")
    if isinstance(prior, Given) and len(prior.matrix) != linear.d:
        raise ValueError(
            f"prior must be a matrix ({linear.d}, {linear.d}) for {group}, got {tuple(prior.matrix.shape)}"
        )
    return prior


def turn(prior: Callable[..., Any], pose: Tensor, layout: Layout, known: dict[str, Any]) -> Turn:
    """The rotations of a prior for canonical poses; ``known``: mask and batch vector, for priors that accept them."""
    signature = Signature.of(prior)
    matrix = wide(prior(pose, **{name: x for name, x in known.items() if signature.accepts_keyword(name)}))
    d = pose.shape[-1]
    shape = (*layout.batch_shape, d, d)
    if matrix.shape == (d, d):
        matrix = matrix.expand(shape)
    if matrix.shape != shape:
        raise ValueError(f"prior must return a matrix for each pose, {shape}, got shape {tuple(matrix.shape)}")
    return Turn(matrix, layout)


def miss(frame: Frame, pose: Tensor, turned: Turn) -> Tensor:
    """``|R c - g c|^2 / |c|^2`` over all canonical poses ``c`` of a batch, ``g c`` being the inputs as they are."""
    linear = frame.linear if isinstance(frame, ProductFrame) else frame
    linear = linear.elements if isinstance(linear, WeightedFrame) else linear
    assert isinstance(linear, LinearFrame)
    assert linear.linear is not None
    left = multiply(wide(pose), turned.layout.for_rows(turned.matrix - linear.linear.detach(), pose))
    return left.square().sum() / wide(pose).square().sum()
