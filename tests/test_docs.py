"""Every example in the documentation runs, every page can be built, and no link in it is broken."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import runpy
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import minframe

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/minframe/minframe/blob/main/"
MODULES = [name for _, name, _ in pkgutil.walk_packages(minframe.__path__, "minframe.")]
FINDER = doctest.DocTestFinder(exclude_empty=True)
WITH_EXAMPLES = [name for name in MODULES if any(t.examples for t in FINDER.find(importlib.import_module(name)))]
FENCE = re.compile(r"^```(\S*).*?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = sorted(str(page.relative_to(ROOT)) for page in DOCS.rglob("*.md") if "_build" not in page.parts)


def blocks(page: str) -> list[str]:
    return [text for language, text in FENCE.findall((ROOT / page).read_text()) if language == "python"]


def run(page: str) -> None:
    """The blocks of a page follow each other, as a reader would type them."""
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_what_users_call_has_examples() -> None:
    assert {f"minframe.{name}" for name in ("wrap", "canonical", "testing")} <= set(WITH_EXAMPLES)


def test_readme(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(blocks("README.md")) >= 5
    run("README.md")
    printed = re.search(r"tensor\(([^,)]*)", capsys.readouterr().out)
    assert printed is not None
    assert float(printed.group(1)) < 1e-5  # what the first example claims


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_pages(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where what an example writes does no harm
    # What is compiled is traced and differentiated, but not made into machine code, which takes a minute:
    # tests/test_torch.py does that.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    run(page)


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_no_code_is_left_out(page: str) -> None:
    """Python stands in blocks that say so, which is where the tests look for it."""
    known = {"python", "sh", "text"}
    fences = [language for language, _ in FENCE.findall((ROOT / page).read_text())]
    assert not [language for language in fences if language not in known and not language.startswith("{")]


def test_smooth_page() -> None:
    """Its claims are assertions."""
    claims = blocks("docs/smooth.md")
    assert sum("assert " in block for block in claims) == len(claims) == 5


NAMED = re.compile(r"`(tests/[\w/]+\.py)`")


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_tests_that_exist(page: str) -> None:
    """A page that cites tests by name says in which files they are: ``tests/....py`` somewhere on the page."""
    text = (ROOT / page).read_text()
    files = [ROOT / name for name in NAMED.findall(text)]
    assert not [file for file in files if not file.exists()]
    source = "".join(file.read_text() for file in files)
    named = set(re.findall(r"`(test_\w+|rounding_alone)`", text))
    assert not [name for name in named if f"def {name}(" not in source]
    assert len(named) > 15 or page != "docs/smooth.md"


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_files_and_sources_that_pages_name_exist(page: str) -> None:
    """Links to the repository, and modules where a derivation stands."""
    text = (ROOT / page).read_text()
    linked = re.findall(re.escape(REPOSITORY) + r"([^)#\s]+)", text)
    modules = [f"src/minframe/{name}" for name in re.findall(r"`minframe/([\w/]+\.py)`", text)]
    assert not [name for name in [*linked, *modules] if not (ROOT / name).exists()]


LOADED = re.compile(r'<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//|<link[^>]*\shref="(?:https?:)?//')
IMPORTED = re.compile(r"@import|url\(\s*[\"']?(?:https?:)?//")


@pytest.mark.slow
def test_site(tmp_path: Path) -> None:
    """It is built without a warning: links between pages, names in docstrings, pages that no contents list."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = {page.name: page.read_text() for page in tmp_path.rglob("*.html")}
    assert len(pages) > 20

    # Scripts, styles, fonts and pictures are all its own.
    assert not [name for name, text in pages.items() if LOADED.search(text)]
    assert not [style.name for style in tmp_path.rglob("*.css") if IMPORTED.search(style.read_text())]

    # Every public name is in the reference.
    public = [f"minframe.{name}" for name in minframe.__all__ if name[0].isupper() or name == "canonicalize"]
    public += [f"minframe.frames.{name}" for name in minframe.frames.__all__]
    assert not [name for name in public if f'id="{name}"' not in "".join(pages.values())]


@pytest.mark.slow
def test_pictures_are_drawn(tmp_path: Path) -> None:
    """By the script beside them, all of them, and each is on a page."""
    runpy.run_path(str(DOCS / "figures/draw.py"))["main"](tmp_path)
    drawn, stored = ({picture.name for picture in folder.glob("*.svg")} for folder in (tmp_path, DOCS / "figures"))
    assert drawn == stored
    text = "".join((ROOT / page).read_text() for page in PAGES)
    assert not [name for name in stored if f"figures/{name}" not in text]
