"""A good citizen of PyTorch: derivatives, compile, export, autocast, processes, dtypes, strides."""

from __future__ import annotations

import gc
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from torch import Tensor, nn

import minframe as mf
from table import DTYPES, FAMILIES, GROUPS, clouds_for, gentle, number, relative, wild

EUCLIDEAN = [make(3) for make in FAMILIES]


def mlp(dtype: torch.dtype = torch.float64) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3)).to(dtype)


# --- derivatives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [make(d) for make in FAMILIES for d in (1, 2, 3)], ids=str)
def test_first_and_second_derivatives(group: mf.Group) -> None:
    x = torch.randn(2, 4, group.d, dtype=torch.float64, requires_grad=True)
    model = mf.Equivariant(lambda x: torch.tanh(x) + 0.5 * x.roll(1, -1) * x.roll(1, -2), group)
    assert torch.autograd.gradcheck(model, (x,))
    assert torch.autograd.gradgradcheck(model, (x,))


def test_derivatives_through_masks_batches_and_several_inputs() -> None:
    pos = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    vel = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True] * 4, [True, False, True, True]])

    def net(pos: Tensor, vel: Tensor) -> Tensor:
        return torch.tanh(pos) * vel.roll(1, -1)

    types = {"pos": "point", "vel": "vector"}
    masked = mf.Equivariant(net, mf.SE(3), types, "vector", mask="mask")
    assert torch.autograd.gradcheck(lambda p, v: masked(p, v, mask=mask)[mask], (pos, vel))
    ragged = mf.Equivariant(net, mf.SE(3), types, "vector", batch="batch")
    batch = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    assert torch.autograd.gradcheck(lambda p, v: ragged(p.flatten(0, 1), v.flatten(0, 1), batch=batch), (pos, vel))


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_derivatives_are_finite_on_every_family(group: mf.Group) -> None:
    for name, x in clouds_for(group).items():
        for dtype in (torch.float64, torch.float32):
            y = x.to(dtype).clone().requires_grad_()
            out = mf.Equivariant(gentle, group)(y)
            (grad,) = torch.autograd.grad(
                (out + out.square() / (1 + out.detach().abs().max())).sum(), y, create_graph=True
            )
            assert grad.isfinite().all(), name
            (second,) = torch.autograd.grad((grad * y.detach()).sum(), y)
            assert second.isfinite().all(), name


def test_detached_frames_carry_no_gradient() -> None:
    x = torch.randn(4, 5, 3, dtype=torch.float64, requires_grad=True)
    frame = mf.SO(3).frame(x)
    assert frame.element.requires_grad
    free = mf.Equivariant(wild, mf.SE(3), detach_frame=True)
    tied = mf.Equivariant(wild, mf.SE(3))
    assert torch.allclose(free(x), tied(x))
    (a,) = torch.autograd.grad(free(x).square().sum(), x)
    (b,) = torch.autograd.grad(tied(x).square().sum(), x)
    assert not torch.allclose(a, b)
    q = mf.SE(3).frame(x.detach())
    linear, shift = mf.SE(3).parts(q.element)
    y = (x - shift.unsqueeze(-2)) @ linear
    y = wild(y) @ linear.mT + shift.unsqueeze(-2)
    (c,) = torch.autograd.grad(y.square().sum(), x)
    torch.testing.assert_close(a, c)


DETACHED = {
    "E(3)": mf.E(3),
    "S() * E(3)": mf.S() * mf.E(3),
    "S() * GL(3)": mf.S() * mf.GL(3),
    "without row order": mf.E(3),
}


@pytest.mark.parametrize("name", DETACHED)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 9])
def test_detached_frames_leave_the_gradient_through_the_pose(name: str, n: int) -> None:
    """The gradient is that of the backbone behind a frame which is a constant."""
    group = DETACHED[name]
    torch.manual_seed(n)
    x = torch.randn(3, n, 3, dtype=torch.float64, requires_grad=True)

    def backbone(x: Tensor) -> Tensor:  # respects permutations, and has a gradient where everything is zero
        return x + x.pow(3) + x.sum(-2, keepdim=True).sin()

    frames = mf.frames.Unordered() if name == "without row order" else mf.frames.Minimal()
    model = mf.Equivariant(backbone, group, frames=frames, detach_frame=True)
    (found,) = torch.autograd.grad(model(x).square().sum(), x)
    _, frame = mf.canonicalize(x.detach(), group, frames=frames)
    by_hand = frame.from_canonical(backbone(frame.pose(x, "point", own=True)), "point")
    (expected,) = torch.autograd.grad(by_hand.square().sum(), x)
    torch.testing.assert_close(found, expected)
    assert found.abs().max() > 0.1
    _, forward = torch.func.jvp(lambda x: model(x).square().sum(), (x.detach(),), (torch.ones_like(x),))
    torch.testing.assert_close(forward, expected.sum())


class Energy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).sum((-1, -2)) + (x[..., :1, 0] * x[..., 1:2, 1]).sum(-1)


def test_forces_are_equivariant_and_can_be_trained_on() -> None:
    energy = mf.Invariant(Energy(), mf.E(3)).double()

    def forces(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return -torch.autograd.grad(energy(x).sum(), x, create_graph=True)[0]

    x = torch.randn(16, 5, 3, dtype=torch.float64)
    mf.testing.assert_equivariant(forces, mf.E(3), x, outputs="vector")
    target = mf.Equivariant(lambda x: torch.sin(x), mf.E(3), outputs="vector")(x).detach()
    optimiser = torch.optim.Adam(energy.parameters(), 1e-2)
    losses = []
    for _ in range(60):
        loss = (forces(x) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    mf.testing.assert_equivariant(forces, mf.E(3), x, outputs="vector")


@pytest.mark.filterwarnings(
    "ignore:There is a performance drop"
)  # vmap works, but leading batch axes are the faster way
@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_forward_mode_and_function_transforms(group: mf.Group) -> None:
    energy = mf.Invariant(lambda x: x[..., 0].pow(3).sum(-1), group)
    x, tangent = torch.randn(2, 5, 3, dtype=torch.float64).unbind()
    want = (torch.func.grad(energy)(x) * tangent).sum()
    torch.testing.assert_close(torch.func.jvp(energy, (x,), (tangent,))[1], want)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(energy(dual)).tangent, want)
    torch.testing.assert_close(torch.func.jacfwd(energy)(x), torch.func.jacrev(energy)(x))
    many = torch.randn(7, 5, 3, dtype=torch.float64)
    torch.testing.assert_close(
        torch.func.vmap(torch.func.grad(energy))(many), torch.func.grad(lambda x: energy(x).sum())(many)
    )


@pytest.mark.parametrize("frames", [mf.frames.Minimal(), mf.frames.Smooth()], ids=str)
@pytest.mark.parametrize("group", [mf.SO(3), mf.SU(2), mf.SU(3), mf.Lorentz()], ids=str)
def test_hessians_by_function_transforms(group: mf.Group, frames: mf.frames.Method) -> None:
    """Derivatives of derivatives inside two transforms are those of autograd, also where a determinant fixes a phase."""
    x = torch.randn(4, group.d, dtype=torch.float64)
    if group.complex:
        x = torch.complex(x, torch.randn_like(x))
    if group == mf.Lorentz():
        x[:, 0] = x[:, 1:].norm(dim=-1) + 0.1

    def energy(x: Tensor) -> Tensor:
        return (
            x.real.sin().sum((-1, -2)) + (x.imag.cos() * x.real).sum((-1, -2))
            if x.is_complex()
            else x.sin().sum((-1, -2))
        )

    model = mf.Invariant(energy, group, frames=frames)
    real = torch.view_as_real(x) if x.is_complex() else x

    def of_real(x: Tensor) -> Tensor:
        return model(torch.view_as_complex(x) if group.complex else x)

    want = torch.autograd.functional.hessian(of_real, real)
    scale = want.abs().max()
    for found in (torch.func.jacrev(torch.func.jacrev(of_real))(real), torch.func.hessian(of_real)(real)):
        torch.testing.assert_close(found / scale, want / scale, rtol=0, atol=1e-10)


@pytest.mark.parametrize("listed", [False, True])
def test_function_transforms_of_weights_through_symmetric_graphs(listed: bool) -> None:
    cycle = torch.eye(6).roll(1, 1) + torch.eye(6).roll(-1, 1)
    edges, kind = (cycle.nonzero().T, "edge_index") if listed else (cycle, "edge")
    model = mf.Equivariant(lambda edges, w: w.sin(), mf.S(), {"edges": kind, "w": "constant"}, "node")
    w, tangent = torch.randn(2, 6, 3, dtype=torch.float64).unbind()

    def loss(w: Tensor) -> Tensor:
        return model(edges, w).pow(2).sum()

    w.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(w), w)
    w = w.detach()
    torch.testing.assert_close(torch.func.grad(loss)(w), gradient)
    torch.testing.assert_close(torch.func.jvp(loss, (w,), (tangent,))[1], (gradient * tangent).sum())
    with torch.autograd.forward_ad.dual_level():
        dual = loss(torch.autograd.forward_ad.make_dual(w, tangent))
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(dual).tangent, (gradient * tangent).sum())


def test_parameters_learn_while_inputs_need_no_gradient() -> None:
    model = mf.Equivariant(mlp(torch.float32), mf.E(3))
    model(torch.randn(4, 5, 3)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    with torch.inference_mode():
        assert model(torch.randn(4, 5, 3)).isfinite().all()


# --- compile and export ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("group", [mf.E(3), mf.SO(3)], ids=str)
def test_compiles_without_a_graph_break(group: mf.Group) -> None:
    model = mf.Equivariant(mlp(), group, mask="mask")
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True)
    x, mask = torch.randn(6, 5, 3, dtype=torch.float64), torch.rand(6, 5) > 0.3
    mask[:, 0] = True
    torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(compiled(x, mask=mask), model(x, mask=mask))
    x.requires_grad_()
    (a,) = torch.autograd.grad(compiled(x).square().sum(), x)
    (b,) = torch.autograd.grad(model(x).square().sum(), x)
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("group", [mf.E(3), pytest.param(mf.Lorentz(3), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("transform", ["grad", "jvp", pytest.param("hessian", marks=pytest.mark.slow)])
def test_function_transforms_inside_compiled_code(group: mf.Group, transform: str) -> None:
    """Derivatives go through the frame: it was a constant there, and forces were silently wrong."""
    energy = mf.Invariant(lambda x: x.sin().sum((-1, -2)), group)

    def derivative(x: Tensor) -> Tensor:
        found: Tensor
        if transform == "jvp":
            _, found = torch.func.jvp(energy, (x,), (x.cos(),))
        else:
            found = getattr(torch.func, transform)(lambda x: energy(x).sum())(x)
        return found

    x = torch.randn(2, 5, 3, dtype=torch.float64)
    torch.compiler.reset()
    compiled = torch.compile(derivative, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), derivative(x))
    # and the same function, first compiled without a transform
    plain = torch.compile(energy, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(plain(x), energy(x))


@pytest.mark.slow
def one_of_each_kind() -> list[mf.Group]:
    """All sums of the table; of other groups one of each kind, of three dimensions if there is one."""
    found: dict[object, mf.Group] = {}
    for group in sorted(GROUPS, key=lambda g: (abs(g.d - 3), getattr(g, "n", 4) != 4)):
        kind = (type(group), group.complex, bool(getattr(group, "q", 0)), getattr(group, "reflections", False))
        found.setdefault(str(group) if hasattr(group, "groups") else kind, group)
    return list(found.values())


@pytest.mark.parametrize("group", one_of_each_kind(), ids=str)
def test_every_group_compiles_and_exports(group: mf.Group) -> None:
    x = torch.randn(2, 5, group.d, dtype=number(group))
    model = mf.Equivariant(wild, group).eval()
    expected = model(x)
    torch._dynamo.reset()
    assert relative(torch.compile(model, backend="aot_eager", fullgraph=True)(x), expected) < 1e-11
    torch._dynamo.reset()
    assert relative(torch.export.export(model, (x,)).module()(x), expected) < 1e-11


@pytest.mark.parametrize(
    ("group", "frames"),
    [
        (mf.Dihedral(4), mf.frames.Unordered()),
        (mf.S() * mf.Dihedral(4), mf.frames.Minimal()),
        (mf.S() * mf.Cyclic(5), mf.frames.Minimal()),
        (mf.Octahedral(), mf.frames.Unordered()),
        (mf.S() * mf.Octahedral(reflections=True), mf.frames.Minimal()),
        (mf.Octahedral(), mf.frames.Smooth(poses=30)),
    ],
    ids=str,
)
def test_finite_groups_compile_in_any_order_of_rows(group: mf.Group, frames: mf.frames.Method) -> None:
    """A square, which has a symmetry, and clouds that have none: values, derivatives, other batches."""
    d = 3 if "Octahedral" in str(group) else 2
    x = torch.randn(3, 4, d, dtype=torch.float64)
    x[0] = torch.nn.functional.pad(torch.tensor([[1.0, 1], [1, -1], [-1, -1], [-1, 1]]), (0, d - 2))
    mask = torch.tensor([[True] * 4, [True, False, True, True], [True, True, False, True]])

    def net(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        y = wild(x) * mask.unsqueeze(-1)
        return y, y.square().sum((-2, -1))

    model = mf.Equivariant(net, group, {"x": "point"}, ("point", "scalar"), frames=frames, mask="mask").eval()

    def value_and_gradient(f: nn.Module) -> tuple[Tensor, Tensor]:
        z = x.clone().requires_grad_()
        y, energy = f(z, mask=mask)
        (gradient,) = torch.autograd.grad((y * mask.unsqueeze(-1)).sin().sum() + energy.sum(), z)
        return y.detach(), gradient

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for got, want in zip(value_and_gradient(compiled), value_and_gradient(model), strict=True):
        assert relative(got, want) < 1e-11
    plain = mf.Equivariant(wild, group, frames=frames).eval()
    fixed = isinstance(frames, mf.frames.Smooth)  # as the number of poses in all is
    sizes = None if fixed else ({0: torch.export.Dim("batch", min=2, max=64)},)
    program = torch.export.export(plain, (x,), dynamic_shapes=sizes).module()
    more = x.flip(1) if fixed else torch.cat([x, x.flip(1)])
    assert relative(program(more), plain(more)) < 1e-11


class Slanted(nn.Module):
    """A backbone on grids without symmetry."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.linspace(1, 2, x.shape[-1], dtype=x.dtype) + x.roll(1, -2)


@pytest.mark.parametrize(
    ("group", "shape"),
    [(mf.Dihedral(4), (5, 5)), (mf.Cyclic(4), (6, 4)), (mf.Cyclic(2), (4, 6)), (mf.Octahedral(), (4, 3, 3))],
    ids=str,
)
def test_grids_compile_and_export(group: mf.Group, shape: tuple[int, ...]) -> None:
    kind = "image" if len(shape) == 2 else "voxels"
    model = mf.Equivariant(Slanted(), group, kind, kind).eval()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for more in (0, 1, 2):  # other lengths are other graphs, with tables of their own
        x = torch.randn(2, 1, *(length + more for length in shape))
        torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), model(x))


def test_several_constants_in_one_graph() -> None:
    model = mf.Equivariant(wild, mf.Cyclic(6) + mf.Dihedral(4) + mf.Octahedral()).eval()
    x = torch.randn(2, 5, 7, dtype=torch.float64)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), model(x))


def test_exports_finite_groups_with_any_number_of_rows() -> None:
    model = mf.Equivariant(wild, mf.Dihedral(4)).eval()
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(model, (torch.randn(2, 5, 2),), dynamic_shapes=({1: rows},))
    x = torch.randn(2, 9, 2)
    torch.testing.assert_close(program.module()(x), model(x))


def test_representations_compile() -> None:
    mirror = mf.Finite({"o": [[1, 2, 3], [2, 1, -3]], "a": [[1, 2], [2, 1]]})
    model, x = mf.Equivariant(nn.Linear(3, 2), mirror, "o", "a").eval(), torch.randn(5, 3)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), model(x))
    torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), model(x))


def test_what_a_graph_cannot_know_is_an_error_of_our_own() -> None:
    """Points alone determine the frame, and the image exchanges its lengths in some samples."""
    model = mf.Equivariant(lambda x, im: im, mf.Dihedral(4), {"x": "point", "im": "image"}, "image", frame_on="x")
    inputs = torch.randn(4, 6, 2), torch.randn(4, 1, 5, 4)
    with pytest.raises(NotImplementedError, match="depends on the data"):
        torch.export.export(model.eval(), inputs)


@pytest.mark.parametrize("group", [mf.E(3), mf.SO(3), mf.Lorentz(3), mf.GL(3)], ids=str)
def test_compiles_with_a_batch_vector(group: mf.Group) -> None:
    # How many samples a batch vector has is known only from its values; it may be another number each time.
    kind = "point" if group == mf.E(3) else "vector"
    model = mf.Equivariant(mlp(), group, kind, kind, batch="batch")
    x, batch = torch.randn(9, 3, dtype=torch.float64), torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    exported = torch.export.export(model, (x,), {"batch": batch}).module()
    for numbers in (batch, (batch > 0).long(), torch.zeros_like(batch)):
        for found in (compiled, exported):
            torch.testing.assert_close(found(x, batch=numbers), model(x, batch=numbers))


@pytest.mark.slow
def test_compiles_with_what_is_known_beforehand() -> None:
    """The number of samples of a batch vector, and of poses of smooth frames: no shape depends on the data."""
    torch.compiler.reset()  # of the graphs of one function, those of earlier tests count towards the limit
    x, batch = torch.randn(9, 3, dtype=torch.float64), torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
    model = mf.Equivariant(mlp(), mf.E(3), batch="batch", batch_size="batch_size")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for numbers, count in ((batch, 3), ((batch > 0).long(), 2)):
        given = {"batch": numbers, "batch_size": count}
        torch.testing.assert_close(compiled(x, **given), model(x, **given))
    smooth = mf.Equivariant(mlp(), mf.O(3), outputs="vector", frames=mf.frames.Smooth(poses=4))
    clouds = torch.randn(3, 6, 3, dtype=torch.float64)
    torch.testing.assert_close(torch.compile(smooth, fullgraph=True, backend="aot_eager")(clouds), smooth(clouds))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
def test_compiles_permutations_with_a_batch_vector() -> None:
    # Here samples are padded to the size of the largest, so there is a graph break.
    x, batch = torch.randn(9, 3, dtype=torch.float64), torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
    for group in (mf.S() * mf.O(3), mf.O(3)):
        model = mf.Equivariant(mlp(), group, batch="batch", frames=mf.frames.Unordered())
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(model, backend="eager")(x, batch=batch), model(x, batch=batch))


def test_exports_with_a_dynamic_batch() -> None:
    model = mf.Equivariant(mlp(), mf.SE(3)).eval()
    x = torch.randn(6, 5, 3, dtype=torch.float64)
    batch = torch.export.Dim("batch", min=2, max=1024)
    with torch.no_grad():
        program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    for count in (6, 17):
        y = torch.randn(count, 5, 3, dtype=torch.float64)
        torch.testing.assert_close(program.module()(y), model(y))


# --- precision and memory --------------------------------------------------------------------------------------------


def test_autocast_leaves_frames_alone() -> None:
    x = torch.randn(8, 20, 3)
    outside = mf.E(3).frame(x).element
    with torch.autocast("cpu", torch.bfloat16):
        inside = mf.E(3).frame(x).element
        pose, frame = mf.canonicalize(x, mf.E(3))
        back = frame.from_canonical(pose)
        y = mf.Equivariant(mlp(torch.float32), mf.E(3))(x)
    assert torch.equal(inside, outside)
    assert pose.dtype == back.dtype == y.dtype == torch.float32
    torch.testing.assert_close(back, x, atol=1e-5, rtol=0)
    g = mf.E(3).random(8)
    with torch.autocast("cpu", torch.bfloat16):
        assert mf.E(3).contains(mf.E(3).compose(g, mf.E(3).inverse(g))).all()
        moved = mf.E(3).act(g, x)
    assert torch.equal(mf.E(3).act(g, x), moved)
    with torch.autocast("cpu", torch.bfloat16):
        identity = mf.Equivariant(lambda x: x, mf.E(3))
        mf.testing.assert_equivariant(identity, mf.E(3), x)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float16, 1e-2), (torch.bfloat16, 8e-2)], ids=str)
@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_half_precision(group: mf.Group, dtype: torch.dtype, bound: float) -> None:
    x = torch.tensor([[2.0, 0, 0], [0, 1.8, 0], [0, 0, -1.9], [-1.5, -1.5, 1.5]], dtype=dtype)
    model = mf.Equivariant(lambda x: x + x.abs().roll(1, -1), group)
    y = model(x.expand(200, 4, 3))
    assert y.dtype == dtype
    assert mf.testing.equivariance_error(model, group, x.expand(200, 4, 3), elements=1).max() <= bound


@pytest.mark.parametrize("group", EUCLIDEAN, ids=str)
def test_strides_do_not_matter(group: mf.Group) -> None:
    model = mf.Equivariant(wild, group)
    x = torch.randn(3, 6, 4, dtype=torch.float64).mT  # (3, 4, 6)
    views = [
        x[..., ::2],
        torch.randn(5, 3, dtype=torch.float64).expand(3, 5, 3),
        torch.randn(3, 4, 8, dtype=torch.float64)[..., 2:5],
    ]
    for view in views:
        assert torch.equal(model(view), model(view.contiguous()))
        assert model(view).is_contiguous() or view.stride(0) == 0
        before = view.clone()
        model(view)
        assert torch.equal(view, before)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_large_cloud(dtype: torch.dtype) -> None:
    x = torch.randn(1, 50_000, 3, dtype=dtype)
    mf.testing.assert_equivariant(mf.Equivariant(gentle, mf.SE(3)), mf.SE(3), x)


# --- two processes ---------------------------------------------------------------------------------------------------


def _gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    model(x).square().mean().backward()
    return [p.grad.clone() for p in model.parameters()]


def _worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    where, most = f"file://{folder}/meeting", timedelta(seconds=60)  # no port that others could take
    torch.distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=2, timeout=most)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(mf.Equivariant(mlp(), mf.E(3)))
    x = torch.load(f"{folder}/x.pt")
    torch.save(_gradients(model, x[4 * rank : 4 * rank + 4]), f"{folder}/grad{rank}.pt")
    torch.distributed.barrier()
    del model  # or its destructor waits for a thread of the process group that waits for the interpreter
    gc.collect()
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_give_the_gradients_of_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = mf.Equivariant(mlp(), mf.E(3))
    x = torch.randn(8, 5, 3, dtype=torch.float64)
    torch.save(x, tmp_path / "x.pt")
    torch.multiprocessing.spawn(_worker, (str(tmp_path),), nprocs=2)
    expected = _gradients(model, x)
    for rank in (0, 1):
        for got, want in zip(torch.load(tmp_path / f"grad{rank}.pt"), expected, strict=True):
            torch.testing.assert_close(got, want)
