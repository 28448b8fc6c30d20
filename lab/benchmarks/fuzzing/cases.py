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
class Case:
    """A linear group and its space; ``product`` for ``S() * group``. ``S()`` alone has no ``make``."""

    name: str
    make: Callable[..., mf.Group] | None
    space: Space
    compact: bool = True
    affine: bool = False
    product: bool = False
    kind: str = ""  # for reports, where it does not follow from the rest
    unitless: bool = False  # canonical poses have no unit: they are white, or of size one


def family(name: str) -> str:
    """What kind of group it is, for reports."""
    case = CASES[name]
    if case.make is None:
        return "permutations"
    if case.kind:
        kind = case.kind
    elif case.space.q:
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
]
FINITE = [
    *(make(n) for make in (mf.Cyclic, mf.Dihedral) for n in (2, 3, 4, 7)),
    mf.Octahedral(),
    mf.Octahedral(reflections=True),
    *(make(k) for make in (mf.Signs, mf.SignedPermutations) for k in (1, 3, 5)),
    mf.Trivial(2),
]


def _same(group: mf.Group) -> mf.Group:
    return group


def _table() -> dict[str, Case]:
    found: dict[str, Case] = {}

    def add(name: str, make: Callable[..., mf.Group], d: int, p: int, q: int, complex: bool, **flags: Any) -> None:
        space = Space(d, p, q, complex)
        found[name] = Case(name, make, space, **flags)
        product = f"S() * ({name})" if "+" in name else f"S() * {name}"
        found[product] = Case(product, make, space, product=True, **flags)

    for d in DIMENSIONS:
        add(f"O({d})", functools.partial(mf.O, d), d, d, 0, False)
        add(f"SO({d})", functools.partial(mf.SO, d), d, d, 0, False)
        for kind in ("E", "SE", "Translation"):
            add(f"{kind}({d})", functools.partial(getattr(mf, kind), d), d, d, 0, False, affine=True)
    for p, q in ((2, 1), (2, 2), (3, 1), (1, 2)):
        add(f"O({p}, {q})", functools.partial(mf.O, p, q), p + q, p, q, False, compact=False)
    add("SO(2, 1)", functools.partial(mf.SO, 2, 1), 3, 2, 1, False, compact=False)
    for kind in ("Lorentz", "ProperLorentz", "OrthochronousLorentz", "Poincare"):
        for d in (2, 3, 4):
            make = functools.partial(getattr(mf, kind), d)
            add(f"{kind}({d})", make, d, 1, d - 1, False, compact=False, affine=kind == "Poincare")
    for d in (1, 2, 3, 4):
        add(f"U({d})", functools.partial(mf.U, d), d, d, 0, True)
        add(f"SU({d})", functools.partial(mf.SU, d), d, d, 0, True)
    for p, q in ((1, 1), (2, 1), (1, 3)):
        add(f"U({p}, {q})", functools.partial(mf.U, p, q), p + q, p, q, True, compact=False)
    add("SU(2, 1)", functools.partial(mf.SU, 2, 1), 3, 2, 1, True, compact=False)
    for kind in ("GL", "SL", "Aff"):
        for d in (2, 3, 4):
            for complex in (False, True):
                name = f"{kind}({d}, complex=True)" if complex else f"{kind}({d})"
                make = functools.partial(getattr(mf, kind), d, **({"complex": True} if complex else {}))
                add(name, make, d, d, 0, complex, compact=False, affine=kind == "Aff", unitless=kind != "SL")
    for d in (1, 2, 3, 5):
        for kind in ("Scaling", "Sim"):
            make = functools.partial(getattr(mf, kind), d)
            add(f"{kind}({d})", make, d, d, 0, False, affine=kind == "Sim", kind="scale", unitless=True)
    for group in SUMS:
        shifts = any(isinstance(part, mf.E | mf.Translation) for part in group.groups)
        add(str(group), functools.partial(_same, group), group.d, group.d, 0, False, affine=shifts, kind="sum")
    for group in FINITE:
        add(str(group), functools.partial(_same, group), group.d, group.d, 0, False, kind="finite")
    found["S()"] = Case("S()", None, Space(3, 3, 0, False), product=True)
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
    if frames == "smooth" and (case.space.d > MAX_SMOOTH or (case.space.complex and case.space.q)):
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
            generic = torch.randn(1, 4, case.space.d, generator=torch.Generator().manual_seed(0))
            mf.canonicalize(generic, chosen.group, frames=chosen.frames)
    except ValueError:
        return False
    return chosen is not None
