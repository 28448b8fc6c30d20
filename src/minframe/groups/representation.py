"""Checks that matrices are representations of one finite group, and its multiplication table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

EQUAL_MATRICES = 1e-6  # relative to the largest: entries that differ by less are equal, as matrices may be float32


def representation(given: Any, name: str) -> Tensor:
    """Matrices ``(G, k, k)`` in float64, from these or from signed permutations ``(G, k)``."""
    matrices = torch.as_tensor(given)
    if matrices.ndim == 2 and not matrices.is_floating_point():
        matrices = _signed_permutations(matrices, name)
    if matrices.is_complex() or matrices.ndim != 3 or matrices.shape[-1] != matrices.shape[-2] or not matrices.numel():
        raise ValueError(
            f"the matrices of type {name!r} must be real, of shape (G, k, k), or integers (G, k) for signed "
            f"permutations, got shape {tuple(matrices.shape)} of {matrices.dtype}"
        )
    matrices = matrices.detach().cpu().double()
    if not bool(matrices.isfinite().all()):
        raise ValueError(f"the matrices of type {name!r} have NaN or infinite entries")
    nearest = matrices.round()
    whole = (matrices - nearest).abs().max() <= EQUAL_MATRICES  # signed permutations stay exact
    return nearest if whole else matrices


def _signed_permutations(lines: Tensor, name: str) -> Tensor:
    k = lines.shape[-1]
    if not bool((lines.abs().sort(-1)[0] == torch.arange(1, k + 1)).all()):
        bad = (lines.abs().sort(-1)[0] != torch.arange(1, k + 1)).any(-1).long().argmax()
        raise ValueError(
            f"line {int(bad)} of type {name!r} is no signed permutation: {lines[bad].tolist()} must hold each number "
            f"from 1 to {k} once, with a sign"
        )
    return torch.nn.functional.one_hot(lines.abs() - 1, k) * lines.sign().unsqueeze(-1)


def multiplication_table(matrices: Mapping[str, Tensor]) -> Tensor:
    """``(G, G)``, the number of the product of each pair of elements; an error if there is no such table."""
    counts = {name: len(g) for name, g in matrices.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"all types need a matrix for each element of one group, but there are {counts}")
    tables, whole = {}, []
    for name, g in matrices.items():
        scale = g.abs().max().clamp_min(1e-300)
        whole.append(g.flatten(1) / scale)
        tables[name] = _matches(g, scale)
        if not bool(tables[name].any(-1).all()):
            i, j = (int(k) for k in (~tables[name].any(-1)).nonzero()[0])
            raise ValueError(
                f"the matrices of type {name!r} are those of no group: the product of number {i} and number {j} is "
                "none of them"
            )
    elements = torch.cat(whole, -1)
    twice = (torch.cdist(elements, elements) <= EQUAL_MATRICES).triu(1)
    if bool(twice.any()):
        i, j = (int(k) for k in twice.nonzero()[0])
        raise ValueError(f"elements {i} and {j} have the same matrices in all types: give every element once")
    joint = torch.stack(list(tables.values())).all(0)
    if not bool(joint.any(-1).all()):
        i, j = (int(k) for k in (~joint.any(-1)).nonzero()[0])
        products = {name: t[i, j].nonzero().flatten().tolist() for name, t in tables.items()}
        raise ValueError(
            f"the types are representations of different groups, or list elements in different orders: the product of "
            f"number {i} and number {j} is, by type, {products}"
        )
    return joint.long().argmax(-1)


def _matches(g: Tensor, scale: Tensor) -> Tensor:
    """``(G, G, G)``, True where a matrix equals the product of a pair."""
    products = (g.unsqueeze(1) @ g).flatten(2)  # (G, G, k^2)
    return torch.cdist(products / scale, (g.flatten(1) / scale).expand(len(g), -1, -1)) <= EQUAL_MATRICES * g.shape[-1]


def polished(g: Tensor, table: Tensor) -> Tensor:
    """A representation exact to float64, near matrices that are one up to the rounding of their source.

    The mean over h of ``g(ah) g(h)^-1`` is a representation up to the square of the error of ``g`` (Grove, Karcher and
    Ruh).
    """
    for _ in range(2):
        if torch.equal(g, g.round()):
            break
        back = torch.linalg.inv(g)
        g = torch.stack([(g[table[a]] @ back).mean(0) for a in range(len(g))])
    return g
