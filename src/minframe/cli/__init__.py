"""The command line: ``minframe verify``, ``bench``, ``peers``, ``report``. Needs ``pip install "minframe[cli]"``."""

from __future__ import annotations

import importlib.util
import sys

NEEDED = ("typer", "rich", "matplotlib")


def main() -> None:
    """Run the command line, or say what is missing for it."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f'minframe: the command line needs {", ".join(missing)}: pip install "minframe[cli]"')
    try:
        from minframe.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
