"""The rows of each sample as a segment of a list, for loops over samples of different sizes."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from minframe.built import require_current
from minframe.tracing import is_plain

try:
    import minframe.layout._segments as _segments

    require_current(_segments)
    library: ModuleType | None = _segments
except ImportError:
    library = None


@dataclass(frozen=True, slots=True)
class Segments:
    """The rows of sample ``b`` are ``order[starts[b] : starts[b] + sizes[b]]``, padding included.

    Attributes:
        starts: ``(B,)``.
        sizes: ``(B,)``.
        largest: the largest of the sizes.
        order: ``(N,)``, row numbers, in their own order within each sample; ``None``: all rows as they are.
    """

    starts: Tensor
    sizes: Tensor
    largest: int
    order: Tensor | None

    def rows(self, sample: Tensor, place: Tensor) -> Tensor:
        """The numbers of rows, given their samples and their places within these."""
        at = self.starts[sample] + place
        return at if self.order is None else self.order[at]

    def pad(self, x: Tensor, samples: Tensor) -> Tensor:
        """The rows ``x`` ``(N, d)`` of some samples, ``(k, n, d)``, zeros behind the last of each."""
        sizes = self.sizes[samples].unsqueeze(-1)
        n = int(sizes.max()) if len(samples) else 0
        place = torch.arange(n, device=x.device)
        taken = x[self.rows(samples.unsqueeze(-1), torch.minimum(place, sizes - 1))]
        return torch.where((place < sizes).unsqueeze(-1), taken, 0)


def grouped(index: Tensor, count: int) -> Segments:
    """Segments of rows whose samples ``(N,)`` are given, in any order; there are ``count`` samples."""
    if library is not None and index.is_cpu and index.dtype == torch.int64 and is_plain(index):
        order, (starts, sizes), index = torch.empty_like(index), index.new_empty(2, count), index.contiguous()
        addresses = order.data_ptr(), starts.data_ptr(), sizes.data_ptr()
        largest = library.group(index.data_ptr(), len(index), count, *addresses)
        if largest < 0:
            raise ValueError(f"a batch vector of {count} samples has numbers from {index.min()} to {index.max()}")
        return Segments(starts, sizes, largest, order)
    sizes = torch.bincount(index, minlength=count)
    return Segments(sizes.cumsum(0) - sizes, sizes, int(sizes.max()) if count else 0, index.argsort(stable=True))
