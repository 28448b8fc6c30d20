"""The groups. To add one: a file here, a name in ``minframe/__init__.py``, a row in ``tests/table.py``."""

from minframe.groups.affine import SE, E, Translation
from minframe.groups.base import Group
from minframe.groups.orthogonal import SO, O

__all__ = ["SE", "SO", "E", "Group", "O", "Translation"]
