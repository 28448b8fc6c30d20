"""What is released: one version, links that work on a package index, the same tools everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import minframe

ROOT = Path(__file__).parent.parent
HOME = "https://github.com/minframe/minframe"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_changelog_begins_with_the_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == minframe.__version__
    assert len(headings) == len(set(headings))


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)


def test_the_library_needs_pytorch_alone() -> None:
    assert [re.split(r"\W", requirement)[0] for requirement in PROJECT["dependencies"]] == ["torch"]


def test_links_of_the_readme_are_absolute_and_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / PROJECT["readme"]).read_text())
    assert all(link.startswith("https://") for link in links)
    raw = HOME.replace("github.com", "raw.githubusercontent.com")
    files = [re.sub(rf"^({HOME}/(blob|tree)|{raw})/main/", "", link) for link in links if "minframe/minframe" in link]
    assert files
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_hooks_are_the_tools_of_make_lint() -> None:
    lint = (ROOT / "Makefile").read_text().split("\nlint: setup\n")[1].split("\n\n")[0]
    tools = [
        line.strip().removeprefix("$(BIN)/").removesuffix(" .").removesuffix(" --check") for line in lint.split("\n")
    ]
    hooks = re.findall(r"entry: \.venv/bin/(.+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert hooks == tools
