"""How far a model is from equivariance, and how often it calls its backbone."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

import minframe as mf
from minframe.cli.backbones import Backbone

SHIFTING = (mf.Translation, mf.E, mf.Poincare, mf.Aff)


class Counter:
    """A backbone that counts its calls."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone, self.calls = backbone, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.backbone(x)


class Error(NamedTuple):
    """Relative errors, the worst and the median over samples; and the paper's, the mean of absolute differences."""

    worst: float
    median: float
    absolute: float


def wide(x: Tensor) -> Tensor:
    """In double precision."""
    return x.to(torch.promote_types(x.dtype, torch.float64))


def random_element(group: mf.Group, x: Tensor, generator: torch.Generator, options: dict[str, float]) -> Any:
    """One for each sample, translations in units of the size of the cloud."""
    g = group.random(x.shape[0], n=x.shape[1], dtype=wide(x).dtype, generator=generator, **options)  # type: ignore[arg-type]
    linear = getattr(group, "linear", group) if isinstance(g, tuple) else group
    if isinstance(linear, SHIFTING):
        length = torch.linalg.vector_norm(wide(x), dim=-1)
        size = length.median(-1)[0]
        size = torch.where(size > 0, size, 1.0).unsqueeze(-1)
        if isinstance(group, mf.Translation):
            return g * size
        (g[1] if isinstance(g, tuple) else g)[..., :-1, -1] *= size
    return g


def equivariance_error(model: Backbone, group: mf.Group, x: Tensor, g: Any, input: str, output: str) -> Error:
    """``|f(g x) - g f(x)|`` for samples ``x``, moved in double precision; relative to ``|g f(x)|``.

    A point near the origin by accident is no small output: what is relative to it is at least its translation.
    """
    moved = wide(model(group.act(g, wide(x), input).to(x.dtype)))
    plain = wide(model(x))
    expected = group.act(g, plain, output)
    difference = (moved - expected).flatten(1)
    scale = torch.linalg.vector_norm(expected.flatten(1), dim=1)
    if output == "point":
        shift = group.act(g, torch.zeros_like(plain), output).flatten(1)
        scale = torch.maximum(scale, torch.linalg.vector_norm(shift, dim=1))
    length = torch.linalg.vector_norm(difference, dim=1)
    relative = torch.where(length == 0, 0.0, length / torch.where(scale > 0, scale, length))
    return Error(float(relative.max()), float(relative.median()), float(difference.abs().mean()))
