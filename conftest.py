"""``pytest --fast``: a sample of every test, for feedback within a minute or so; ``make test`` runs all of them."""

from __future__ import annotations

import zlib
from collections import defaultdict

import pytest
from hypothesis import settings

SAMPLE = 2  # cases of a parametrised test that a fast run takes

settings.register_profile("default", deadline=None, max_examples=40, print_blob=True)
settings.register_profile("fast", parent=settings.get_profile("default"), max_examples=4)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option."""
    parser.addoption("--fast", action="store_true", help="a few cases of every test, and none that is marked slow")


def pytest_configure(config: pytest.Config) -> None:
    """The marker, and how many examples hypothesis makes."""
    config.addinivalue_line("markers", "slow: takes seconds for what other tests look at too; left out by --fast")
    settings.load_profile("fast" if config.getoption("--fast") else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a few cases of each test function, spread over its parameters, other ones for other functions."""
    if not config.getoption("--fast"):
        return
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            cases[item.nodeid.split("[")[0]].append(item)
    kept: set[pytest.Item] = set()
    for name, found in cases.items():
        first, count = zlib.crc32(name.encode()), len(found)
        kept.update(found[(first + k * count // SAMPLE) % count] for k in range(SAMPLE))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
