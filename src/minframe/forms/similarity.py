"""The Jordan form, under similarity."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from minframe.forms.common import prepare, same_cluster, tolerance_of


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
        return same_cluster(self.block).sum(-1)

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
    p, poison = prepare(matrix.detach() if isinstance(matrix, Tensor) else matrix)
    tolerance = tolerance_of(matrix, rtol, 2 / 3)
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
