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


def test_a_module_older_than_a_header_is_refused(tmp_path: Path) -> None:
    built, source, header = (tmp_path / name for name in ("_loops.abi3.so", "_loops.c", "_inner.h"))
    module = ModuleType("minframe.linalg._loops")
    module.__file__ = str(built)
    source.write_text('#include <math.h>\n#include "_outer.h"\n')
    (tmp_path / "_outer.h").write_text('#include "_inner.h"\n')
    for path in (built, header):
        path.touch()
    require_current(module)
    os.utime(header, (2**31, 2**31))
    with pytest.warns(UserWarning, match="_inner.h has changed"), pytest.raises(ImportError, match="older"):
        require_current(module)
