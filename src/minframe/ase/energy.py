"""Invariant energies of atoms: of molecules by their positions, of crystals and slabs by their neighbour vectors.

**Periodic structures.** A crystal has many descriptions: which image of an atom is stored, which basis of the lattice,
where the origin is, in which order atoms are listed. The vectors ``v_ij`` from each atom to its neighbours within a
cutoff, as a set, are the same for all of them, and rotations of the crystal rotate them. So the frame is taken of them:
its rows are edges, and not the atoms that the backbone sees. With ``c`` the cutoff, the rows are

    v_ij (1 - |v_ij|^2 / c^2)^4,

because the energy must not jump when a neighbour enters the cutoff: its row starts from zero, with three
continuous derivatives. Moments of the rows, which smooth frames use in compact clouds, count also rows of length zero,
and take no part here.

**Every pose is shown.** The set of ``v_ij`` is symmetric under inversion, as it has ``v_ji = -v_ij``, even if the
crystal is not. Frames that assume that the symmetry of the rows is that of the whole input would be wrong here. Smooth
frames show the backbone all poses that have weight, and make no such assumption.

**Equal rows, equal poses.** Atoms of a crystal have the same neighbour vectors. ``m`` rows that are equal, to rounding,
are one row that counts ``m`` times (``linalg.soft``), their mean: what depends on all of them alike has the same value
and the same first derivatives as a function of their mean, and the distance from equality enters by its square. In the
same way poses that are equal are shown as one: ``sum_k w_k F(Q_k) = W F(Q)`` with ``W = sum_k w_k`` and ``Q = sum_k
(w_k / W) Q_k``, the ratios being constants. Second derivatives are not the same, so this is done in evaluation only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from minframe.cloud import Input
from minframe.frame.weighted import WeightedFrame
from minframe.frames import Method, Smooth
from minframe.groups.affine import Affine, E, Translation
from minframe.groups.base import Group
from minframe.groups.linear import LinearGroup
from minframe.groups.sum import Sum, direct_sum
from minframe.groups.trivial import Trivial
from minframe.layout import Ragged
from minframe.layout.expand import RaggedExpansion
from minframe.linalg.alike import alike
from minframe.linalg.carry import Pairs, carry
from minframe.linalg.soft_poses import TooManyPosesError
from minframe.local import envelope
from minframe.types import EDGE_ATTR, EDGE_INDEX, NODE
from minframe.wrap import Invariant

SMOOTH = Smooth()
EUCLIDEAN = E(3)
EQUAL_ROWS, EQUAL_ROUNDINGS = 1e-12, 16.0  # parts of the cutoff, and roundings of it, up to which rows are equal
EQUAL_MATRICES = 1e-10  # difference up to which the matrices of poses are equal, and are shown as one
ARGUMENTS = ("z", "batch", "pos", "vectors", "edge_index")


class Energy(nn.Module):
    """The energy of each structure of a batch, ``(B,)``, exactly invariant, from any model of the following form.

    A model is a module or a function with arguments of these names:

    | argument | shape | |
    |---|---|---|
    | ``z`` | ``(N,)`` | atomic numbers |
    | ``batch`` | ``(N,)`` | the number of the structure that each atom belongs to |
    | ``pos`` | ``(N, 3)`` | positions, for molecules; or, for anything, periodic or not: |
    | ``vectors`` | ``(M, 3)`` | from atom ``edge_index[0]`` to its neighbour ``edge_index[1]`` |
    | ``edge_index`` | ``(2, M)`` | |

    It returns one energy for each structure, or one for each atom, and must not mix structures: it is shown all poses
    of a structure as one batch.

    >>> import torch, minframe as mf, minframe.ase
    >>> def springs(z, vectors, edge_index, batch):
    ...     return torch.zeros(len(z), dtype=vectors.dtype).index_add(0, edge_index[0], vectors.pow(4).sum(-1))
    >>> energy = mf.ase.Energy(springs, cutoff=3.0)
    >>> z, batch, edge_index = torch.tensor([6, 8]), torch.tensor([0, 0]), torch.tensor([[0, 1], [1, 0]])
    >>> vectors = torch.tensor([[1.0, 0.5, 0.2], [-1.0, -0.5, -0.2]], dtype=torch.float64)
    >>> turned = vectors @ mf.O(3).random(dtype=torch.float64).mT
    >>> torch.allclose(energy(z, batch, vectors=vectors, edge_index=edge_index),
    ...                energy(z, batch, vectors=turned, edge_index=edge_index))
    True

    Args:
        model: of the form above.
        cutoff: length of the longest neighbour vectors; needed for models of ``vectors``.
        group: the symmetry of the energy: ``mf.E(3)``; for a slab ``mf.E(2) + mf.Trivial(1)``. Translations do not move
            neighbour vectors, so that for them ``mf.E(3)`` means ``mf.O(3)``.
        frames: how poses are chosen. Only smooth frames give forces everywhere; others serve models of ``pos`` alone.
    """

    def __init__(
        self, model: Callable[..., Any], cutoff: float | None = None, group: Group = EUCLIDEAN, frames: Method = SMOOTH
    ) -> None:
        super().__init__()
        self.arguments = _arguments(model)
        self.periodic = "vectors" in self.arguments
        self.cutoff = cutoff
        self.group = linear_part(group) if self.periodic else group
        if self.periodic:
            if cutoff is None or not cutoff > 0:
                raise ValueError(f"a model of neighbour vectors needs their cutoff, a positive length, got {cutoff!r}")
            if not isinstance(frames, Smooth):
                raise ValueError(
                    f"frames of neighbour vectors must show every pose, as mf.frames.Smooth() does, got {frames!r}: "
                    "the set of neighbour vectors has symmetries that the structure has not"
                )
            frames = replace(frames, moments=False)
        else:
            types = {name: kind for name, kind in (("pos", "point"), ("z", "node")) if name in self.arguments}
            model = Invariant(model, group, inputs=types, batch="batch", frames=frames)
        self.model = model
        self.frames = frames

    def forward(
        self,
        z: Tensor,
        batch: Tensor,
        pos: Tensor | None = None,
        vectors: Tensor | None = None,
        edge_index: Tensor | None = None,
    ) -> Tensor:
        if self.periodic:
            if vectors is None or edge_index is None:
                raise TypeError("the model takes neighbour vectors: give vectors=, (M, 3), and edge_index=, (2, M)")
            return self._of_vectors(z, batch, vectors, edge_index)
        if pos is None:
            raise TypeError("the model takes positions: give pos=, (N, 3)")
        given = {name: x for name, x in (("pos", pos), ("z", z)) if name in self.arguments}
        energies = self.model(**given, batch=batch)
        return _per_structure(energies, batch, int(batch.max()) + 1)

    def _of_vectors(self, z: Tensor, batch: Tensor, vectors: Tensor, edge_index: Tensor) -> Tensor:
        assert self.cutoff is not None
        count = int(batch.max()) + 1
        owner = batch[edge_index[0]]
        # A row of zeros in every structure: an atom without neighbours has a frame too.
        rows = torch.cat([vectors * envelope(vectors, self.cutoff).unsqueeze(-1), vectors.new_zeros(count, 3)])
        owners = torch.cat([owner, torch.arange(count, device=batch.device)])
        counts = None
        if not self.training:
            rows, owners, counts = _merged(rows, owners, self.cutoff)
        cloud = replace(self.group.cloud([Input("vectors", rows, "vector")], batch=owners), counts=counts)
        try:
            found = self.frames(self.group, cloud)
        except TooManyPosesError as error:
            raise TooManyPosesError(_advice(error)) from None
        assert isinstance(found, WeightedFrame)
        found = found.drawn() if self.training else _distinct(found)
        total = torch.zeros(count, dtype=torch.float64, device=z.device)
        for part in found.parts():
            repeated = RaggedExpansion(Ragged(batch, count), part.sample)
            repeated.set_edges(edge_index, "edge_index")
            inverse, own = part.elements.inverse, part.elements.own_inverse
            assert inverse is not None
            assert own is not None
            shown = {
                "z": repeated.expand(z, NODE),
                "vectors": _turned(repeated.expand(vectors, EDGE_ATTR), inverse, own, repeated.edge_pose),
                "edge_index": repeated.expand(edge_index, EDGE_INDEX),
                "batch": repeated.layout.index,
            }
            energies = self.model(**{name: shown[name] for name in self.arguments})
            energies = _per_structure(energies, shown["batch"], len(part.sample))
            total = total.index_add(0, part.sample, part.weights * energies)
        return total.to(vectors.dtype)

    def extra_repr(self) -> str:
        return f"{self.group}, frames={self.frames!r}, cutoff={self.cutoff}"


def linear_part(group: Group) -> LinearGroup:
    """The part of a group that acts on vectors, without translations."""
    if isinstance(group, Affine):
        return group.linear
    if isinstance(group, Translation):
        return Trivial(group.d)
    if isinstance(group, Sum):
        return direct_sum(*(linear_part(part) for part in group.groups))
    if isinstance(group, LinearGroup):
        return group
    raise TypeError(f"group must be one that acts on coordinates, such as mf.E(3), got {group!r}")


def _arguments(model: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments of a model."""
    if not callable(model):
        raise TypeError(f"model must be a module or a function, got {type(model).__name__}")
    names = tuple(inspect.signature(model.forward if isinstance(model, nn.Module) else model).parameters)
    unknown = [name for name in names if name not in ARGUMENTS]
    if unknown or ("pos" in names) == ("vectors" in names):
        raise ValueError(
            "the arguments of a model must be named z, batch, and either pos, or vectors and edge_index; this one "
            f"has: {', '.join(names) or 'none'}. Put a function with these names around it"
        )
    return names


def _turned(vectors: Tensor, inverse: Tensor, own: Tensor, pose: Tensor) -> Tensor:
    """Vectors ``(M, 3)`` in their poses, whose numbers are ``pose`` ``(M,)``.

    Along axes that no row determines there are no derivatives (see ``frames.smooth``). There may be coordinates: a
    neighbour at the cutoff has a vector, though its row is zero.
    """
    pairs = Pairs.at(None, pose)
    free = carry(vectors.detach(), (inverse - own).detach(), pairs, inverse.dtype)
    return (carry(vectors, own, pairs, inverse.dtype) + free).to(vectors.dtype)


def _per_structure(energies: Any, batch: Tensor, count: int) -> Tensor:
    """One energy for each structure, added up if there is one for each atom."""
    if isinstance(energies, Tensor):
        if energies.ndim == 2 and energies.shape[-1] == 1:
            energies = energies.squeeze(-1)
        if energies.shape == (count,):
            return energies
        if energies.shape == batch.shape:
            return energies.new_zeros(count).index_add(0, batch, energies)
    got = tuple(energies.shape) if isinstance(energies, Tensor) else type(energies).__name__
    raise ValueError(
        f"the model was shown {len(batch)} atoms in {count} structures, as the argument batch says, and must return "
        f"one energy for each of the structures or each of the atoms, got {got}"
    )


def _merged(rows: Tensor, owner: Tensor, cutoff: float) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows ``(N, 3)``, equal ones of a structure as one; the structures they belong to; how many each stands for."""
    rounding = max(EQUAL_ROWS, EQUAL_ROUNDINGS * torch.finfo(rows.dtype).eps)
    group = alike(torch.cat([2 * owner.unsqueeze(-1), rows.detach().double() / (cutoff * rounding)], -1), 1.0)
    number = int(group.max()) + 1
    if number == len(rows):
        return rows, owner, None
    counts = torch.bincount(group, minlength=number).double()
    mean = rows.new_zeros(number, rows.shape[-1], dtype=torch.float64).index_add(0, group, rows.double())
    mean = (mean / counts.unsqueeze(-1)).to(rows.dtype)
    return mean, owner.new_empty(number).index_copy(0, group, owner), counts


def _advice(error: TooManyPosesError) -> str:
    return (
        f"{error.args[0].partition(':')[0]}: too many of its neighbour vectors are nearly longest, though not equal. "
        "Use a smaller cell, mf.frames.Smooth with a larger sharpness, or a model with a frame for each atom, made of "
        "mf.Local, together with group=mf.Trivial(3); its cost grows with the number of atoms alone"
    )


def _distinct(frame: WeightedFrame) -> WeightedFrame:
    """The same with equal poses of a sample as one, for values and first derivatives."""
    assert frame.elements.linear is not None
    count = len(frame.sample)
    flat = torch.cat([frame.sample.unsqueeze(-1), frame.elements.linear.detach().flatten(1)], -1)
    group = alike(flat, EQUAL_MATRICES)
    if count == 0 or int(group.max()) == count - 1:
        return frame
    number = int(group.max()) + 1

    def total(x: Tensor) -> Tensor:
        return x.new_zeros((number, *x.shape[1:])).index_add(0, group, x)

    share = frame.weights.detach() / total(frame.weights.detach())[group]
    elements = frame.elements
    linear, inverse, own_inverse = (
        None if m is None else total(share[:, None, None] * m)
        for m in (elements.linear, elements.inverse, elements.own_inverse)
    )
    sample = frame.sample.new_empty(number).index_copy(0, group, frame.sample)
    first = torch.empty_like(sample).index_copy(0, group, torch.arange(count, device=sample.device))
    stabiliser = frame.stabiliser.spread(lambda x: x[first])
    return WeightedFrame(
        frame.group,
        frame.cloud,
        sample,
        total(frame.weights),
        linear,
        inverse,
        stabiliser,
        own_inverse,
        chunk=frame.chunk,
    )
