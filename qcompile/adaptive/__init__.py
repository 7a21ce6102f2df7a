"""Adaptive measurement: AIM selects marginals, GReM reconstructs them, references fill in what was not measured.

Sources: AIM+GReM (arXiv 2602.05674), AIM (arXiv 2201.12677), ResidualPlanner (arXiv 2305.08175).
"""
