"""Datasets that are made here or read from published files: jets and slabs."""
