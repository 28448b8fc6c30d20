"""The groups. To add one: a file here, a name in ``minframe/__init__.py``, a row in ``tests/table.py``."""

from minframe.frame.compiled import NAMES
from minframe.groups.affine import SE, Aff, E, Poincare, Translation
from minframe.groups.base import Group
from minframe.groups.finite import Finite
from minframe.groups.general import GL, SL
from minframe.groups.lorentz import Lorentz, OrthochronousLorentz, ProperLorentz
from minframe.groups.octahedral import Octahedral
from minframe.groups.orthogonal import SO, O
from minframe.groups.permutation import S
from minframe.groups.planar import Cyclic, Dihedral
from minframe.groups.product import Product
from minframe.groups.scaling import Scaling, Sim
from minframe.groups.signs import SignedPermutations, Signs
from minframe.groups.sum import Sum
from minframe.groups.trivial import Trivial
from minframe.groups.unitary import SU, U

__all__ = [
    "GL",
    "SE",
    "SL",
    "SO",
    "SU",
    "Aff",
    "Cyclic",
    "Dihedral",
    "E",
    "Finite",
    "Group",
    "Lorentz",
    "O",
    "Octahedral",
    "OrthochronousLorentz",
    "Poincare",
    "Product",
    "ProperLorentz",
    "S",
    "Scaling",
    "SignedPermutations",
    "Signs",
    "Sim",
    "Sum",
    "Translation",
    "Trivial",
    "U",
]

NAMES.update({name: globals()[name] for name in __all__})
