"""Slabs with adsorbates: which energy do they relax to? E(2) acts in the plane, and nothing along the normal."""
