"""Permutations of rows and of the nodes of graphs: S()."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.checks import check_not_mapped, check_tensor
from minframe.cloud import Cloud, Input, Relations
from minframe.frame import Frame
from minframe.frame.listed import sparse_cloud
from minframe.frame.permutation import PermutationFrame
from minframe.frame.sparse import sparse_frame
from minframe.groups.linear import LinearGroup
from minframe.groups.product import Permutations, Product
from minframe.labelling.action import inverse, move
from minframe.labelling.backend import BACKENDS, DEFAULT, installed_version
from minframe.labelling.symmetry import GraphSymmetry, RowSymmetry
from minframe.layout import BatchVector, Layout
from minframe.relations import check_rows, coloured, rows_layout, smallest_gap
from minframe.types import EDGE_INDEX, PERMUTATION_TYPES


@dataclass(frozen=True, repr=False)
class S(Permutations):
    """All permutations of the rows of a cloud, or of the nodes of a graph; an element is a tensor ``(*batch, n)``.

    An element ``g`` takes row ``i`` to row ``g[i]``. Rows are sorted, lexicographically. Graphs are brought into a
    canonical order by colour refinement, and by a library for canonical labelling where that leaves ties. Numbers are
    compared exactly: permutations do not change them.

    Types: ``"node"`` ``(*batch, n, c)``; ``"edge"`` ``(*batch, n, n)`` or ``(*batch, n, n, c)``, directed or not, with
    self-loops on the diagonal and 0 for no edge; ``"scalar"``. Graphs too large for that are listed as in PyTorch
    Geometric: ``"edge_index"`` ``(2, E)`` and ``"edge_attr"`` ``(E,)`` or ``(E, c)``.

    >>> import torch, minframe as mf
    >>> path, wheel = torch.eye(4).roll(1, 0), torch.ones(4, 4)
    >>> mf.S().frame(torch.stack([path + path.mT, wheel]), type="edge").size
    [8, 24]
    >>> mf.S() * mf.O(3)
    S() * O(3)

    Args:
        backend: ``"igraph"`` or ``"pynauty"``, for what colour refinement leaves tied. The canonical order depends on
            it, and on its version.
        rtol: weights that differ by less, relative to the largest, count as equal; for computed weights.
        directed: ``False`` declares that edges have no direction, and makes asymmetric ones an error.
        curve: ``"hilbert"``: in products such as ``S(curve="hilbert") * O(3)`` the backbone sees rows in their order
            along a Hilbert curve in the canonical pose; neighbours in the order are then neighbours in space.
    """

    backend: str = DEFAULT
    rtol: float = 0.0
    directed: bool | None = None
    curve: str | None = None

    types = PERMUTATION_TYPES
    frame_types = ("node", "point", "edge", "edge_index", "edge_attr")

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {self.backend!r}")
        if not (isinstance(self.rtol, int | float) and 0 <= self.rtol < 1):
            raise ValueError(f"rtol must be a number from 0 to below 1, got {self.rtol!r}: 0 asks for exact equality")
        if self.curve not in (None, "hilbert"):
            raise ValueError(f"curve must be 'hilbert' or None, got {self.curve!r}")

    def __repr__(self) -> str:
        options = {"backend": DEFAULT, "rtol": 0.0, "directed": None, "curve": None}
        named = [f"{k}={getattr(self, k)!r}" for k, default in options.items() if getattr(self, k) != default]
        return f"S({', '.join(named)})"

    def __mul__(self, other: object) -> Product:
        if not isinstance(other, LinearGroup):
            raise TypeError(f"S() can be multiplied with a linear group such as mf.O(3), got {other!r}")
        return Product(self, other)

    __rmul__ = __mul__

    @property
    def labelling(self) -> str | None:  # type: ignore[override]
        return installed_version(self.backend)

    def random(
        self,
        *batch: int,
        n: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Uniform permutations of ``n`` rows, ``(*batch, n)``; ``dtype`` is ignored, they are integers."""
        if n is None:
            raise ValueError("S() needs to know how many rows to permute: random(*batch, n=...)")
        return torch.rand(*batch, n, dtype=torch.float64, device=device, generator=generator).argsort(-1)

    def inverse(self, g: Tensor) -> Tensor:
        return inverse(g)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return g.gather(-1, h) if g.ndim == h.ndim else g[..., h] if h.ndim == 1 else g[h]

    def contains(self, g: Tensor, atol: float | None = None) -> Tensor:
        return (g.sort(-1)[0] == torch.arange(g.shape[-1], device=g.device)).all(-1)

    def act(self, g: Tensor, x: Tensor, type: str = "node") -> Tensor:
        kind = self.type(type)
        if kind is EDGE_INDEX:
            return g[x]
        if g.ndim == 1 and kind.nodes:  # one permutation for all
            lead = tuple(x.shape[: x.ndim - 1 - kind.nodes])
            if x.shape[0] != g.shape[0]:
                g = g.expand(*lead, -1)
        if kind.nodes and tuple(x.shape[: g.ndim]) != tuple(g.shape):
            raise ValueError(
                f"x of type {type!r} must begin with the shape of g, {tuple(g.shape)}, got {tuple(x.shape)}"
            )
        return move(g, x, kind.nodes)

    def cloud(
        self,
        inputs: Sequence[Input],
        mask: Tensor | None = None,
        batch: Tensor | BatchVector | None = None,
        names: tuple[str, str] = ("mask", "batch"),
    ) -> Cloud:
        by_type: dict[str, list[Input]] = {}
        for item in inputs:
            by_type.setdefault(PERMUTATION_TYPES[item.type].name, []).append(item)
        nodes, edges = by_type.get("node", []), by_type.get("edge", [])
        index, attr = by_type.get("edge_index", []), by_type.get("edge_attr", [])
        if index or attr:
            return sparse_cloud(nodes, edges, index, attr, mask, batch, names)
        for item in inputs:
            check_tensor(item.x, item.name)
        layout = rows_layout([i[:2] for i in nodes], [i[:2] for i in edges], mask, batch, names)
        for name, x, kind in inputs:
            self.check(x, kind, name, layout)
        for item in inputs if edges else ():
            check_not_mapped(item.x, f"{self} of graphs", item.name)
        relations = Relations([x for _, x, _ in nodes], [x for _, x, _ in edges])
        return Cloud([], layout, name=", ".join(name for name, _, _ in inputs), relations=relations)

    def check(self, x: Tensor, type: str, name: str, layout: Layout) -> None:
        kind = PERMUTATION_TYPES[type]
        if kind.nodes:
            check_rows(x, kind, name, layout)

    def frame_of(self, cloud: Cloud) -> Frame:
        if self.curve is not None:
            raise ValueError(f"{self} orders points in a pose, in a product such as {self} * mf.O(3): use mf.S() alone")
        relations, layout = cloud.relations, cloud.layout
        assert relations is not None
        if relations.edge_index is not None:
            return sparse_frame(self, cloud)
        colours, edges, mask = coloured(relations, layout, self.rtol, self.directed, cloud.name)
        symmetry = RowSymmetry(colours, mask) if edges is None else GraphSymmetry(colours, edges, mask, self.backend)
        return PermutationFrame(self, layout, symmetry, lambda: smallest_gap(relations, layout))
