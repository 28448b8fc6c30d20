import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from minframe.linalg import native

torch.set_num_threads(1)


@pytest.fixture(params=["compiled", "pytorch"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways in which rows are decomposed."""
    if request.param == "pytorch":
        with native.disabled():
            yield
    else:
        request.getfixturevalue("compiled")
        yield


@pytest.fixture
def compiled() -> None:
    """The C source is built; skipped only where it cannot be."""
    if native.library is None and not _can_build():
        pytest.skip("there is no C compiler here, or no header of Python")
    assert native.library is not None, "the extension was not built on installation: see make setup"


def _can_build() -> bool:
    return shutil.which("cc") is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
