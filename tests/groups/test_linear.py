"""Every linear group as a citizen of PyTorch: derivatives, layouts, compile, export, several inputs, NaN."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import Tensor

import minframe as mf
from minframe.linalg import native
from minframe.testing import particles
from table import LINEAR, bound, clouds_for, number, options, randn, relative

GROUPS = [
    *(
        mf.O(2, 1),
        mf.SO(2, 2),
        mf.O(3, 1),
        mf.Lorentz(),
        mf.ProperLorentz(3),
        mf.OrthochronousLorentz(),
        mf.Poincare(3),
    ),
    *(mf.U(2), mf.SU(3), mf.U(2, 1), mf.SU(1, 2), mf.SU(2, 2)),
    *(mf.GL(3), mf.SL(2), mf.SL(3), mf.Aff(2), mf.GL(2, complex=True), mf.SL(3, complex=True), mf.Aff(2, complex=True)),
]
by_group = pytest.mark.parametrize("group", GROUPS, ids=str)


def net(x: Tensor) -> Tensor:
    """Smooth and without symmetry."""
    return 0.1 * x * x.abs().square().sum(-1, keepdim=True) + 0.5 * x.roll(1, -1) + 0.2 * x.roll(1, -2) + 0.1


@by_group
@pytest.mark.parametrize("missing", [0, 1])
def test_first_and_second_derivatives(group: mf.Group, missing: int) -> None:
    # With one point too few, along the clouds of that rank only: off them nothing is smooth.
    span = randn(group, group.d - missing, group.d) + torch.eye(group.d, dtype=number(group))[: group.d - missing]
    weights = randn(group, 2, group.d + 2, group.d - missing).requires_grad_()
    model = mf.Equivariant(net, group)
    energy = mf.Invariant(lambda x: x.real.pow(3).sum((-1, -2)) + x.abs().square().sum((-1, -2)), group)
    assert torch.autograd.gradcheck(lambda w: model(w @ span), (weights,))
    assert torch.autograd.gradgradcheck(lambda w: energy(w @ span), (weights,))


@pytest.mark.slow
def test_derivatives_where_the_total_momentum_is_time_like() -> None:
    x = randn(mf.Lorentz(), 2, 4, 4)
    x[..., 0] = x[..., 1:].norm(dim=-1)  # massless
    x.requires_grad_()
    for group in (mf.Lorentz(), mf.OrthochronousLorentz()):
        assert torch.autograd.gradcheck(mf.Equivariant(net, group), (x,))
        assert torch.autograd.gradgradcheck(mf.Invariant(lambda x: x.pow(3).sum((-1, -2)), group), (x,))
    last = x.detach()[..., [1, 2, 3, 0]].requires_grad_()
    assert torch.autograd.gradcheck(mf.Equivariant(net, mf.O(3, 1)), (last,))


@pytest.mark.parametrize("group", LINEAR, ids=str)
def test_derivatives_are_finite_on_every_family(group: mf.Group) -> None:
    families = clouds_for(group) | (particles() if group.d == 4 and not group.complex else {})
    for name, x in families.items():
        for dtype in (torch.float64, torch.float32):
            y = x.to(number(group, dtype)).clone().requires_grad_()
            with torch.no_grad():
                plain = mf.Equivariant(net, group)(y)
            out = mf.Equivariant(net, group)(y)
            assert relative(out.detach()[None], plain[None]) <= bound(group, dtype), name
            (grad,) = torch.autograd.grad(
                out.abs().square().sum() / (1 + plain.abs().square().max()), y, create_graph=True
            )
            assert grad.isfinite().all(), name
            (second,) = torch.autograd.grad((grad * y.detach().conj()).real.sum(), y)
            assert second.isfinite().all(), name


@by_group
def test_dense_masked_and_ragged_agree(group: mf.Group) -> None:
    for rows in (7, group.d - 1):
        x = randn(group, 3, rows, group.d)
        dense = mf.Equivariant(net_by_row, group)(x)
        padded = torch.cat([x, torch.full((3, 2, group.d), torch.nan, dtype=x.dtype)], 1)
        mask = torch.arange(rows + 2).expand(3, -1) < rows
        masked = mf.Equivariant(net_by_row, group, mask="mask")(padded, mask=mask)[:, :rows]
        batch = torch.arange(3).repeat_interleave(rows)
        ragged = mf.Equivariant(net_by_row, group, batch="batch")(x.flatten(0, 1), batch=batch).view(x.shape)
        torch.testing.assert_close(masked, dense, atol=1e-10, rtol=1e-10)
        torch.testing.assert_close(ragged, dense, atol=1e-10, rtol=1e-10)
        alone = torch.stack([mf.Equivariant(net_by_row, group)(sample) for sample in x])
        torch.testing.assert_close(alone, dense, atol=1e-10, rtol=1e-10)
    assert mf.Equivariant(net, group)(randn(group, 0, 5, group.d)).shape == (0, 5, group.d)


def net_by_row(x: Tensor) -> Tensor:
    return 0.1 * x * x.abs().square().sum(-1, keepdim=True) + 0.5 * x.roll(1, -1) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("group", [mf.Lorentz(), mf.SU(2), mf.SL(3), mf.Poincare(3)], ids=str)
def test_compiles_without_a_graph_break(group: mf.Group) -> None:
    # Traced in full; code generation, which takes a minute for each of them and skips complex numbers, is left out.
    model = mf.Equivariant(net, group)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = randn(group, 3, 6, group.d)
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.slow
def test_compiled_frames_of_null_spans() -> None:
    model = mf.Invariant(net, mf.Lorentz())
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    clouds = particles()
    names = ("three collinear massless", "massless event, 3 particles", "null plane", "null hyperplane")
    x = torch.stack([clouds[name] for name in names])
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.slow
def test_exports() -> None:
    x = randn(mf.Lorentz(), 3, 6, 4)
    model = mf.Invariant(torch.nn.Linear(4, 1, dtype=torch.float64), mf.Lorentz())
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    more = randn(mf.Lorentz(), 5, 6, 4)
    torch.testing.assert_close(program.module()(more), model(more))


@pytest.mark.parametrize("group", [group for group in GROUPS if not group.complex], ids=str)  # as torch.func.grad wants
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of vmap; leading batch axes are the faster way
def test_function_transforms(group: mf.Group) -> None:
    energy = mf.Invariant(lambda x: x.pow(3).sum((-1, -2)), group)
    x = randn(group, 3, group.d + 1, group.d)
    y = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(energy(y).sum(), y)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(energy))(x), expected)
    tangent = torch.randn_like(x)
    _, slope = torch.func.jvp(energy, (x,), (tangent,))
    torch.testing.assert_close(slope, (expected * tangent).sum((-1, -2)))


@by_group
def test_points_and_vectors_together(group: mf.Group) -> None:
    # A cloud that is too small for the group, with vectors that make up for it.
    def forces(pos: Tensor, vel: Tensor) -> dict[str, Tensor]:
        return {"pos": pos + net(vel), "vel": vel.roll(1, -2) - pos.abs()}

    types = {"pos": "point", "vel": "vector"}
    model = mf.Equivariant(forces, group, types, types)
    pos, vel = randn(group, 50, group.d, group.d), randn(group, 50, group.d, group.d)
    error = mf.testing.equivariance_error(model, group, pos, vel, element_options=options(group, torch.float64))
    assert error.max() < 1e-9
    assert (group.frame(pos).rank <= group.d).all()


@pytest.mark.parametrize("group", LINEAR, ids=str)
def test_nan_is_found(group: mf.Group) -> None:
    x = randn(group, 3, 5, group.d)
    x[1, 2, 0] = torch.nan
    with pytest.raises(ValueError, match=r"NaN or infinite coordinates .* sample 1 of 3"):
        group.frame(x)
    with mf.unchecked():
        y = mf.Equivariant(net, group)(x)
    assert y[[0, 2]].isfinite().all()
    assert y[1].isnan().all()


def test_what_has_no_value_is_an_error() -> None:
    x = torch.randn(2, 2, 3, dtype=torch.float64)
    frame = mf.GL(3).frame(x)
    within = frame.from_canonical(torch.randn(2, 4, 3, dtype=torch.float64), "vector")
    assert torch.linalg.matrix_rank(torch.cat([x, within], -2)).tolist() == [2, 2]
    for type, shape in (("covector", (2, 4, 3)), ("pseudoscalar", (2,)), ("cotensor", (2, 3, 3))):
        y = torch.randn(shape, dtype=torch.float64)
        with pytest.raises(
            ValueError, match=f"output of type '{type}' has no value under GL.* sample 0 of 2.*rank 2 of 3"
        ):
            frame.from_canonical(y, type)
        with mf.unchecked():
            assert frame.from_canonical(y, type).isnan().all()
    model = mf.Invariant(lambda a, b: (a * b).sum((-1, -2)), mf.GL(3), {"a": "point", "b": "vector"}, frame_on="a")
    with pytest.raises(ValueError, match="input that does not determine the frame of type 'vector' has no value"):
        model(x, torch.randn_like(x))
    full = torch.randn(2, 5, 3, dtype=torch.float64)
    assert model(full, full).isfinite().all()


def test_complex_groups_want_complex_numbers() -> None:
    with pytest.raises(TypeError, match=r"x must have a complex dtype for U\(3\), got torch.float32: .*cfloat"):
        mf.U(3).frame(torch.randn(4, 3))
    with pytest.raises(TypeError, match=r"real floating dtype for GL"):
        mf.GL(3).frame(torch.randn(4, 3, dtype=torch.complex64))
    with pytest.raises(TypeError, match=r"'vector' must be a complex tensor, got torch.float32"):
        mf.Equivariant(lambda x: x.real, mf.SU(2), outputs="vector")(torch.randn(4, 2, dtype=torch.complex64))
    assert mf.Invariant(lambda x: x.real, mf.SU(2))(torch.randn(4, 2, dtype=torch.complex64)).dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: mf.O(2.0, 1), TypeError, "O needs integer numbers of signs, got 2.0 and 1"),
        (lambda: mf.SO(-1, 3), ValueError, "at least 0, got -1 and 3"),
        (lambda: mf.O(0), ValueError, "dimension of at least 1"),
        (lambda: mf.Lorentz(0), ValueError, "Lorentz needs a dimension of at least 1, got 0"),
        (lambda: mf.OrthochronousLorentz(True), TypeError, "integer dimension"),
        (lambda: mf.GL(0), ValueError, "GL needs a dimension of at least 1"),
        (lambda: mf.Aff("3"), TypeError, "Aff needs an integer dimension"),
        (lambda: mf.Poincare().frame(torch.randn(5, 4), "vector"), ValueError, "needs a 'point'"),
    ],
)
def test_bad_groups(make: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("native_loops", [True, False], ids=["C", "PyTorch"])
@pytest.mark.parametrize("size", [1e-6, 2e-6, 5e-6, 1e-5])
@pytest.mark.parametrize("group", [mf.O(5), mf.SE(5), mf.S() * mf.SO(5)], ids=str)
def test_what_the_rank_leaves_out_is_not_seen(group: mf.Group, size: float, native_loops: bool) -> None:
    """One long row, and many whose lengths are about the tolerance: what all of them lose together counts."""
    generator = torch.Generator().manual_seed(0)
    x = size * torch.randn(64, 24, 5, generator=generator)
    x[:, -1] = torch.randn(64, 5, generator=generator)
    model = mf.Equivariant(lambda x: x, group)
    with contextlib.nullcontext() if native_loops else native.disabled():
        error = (model(x) - x).norm(dim=(1, 2)) / x.norm(dim=(1, 2))
        shown = mf.canonicalize(x, group)[1]
    assert error.max() < 1e-5
    padded = torch.nn.functional.pad(x, (0, 0, 0, 40))
    mask = torch.arange(64) < 24
    assert torch.equal(mf.canonicalize(padded, group, mask=mask.expand(64, 64))[1].rank, shown.rank)
