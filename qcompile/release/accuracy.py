"""The budget at which a plan's answers are as accurate as is asked, and its errors over many budgets.

Nothing is solved again: a budget only rescales a plan. Variances are those of the noise scales and grids that a batch
with rounded noise would really use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from qcompile.errors import OptionError
from qcompile.plan.plan import Plan
from qcompile.privacy.budget import Budget
from qcompile.privacy.exact_numbers import Number, rounded_text
from qcompile.queries.workload import Family
from qcompile.release.answers import intervals
from qcompile.release.answers.family_answers import simultaneous_width
from qcompile.release.answers.measurements import Measurements
from qcompile.release.answers.selection import select
from qcompile.strategy.variances import ErrorSummary, family_errors
from qcompile.support.options import positive

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPTS = 20
"""Corrections of a budget for the rounding of its noise scales, each of some 10^-6."""


@dataclass(frozen=True)
class Accuracy:
    """What is asked of some families.

    Attributes:
      families: the families.
      std_error: of the kind below, in counts.
      largest: True if it is for every query, False for the root of the mean variance of each family.
    """

    families: tuple[Family, ...]
    std_error: float
    largest: bool


def of_std_error(plan: Plan, family: str, std_error: float, largest: bool) -> Accuracy:
    """A standard error of a family.

    Raises:
      OptionError: there is no such family, or the number is not finite and > 0.
    """
    return Accuracy((plan.workload.family(family),), positive("std_error", std_error, "a standard error"), largest)


def of_margin(plan: Plan, family: str | None, margin: float, confidence: float, simultaneous: bool) -> Accuracy:
    """A margin of error: the half-width of confidence intervals.

    Args:
      plan: what is measured.
      family: its name; None for all families.
      margin: in counts.
      confidence: of each interval, or of all of them together.
      simultaneous: whether the intervals hold together.

    Raises:
      OptionError: there is no such family, or a number is out of range.
    """
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise OptionError(f"confidence must be between 0 and 1 (0.95 means 95 %), got {confidence!r}")
    families = plan.workload.families if family is None else (plan.workload.family(family),)
    width = _quantile(plan, families, 1 - confidence, simultaneous)
    return Accuracy(families, positive("margin", margin, "a half-width in counts") / width, largest=True)


def _quantile(plan: Plan, families: Sequence[Family], alpha: float, simultaneous: bool) -> float:
    """Half-width of an interval, in standard errors."""
    if not simultaneous:
        return intervals.pointwise(alpha).quantile
    if len(families) > 1:
        return intervals.bonferroni(alpha, sum(f.count for f in families)).quantile
    unit = Measurements(plan, plan.scales(Fraction(1, 2)), (), None, "none")
    return simultaneous_width(unit, select(plan.workload, families[0].name), alpha).quantile


def plan_accuracies(plan: Plan) -> list[Accuracy]:
    """What a plan's own targets ask for.

    Raises:
      OptionError: it was not compiled for targets.
    """
    if plan.options.objective != "targets":
        raise OptionError(
            "the plan was not compiled for targets; name one (--target ages=5, budget_for('ages', std_error=5)), or "
            "compile a workload with targets"
        )
    family = plan.workload.family
    return [Accuracy((family(name),), math.sqrt(x.variance), x.largest) for name, x in plan.limits.items()]


def required_budget(
    plan: Plan, asked: Sequence[Accuracy], delta: Number | None = None, accounting: str = "zcdp"
) -> Budget:
    """The smallest budget, to six digits, at which a batch with rounded noise delivers what is asked.

    Args:
      plan: what is measured.
      asked: all of it must be delivered.
      delta: makes it an (epsilon, delta) budget; a budget in rho where None.
      accounting: "zcdp" or "gaussian", as the run will have it.

    Raises:
      BudgetError: delta is not between 0 and 1, or no budget of a possible size is enough.
      OptionError: another accounting.
    """
    cost = _used(asked, _at_unit_cost(plan))
    if not cost:
        raise OptionError("what is asked is public: these answers need no budget")
    for _ in range(ATTEMPTS):
        budget = _budget(cost, delta, accounting)
        used = _used(asked, _at(plan, budget, accounting))
        if used <= 1:
            break
        cost *= max(used, 1 + 1e-6)
    return budget


def _budget(cost: float, delta: Number | None, accounting: str) -> Budget:
    """A budget of at least this cost, in six digits."""
    in_rho = Budget(rho=rounded_text(Fraction(cost) / 2, up=True))
    if delta is None:
        return in_rho
    return Budget(epsilon=rounded_text(in_rho.epsilon_at(delta, accounting), up=True), delta=delta)


Errors = Callable[[Family], ErrorSummary]


def _at_unit_cost(plan: Plan) -> Errors:
    return plan.family_errors


def _at(plan: Plan, budget: Budget, accounting: str) -> Errors:
    """Errors at the noise scales and grids of a run."""
    scales = plan.scales(budget.charge(accounting))
    variances = np.array([s.variance for s in scales]) * plan.unit.step**2

    def errors(family: Family) -> ErrorSummary:
        return family_errors(plan.closure.source(family.name), plan.strategies, variances, family.products())

    return errors


def _used(asked: Sequence[Accuracy], errors: Errors) -> float:
    """The largest variance as a share of what is allowed."""
    return max(_variance(errors(f), f, a.largest) / a.std_error**2 for a in asked for f in a.families)


def _variance(errors: ErrorSummary, family: Family, largest: bool) -> float:
    return errors.largest if largest else errors.total / family.count


def curve(plan: Plan, epsilons: Sequence[Number], delta: Number, accounting: str = "zcdp") -> pa.Table:
    """Every family's predicted errors at several budgets: family, epsilon, rmse, max_std_error.

    Raises:
      BudgetError: an epsilon or delta is out of range.
      OptionError: another accounting.
    """
    import pyarrow as pa

    budgets = [Budget(epsilon=e, delta=delta) for e in epsilons]
    pairs = [(f, b, 2 * float(b.charge(accounting))) for f in plan.workload.families for b in budgets]
    errors = {f.name: plan.family_errors(f) for f in plan.workload.families}
    return pa.table(
        {
            "family": pa.array([f.name for f, _, _ in pairs], pa.string()),
            "epsilon": pa.array([float(b.amount) for _, b, _ in pairs], pa.float64()),
            "rmse": pa.array([math.sqrt(errors[f.name].total / f.count / c) for f, _, c in pairs], pa.float64()),
            "max_std_error": pa.array([math.sqrt(errors[f.name].largest / c) for f, _, c in pairs], pa.float64()),
        }
    )
