"""How often a model shows its backbone a sample."""

from __future__ import annotations

from torch import Tensor

from minframe_lab.backbones import Backbone


class Counter:
    """A backbone that counts the samples it is shown: of a smooth frame, all poses."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone, self.samples = backbone, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.samples += x.shape[0]
        return self.backbone(x)
