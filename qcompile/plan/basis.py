"""The strategies of an adaptive run: the plan's own, or the ResidualPlanner basis on every node."""

from __future__ import annotations

from qcompile.errors import OptionError
from qcompile.plan.plan import Plan
from qcompile.strategy import Strategy
from qcompile.strategy.oblique import ObliqueStrategy

BASES = ("compiled", "residual")
"""The strategy that nodes are measured with."""


def require_single_nodes(plan: Plan) -> None:
    """Refuse adaptive runs of plans in which a node's measurements need those of others.

    Raises:
      OptionError: the plan has oblique nodes.
    """
    if any(isinstance(s, ObliqueStrategy) for s in plan.strategies):
        raise OptionError(
            "an adaptive run measures nodes one by one, and this plan has oblique nodes, which need those below them; "
            "compile it with design='nodes' (--design nodes)"
        )


def basis_strategies(plan: Plan, basis: str) -> tuple[Strategy, ...]:
    """B per class.

    Args:
      plan: gives classes and compiled strategies.
      basis: one of `BASES`.

    Raises:
      OptionError: the residual basis was asked for where centring is not uniform.

    References:
      Xiao et al. 2023, ResidualPlanner, arXiv 2305.08175.
    """
    from qcompile.solvers.bases.residual import Residual, residual_strategy

    if basis == "compiled":
        return plan.strategies
    reasons = {reason for p in plan.closure.classes if (reason := Residual().why_not(p))}
    if reasons:
        raise OptionError(
            f"basis='residual' {reasons.pop()}, this plan has optimised weights; compile it with centring='uniform', "
            "or use basis='compiled'"
        )
    return tuple(residual_strategy(problem.shape) for problem in plan.closure.classes)
