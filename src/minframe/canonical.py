"""The canonical pose of a cloud, without a backbone."""

from __future__ import annotations

from torch import Tensor

from minframe.cloud import Input
from minframe.frame import Frame
from minframe.frames import Method, Minimal
from minframe.groups.base import Group
from minframe.layout import batch_vector

MINIMAL = Minimal()


def canonicalize(
    x: Tensor,
    group: Group,
    type: str = "point",
    mask: Tensor | None = None,
    batch: Tensor | None = None,
    frames: Method = MINIMAL,
    batch_size: int | None = None,
) -> tuple[Tensor, Frame]:
    """The canonical pose that represents the orbit of ``x`` under the group, and the frame that leads to it.

    >>> import torch, minframe as mf
    >>> x = torch.randn(8, 20, 3, dtype=torch.float64)
    >>> pose, frame = mf.canonicalize(x, mf.SO(3))
    >>> turned, _ = mf.canonicalize(x @ mf.SO(3).random(dtype=x.dtype).mT, mf.SO(3))
    >>> torch.allclose(pose, turned) and torch.allclose(frame.from_canonical(pose), x)
    True

    Args:
        x: ``(*batch, n, d)``, or ``(N, d)`` with a batch vector.
        group: for example ``mf.E(3)``.
        type: ``"point"`` or ``"vector"``.
        mask: ``(*batch, n)``, True for real rows; padding becomes zero.
        batch: ``(N,)``, the sample number of each row.
        frames: how the group element is chosen; ``mf.frames.Unordered()`` ignores the order of the rows.
        batch_size: the number of samples in ``batch``; without it, it is read, which a GPU is waited for.
    """
    if not isinstance(group, Group):
        raise TypeError(f"group must be a group such as mf.E(3), got {group!r}")
    group.frame_type(type)
    frame = frames(group, group.cloud([Input("x", x, type)], mask, batch_vector(batch, batch_size)))
    if not isinstance(frame, Frame):
        raise TypeError(
            f"mf.frames.{frames!r} averages over several frames; canonicalize needs one, as of mf.frames.Minimal()"
        )
    return frame.pose(x, type, own=True), frame
