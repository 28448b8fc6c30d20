"""Compiled parts: whether they were built from the source that is there."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

UPDATE_SECONDS = 10.0  # by which the source of an update is newer; files that were unpacked together differ by less
INCLUDED = re.compile(r'^\s*#\s*include\s*"(.+?)"', re.MULTILINE)


def _parts(source: Path) -> Iterator[Path]:
    """A C file, and the files beside it that it includes, and that these include."""
    yield source
    for name in INCLUDED.findall(source.read_text(encoding="utf-8")):
        if (source.parent / name).exists():
            yield from _parts(source.parent / name)


def require_current(*modules: ModuleType) -> None:
    """Raise an ``ImportError``, after a warning, if the C source beside a module, headers included, is newer than it.

    An installed package has no source beside it. A checkout that is installed in place has, and after an update the
    Python files may call functions that are not compiled yet.
    """
    for module in modules:
        assert module.__file__ is not None
        built = Path(module.__file__)
        source = built.with_name(module.__name__.rpartition(".")[2] + ".c")
        for part in _parts(source) if source.exists() else ():
            if part.stat().st_mtime > built.stat().st_mtime + UPDATE_SECONDS:
                warnings.warn(
                    f"{part.name} has changed since it was compiled: PyTorch does its work, more slowly, until "
                    "minframe is installed again (make setup, or pip install -e .)",
                    stacklevel=3,
                )
                raise ImportError(f"{built.name} is older than {part.name}")
