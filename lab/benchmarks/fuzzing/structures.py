"""What the fuzzer draws: batches of clouds ``(b, n, d)`` between the named families, by structure and level.

A structure is a function of the space (dimension, signature, real or complex), a *level* and a generator of random
numbers. The level says how far from degenerate the clouds are, mostly as ``10^-k``; it is the unit in which shares of
wrong samples are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fuzzing.solids import solids

NOISE = tuple(range(1, 17))
OPENINGS = tuple(range(10))


@dataclass(frozen=True)
class Space:
    """Where rows live: ``p`` signs + and ``q`` signs - of the form; ``q = 0`` for all but the indefinite groups."""

    d: int
    p: int
    q: int
    complex: bool

    @property
    def dtype(self) -> torch.dtype:
        return torch.complex128 if self.complex else torch.float64


@dataclass(frozen=True)
class Structure:
    draw: Callable[[Space, int, int, Generator], Tensor]
    levels: tuple[int, ...]
    fits: Callable[[Space], bool] = lambda space: True


STRUCTURES: dict[str, Structure] = {}


def structure(
    levels: tuple[int, ...], fits: Callable[[Space], bool] = lambda space: True
) -> Callable[[Callable[[Space, int, int, Generator], Tensor]], Callable[[Space, int, int, Generator], Tensor]]:
    def register(draw: Callable[[Space, int, int, Generator], Tensor]) -> Callable[..., Tensor]:
        STRUCTURES[draw.__name__.replace("_", "-")] = Structure(draw, levels, fits)
        return draw

    return register


def randn(space: Space, *shape: int, generator: Generator) -> Tensor:
    return torch.randn(*shape, dtype=space.dtype, generator=generator)


def integer(low: int, high: int, generator: Generator) -> int:
    """From ``low`` to ``high``, both possible."""
    return int(torch.randint(low, high + 1, (), generator=generator))


def coin(generator: Generator) -> bool:
    return bool(torch.rand((), generator=generator) < 0.5)


def rotated(x: Tensor, generator: Generator) -> Tensor:
    """In half of the batches as it is, axes and all; in the others turned at random, each batch its own way."""
    if coin(generator):
        return x
    d = x.shape[-1]
    return x @ torch.linalg.qr(torch.randn(d, d, dtype=x.dtype, generator=generator)).Q


def count(space: Space, generator: Generator) -> int:
    return integer(space.d, 2 * space.d + 6, generator)


# Symmetric clouds with noise: one structure for each solid. The names are those of all dimensions.


def _solid(name: str) -> Structure:
    def draw(space: Space, b: int, level: int, generator: Generator) -> Tensor:
        base = solids(space.d)[name].to(space.dtype)
        if space.complex and coin(generator):
            base = base * torch.tensor([1, 1j, -1, -1j], dtype=base.dtype)[torch.arange(len(base)) % 4, None]
        x = rotated(base, generator)
        return x + 10.0**-level * randn(space, b, *x.shape, generator=generator)

    return Structure(draw, (*NOISE, 99), lambda space: name in solids(space.d))


for _name in {**solids(3), **solids(2)}:
    STRUCTURES[_name.replace(" ", "-")] = _solid(_name)


def _event(name: str) -> Structure:
    """Momenta at the corners of a solid, massive or massless, energies recomputed after the noise."""

    def draw(space: Space, b: int, level: int, generator: Generator) -> Tensor:
        base = rotated(solids(space.q)[name], generator)
        momenta = base + 10.0**-level * torch.randn(b, *base.shape, dtype=base.dtype, generator=generator)
        return on_shell(momenta, 0.0 if coin(generator) else 1.0)

    return Structure(draw, (*NOISE, 99), lambda space: has_energy(space) and name in solids(space.q))


def on_shell(momenta: Tensor, mass: float | Tensor) -> Tensor:
    energy = (momenta.square().sum(-1, keepdim=True) + torch.as_tensor(mass, dtype=momenta.dtype).square()).sqrt()
    return torch.cat([energy, momenta], -1)


for _name in ("simplex", "cross", "ring", "icosahedron", "methane"):
    STRUCTURES[f"event-{_name}"] = _event(_name)


# Clouds that are almost degenerate


@structure((0,))
def generic(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    return randn(space, b, count(space, generator), space.d, generator=generator)


@structure(NOISE, lambda space: space.d > 1)
def near_deficient(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Near a subspace of dimension 0 (coincident), 1 (collinear), 2 (planar) and so on, through the origin or not."""
    rank, n = integer(0, space.d - 1, generator), count(space, generator)
    flat = randn(space, b, n, rank, generator=generator) @ torch.eye(rank, space.d, dtype=space.dtype)
    if coin(generator):
        flat = flat + randn(space, b, 1, space.d, generator=generator)
    return rotated(flat + 10.0**-level * randn(space, b, n, space.d, generator=generator), generator)


@structure(NOISE)
def near_coincident(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    centre = randn(space, b, 1, space.d, generator=generator)
    return centre + 10.0**-level * randn(space, b, count(space, generator), space.d, generator=generator)


@structure(NOISE)
def duplicated(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Every row twice, or some, up to noise."""
    x = randn(space, b, count(space, generator), space.d, generator=generator)
    again = x if coin(generator) else x[:, : integer(1, 3, generator)]
    return torch.cat([x, again + 10.0**-level * randn(space, *again.shape, generator=generator)], 1)


@structure(NOISE)
def shell(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Rows of the same length up to noise."""
    x = randn(space, b, count(space, generator), space.d, generator=generator)
    length = 1 + 10.0**-level * torch.randn(*x.shape[:2], 1, dtype=torch.float64, generator=generator)
    return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-3) * length


@structure(NOISE)
def equal_singular_values(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    x = torch.linalg.qr(randn(space, b, space.d + integer(0, 6, generator), space.d, generator=generator)).Q
    return x + 10.0**-level * randn(space, *x.shape, generator=generator)


@structure(NOISE)
def mirrored(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Generic rows and their images under ``-1``, or in the last axis."""
    x = randn(space, b, count(space, generator) // 2 + 1, space.d, generator=generator)
    sign = torch.ones(space.d, dtype=space.dtype)
    sign[0 if coin(generator) else slice(None)] = -1
    pair = torch.cat([x, x * sign], 1)
    return rotated(pair + 10.0**-level * randn(space, *pair.shape, generator=generator), generator)


@structure(NOISE)
def specks(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Some rows at the origin up to noise; sometimes all but one."""
    x = randn(space, b, count(space, generator), space.d, generator=generator)
    kept = 1 if coin(generator) else x.shape[1] // 2
    noise = 10.0**-level * randn(space, b, x.shape[1] - kept, space.d, generator=generator)
    return torch.cat([noise, x[:, :kept]], 1)


# Small numbers, large numbers


@structure((1, 2, 4, 10))
def integers(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Small integers, halves, or tenths: any rational threshold is hit."""
    shape, unit = (b, integer(1, 6, generator), space.d), (1.0, 0.5, 0.1)[integer(0, 2, generator)]
    x = torch.randint(-level, level + 1, shape, generator=generator).to(space.dtype)
    if space.complex:
        x = x + 1j * torch.randint(-level, level + 1, shape, generator=generator)
    return x * unit


@structure((2, 4, 8))
def mixed_scales(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Rows of sizes from ``10^-level`` to ``10^level``."""
    x = randn(space, b, count(space, generator), space.d, generator=generator)
    return x * 10.0 ** (level * (2 * torch.rand(*x.shape[:2], 1, dtype=torch.float64, generator=generator) - 1))


@structure(tuple(range(1, 9)))
def far(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """A cloud ``10^level`` times its size away from the origin."""
    x = randn(space, b, count(space, generator), space.d, generator=generator)
    return x + 10.0**level * randn(space, b, 1, space.d, generator=generator)


@structure((0,))
def one_row(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    x = randn(space, b, 1, space.d, generator=generator)
    return x if coin(generator) else (3 * x.real).round().to(space.dtype)


@structure((0,), lambda space: space.d > 1)
def few_rows(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    return randn(space, b, integer(1, space.d - 1, generator), space.d, generator=generator)


# Of indefinite forms


def has_energy(space: Space) -> bool:
    return space.p == 1 and space.q >= 1 and not space.complex


@structure(NOISE, lambda space: space.p > 0 < space.q)
def near_null(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Rows whose two parts are of one length, up to noise."""
    x = randn(space, b, integer(1, 8, generator), space.d, generator=generator)
    a, c = x[..., : space.p], x[..., space.p :]
    length = 1 + 10.0**-level * torch.randn(*x.shape[:2], 1, dtype=torch.float64, generator=generator)
    return torch.cat([a / a.norm(dim=-1, keepdim=True) * c.norm(dim=-1, keepdim=True) * length, c], -1)


def collimated(space: Space, b: int, n: int, opening: float, generator: Generator) -> Tensor:
    """Momenta ``(b, n, q)`` within an angle of an axis, over ``decades`` of energy."""
    axis = torch.randn(b, 1, space.q, dtype=torch.float64, generator=generator)
    axis = axis / axis.norm(dim=-1, keepdim=True)
    aside = torch.randn(b, n, space.q, dtype=torch.float64, generator=generator)
    direction = axis + opening * aside
    decades = (0, 2, 6)[integer(0, 2, generator)]
    size = 10.0 ** (decades * torch.rand(b, n, 1, dtype=torch.float64, generator=generator))
    return direction / direction.norm(dim=-1, keepdim=True) * size


def particles(generator: Generator) -> int:
    return (2, 3, 8, 30, 200)[integer(0, 4, generator)] if coin(generator) else integer(2, 8, generator)


@structure(OPENINGS, lambda space: has_energy(space) and space.q > 1)
def jet(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Massless particles of opening ``10^-level``."""
    n = particles(generator)
    return on_shell(collimated(space, b if n < 30 else b // 8 + 1, n, 10.0**-level, generator), 0.0)


@structure(OPENINGS, has_energy)
def mixed_jet(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Massive and massless particles of opening ``10^-level``, masses about ``10^-level`` of the energy or less."""
    n = particles(generator)
    momenta = collimated(space, b if n < 30 else b // 8 + 1, n, 10.0**-level, generator)
    mass = 10.0**-level * torch.rand(*momenta.shape[:2], 1, dtype=torch.float64, generator=generator)
    massive = torch.rand(mass.shape, generator=generator) < 0.5
    return on_shell(momenta, mass * massive * momenta.norm(dim=-1, keepdim=True))


@structure((1, 2, 3, 4, 5, 6), has_energy)
def light_particle(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """One particle, or two of one direction, of a mass of about ``10^-level`` of its energy."""
    momenta = collimated(space, b, 1, 1.0, generator)
    mass = 10.0**-level * (0.5 + torch.rand(b, 1, 1, dtype=torch.float64, generator=generator))
    x = on_shell(momenta, mass * momenta.norm(dim=-1, keepdim=True))
    return x if coin(generator) else torch.cat([x, 0.5 * x], 1)


@structure((0,), has_energy)
def collinear_massless(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Exactly so, but for rounding: one massless particle, or several of one direction."""
    one = on_shell(collimated(space, b, 1, 1.0, generator), 0.0)
    return one * (0.1 + torch.rand(b, integer(1, 5, generator), 1, dtype=torch.float64, generator=generator))


# Graphs, as adjacency matrices ``(b, n, n)``; ``level`` chooses the kind

GRAPHS: dict[str, Structure] = {}


def _random_graph(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    n, density = integer(1, 10, generator), (0.1, 0.3, 0.5, 0.9)[integer(0, 3, generator)]
    a = (torch.rand(b, n, n, generator=generator) < density).double()
    a = a * torch.randint(1, level + 1, (b, n, n), generator=generator)
    return a if coin(generator) else a.triu() + a.triu(1).mT


def _cycles(space: Space, b: int, level: int, generator: Generator) -> Tensor:
    """Cycles of lengths that add up to ``n``, with weights that are equal up to noise."""
    lengths = [integer(3, 6, generator) for _ in range(integer(1, 3, generator))]
    a = torch.block_diag(*(torch.eye(k, dtype=torch.float64).roll(1, 0) for k in lengths))
    a = (a + a.mT).expand(b, *a.shape)
    noise = 10.0**-level * torch.randn(a.shape, dtype=torch.float64, generator=generator)
    return a * (1 + noise.triu() + noise.triu(1).mT)


GRAPHS["random-graph"] = Structure(_random_graph, (1, 2, 4))
GRAPHS["cycles"] = Structure(_cycles, (*NOISE, 99))
