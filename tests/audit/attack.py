"""A distinguishing attack: who sees one release must not tell two neighbouring tables apart better than was promised.

The adversary gets a black box that releases a table of the adversary's choice as often as wanted. From pilot releases
of both tables comes the best linear statistic (Fisher's discriminant, which for Gaussian noise is the likelihood ratio)
and a set of thresholds. Fresh releases then give, for every threshold t, how often ``T > t`` on either table. For a
mechanism of cost b these chances satisfy, whatever the statistic,

- ``Phi^-1(P(T > t | D)) - Phi^-1(P(T > t | D')) <= sqrt(b)`` (Gaussian differential privacy: Dong, Roth, Su 2019,
  arXiv 1905.02383, Theorem 2.7 and equation 6),
- ``P(T > t | D) - e^epsilon P(T > t | D') <= delta(epsilon)`` for every epsilon, also with the tables exchanged.

Both are compared with one-sided bounds (Clopper, Pearson 1934) that hold for all thresholds and both tables at once but
with probability `ALARM`: the attack convicts, or it says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from qcompile.api import Plan
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.privacy.budget import Budget
from qcompile.privacy.noise.scale import Scale
from qcompile.release.values import NodeValues
from qcompile.run import measure as measuring
from qcompile.run import randomness
from qcompile.strategy import Strategy
from qcompile.strategy.base import ExactEntries
from qcompile.support.arrays import Array, IntArray
from tests.audit.exported import Relation

ALARM = 1e-8
"""Chance that one attack convicts a mechanism that keeps its promise; a hundred attacks together: 1e-6."""

PUBLIC_SIGMA = 1e-9
"""Stands for the noise of what is released exactly: tables that differ in it are the farthest apart."""

QUANTILES = (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99, 1 - 1e-3, 1 - 1e-4)
"""Of the pilot statistic on either table; the thresholds."""

PILOTS = 200
"""Fewest pilot releases of a table."""

BlackBox = Callable[[IntArray, int, int], Array]
"""``sample(table, repetitions, seed)``: all released numbers, ``(repetitions, numbers)``."""


class Stacked:
    """A strategy measured many times on the same counts by one call of the noise.

    All repetitions of the first row come first, then those of the second: if two nodes drew from the same stream, they
    would share the noise of a row in every repetition, as they would in every run.
    """

    def __init__(self, strategy: Strategy, repetitions: int) -> None:
        self._strategy, self._repetitions = strategy, repetitions

    def apply(self, x: Array) -> Array:
        """``B x``, over and over."""
        return np.repeat(self._strategy.apply(x), self._repetitions)

    def rounding_error(self, x: Array) -> float:
        """That of the strategy."""
        return self._strategy.rounding_error(x)

    def rounding_errors(self, x: Array) -> Array:
        """Those of the strategy, over and over."""
        return np.repeat(self._strategy.rounding_errors(x), self._repetitions)

    @property
    def rows(self) -> int:
        """Number of measurements."""
        return self._strategy.rows * self._repetitions

    def exact_entries(self, x: IntArray) -> ExactEntries:
        """Those of the strategy, for the rows that are repeated."""
        entries = self._strategy.exact_entries(x)
        return lambda rows: entries(rows // self._repetitions)


def releases(
    plan: Plan, charge: Fraction, table: IntArray, repetitions: int, seed: int, noise: str = "rounded"
) -> Array:
    """Many releases of one table by the code that releases: `measure`, with the noise that a run uses.

    Args:
      plan: what to measure.
      charge: rho.
      table: counts of the whole domain.
      repetitions: how many.
      seed: of the noise, so that the audit repeats itself; OpenDP's takes none.
      noise: "rounded", "opendp" or "none".

    Returns:
      All measurements in counts, node by node, ``(repetitions, numbers)``.
    """
    schema, scales = plan.workload.schema, plan.scales(charge)
    made = randomness.make_noise(noise, None if noise == "opendp" else seed)

    def stacked(strategy: Strategy, x: IntArray, scale: Scale, node: str) -> NodeValues:
        return made(cast("Strategy", Stacked(strategy, repetitions)), x, scale, node)

    counts = GivenCounts.of({schema.names: table.reshape(schema.shape(schema.names))}, schema)
    values = measuring.collect(measuring.measure(plan, counts, scales, stacked), len(plan.closure.nodes))
    found = []
    for v, c in zip(values, plan.closure.class_of.tolist(), strict=True):
        if c >= 0:
            # (copies, rows, repetitions): the sampler may return several copies, if it is broken.
            each = v.reshape(-1, plan.strategies[c].rows, repetitions)
            steps = scales[c].grid if v.dtype.kind == "i" else 1.0
            found.append(np.moveaxis(each, 2, 0).reshape(repetitions, -1) * steps)
    return np.concatenate(found, axis=1)


def black_box(plan: Plan, charge: Fraction, noise: str = "rounded") -> BlackBox:
    """The releases of a plan as a black box."""
    return lambda table, repetitions, seed: releases(plan, charge, table, repetitions, seed, noise)


def delivered_worst_pair(plan: Plan, charge: Fraction) -> tuple[IntArray, IntArray]:
    """The neighbouring tables that are farthest apart by what the code computes, whatever the plan exports."""
    cells = math.prod(plan.workload.schema.shape(plan.workload.schema.names))
    scales = plan.scales(charge)
    rows = [np.full(plan.strategies[c].rows, scales[c].sigma) for c in plan.closure.class_of.tolist() if c >= 0]
    sigma = np.concatenate(rows)
    tables = np.eye(cells, dtype=np.int64)
    columns = np.concatenate([releases(plan, charge, t, 1, 0, "none") for t in tables]).T
    relation = Relation.of(plan)
    distances = relation.distances(columns / np.maximum(sigma, PUBLIC_SIGMA)[:, None])
    return relation.pair(int(distances.argmax()), cells)


def random_pair(plan: Plan, seed: int) -> tuple[IntArray, IntArray]:
    """Any neighbouring tables."""
    cells = math.prod(plan.workload.schema.shape(plan.workload.schema.names))
    relation = Relation.of(plan)
    found = relation.histograms(cells)
    first, second = np.random.default_rng(seed).choice(len(found), size=2, replace=False)
    if relation.neighbours == "add-remove":
        return found[first], np.zeros(cells, dtype=np.int64)
    return found[first], found[second]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the attack found.

    Attributes:
      mu: a lower confidence bound of the Gaussian differential privacy parameter.
      estimate: the parameter at the threshold between the two tables, without allowance for chance.
      chances: lower bounds of ``P(event | one table)`` with upper bounds of ``P(event | other table)``.
    """

    mu: float
    estimate: float
    chances: Sequence[tuple[float, float]]

    def delta(self, epsilon: float) -> float:
        """A lower confidence bound of delta at an epsilon."""
        return max(high - math.exp(epsilon) * low for high, low in self.chances)


def attack(
    sample: BlackBox, first: IntArray, second: IntArray, repetitions: int, seed: int, direction: Array | None = None
) -> Evidence:
    """Tell two tables apart by their releases.

    Args:
      sample: the mechanism.
      first: counts of one table, ``(cells,)``.
      second: of the other.
      repetitions: fresh releases of each table; a quarter as many pilots, or `PILOTS`.
      seed: of the releases.
      direction: the linear statistic; that of the pilots where None.

    Raises:
      AssertionError: a number is released without noise and differs.
    """
    pilots = [sample(t, max(PILOTS, repetitions // 4), 4 * seed + i) for i, t in enumerate((first, second))]
    direction = discriminant(*pilots) if direction is None else direction
    projected = [p @ direction for p in pilots]
    thresholds = np.unique([np.quantile(p, QUANTILES) for p in projected])
    fresh = [sample(t, repetitions, 4 * seed + 2 + i) @ direction for i, t in enumerate((first, second))]
    counts = [np.array([(f > t).sum() for t in thresholds]) for f in fresh]
    level = ALARM / (2 * len(thresholds))
    least = lower_chance(counts[0], repetitions, level)
    most = 1 - lower_chance(repetitions - counts[1], repetitions, level)
    middle = (projected[0].mean() + projected[1].mean()) / 2
    rates = [float(np.clip((f > middle).mean(), 0.5 / repetitions, 1 - 0.5 / repetitions)) for f in fresh]
    above, below = zip(least, most, strict=True), zip(1 - most, 1 - least, strict=True)
    return Evidence(
        mu=float((normal_quantile(least) - normal_quantile(most)).max()),
        estimate=float(normal_quantile(rates[0]) - normal_quantile(rates[1])),
        chances=[(float(p), float(q)) for p, q in (*above, *below)],
    )


def normal_quantile(p: Any) -> Any:
    """``Phi^-1``."""
    from scipy.special import ndtri

    return ndtri(p)


def lower_chance(successes: IntArray, n: int, level: float) -> Array:
    """Clopper and Pearson's lower bounds of chances, each wrong with probability ``level`` at most."""
    from scipy.special import betaincinv

    k = np.maximum(successes, 1).astype(np.float64)
    return np.where(successes > 0, betaincinv(k, n - k + 1, level), 0.0)


def discriminant(first: Array, second: Array) -> Array:
    """Fisher's direction: the inverse covariance times the difference of means; scaled by the noise of each number."""
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    still = spread == 0
    assert (first[:, still] == second[:, still]).all(), "a number without noise tells the tables apart"
    scale = np.where(still, np.inf, spread)
    covariance = (np.cov(first / scale, rowvar=False) + np.cov(second / scale, rowvar=False)) / 2
    away = (first.mean(axis=0) - second.mean(axis=0)) / scale
    # The ridge keeps numbers that share their noise apart from a division by zero; their difference still stands out.
    solved = np.linalg.solve(np.atleast_2d(covariance) + 1e-9 * np.eye(len(away)), away)
    return np.asarray(solved / scale)


def check_attack(
    plan: Plan,
    charge: Fraction,
    pair: tuple[IntArray, IntArray],
    repetitions: int,
    seed: int,
    noise: str = "rounded",
    note: object = "",
) -> Evidence:
    """The attack on a neighbouring pair stays under every promise of the charge.

    Args:
      plan: what is released.
      charge: rho, exactly.
      pair: the rows of one unit in either table.
      repetitions: releases of each table.
      seed: of the noise.
      noise: its kind.
      note: goes into the message of a failure.
    """
    evidence = attack(black_box(plan, charge, noise), *among_others(pair), repetitions, seed)
    check_evidence(evidence, charge, note)
    return evidence


def among_others(pair: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """The rows of one unit with those of others, which both tables have; some cells stay empty."""
    others = np.arange(len(pair[0])) % 3
    return others + pair[0], others + pair[1]


def check_evidence(evidence: Evidence, charge: Fraction, note: object = "") -> None:
    """What an attack found stays under the Gaussian curve, the zCDP curve and the mu of a charge."""
    budget = Budget(rho=charge)
    mu = float(budget.mu)
    assert evidence.mu <= mu, f"mu is at least {evidence.mu:.4f}, promised {mu:.4f}: {note}"
    for times in (0.05, 0.5, 1.0, 2.0, 3.0):
        epsilon = round(times * mu, 6)
        found = evidence.delta(epsilon)
        for accounting in ("gaussian", "zcdp"):
            promised = float(budget.delta_at(epsilon, accounting))
            text = f"delta at epsilon {epsilon} is at least {found:.3g}, promised {promised:.3g} ({accounting}): {note}"
            assert found <= promised, text
