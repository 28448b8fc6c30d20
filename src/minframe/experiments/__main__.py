"""``python -m minframe.experiments``: the same as ``minframe reproduce``."""

from minframe.experiments.app import app

if __name__ == "__main__":
    app(prog_name="python -m minframe.experiments")
