"""Colours and markers of the methods, the same in all figures."""

from __future__ import annotations

from minframe_lab.cases import METHODS

COLOURS = ("#9a9a9a", "#c58fd6", "#e69f00", "#0072b2", "#56b4e9", "#009e73", "#d55e00")
MARKERS = "vXs^DoP"


def index(method: str) -> int:
    """The place of a method in tables; that of one that is not known is the first."""
    return list(METHODS).index(method) if method in METHODS else 1


def colour(method: str) -> str:
    """As CSS names it."""
    return COLOURS[index(method) % len(COLOURS)]


def marker(method: str) -> str:
    """As matplotlib names it."""
    return MARKERS[index(method) % len(MARKERS)]
