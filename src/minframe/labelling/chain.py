"""Groups of permutations of any size, from generators: a chain of stabilisers (Schreier and Sims).

Choose points ``b_1, ..., b_k``, the *base*, such that only the identity fixes all of them, and let ``G_i`` be the
subgroup that fixes ``b_1, ..., b_{i-1}``; ``G_1 = G`` and ``G_{k+1}`` is trivial. A *transversal* ``T_i`` holds, for
each point of the orbit of ``b_i`` under ``G_i``, one element of ``G_i`` that takes ``b_i`` there. It has one element of
each coset of ``G_{i+1}`` in ``G_i``, so every g is a product in exactly one way:

    g = t_1 t_2 ... t_k,   t_i in T_i.

Hence ``|G| = |T_1| ... |T_k|``, uniform random elements are products of uniform ``t_i``, g is in the group if it can be
divided by one ``t_i`` after the other until nothing is left (*sifting*), and for a linear action

    mean over G of g . y  =  mean over T_1 of t_1 . (mean over T_2 of t_2 . (... y)),

a sum over ``|T_1| + ... + |T_k|`` terms, at most n (n + 1) / 2, where the group may have n! elements.

**Construction.** Random products of the generators are sifted. If an element does not sift to the identity, its residue
is a new generator of the ``G_i`` at which sifting stopped. After some twenty elements without a residue the chain is
very likely complete. This is then **proved**. The product of the orbits' lengths never exceeds the size of the group,
so nothing is missing if it reaches that size, where the caller knows it. Otherwise

* the levels from some ``i`` on are complete if their product reaches the number of all permutations that respect the
  orbits of the generators of ``G_i``, which is often so for the symmetric groups within larger ones;
* generators that fall apart into sets which move disjoint points generate a direct product, whose chain is those of its
  factors put together;
* a level above complete ones is complete if these express all of Schreier's generators ``t_{s(p)}^-1 s t_p`` (``p`` in
  the orbit, ``s`` a generator of ``G_i``), as they generate the stabiliser of ``b_i`` (Schreier's lemma). They are
  sifted all at once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from minframe.labelling import orbits as _orbits

Permutation = tuple[int, ...]
MAX_IDLE_DRAWS = 20  # consecutive random elements that add nothing, before completeness is proved
MAX_SIFTED_NUMEL = 1 << 22  # entries of the permutations that are sifted at once


def compose(g: Permutation, h: Permutation) -> Permutation:
    """The permutation that applies ``h`` first and then ``g``."""
    return tuple(map(g.__getitem__, h))


def inverse(g: Permutation) -> Permutation:
    """The permutation that undoes ``g``."""
    result = [0] * len(g)
    for i, image in enumerate(g):
        result[image] = i
    return tuple(result)


def _factors(generators: Iterable[Permutation]) -> list[tuple[set[int], list[Permutation]]]:
    """The generators in sets that move disjoint points, with these points."""
    found: list[tuple[set[int], list[Permutation]]] = []
    for g in generators:
        moved, mine = {i for i, image in enumerate(g) if image != i}, [g]
        apart = []
        for points, others in found:
            if points & moved:
                moved, mine = moved | points, others + mine
            else:
                apart.append((points, others))
        found = [*apart, (moved, mine)]
    return found


@dataclass(slots=True)
class _Level:
    """A base point, generators of the group there, and its transversal with the inverse of each element."""

    point: int
    generators: list[Permutation]
    transversal: dict[int, Permutation] = field(default_factory=dict)
    inverses: dict[int, Permutation] = field(default_factory=dict)

    def start(self, n: int) -> None:
        """Start the transversal with the identity."""
        self.transversal[self.point] = self.inverses[self.point] = tuple(range(n))

    def extend(self, new: Iterable[Permutation]) -> None:
        """Add generators and complete the orbit."""
        new = list(new)
        self.generators += new
        if not self.transversal:
            self.start(len(self.generators[0]))
        # Known points need the new generators only.
        queue = [(p, new) for p in self.transversal]
        for p, generators in queue:
            for s in generators:
                image = s[p]
                if image not in self.transversal:
                    t = compose(s, self.transversal[p])
                    self.transversal[image], self.inverses[image] = t, inverse(t)
                    queue.append((image, self.generators))

    def table(self) -> tuple[Tensor, Tensor]:
        """The position of each point in the orbit, or -1; and the inverse transversal in the same order."""
        place = torch.full((len(self.inverses[self.point]),), -1)
        place[list(self.inverses)] = torch.arange(len(self.inverses))
        return place, torch.tensor(list(self.inverses.values()))


class _Random:
    """Random elements of a group by product replacement, with an accumulator (rattle)."""

    def __init__(self, generators: Sequence[Permutation], seed: int) -> None:
        self._random = random.Random(seed)
        self._pool = [generators[i % len(generators)] for i in range(max(10, len(generators) + 1))]
        self._product = self._pool[0]
        for _ in range(5 * len(self._pool)):
            self.next()

    def next(self) -> Permutation:
        i, j = self._random.sample(range(len(self._pool)), 2)
        other = self._pool[j] if self._random.random() < 0.5 else inverse(self._pool[j])
        left = self._random.random() < 0.5
        self._pool[i] = compose(other, self._pool[i]) if left else compose(self._pool[i], other)
        self._product = compose(self._product, self._pool[i])
        return self._product


class StabiliserChain:
    """The group generated by permutations of ``n`` points; a permutation ``g`` takes ``i`` to ``g[i]``.

    Args:
        generators: ``(k, n)``, or a sequence of sequences.
        n: number of points.
        order: the size of the group, if the caller knows it with certainty; no proof is then needed.
        base: points that the base begins with; by default it is chosen from the generators.

    Attributes:
        degree: ``n``.
        generators: as given, without the identity.
    """

    def __init__(
        self,
        generators: Tensor | Iterable[Sequence[int]],
        n: int,
        order: int | None = None,
        base: Sequence[int] = (),
    ) -> None:
        rows = generators.tolist() if isinstance(generators, Tensor) else generators
        self.degree = n
        self._identity = tuple(range(n))
        self.generators = [g for g in dict.fromkeys(tuple(row) for row in rows) if g != self._identity]
        for g in self.generators:
            if sorted(g) != list(self._identity):
                raise ValueError(f"generators must be permutations of 0, ..., {n - 1}, got {g}")
        self._levels: list[_Level] = []
        factors = _factors(self.generators)
        if len(factors) > 1 and order is None:
            self._levels = self._product(factors, base)
        elif self.generators:
            self._build(order, base)

    def __repr__(self) -> str:
        return f"StabiliserChain(degree={self.degree}, order={self.order})"

    @property
    def order(self) -> int:
        """Number of elements, exact."""
        return math.prod(len(level.transversal) for level in self._levels)

    @property
    def base(self) -> list[int]:
        """Points that only the identity leaves all in place."""
        return [level.point for level in self._levels]

    @property
    def transversals(self) -> list[list[Permutation]]:
        """``T_1, ..., T_k``."""
        return [list(level.transversal.values()) for level in self._levels]

    def orbits(self) -> Tensor:
        """For each point the smallest of its orbit, ``(n,)``."""
        return _orbits.orbits(self._matrix(), torch.zeros(len(self.generators), dtype=torch.int64), 1)[0]

    def orbitals(self) -> Tensor:
        """For each ordered pair the smallest ``i * n + j`` of its orbit, ``(n, n)``."""
        return _orbits.orbitals(self._matrix(), torch.zeros(len(self.generators), dtype=torch.int64), 1)[0]

    def _matrix(self) -> Tensor:
        return torch.tensor(self.generators, dtype=torch.int64).view(-1, self.degree)

    def __contains__(self, g: Sequence[int] | Tensor) -> bool:
        row = tuple(g.tolist() if isinstance(g, Tensor) else g)
        return sorted(row) == list(self._identity) and self._sift(row)[1] == self._identity

    def random(self, generator: torch.Generator | None = None) -> Tensor:
        """A uniform random element, ``(n,)``."""
        g = self._identity
        for transversal in self.transversals:
            g = compose(g, transversal[int(torch.randint(len(transversal), (), generator=generator))])
        return torch.tensor(g, dtype=torch.int64)

    def elements(self) -> Iterator[Permutation]:
        """All elements, the identity first."""
        yield from self._products(self.transversals)

    def _products(self, transversals: list[list[Permutation]]) -> Iterator[Permutation]:
        if not transversals:
            yield self._identity
            return
        for t in transversals[0]:
            for g in self._products(transversals[1:]):
                yield compose(t, g)

    def average(self, apply: Callable[[Tensor, Tensor], Tensor], y: Tensor) -> Tensor:
        """The mean of ``apply(g, y)`` over the group, exact, with one call for each element of each transversal.

        ``apply`` takes a permutation ``(n,)`` and is a linear action, ``apply(g h, y) = apply(g, apply(h, y))``.
        """
        for transversal in reversed(self.transversals):
            terms = torch.tensor(transversal, dtype=torch.int64, device=y.device)
            y = sum((apply(g, y) for g in terms[1:]), apply(terms[0], y)) / len(terms)
        return y

    def _sift(self, g: Permutation, start: int = 0) -> tuple[int, Permutation]:
        """The level at which sifting ``g`` stopped, and its residue there."""
        for i, level in enumerate(self._levels[start:], start):
            divisor = level.inverses.get(g[level.point])
            if divisor is None:
                return i, g
            g = compose(divisor, g)
        return len(self._levels), g

    def _add(self, g: Permutation, stuck: int) -> None:
        """Add ``g`` as a generator of all groups below the first, down to the level where sifting stopped."""
        if stuck == len(self._levels):
            point = next(i for i, image in enumerate(g) if image != i)
            self._levels.append(_Level(point, []))
        for level in self._levels[1 : stuck + 1]:
            level.extend([g])

    def _product(self, factors: list[tuple[set[int], list[Permutation]]], base: Sequence[int]) -> list[_Level]:
        """The levels of a direct product: at each base point those of the factor that moves it."""
        levels: dict[int, _Level] = {}
        for moved, generators in factors:
            chain = StabiliserChain(generators, self.degree, base=[point for point in base if point in moved])
            levels |= {level.point: level for level in chain._levels}
        for point in set(base) - set(levels):
            levels[point] = _Level(point, [])
            levels[point].start(self.degree)
        return [levels[point] for point in [*base, *(point for point in levels if point not in base)]]

    def _build(self, order: int | None, base: Sequence[int]) -> None:
        first = next(i for i, image in enumerate(self.generators[0]) if image != i)
        self._levels += [_Level(point, []) for point in base or [first]]
        for level in self._levels:
            level.start(self.degree)
        self._levels[0].extend(self.generators)
        source = _Random(self.generators, seed=0)
        calm = 0
        while self.order != order:
            if calm < MAX_IDLE_DRAWS:
                stuck, g = self._sift(source.next())
            else:
                missing = self._missing()
                if missing is None:
                    break
                stuck, g = missing
            calm = calm + 1 if g == self._identity else 0
            if g != self._identity:
                self._add(g, stuck)

    def _missing(self) -> tuple[int, Permutation] | None:
        """The residue of an element that the chain lacks, with its level; ``None`` if the chain is proved complete."""
        tables = [level.table() for level in self._levels]
        found, complete = 1, len(self._levels)
        for i in reversed(range(len(self._levels))):
            found *= len(self._levels[i].transversal)
            if found == self._bound(self._levels[i].generators):
                complete = i
        for i in reversed(range(complete)):
            level = self._levels[i]
            transversal = torch.tensor(list(level.transversal.values()))
            place, inverses = tables[i]
            points = torch.tensor(list(level.transversal))
            generators = torch.tensor(level.generators, dtype=torch.int64).view(-1, self.degree)
            for part in torch.split(generators, max(1, MAX_SIFTED_NUMEL // transversal.numel())):
                images = part[:, points]  # (generators, orbit)
                moved = part[:, transversal]  # s t_p
                schreier = inverses[place[images]].gather(-1, moved).view(-1, self.degree)
                left = self._sift_all(schreier, tables[i + 1 :])
                if left.shape[0]:
                    return self._sift(tuple(left[0].tolist()), i + 1)
        return None

    def _bound(self, generators: list[Permutation]) -> int:
        matrix = torch.tensor(generators, dtype=torch.int64).view(-1, self.degree)
        numbers = _orbits.orbits(matrix, torch.zeros(len(generators), dtype=torch.int64), 1)[0]
        return math.prod(math.factorial(size) for size in torch.bincount(numbers).tolist())

    def _sift_all(self, g: Tensor, tables: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The rows of ``g`` ``(k, n)`` that levels with these tables cannot express."""
        whole, rest = g, torch.arange(g.shape[0])
        lost = [rest[:0]]
        for level, (place, inverses) in zip(self._levels[len(self._levels) - len(tables) :], tables, strict=True):
            where = place[g[:, level.point]]
            stuck = where < 0
            if bool(stuck.any()):
                lost.append(rest[stuck])
                g, rest, where = g[~stuck], rest[~stuck], where[~stuck]
            g = inverses[where].gather(-1, g)
        lost.append(rest[(g != torch.arange(self.degree)).any(-1)])
        return whole[torch.cat(lost)]
