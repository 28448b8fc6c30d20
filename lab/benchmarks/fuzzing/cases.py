"""The groups of the fuzzer and the ways of choosing frames."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import minframe as mf
from fuzzing.structures import Space

DIMENSIONS = (1, 2, 3, 4, 5, 8, 12)
#: How far from a definite problem elements reach: what moves further loses the digits that it is to be judged by.
MAX_RAPIDITY = {"float64": 3.0, "float32": 1.0}
MAX_CONDITION = 10.0
MAX_SCALE = 10.0
MAX_SMOOTH = 4  # dimensions: of a simplex or a cross in d dimensions smooth frames have d! poses and more


@dataclass(frozen=True)
class Block:
    """Coordinates that a group acts on by itself: those of one term of a direct sum, or all."""

    axes: slice
    p: int  # signs + and - of the form; all + but for indefinite groups
    q: int = 0
    compact: bool = True
    affine: bool = False
    unitless: bool = False  # canonical poses have no unit: they are white, or of size one

    @property
    def d(self) -> int:
        return self.p + self.q


@dataclass(frozen=True)
class Case:
    """A linear group and its space; ``product`` for ``S() * group``. ``S()`` alone has no ``make``."""

    name: str
    make: Callable[..., mf.Group] | None
    space: Space
    blocks: tuple[Block, ...] = ()
    product: bool = False
    kind: str = ""  # for reports, where it does not follow from the rest

    @property
    def compact(self) -> bool:
        return all(block.compact for block in self.blocks)

    @property
    def affine(self) -> bool:
        return any(block.affine for block in self.blocks)

    @property
    def indefinite(self) -> bool:
        return any(block.q for block in self.blocks)

    @property
    def unitless(self) -> bool:
        return any(block.unitless for block in self.blocks)

    @property
    def homogeneous(self) -> bool:
        """Whether poses follow the unit of the input, or none does: terms of a sum may differ in that."""
        return len({block.unitless for block in self.blocks}) < 2


def family(name: str) -> str:
    """What kind of group it is, for reports."""
    case = CASES[name]
    if case.make is None:
        return "permutations"
    if case.kind:
        kind = case.kind
    elif case.indefinite:
        kind = "indefinite"
    elif not case.compact:
        kind = "general linear"
    elif case.affine:
        kind = "with translations"
    else:
        kind = "unitary" if case.space.complex else "orthogonal"
    return f"S() * {kind}" if case.product else kind


SUMS = [
    mf.E(2) + mf.Trivial(1),
    mf.SO(2) + mf.Trivial(1),
    mf.O(2) + mf.O(2),
    mf.Translation(1) + mf.O(2),
    mf.Trivial(1) + mf.E(2) + mf.SO(3),
    mf.Cyclic(6) + mf.E(2),
    mf.GL(2) + mf.O(2),
    mf.SL(2) + mf.Trivial(2),
    mf.Aff(2) + mf.SO(2),
    mf.Lorentz(3) + mf.E(2),
    mf.Trivial(1) + mf.OrthochronousLorentz(4),
    mf.Sim(2) + mf.Trivial(1),
    mf.Scaling(1) + mf.E(2),
    mf.U(2) + mf.SU(2) + mf.Trivial(1, complex=True),
]
FINITE = [
    *(make(n) for make in (mf.Cyclic, mf.Dihedral) for n in (2, 3, 4, 7)),
    mf.Octahedral(),
    mf.Octahedral(reflections=True),
    *(make(k) for make in (mf.Signs, mf.SignedPermutations) for k in (1, 3, 5)),
    mf.Trivial(2),
]


_SKEW = torch.tensor([[1.0, 0.5], [0.0, 2.0]], dtype=torch.float64)
GIVEN = {  # matrices of groups that are given by them: permuted legs, a square, one that is not orthogonal
    "Finite(legs)": [[1, 2, 3, 4], [2, 1, -3, 4]],
    "Finite(square)": mf.Dihedral(4).matrices,
    "Finite(skew)": _SKEW @ mf.Dihedral(3).matrices @ _SKEW.inverse(),
}
AFFINE = (mf.E, mf.SE, mf.Translation, mf.Poincare, mf.Aff, mf.Sim)
WITHOUT_UNIT = (mf.GL, mf.Aff, mf.Scaling, mf.Sim)  # but for SL, a subclass, whose volume sets it


def _same(group: mf.Group) -> mf.Group:
    return group


def blocks_of(group: Any) -> tuple[Block, ...]:
    """What each term of a direct sum acts on; of any other group one block."""
    found, first = [], 0
    for term in getattr(group, "groups", [group]):
        p, q = (1, term.d - 1) if isinstance(term, mf.Poincare) else (getattr(term, "p", term.d), getattr(term, "q", 0))
        linear = isinstance(term, mf.GL | mf.Aff)
        unitless = isinstance(term, WITHOUT_UNIT) and not isinstance(term, mf.SL)
        axes = slice(first, first + term.d)
        found.append(Block(axes, p, q, not (q or linear), isinstance(term, AFFINE), unitless))
        first += term.d
    return tuple(found)


def _table() -> dict[str, Case]:
    found: dict[str, Case] = {}

    def add(make: Callable[..., mf.Group], kind: str = "", name: str = "") -> None:
        group: Any = make()
        name, blocks = name or str(group), blocks_of(group)
        p, q = (blocks[0].p, blocks[0].q) if len(blocks) == 1 else (group.d, 0)
        space = Space(group.d, p, q, group.complex)
        found[name] = Case(name, make, space, blocks, kind=kind)
        product = f"S() * ({name})" if "+" in name else f"S() * {name}"
        found[product] = Case(product, make, space, blocks, product=True, kind=kind)

    for d in DIMENSIONS:
        for kind in ("O", "SO", "E", "SE", "Translation"):
            add(functools.partial(getattr(mf, kind), d))
    for p, q in ((2, 1), (2, 2), (3, 1), (1, 2)):
        add(functools.partial(mf.O, p, q))
    add(functools.partial(mf.SO, 2, 1))
    for kind in ("Lorentz", "ProperLorentz", "OrthochronousLorentz", "Poincare"):
        for d in (2, 3, 4):
            add(functools.partial(getattr(mf, kind), d), name=f"{kind}({d})")
    for d in (1, 2, 3, 4):
        add(functools.partial(mf.U, d))
        add(functools.partial(mf.SU, d))
    for p, q in ((1, 1), (2, 1), (1, 3)):
        add(functools.partial(mf.U, p, q))
    add(functools.partial(mf.SU, 2, 1))
    for kind in ("GL", "SL", "Aff"):
        for d in (2, 3, 4):
            add(functools.partial(getattr(mf, kind), d))
            add(functools.partial(getattr(mf, kind), d, complex=True))
    for d in (1, 2, 3, 5):
        add(functools.partial(mf.Scaling, d), "scale")
        add(functools.partial(mf.Sim, d), "scale")
    for group in SUMS:
        add(functools.partial(_same, group), "sum")
    for group in FINITE:
        add(functools.partial(_same, group), "finite")
    for name, matrices in GIVEN.items():
        group = mf.Finite({"point": matrices, "vector": matrices}, rows=("point", "vector"))
        d = group.matrices("point").shape[-1]
        block = Block(slice(0, d), d)
        found[name] = Case(name, functools.partial(_same, group), Space(d, d, 0, False), (block,), kind="finite")
    found["S()"] = Case("S()", None, Space(3, 3, 0, False), (Block(slice(0, 3), 3),), product=True)
    return found


CASES = _table()
FRAMES = ("minimal", "unordered", "smooth")


@dataclass(frozen=True)
class Chosen:
    """A group as the library is to be asked for it, and how frames are chosen."""

    case: Case
    group: mf.Group
    linear: mf.Group | None
    frames: Any
    ordered: bool  # whether the backbone may depend on the order of the rows that it is shown
    reorders: bool  # whether a reordering of the rows is one of the symmetries

    def random(self, b: int, dtype: str, generator: Any) -> Any:
        assert self.linear is not None
        known = inspect.signature(self.linear.random).parameters
        reach = {"max_rapidity": MAX_RAPIDITY[dtype], "max_condition": MAX_CONDITION, "max_scale": MAX_SCALE}
        wide = torch.complex128 if self.case.space.complex else torch.float64
        options = {k: v for k, v in reach.items() if k in known}
        return self.linear.random(b, dtype=wide, generator=generator, **options)


def choose(case: Case, frames: str) -> Chosen | None:
    """``None`` where this group has no such frames, or too many poses to try (smooth ones in high dimensions)."""
    linear = None if case.make is None else case.make()
    if case.product:
        if frames != "minimal":
            return None
        group = mf.S() if linear is None else mf.S() * linear
        return Chosen(case, group, linear, mf.frames.Minimal(), ordered=True, reorders=True)
    assert case.make is not None
    assert linear is not None
    if frames == "smooth" and (case.space.d > MAX_SMOOTH or (case.space.complex and case.indefinite)):
        return None
    if frames == "smooth" and case.indefinite and len(case.blocks) > 1:  # few clouds of a sum have them
        return None
    method = {"minimal": mf.frames.Minimal, "unordered": mf.frames.Unordered, "smooth": mf.frames.Smooth}[frames]()
    ordered = frames == "minimal"
    return Chosen(case, linear, linear, method, ordered=ordered, reorders=not ordered)


@functools.cache
def serves(name: str, frames: str) -> bool:
    """Whether the library has frames of this kind for a group. Where it has none, an error says so, for any cloud."""
    case = CASES[name]
    try:
        chosen = choose(case, frames)
        if chosen is not None and case.kind:
            generic = torch.randn(
                1, 4, case.space.d, generator=torch.Generator().manual_seed(0), dtype=case.space.dtype
            )
            mf.canonicalize(generic, chosen.group, frames=chosen.frames)
    except ValueError:
        return False
    return chosen is not None
