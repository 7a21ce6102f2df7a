"""Adaptive measurement: AIM selects marginals, and GReM reconstructs them round by round.

Sources: AIM+GReM (arXiv 2602.05674), AIM (arXiv 2201.12677), ResidualPlanner (arXiv 2305.08175).

`aim` is the loop. `spending` divides the budget into rounds, `candidates`, `resolutions` and `objective` score the
marginals, `conditional_planner` divides the budget of one round, and `history` is the report of a run. The estimates
come from `qcompile.estimates`.
"""
