"""How many clouds of a structure rounding may decide about: the share of decisions that stand within it.

Something is decided by differences between rows. If these are of the size ``s``, and nothing singles out the places
where a decision flips, the share of decisions within one unit of rounding is ``eps / s``. Pairs of rows are compared,
of ``n`` from d to ``2 d + 6`` rows about ``(d + 3)^2``, by their lengths to begin with. These have a spread of ``1 /
sqrt(2 d)``, so that ``sqrt(d / 2 pi)`` of the pairs differ by less than a unit, for each unit. Thresholds stand at
``PROPOSED_UNITS`` of rounding (``frame.point_set``), of which an observer elsewhere has more: clouds are moved by about
their distance from the origin in each coordinate, and have then ``FARTHER`` times as much. These are 270 decisions in 3
dimensions, 3,400 in 12, and less than half of it where nothing is translated. An element of condition c changes
the rounding of white rows by up to c, and by its root in the mean. Of clouds with noise
``10^-k``, or at a distance of ``10^k``, the size is ``10^-k`` at the least. It is the square of that for null rows,
whose squares are what counts, and for scales from ``10^-k`` to ``10^k``.
Structures without noise, and exactly symmetric ones, have differences of size one or none: there the share is rounding,
and ``MAX_SHARE`` is the bound. Integers are among them: a threshold at a rational number is seen.

Noise that is well below what the library calls equal, ``eps^(3/4)``, decides nothing: symmetric clouds and duplicated
rows are then exactly so, and the share is that of clouds without noise.

A term of a direct sum may have nothing but that noise, as behind a flat solid. At the origin it is a cloud of its own
size, with differences of that size, and where it is translated, a point. So there nothing is asked.

Elements of GL change how thin a cloud is, and whether it is flat is measured against rounding (``linalg/whiten.py``),
which they leave as it is. So of clouds whose thickness is within ``REACH`` of that nothing is asked but that rounding
within the margin moves the answer as well.

For an indefinite form thickness is the root of an eigenvalue, which is invariant; it is compared with a constant
(``linalg/eigen.py``), and rounding of what was boosted decides about clouds near that. The thickness of clouds with
noise ``10^-k`` is spread evenly down to zero, as that of any number with a sign: a share of ``t 10^k`` of them is below
t. Of those within ``SPREAD`` of the threshold nothing is asked.

Whether rows are null is decided by the form: of near-null rows by ``10^-k``, and of particles by the squares of masses
and openings, ``10^-2k``. It is compared with the rounding that counts as null, which is ``MOVED`` units in double
precision (``fuzzing/condition.py``) and which boosts carry them across: a rapidity r changes ``M^2 / E^2`` by up to
``e^2r``, and typical clouds of a level differ by some ten. A hard particle without mass and a soft one, of the energies
E and e, have ``M^2 / E^2 = 10^-2k e / E``: of ``e / E``, drawn evenly from ``DECADES``, those count for which that is
within reach.
"""

from __future__ import annotations

import math

from fuzzing.cases import CASES, MAX_CONDITION, MAX_RAPIDITY, Block
from fuzzing.condition import MOVED
from fuzzing.solids import solids
from fuzzing.trial import EPS, Key

FARTHER = 2.2  # times: how far from the origin a cloud is after a translation, root mean square in 12 dimensions
PROPOSED_UNITS = 5.0  # of rounding, at which thresholds stand that compare pairs of rows
MAX_SHARE = 1e-3
RANK_UNITS = 16.0  # of rounding, that an axis has to stand out by under a general linear group
REACH = 30.0  # the condition numbers of elements, and what a thickness differs by from that of a typical cloud
SPREAD = 10.0  # times: what the thickness of clouds differs by from its threshold where rounding after a boost decides
MIN_THICKNESS = 1e-11  # of ``linalg.eigen``, in double precision
BOOST_REACH = {dtype: 10 * math.exp(2 * rapidity) for dtype, rapidity in MAX_RAPIDITY.items()}
DECADES = 6  # of energy, in jets
EXACT = 99  # the level without noise
BELOW_EQUAL = 10.0  # times: noise smaller than what is equal by this is none
EQUAL_UP_TO_NOISE = (*solids(3), *solids(2), "duplicated", "mirrored", "shell", "equal-singular-values")
PARTICLES = ("jet", "mixed-jet", "light-particle")
NULL = ("near-null", *PARTICLES)  # structures of which rows, or their sum, are null up to noise
WITHOUT_NOISE = ("integers", "random-graph")  # whose levels are something else


def allowed(key: Key) -> float:
    """The share of the clouds of a batch that may be on the edge."""
    if key.structure in WITHOUT_NOISE or key.level == EXACT:
        return MAX_SHARE
    blocks = CASES[key.group].blocks
    flat = key.structure in (*solids(3), *solids(2)) and 10.0**-key.level < REACH * EPS[key.dtype]
    if flat and len(blocks) > 1 and any(block.affine for block in blocks):
        return 1.0
    return min(1.0, MAX_SHARE + sum(_decided(key, block) for block in blocks))


def _decided(key: Key, block: Block) -> float:
    """The share that rounding decides in one term of a direct sum."""
    eps, noise = EPS[key.dtype], 10.0**-key.level
    if block.q:
        thickness = noise / max(eps**0.75, MIN_THICKNESS)
        about = min(1.0, SPREAD / thickness) if thickness > 1 / REACH else 0.0
        if max(about, near_null := _near_null(key)) == 1:
            return 1.0
    elif not block.compact and 1 / REACH < noise / (RANK_UNITS * eps) < REACH:
        return 1.0
    else:
        about = near_null = 0.0
    boost = math.exp(MAX_RAPIDITY[key.dtype]) if block.q else 1.0
    if (block.compact or block.q) and key.structure in EQUAL_UP_TO_NOISE and noise * BELOW_EQUAL * boost < eps**0.75:
        return 0.0
    power = 2 if (block.q and key.structure in NULL) or key.structure == "mixed-scales" else 1
    pairs = (block.d + 3) ** 2 * math.sqrt(block.d / (2 * math.pi))
    decisions = pairs * PROPOSED_UNITS * (FARTHER if block.affine else 1.0)
    decisions = decisions if block.compact else decisions * math.sqrt(MAX_CONDITION)
    return about + near_null + decisions * eps / noise**power


def _near_null(key: Key) -> float:
    """The share of clouds of which a form is within reach of the rounding that counts as null."""
    if key.structure not in NULL:
        return 0.0
    null, reach = EPS[key.dtype] * (MOVED if key.dtype == "float64" else 1.0), math.log10(BOOST_REACH[key.dtype])
    squares = 1 if key.structure == "near-null" else 2
    largest = -squares * key.level - math.log10(null)  # over what is null, as a power of ten
    if abs(largest) < reach:
        return 1.0
    if key.structure in ("near-null", "light-particle"):
        return 0.0
    return max(0.0, min(largest, reach) - max(largest - DECADES, -reach)) / DECADES
