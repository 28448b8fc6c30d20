"""``minframe verify``: the equivariance error of every group, backbone and method."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

import minframe as mf
from minframe.testing import bound
from minframe_lab.backbones import Backbone
from minframe_lab.cases import METHODS, OURS, SMOOTH, Panel, number
from minframe_lab.counter import Counter

MOST_SMOOTH = 100  # samples: a smooth frame of a dodecahedron has 480 poses of each
DTYPES = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        paper: whether it is in the paper's appendix; else a degenerate cloud of our tests.
        group: its name.
        data: what the clouds of the panel are.
        cloud: which of them.
        backbone: its name.
        method: its name.
        dtype: of the clouds and the backbone.
        samples: number of clouds, each moved by an element of its own.
        worst: the largest relative error.
        median: of the relative errors.
        absolute: the paper's error, the mean of the absolute differences.
        bound: on the relative error.
        passed: whether the worst is within the bound.
        frame_size: number of elements of the frame, the largest over the clouds.
        passes: number of forward passes of the backbone for one cloud: of smooth frames, the mean number of poses.
    """

    paper: bool
    group: str
    data: str
    cloud: str
    backbone: str
    method: str
    dtype: str
    samples: int
    worst: float
    median: float
    absolute: float
    bound: float
    passed: bool
    frame_size: float | int
    passes: float | int

    @property
    def ours(self) -> bool:
        return self.method == OURS

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def generator_for(seed: int, *names: str) -> torch.Generator:
    """One that depends on what it is for and not on what was measured before."""
    return torch.Generator().manual_seed(zlib.crc32("/".join((str(seed), *names)).encode()))


def verify_panel(panel: Panel, dtype_name: str, seed: int) -> tuple[int, Iterator[Row]]:
    """How many measurements a panel has, and the measurements as they are made."""
    clouds = panel.draw(panel.samples, generator_for(seed, panel.name))
    few = panel.build(1, torch.float64, torch.Generator())
    return len(clouds) * len(few) * len(panel.methods), _rows(panel, clouds, dtype_name, seed)


def _rows(panel: Panel, clouds: dict[str, Tensor], dtype_name: str, seed: int) -> Iterator[Row]:
    group, dtype = panel.group, DTYPES[dtype_name]
    for name, cloud in clouds.items():
        x = cloud.to(number(group, dtype))
        backbones = panel.build(x.shape[1], x.dtype, generator_for(seed, panel.name, "backbones"))
        size = largest(group.frame(x, panel.input).size)
        for backbone_name, backbone in backbones.items():
            for method in panel.methods:
                some = x[:MOST_SMOOTH] if method == SMOOTH else x
                model, counter = build_model(backbone, panel, method, seed)
                with torch.no_grad():
                    error = mf.testing.equivariance_errors(
                        model,
                        group,
                        some,
                        inputs=panel.input,
                        outputs=panel.output,
                        elements=1,
                        generator=generator_for(seed, panel.name, name, "g"),
                        element_options=group.random_options(dtype),
                    )
                worst = float(error.relative.max())
                passes = _rounded(counter.samples / (2 * some.shape[0]))  # for the clouds, and for the clouds moved
                yield Row(
                    paper=panel.paper,
                    group=str(group),
                    data=panel.data,
                    cloud=name,
                    backbone=backbone_name,
                    method=method,
                    dtype=dtype_name,
                    samples=some.shape[0],
                    worst=worst,
                    median=float(error.relative.median()),
                    absolute=float(error.absolute.mean()),
                    bound=bound(group, dtype),
                    passed=worst <= bound(group, dtype),
                    frame_size=size if method == OURS else passes,
                    passes=passes,
                )


def _rounded(passes: float) -> float | int:
    """To a tenth, and an integer if it is one."""
    return int(passes) if passes.is_integer() else round(passes, 1)


def build_model(backbone: Backbone, panel: Panel, method: str, seed: int) -> tuple[Backbone, Counter]:
    """A backbone with the frames of a method, and what counts its calls."""
    counter = Counter(backbone)
    make = METHODS[method]
    if make is None:
        return counter, counter
    return mf.Equivariant(counter, panel.group, panel.input, panel.output, frames=make(panel.group, seed)), counter


def largest(size: Any) -> float:
    """Of frame sizes in nested lists."""
    return max(map(largest, size)) if isinstance(size, Sequence) else size
