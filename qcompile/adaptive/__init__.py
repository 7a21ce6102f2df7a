"""Adaptive measurement: AIM selects marginals, and GReM reconstructs them round by round.

Sources: AIM+GReM (arXiv 2602.05674), AIM (arXiv 2201.12677), ResidualPlanner (arXiv 2305.08175).

`aim` is the loop. It uses `spending` (shares of the budget), `candidates`, `resolutions` and `objective` (the scores
of marginals), and `conditional_planner` (a round's budget over the nodes below its marginal); `history` records rounds.
Estimates and reference models are in `qcompile.estimates`. The paper's own in-axis operations and the allocation by a
general solver are in ``benchmarks/routes``, to compare with.
"""
