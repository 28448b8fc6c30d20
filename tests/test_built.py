"""Compiled parts that are older than their source are not used."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

from minframe.built import require_current


def test_a_module_older_than_its_source_is_refused(tmp_path: Path) -> None:
    built, source = tmp_path / "_loops.abi3.so", tmp_path / "_loops.c"
    module = ModuleType("minframe.linalg._loops")
    module.__file__ = str(built)
    built.touch()
    require_current(module)  # installed: no source beside it
    source.touch()
    require_current(module)  # unpacked together
    os.utime(built, (0, 0))
    with pytest.warns(UserWarning, match="installed again"), pytest.raises(ImportError, match="older"):
        require_current(module)
