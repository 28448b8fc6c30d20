"""Pieces of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from minframe_lab.palette import colour, marker
from minframe_lab.reporting.svg import SHAPES


@dataclass(frozen=True)
class Cell:
    """Of a table: words, and how they look.

    Attributes:
        words: what it says.
        kind: class of the style sheet.
        tint: background colour.
        markup: SVG or the like that is put in as it is, in front of the words.
    """

    words: str
    kind: str = ""
    tint: str = ""
    markup: str = ""


def code(words: str) -> str:
    """What is typed."""
    return f"<code>{escape(words)}</code>"


def paragraph(markup: str, kind: str = "") -> str:
    """Of markup, of a class of the style sheet."""
    return f'<p class="{kind}">{markup}</p>' if kind else f"<p>{markup}</p>"


def section(name: str, title: str, parts: Iterable[str]) -> str:
    """What a link at the top leads to."""
    inside = "\n".join(part for part in parts if part)
    return f'<section id="{name}">\n<h2>{escape(title)}</h2>\n{inside}\n</section>'


def figure(markup: str, caption: str, title: str = "", kind: str = "") -> str:
    """A picture with a sentence or two below; the caption is markup."""
    head = f"<h3>{escape(title)}</h3>\n" if title else ""
    return f'<figure class="{kind}">\n{head}{markup}\n<figcaption>{caption}</figcaption>\n</figure>'


def panels(drawings: Iterable[tuple[str, str]], kind: str = "grid") -> str:
    """Drawings with a line above each, as many side by side as there is room for."""
    cards = "\n".join(f'<div class="card"><h4>{head}</h4>{drawing}</div>' for head, drawing in drawings)
    return f'<div class="{kind}">\n{cards}\n</div>'


def details(title: str, markup: str, opened: bool = False) -> str:
    """What is shown on demand."""
    return f"<details{' open' if opened else ''}><summary>{escape(title)}</summary>\n{markup}\n</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[str | Cell]], caption: str = "", text_columns: int = 1) -> str:
    """With numbers on the right; it scrolls by itself where the window is narrow."""
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    names = "".join(
        f'<th scope="col"{_number(i, text_columns)}>{escape(name).replace(chr(10), "<br>")}</th>'
        for i, name in enumerate(head)
    )
    lines = "\n".join(
        "<tr>" + "".join(_cell(i, cell, text_columns) for i, cell in enumerate(row)) + "</tr>" for row in rows
    )
    inside = f"{title}<thead><tr>{names}</tr></thead>\n<tbody>\n{lines}\n</tbody>"
    return f'<div class="scroll" tabindex="0"><table>{inside}</table></div>'


def _number(i: int, text_columns: int) -> str:
    return "" if i < text_columns else ' class="n"'


def _cell(i: int, cell: str | Cell, text_columns: int) -> str:
    found = cell if isinstance(cell, Cell) else Cell(cell)
    kinds = " ".join(kind for kind in ("n" if i >= text_columns else "", found.kind) if kind)
    style = f' style="background:{found.tint}"' if found.tint else ""
    name = f' class="{kinds}"' if kinds else ""
    tag = 'th scope="row"' if i == 0 else "td"
    return f"<{tag}{name}{style}>{found.markup}{escape(found.words)}</{tag.split()[0]}>"


def legend(methods: Iterable[str], note: str = "") -> str:
    """Which colour and marker is which method."""
    items = []
    for method in methods:
        shape, tone = marker(method), colour(method)
        style = f'fill="none" stroke="{tone}" stroke-width="1.8"' if shape == "X" else f'fill="{tone}"'
        sign = f'<svg viewBox="-6 -6 12 12" aria-hidden="true"><path d="{SHAPES[shape]}" {style}/></svg>'
        items.append(f"<li>{sign}{escape(method)}</li>")
    if note:
        items.append(f'<li class="dash">{escape(note)}</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'
