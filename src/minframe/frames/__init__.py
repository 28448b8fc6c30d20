"""Ways to choose the group elements that a backbone is averaged over."""

from minframe.frames.haar import Haar
from minframe.frames.minimal import Minimal
from minframe.frames.pca import PCA
from minframe.frames.sorting import Sorting

__all__ = ["PCA", "Haar", "Minimal", "Sorting"]
