"""How far a reader of the library has to travel to follow one call of a model."""

from __future__ import annotations

from crossings import AT_MOST, changes, counted


def test_changes_of_file() -> None:
    found = {name: changes(calls) for name, calls in counted().items()}
    assert found.keys() == AT_MOST.keys()
    assert {name: count for name, count in found.items() if count > AT_MOST[name]} == {}
