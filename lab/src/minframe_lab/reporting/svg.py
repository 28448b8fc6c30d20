"""Drawings as SVG text that stands in an HTML page: small, sharp at every size, and in the page's own fonts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

Point = tuple[float, float]

SHAPES = {
    "v": "M-4.2,-3.2H4.2L0,4.2Z",
    "^": "M-4.2,3.2H4.2L0,-4.2Z",
    "s": "M-3.3,-3.3H3.3V3.3H-3.3Z",
    "D": "M0,-4.6L4.6,0L0,4.6L-4.6,0Z",
    "X": "M-3.6,-3.6L3.6,3.6M3.6,-3.6L-3.6,3.6",
    "P": "M-1.6,-4.4H1.6V-1.6H4.4V1.6H1.6V4.4H-1.6V1.6H-4.4V-1.6H-1.6Z",
    "o": "M-4.6,0a4.6,4.6 0 1 0 9.2,0a4.6,4.6 0 1 0 -9.2,0Z",
}


def number(value: float) -> str:
    """With the digits that can be seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def attributes(values: dict[str, object]) -> str:
    """``stroke_width=2`` as ``stroke-width="2"``; ``None`` is left out."""
    shown = {key.rstrip("_").replace("_", "-"): value for key, value in values.items() if value is not None}
    return "".join(
        f' {key}="{number(value) if isinstance(value, float) else escape(str(value))}"' for key, value in shown.items()
    )


class Drawing:
    """Shapes on a canvas of a width and a height, in the order in which they are drawn.

    Args:
        width: of the canvas; the page scales it.
        height: the same.
        label: what is to be seen, for those who cannot see it.
    """

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width, self.height, self.label = width, height, label
        self.parts: list[str] = []

    def _add(self, tag: str, values: dict[str, object], inside: str = "") -> None:
        self.parts.append(f"<{tag}{attributes(values)}>{inside}</{tag}>" if inside else f"<{tag}{attributes(values)}/>")

    def line(self, a: Point, b: Point, **style: object) -> None:
        self._add("line", {"x1": float(a[0]), "y1": float(a[1]), "x2": float(b[0]), "y2": float(b[1])} | style)

    def polyline(self, points: Iterable[Point], **style: object) -> None:
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self._add("polyline", {"points": path, "fill": "none"} | style)

    def circle(self, centre: Point, radius: float, tip: str = "", **style: object) -> None:
        values = {"cx": float(centre[0]), "cy": float(centre[1]), "r": float(radius)} | style
        self._add("circle", values, f"<title>{escape(tip)}</title>" if tip else "")

    def rect(self, corner: Point, width: float, height: float, tip: str = "", **style: object) -> None:
        values = {"x": float(corner[0]), "y": float(corner[1]), "width": float(width), "height": float(height)} | style
        self._add("rect", values, f"<title>{escape(tip)}</title>" if tip else "")

    def marker(self, at: Point, shape: str, colour: str, tip: str = "", hollow: bool = False) -> None:
        """A sign for a measurement, with its numbers in a tip."""
        open_ = hollow or shape == "X"
        style: dict[str, object] = {
            "transform": f"translate({number(at[0])},{number(at[1])})",
            "d": SHAPES[shape],
            "fill": "none" if open_ else colour,
            "stroke": colour if open_ else "#fff",
            "stroke_width": 1.8 if shape == "X" else 1.2 if hollow else 0.7,
        }
        self._add("path", style, f"<title>{escape(tip)}</title>" if tip else "")

    def text(self, at: Point, words: str, **style: object) -> None:
        self._add("text", {"x": float(at[0]), "y": float(at[1])} | style, escape(words))

    def raw(self, part: str) -> None:
        """Anything else."""
        self.parts.append(part)

    def render(self) -> str:
        box = f"0 0 {number(self.width)} {number(self.height)}"
        inside = "\n".join(self.parts)
        return f'<svg viewBox="{box}" role="img" aria-label="{escape(self.label)}">\n{inside}\n</svg>'
