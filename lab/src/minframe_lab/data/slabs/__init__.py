"""Metal slabs with adsorbates and their energies: made with ASE, or read from published files."""
