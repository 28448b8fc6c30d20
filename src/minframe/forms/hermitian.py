"""The eigendecomposition of symmetric and Hermitian matrices, under conjugation."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from minframe.checks import checkable
from minframe.forms.common import cluster_basis, prepare, same_cluster, tolerance_of, turned, variation
from minframe.tracing import has_tangent


class EigenForm(NamedTuple):
    """``P = element @ canonical @ element^*``.

    Attributes:
        canonical: ``(*batch, d, d)``, diagonal, the eigenvalues descending and the repeated ones exactly equal.
        element: ``(*batch, d, d)``, in the group; its columns are eigenvectors.
        cluster: ``(*batch, d)``, the number of the eigenspace, from 0, that each column belongs to.
    """

    canonical: Tensor
    element: Tensor
    cluster: Tensor

    @property
    def eigenvalues(self) -> Tensor:
        """``(*batch, d)``, real, descending."""
        return self.canonical.diagonal(dim1=-2, dim2=-1).real

    @property
    def multiplicities(self) -> Tensor:
        """``(*batch, d)``: for each eigenvalue, the dimension ``k`` of its eigenspace. The stabiliser of the canonical
        form is the product of O(k), or U(k), over the eigenspaces, with determinant one if the group asks for it.
        """
        return same_cluster(self.cluster).sum(-1)

    @property
    def projectors(self) -> Tensor:
        """``(*batch, d, d, d)``: for each eigenvalue, the orthogonal projector on its eigenspace.

        These are functions of ``P`` alone, with ``projector(g P g^*) = g projector(P) g^*``.
        """
        same = same_cluster(self.cluster).to(self.element.dtype)
        return torch.einsum("...ij,...aj,...bj->...iab", same, self.element, self.element.conj())


def eigen(matrix: Tensor, special: bool = False, rtol: float | None = None) -> EigenForm:
    """The eigenvalues of a symmetric or Hermitian matrix, canonical under ``g P g^*``, and the eigenvectors.

    Real matrices are taken under O(d), complex ones under U(d). The determinant changes nothing about the canonical
    form: any element can be given another one by turning an eigenvector round, which fixes Lambda. (The paper's table
    says complex *symmetric*; those need not be diagonalisable, and the matrices that U(d) diagonalises to a real Lambda
    are the Hermitian ones. For the others there is ``jordan``.)

    >>> import torch, minframe.forms as forms
    >>> found = forms.eigen(torch.tensor([[0.0, 1, 1], [1, 0, 1], [1, 1, 0]]))
    >>> [round(v, 5) for v in found.eigenvalues.tolist()], found.multiplicities.tolist()
    ([2.0, -1.0, -1.0], [1, 2, 2])
    >>> found.projectors[0]
    tensor([[0.3333, 0.3333, 0.3333],
            [0.3333, 0.3333, 0.3333],
            [0.3333, 0.3333, 0.3333]])

    **Repeated eigenvalues.** Neighbours in the sorted spectrum that differ by no more than ``rtol |P|_2`` count as one
    eigenvalue of multiplicity ``k``, and their mean stands for them, so that the stabiliser of the canonical form is
    what the clusters say and not smaller by rounding. It follows that ``|P - g Lambda g^*|_2 <= (k - 1) rtol |P|_2``,
    plus rounding. Equality to a tolerance is not transitive: a ladder of close eigenvalues is one cluster.

    **Element.** What ``P`` determines is the eigenspaces (``projectors``); a basis of one is free up to O(k) or U(k).
    The basis returned is a function of the projector ``p``: the columns of ``p``, the first among the longest taken
    each time (the rule of ``linalg.qr``), orthonormalised. So column ``i`` has a positive entry where it was chosen,
    and a simple eigenvector has a definite sign or phase. If ``special``, the last column is turned to give determinant
    one. The element is not continuous and cannot be: eigenvectors of a loop of matrices around a repeated eigenvalue
    come back with the other sign.

    **Stability.** For a change ``E`` of ``P``, each eigenvalue moves by at most ``|E|_2`` (Weyl). An eigenspace turns
    by an angle of at most about ``|E|_2 / gap``, with the gap to the rest of the spectrum (Davis and Kahan, 1970):
    single eigenvectors next to a close eigenvalue mean little, while the space of the whole cluster stays well
    determined. Rounding is an ``E`` of a few ``eps |P|_2``.

    **Gradients.** The means of clusters and the projectors are smooth functions of ``P`` as long as the clusters stay
    apart, and their derivatives are finite at repeated eigenvalues. The single eigenvalues of a cluster have none
    there (they split like ``|t|``); the derivative returned is that of their mean. Derivatives of the element grow like
    ``1 / gap``, and those inside an eigenspace follow from the basis rule above.

    Args:
        matrix: ``(*batch, d, d)``, real symmetric or complex Hermitian up to rounding; its Hermitian part is used.
        special: ask for an element of determinant one: SO(d), SU(d).
        rtol: gap, relative to ``|P|_2``, up to which eigenvalues are equal. By default ``eps^(3/4)``: 2e-12 for
            float64, 6e-6 for float32. 0 for exact ties only.
    """
    p, poison = prepare(matrix)
    tolerance = tolerance_of(matrix, rtol, 3 / 4)
    _check_hermitian(p, matrix)
    p = (p + p.mH) / 2
    values, vectors = torch.linalg.eigh(p.detach())
    values, vectors = values.flip(-1), vectors.flip(-1)
    apart = values[..., :-1] - values[..., 1:] > tolerance * values.abs().amax(-1, keepdim=True)
    cluster = torch.nn.functional.pad(apart.cumsum(-1), (1, 0))
    same = same_cluster(cluster)
    if has_tangent(matrix):
        gaps = (values.unsqueeze(-2) - values.unsqueeze(-1)).masked_fill(same, torch.inf)
        for _ in range(2):
            x = variation(vectors.mH @ p @ vectors) / gaps
            vectors = turned(vectors, x)
        values = values + variation((vectors.mH @ p @ vectors).diagonal(dim1=-2, dim2=-1).real)
    mean = (same * values.unsqueeze(-2)).sum(-1) / same.sum(-1)
    element = vectors @ cluster_basis(vectors, same)
    if special:
        det = torch.linalg.det(element)
        turn = (det.conj() / det.abs()).unsqueeze(-1)
        element = torch.cat([element[..., :-1], element[..., -1:] * turn.unsqueeze(-1)], -1)
    canonical = torch.diag_embed(mean).to(p.dtype)
    return EigenForm((canonical + poison).to(matrix.dtype), (element + poison).to(matrix.dtype), cluster)


def _check_hermitian(p: Tensor, matrix: Tensor) -> None:
    if not checkable(p):
        return
    tolerance = tolerance_of(matrix, None, 3 / 4)
    difference = (p - p.mH).detach().abs().amax((-2, -1)).flatten()
    relative = difference / p.detach().abs().amax((-2, -1)).flatten().clamp_min(torch.finfo(torch.float64).tiny)
    if bool((relative > tolerance).any()):
        kind, star = ("Hermitian", "P.mH") if p.is_complex() else ("symmetric", "P.mT")
        worst = int(relative.argmax())
        raise ValueError(
            f"matrix must be {kind}, but in sample {worst} of {len(relative)} P - {star} has entries of "
            f"{float(relative[worst]):.1e} times the largest of P, more than the rounding of {matrix.dtype} "
            f"({tolerance:.0e}): pass (P + {star}) / 2 if that is what you mean, or use jordan for general matrices"
        )
