"""The decomposition: projections, Grams, the closure lattice and its classes."""
