"""The layers of the library: data flows one way, and nothing lower imports something higher.

Every import counts, also one inside a function and one for type checkers alone.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import minframe

ROOT = Path(minframe.__file__).parent
#: From the ground up. What stands in one row may import each other, but in no ring.
LAYERS = (
    ("types", "tracing", "checks", "constants", "dtypes", "built"),
    ("layout",),
    ("linalg",),
    ("labelling",),
    ("cloud", "relations"),
    ("frame",),
    ("groups",),
    ("frames",),
    (
        "degenerate",
        "signature",
        "rowwise",
        "recorded",
        "prior",
        "declared",
        "wrap",
        "messages",
        "local",
        "canonical",
        "testing",
        "point_group",
        "graph",
        "forms",
        "spectral",
    ),
    ("minframe",),
    ("pyg", "ase"),  # imported by name alone
)
LEVEL = {name: level for level, row in enumerate(LAYERS) for name in row}


def module_name(path: Path) -> str:
    parts = ("minframe", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(name: str) -> Iterator[str]:
    """The modules of the library that a module imports, wherever in its text."""
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "minframe")
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name} has a relative import"
            module = node.module or ""
            if module.split(".")[0] == "minframe":
                for alias in node.names:
                    inner = f"{module}.{alias.name}"
                    yield inner if inner in MODULES else module


GRAPH = {name: {target for target in imports(name) if target in MODULES} for name in MODULES}


def layer(name: str) -> int:
    """Of a module: that of the file or folder it is in."""
    return LEVEL[name.split(".")[1] if "." in name else name]


def test_every_module_has_a_layer() -> None:
    assert {name.split(".")[1] for name in MODULES if "." in name} | {"minframe"} == set(LEVEL)


def test_nothing_lower_imports_something_higher() -> None:
    assert {(name, target) for name in MODULES for target in GRAPH[name] if layer(target) > layer(name)} == set()


def test_no_rings() -> None:
    TopologicalSorter(GRAPH).prepare()  # raises a CycleError that shows the ring


def test_the_laboratory_uses_public_names_alone() -> None:
    public = {"minframe", *(f"minframe.{name}" for name in minframe.__all__)}
    lab = ROOT.parents[1] / "lab" / "src"
    found = {
        f"{path.relative_to(lab)}: {node.module}"
        for path in sorted(lab.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "minframe"
        if node.module not in public
    }
    assert found == set()


def test_importing_the_library_brings_nothing_but_the_standard_library() -> None:
    """No compiler (``torch._dynamo``: more than a second), no NumPy, no labelling library, before any is needed."""
    code = (
        "import sys, torch; before = set(sys.modules); import minframe\n"
        "print(*{name if name.startswith('torch._dynamo') else name.split('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - set(sys.stdlib_module_names) - {"torch"} == {"minframe"}
