"""How exact products with permutations are on symmetric clouds: the worst relative error over random elements.

    python benchmarks/exactness.py [--elements 1000] [--group O] [--dtype float32]

The backbone knows neither permutations nor rotations. The clouds are those of the tests.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

import minframe as mf

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from clouds import all_clouds
from test_products import lopsided

BOUNDS = {"float64": 1e-11, "float32": 1e-5}
PORTION = 100  # elements at a time


def worst(group: mf.Group, x: torch.Tensor, elements: int) -> float:
    model = mf.Equivariant(lopsided, group)
    generator = torch.Generator().manual_seed(0)
    errors = [
        mf.testing.equivariance_error(model, group, x.expand(PORTION, *x.shape), elements=1, generator=generator).max()
        for _ in range(-(-elements // PORTION))
    ]
    return float(torch.stack(errors).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=1000)
    parser.add_argument("--group", choices=["O", "SO", "E", "SE"], action="append")
    parser.add_argument("--dtype", choices=list(BOUNDS), action="append")
    parser.add_argument("--points", type=int, default=70, help="leave larger clouds out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"Worst relative error over {options.elements} random elements")
    for name, cloud in all_clouds().items():
        if cloud.shape[-1] != 3 or len(cloud) > options.points:
            continue
        for dtype in options.dtype or BOUNDS:
            row = []
            for kind in options.group or ["O", "SO", "E", "SE"]:
                error = worst(mf.S() * getattr(mf, kind)(3), cloud.to(getattr(torch, dtype)), options.elements)
                row.append(f"{kind} {error:.1e}{' OVER' if not error <= BOUNDS[dtype] else ''}")
            print(f"  {name:28}{dtype:9}{'  '.join(row)}", flush=True)


if __name__ == "__main__":
    main()
