"""Algorithms for groups of permutations: equal values, colour refinement, canonical labelling, stabiliser chains."""
