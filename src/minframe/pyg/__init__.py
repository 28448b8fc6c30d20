"""Support for PyTorch Geometric: models of ``Data`` and ``Batch``, and canonical poses made by data loaders.

It needs the extra ``pyg``, and is imported by name: ``import minframe.pyg``.
"""

from minframe.checks import check_installed

check_installed("torch_geometric", "PyTorch Geometric", "minframe.pyg", "torch-geometric")

from minframe.pyg.testing import assert_equivariant  # noqa: E402
from minframe.pyg.transform import AddFrame, Canonicalize  # noqa: E402
from minframe.pyg.wrap import Equivariant, Invariant  # noqa: E402

__all__ = ["AddFrame", "Canonicalize", "Equivariant", "Invariant", "assert_equivariant"]
