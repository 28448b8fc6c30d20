"""How a quantity moves under a group: the types that users write as strings.

A type fixes the trailing *core* axes of a tensor and the representation acting on them. In front of the core stand
the batch axes and then any further axes (rows, channels), which are unaffected: a ``"vector"`` may have shape
``(*batch, d)`` (one per sample), ``(*batch, n, d)`` (one per row) or ``(*batch, n, c, d)`` (``c`` channels per row).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    """One row of the table of representations.

    Attributes:
        name: what users write.
        core_ndim: number of core axes of length ``d`` (0, 1 or 2).
        affine: the translation acts as well (only ``"point"``).
        dual: moves by the inverse transpose.
        parity: carries an extra factor ``det g``.
        nodes: number of axes that permutations reorder even where they are no rows of coordinates.
    """

    name: str
    core_ndim: int
    affine: bool = False
    dual: bool = False
    parity: bool = False
    nodes: int = 0


SCALAR = Type("scalar", 0)
CONSTANT = Type("constant", 0)  #: independent of the cloud: neither moved nor reordered, for any shape
POINT = Type("point", 1, affine=True)
VECTOR = Type("vector", 1)

LINEAR_TYPES: dict[str, Type] = {
    t.name: t
    for t in (
        SCALAR,
        CONSTANT,
        Type("pseudoscalar", 0, parity=True),
        POINT,
        VECTOR,
        Type("covector", 1, dual=True),
        Type("pseudovector", 1, parity=True),
        Type("tensor", 2),
        Type("cotensor", 2, dual=True),
    )
}

NODE = Type("node", 0, nodes=1)
EDGE = Type("edge", 0, nodes=2)
EDGE_INDEX = Type("edge_index", 0)
EDGE_ATTR = Type("edge_attr", 0)
UNTOUCHED = (CONSTANT, EDGE_INDEX, EDGE_ATTR)  #: types that linear groups ignore, without a check for padding

#: Of permutations. A cloud of points is a set of nodes to them.
PERMUTATION_TYPES: dict[str, Type] = {
    "scalar": SCALAR,
    "constant": CONSTANT,
    "node": NODE,
    "point": NODE,
    "edge": EDGE,
    "edge_index": EDGE_INDEX,
    "edge_attr": EDGE_ATTR,
}
#: Of products of permutations with a linear group.
PRODUCT_TYPES: dict[str, Type] = LINEAR_TYPES | {"node": NODE, "edge": EDGE}
#: Of a linear group, which moves none of the others: an input may be given one to say what it has entries for.
COORDINATE_TYPES: dict[str, Type] = PRODUCT_TYPES | {"edge_index": EDGE_INDEX, "edge_attr": EDGE_ATTR}
