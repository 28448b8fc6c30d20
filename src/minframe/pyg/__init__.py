"""Support for PyTorch Geometric: models of ``Data`` and ``Batch``, and canonical poses made by data loaders.

It needs the extra ``pyg``, and is imported by name: ``import minframe.pyg``.
"""

try:
    import torch_geometric  # noqa: F401
except ImportError as error:
    raise ImportError(
        "minframe.pyg needs PyTorch Geometric, which is not installed: pip install torch-geometric"
    ) from error

from minframe.pyg.transform import Canonicalize
from minframe.pyg.wrap import Equivariant, Invariant

__all__ = ["Canonicalize", "Equivariant", "Invariant"]
