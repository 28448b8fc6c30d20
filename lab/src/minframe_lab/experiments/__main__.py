"""``python -m minframe_lab.experiments``: the same as ``minframe reproduce``."""

from minframe_lab.experiments.app import app

if __name__ == "__main__":
    app(prog_name="python -m minframe_lab.experiments")
