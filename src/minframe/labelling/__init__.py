"""Canonical orders and automorphisms: equal values, colour refinement, canonical labelling, stabiliser chains.

Tensors in, orders and permutations out: nothing here knows what a frame is.
"""
