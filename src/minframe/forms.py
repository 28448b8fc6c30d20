"""The other canonical forms of the paper's table: eigendecomposition, polar decomposition, Jordan form.

Each function takes matrices ``P`` of shape ``(*batch, d, d)`` and returns the canonical form of every one, the same for
all of its orbit, with a group element ``g`` that leads from the canonical form back to ``P``:

    ============  ======================  ====================  ==========  =========================================
    function      group                   action                canonical   element
    ============  ======================  ====================  ==========  =========================================
    ``eigen``     O(d), SO(d); U(d),      ``g P g^*``           Lambda      up to O(k) or U(k) on each eigenspace
                  SU(d)
    ``polar``     O(d); U(d)              ``g P``               H           unique at full rank
    ``jordan``    GL(d, C)                ``g P g^-1``          J           up to the matrices that commute with J
    ============  ======================  ====================  ==========  =========================================

They differ in what a small change of ``P`` does. ``H`` and ``Lambda`` are as stable as one can wish. ``g`` jumps where
eigenvalues meet (``eigen``) or the rank drops (``polar``); no choice of ``g`` avoids that. ``J`` itself is
discontinuous. The docstrings give the bounds.

Everything is computed in float64 or complex128 and cast back. Tolerances are relative to ``|P|_2``, so units do not
matter; their default is a power of the ``eps`` of the dtype that was *given*, since its rounding is in the data.

**Derivatives** of ``eigen`` and ``polar``. Library derivatives of eigenvectors and singular vectors divide by the
differences of eigenvalues and are NaN where two are equal, even for functions such as ``H`` that are smooth there. Here
the decomposition of the detached ``P`` gives the value, and two Newton steps for the equation that the factors solve
give the derivatives. With ``X`` skew, ``V -> V (1 + X + X^2 / 2)`` stays unitary up to ``O(X^4)``, and

* ``eigen``: ``X_ij = (V^* P V)_ij / (l_j - l_i)`` removes what couples different eigenspaces; inside one it is 0;
* ``polar``: with ``A = W^* P V`` and ``P = W S V^*``, ``X_ij = (A - A^*)_ij / (s_i + s_j)`` makes ``A`` Hermitian.

Each ``X`` enters as ``X - X.detach()``: it is zero, its derivative is not. The first step is right to first order and
the second, with the same denominators, to second: both forms can be differentiated twice, in any mode.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.errors import data_checks_enabled, has_tangent
from minframe.linalg.qr import FRACTION


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
        return _same(self.cluster).sum(-1)

    @property
    def projectors(self) -> Tensor:
        """``(*batch, d, d, d)``: for each eigenvalue, the orthogonal projector on its eigenspace.

        These are functions of ``P`` alone, with ``projector(g P g^*) = g projector(P) g^*``.
        """
        same = _same(self.cluster).to(self.element.dtype)
        return torch.einsum("...ij,...aj,...bj->...iab", same, self.element, self.element.conj())


class PolarForm(NamedTuple):
    """``P = element @ canonical``.

    Attributes:
        canonical: ``(*batch, d, d)``, symmetric or Hermitian, positive semidefinite.
        element: ``(*batch, d, d)``, orthogonal or unitary.
        rank: ``(*batch,)``; the element is unique where it is ``d``.
    """

    canonical: Tensor
    element: Tensor
    rank: Tensor


class JordanForm(NamedTuple):
    """``P = element @ canonical @ element^-1``.

    Attributes:
        canonical: ``(*batch, d, d)``, complex, upper bidiagonal: eigenvalues, with ones above them inside a block.
        element: ``(*batch, d, d)``, complex, invertible; its columns are Jordan chains.
        cluster: ``(*batch, d)``, the number of the eigenvalue, from 0, that each column belongs to.
        block: ``(*batch, d)``, the number of the block, from 0, that each column belongs to.
        residual: ``(*batch,)``, ``|P g - g J| / (|P| |g|)`` in the Frobenius norm, before casting back.
    """

    canonical: Tensor
    element: Tensor
    cluster: Tensor
    block: Tensor
    residual: Tensor

    @property
    def sizes(self) -> Tensor:
        """``(*batch, d)``: for each column, the size of its block."""
        return _same(self.block).sum(-1)

    @property
    def condition(self) -> Tensor:
        """``(*batch,)``: the condition number of the element, its columns scaled to unit length.

        The residual says how well the chains solve their equations, not whether they are independent. With this number
        near ``1 / eps`` they hardly are, and there is a matrix close by with larger blocks.
        """
        g = self.element.to(torch.complex128)
        return torch.linalg.cond(g / torch.linalg.vector_norm(g, dim=-2, keepdim=True))

    def blocks(self, *sample: int) -> list[tuple[complex, int]]:
        """Eigenvalue and size of every block, in order. ``sample``: its index, one number for each batch axis."""
        eigenvalues = self.canonical[sample].diagonal()
        if eigenvalues.ndim != 1:
            raise ValueError(
                f"blocks() needs one index for each of the {self.block.ndim - 1} batch axes, got {sample}: "
                "the number of blocks differs between samples"
            )
        starts = self.block[sample].diff(prepend=self.block.new_tensor([-1])).nonzero().flatten()
        sizes = self.sizes[sample]
        return [(complex(eigenvalues[i].item()), int(sizes[i])) for i in starts.tolist()]


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
    p, poison = _prepare(matrix)
    tolerance = _tolerance(matrix, rtol, 3 / 4)
    _check_hermitian(p, matrix)
    p = (p + p.mH) / 2
    values, vectors = torch.linalg.eigh(p.detach())
    values, vectors = values.flip(-1), vectors.flip(-1)
    apart = values[..., :-1] - values[..., 1:] > tolerance * values.abs().amax(-1, keepdim=True)
    cluster = torch.nn.functional.pad(apart.cumsum(-1), (1, 0))
    same = _same(cluster)
    if has_tangent(matrix):
        gaps = (values.unsqueeze(-2) - values.unsqueeze(-1)).masked_fill(same, torch.inf)
        for _ in range(2):
            x = _variation(vectors.mH @ p @ vectors) / gaps
            vectors = _turn(vectors, x)
        values = values + _variation((vectors.mH @ p @ vectors).diagonal(dim1=-2, dim2=-1).real)
    mean = (same * values.unsqueeze(-2)).sum(-1) / same.sum(-1)
    element = vectors @ _cluster_basis(vectors, same)
    if special:
        det = torch.linalg.det(element)
        turn = (det.conj() / det.abs()).unsqueeze(-1)
        element = torch.cat([element[..., :-1], element[..., -1:] * turn.unsqueeze(-1)], -1)
    canonical = torch.diag_embed(mean).to(p.dtype)
    return EigenForm((canonical + poison).to(matrix.dtype), (element + poison).to(matrix.dtype), cluster)


def polar(matrix: Tensor, rtol: float | None = None) -> PolarForm:
    """The polar decomposition ``P = U H``: ``H`` is canonical under ``g P``, for g in O(d), or U(d) if complex.

    ``H`` is the positive semidefinite square root of ``P^* P``, which ``P -> g P`` does not change: it is unique for
    every ``P``, at any rank.

    >>> import torch, minframe.forms as forms
    >>> stretch = torch.tensor([[2.0, 1], [1, 3]])
    >>> quarter = torch.tensor([[0.0, -1], [1, 0]])
    >>> found = forms.polar(quarter @ stretch)
    >>> bool(torch.allclose(found.canonical, stretch) and torch.allclose(found.element, quarter))
    True

    **Element.** At full rank ``U = P H^-1`` is unique. Otherwise only its action on the range of ``H`` is, and it is
    completed by sending a basis of the kernel of ``P`` to a basis of what ``P`` does not reach. Both are functions of
    those two spaces (the rule described at ``eigen``), so the result is deterministic and always in the group. A
    singular value up to ``rtol |P|_2`` counts as zero for this, and ``|P - U H|_2 <= 2 rtol |P|_2``, plus rounding.
    No such decision enters into ``H``.

    **Stability.** ``H`` is Lipschitz: ``|H(P + E) - H(P)|_F <= sqrt(2) |E|_F`` (Araki and Yamagami, 1981). ``U`` is
    conditioned by the smallest singular values, as its derivative divides by their sums: ``|dU|_F <= c |dP|_F`` with
    ``c = 2 / (s_(d-1) + s_d)`` for real and ``c = 1 / s_d`` for complex matrices (Kenney and Laub, 1991). A real matrix
    therefore has a stable ``U`` with one small singular value, until its determinant changes sign. The singular value
    decomposition, through which both are computed, is backward stable.

    **Gradients.** Both factors are smooth at full rank, equal singular values included. At lower rank neither is
    differentiable, as ``|x|`` is not at 0; the derivatives returned there are finite and hold the arbitrary part of
    ``U`` fixed.

    Args:
        matrix: ``(*batch, d, d)``, real or complex.
        rtol: singular value, relative to the largest, up to which it counts as zero. By default ``eps^(3/4)``.
    """
    p, poison = _prepare(matrix)
    w, sigma, vh = torch.linalg.svd(p.detach())
    v = vh.mH
    canonical = (v * sigma.unsqueeze(-2)) @ vh
    null = sigma <= _tolerance(matrix, rtol, 3 / 4) * sigma[..., :1]
    both = null.unsqueeze(-1) & null.unsqueeze(-2)
    spaces = both | torch.eye(null.shape[-1], dtype=torch.bool, device=null.device)
    w, v = (torch.where(null.unsqueeze(-2), b @ _cluster_basis(b, spaces), b) for b in (w, v))
    if has_tangent(matrix):
        sums = (sigma.unsqueeze(-2) + sigma.unsqueeze(-1)).masked_fill(both, torch.inf)
        for _ in range(2):
            a = w.mH @ p @ v
            w = _turn(w, _variation(a - a.mH) / sums)
        a = w.mH @ p @ v
        canonical = canonical + v @ _variation(a + a.mH) @ v.mH / 2
    canonical = (canonical + canonical.mH) / 2
    return PolarForm((canonical + poison).to(matrix.dtype), (w @ v.mH + poison).to(matrix.dtype), (~null).sum(-1))


def jordan(matrix: Tensor, rtol: float | None = None) -> JordanForm:
    """The Jordan form, canonical under ``g P g^-1`` for g in GL(d, C), and chains of generalised eigenvectors.

    Scalars commute with everything, so SL(d, C) has the same canonical form; divide the element by ``det^(1/d)``.

    >>> import torch, minframe.forms as forms
    >>> found = forms.jordan(torch.tensor([[3.0, 1, 0], [-1, 1, 0], [1, 1, 2]]))
    >>> found.blocks()
    [((2+0j), 2), ((2+0j), 1)]
    >>> found.canonical.real
    tensor([[2., 1., 0.],
            [0., 2., 0.],
            [0., 0., 2.]])

    **Order.** Eigenvalues by descending real part, those with equal real parts (to ``rtol |P|_2``) by descending
    imaginary part; blocks of one eigenvalue by descending size. Each chain is scaled to columns of geometric mean
    length one; as the ones in J have no units, neighbours in a chain differ in length by about the norm of ``P``.

    **Stability: none.** Matrices with distinct eigenvalues are dense, so arbitrarily small perturbations make any
    matrix diagonalisable, and the sizes of the blocks cannot be computed from rounded data as one computes a number
    (Kahan, 1972; Golub and Wilkinson, 1976). A perturbation ``eps`` spreads the eigenvalues of a block of size ``k``
    over a circle of radius ``eps^(1/k)``: 1e-8 for k = 2 and 2e-3 for k = 6 in float64. What can be computed is the
    structure of a matrix *within a tolerance* of ``P`` (Kagstrom and Ruhe, 1980), and the claim that comes with it is
    ``residual``, a backward error. Look at it, and at ``condition``; neither raises. Change ``rtol`` if you know how
    accurate your matrix is. Meant for matrices of moderate size (d up to a few tens) whose eigenvalues are either equal
    or well apart, and whose blocks are not hidden by an ill-conditioned change of basis.

    **How.** A set of computed eigenvalues is one eigenvalue of multiplicity ``m`` if its mean ``l``, which is accurate
    even where its members are not, passes a test: the staircase of ``N = P - l``. Its first step is the kernel of
    ``N``, of dimension ``n_1``; the next is the kernel of what ``N`` does modulo the first, ``n_2``; and so on, each
    from a singular value decomposition with singular values up to ``rtol |P|_2`` taken for zero. No power of ``N`` is
    formed, whose singular values would mean nothing. The test is that ``n_1 + n_2 + ... = m``; then the number of
    blocks of size ``j`` or more is ``n_j``. The set of all eigenvalues is tested first, and what fails is cut in two
    at its widest gap, so the result is the most degenerate structure that is found within the tolerance. In the
    basis of the staircase ``N`` is strictly block upper triangular with injective blocks above the diagonal: from the
    last step downwards, the images of the chains begun so far are independent, and new chains begin in the orthogonal
    complement of these images.

    Derivatives do not exist in general and none are given: the result is detached. Samples are treated one after the
    other, on the CPU, as their structures differ; not for ``torch.compile`` or ``torch.func``.

    Args:
        matrix: ``(*batch, d, d)``, real or complex. The result is complex64 if it is in single precision or lower.
        rtol: singular value, relative to ``|P|_2``, up to which it counts as zero. By default ``eps^(2/3)``: 4e-11 for
            float64, 2e-5 for float32.
    """
    p, poison = _prepare(matrix.detach() if isinstance(matrix, Tensor) else matrix)
    tolerance = _tolerance(matrix, rtol, 2 / 3)
    d, batch = p.shape[-1], p.shape[:-2]
    found = [_jordan(sample, tolerance) for sample in p.reshape(math.prod(batch), d, d).cpu()]
    shapes = ((d, d), (d, d), (d,), (d,), ())
    empty = (torch.empty((0, *s), dtype=torch.float64) for s in shapes)
    parts = (torch.stack(part) for part in zip(*found, strict=True)) if found else empty
    j, g, cluster, block, residual = (
        part.reshape((*batch, *s)).to(p.device) for part, s in zip(parts, shapes, strict=True)
    )
    wide = torch.complex128 if matrix.dtype in (torch.float64, torch.complex128) else torch.complex64
    return JordanForm(
        (j + poison).to(wide),
        (g + poison).to(wide),
        cluster.long(),
        block.long(),
        residual + poison[..., 0, 0],
    )


def _prepare(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The checked matrix in double precision, and ``(*batch, 1, 1)`` to add to the results: 0, or NaN.

    NaN and infinity raise where tensors may be read. Elsewhere such a sample is replaced by zero, as the libraries
    that decompose it would give up on the whole batch, and its results become NaN in the end.
    """
    if not isinstance(matrix, Tensor):
        raise TypeError(f"matrix must be a torch.Tensor, got {type(matrix).__name__}: convert it with torch.as_tensor")
    if not matrix.is_floating_point() and not matrix.is_complex():
        raise TypeError(
            f"matrix must have a floating or complex dtype, got {matrix.dtype}: convert it, for example with .double()"
        )
    shape = tuple(matrix.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or not shape[-1]:
        raise ValueError(f"matrix must have shape (*batch, d, d) with d >= 1, got {shape}: pass square matrices")
    p = matrix.to(torch.complex128 if matrix.is_complex() else torch.float64)
    poison = 0 * p.detach().abs().amax((-2, -1), keepdim=True)
    if _readable(p) and bool(poison.isnan().any()):
        bad = poison.flatten().isnan().nonzero().flatten().tolist()
        raise ValueError(
            f"matrix has NaN or infinite entries in sample {bad[0]} of {poison.numel()}: it has no canonical form. "
            "Remove the sample"
        )
    return torch.where(poison.isnan(), 0, p), poison


def _readable(x: Tensor) -> bool:
    return data_checks_enabled() and not torch._C._functorch.is_functorch_wrapped_tensor(x)


def _tolerance(matrix: Tensor, rtol: float | None, power: float) -> float:
    if rtol is not None and not 0 <= rtol < 1:
        raise ValueError(f"rtol must be in [0, 1), got {rtol}: it is relative to the norm of the matrix")
    return torch.finfo(matrix.dtype).eps ** power if rtol is None else rtol


def _check_hermitian(p: Tensor, matrix: Tensor) -> None:
    if not _readable(p):
        return
    tolerance = _tolerance(matrix, None, 3 / 4)
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


def _same(cluster: Tensor) -> Tensor:
    return cluster.unsqueeze(-1) == cluster.unsqueeze(-2)


def _variation(x: Tensor) -> Tensor:
    """Zero, with the derivatives of ``x``."""
    return x - x.detach()


def _turn(basis: Tensor, x: Tensor) -> Tensor:
    return basis + basis @ (x + x @ x / 2)


def _cluster_basis(vectors: Tensor, same: Tensor) -> Tensor:
    """A block diagonal unitary ``q`` such that ``vectors @ q`` depends on the spans of the clusters alone.

    The lengths of the rows of ``vectors``, restricted to a cluster, and the products between them are the entries of
    the projector on its span. So is every choice made here: step ``i`` takes a row of the cluster of column ``i``, of
    what the steps before have left of it, and makes it the next basis vector; in the new basis its entry is positive.
    """
    left, q = vectors, torch.zeros_like(vectors[..., :0])
    for i in range(vectors.shape[-1]):
        rows = left * same[..., i, :].unsqueeze(-2)
        length2 = rows.detach().abs().square().sum(-1)
        first = (length2 >= FRACTION * length2.amax(-1, keepdim=True)).int().argmax(-1, keepdim=True)
        u = rows.mH @ torch.zeros_like(length2).scatter(-1, first, 1.0).to(rows.dtype).unsqueeze(-1)
        u = u - q @ (q.mH @ u)  # once more: the rows left are orthogonal to q only up to rounding over their length
        u = u / torch.linalg.vector_norm(u, dim=-2, keepdim=True)
        left = left - (left @ u) @ u.mH
        q = torch.cat([q, u], -1)
    return q


Root = tuple[complex, list[Tensor]]  # an eigenvalue, and the steps of its staircase: orthonormal columns each


def _jordan(p: Tensor, rtol: float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The fields of a ``JordanForm`` for one matrix."""
    d, peak = p.shape[-1], float(p.abs().max())
    exponent = math.frexp(peak)[1] - 1
    scale = math.ldexp(1.0, exponent)  # dividing by it rounds nothing
    a = p.to(torch.complex128) / scale
    tolerance = rtol * float(torch.linalg.matrix_norm(a, 2))
    roots = _roots(a, torch.linalg.eigvals(p / scale).tolist(), tolerance)
    columns: list[Tensor] = []
    eigenvalues: list[complex] = []
    above: list[float] = []
    cluster: list[int] = []
    block = [-1]
    for number, (eigenvalue, steps) in enumerate(_ordered(roots, tolerance)):
        for chain in _chains(a, eigenvalue, steps):
            k = len(chain)
            power = torch.arange(k - 1, -1, -1).double() - (k - 1) / 2  # each image in a chain of P has one more scale
            lengths = torch.stack([torch.linalg.vector_norm(y) for y in chain])
            factors = torch.exp2(power * exponent) / lengths.log().mean().exp()
            columns += [y * f for y, f in zip(chain, factors, strict=True)]
            eigenvalues += [eigenvalue * scale] * k
            above += [1.0] * (k - 1) + [0.0]
            block += [block[-1] + 1] * k
            cluster += [number] * k
    j = torch.diag(torch.tensor(eigenvalues, dtype=a.dtype))
    j = j + torch.diag(torch.tensor(above[: d - 1], dtype=a.dtype), 1)
    g = torch.stack(columns, -1)
    miss = torch.linalg.matrix_norm(a @ g - g @ (j / scale)) / torch.linalg.matrix_norm(g)
    return j, g, torch.tensor(cluster), torch.tensor(block[1:]), miss / torch.linalg.matrix_norm(a) if peak else miss


def _roots(a: Tensor, eigenvalues: list[complex], tolerance: float) -> list[Root]:
    """The distinct eigenvalues and their staircases, found by cutting the set of eigenvalues until all parts pass."""
    m, d = len(eigenvalues), a.shape[-1]
    # Summed exactly, so that conjugate pairs leave no imaginary part.
    mean = complex(math.fsum(x.real for x in eigenvalues) / m, math.fsum(x.imag for x in eigenvalues) / m)
    n = a - mean * torch.eye(d, dtype=a.dtype)
    if m == 1:
        return [(mean, [torch.linalg.svd(n)[2].mH[:, -1:]])]
    steps = _staircase(n, tolerance)
    if sum(step.shape[-1] for step in steps) == m:
        return [(mean, steps)]
    one, other = _bisect(eigenvalues)
    return _roots(a, one, tolerance) + _roots(a, other, tolerance)


def _bisect(points: list[complex]) -> tuple[list[complex], list[complex]]:
    """Cut at the widest gap, the longest edge of the minimal spanning tree.

    Prim's algorithm adds the nearest point each time. When it crosses the longest edge, nothing outside is nearer to
    what it has collected, so whatever it adds by shorter edges later is on the far side: the cut is before and after.
    """
    order, rest, edges = points[:1], points[1:], []
    nearest = [abs(x - order[0]) for x in rest]
    while rest:
        i = min(range(len(rest)), key=nearest.__getitem__)
        edges.append(nearest.pop(i))
        order.append(rest.pop(i))
        nearest = [min(r, abs(x - order[-1])) for r, x in zip(nearest, rest, strict=True)]
    cut = max(range(len(edges)), key=edges.__getitem__) + 1
    return order[:cut], order[cut:]


def _staircase(n: Tensor, tolerance: float) -> list[Tensor]:
    """Orthonormal bases of ``ker n``, of ``ker n^2`` modulo ``ker n``, and so on until nothing new comes."""
    steps: list[Tensor] = []
    rest = torch.eye(n.shape[-1], dtype=n.dtype)
    while rest.shape[-1]:
        _, sigma, vh = torch.linalg.svd(rest.mH @ n @ rest)
        count = int((sigma <= tolerance).sum())
        if steps:  # no more than before, as singular values interlace, except for rounding at the bar
            count = min(count, steps[-1].shape[-1])
        if not count:
            break
        rest, step = (rest @ vh.mH).split([len(sigma) - count, count], -1)
        steps.append(step)
    return steps


def _ordered(roots: list[Root], tolerance: float) -> list[Root]:
    """By descending real part, and by descending imaginary part where the real parts are equal."""
    roots = sorted(roots, key=lambda root: -root[0].real)
    ranks = [0]
    for (one, _), (other, _) in pairwise(roots):
        ranks.append(ranks[-1] + (one.real - other.real > tolerance))
    order = sorted(range(len(roots)), key=lambda i: (ranks[i], -roots[i][0].imag))
    return [roots[i] for i in order]


def _chains(a: Tensor, eigenvalue: complex, steps: list[Tensor]) -> list[list[Tensor]]:
    """The Jordan chains of one eigenvalue, the longest first; each begins with its eigenvector."""
    basis, sizes = torch.cat(steps, -1), [step.shape[-1] for step in steps]
    level = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    n = basis.mH @ a @ basis - eigenvalue * torch.eye(len(level), dtype=a.dtype)
    # Below the blocks that define the steps there is less than the tolerance, which would add up along a chain.
    n = n * (level.unsqueeze(-1) < level)
    chains: list[list[Tensor]] = []
    for step in reversed(range(len(sizes))):
        for chain in chains:
            chain.insert(0, n @ chain[0])
        here = level == step
        images = torch.stack([chain[0][here] for chain in chains], -1) if chains else n[here][:, :0]
        for top in torch.linalg.svd(images)[0][:, len(chains) :].unbind(-1):
            chains.append([torch.zeros(len(level), dtype=a.dtype).masked_scatter(here, top)])
    return [[basis @ y for y in chain] for chain in chains]
