"""A picture of a graph: two drawings of it, with their adjacency matrices, and its canonical form."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import minframe as mf
from minframe_lab.graphs import petersen
from minframe_lab.reporting.html import code, figure, panels, paragraph
from minframe_lab.reporting.svg import Drawing, Point

NODE, EDGE, FILLED, EMPTY = "#0072b2", "#9aa7b4", "#24506e", "#eef2f5"
SEED = 1


def circle(count: int, radius: float, turn: float = 0.0) -> list[Point]:
    """Places around the middle of the drawing, the first on top."""
    angles = [turn + 2 * math.pi * i / count for i in range(count)]
    return [(100 + radius * math.sin(a), 92 - radius * math.cos(a)) for a in angles]


def star_order(graph: Tensor) -> list[int]:
    """Nodes of the Petersen graph along a ring of five, then the neighbour of each that is not in the ring."""
    neighbours = [set(row.nonzero().flatten().tolist()) for row in graph]
    ring = _ring([0], neighbours)
    return ring + [next(iter(neighbours[i] - set(ring))) for i in ring]


def _ring(path: list[int], neighbours: list[set[int]]) -> list[int]:
    if len(path) == 5:
        return path if path[0] in neighbours[path[-1]] else []
    for step in sorted(neighbours[path[-1]] - set(path)):
        found = _ring([*path, step], neighbours)
        if found:
            return found
    return []


def graph_figure() -> str:
    """The Petersen graph drawn as a star, relabelled and drawn as a ring, and in canonical order."""
    if mf.S().labelling is None:
        return paragraph(f"The picture of a graph needs a labelling library: {code('pip install igraph')}.", "note")
    graph = petersen()
    n = len(graph)
    shuffle = torch.randperm(n, generator=torch.Generator().manual_seed(SEED))
    copies = torch.stack([graph, graph[shuffle][:, shuffle]])
    forms = mf.graph.canonical_form(copies)
    star = dict(zip(star_order(graph), circle(5, 78) + circle(5, 40), strict=True))
    ring = circle(n, 78)
    cards = [
        ("one drawing", _graph(copies[0], [star[i] for i in range(n)], "the graph drawn as a star")),
        ("another, nodes relabelled", _graph(copies[1], ring, "the graph drawn as a ring")),
        ("canonical form of both", _graph(forms.edges[0], ring, "the canonical form")),
    ]
    entries = int((copies[0] != copies[1]).sum())
    different = int((forms.edges[0] != forms.edges[1]).sum())
    order = mf.S().frame(graph, "edge").size
    caption = (
        f"Two drawings of the Petersen graph; as matrices they differ in {entries} of {n * n} entries. Their canonical "
        f"forms by {code('mf.graph.canonical_form')} differ in {different}. The graph has {order} symmetries; "
        f"{code('mf.S()')} averages over all of them, still in one forward pass."
    )
    return figure(panels(cards, "poses"), caption, "Two drawings of one graph, and its canonical form")


def _graph(adjacency: Tensor, places: list[Point], label: str) -> str:
    n = len(adjacency)
    drawing = Drawing(200, 330, label)
    for i, j in adjacency.triu().nonzero().tolist():
        drawing.line(places[i], places[j], stroke=EDGE, stroke_width=2)
    for i, place in enumerate(places):
        drawing.circle(place, 10.5, fill=NODE, stroke="#fff", stroke_width=1.5)
        drawing.text((place[0], place[1] + 4), str(i), text_anchor="middle", class_="node")
    side = 12.0
    left, top = 100 - n * side / 2, 196.0
    for i in range(n):
        for j in range(n):
            tone = FILLED if adjacency[i, j] else EMPTY
            drawing.rect((left + j * side, top + i * side), side - 1.2, side - 1.2, fill=tone, rx=1.5)
    return drawing.render()
