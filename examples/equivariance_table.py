"""The equivariance error of every group on every kind of cloud, with and without a minimal frame.

python examples/equivariance_table.py
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import minframe as mf
from minframe.testing import DEGENERATIONS, equivariance_error, particles, polytopes

ELEMENTS = 1000
BOUND = {torch.float64: 1e-11, torch.float32: 1e-5}
GROUPS = (mf.Translation(3), mf.O(3), mf.SO(3), mf.E(3), mf.SE(3))
LINEAR = (
    *(mf.O(2, 1), mf.SO(2, 2), mf.Lorentz(4), mf.ProperLorentz(4), mf.OrthochronousLorentz(4), mf.Poincare(4)),
    *(mf.U(3), mf.SU(3), mf.U(2, 1), mf.SU(2, 2)),
    *(mf.GL(3), mf.SL(2), mf.SL(3), mf.Aff(3), mf.GL(3, complex=True), mf.SL(3, complex=True), mf.Aff(2, complex=True)),
)


def clouds() -> dict[str, torch.Tensor]:
    generic = torch.randn(12, 3, dtype=torch.float64)
    named = {name: change(generic) for name, change in DEGENERATIONS.items()}
    return named | {"one point": generic[:1], "two points": generic[:2]} | polytopes(3)


def rough(x: torch.Tensor) -> torch.Tensor:
    """A backbone without any symmetry, real or complex."""
    d = x.shape[-1]
    weight = torch.linspace(-1.3, 1.1, d * d, dtype=x.real.dtype).view(d, d).sin().to(x.dtype)
    return x @ weight - 0.3 * x.abs().roll(1, -1) + 0.2 * x.roll(1, -2)


def linear_groups() -> int:
    """One row per group: the worst over planar, collinear, coincident, ... clouds, and jets for the Lorentz groups."""
    print(f"\nAll linear groups, the worst of these clouds but outliers, {ELEMENTS:,} elements, boosts included\n")
    print(f"{'group':26s}{'float64, bound 1e-10':>22s}{'float32, bound 1e-5':>22s}{'without frames':>18s}")
    failures = 0
    for group in LINEAR:
        number = torch.complex128 if group.complex else torch.float64
        weights = torch.linspace(1.7, 1.0, group.d, dtype=torch.float64)  # so that no plane is null by accident
        generic = torch.randn(12, group.d, dtype=number, generator=torch.Generator().manual_seed(group.d + 90))
        families = {name: change(generic) for name, change in DEGENERATIONS.items() if name != "one far outlier"}
        families |= {"one point": generic[:1], "two points": generic[:2]}
        families = {name: x * weights for name, x in families.items()}
        if group.d == 4 and not group.complex and not isinstance(group, mf.Poincare):
            families |= {name: x for name, x in particles().items() if "massless event" in name or "null" in name}
        cells = ""
        for dtype, bound in ((number, 1e-10), (torch.complex64 if group.complex else torch.float32, 1e-5)):
            model = mf.Equivariant(rough, group)
            clouds = [x.to(dtype).expand(ELEMENTS, *x.shape) for x in families.values()]
            error = max(float(equivariance_error(model, group, x, elements=1).max()) for x in clouds)
            failures += not error <= bound
            cells += f"{error:22.1e}" if error <= bound else f"{f'{error:.1e} FAIL':>22s}"
        plain = float(equivariance_error(rough, group, generic.expand(ELEMENTS, *generic.shape), elements=1).max())
        print(f"{group!s:26s}{cells}{plain:18.1e}")
    return failures


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
    failures += linear_groups()
    print(f"\n{'all within the bound' if not failures else f'{failures} above the bound'}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
