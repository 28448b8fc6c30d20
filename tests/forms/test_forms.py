"""The eigendecomposition, the polar decomposition and the Jordan form, on matrices whose forms are known."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe import forms

F64, C128 = torch.float64, torch.complex128
FIELDS = [F64, C128]
HALVES = {F64: torch.float32, C128: torch.complex64}
PHI = (1 + 5**0.5) / 2

Blocks = list[tuple[complex, int]]


def unitary(*shape: int, dtype: torch.dtype = F64) -> Tensor:
    """Haar-distributed elements of O(d) or U(d)."""
    q, r = torch.linalg.qr(torch.randn(*shape, shape[-1], dtype=dtype))
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def general(*shape: int, dtype: torch.dtype = C128, condition: float = 10.0) -> Tensor:
    """Elements of GL(d) with a given condition number."""
    s = torch.logspace(0, torch.log10(torch.tensor(condition)).item(), shape[-1], dtype=F64)
    return (unitary(*shape, dtype=dtype) * s.to(dtype)) @ unitary(*shape, dtype=dtype)


def jordan_matrix(blocks: Blocks) -> Tensor:
    parts = []
    for value, k in blocks:
        parts.append(value * torch.eye(k, dtype=C128) + torch.diag(torch.ones(k - 1, dtype=C128), 1))
    return torch.block_diag(*parts)


def distance(a: Tensor, b: Tensor) -> float:
    """Largest difference over the largest entry of ``b``, over all samples."""
    return float((a - b).abs().max() / b.abs().max().clamp_min(1e-300))


def eye_like(g: Tensor) -> Tensor:
    return torch.eye(g.shape[-1], dtype=g.dtype).expand_as(g)


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A Hermitian matrix in a lower precision, without leaving the Hermitian matrices."""
    x = x.to(dtype)
    return (x + x.mH) / 2


SPECTRA = {
    "simple": [3.0, 1.0, 0.5, -2.0],
    "one": [2.5],
    "pair": [4.0, 1.0, 1.0],
    "pairs": [2.0, 2.0, -1.0, -1.0],
    "projector": [1.0, 1.0, 0.0, 0.0, 0.0],
    "multiple of one": [-3.0] * 4,
    "zero": [0.0] * 3,
    "opposite": [1.0, 0.0, -1.0],
    "negative": [-1.0, -5.0, -5.0, -5.0, -6.0],
}
every_spectrum = pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA.keys())
every_field = pytest.mark.parametrize("dtype", FIELDS, ids=["real", "complex"])


class TestEigen:
    @every_field
    @every_spectrum
    @pytest.mark.parametrize("special", [False, True])
    def test_known_spectra(self, spectrum: list[float], dtype: torch.dtype, special: bool) -> None:
        values = torch.tensor(spectrum, dtype=F64)
        h = unitary(7, len(spectrum), dtype=dtype)
        p = (h * values.to(dtype)) @ h.mH
        found = forms.eigen(p, special)
        scale = values.abs().max()
        assert ((found.eigenvalues - values).abs() <= 1e-14 * scale).all()
        assert torch.equal(found.canonical, torch.diag_embed(found.eigenvalues).to(dtype))
        assert ((found.element @ found.canonical @ found.element.mH - p).abs() <= 2e-14 * scale).all()
        torch.testing.assert_close(found.element.mH @ found.element, eye_like(p), atol=1e-14, rtol=0)
        if special:
            det = torch.linalg.det(found.element)
            torch.testing.assert_close(det, torch.ones_like(det), atol=1e-14, rtol=0)
        counts = [spectrum.count(v) for v in spectrum]
        assert found.multiplicities.tolist() == [counts] * 7
        assert found.cluster.tolist() == [[sorted(set(spectrum), reverse=True).index(v) for v in spectrum]] * 7
        same = values.unsqueeze(-1) == values
        assert torch.equal(found.eigenvalues[:, same.nonzero()[:, 0]], found.eigenvalues[:, same.nonzero()[:, 1]])
        for i in range(len(spectrum)):
            space = h * same[i].to(dtype)
            torch.testing.assert_close(found.projectors[:, i], space @ space.mH, atol=1e-13, rtol=0)

    @every_field
    @every_spectrum
    def test_canonical_form_is_invariant(self, spectrum: list[float], dtype: torch.dtype) -> None:
        h = unitary(len(spectrum), dtype=dtype)
        p = (h * torch.tensor(spectrum, dtype=dtype)) @ h.mH
        g = unitary(1000, len(spectrum), dtype=dtype)
        one, other = forms.eigen(p), forms.eigen(g @ p @ g.mH)
        assert distance(other.canonical, one.canonical) <= 1e-12
        assert torch.equal(other.cluster, one.cluster.expand_as(other.cluster))
        lower = forms.eigen(rounded(g @ p @ g.mH, HALVES[dtype]))
        assert lower.canonical.dtype == lower.element.dtype == HALVES[dtype]
        assert distance(lower.canonical.to(dtype), one.canonical) <= 1e-5
        assert torch.equal(lower.cluster, other.cluster)

    @every_field
    @every_spectrum
    def test_element_is_unique_up_to_the_stabiliser(self, spectrum: list[float], dtype: torch.dtype) -> None:
        h = unitary(len(spectrum), dtype=dtype)
        p = (h * torch.tensor(spectrum, dtype=dtype)) @ h.mH
        g = unitary(200, len(spectrum), dtype=dtype)
        one, other = forms.eigen(p), forms.eigen(g @ p @ g.mH)
        change = other.element.mH @ g @ one.element
        outside = one.cluster.unsqueeze(-1) != one.cluster
        assert not outside.any() or change[:, outside].abs().max() < 1e-13
        moved = g.unsqueeze(-3) @ one.projectors @ g.unsqueeze(-3).mH
        torch.testing.assert_close(other.projectors, moved, atol=1e-13, rtol=0)

    @every_field
    def test_element_depends_on_the_eigenspaces_alone(self, dtype: torch.dtype) -> None:
        h = unitary(50, 6, dtype=dtype)
        turn = torch.block_diag(*(unitary(k, dtype=dtype) for k in (1, 3, 2)))
        one = torch.tensor([5.0, 1, 1, 1, -2, -2], dtype=dtype)
        other = torch.tensor([9.0, 8, 8, 8, 7, 7], dtype=dtype)  # other eigenvalues of the same spaces
        a = forms.eigen((h * one) @ h.mH).element
        b = forms.eigen((h @ turn * other) @ (h @ turn).mH).element
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)

    @pytest.mark.parametrize("d", [2, 3, 4, 5])
    def test_special_differs_in_the_last_column_only(self, d: int) -> None:
        p = torch.randn(40, d, d, dtype=F64)
        p = p + p.mT
        one, other = forms.eigen(p), forms.eigen(p, special=True)
        assert torch.equal(one.element[..., :-1], other.element[..., :-1])
        sign = torch.linalg.det(one.element).round()
        assert {-1.0, 1.0} == set(sign.tolist())
        torch.testing.assert_close(one.element[..., -1] * sign.unsqueeze(-1), other.element[..., -1])

    def test_platonic_solids_have_one_eigenvalue(self) -> None:
        signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=F64)] * 3)
        golden = torch.tensor([[0, i, j * PHI] for i in (1, -1) for j in (1, -1)], dtype=F64)
        icosahedron = torch.cat([golden.roll(k, -1) for k in range(3)])
        thin = torch.tensor([[0, i / PHI, j * PHI] for i in (1, -1) for j in (1, -1)], dtype=F64)
        solids = {
            "tetrahedron": signs[signs.prod(-1) > 0],
            "cube": signs,
            "octahedron": torch.cat([torch.eye(3, dtype=F64), -torch.eye(3, dtype=F64)]),
            "icosahedron": icosahedron,
            "dodecahedron": torch.cat([signs, *(thin.roll(k, -1) for k in range(3))]),
        }
        assert [len(v) for v in solids.values()] == [4, 8, 6, 12, 20]
        for vertices in solids.values():
            x = vertices @ unitary(20, 3).mT
            found = forms.eigen(x.mT @ x)
            assert (found.multiplicities == 3).all()
            expected = torch.full_like(found.eigenvalues, float(vertices.square().sum() / 3))
            torch.testing.assert_close(found.eigenvalues, expected)
            torch.testing.assert_close(found.projectors, torch.eye(3, dtype=F64).expand(20, 3, 3, 3))

    def test_symmetric_top(self) -> None:
        angles = torch.arange(3, dtype=F64) * 2 * torch.pi / 3
        ammonia = torch.stack([angles.cos(), angles.sin(), torch.full_like(angles, 0.2)], -1)
        x = ammonia @ unitary(3).mT
        found = forms.eigen(x.mT @ x)
        assert found.multiplicities.tolist() == [2, 2, 1]
        torch.testing.assert_close(found.eigenvalues, torch.tensor([1.5, 1.5, 0.12], dtype=F64))

    def test_tolerance_has_no_units(self) -> None:
        h = unitary(4)
        for scale in (1e-6, 1.0, 1e6):
            close = (h * torch.tensor([2.0, 1.0, 1.0 - 1e-6, 0], dtype=F64) * scale) @ h.mT
            assert forms.eigen(close).cluster.tolist() == [0, 1, 2, 3]
            assert forms.eigen(close, rtol=1e-6).cluster.tolist() == [0, 1, 1, 2]
            assert forms.eigen(close.float()).cluster.tolist() == [0, 1, 1, 2]  # float32 cannot tell them apart
            merged = forms.eigen(close, rtol=1e-6)
            assert distance(merged.element @ merged.canonical @ merged.element.mT, close) <= 1e-6
        assert forms.eigen(torch.diag(torch.tensor([1.0, 1, 2])), rtol=0).cluster.tolist() == [0, 1, 1]

    def test_weyl_and_davis_kahan(self) -> None:
        h = unitary(5, dtype=C128)
        p = (h * torch.tensor([3.0, 3, 1, 1, 1], dtype=C128)) @ h.mH
        one = forms.eigen(p)
        for size in (1e-3, 1e-6, 1e-9):
            e = torch.randn(100, 5, 5, dtype=C128)
            e = e + e.mH
            norm = size * torch.linalg.matrix_norm(e, 2)
            e = e * size
            other = forms.eigen(p + e, rtol=1e-1)
            assert other.cluster.tolist() == [[0, 0, 1, 1, 1]] * 100
            assert ((other.eigenvalues - one.eigenvalues).abs().amax(-1) <= norm + 1e-14).all()
            angle = torch.linalg.matrix_norm(other.projectors - one.projectors, 2).amax(-1)
            assert (angle <= norm / (2 - norm) + 1e-14).all()

    @every_field
    def test_derivatives_of_simple_spectra(self, dtype: torch.dtype) -> None:
        x = torch.randn(3, 3, dtype=dtype, requires_grad=True)
        for special in (False, True):

            def both(x: Tensor, special: bool = special) -> tuple[Tensor, Tensor]:
                found = forms.eigen(x + x.mH, special)
                return found.eigenvalues, found.element

            assert torch.autograd.gradcheck(both, x, check_forward_ad=True)
            assert torch.autograd.gradgradcheck(both, x, fast_mode=True)

    @every_field
    def test_derivatives_of_repeated_eigenvalues(self, dtype: torch.dtype) -> None:
        """Of rank one, the family stays in the set of matrices with a double eigenvalue: everything is smooth in it."""
        v = torch.randn(3, 1, dtype=dtype, requires_grad=True)

        def all_of(v: Tensor) -> tuple[Tensor, ...]:
            found = forms.eigen(v @ v.mH)
            return found.eigenvalues, found.element, found.projectors

        assert torch.autograd.gradcheck(all_of, v, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(all_of, v, fast_mode=True)

    def test_derivatives_at_the_identity_are_finite(self) -> None:
        p = torch.eye(3, dtype=F64, requires_grad=True)
        found = forms.eigen(p)
        (gradient,) = torch.autograd.grad(found.eigenvalues[0], p, retain_graph=True)
        torch.testing.assert_close(gradient, torch.eye(3, dtype=F64) / 3)  # that of the mean
        (gradient,) = torch.autograd.grad(found.element.sum(), p)
        assert gradient.isfinite().all()


class TestPolar:
    @every_field
    @pytest.mark.parametrize("d", [1, 2, 3, 6])
    @pytest.mark.parametrize("missing", [0, 1, 2, 6])
    def test_known_factors_at_every_rank(self, d: int, missing: int, dtype: torch.dtype) -> None:
        rank = max(0, d - missing)
        sigma = torch.tensor([0.5 + i for i in range(rank)] + [0.0] * (d - rank), dtype=dtype)
        v, u = unitary(30, d, dtype=dtype), unitary(30, d, dtype=dtype)
        h = (v * sigma) @ v.mH
        found = forms.polar(u @ h)
        torch.testing.assert_close(found.canonical, h, atol=2e-14 * d, rtol=0)
        assert torch.equal(found.canonical, found.canonical.mH)
        assert (torch.linalg.eigvalsh(found.canonical) >= -1e-14 * d).all()
        torch.testing.assert_close(found.element.mH @ found.element, eye_like(u), atol=1e-14, rtol=0)
        torch.testing.assert_close(found.element @ found.canonical, u @ h, atol=2e-14 * d, rtol=0)
        assert (found.rank == rank).all()
        reached = v * (sigma != 0).to(dtype)
        torch.testing.assert_close(found.element @ reached, u @ reached, atol=1e-13, rtol=0)

    @every_field
    @pytest.mark.parametrize("rank", [0, 1, 3, 4])
    def test_canonical_form_is_invariant(self, rank: int, dtype: torch.dtype) -> None:
        p = torch.randn(4, rank, dtype=dtype) @ torch.randn(rank, 4, dtype=dtype)
        g = unitary(1000, 4, dtype=dtype)
        one, other = forms.polar(p), forms.polar(g @ p)
        assert distance(other.canonical, one.canonical) <= 1e-12
        assert (other.rank == rank).all()
        lower = forms.polar((g @ p).to(HALVES[dtype]))
        assert lower.canonical.dtype == lower.element.dtype == HALVES[dtype]
        assert distance(lower.canonical.to(dtype), one.canonical) <= 1e-5
        assert (lower.rank == rank).all()
        if rank == 4:
            torch.testing.assert_close(other.element, g @ one.element, atol=1e-12, rtol=0)

    @every_field
    def test_completion_depends_on_the_two_spaces_alone(self, dtype: torch.dtype) -> None:
        left, right = torch.randn(20, 5, 2, dtype=dtype), torch.randn(20, 2, 5, dtype=dtype)
        kernel = torch.linalg.svd(right)[2].mH[..., 2:]
        one = forms.polar(left @ right)
        other = forms.polar(left @ torch.randn(20, 2, 2, dtype=dtype) @ right)
        torch.testing.assert_close(one.element @ kernel, other.element @ kernel, atol=1e-11, rtol=0)

    def test_zero_identity_and_reflection(self) -> None:
        one = torch.eye(3, dtype=F64)
        for p, h, u in [(0 * one, 0 * one, one), (one, one, one), (-2 * one, 2 * one, -one)]:
            found = forms.polar(p)
            torch.testing.assert_close(found.canonical, h, atol=1e-15, rtol=0)
            torch.testing.assert_close(found.element, u, atol=1e-15, rtol=0)
        mirror = torch.diag(torch.tensor([1.0, 1, -1], dtype=F64))
        torch.testing.assert_close(forms.polar(mirror).element, mirror)

    @every_field
    def test_perturbation_bounds(self, dtype: torch.dtype) -> None:
        u, v = unitary(300, 4, dtype=dtype), unitary(300, 4, dtype=dtype)
        sigma = torch.tensor([2.0, 1.0, 0.1, 1e-3], dtype=F64)
        p = (u * sigma.to(dtype)) @ v.mH
        e = torch.randn(300, 4, 4, dtype=dtype)
        for size in (1.0, 1e-3, 1e-6):
            one, other = forms.polar(p), forms.polar(p + size * e)
            norm = size * torch.linalg.matrix_norm(e)
            h = torch.linalg.matrix_norm(other.canonical - one.canonical)
            assert (h <= 2**0.5 * norm + 1e-14).all()
        condition = 1 / sigma[-1] if dtype == C128 else 2 / (sigma[-1] + sigma[-2])
        change = torch.linalg.matrix_norm(other.element - one.element)
        assert (change <= 1.02 * condition * norm).all()
        worst = (u[:, :, -1:] @ v[:, :, -1:].mH) * 1j if dtype == C128 else _real_worst(u, v)
        turned = forms.polar(p + 1e-7 * worst).element - one.element
        assert (torch.linalg.matrix_norm(turned) >= 0.98e-7 * condition * torch.linalg.matrix_norm(worst)).all()

    @every_field
    def test_derivatives(self, dtype: torch.dtype) -> None:
        def both(p: Tensor) -> tuple[Tensor, Tensor]:
            found = forms.polar(p)
            return found.canonical, found.element

        for p in (torch.randn(3, 3, dtype=dtype), unitary(3, dtype=dtype)):  # all singular values equal in the last
            p.requires_grad_()
            assert torch.autograd.gradcheck(both, p, check_forward_ad=True)
            assert torch.autograd.gradgradcheck(both, p, fast_mode=True)

    @every_field
    def test_derivatives_of_deficient_matrices_are_finite(self, dtype: torch.dtype) -> None:
        for rank in (0, 1, 2):
            p = (torch.randn(3, rank, dtype=dtype) @ torch.randn(rank, 3, dtype=dtype)).requires_grad_()
            found = forms.polar(p)
            for part in (found.canonical, found.element):
                (gradient,) = torch.autograd.grad((part * torch.randn_like(part)).sum().real, p, retain_graph=True)
                assert gradient.isfinite().all()
                if rank == 0 and part is found.element:
                    assert not gradient.any()  # all of it is arbitrary, and held fixed


def _real_worst(u: Tensor, v: Tensor) -> Tensor:
    """The direction that turns the planes of the two smallest singular values against each other."""
    return u[:, :, -2:-1] @ v[:, :, -1:].mH - u[:, :, -1:] @ v[:, :, -2:-1].mH


STRUCTURES: dict[str, Blocks] = {
    "one number": [(3, 1)],
    "mixed": [(2, 3), (2, 1), (-1, 2)],
    "nilpotent": [(0, 4)],
    "nilpotent of index two": [(0, 2), (0, 2), (0, 1)],
    "one large block": [(1, 7)],
    "two large blocks": [(1, 5), (0, 5)],
    "staircase": [(1, 3), (1, 2), (1, 1)],
    "identity": [(1, 1)] * 4,
    "projector": [(1, 1), (1, 1), (0, 1)],
    "diagonalisable": [(4, 1), (2, 1), (0.5, 1), (-3, 1)],
    "complex": [(2 + 1j, 2), (2, 1), (2 - 1j, 1), (-1j, 2), (-1j, 1)],
    "roots of unity": [(1, 1), (1j, 1), (-1j, 1), (-1, 1)],
    "close": [(1.001, 2), (1, 2)],
}
every_structure = pytest.mark.parametrize("blocks", STRUCTURES.values(), ids=STRUCTURES.keys())


def sizes(found: forms.JordanForm, *sample: int) -> list[int]:
    return [k for _, k in found.blocks(*sample)]


class TestJordan:
    @every_structure
    def test_known_structures(self, blocks: Blocks) -> None:
        j = jordan_matrix(blocks)
        d = len(j)
        h = torch.cat([torch.eye(d, dtype=C128).unsqueeze(0), general(15, d)])
        p = h @ j @ torch.linalg.inv(h)
        found = forms.jordan(p)
        assert distance(found.canonical, j) <= 1e-11
        ones = found.canonical.diagonal(offset=1, dim1=-2, dim2=-1)
        assert torch.equal(ones, j.diagonal(1).expand_as(ones))
        assert (found.residual <= 1e-14).all()
        assert (found.condition <= 1e4).all()
        assert distance(found.element @ found.canonical @ torch.linalg.inv(found.element), p) <= 1e-11
        for i in range(len(p)):
            assert sizes(found, i) == [k for _, k in blocks]
        assert found.sizes.tolist() == [[k for _, k in blocks for _ in range(k)]] * len(p)
        number, expected = 0, []
        for (one, k), (other, _) in pairwise([*blocks, (0, 0)]):
            expected += [number] * k
            number += one != other
        assert found.cluster.tolist() == [expected] * len(p)

    @every_structure
    @pytest.mark.parametrize("scale", [1e-40, 1e-6, 1e6, 1e40])
    def test_structure_has_no_units(self, blocks: Blocks, scale: float) -> None:
        j = jordan_matrix(blocks)
        h = general(3, len(j))
        found = forms.jordan(scale * (h @ j @ torch.linalg.inv(h)))
        for i in range(3):
            assert sizes(found, i) == [k for _, k in blocks]
        eigenvalues = found.canonical.diagonal(dim1=-2, dim2=-1)
        torch.testing.assert_close(eigenvalues / scale, j.diagonal().expand_as(eigenvalues), atol=1e-11, rtol=0)
        assert (found.residual <= 1e-14).all()

    @pytest.mark.parametrize("name", ["mixed", "nilpotent", "diagonalisable", "staircase"])
    def test_single_precision(self, name: str) -> None:
        j = jordan_matrix(STRUCTURES[name])
        h = general(20, len(j), dtype=F64, condition=5)
        found = forms.jordan((h @ j.real @ torch.linalg.inv(h)).float())
        assert found.canonical.dtype == found.element.dtype == torch.complex64
        assert distance(found.canonical.to(C128), j) <= 1e-5
        assert (found.residual <= 1e-6).all()

    def test_form_is_invariant_under_the_linear_group(self) -> None:
        p = general(4) @ jordan_matrix([(1 + 1j, 2), (0, 2)]) @ general(4)  # generic
        q = jordan_matrix([(1 + 1j, 2), (1 + 1j, 1), (0, 2)])
        for matrix in (p, q):
            g = general(50, len(matrix), condition=30)
            one, other = forms.jordan(matrix), forms.jordan(g @ matrix @ torch.linalg.inv(g))
            assert distance(other.canonical, one.canonical) <= 1e-11
            assert torch.equal(other.block, one.block.expand_as(other.block))

    def test_real_matrices_have_conjugate_pairs(self) -> None:
        turn = torch.tensor([[0.0, -2], [2, 0]], dtype=F64)
        p = torch.kron(torch.eye(2, dtype=F64), turn)
        p[:2, 2:] = torch.eye(2, dtype=F64)  # the real Jordan block of 2i of size two
        p = torch.block_diag(p, torch.tensor([[5.0]], dtype=F64))
        h = general(5, dtype=F64)
        found = forms.jordan(h @ p @ torch.linalg.inv(h))
        assert distance(found.canonical, jordan_matrix([(5, 1), (2j, 2), (-2j, 2)])) <= 1e-12
        assert found.canonical[0, 0].imag == 0

    @pytest.mark.parametrize("name", ["one large block", "staircase", "mixed", "close"])
    def test_real_spectra_come_out_real(self, name: str) -> None:
        j = jordan_matrix(STRUCTURES[name]).real
        h = general(20, len(j), dtype=F64)
        found = forms.jordan(h @ j @ torch.linalg.inv(h))
        assert (found.canonical.imag == 0).all()

    def test_complex_symmetric_matrices_need_not_be_diagonalisable(self) -> None:
        found = forms.jordan(torch.tensor([[1, 1j], [1j, -1]], dtype=C128))
        torch.testing.assert_close(found.canonical, jordan_matrix([(0, 2)]), atol=1e-15, rtol=0)

    @every_field
    def test_agrees_with_the_eigendecomposition(self, dtype: torch.dtype) -> None:
        h = unitary(5, dtype=dtype)
        p = (h * torch.tensor([3.0, 1, 1, 0, -2], dtype=dtype)) @ h.mH
        assert distance(forms.jordan(p).canonical, forms.eigen(p).canonical.to(C128)) <= 1e-13

    def test_generic_matrices_are_diagonalisable(self) -> None:
        found = forms.jordan(torch.randn(10, 8, 8, dtype=F64))
        assert (found.sizes == 1).all()
        assert (found.residual <= 1e-14).all()

    def test_structure_is_that_within_the_tolerance(self) -> None:
        """A perturbation of 1e-8 leaves no block; a tolerance above it finds the structure again."""
        j = jordan_matrix(STRUCTURES["mixed"])
        noise = torch.randn(6, 6, dtype=C128)
        p = j + 1e-8 * noise / torch.linalg.matrix_norm(noise)
        assert sizes(forms.jordan(p)) == [1] * 6
        spread = torch.linalg.eigvals(p) - 2
        assert spread.abs().topk(4, largest=False).values.max() > 3e-4  # the cube root of 1e-8 is 2e-3
        coarse = forms.jordan(p, rtol=1e-6)
        assert sizes(coarse) == [3, 1, 2]
        assert coarse.residual <= 1e-7
        assert (coarse.canonical - j).abs().max() <= 1e-7

    def test_near_dependence_of_the_chains_is_reported(self) -> None:
        p = jordan_matrix([(0, 3)])
        p[2, 0] = 1e-9
        found = forms.jordan(p)
        assert sizes(found) == [1, 1, 1]
        assert found.residual <= 1e-14
        assert 1e5 < found.condition < 1e8

    def test_zero_and_multiples_of_one(self) -> None:
        for value in (0.0, -2.0):
            found = forms.jordan(value * torch.eye(3, dtype=F64))
            assert found.blocks() == [(value, 1)] * 3
            assert found.residual == 0


ALL = [forms.eigen, forms.polar, forms.jordan]
every_form = pytest.mark.parametrize("form", ALL, ids=lambda f: f.__name__)


def symmetric(*shape: int) -> Tensor:
    x = torch.randn(*shape, shape[-1])
    return x + x.mT


@every_form
class TestEveryForm:
    def test_shapes(self, form: Callable[..., forms.EigenForm]) -> None:
        for batch in [(), (4,), (2, 3), (0,), (2, 0, 3)]:
            for d in (1, 2, 3):
                p = symmetric(*batch, d)
                found = form(p)
                assert found.canonical.shape == found.element.shape == (*batch, d, d)
                assert all(part.shape[: len(batch)] == batch for part in found)

    def test_samples_do_not_see_each_other(self, form: Callable[..., forms.EigenForm]) -> None:
        p = symmetric(3, 4)
        p[1] = torch.eye(4)
        for i, one in enumerate(p):
            for part, alone in zip(form(p), form(one), strict=True):
                torch.testing.assert_close(part[i], alone)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_precision_in_is_precision_out(self, form: Callable[..., forms.EigenForm], dtype: torch.dtype) -> None:
        p = torch.tensor([[2.0, 0, 0], [0, -1, 0], [0, 0, 0.5]], dtype=dtype)
        found = form(p)
        result = {torch.float64: C128}.get(dtype, torch.complex64) if form is forms.jordan else dtype
        assert found.canonical.dtype == found.element.dtype == result
        expected = [2, 1, 0.5] if form is forms.polar else [2, 0.5, -1]
        assert sorted(found.canonical.diagonal().real.tolist(), reverse=True) == pytest.approx(expected, rel=1e-3)

    def test_messages(self, form: Callable[..., object]) -> None:
        with pytest.raises(TypeError, match=r"matrix must be a torch.Tensor, got list: convert"):
            form([[1.0]])
        with pytest.raises(TypeError, match=r"matrix must have a floating or complex dtype, got torch.int64: convert"):
            form(torch.eye(2).long())
        for shape in [(3,), (2, 3), (0, 0), (4, 0, 0)]:
            with pytest.raises(ValueError, match=r"matrix must have shape \(\*batch, d, d\) with d >= 1, got \("):
                form(torch.zeros(shape))
        for bad in (torch.nan, torch.inf):
            p = torch.eye(2).repeat(3, 1, 1)
            p[1, 0, 0] = bad
            with pytest.raises(ValueError, match=r"matrix has NaN or infinite entries in sample 1 of 3.*Remove"):
                form(p)
        for rtol in (-1.0, 1.0, torch.nan):
            with pytest.raises(ValueError, match=r"rtol must be in \[0, 1\), got"):
                form(torch.eye(2), rtol=rtol)

    def test_unchecked_gives_nan_for_the_sample_alone(self, form: Callable[..., forms.EigenForm]) -> None:
        p = symmetric(3, 2)
        p[1, 0, 0] = torch.nan
        with mf.unchecked():
            found = form(p)
        for part in (found.canonical, found.element):
            assert part[1].isnan().all()
            assert part[[0, 2]].isfinite().all()


def test_asymmetric_matrices_are_refused() -> None:
    p = torch.eye(3).repeat(2, 1, 1)
    p[1, 0, 2] = 0.1
    message = r"matrix must be symmetric, but in sample 1 of 2 .* 1.0e-01 .* torch.float32 .*\(P \+ P.mT\) / 2"
    with pytest.raises(ValueError, match=message):
        forms.eigen(p)
    with pytest.raises(ValueError, match=r"must be Hermitian.*P\.mH"):
        forms.eigen(torch.tensor([[1, 1j], [1j, 1]]))
    with pytest.raises(ValueError, match=r"must be Hermitian"):
        forms.eigen(torch.tensor([[1j]]))


def test_rounding_that_breaks_the_symmetry_is_averaged() -> None:
    p = symmetric(5, 4)
    q = p + 1e-7 * torch.randn_like(p)
    assert not torch.equal(q, q.mT)
    for part, expected in zip(forms.eigen(q), forms.eigen((q.double() + q.double().mT) / 2), strict=True):
        torch.testing.assert_close(part.double(), expected.double(), atol=1e-6, rtol=0)
    q.requires_grad_()
    (gradient,) = torch.autograd.grad(forms.eigen(q).element.sum(), q)
    torch.testing.assert_close(gradient, gradient.mT)


def test_blocks_needs_one_sample() -> None:
    found = forms.jordan(torch.eye(2).repeat(3, 1, 1))
    with pytest.raises(ValueError, match=r"one index for each of the 1 batch axes, got \(\)"):
        found.blocks()


@pytest.mark.parametrize("form", [forms.eigen, forms.polar], ids=["eigen", "polar"])
def test_function_transforms(form: Callable[..., forms.EigenForm]) -> None:
    p = symmetric(4, 3).double()
    for part, whole in zip(torch.func.vmap(form)(p), form(p), strict=True):
        torch.testing.assert_close(part, whole)

    def energy(p: Tensor) -> Tensor:
        return form(p).element[0, 0]

    one = torch.func.vmap(torch.func.grad(energy))(p)
    q = p.clone().requires_grad_()
    (other,) = torch.autograd.grad(sum((energy(x) for x in q), torch.zeros(())), q)
    torch.testing.assert_close(one, other)
