"""Telling graphs apart that message passing cannot: permutations of the nodes change nothing."""
