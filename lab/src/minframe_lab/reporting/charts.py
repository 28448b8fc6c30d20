"""Charts of what ``verify`` and ``bench`` have measured: one small drawing a panel, which narrow windows stack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minframe_lab.cases import METHODS, OURS
from minframe_lab.palette import colour, marker
from minframe_lab.reporting.axes import GRID, INK, Scale, decades, power, ratio_ticks, rule_x, rule_y
from minframe_lab.reporting.svg import Drawing

Rows = Sequence[dict[str, Any]]
FLOOR, CEILING = 1e-17, 1e2  # of errors, as they are drawn


def shown(error: float) -> float:
    """An error as it is drawn: zero at the floor, what is not a number at the ceiling."""
    return CEILING if math.isnan(error) else min(max(error, FLOOR), CEILING)


def ordered(methods: set[str]) -> list[str]:
    """Methods as they stand in tables, those that are not known last."""
    return [m for m in METHODS if m in methods] + sorted(methods - set(METHODS))


def error_panel(rows: Rows) -> str:
    """Errors on a log axis, by backbone and method; the bound as a dashed line."""
    first = rows[0]
    names = list(dict.fromkeys(row["backbone"] for row in rows))
    methods = ordered({row["method"] for row in rows})
    left, right, top, bottom = 44.0, 314.0, 12.0, 176.0
    drawing = Drawing(320, 206, f"{first['group']}, {first['data']}: relative equivariance error by backbone")
    y = Scale(FLOOR, CEILING, bottom, top, log=True)
    rule_y(drawing, y, [(10.0**e, power(e)) for e in range(-16, 1, 4)], left, right)
    for bound in sorted({row["bound"] for row in rows}):
        drawing.line((left, y(bound)), (right, y(bound)), stroke=INK, stroke_dasharray="4 3")
    width = (right - left) / len(names)
    for i, name in enumerate(names):
        centre = left + (i + 0.5) * width
        drawing.text((centre, bottom + 18), name, text_anchor="middle", class_="tick")
        if i:
            drawing.line((left + i * width, top), (left + i * width, bottom), stroke=GRID)
        for j, method in enumerate(methods):
            for row in (r for r in rows if (r["backbone"], r["method"]) == (name, method)):
                place = centre + (j - (len(methods) - 1) / 2) * min(9.0, 0.8 * width / len(methods))
                tip = f"{method}, {name}: {row['worst']:.1e}"
                drawing.marker((place, y(shown(row["worst"]))), marker(method), colour(method), tip)
    return drawing.render()


def cost_panel(rows: Rows) -> str:
    """Time over that of the plain backbone, with quartiles: lines where a number is varied, else bars."""
    if any(row["value"] is None for row in rows):
        return _cost_bars(rows)
    left, right, top, bottom = 44.0, 346.0, 12.0, 214.0
    drawing = Drawing(360, 252, f"{rows[0]['sweep']}: time over the plain backbone")
    low, high = _range(rows)
    y = Scale(low, high, bottom, top, log=True)
    rule_y(drawing, y, [(t, f"{t:g}") for t in ratio_ticks(low, high)], left, right)
    values = sorted({row["value"] for row in rows})
    x = Scale(values[0], values[-1], left + 12, right - 12, log=True)
    far = values[-1] > 1e5 * values[0]
    named = [(10.0**e, power(e)) for e in decades(values[0], values[-1], 6)] if far else [(v, f"{v:g}") for v in values]
    rule_x(drawing, x, named, top, bottom)
    drawing.text(((left + right) / 2, bottom + 34), rows[0]["variable"], text_anchor="middle", class_="axis")
    drawing.line((left, y(1)), (right, y(1)), stroke=INK, stroke_dasharray="4 3")
    for method in ordered({row["method"] for row in rows}):
        own = sorted((row for row in rows if row["method"] == method), key=lambda r: r["value"])
        tone, points = colour(method), [(x(row["value"]), y(row["ratio"])) for row in own]
        drawing.polyline(points, stroke=tone, stroke_width=2.4 if method == OURS else 1.4)
        for row, point in zip(own, points, strict=True):
            drawing.line((point[0], y(row["low"])), (point[0], y(row["high"])), stroke=tone)
            tip = f"{method}, {row['case']}: {row['ratio']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"
            drawing.marker(point, marker(method), tone, tip)
    return drawing.render()


def _cost_bars(rows: Rows) -> str:
    cases = list(dict.fromkeys(row["case"] for row in rows))
    thick, gap, left, right = 12.0, 34.0, 8.0, 300.0
    height = 10.0 + gap * len(cases) + thick * len(rows) + 20
    drawing = Drawing(360, height, f"{rows[0]['sweep']}: time over the plain backbone")
    low, high = _range(rows)
    x = Scale(low, high, left, right, log=True)
    top, y, one = 10.0, 10.0, x(1)
    ticks = [(t, f"{t:g}") for t in ratio_ticks(low, high)]
    bottom = height - 20
    for value, _ in ticks:
        drawing.line((x(value), top), (x(value), bottom), stroke=GRID)
    drawing.line((one, top), (one, bottom), stroke=INK, stroke_dasharray="4 3")
    for case in cases:
        drawing.text((left, y + 18), case, class_="axis halo")
        y += gap - 8
        for row in sorted((r for r in rows if r["case"] == case), key=lambda r: -r["ratio"]):
            tone, end = colour(row["method"]), x(row["ratio"])
            tip = f"{row['method']}: {row['ratio']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"
            drawing.rect((min(one, end), y), max(abs(end - one), 1.5), thick - 2.5, tip, fill=tone, rx=2)
            middle = y + (thick - 2.5) / 2
            drawing.line((x(row["low"]), middle), (x(row["high"]), middle), stroke=INK, stroke_width=1)
            drawing.text((x(row["high"]) + 5, y + 8.5), f"{row['ratio']:.3g}", class_="tick halo")
            y += thick
        y += 8
    rule_x(drawing, x, ticks, top, bottom)
    return drawing.render()


def _range(rows: Rows) -> tuple[float, float]:
    low = min(1.0, *(row["low"] for row in rows))
    return low / 1.1, 1.15 * max(1.5, *(row["high"] for row in rows))


def sparkline(values: Sequence[float], label: str) -> str:
    """The course of a number, on a log axis if it stays above zero."""
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < 2:
        return ""
    drawing = Drawing(120, 28, label)
    y = Scale(min(finite), max(finite), 25, 3, log=min(finite) > 0)
    x = Scale(0, len(finite) - 1, 3, 117)
    points = [(x(i), y(v)) for i, v in enumerate(finite)]
    drawing.polyline(points, stroke=colour(OURS), stroke_width=1.6)
    drawing.circle(points[-1], 2.4, f"{finite[-1]:.4g}", fill=colour(OURS))
    return drawing.render()
