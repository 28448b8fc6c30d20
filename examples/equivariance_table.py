"""The equivariance error of every group on every kind of cloud, with and without a minimal frame.

python examples/equivariance_table.py
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import minframe as mf
from minframe.testing import DEGENERATIONS, equivariance_error, polytopes

ELEMENTS = 1000
BOUND = {torch.float64: 1e-11, torch.float32: 1e-5}
GROUPS = (mf.Translation(3), mf.O(3), mf.SO(3), mf.E(3), mf.SE(3))


def clouds() -> dict[str, torch.Tensor]:
    generic = torch.randn(12, 3, dtype=torch.float64)
    named = {name: change(generic) for name, change in DEGENERATIONS.items()}
    return named | {"one point": generic[:1], "two points": generic[:2]} | polytopes(3)


def main() -> int:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 3)).double().requires_grad_(False)
    print(f"Relative equivariance error of a small MLP, the worst of {ELEMENTS:,} random group elements.")
    failures = 0
    for dtype, bound in BOUND.items():
        print(f"\n{str(dtype).removeprefix('torch.')}, bound {bound:g}\n")
        print(f"{'cloud':30s}" + "".join(f"{group!s:>16s}" for group in GROUPS) + f"{'plain net, E(3)':>18s}")
        for name, cloud in clouds().items():
            x = cloud.to(dtype).expand(ELEMENTS, *cloud.shape)
            net = net.to(dtype)
            errors = [float(equivariance_error(mf.Equivariant(net, g), g, x, elements=1).max()) for g in GROUPS]
            plain = float(equivariance_error(net, mf.E(3), x, elements=1).max())
            failures += sum(not error <= bound for error in errors)
            cells = "".join(f"{error:16.1e}" if error <= bound else f"{f'{error:.1e} FAIL':>16s}" for error in errors)
            print(f"{name:30s}{cells}{plain:18.1e}")
    print(f"\n{'all within the bound' if not failures else f'{failures} above the bound'}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
