"""How many clouds of a structure rounding may decide about: the share of decisions that stand within it.

Something is decided by differences between rows. If these are of the size ``s``, and nothing singles out the places
where a decision flips, the share of decisions within one unit of rounding is ``eps / s``; a cloud of some ten rows
takes some ``DECISIONS``. Of clouds with noise ``10^-k``, or at a distance of ``10^k``, the size is ``10^-k`` at the
least. It is the square of that for an indefinite form, whose squares are what counts, and for scales from ``10^-k`` to
``10^k``.
Structures without noise, and exactly symmetric ones, have differences of size one or none: there the share is rounding,
and ``MAX_SHARE`` is the bound. Integers are among them: a threshold at a rational number is seen.

Elements of GL change how thin a cloud is, and whether it is flat is measured against rounding (``eps^(3/4)``), which
they leave as it is. So of clouds within ``REACH`` of that nothing is asked.
"""

from __future__ import annotations

from fuzzing.cases import CASES
from fuzzing.trial import EPS, Key

DECISIONS = 300  # pairs of rows that are compared, for each axis
MAX_SHARE = 1e-3
REACH = 100.0  # the square of the condition numbers of elements
EXACT = 99  # the level without noise
WITHOUT_NOISE = ("integers", "random-graph")  # whose levels are something else


def allowed(key: Key) -> float:
    """The share of the clouds of a batch that may be on the edge."""
    if key.structure in WITHOUT_NOISE or key.level == EXACT:
        return MAX_SHARE
    thinness = 10.0**-key.level / EPS[key.dtype] ** 0.75
    if not CASES[key.group].compact and 1 / REACH < thinness < REACH:
        return 1.0
    power = 2 if CASES[key.group].space.q or key.structure == "mixed-scales" else 1
    return min(1.0, MAX_SHARE + DECISIONS * EPS[key.dtype] * 10.0 ** (power * key.level))
