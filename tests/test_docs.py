"""Every example in the documentation runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import minframe

ROOT = Path(__file__).parent.parent
MODULES = [name for _, name, _ in pkgutil.walk_packages(minframe.__path__, "minframe.")]
FINDER = doctest.DocTestFinder(exclude_empty=True)
WITH_EXAMPLES = [name for name in MODULES if any(t.examples for t in FINDER.find(importlib.import_module(name)))]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_what_users_call_has_examples() -> None:
    assert {f"minframe.{name}" for name in ("wrap", "canonical", "testing")} <= set(WITH_EXAMPLES)


def run(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_readme(capsys: pytest.CaptureFixture[str]) -> None:
    run("README.md")
    printed = re.search(r"tensor\(([^,)]*)", capsys.readouterr().out)
    assert printed is not None
    assert float(printed.group(1)) < 1e-5  # what the first example claims


@pytest.mark.parametrize("page", ["docs/symmetries.md", "docs/pyg.md", "docs/ase.md"])
def test_pages(page: str) -> None:
    run(page)


def test_smooth_page() -> None:
    """Its claims are assertions."""
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/smooth.md").read_text(), re.DOTALL)
    assert sum("assert " in block for block in blocks) == len(blocks) == 4
    for block in blocks:
        exec(compile(block, "docs/smooth.md", "exec"), names)


def test_smooth_page_names_tests_that_exist() -> None:
    source = (ROOT / "tests/test_smooth.py").read_text()
    named = set(re.findall(r"`(test_\w+|rounding_alone)`", (ROOT / "docs/smooth.md").read_text()))
    assert len(named) > 15
    assert not [name for name in named if f"def {name}(" not in source]
