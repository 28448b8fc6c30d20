"""The paper's experiments, each by one command: ``python -m minframe_lab.experiments --help``."""
