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


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_docstrings_with_examples_exist() -> None:
    counts = {name: doctest.testmod(importlib.import_module(name)).attempted for name in MODULES}
    assert all(counts[f"minframe.{name}"] for name in ("wrap", "canonical", "testing"))


@pytest.mark.parametrize("page", ["README.md"])
def test_pages(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    printed = re.search(r"tensor\(([^,)]*)", capsys.readouterr().out)
    assert printed is not None
    assert float(printed.group(1)) < 1e-5  # what the first example claims
