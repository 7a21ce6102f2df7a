"""Small tables, plans and a source of randomness whose every draw is on record."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from qcompile.adaptive.aim import Settings, adapt
from qcompile.adaptive.history import History
from qcompile.api import Plan, compile
from qcompile.data.engines.counts import ExactCounts
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.estimates.grem import Estimates
from qcompile.plan.basis import basis_strategies
from qcompile.privacy.noise.exponential_mechanism import selection_scale
from qcompile.privacy.noise.scale import Scale
from qcompile.queries.factors import Marginal
from qcompile.strategy import Strategy
from qcompile.support.arrays import Array, IntArray
from tests.conformance.helpers import family, integers, some_counts, workload


def marginals(*sizes: int, ways: int = 2, least: int = 0, **options: Any) -> Plan:
    """All marginals of up to ``ways`` attributes of these sizes."""
    attributes = integers(*sizes)
    factors = [Marginal(a) for a in attributes]
    return compile(workload(attributes, family(*factors, choose=(least or ways, ways), name="all")), **options)


def counts_of(plan: Plan, rows: int = 5000) -> ExactCounts:
    """A skewed table that fits a plan."""
    return GivenCounts.of(full_table(plan, rows), plan.workload.schema)


def full_table(plan: Plan, rows: int = 5000) -> dict[tuple[str, ...], IntArray]:
    return {plan.workload.schema.names: some_counts(plan.workload.schema, rows)}


@dataclass
class Instrument:
    """Randomness from a fixed stream, for tests: everything drawn, and what it costs by its own account.

    Attributes:
      seed: of the stream.
      quiet: noise of 0, and the largest score is selected.
    """

    seed: int = 0
    quiet: bool = False
    cost: Fraction = Fraction(0)
    drawn: list[tuple[Strategy, Scale, str]] = field(default_factory=list)
    selected: list[tuple[IntArray, float, str]] = field(default_factory=list)
    scales: list[tuple[int, Fraction]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stream = np.random.default_rng(self.seed)

    def noise(self, strategy: Strategy, x: IntArray, scale: Scale, label: str) -> npt.NDArray[Any]:
        self.drawn.append((strategy, scale, label))
        if scale.sigma:
            norms = np.square(strategy.apply(np.eye(x.size).reshape(*x.shape, x.size))).sum(axis=0)
            self.cost += Fraction(float(norms.max())) / Fraction(scale.sigma) ** 2 / 2
        exact = strategy.apply(x.astype(np.float64))
        return exact if self.quiet else exact + scale.sigma * self._stream.standard_normal(exact.shape)

    def delivered(self, scale: Scale) -> Scale:
        return scale

    def selection_scale(self, sensitivity: int, rho: Fraction) -> float:
        self.scales.append((sensitivity, rho))
        return selection_scale(sensitivity, rho)

    def select(self, scores: IntArray, scale: float, label: str) -> int:
        self.selected.append((scores, scale, label))
        self.cost += Fraction(self.scales[-1][0]) ** 2 / (2 * Fraction(scale) ** 2)
        noise = np.zeros(len(scores)) if self.quiet else self._stream.gumbel(size=len(scores))
        return int(np.argmax(scores / scale + noise))


def adapted(
    plan: Plan, rho: Fraction, chance: Instrument, counts: ExactCounts | None = None, **settings: Any
) -> tuple[History, Estimates]:
    """A run, and what its measurements say."""
    chosen = Settings(**settings)
    strategies = basis_strategies(plan, chosen.basis)
    table = counts_of(plan) if counts is None else counts
    history, values = adapt(plan, table, rho, strategies, chance, chosen)
    estimates = Estimates(plan.closure, strategies)
    for node, precision in history.precisions().items():
        estimates.add(node, values[node], precision)
    return history, estimates


def exact_marginal(plan: Plan, counts: ExactCounts, node: int) -> Array:
    return counts.table(plan.closure.names(plan.closure.nodes[node])).astype(np.float64)


def error(plan: Plan, counts: ExactCounts, estimate: Any) -> float:
    """Mean L1 distance of the views' estimates to the truth, relative to the rows."""
    views = [i for i, n in enumerate(plan.closure.nodes) if plan.closure.names(n) in plan.workload.views]
    off = [float(np.abs(estimate(i) - exact_marginal(plan, counts, i)).sum()) for i in views]
    return math.fsum(off) / len(off) / counts.total
