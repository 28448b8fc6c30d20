"""The parts of ``benchmarks/fuzz.py``. They use the public names of minframe only."""
