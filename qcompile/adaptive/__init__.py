"""Adaptive measurement: AIM selects marginals, GReM reconstructs them, references fill in what was not measured.

Sources: AIM+GReM (arXiv 2602.05674), AIM (arXiv 2201.12677), ResidualPlanner (arXiv 2305.08175).

`aim` is the loop. It is made of: `spending` (shares of the budget), `candidates`, `levels` and `objective` (what is
worth measuring), `crp` (the Conditional ResidualPlanner), `grem` (estimates that follow the measurements), `references`
with `pairs`, `forest`, `loglinear`, `correct` and `shrink` (models of the rest), and `trace` (what is reported).
`inaxis` has the paper's own operations and `crp_conic` the allocation by a general solver, to compare with.
"""
