"""What a plan minimises beside the total error: the largest variance of a query, or the budget that targets need.

With t_q the standard error that query q may have, a mechanism of unit cost and variances v_q needs the cost
max_q v_q / t_q^2; a family whose root mean square error is limited enters with its mean variance. For weights w >= 0
with sum_q w_q t_q^2 = 1 the least possible sum_q w_q v_q is a lower bound of that cost for any mechanism: by minimax
the best weights attain it (see `qcompile.compiler.objectives`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qcompile.errors import OptionError
from qcompile.plan.options import Options
from qcompile.queries.weighting import Weighting
from qcompile.queries.workload import Family, Workload

if TYPE_CHECKING:
    from qcompile.plan.plan import Plan

MET_FOR_FREE = 0.98
"""Families whose error is below this share of what is allowed have slack: they need less than what is spent."""


@dataclass(frozen=True)
class Limit:
    """What a family's variances may be.

    Attributes:
      variance: allowed, in counts^2; only the ratios matter where the objective is the largest variance.
      largest: True if it is for every query, False for their mean.
    """

    variance: float
    largest: bool


@dataclass(frozen=True, eq=False)
class Solved:
    """The weights that an objective was solved for.

    Attributes:
      weighting: of all queries; normalised, sum of weight times allowed variance = 1.
      bound: proven lower bound of the least cost over all choices of measurements of the plan's design.
    """

    weighting: Weighting
    bound: float


@dataclass(frozen=True, kw_only=True)
class FamilyTarget:
    """How a family stands in a plan with an objective.

    Attributes:
      family: its name.
      largest: True if the limit is for every query, False for the root of their mean variance.
      allowed: standard error, in counts; None where the objective is the largest variance.
      std_error: predicted at the least cost; of the kind that is limited.
      used: the variance as a share of what is allowed.
      slack: True if the family needs less budget than others do.
    """

    family: str
    largest: bool
    allowed: float | None
    std_error: float
    used: float
    slack: bool


def limits(workload: Workload, options: Options) -> Mapping[str, Limit]:
    """The limit of each family, by its name; none where the objective is the total error.

    Raises:
      OptionError: families without a target beside others, or in per cent of a total that is not known.
    """
    if options.objective == "total":
        return {}
    if options.objective == "max":
        return {f.name: Limit(1 / f.weight, True) for f in workload.families}
    return {f.name: _target_limit(f, workload, options) for f in workload.families}


def _target_limit(family: Family, workload: Workload, options: Options) -> Limit:
    target = family.target
    if target is None:
        raise _missing(workload)
    if not target.percent:
        return Limit(target.std_error**2, target.largest)
    if options.total is None:
        raise OptionError(
            f"the target of family {family.name!r} is in per cent of a total that nobody stated; give the number of "
            "rows (--total 48842, total=48842)"
        )
    return Limit((target.std_error / 100 * options.total) ** 2, target.largest)


def _missing(workload: Workload) -> OptionError:
    names = [f.name for f in workload.families if f.target is None]
    if len(names) == len(workload.families):
        return OptionError(
            "no family has a target; write for instance 'ages : prefix(age) target 5', or choose another objective"
        )
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return OptionError(
        f"families without a target beside others that have one: {listed}; give each one too (a loose one costs "
        "little), or choose objective 'total' or 'max'"
    )


def least_cost(plan: Plan) -> float:
    """The cost at which a plan meets every limit: of unit cost, the largest variance relative to what is allowed."""
    return max(used(plan, f, limit) for f, limit in _limited(plan))


def used(plan: Plan, family: Family, limit: Limit) -> float:
    """A family's variance at cost 1, as a share of what its limit allows."""
    errors = plan.family_errors(family)
    return (errors.largest if limit.largest else errors.total / family.count) / limit.variance


def family_targets(plan: Plan) -> list[FamilyTarget]:
    """Every family of a plan with an objective, at the least cost that meets all limits."""
    cost = least_cost(plan)
    return [_family_target(plan, f, limit, cost) for f, limit in _limited(plan)]


def _family_target(plan: Plan, family: Family, limit: Limit, cost: float) -> FamilyTarget:
    share = used(plan, family, limit) / cost
    absolute = plan.options.objective == "targets"
    variance = share * limit.variance * (1 if absolute else cost)
    return FamilyTarget(
        family=family.name,
        largest=limit.largest,
        allowed=limit.variance**0.5 if absolute else None,
        std_error=variance**0.5,
        used=share,
        slack=share < MET_FOR_FREE**2,
    )


def _limited(plan: Plan) -> list[tuple[Family, Limit]]:
    allowed = plan.limits
    if not allowed:
        raise OptionError(
            "the plan was compiled for the total error and has no targets; compile it with objective='targets' or 'max'"
        )
    return [(f, allowed[f.name]) for f in plan.workload.families]
