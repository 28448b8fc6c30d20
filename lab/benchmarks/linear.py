"""How exact the linear groups are where it is hardest: the worst of 1,000 random elements on every named family.

    python lab/benchmarks/linear.py

Errors are relative, ``|f(g x) - g f(x)| / |g f(x)|``. Inputs are moved in float64 and rounded to their dtype once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

import minframe as mf
from minframe.testing import DEGENERATIONS, particles

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from oracle import Comparison, compare, compare_brought_back, errors_of, has_exact_frame, relative

ELEMENTS = 1000
RAPIDITY = {torch.float64: 3.0, torch.float32: 1.0}
BOUND = {torch.float64: 1e-10, torch.float32: 1e-5}
BOUND |= {torch.complex128: 1e-10, torch.complex64: 1e-5}
LORENTZ = (mf.Lorentz(), mf.ProperLorentz(), mf.OrthochronousLorentz())
NULL_LINES = ("one massless particle", "three collinear massless")
UNITS = {"MeV": 1e3, "TeV": 1e-3}
CONDITION = 1e6
GROUPS = (
    *(mf.Translation(3), mf.O(3), mf.SO(3), mf.E(3), mf.SE(3), mf.O(5), mf.SO(5)),
    *(*LORENTZ, mf.Poincare(), mf.O(3, 1), mf.O(2, 2), mf.SO(2, 2), mf.O(3, 2)),
    *(mf.U(3), mf.SU(3), mf.U(1, 3), mf.SU(1, 3), mf.U(2, 2), mf.SU(2, 2)),
    *(mf.GL(4), mf.SL(4), mf.Aff(3), mf.GL(3, complex=True), mf.SL(3, complex=True), mf.Aff(3, complex=True)),
)


def wild(x: Tensor) -> Tensor:
    """A backbone with no symmetry at all; homogeneous, so that no scale hides anything.

    On the families of four-momenta its outputs have two to four times the size of the inputs, so none of them is small
    by cancellation, which would make its relative error large.
    """
    d = x.shape[-1]
    weight = 2 * torch.linspace(0, 20, d * d, dtype=torch.float64).view(d, d).cos()
    y = x @ weight.to(x.dtype)
    if x.is_complex():
        y = torch.view_as_complex(torch.nn.functional.leaky_relu(torch.view_as_real(y), 0.1))
    else:
        y = torch.nn.functional.leaky_relu(y, 0.1)
    return y + 0.5 * y.roll(1, -2) - 0.3 * x.abs().roll(1, -1)


def number(group: mf.Group, dtype: torch.dtype) -> torch.dtype:
    """The dtype of coordinates for the group, of the same precision."""
    return torch.promote_types(dtype, torch.complex64) if group.complex else dtype


def worst(group: mf.Group, x: Tensor, g: Tensor) -> tuple[float, float]:
    """Worst errors over the elements: of the canonical pose, and of the vectors of a wrapped backbone."""
    pose, output = errors_of(group, x, g, wild)
    return float(pose.max()), float(output.max())


def of_rank(n: int, d: int, rank: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(d)
    a = torch.randn(n, rank, dtype=dtype, generator=generator)
    return a @ torch.randn(rank, d, dtype=dtype, generator=generator)


def left_handed(n: int, d: int) -> Tensor:
    """A cloud whose first ``d`` rows have a negative determinant."""
    x = of_rank(n, d, d, torch.float64)
    x[0] *= -torch.linalg.det(x[:d]).sign()
    return x


def of_condition(d: int, condition: float, count: int) -> Tensor:
    """Elements of GL(d) with that very condition number, float64."""
    s = condition ** torch.linspace(-0.5, 0.5, d, dtype=torch.float64)
    u, v = mf.O(d).random(2, count, dtype=torch.float64)
    return u * s @ v


def flat_families(d: int, dtype: torch.dtype) -> dict[str, Tensor]:
    x = of_rank(9, d, d, dtype)
    return {
        "planar": DEGENERATIONS["planar"](x),
        "collinear": DEGENERATIONS["collinear"](x),
        "n < d": x[: max(1, d - 1)],
        "one row": x[:1],
    }


def row(name: str, cells: Iterable[str], note: str = "") -> None:
    print((f"  {name:36s}" + "".join(f"{cell:>10s}" for cell in cells) + f"  {note}").rstrip())


def numbers(values: Iterable[float]) -> list[str]:
    return [f"{value:.1e}" for value in values]


def ratios(comparisons: Iterable[Comparison]) -> list[str]:
    return [cell for c in comparisons for cell in (f"{c.ours:.1e}", f"{c.oracle:.1e}", f"{c.ratio:.3g}")]


def particle_table() -> None:
    print(f"Wrapped backbone on four-momenta, worst of {ELEMENTS} elements; rapidity up to 3 in float64, 1 in float32.")
    print("O, SO and SO+ stand for O(1, 3), SO(1, 3) and SO+(1, 3); of null spans, vectors within the span")
    row("", [f"{name} {bits}" for bits in (64, 32) for name in ("O", "SO", "SO+")])
    for name, x in particles().items():
        errors = []
        for dtype, rapidity in RAPIDITY.items():
            for group in LORENTZ:
                g = group.random(ELEMENTS, dtype=torch.float64, max_rapidity=rapidity)
                errors.append(worst(group, x.to(dtype), g)[1])
        ranks, sizes = zip(
            *((int(f.rank), f"{float(f.size):g}") for f in (group.frame(x) for group in LORENTZ)), strict=True
        )
        row(name, numbers(errors), f"rank {ranks[0]}, size {'/'.join(sizes)}")


def oracle_table() -> None:
    print(
        f"O(1, 3) against what the rounding of the inputs alone costs: our worst of {ELEMENTS} elements, the oracle's"
    )
    print("of the 20 of them that are worst for us. OVER: above the bound, and above ten times the oracle's")
    for dtype, rapidity in RAPIDITY.items():
        row(str(dtype), ["pose", "oracle", "ratio", "output", "oracle", "ratio"])
        for name, x in particles().items():
            if has_exact_frame(x):
                g = mf.Lorentz().random(ELEMENTS, dtype=torch.float64, max_rapidity=rapidity)
                found = compare(mf.Lorentz(), x.to(dtype), g, wild, worst=20)
                row(name, ratios(found), "" if all(c.within(BOUND[dtype]) for c in found) else "OVER")


def unit_table() -> None:
    print(
        "Units, O(1, 3): the pose in MeV or TeV against the factor times the pose in GeV. A null line has no scale: its"
    )
    print("pose is compared without the factor")
    row("", [f"{unit} {bits}" for bits in (64, 32) for unit in UNITS])
    for name, x in particles().items():
        errors = []
        for dtype in RAPIDITY:
            given = x.to(dtype)[None]
            pose = mf.canonicalize(given, mf.Lorentz())[0].double()
            for factor in UNITS.values():
                turned = mf.canonicalize(given * factor, mf.Lorentz())[0]
                errors.append(float(relative(turned, pose if name in NULL_LINES else pose * factor)))
        row(name, numbers(errors))


def family_table() -> None:
    print(f"Unitary clouds of short rank, and volumes with a sign: worst of {ELEMENTS} elements")
    row("", ["pose 64", "output 64", "pose 32", "output 32"])
    for d in (3, 4):
        for rank in (d - 1, d - 2):
            for group in (mf.U(d), mf.SU(d)):
                x = of_rank(8, d, rank, torch.complex128)
                g = group.random(ELEMENTS, dtype=torch.complex128)
                errors = [e for dtype in (torch.complex128, torch.complex64) for e in worst(group, x.to(dtype), g)]
                row(f"{group}, rank {rank}", numbers(errors))
    for d in (2, 4):
        for n in (d, 10):
            g = mf.SL(d).random(ELEMENTS, dtype=torch.float64)
            errors = [e for dtype in RAPIDITY for e in worst(mf.SL(d), left_handed(n, d).to(dtype), g)]
            row(f"SL({d}), n = {n}, determinant < 0", numbers(errors))
    product = torch.finfo(torch.float64).eps * CONDITION
    print(f"GL(4) at condition 1e6, against what the rounding of the inputs alone costs; eps * 1e6 = {product:.1e}")
    row("", ["pose", "oracle", "ratio", "output", "oracle", "ratio"])
    for n in (4, 10, 100):
        g = of_condition(4, CONDITION, ELEMENTS)
        row(f"n = {n}", ratios(compare_brought_back(mf.GL(4), of_rank(n, 4, 4, torch.float64), g, wild, worst=20)))


def group_table() -> None:
    print("Planar, collinear, n < d and one row: worst equivariance error of every group. OVER: above the bound")
    row("", ["64", "32"])
    for group in GROUPS:
        errors = []
        for dtype in RAPIDITY:
            model = mf.Equivariant(wild, group)
            families = flat_families(group.d, number(group, torch.float64)).values()
            clouds = [x.to(number(group, dtype)).expand(ELEMENTS, *x.shape) for x in families]
            found = [mf.testing.equivariance_error(model, group, x, elements=1) for x in clouds]
            errors.append(max(float(error.max()) for error in found))
        over = any(error > bound for error, bound in zip(errors, BOUND.values(), strict=False))
        row(str(group), numbers(errors), "OVER" if over else "")


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with torch.no_grad():
        for table in (particle_table, oracle_table, unit_table, family_table, group_table):
            table()


if __name__ == "__main__":
    main()
