import sys

import pytest
import torch
from hypothesis import settings

from minframe.linalg import native

settings.register_profile("default", deadline=None, max_examples=40, print_blob=True)
settings.load_profile("default")
torch.set_num_threads(1)


@pytest.fixture(params=["compiled", "pytorch"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which rows are decomposed, however many they are."""
    if request.param == "pytorch":
        monkeypatch.setattr(native, "_native", None)
    elif native._native is None:
        pytest.skip("there was no C compiler on installation")
    else:
        monkeypatch.setattr(native, "NUMBERS", sys.maxsize)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
