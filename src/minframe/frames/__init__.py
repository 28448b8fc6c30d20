"""Ways to choose the group elements that a backbone is averaged over."""

from minframe.frames.minimal import Minimal

__all__ = ["Minimal"]
