"""Ways to choose the group elements that a backbone is averaged over: ``Equivariant(..., frames=...)``.

| method | groups | forward passes | equivariant |
|---|---|---|---|
| ``Minimal()`` | all | 1 | exactly |
| ``Unordered()`` | all | 1 | exactly, and to the order of the rows if the backbone is |
| ``Minimal(mode="sample")`` | all | 1 | in distribution; may break the symmetry of the input |
| ``Smooth()`` | all but S and products | one batch of a few poses | exactly, and continuous |
| ``PCA()`` | O, SO, E, SE | 2^d, or 2^(d-1) | exactly, unless eigenvalues coincide |
| ``PCA(perturb=True)`` | O, SO, E, SE | 2^d, or 2^(d-1) | exactly |
| ``PCA(samples=k)`` | O, SO, E, SE | k | in expectation, unless eigenvalues coincide |
| ``Sorting(samples=k)`` | S | k | in expectation; exactly where sorting leaves no ties |
| ``Haar(samples=k)`` | all | k | in expectation, where the group is compact |
"""

from minframe.frames.haar import Haar
from minframe.frames.method import Method
from minframe.frames.minimal import Minimal
from minframe.frames.pca import PCA
from minframe.frames.smooth import Smooth
from minframe.frames.sorting import Sorting
from minframe.frames.unordered import Unordered

__all__ = ["PCA", "Haar", "Method", "Minimal", "Smooth", "Sorting", "Unordered"]
