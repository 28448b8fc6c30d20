"""Axes of charts: where numbers stand on the canvas, and what is written beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from minframe_lab.reporting.svg import Drawing

INK, SOFT, GRID = "#1f2933", "#5b6773", "#e4e8ec"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """From numbers between ``low`` and ``high`` to places between ``start`` and ``end``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        share = 0.5 if high == low else (value - low) / (high - low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def power(exponent: int) -> str:
    """``10⁻³``; small ones as they are."""
    return {0: "1", 1: "10", 2: "100", 3: "1000"}.get(exponent, "10" + str(exponent).translate(SUPERSCRIPT))


def decades(low: float, high: float, most: int) -> list[int]:
    """Exponents of ten within a range, evenly spaced, not more than so many."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / most))
    return [e for e in range(first, last + 1) if e % step == 0]


def ratio_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 and so on; of far ranges powers of ten alone."""
    steps = (1, 2, 5) if high / low < 60 else (1, 3) if high / low < 300 else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**e for e in exponents for s in steps if low * 0.999 <= s * 10.0**e <= high * 1.001]


def rule_y(drawing: Drawing, scale: Scale, ticks: Sequence[tuple[float, str]], left: float, right: float) -> None:
    """Horizontal lines with a number on the left of each."""
    for value, name in ticks:
        y = scale(value)
        drawing.line((left, y), (right, y), stroke=GRID)
        drawing.text((left - 6, y + 3.5), name, text_anchor="end", class_="tick")


def rule_x(drawing: Drawing, scale: Scale, ticks: Sequence[tuple[float, str]], top: float, bottom: float) -> None:
    """Numbers below, with a short line to each."""
    for value, name in ticks:
        x = scale(value)
        drawing.line((x, bottom), (x, bottom + 4), stroke=SOFT)
        drawing.text((x, bottom + 16), name, text_anchor="middle", class_="tick")
    drawing.line((scale.start, bottom), (scale.end, bottom), stroke=SOFT)
