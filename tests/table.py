"""The table of groups that every law is checked for, and the clouds and backbones to check it on. Add a group: add a row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import minframe as mf
from minframe.dtypes import wide
from minframe.testing import DEGENERATIONS, polytopes

DIMENSIONS = (1, 2, 3, 5, 8)
FAMILIES: tuple[Callable[[int], mf.Group], ...] = (mf.Translation, mf.O, mf.SO, mf.E, mf.SE)
EUCLIDEAN = [make(d) for make in FAMILIES for d in DIMENSIONS]
LINEAR: list[mf.Group] = [
    *(make(p, q) for make in (mf.O, mf.SO) for p, q in ((2, 1), (2, 2), (3, 1))),
    *(make(d) for make in (mf.Lorentz, mf.ProperLorentz, mf.OrthochronousLorentz, mf.Poincare) for d in (2, 3, 4)),
    *(mf.OrthochronousLorentz(d, parity=True) for d in (2, 4)),
    *(make(d) for make in (mf.U, mf.SU) for d in (1, 2, 3, 4)),
    *(make(p, q) for make in (mf.U, mf.SU) for p, q in ((1, 1), (2, 1), (1, 3), (2, 2))),
    *(make(d) for make in (mf.GL, mf.SL) for d in (2, 3, 4, 5)),
    *(make(d, complex=True) for make in (mf.GL, mf.SL) for d in (2, 3, 4)),
    *(mf.Aff(d) for d in (2, 3, 4)),
    mf.Aff(3, complex=True),
]
SUMS: list[mf.Group] = [
    *(mf.Trivial(d) for d in (1, 3)),
    mf.E(2) + mf.Trivial(1),
    mf.SO(2) + mf.Trivial(1),
    mf.Trivial(1) + mf.E(2) + mf.SO(3),
    mf.O(2) + mf.O(2),
    mf.Translation(1) + mf.O(2),
    mf.SL(2) + mf.Trivial(2),
    mf.Lorentz(3) + mf.E(2),
    mf.U(2) + mf.SU(2) + mf.Trivial(1, complex=True),
]
SCALED: list[mf.Group] = [
    *(make(d) for make in (mf.Scaling, mf.Sim) for d in (1, 2, 3, 5)),
    mf.Sim(2) + mf.Trivial(1),
    mf.Scaling(1) + mf.E(2),
]
FINITE: list[mf.Group] = [
    *(make(n) for make in (mf.Cyclic, mf.Dihedral) for n in (1, 2, 3, 4, 7)),
    mf.Octahedral(),
    mf.Octahedral(reflections=True),
    *(make(k) for make in (mf.Signs, mf.SignedPermutations) for k in (1, 2, 5)),
    mf.Cyclic(6) + mf.E(2),
    mf.SignedPermutations(3) + mf.Trivial(1),
    mf.Dihedral(4) + mf.Trivial(1),
]
GROUPS = EUCLIDEAN + LINEAR + SUMS + SCALED + FINITE
#: Those whose frames depend on the order of the rows, whatever is asked for: an error says so.
ORDERED = [mf.SignedPermutations(k) for k in (1, 2, 5)]
ORDERED += [mf.Cyclic(6) + mf.E(2), mf.SignedPermutations(3) + mf.Trivial(1), mf.Dihedral(4) + mf.Trivial(1)]
STEADY = (mf.Translation, mf.Trivial, mf.Scaling, mf.Cyclic)


def is_steady(group: mf.Group) -> bool:
    """Whether the canonical pose is known not to jump between random clouds; all others have to show a jump there."""
    return group.d == 1 or isinstance(group, STEADY) or group == mf.Dihedral(1)  # type: ignore[attr-defined]


DTYPES = (torch.float64, torch.float32)
ROWS = 12


bound = mf.testing.bound


def options(group: mf.Group, dtype: torch.dtype) -> dict[str, float]:
    """How far random elements reach out."""
    return group.random_options(dtype)


def has_size(group: mf.Group, x: Tensor) -> bool:
    """Whether the cloud has one in the coordinates that a group scales; else only invariants exist, see test_sums."""
    start = 0
    for part in getattr(group, "groups", (group,)):
        block = x[:, start : start + part.d]
        start += part.d
        if isinstance(part, mf.Sim):
            block = block - block.mean(0)
        if isinstance(part, mf.Sim | mf.Scaling) and block.norm() <= 1e-13 * x.norm():
            return False
    return True


def number(group: mf.Group, dtype: torch.dtype = torch.float64) -> torch.dtype:
    """The complex dtype of the same precision, if the group is complex."""
    return torch.promote_types(dtype, torch.complex64) if group.complex else dtype


def randn(group: mf.Group, *shape: int, generator: torch.Generator | None = None) -> Tensor:
    return torch.randn(*shape, dtype=number(group), generator=generator)


def clouds_for(group: mf.Group) -> dict[str, Tensor]:
    """Every named family that is fit for the group, as clouds ``(n, d)`` of double precision."""
    d = group.d
    generic = randn(group, ROWS, d, generator=torch.Generator().manual_seed(d if group.compact else d + 90))
    families = {name: change(generic) for name, change in DEGENERATIONS.items()}
    families["one point"] = generic[:1]
    families["fewer points than dimensions"] = generic[: max(1, d - 1)]
    families |= {name: x.to(generic.dtype) for name, x in polytopes(d).items()}
    if not group.compact:
        # Boosts and shears turn the rounding of a far outlier into that of the other points: no input of theirs is exact.
        del families["one far outlier"]
        # Lines and planes that are not all but null by accident.
        weights = torch.linspace(1.7, 1.0, d, dtype=torch.float64)
        families = {name: x * weights for name, x in families.items()}
    return {name: x for name, x in families.items() if has_size(group, x)}


def wild(x: Tensor) -> Tensor:
    """A backbone with no symmetry at all; homogeneous, so that no scale hides anything."""
    d = x.shape[-1]
    weight = 2 * torch.linspace(-1.3, 1.1, d * d, dtype=x.real.dtype).view(d, d).sin()
    y = x @ weight.to(x.dtype)
    y = torch.complex(_bent(y.real), y.imag) if y.is_complex() else _bent(y)
    return y + 0.5 * y.roll(1, -2) - 0.3 * x.abs().roll(1, -1)


def _bent(x: Tensor) -> Tensor:
    return torch.nn.functional.leaky_relu(x, 0.1)


def gentle(x: Tensor) -> Tensor:
    """A backbone with no symmetry that saturates."""
    return torch.tanh(x) + 0.5 * x.roll(1, -1) + 0.1


BACKBONES = (wild, gentle)


def relative(a: Tensor, b: Tensor) -> float:
    """Largest distance of two batches of clouds, per sample, relative to the size of the second."""
    if not a.numel():
        return 0.0
    a, b = wide(a).flatten(1), wide(b).flatten(1)
    scale = b.norm(dim=1).real.clamp_min(1e-300)
    return float(((a - b).norm(dim=1) / scale).max())
