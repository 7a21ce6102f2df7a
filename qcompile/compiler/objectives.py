"""The least budget that meets every limit, by weights of families and queries; certified from both sides.

Least cost = max over weights w >= 0 with sum_q w_q t_q^2 = 1 of h(w), h(w) the least possible sum_q w_q v_q at cost 1:
what the compiler finds for given weights. With p_q = w_q t_q^2, each step multiplies p_q by a power of
(v_q / t_q^2) / h: for linear optimal designs the multiplicative algorithm (Yu 2010), here on queries. Every step
certifies h(w) / (1 + gap) <= least cost <= max_q v_q / t_q^2, over all measurements of the plan's design.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qcompile.plan.objective import Limit, Solved
from qcompile.plan.plan import Plan
from qcompile.plan.standing import least_cost
from qcompile.queries.factors import Factor
from qcompile.queries.weighting import FamilyWeights, ProductWeights, Weighting
from qcompile.queries.workload import Family, Product, Workload
from qcompile.strategy.variances import Numbers, product_errors, product_variances
from qcompile.support.arrays import Array, cells

ROUNDS = 200
"""Most solutions for one design."""

PATIENCE, PROGRESS = 12, 0.98
"""Rounds after which a certified gap that has not fallen to this part is taken as the best that such weights reach."""

FASTEST = 2.0
"""Exponent of a step: exact for nodes of one family each. Taken back to 1 where the bound falls."""

LEAST = 1e-6
"""Smallest weight relative to the largest: with less, queries would vanish from the span in double precision."""

TABLE = 2**22
"""Queries of a product up to which each has its own variance; entries of a query matrix up to which each its weight."""

DENSE_CELLS = 1024
"""Cells of a product up to which its Gram may stop being a Kronecker product."""

EQUAL = 1e-9
"""Relative weights nearer to 1 than this are 1: symmetric queries keep their closed forms."""


def first_workload(workload: Workload, limits: Mapping[str, Limit]) -> Workload:
    """The workload with weights before any is solved for: those of queries which all use what they may.

    Args:
      workload: the families.
      limits: by family; none leaves the workload as it is.
    """
    if not limits:
        return workload
    queries = {f.name: 1 if limits[f.name].largest else f.count for f in workload.families}
    shares = {name: 1 / limits[name].variance / count for name, count in queries.items()}
    largest = max(shares.values())
    families = tuple(replace(f, weight=max(LEAST, shares[f.name] / largest)) for f in workload.families)
    return Workload(workload.schema, families)


def solve_weights(
    workload: Workload, limits: Mapping[str, Limit], compile_with: Callable[[Weighting], Plan], gap: float
) -> Plan:
    """The plan of a design that needs the least cost, with the weights and the bound that certify it.

    Args:
      workload: the families.
      limits: by family.
      compile_with: the plan of least total error for given weights.
      gap: relative, between the cost that is needed and the bound, at which to stop.
    """
    first = first_workload(workload, limits)
    weights = {f.name: FamilyWeights.uniform(f, f.weight) for f in first.families}
    search = _Search(workload, limits, compile_with)
    search.visit(_normalised(workload, limits, weights))
    search.split_largest()
    search.descend(gap)
    if not search.is_near(gap) and search.unite():
        search.descend(gap)
    assert search.best is not None
    solved = replace(search.best.solved, bound=search.bound) if search.best.solved else None
    return replace(search.best, solved=solved)


class _Search:
    """The multiplicative iteration.

    Attributes:
      best: the plan of least cost so far.
      bound: the largest lower bound so far.
      rounds: plans compiled.
      stalled: rounds since the gap last fell by `PROGRESS`.
    """

    def __init__(
        self, workload: Workload, limits: Mapping[str, Limit], compile_with: Callable[[Weighting], Plan]
    ) -> None:
        self._workload, self._limits, self._compile = workload, limits, compile_with
        self._exponent, self._fallen_from, self._value = FASTEST, 0.0, 0.0
        self.best: Plan | None = None
        self._cost, self.bound, self.rounds, self.stalled, self._milestone = np.inf, 0.0, 0, 0, np.inf

    @property
    def gap(self) -> float:
        """The certified relative gap."""
        return self._cost / self.bound - 1 if self.bound > 0 else np.inf

    def is_near(self, gap: float) -> bool:
        """True if the certified gap is small enough, or all that is left of it is the gap of the plans themselves."""
        return self.gap <= gap or self._cost <= self._value * (1 + gap / 2)

    def visit(self, weights: Mapping[str, FamilyWeights]) -> None:
        """Compile for some weights and keep what is best."""
        plan = self._compile(Weighting(weights))
        value = plan.sse()
        bound = value / (1 + plan.gap)
        plan = replace(plan, solved=Solved(Weighting(weights), bound))
        self._bound_without_slack(weights)
        cost = least_cost(plan)
        if cost < self._cost:
            self.best, self._cost = plan, cost
        self.bound, self._value = max(self.bound, bound), max(self._value, value)
        self._exponent = 1.0 if value < self._fallen_from else self._exponent
        self._fallen_from = value
        self._plan, self._weights, self.rounds = plan, weights, self.rounds + 1
        self.stalled += 1
        reached = cost / self._value - 1  # by this plan: one may be better by chance long before the weights settle
        if reached < PROGRESS * self._milestone:
            self.stalled, self._milestone = 0, reached

    def _bound_without_slack(self, weights: Mapping[str, FamilyWeights]) -> None:
        """Raise the bound by leaving out the families with the least weights there are, which may still add up."""
        shares = {name: max(c.weight for c in w.classes) for name, w in weights.items()}
        least = 2 * LEAST * max(shares.values())
        kept = {name: w for name, w in weights.items() if shares[name] > least}
        if len(kept) == len(weights):
            return
        plan = self._compile(Weighting(_scaled_to_limits(self._workload, self._limits, kept)))
        self.bound, self._value = max(self.bound, plan.sse() / (1 + plan.gap)), max(self._value, plan.sse())

    def split_largest(self) -> None:
        """Give products of equal variances their own weights, in families where every query is limited."""
        self._weights = {
            f.name: _by_numbers(self._plan, f, self._weights[f.name]) if self._limits[f.name].largest else w
            for f, w in ((f, self._weights[f.name]) for f in self._workload.families)
        }

    def unite(self) -> bool:
        """Give each query its own weight where products of weights per factor were not enough; False if none can."""
        self._restart(FASTEST)
        before = self._weights
        self._weights = {
            f.name: _united(f, w) if self._limits[f.name].largest else w
            for f, w in ((f, before[f.name]) for f in self._workload.families)
        }
        return any(self._weights[name] is not w for name, w in before.items())

    def _restart(self, exponent: float) -> None:
        """Continue from the best plan so far."""
        assert self.best is not None
        assert self.best.solved is not None
        self._plan, self._weights = self.best, self.best.solved.weighting.families
        self.stalled, self._milestone, self._exponent, self._fallen_from = 0, np.inf, exponent, 0.0

    def descend(self, gap: float) -> None:
        """Take steps until the certified gap is small enough, or nothing is gained any more."""
        while not self.is_near(gap) and self.rounds < ROUNDS:
            if self.stalled >= PATIENCE and self._exponent == 1:
                break
            if self.stalled >= PATIENCE:  # long steps may circle around the optimum
                self._restart(exponent=1.0)
            self.step()

    def step(self) -> None:
        """Move the weights towards the queries that use most of what they may."""
        weights = {f.name: self._moved(f) for f in self._workload.families}
        self.visit(_normalised(self._workload, self._limits, weights))

    def _moved(self, family: Family) -> FamilyWeights:
        weights, limit, value = self._weights[family.name], self._limits[family.name], self._plan.sse()
        allowed = limit.variance * value
        if not limit.largest:
            ratio = self._plan.family_errors(family).total / family.count / allowed
            return replace(weights, classes=tuple(_scaled(c, ratio**self._exponent) for c in weights.classes))
        seen: dict[int, ProductWeights] = {}
        for product, c in zip(family.products(), weights.class_of.tolist(), strict=True):
            if c not in seen:
                seen[c] = _moved(self._plan, family, product, weights.classes[c], allowed, self._exponent)
        return FamilyWeights(tuple(seen[c] for c in range(len(seen))), weights.class_of)


def _scaled(weights: ProductWeights, factor: float) -> ProductWeights:
    return replace(weights, weight=weights.weight * max(factor, LEAST))  # what is public has no variance at all


def _by_numbers(plan: Plan, family: Family, weights: FamilyWeights) -> FamilyWeights:
    """A class of weights per set of products with equal variances, and one array where the design allows it."""
    numbers = Numbers(plan.closure.source(family.name))
    keys = [numbers.key(p) for p in family.products()]
    place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    first: dict[int, ProductWeights] = {}
    for product, key, c in zip(family.products(), keys, weights.class_of.tolist(), strict=True):
        joint = _takes_joint(plan, family, product)
        queries = (np.ones(product.count),) if joint else weights.classes[c].queries
        first.setdefault(place[key], ProductWeights(weights.classes[c].weight, queries))
    return FamilyWeights(tuple(first.values()), np.array([place[k] for k in keys], dtype=np.int64))


def _takes_joint(plan: Plan, family: Family, product: Product) -> bool:
    """True for one of several products of a block: its Gram is no Kronecker product anyway."""
    if len(product.factors) < 2 or plan.closure.source(family.name).only is None:
        return False
    block = next(names for names in plan.closure.blocks if family.name in names)
    products = sum(plan.workload.family(name).views for name in block)
    return products > 1 and _explicit(product.factors)


def _united(family: Family, weights: FamilyWeights) -> FamilyWeights:
    """Weights per query of the products of several factors that are small enough; the same object if there are none."""
    first: dict[int, Product] = {}
    for product, c in zip(family.products(), weights.class_of.tolist(), strict=True):
        first.setdefault(c, product)
    classes = tuple(_united_class(first[c], w) for c, w in enumerate(weights.classes))
    same = all(a is b for a, b in zip(classes, weights.classes, strict=True))
    return weights if same else FamilyWeights(classes, weights.class_of)


def _united_class(product: Product, weights: ProductWeights) -> ProductWeights:
    varying = sum(q is not None for q in weights.queries)
    small = cells([n for f in product.factors for n in f.shape]) <= DENSE_CELLS and _explicit(product.factors)
    if len(product.factors) < 2 or not varying or len(weights.queries) == 1 or not small:
        return weights
    return ProductWeights(weights.weight, ((weights.table(product.shape) / weights.weight).reshape(-1),))


def _explicit(factors: Sequence[Factor]) -> bool:
    """True if the matrix of the factors' queries is small enough to be written out."""
    return int(np.prod([f.count * cells(f.shape) for f in factors])) <= TABLE


def _moved(
    plan: Plan, family: Family, product: Product, weights: ProductWeights, allowed: float, exponent: float
) -> ProductWeights:
    """The weights of a product after a step: per factor, by the mean over the others of what its queries use."""
    source = plan.closure.source(family.name)
    if product.count > TABLE:
        errors = product_errors(source, plan.strategies, plan.unit_sigma_squared, product)
        return _scaled(weights, (errors.total / product.count / allowed) ** exponent)
    queries: tuple[Array | None, ...]
    used = product_variances(source, plan.strategies, plan.unit_sigma_squared, product) / allowed
    share = weights.table(product.shape) / weights.weight / product.count
    mean = float((used * share).sum())
    if not mean:
        return _scaled(weights, LEAST)
    if len(weights.queries) != len(product.factors):
        joint = _relative((share * used**exponent).reshape(-1))
        queries = (None,) * len(product.factors) if joint is None else (joint,)
    else:
        queries = tuple(_axis(f, i, share, used, exponent) for i, f in enumerate(product.factors))
    return ProductWeights(weights.weight * mean**exponent, queries)


def _axis(factor: Factor, axis: int, share: Array, used: Array, exponent: float) -> Array | None:
    """The relative weights of one factor's queries."""
    if not _explicit([factor]):
        return None
    others = tuple(i for i in range(share.ndim) if i != axis)
    before = share.sum(axis=others)
    return _relative(before * ((share * used).sum(axis=others) / before) ** exponent)


def _relative(weights: Array) -> Array | None:
    """Weights of mean 1, none vanishing; None where all are equal."""
    weights = np.maximum(weights, LEAST * weights.max())
    weights = np.asarray(weights / weights.mean())
    return None if np.abs(weights - 1).max() <= EQUAL else weights


def _normalised(
    workload: Workload, limits: Mapping[str, Limit], weights: Mapping[str, FamilyWeights]
) -> dict[str, FamilyWeights]:
    """Weights with sum_q w_q t_q^2 = 1, none vanishing beside the largest."""
    largest = max(c.weight for w in weights.values() for c in w.classes)
    floor = LEAST * largest
    raised = {
        name: replace(w, classes=tuple(replace(c, weight=max(c.weight, floor)) for c in w.classes))
        for name, w in weights.items()
    }
    return _scaled_to_limits(workload, limits, raised)


def _scaled_to_limits(
    workload: Workload, limits: Mapping[str, Limit], weights: Mapping[str, FamilyWeights]
) -> dict[str, FamilyWeights]:
    """Weights of some or all families with sum_q w_q t_q^2 = 1."""
    families = [f for f in workload.families if f.name in weights]
    total = sum(limits[f.name].variance * _sum(f, weights[f.name]) for f in families)
    return {
        name: FamilyWeights(tuple(replace(c, weight=c.weight / total) for c in w.classes), w.class_of)
        for name, w in weights.items()
    }


def _sum(family: Family, weights: FamilyWeights) -> float:
    """Sum of the weights of all queries of a family."""
    pairs = zip(family.products(), weights.class_of.tolist(), strict=True)
    return float(sum(p.count * weights.classes[c].weight for p, c in pairs))
