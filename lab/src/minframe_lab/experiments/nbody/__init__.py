"""Charged particles in space: where are they after a second? E(3) and permutations act."""
