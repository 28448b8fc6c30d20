"""Molecules in motion: energies learned in frames, and the forces that follow. SE(3) and permutations act."""
