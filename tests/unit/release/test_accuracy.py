"""Budgets from accuracies: what is asked is delivered, and hardly more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qcompile.api import Plan, compile, load_plan
from qcompile.errors import BudgetError, OptionError
from qcompile.privacy.budget import Budget
from qcompile.release.answers.intervals import bonferroni, pointwise

TEXT = """
schema { a : integer 0..9; b : integer 0..9 }
workload {
  ages   : prefix(a) target 4
  cells  : marginal(a, b) target 9 max
  sums   : affine(a + b <= *)
}
"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile(TEXT, objective="total")


def delivered(plan: Plan, family: str, budget: Budget, accounting: str = "zcdp") -> tuple[float, float]:
    """The family's rmse and largest standard error at the noise that a run draws, from its measurements' scales."""
    run = plan.run({"a": [], "b": []}, budget, accounting=accounting, noise="none")
    errors = run.answers(family).column("std_error").to_numpy()
    return float(np.sqrt((errors**2).mean())), float(errors.max())


@pytest.mark.parametrize("request_", [{}, {"delta": "1e-6"}, {"delta": "1e-6", "accounting": "gaussian"}])
def test_the_budget_delivers_what_is_asked_and_hardly_more(plan: Plan, request_: dict[str, str]) -> None:
    accounting = request_.get("accounting", "zcdp")
    for largest in (False, True):
        budget = plan.budget_for("sums", std_error=5, largest=largest, **request_)  # type: ignore[arg-type]
        assert (budget.kind, budget.delta is None) == (("epsilon", False) if request_ else ("rho", True))
        found = delivered(plan, "sums", budget, accounting)[largest]
        assert 0.9999 * 5 <= found <= 5


def test_margins_are_quantiles_of_standard_errors(plan: Plan) -> None:
    one = plan.budget_for("cells", margin=20, confidence=0.9)
    assert delivered(plan, "cells", one)[1] == pytest.approx(20 / pointwise(0.1).quantile, rel=1e-4)
    together = plan.budget_for("cells", margin=20, confidence=0.9, simultaneous=True)
    run = plan.run({"a": [], "b": []}, together, noise="none")
    table = run.answers("cells", alpha=0.1, simultaneous=True)
    widest = (table.column("upper").to_numpy() - table.column("estimate").to_numpy()).max()
    assert 0.999 * 20 <= widest <= 20 * (1 + 1e-9)
    every = plan.budget_for(margin=20, confidence=0.9, simultaneous=True)
    largest = max(delivered(plan, f.name, every)[1] for f in plan.workload.families)
    assert largest == pytest.approx(20 / bonferroni(0.1, plan.queries).quantile, rel=1e-4)
    assert every.rho > together.rho > one.rho


def test_the_budget_of_a_plans_own_targets(tmp_path: object) -> None:
    plan = compile(TEXT.replace("<= *)", "<= *) target 6"))
    budget = plan.budget_for(delta=1e-6)
    errors = {f.name: delivered(plan, f.name, budget) for f in plan.workload.families}
    assert errors["ages"][0] <= 4
    assert errors["cells"][1] <= 9
    assert errors["sums"][0] <= 6
    assert max(errors["ages"][0] / 4, errors["cells"][1] / 9, errors["sums"][0] / 6) >= 0.9999
    plan.save(f"{tmp_path}/x.plan")
    assert load_plan(f"{tmp_path}/x.plan").budget_for(delta=1e-6) == budget


@pytest.mark.parametrize("objective", ["total", "targets"])
def test_the_noise_that_is_drawn_has_the_error_that_was_asked(objective: str) -> None:
    """Monte Carlo, with test seeds: within 2 % of the standard error asked for."""
    text = TEXT.replace("<= *)", "<= *) target 6")
    plan = compile(text, objective=objective)
    budget = plan.budget_for("cells", std_error=3)
    squares = []
    for seed in range(60):
        run = plan.run({"a": [], "b": []}, budget, test_seed=seed)
        squares.append(float((run.answers("cells").column("estimate").to_numpy() ** 2).mean()))
    assert math.sqrt(np.mean(squares)) == pytest.approx(3, rel=0.02)


def test_curves_are_those_of_summaries(plan: Plan) -> None:
    table = plan.curve([0.5, 1, 2], delta=1e-6)
    assert table.column_names == ["family", "epsilon", "rmse", "max_std_error"]
    assert table.num_rows == 9
    for row in table.to_pylist():
        summary = plan.summary(Budget(epsilon=row["epsilon"], delta=1e-6)).to_pylist()
        (same,) = [s for s in summary if s["family"] == row["family"]]
        assert (row["rmse"], row["max_std_error"]) == (same["rmse"], same["max_std_error"])


def test_wrong_requests(plan: Plan) -> None:
    with pytest.raises(OptionError, match="did you mean 'sums'"):
        plan.budget_for("sum", std_error=5)
    for error in (0, -1, math.inf, True, "5"):
        with pytest.raises(OptionError, match="std_error must be a standard error"):
            plan.budget_for("sums", std_error=error)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="a target is a family with std_error or margin"):
        plan.budget_for("sums")
    with pytest.raises(OptionError, match="two ways to say the same"):
        plan.budget_for("sums", std_error=5, margin=5)
    with pytest.raises(OptionError, match="confidence must be between 0 and 1"):
        plan.budget_for("sums", margin=5, confidence=95)
    with pytest.raises(OptionError, match="was not compiled for targets"):
        plan.budget_for()
    with pytest.raises(BudgetError, match="delta"):
        plan.budget_for("sums", std_error=5, delta=2)
    public = compile("schema { a : integer 0..3 }\nworkload { n : total; marginal(a) }", neighbours="replace-one")
    with pytest.raises(OptionError, match="public"):
        public.budget_for("n", std_error=5)
