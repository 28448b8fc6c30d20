"""Precision: frames are computed in double precision, whatever the dtype of the input."""

from __future__ import annotations

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """``x`` in float64, or complex128 if it is complex: autocast and reduced-precision matrix units leave it alone."""
    return x if x.dtype == torch.float64 else x.to(torch.promote_types(x.dtype, torch.float64))


def narrow(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``x`` in that dtype, and contiguous, as users expect of results."""
    return x.to(dtype, memory_format=torch.contiguous_format).contiguous()
