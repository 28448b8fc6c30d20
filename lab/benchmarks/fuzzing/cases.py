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


def family(name: str) -> str:
    """What kind of group it is, for reports."""
    case = CASES[name]
    if case.make is None:
        return "permutations"
    if case.space.q:
        kind = "indefinite"
    elif not case.compact:
        kind = "general linear"
    elif case.affine:
        kind = "with translations"
    else:
        kind = "unitary" if case.space.complex else "orthogonal"
    return f"S() * {kind}" if case.product else kind


def _table() -> dict[str, Case]:
    found: dict[str, Case] = {}

    def add(name: str, make: Callable[..., mf.Group], d: int, p: int, q: int, complex: bool, **flags: bool) -> None:
        space = Space(d, p, q, complex)
        found[name] = Case(name, make, space, **flags)
        found[f"S() * {name}"] = Case(f"S() * {name}", make, space, product=True, **flags)

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
                add(name, make, d, d, 0, complex, compact=False, affine=kind == "Aff")
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
        reach = {"max_rapidity": MAX_RAPIDITY[dtype], "max_condition": MAX_CONDITION}
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
    if frames == "minimal":
        return Chosen(case, linear, linear, mf.frames.Minimal(), ordered=True, reorders=False)
    if frames == "unordered":
        return Chosen(case, linear, linear, mf.frames.Unordered(), ordered=False, reorders=True)
    if frames == "smooth" and case.space.d <= MAX_SMOOTH and not (case.space.complex and case.space.q):
        return Chosen(case, linear, linear, mf.frames.Smooth(), ordered=False, reorders=True)
    return None
