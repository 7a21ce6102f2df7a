"""Fixed bases: ResidualPlanner, Weighted Fourier, ResidualPlanner+."""
