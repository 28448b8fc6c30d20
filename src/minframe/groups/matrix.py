"""The base of groups whose elements are matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from minframe.groups.linear import LinearGroup
from minframe.linalg.action import product


class MatrixGroup(LinearGroup):
    """An element is a matrix ``(*batch, d, d)``, acting as ``x @ g.mT``."""

    def parts(self, g: Tensor) -> tuple[Tensor, None]:
        return g, None

    def assemble(self, linear: Tensor | None, shift: Tensor | None) -> Tensor:
        assert linear is not None
        return linear

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return product(g, h)

    @property
    def number(self) -> torch.dtype:
        """The dtype in which random elements are computed."""
        return torch.complex128 if self.complex else torch.float64

    def default_dtype(self) -> torch.dtype:
        """The default dtype of random elements."""
        return torch.promote_types(torch.get_default_dtype(), torch.complex64 if self.complex else torch.float16)


def haar(
    *shape: int,
    dtype: torch.dtype,
    device: torch.device | str | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Random orthogonal or unitary matrices ``shape``, by the Haar measure.

    The Q of a Gaussian matrix is Haar distributed once the diagonal of R is made positive.
    """
    q, r = torch.linalg.qr(torch.randn(*shape, dtype=dtype, device=device, generator=generator))
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
