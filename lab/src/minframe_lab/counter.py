"""How often a model calls its backbone."""

from __future__ import annotations

from torch import Tensor

from minframe_lab.backbones import Backbone


class Counter:
    """A backbone that counts its calls."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone, self.calls = backbone, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.backbone(x)
