"""A random member of a minimal frame, instead of the average over all of them.

The frame is the coset ``g0 K`` with K the stabiliser of the canonical pose. ``g0 k`` with a Haar random ``k`` is a
random member for any ``g0``: equivariant in distribution, and able to break the symmetry of the input, which the
average over K cannot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from minframe.checks import data_checks_enabled
from minframe.frame import LinearFrame
from minframe.linalg.blocks import BlockStabiliser, block_diagonal
from minframe.linalg.finite import FiniteStabiliser
from minframe.linalg.scale import ScaleStabiliser
from minframe.linalg.stabiliser import IsometryStabiliser, Stabiliser


class Normal(Protocol):
    """Standard normal numbers of that shape."""

    def __call__(self, *shape: int, dtype: torch.dtype, device: torch.device) -> Tensor: ...


def random_member(frame: LinearFrame, normal: Normal) -> LinearFrame:
    """The frame with one element only, a random one of ``frame``."""
    if frame.linear is None or frame.inverse is None:  # translations: there is only one
        return frame
    determined = frame.stabiliser.determined
    k = _random_isometry(frame.stabiliser, frame.linear.dtype, normal)
    undefined = _not_compact(frame.stabiliser)
    if data_checks_enabled():
        _refuse(undefined, frame)
    else:
        k = k + torch.where(undefined, torch.nan, 0.0)[..., None, None]
    alone = IsometryStabiliser(
        torch.ones_like(determined), special=True, metric=(1,) * determined.shape[-1], complex=frame.group.complex
    )
    own, columns = frame.own_inverse, frame.own_columns
    if columns is not None:  # they may have axes that count as free, as they are too thin
        columns = replace(columns, after=k.mH if columns.after is None else k.mH @ columns.after)
    return LinearFrame(
        group=frame.group,
        linear=frame.linear @ k,
        inverse=k.mH @ frame.inverse,
        stabiliser=alone,
        cloud=frame.cloud,
        margin=lambda: frame.margin,
        own_inverse=None if own is None else own * determined.unsqueeze(-1),  # k does not move the pose
        own_columns=columns,
    )


def _random_isometry(stabiliser: Stabiliser, dtype: torch.dtype, normal: Normal) -> Tensor:
    """Haar random isometries of the free axes, the identity on the others, ``(*batch, d, d)``.

    They are the Q of a QR decomposition, its R with a positive diagonal, of a matrix that is Gaussian where both row
    and column are free and the identity elsewhere: Gram-Schmidt never leaves the free axes.
    """
    if isinstance(stabiliser, BlockStabiliser):
        return block_diagonal([_random_isometry(part, dtype, normal) for part in stabiliser.parts])
    if isinstance(stabiliser, ScaleStabiliser):
        return _random_isometry(stabiliser.inner, dtype, normal)
    if isinstance(stabiliser, FiniteStabiliser):  # the element with the largest of G independent random numbers
        drawn = normal(*stabiliser.weights.shape, dtype=torch.float64, device=stabiliser.weights.device)
        index = torch.where(stabiliser.weights > 0, drawn, -torch.inf).argmax(-1)
        return stabiliser.matrices[index].to(dtype)
    free = ~stabiliser.determined
    d = free.shape[-1]
    block = free.unsqueeze(-1) & free.unsqueeze(-2)
    gauss = normal(*free.shape, d, dtype=dtype, device=free.device)
    q, r = torch.linalg.qr(torch.where(block, gauss, torch.eye(d, dtype=dtype, device=free.device)))
    q = q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    if not getattr(stabiliser, "special", False):
        return q
    last = free & (free.long().cumsum(-1) == free.sum(-1, keepdim=True))  # the last free axis, if there is any
    return q * torch.where(last, torch.linalg.det(q).conj().unsqueeze(-1), 1.0).unsqueeze(-2)


def _not_compact(stabiliser: Stabiliser) -> Tensor:
    """The samples whose stabiliser has no uniform distribution, ``(*batch,)``."""
    if isinstance(stabiliser, BlockStabiliser):
        return torch.stack([_not_compact(part) for part in stabiliser.parts]).any(0)
    if isinstance(stabiliser, ScaleStabiliser):
        return ~stabiliser.sized | _not_compact(stabiliser.inner)
    free = ~stabiliser.determined
    if not isinstance(stabiliser, IsometryStabiliser):
        return free.any(-1)
    plus = torch.tensor([sign > 0 for sign in stabiliser.metric], device=free.device)
    mixed = (free & plus).any(-1) & (free & ~plus).any(-1)
    return mixed if stabiliser.null is None else mixed | stabiliser.null.loose


def _refuse(undefined: Tensor, frame: LinearFrame) -> None:
    if bool(undefined.any()):
        where = int(undefined.flatten().nonzero()[0])
        raise ValueError(
            f"sample {where} of {undefined.numel()} has no random frame under {frame.group}: the cloud spans too "
            f"little (rank {int(frame.rank.flatten()[where])} of {frame.group.d}), and what fixes it is not compact. "
            "Use mf.frames.Minimal(), or let more inputs determine the frame"
        )
