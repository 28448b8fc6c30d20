"""The laboratory of minframe: the command ``minframe``, which verifies, measures, reports and reproduces."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from minframe_lab.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
