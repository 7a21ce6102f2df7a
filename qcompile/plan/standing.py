"""How a plan stands with respect to its objective: the cost it needs, its certificate, and every family's part."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qcompile.errors import OptionError
from qcompile.lattice.lattice import Lattice
from qcompile.plan.objective import Limit
from qcompile.plan.plan import Plan
from qcompile.queries.weighting import ProductWeights
from qcompile.queries.workload import Family, Product
from qcompile.strategy.variances import product_errors, product_variances

MET_FOR_FREE = 0.01
"""Families with less than this part of the solved weights have slack: others decide about the budget."""


@dataclass(frozen=True, kw_only=True)
class FamilyTarget:
    """How a family stands in a plan with an objective.

    Attributes:
      family: its name.
      largest: True if the limit is for every query, False for the root of their mean variance.
      allowed: standard error, in counts; None where the objective is the largest variance.
      std_error: predicted at the least cost; of the kind that is limited.
      used: the variance as a share of what is allowed.
      slack: True if the family is met for free: others decide about the budget.
    """

    family: str
    largest: bool
    allowed: float | None
    std_error: float
    used: float
    slack: bool


def value_of(plan: Plan) -> float:
    """What designs are compared by: the total error, or the least cost that meets every limit."""
    return least_cost(plan) if plan.solved is not None else plan.sse()


def gap_of(plan: Plan) -> float:
    """Certified relative gap of what the plan minimises: of `value_of` over its proven lower bound."""
    if plan.solved is None:
        return plan.gap
    return max(0.0, least_cost(plan) / plan.solved.bound - 1) if plan.solved.bound > 0 else math.inf


def family_share(plan: Plan, family: Family) -> float:
    """A family's part in the total weighted squared error, between 0 and 1."""
    return weighted_error(plan, family) / plan.sse()


def least_cost(plan: Plan) -> float:
    """The cost at which a plan meets every limit: of unit cost, the largest variance relative to what is allowed."""
    return max(used(plan, f, limit) for f, limit in _limited(plan))


def used(plan: Plan, family: Family, limit: Limit) -> float:
    """A family's variance at cost 1, as a share of what its limit allows."""
    errors = plan.family_errors(family)
    return (errors.largest if limit.largest else errors.total / family.count) / limit.variance


def weighted_error(plan: Plan, family: Family) -> float:
    """A family's part of the total weighted error at cost 1, with the weights that the plan was solved for."""
    if plan.solved is None:
        return family.weight * plan.family_errors(family).total
    weights, source = plan.solved.weighting.families[family.name], plan.closure.source(family.name)
    counts = np.bincount(weights.class_of, minlength=len(weights.classes))
    total, seen = 0.0, set[int]()
    for product, c in zip(family.products(), weights.class_of.tolist(), strict=True):
        if c not in seen:
            seen.add(c)
            total += counts[c] * _product_error(plan, source, product, weights.classes[c])
    return float(total)


def _product_error(plan: Plan, source: Lattice, product: Product, weights: ProductWeights) -> float:
    if all(q is None for q in weights.queries):
        return weights.weight * product_errors(source, plan.strategies, plan.unit_sigma_squared, product).total
    table = product_variances(source, plan.strategies, plan.unit_sigma_squared, product)
    return float((weights.table(product.shape) * table).sum())


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
        slack=share < 1 and family_share(plan, family) < MET_FOR_FREE,
    )


def _limited(plan: Plan) -> list[tuple[Family, Limit]]:
    allowed = plan.limits
    if not allowed:
        raise OptionError(
            "the plan was compiled for the total error and has no targets; compile it with objective='targets' or 'max'"
        )
    return [(f, allowed[f.name]) for f in plan.workload.families]
