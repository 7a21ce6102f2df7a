"""What a plan minimises beside the total error: the largest variance of a query, or the budget that targets need.

With t_q the standard error that query q may have, a mechanism of unit cost and variances v_q needs the cost
max_q v_q / t_q^2; a family whose root mean square error is limited enters with its mean variance. For weights w >= 0
with sum_q w_q t_q^2 = 1 the least possible sum_q w_q v_q is a lower bound of that cost for any mechanism: by minimax
the best weights attain it (see `qcompile.compiler.objectives`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qcompile.errors import OptionError
from qcompile.plan.options import Options
from qcompile.queries.weighting import Weighting
from qcompile.queries.workload import Family, Workload


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
