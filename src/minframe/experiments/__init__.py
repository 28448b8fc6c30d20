"""The paper's experiments, each by one command: ``python -m minframe.experiments --help``."""
