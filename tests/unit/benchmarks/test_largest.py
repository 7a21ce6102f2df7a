"""ResidualPlanner's program for the largest variance, beside plans with that objective."""

from __future__ import annotations

import pytest

from benchmarks.largest import marginals, residual_planner, row
from qcompile.api import compile
from qcompile.plan.standing import least_cost


@pytest.mark.parametrize(("sizes", "largest"), [((2, 3, 7), 2), ((4, 2), 2), ((3, 4, 5), 1)])
def test_plans_reach_the_program_of_residual_planner(sizes: tuple[int, ...], largest: int) -> None:
    plan = compile(marginals(sizes, largest), objective="max", objective_gap=1e-5)
    optimum = residual_planner(sizes, largest)
    assert plan.solved is not None
    assert plan.solved.bound <= optimum * (1 + 1e-6)
    assert optimum * (1 - 1e-6) <= least_cost(plan) <= optimum * (1 + 2e-5)


def test_a_row_of_the_table() -> None:
    name, bound, total, ours, blocks, peer, *_ = row("x", marginals((2, 3), 1), residual_planner((2, 3), 1))
    assert (name, blocks) == ("x", "")
    assert float(bound) > 1
    assert float(total) > float(ours) >= 1
    assert float(peer) == pytest.approx(float(ours), abs=2e-4)
