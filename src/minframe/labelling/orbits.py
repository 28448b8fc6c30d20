"""Orbits of nodes and of pairs, and means over them.

The average of ``g . y`` over a group of permutations is, at every node, the mean of ``y`` over the orbit of the node:
``(1/|G|) sum_g y[g^-1 i]`` runs through the orbit of ``i``, and through each of its members equally often, |G| divided
by the length of the orbit (orbit-stabiliser theorem). For edges the same holds with the orbits of ordered pairs,
called *orbitals*. The orbits of a group are the components of the graph that joins each point with its image under
each generator, so neither the group nor its order is needed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minframe.labelling import rows
from minframe.labelling.arcs import components
from minframe.labelling.pieces import Moves
from minframe.tracing import is_pushed


def orbits(generators: Tensor, owner: Tensor, count: int) -> Tensor:
    """Orbit numbers ``(count, n)``: the smallest node of the orbit.

    Args:
        generators: ``(k, n)``.
        owner: ``(k,)``, the sample that each belongs to.
        count: of samples.
    """
    n = generators.shape[-1]
    first = (owner * n).unsqueeze(-1)
    source = first + torch.arange(n, device=generators.device)
    return components(source.flatten(), (first + generators).flatten(), count * n).view(count, n) % max(n, 1)


def orbitals(generators: Tensor, owner: Tensor, count: int) -> Tensor:
    """Orbit numbers of ordered pairs ``(count, n, n)``: the smallest ``i * n + j`` of the orbit."""
    n = generators.shape[-1]
    pairs = (generators.unsqueeze(-1) * n + generators.unsqueeze(-2)).flatten(-2)
    return orbits(pairs, owner, count).view(count, n, n)


def loose_orbitals(orbits: Tensor) -> Tensor:
    """The same for groups with all permutations within each of the ``orbits`` ``(count, n)``.

    Pairs of nodes from two orbits make up one orbital, those from one orbit two: a node with itself, and the rest,
    which is represented by the first node of the orbit and the second.
    """
    n = orbits.shape[-1]
    number = torch.arange(n, device=orbits.device).expand(orbits.shape)
    later = torch.where(number == orbits, n, number)
    second = torch.full_like(orbits, n).scatter_reduce(-1, orbits, later, "amin").gather(-1, orbits)
    within = (orbits.unsqueeze(-1) == orbits.unsqueeze(-2)) & ~torch.eye(n, dtype=torch.bool, device=orbits.device)
    return orbits.unsqueeze(-1) * n + torch.where(within, second.unsqueeze(-2), orbits.unsqueeze(-2))


def orbits_sparse(moves: Moves, n: int) -> Tensor:
    """Orbit numbers ``(n,)`` of all nodes of sparse graphs."""
    return components(*_arrows(moves), n)


def edge_orbits_sparse(edge_index: Tensor, moves: Moves, n: int) -> Tensor:
    """Orbit numbers ``(E,)`` of the edges ``(2, E)`` of sparse graphs: the number of one edge of the orbit.

    Nodes of a loose cell are permuted independently of everything else, so an edge that touches one has for its orbit
    all edges between the orbits of its ends. Edges within pieces are followed through the generators.
    """
    edge_index = edge_index.cpu()
    orbit = orbits_sparse(moves, n)
    inside = moves.active[edge_index].all(0)
    u, v = orbit[edge_index]
    key = torch.where(edge_index[0] == edge_index[1], u, u * n + v + n)
    first = torch.unique(key, return_inverse=True)[1]
    e = edge_index.shape[1]
    number = torch.arange(e)
    representative = torch.full((e,), e).scatter_reduce(0, first, number, "amin")[first]
    which = inside.nonzero().squeeze(-1).tolist()
    ends = edge_index[:, inside].T.tolist()
    find = {(i, j): k for k, (i, j) in zip(which, ends, strict=True)}
    around: dict[int, list[tuple[int, int]]] = {}
    for i, j in find:
        around.setdefault(i, []).append((i, j))
        if i != j:
            around.setdefault(j, []).append((i, j))
    source, target = [], []
    for points, images in moves.pieces:
        image = dict(zip(points, images, strict=True))
        for point in points:
            for i, j in around.get(point, ()):
                source.append(find[i, j])
                target.append(find[image.get(i, i), image.get(j, j)])
    within = components(torch.tensor(source, dtype=torch.int64), torch.tensor(target, dtype=torch.int64), e)
    return torch.where(inside, within, representative)


def _arrows(moves: Moves) -> tuple[Tensor, Tensor]:
    source = [p for points, _ in moves.pieces for p in points] + [p for cell in moves.loose for p in cell]
    target = [p for _, images in moves.pieces for p in images] + [cell[0] for cell in moves.loose for _ in cell]
    return torch.tensor(source, dtype=torch.int64), torch.tensor(target, dtype=torch.int64)


def _mean(values: Tensor, numbers: Tensor) -> Tensor:
    """Mean of ``values`` ``(*batch, m, ...)`` over equal ``numbers`` ``(*batch, m)``, which are below m."""
    dtype = values.dtype
    if not (values.is_floating_point() or values.is_complex()):
        dtype = torch.get_default_dtype()
    values = values.to(torch.promote_types(dtype, torch.float64))  # sums of thousands
    index = numbers.view(*numbers.shape, *(1,) * (values.ndim - numbers.ndim)).expand(values.shape)
    axis = numbers.ndim - 1
    total = torch.zeros_like(values).scatter_add(axis, index, values)
    count = torch.zeros_like(numbers).scatter_add(-1, numbers, torch.ones_like(numbers)).clamp_min(1)
    return (total / count.view(*count.shape, *(1,) * (values.ndim - count.ndim))).gather(axis, index).to(dtype)


class _CompiledMean(torch.autograd.Function):
    """``_mean`` in C. It projects orthogonally, so it is its own adjoint."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(numbers)
        found = rows.mean(y.detach(), numbers)
        return _mean(y, numbers) if found is None else found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return orbit_mean(gradient, *ctx.saved_tensors), None


def orbit_mean(y: Tensor, orbits: Tensor) -> Tensor:
    """The mean of ``y`` ``(*batch, n, ...)`` over each orbit, ``orbits`` ``(*batch, n)``; differentiable.

    Integers become floating numbers.
    """
    found = rows.mean(y, orbits)
    if found is not None:
        return found
    if y.dtype in (torch.float32, torch.float64) and not is_pushed(y) and rows.serves(y.detach()):
        return _CompiledMean.apply(y, orbits)  # type: ignore[no-untyped-call]
    return _mean(y, orbits)


def orbital_mean(y: Tensor, orbitals: Tensor) -> Tensor:
    """The mean of ``y`` ``(*batch, n, n, ...)`` over each orbital, ``orbitals`` ``(*batch, n, n)``; differentiable."""
    axis = orbitals.ndim - 2
    return orbit_mean(y.flatten(axis, axis + 1), orbitals.flatten(-2)).view(y.shape)
